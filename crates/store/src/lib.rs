//! The SQL ledger: one commit door, a due-queue, an event log with a cursor, migrations.
//!
//! ```text
//!   Store ──┬─ postgres: pool ─────────────── one transaction per write
//!           └─ sqlite: one writer, readers ── many writes per transaction
//!                 both: sql/ (compiled twice, one text)
//! ```
//!
//! Why the two databases, one text, and the shape of the tables: see the decision record of the
//! store.
//!
//! **Invariants**
//! - One transaction writes state, identity rows, event, consequences and the queue, or nothing.
//! - A commit holds only if the version it was decided on does; an unchanged state is not written.
//! - Leases, due times and `now` come from the database's clock.
//! - No reader of the log skips a row, however late it was committed.
//! - A row that breaks the rules of its own aggregate is parked and stops nobody else.
//! - The closed sets of the code are the CHECKs of both schemas.
#![expect(clippy::duplicate_mod, reason = "one text for both databases, compiled once for each")]

mod column;
mod error;
mod ledger;
mod life;
pub mod migrate;
mod port;
mod postgres;
mod settings;
mod siblings;
mod sqlite;
mod store;

pub use error::Error;
pub use ledger::Turn;
pub use life::Life;
pub use port::{
    Acceptance, BadCursor, Batch, ConfigWrite, Cursor, Held, Installation, Layer, Leased, Order,
    Provenance, Release, RememberedKey, ResourceWrite, Snapshot, Told,
};
pub use settings::{Moved, Place, Settings};
pub use store::Store;

use usher_kernel::schedule::Jitter;
use uuid::Uuid;

/// A random share of a back-off.
fn jitter() -> Jitter {
    let [.., a, b, c, d] = Uuid::now_v7().into_bytes();
    Jitter(u32::from_be_bytes([a, b, c, d]))
}
