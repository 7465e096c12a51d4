//! The direct world: Kubernetes objects that represent cloud objects, a cloud that answers late,
//! wrong, twice or for another owner, and parents that vanish first.
//!
//! [`state`] can be made empty: a world with direct resources of its own adds an
//! object, asks for its deletion, and asks whether it is gone. What a seed puts into the world is
//! in [`plan`] and [`people`]; [`matrix`] starts worlds in every state that a deletion can meet.

pub mod bench;
pub mod breakage;
pub mod check;
pub mod cloud;
pub mod driver_step;
pub mod evolve;
pub mod execute;
pub mod fault;
pub mod fault_phase;
pub mod matrix;
pub mod model;
pub mod outside;
pub mod people;
pub mod plan;
pub mod snapshot;
pub mod state;
pub mod store;
