//! Usages: nothing that is in use can be deleted, and a denied deletion is replayed when the use
//! ends.
//!
//! A Usage says that an object is used, by another one or for a reason. Its reconciler marks the
//! used object, so that admission is called before it is deleted; holds it until the user is gone
//! by uid; releases it, replays the deletion that was denied meanwhile, and then finishes the
//! Usage.
//!
//! Read in this order: [`mod@reference`] and [`aggregate`] (the row), [`facts`] (what may be
//! branched on), [`reconcile`] (what happens next and why), [`selector`] (which objects are meant),
//! [`attempt`] (what was denied), [`snapshot`] and [`observe`] (how answers become facts),
//! [`reconciler`] (the kernel's view of all that), [`accept`] and [`command`] (what a person can
//! request), [`graph`] (the holders of each object), [`admit`] (what the API server may do),
//! [`stray`] (marks that no Usage accounts for).

pub mod accept;
pub mod admit;
pub mod aggregate;
pub mod attempt;
pub mod command;
pub mod condition;
pub mod effect;
pub mod event;
pub mod facts;
pub mod graph;
pub mod observe;
pub mod phase;
pub mod reason;
pub mod reconcile;
pub mod reconciler;
pub mod reference;
pub mod refusal;
pub mod replay;
pub mod selector;
pub mod snapshot;
pub mod stray;
pub mod verdict;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod laws;
