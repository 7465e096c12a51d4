//! The joints between the fleet, the hosts of this computer and the local world.
//!
//! Read in this order: [`settings`] (a shard from its settings), [`holding`] (machines behind
//! resources), [`home`] (this machine's own provider).

pub mod holding;
pub mod home;
pub mod settings;
