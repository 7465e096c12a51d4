//! Every statement of the store, once.
//!
//! This folder is compiled twice, as `postgres::sql` and as `sqlite::sql`. What differs stands in
//! the two modules around it: the types `Db` and `Conn`, and the macros for the few pieces of SQL
//! that the databases spell differently. Everything else is one text for both.
//!
//! **Invariants**
//! - No statement takes an advisory lock or notifies: nothing serialises the commits.
//! - Locks are taken in one order: the life's row, then its tokens, then the ProviderConfig's row;
//!   entries of the queue last, unless the life's row is held.
//! - A row is locked by one statement and read by the next: a statement that waits for a lock sees
//!   the other tables as they were before it waited.

pub(crate) mod accept;
pub(crate) mod beside;
pub(crate) mod claim;
pub(crate) mod command;
pub(crate) mod commit;
pub(crate) mod drains;
pub(crate) mod enrolment;
pub(crate) mod events;
pub(crate) mod fleet;
pub(crate) mod gather;
pub(crate) mod inside;
pub(crate) mod installation;
pub(crate) mod migrate;
pub(crate) mod names;
pub(crate) mod peers;
pub(crate) mod port;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod siblings;
pub(crate) mod sinks;
pub(crate) mod snapshot;
pub(crate) mod wakes;
