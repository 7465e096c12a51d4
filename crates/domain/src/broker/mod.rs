//! The broker: a declared node becomes substrate, enrols, and is torn down again.
//!
//! Read in this order: [`aggregate`] (the row), [`facts`] (what may be branched on), [`reconcile`]
//! (what happens next and why), [`observe`] (how answers become facts), [`reconciler`] (the view
//! of the kernel), [`accept`] and [`command`] (what a person can request), [`ports`] (the calls
//! to other contexts), [`render`] (what should exist), [`world`] (the port between the server and
//! the outside).

pub mod accept;
pub mod aggregate;
pub mod command;
pub mod effect;
pub mod event;
pub mod facts;
pub mod ledger;
pub mod observe;
pub mod phase;
pub mod ports;
pub mod provider_config;
pub mod reason;
pub mod reconcile;
pub mod reconciler;
pub mod refusal;
pub mod render;
pub mod side_writes;
pub mod snapshot;
pub mod tombstone;
pub mod verdict;
pub mod world;

mod witness;

#[cfg(test)]
mod fixture;
#[cfg(test)]
mod laws;
