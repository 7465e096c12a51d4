//! Everything that speaks to a Kubernetes API.
//!
//! It is the one room in which rules meet Kubernetes: what a request asks, what an answer means,
//! where a record is kept, and which replica acts.
//!
//! ```text
//!   lease ──term──▶ runner ──steps──▶ an item ──▶ pin ──▶ read ──▶ facts for the domain's rules
//!   watches ──wake────▲                  │                 │
//!                                        │ client ◀─ kinds ◀──▶ answer: present, absent, kind
//!                                        ▼   ▲                          removed, unknown
//!             load, commit, report: records ─┴── a mutating request, if the term permits it
//! ```
//!
//! **Invariants**
//! - A request is sent once and has a bound; the reconcile loop owns time and retries.
//! - Absence is a confirmed answer of the pinned cluster; everything else is unknown.
//! - A watch wakes and is never read from.
//! - A record is written over the version that was loaded, by the holder of the lease.
//! - One process acts; one that was overtaken sends nothing.
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
