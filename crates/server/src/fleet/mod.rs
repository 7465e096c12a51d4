//! Adapters between the fleet, the local provider and the local world.
//!
//! Read in this order: [`settings`] (a shard from its settings), [`holding`] (machines held
//! for resources), [`home`] (the local provider).

pub mod holding;
pub mod home;
pub mod settings;
