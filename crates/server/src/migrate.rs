//! Migration of the database schema, up or down.

pub use usher_store::Place;
pub use usher_store::migrate::{Direction, Status, Step};

use usher_store::Store;

use crate::error::ServerError;

/// Migrates a database and reports each migration when it is done.
pub async fn migrate(
    place: &Place,
    way: Direction,
    progress: &mut (dyn FnMut(Step) + Send),
) -> Result<Status, ServerError> {
    Ok(Store::migrate_telling(place, way, progress).await?)
}
