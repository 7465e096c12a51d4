//! How a store is opened: where it is, and its settings.

use std::path::PathBuf;
use std::time::Duration;

use usher_kernel::schedule::Pace;

/// A poll may be late by seconds on a busy machine.
const PRESENCE_MIN: Duration = Duration::from_secs(15);

/// Where the rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A PostgreSQL server, by its URL.
    Postgres(String),
    /// A file of our own.
    Sqlite(PathBuf),
}

/// What to do with a database that was seen elsewhere before: a clone, or a restored backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Moved {
    /// It is another installation: nothing that the first one made is touched.
    #[default]
    NewInstallation,
    /// It is the same one, and the first database is gone.
    SameInstallation,
}

/// The settings of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What to do with a database that was seen elsewhere before.
    pub moved: Moved,
    /// The settings of the queue.
    pub pace: Pace,
    /// How long a request may outlive its worker's lease.
    pub request_bound: Duration,
    /// The most connections to PostgreSQL, or readers of SQLite.
    pub connections_max: u32,
    /// How long one statement may take.
    pub statement_timeout: Duration,
    /// How long to wait for a row that another transaction holds.
    pub lock_timeout: Duration,
    /// How long a transaction may wait for its next statement.
    pub idle_timeout: Duration,
    /// How long to wait for a connection.
    pub connect_timeout: Duration,
    /// The most writes that one commit carries.
    pub group_max: usize,
    /// How often a reader of the log of PostgreSQL polls for writes of other processes; what this
    /// one writes is seen at once. SQLite has no other processes and is not polled.
    pub log_poll: Duration,
}

impl Settings {
    /// How long a server may be silent until the others count it as absent.
    pub(crate) fn presence(&self) -> Duration {
        self.log_poll.saturating_mul(3).max(PRESENCE_MIN)
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            moved: Moved::default(),
            pace: Pace::default(),
            request_bound: Duration::from_secs(10),
            connections_max: 16,
            statement_timeout: Duration::from_secs(10),
            lock_timeout: Duration::from_secs(5),
            idle_timeout: Duration::from_secs(10),
            connect_timeout: Duration::from_secs(5),
            group_max: 64,
            log_poll: Duration::from_secs(5),
        }
    }
}
