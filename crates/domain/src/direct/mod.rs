//! Direct resources: one Kubernetes object, one cloud object, and a deletion that needs no parent.
//!
//! Read in this order: [`aggregate`] (the row), [`facts`] (what may be branched on), [`reconcile`]
//! (what happens next and why), [`snapshot`] and [`observe`] (from answers to facts),
//! [`reconciler`] (the kernel's view of all that), [`accept`] and [`command`] (what enters and what
//! a person can request). Then what is special here: [`identity`] and [`recorded`] (what is known
//! of the cloud object, and where it is kept), [`ladder`] (where an identity is found when the
//! record is lost), [`mod@reference`] (what a spec refers to), [`proof`] and [`orphan`] (the proof
//! of a release), and for the author of a kind [`model`], [`deleter`] and [`ports`].
//!
//! **Invariants**
//! - The identity is recorded, in the ledger and on the object, before the first create.
//! - Deletion is decided in the order own finalizer, hold, policy, identity, cloud: abandoning
//!   needs no reference, and no resource waits for a parent whose child is on record.
//! - A [`deleter::Deleter`] is made of an identity; it can see neither a spec nor the cluster.
//! - The finalizer is removed only with [`proof::Ended`]: absence was answered, or an orphan record
//!   is written.

pub mod accept;
pub mod aggregate;
pub mod command;
pub mod condition;
pub mod deleter;
pub mod effect;
pub mod event;
pub mod facts;
pub mod identity;
pub mod ladder;
pub mod mark;
pub mod model;
pub mod observe;
pub mod operation;
pub mod orphan;
pub mod phase;
pub mod policy;
pub mod ports;
pub mod proof;
pub mod reason;
pub mod reconcile;
pub mod reconciler;
pub mod recorded;
pub mod reference;
pub mod refusal;
pub mod snapshot;
pub mod verdict;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod laws;
