//! Every statement of the store, once, by noun.
//!
//! This folder is compiled twice, as `postgres::sql` and as `sqlite::sql`. What differs is in
//! the two modules around it: the types `Db`, `Conn` and `Pool`, and the macros for the few pieces
//! of SQL that the databases spell differently. Everything else is one text for both.
//!
//! **Invariants**
//! - No transaction waits for an advisory lock or notifies: nothing serialises the commits. The
//!   lock of a server's presence is its own, and no other ever takes it.
//! - Locks are taken in one order: the record's row, then its tokens, then the key, then the
//!   ProviderConfig's row; entries of the queue last, unless the record's row is held.
//! - A row is locked by one statement and read by the next: a statement that waits for a lock sees
//!   the other tables as they were before it waited.

#[macro_use]
pub(crate) mod port;
pub(crate) mod audit;
pub(crate) mod events;
pub(crate) mod group;
pub(crate) mod idempotency;
pub(crate) mod installation;
pub(crate) mod keys;
pub(crate) mod machines;
pub(crate) mod migrate;
pub(crate) mod names;
pub(crate) mod peers;
pub(crate) mod presence;
pub(crate) mod provider_configs;
pub(crate) mod queue;
pub(crate) mod record;
pub(crate) mod resources;
pub(crate) mod sinks;
pub(crate) mod tenancy;
pub(crate) mod tokens;
pub(crate) mod worlds;

pub(crate) use super::{Conn, Db, Pool};
