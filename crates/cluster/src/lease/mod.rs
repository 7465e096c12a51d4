//! The Lease: one process acts, and one that was overtaken sends nothing.
//!
//! ```text
//!   elector ──acquires, renews──▶ Lease object        other processes watch it
//!      │
//!      └─publishes─▶ term ──may_send, epoch, now──▶ runner, records, effects
//! ```
//!
//! **Invariants**
//! - Between the last request of one holder and the first one of the next lies a part of a lease,
//!   by the clock of each: no clock is compared with another.
//! - A process that was suspended learns it before it sends.
//! - At rest the holder writes the Lease once per renewal, and the others watch it.
//!
//! A request that was sent in time may still arrive late: beneath the Lease, every write compares a
//! resourceVersion or a uid, and every record has the epoch that wrote it.

mod clock;
mod elector;
mod object;
mod term;
mod times;

pub use clock::Clock;
pub use elector::{Elector, Settings};
pub use object::LeaseName;
pub use term::{Beginning, Term, TermControl};
pub use times::{Times, TimesError};

/// The name of the Lease of a cluster, whichever program holds it.
pub const LEASE: &str = "usher";
