//! The store on either database: opening, migrating, following; other methods are with their nouns.

use std::sync::atomic::Ordering;
use std::time::Duration;

use usher_kernel::Timestamp;

use crate::error::Error;
use crate::follow::Follower;
use crate::migrate::{Direction, Progress, Status};
use crate::port::{Cursor, Installation};
use crate::retention::{Retention, Swept};
use crate::settings::{Place, Settings};
use crate::signal::{Signal, Signals};
use crate::{postgres, sqlite};

/// The durable side of the kernel's ledger.
#[derive(Debug)]
pub struct Store {
    pub(crate) inner: Inner,
}

#[derive(Debug)]
pub(crate) enum Inner {
    Postgres(postgres::sql::port::Port),
    Sqlite(sqlite::sql::port::Port),
}

/// Declares verbs that both databases have.
macro_rules! verbs {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)+) => {
        impl Store {$(
            $(#[$doc])*
            pub async fn $name(&self, $($arg: $kind),*) -> $answer {
                match &self.inner {
                    Inner::Postgres(port) => port.$name($($arg),*).await,
                    Inner::Sqlite(port) => port.$name($($arg),*).await,
                }
            }
        )+}
    };
}
pub(crate) use verbs;

impl Store {
    /// Opens a store whose schema is the one of this program.
    pub async fn open(place: &Place, settings: Settings) -> Result<Self, Error> {
        let inner = match place {
            Place::Postgres(url) => Inner::Postgres(postgres::open(url, settings).await?),
            Place::Sqlite(path) => Inner::Sqlite(sqlite::open(path, settings).await?),
        };
        Ok(Self { inner })
    }

    /// Migrates a schema up or down, or reports its state.
    pub async fn migrate(place: &Place, way: Direction) -> Result<Status, Error> {
        Self::migrate_telling(place, way, &mut |_| {}).await
    }

    /// As [`Store::migrate`], and reports every step.
    pub async fn migrate_telling(
        place: &Place,
        way: Direction,
        progress: &mut Progress<'_>,
    ) -> Result<Status, Error> {
        match place {
            Place::Postgres(url) => postgres::migrate(url, way, progress).await,
            Place::Sqlite(path) => sqlite::migrate(path, way, progress).await,
        }
    }

    /// Which installation this is.
    pub const fn installation(&self) -> Installation {
        match &self.inner {
            Inner::Postgres(port) => port.installation,
            Inner::Sqlite(port) => port.installation,
        }
    }
}

impl Store {
    /// Follows the log after a place; the one reader of everything that waits for events.
    pub fn follow(&self, after: Cursor) -> Follower<'_> {
        Follower::new(self, after)
    }

    /// Sees from now on when this process's own writes make an item due. What others write, and
    /// what becomes due by time, is found by [`Store::claim_due`] only.
    pub fn due(&self) -> Signal {
        self.signals().due()
    }

    /// How many writes this process has requested.
    pub fn writes(&self) -> u64 {
        match &self.inner {
            Inner::Postgres(port) => port.pool.writes.load(Ordering::Relaxed),
            Inner::Sqlite(port) => port.pool.writes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn signals(&self) -> &Signals {
        match &self.inner {
            Inner::Postgres(port) => &port.signals,
            Inner::Sqlite(port) => &port.signals,
        }
    }

    /// Whether other processes can have this store open.
    pub const fn is_shared(&self) -> bool {
        self.log_poll().is_some()
    }

    /// How often to poll for writes of other processes, if there can be any.
    pub const fn log_poll(&self) -> Option<Duration> {
        match &self.inner {
            Inner::Postgres(port) => Some(port.settings.log_poll),
            Inner::Sqlite(_) => None,
        }
    }
}

verbs! {
    /// Deletes one batch of old rows, and returns whether there is more and which sink keeps it.
    /// There is no timer here: a worker calls it, again after [`Swept::next`].
    fn sweep(retention: Retention) -> Result<Swept, Error>;
    /// The database's time.
    fn now() -> Result<Timestamp, Error>;
    /// Closes the connections.
    fn close() -> ();
}
