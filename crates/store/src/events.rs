//! The store's methods for the event log.

use usher_kernel::Timestamp;

use crate::error::Error;
use crate::port::{Cursor, LoggedEvent};
use crate::store::{Inner, Store, verbs};

verbs! {
    /// Reads the events after a cursor, in the order of the log; nothing is ever skipped.
    fn events(after: Cursor, count: u32) -> Result<Vec<LoggedEvent>, Error>;
    /// Whether there are events after a cursor that may not be read yet, because an open
    /// transaction could still come before it.
    fn is_held_back(after: Cursor) -> Result<bool, Error>;
    /// The last place of the log that can be read.
    fn log_end() -> Result<Cursor, Error>;
    /// Deletes events from the beginning of the log that are older than this and were delivered to
    /// every sink, up to so many.
    fn forget_events(older_than: Timestamp, count: u32) -> Result<u64, Error>;
}
