//! The broker: a declared node becomes substrate, enrols, and is shown out again.

pub mod facts;
pub mod phase;
pub mod reason;
pub mod reconcile;
pub mod verdict;
