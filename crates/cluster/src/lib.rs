//! Everything that speaks to a Kubernetes API.
//!
//! It is the one room in which rules meet Kubernetes: what a request asks, what an answer means,
//! where a record is kept, and which replica acts.
//!
//! ```text
//!   watches ──wake──▶ an item ──▶ pin ──▶ read ──▶ facts for the domain's rules
//!                                          │
//!                  client ◀── kinds ◀──────┴──▶ answer: present, absent, kind removed, unknown
//!                    ▲
//!   the kernel's step ──load, commit, report──▶ records, within the term of the lease
//! ```
//!
//! **Invariants**
//! - A request is sent once and has a bound; the reconcile loop owns time and retries.
//! - Absence is a confirmed answer of the pinned cluster; everything else is unknown.
//! - A watch wakes and is never read from.
//! - A record is written over the version that was loaded, by the holder of the lease.
//!
//! **Absent**: SQL, and every decision about what to do next.

pub mod answer;
pub mod client;
pub mod crds;
pub mod guard;
pub mod kinds;
pub mod lease;
pub mod pin;
pub mod read;
pub mod records;
pub mod runner;
pub mod watches;
