//! Records: what a reconciler knows of one object, kept as an object of its own in our namespace.
//!
//! ```text
//!   load ──▶ collection ──GET──▶ present: read and checked
//!                       └──404, LIST──▶ absent: what the codec begins with, or gone
//!   commit ──▶ create, or patch with the resourceVersion that was loaded
//!                 └─ no answer ──GET──▶ written, not written (yet), or written by another
//! ```
//!
//! The object that a record is about has no part in it: its status can be pruned, restored and
//! forged, and it may be gone before its record is.
//!
//! **Invariants**
//! - A record is written only over the version that was loaded, within the term of the Lease, and
//!   never in an older term than before.
//! - A record is absent only by a list that is not older than anything seen before; every other
//!   failure is trouble. A record older than one that was seen is trouble, too.
//! - A write whose answer was lost is done only if the record says so.
//! - A record is deleted only as it was loaded, and one of an orphan never.

mod collection;
mod content;
mod ledger;
mod object;

pub use collection::{Listed, Records};
pub use content::{Codec, Emitted};
pub use ledger::RecordLedger;
pub use object::{Of, RecordObject, Spec, Target};

/// The largest content of a record in bytes.
pub const DATA_MAX: usize = 256 * 1024;
/// The longest phase.
pub const PHASE_MAX: usize = 63;
/// The longest reason.
pub const REASON_MAX: usize = 63;
/// The longest trouble that is shown.
pub const TROUBLE_MAX: usize = 1024;
