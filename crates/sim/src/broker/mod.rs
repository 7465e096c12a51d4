//! The broker's world: resources that share a ProviderConfig, a cluster that is never kinder than
//! a real one, and a mesh whose agents come late or never.

pub mod behind;
pub mod bench;
pub mod breakage;
pub mod check;
pub mod driver_step;
pub mod evolve;
pub mod execute;
pub mod fault;
pub mod fault_phase;
pub mod memory;
pub mod mesh;
pub mod outside;
pub mod people;
pub mod plan;
pub mod reader;
pub mod snapshot;
pub mod state;
pub mod store;
