//! Pins and mass-deletion guards as rows of the database.

use std::sync::Arc;

use usher_domain::object::authority::{BoxFuture, Pin, WorldRecord, WorldRecords};
use usher_kernel::Trouble;
use usher_store::{Store, WorldState};

/// The rows of the worlds.
#[derive(Clone, Debug)]
pub struct SqlWorldRecords(pub Arc<Store>);

impl WorldRecords for SqlWorldRecords {
    fn read<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<Option<WorldRecord>, Trouble>> {
        Box::pin(async move {
            let row = self.0.world(world).await.map_err(|error| error.trouble())?;
            Ok(row.map(record))
        })
    }

    fn pin<'a>(&'a self, world: &'a str, pin: Pin) -> BoxFuture<'a, Result<WorldRecord, Trouble>> {
        Box::pin(async move {
            let row = self.0.pin_world(world.to_owned(), pin).await;
            Ok(record(row.map_err(|error| error.trouble())?))
        })
    }

    fn trip<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<bool, Trouble>> {
        Box::pin(async move {
            let tripped = self.0.set_guard(world.to_owned(), true).await;
            tripped.map_err(|error| error.trouble())
        })
    }

    fn present<'a>(&'a self, world: &'a str) -> BoxFuture<'a, Result<u32, Trouble>> {
        Box::pin(async move { self.0.count_present(world).await.map_err(|error| error.trouble()) })
    }
}

/// A row as the guard uses it.
pub fn record(row: WorldState) -> WorldRecord {
    WorldRecord { pin: row.pin, tripped_at: row.tripped_at, reset_at: row.opened_at }
}
