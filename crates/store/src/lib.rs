//! The SQL ledger: one commit path, a due-queue, an event log with a cursor, migrations.
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
//! - One transaction writes state, identity rows, event, side writes and the queue, or nothing.
//! - A commit holds only if the version it was decided on does; an unchanged state is not written.
//! - Leases, due times and `now` come from the database's clock.
//! - No reader of the log skips a row, however late it was committed.
//! - A row that breaks the rules of its own aggregate is parked and stops no other.
//! - The closed sets of the code are the CHECKs of both schemas; reasons have none.
#![expect(clippy::duplicate_mod, reason = "one text for both databases, compiled once for each")]

mod column;
mod error;
mod events;
mod follow;
mod keys;
mod ledger;
mod machines;
pub mod migrate;
mod peers;
mod port;
mod postgres;
mod presence;
mod queue;
pub mod relay;
mod resources;
mod retention;
mod settings;
mod signal;
mod sinks;
mod sqlite;
mod store;
mod tenancy;
mod tokens;
mod worlds;

pub use error::Error;
pub use follow::{Follower, News};
pub use keys::KeyUse;
pub use ledger::{InTime, LeasedLedger};
pub use machines::{
    Acquisition, Brake, Cycle, Demand, HOLDER, JudgedDemand, List, ListedAt, MachineCommand,
    MachineQuery, MachineWrite, Roll, RollUp, ShardLease, ShardState, StoredMachine, Written,
};
pub use peers::{PeerFilter, PeerStatus};
pub use port::{
    About, Acceptance, BadCursor, Batch, Command, ConfigWrite, Cursor, Held, Installation, Layer,
    Leased, LoggedEvent, Provenance, Release, RememberedKey, ResourceWrite, Snapshot, Stay,
    WorkItem,
};
pub use presence::{Presence, ServerNumber, Sighting};
pub use queue::QueueStatus;
pub use resources::{
    ConfigState, DisplayNames, ListedResource, ResourceContext, ResourceFilter, TokenSummary,
};
pub use retention::{Retention, Swept};
pub use settings::{Moved, Place, Settings};
pub use signal::Signal;
pub use sinks::{Beginning, RoundEnd, Settlement, SinkState};
pub use store::Store;
pub use tenancy::WithAudit;
pub use worlds::WorldState;

use usher_kernel::schedule::Jitter;
use uuid::Uuid;

/// The longest text of others that is kept, in characters.
const TEXT_MAX: usize = 2_000;

/// A text from outside as every database can keep it: bounded, without NUL.
fn keepable(text: &str) -> String {
    let replace = |c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().take(TEXT_MAX).map(replace).collect()
}

/// A random share of a back-off.
fn jitter() -> Jitter {
    let [.., a, b, c, d] = Uuid::now_v7().into_bytes();
    Jitter(u32::from_be_bytes([a, b, c, d]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_others_is_kept_bounded_and_without_nul() {
        assert_eq!(keepable("a\0\nb"), "a\u{fffd}\nb");
        assert_eq!(keepable(&"é".repeat(TEXT_MAX + 1)), "é".repeat(TEXT_MAX));
    }

    #[test]
    fn jitter_is_not_always_the_same() {
        let drawn: std::collections::BTreeSet<u32> = (0..32).map(|_| jitter().0).collect();
        assert!(drawn.len() > 16);
    }
}
