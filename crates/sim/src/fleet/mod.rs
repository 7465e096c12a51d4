//! The fleet's world: machines of one provider that works at its own pace, shards that plan and
//! drive them, and clusters whose demand goes up and down.

pub mod at_rest;
pub mod bench;
pub mod breakage;
pub mod check;
pub mod cycle;
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
