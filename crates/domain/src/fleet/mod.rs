//! The fleet: machines are had, bound to clusters, drained and given back through providers that
//! answer late.
//!
//! Read in this order: [`aggregate`] (the row), [`facts`] (what may be branched on), [`reconcile`]
//! (what happens next and why), [`observe`] and [`merge`] (how a snapshot becomes a row),
//! [`reconciler`] (the kernel's view of all that), [`plan`] (which machine serves which cluster),
//! [`accept`] and [`command`] (what comes in and what can be requested).
//!
//! The plan writes aims, the reconciler of each machine pursues its own:
//!
//! ```text
//!   roll-ups ──▶ plan ──aims──▶ row ──▶ reconciler ──verbs──▶ provider
//!                 ▲              ▲        │                      │
//!                 └──── index ◀──┴─merge ◀┴── snapshots: acknowledgement, Get, List
//! ```
//!
//! **Invariants**
//! - A binding is cleared by the arrival in an unbound phase and by nothing else.
//! - A token is recorded before it is used, and no snapshot from before the last token counts.
//! - No error of a provider changes a row: the next snapshot decides.
//! - A record whose offer cannot be read is followed in all other parts.
//! - A machine that a resource holds, or whose binding is in dispute, is no candidate of the plan.

pub mod accept;
pub mod aggregate;
pub mod binding;
pub mod command;
pub mod effect;
pub mod error;
pub mod event;
pub mod facts;
pub mod ident;
pub mod issue;
pub mod list;
pub mod merge;
pub mod money;
pub mod observe;
pub mod phase;
pub mod plan;
pub mod quantity;
pub mod reason;
pub mod reconcile;
pub mod reconciler;
pub mod refusal;
pub mod snapshot;
pub mod verdict;

#[cfg(test)]
mod edges;
#[cfg(test)]
mod fixture;
#[cfg(test)]
mod laws;
