//! The one loop and its laws: *load → observe → decide → apply → commit*.
//!
//! ```text
//!   Ledger ──load──▶ Record ─┐
//!                            ├─▶ decide (pure, total) ─▶ Decision ─┬─ effect ─▶ World
//!   World ──observe─▶ seen ──┘                                     └─ commit ─▶ Ledger
//! ```
//!
//! It is a crate of its own so that nothing here can know a phase, a database or a cluster.
//!
//! **Invariants**
//! - No runtime, no clock, no randomness, no logging, no I/O: time and jitter are arguments.
//! - At most one effect per decision; a decision with an event has no effect.
//! - An unchanged state is not written, and neither is an unchanged reason or trouble.
//! - An incomplete snapshot is never a reason to wait without a timer.
//! - Nothing but a positive answer turns a name into *gone*.

pub mod id;
pub mod identity;
pub mod lifecycle;
pub mod reconciler;
pub mod requeue;
pub mod schedule;
pub mod step;
pub mod time;
pub mod trouble;
pub mod verdict;
pub mod visibility;
mod words;

pub use id::{Fence, Generation, Uid, Version};
pub use identity::{
    Answer, Evidence, Name, NameLedger, NameState, Row, SETTLED_KEPT, Sighting, Unknown,
};
pub use lifecycle::{Condition, Decision, Ledger, Lifecycle, Record, Wake, World};
pub use reconciler::{Reconciled, Reconciler, VerdictOf};
pub use requeue::{Requeue, Timers};
pub use step::{Report, Stage, Stopped, step};
pub use time::Timestamp;
pub use trouble::{Retry, Trouble};
pub use verdict::Verdict;
pub use visibility::{Observation, Visibility};
