//! The world of Usages: objects that use each other and die in any order, a collector that backs
//! off, webhooks whose index lags, and people who change their minds.

pub mod admission;
pub mod bench;
pub mod breakage;
pub mod check;
mod circle;
pub mod collector;
pub mod driver_step;
pub mod evolve;
pub mod execute;
pub mod fault;
pub mod fault_phase;
pub mod outside;
pub mod people;
pub mod plan;
pub mod snapshot;
pub mod state;
pub mod store;
