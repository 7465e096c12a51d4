//! The store's methods for worlds: pins and the mass-deletion guard.

use usher_domain::object::authority::Pin;
use usher_kernel::Timestamp;

use crate::error::Error;
use crate::store::{Inner, Store, verbs};

/// The stored state of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorldState {
    /// What it is, and the highest revision it showed.
    pub pin: Pin,
    /// Since when its mass-deletion guard is tripped, if it is.
    pub tripped_at: Option<Timestamp>,
    /// When it was last reset.
    pub opened_at: Option<Timestamp>,
}

verbs! {
    /// Reads the stored state of a world.
    fn world(name: &str) -> Result<Option<WorldState>, Error>;
    /// Pins a world, or raises the revision of the pinned one; its stored state afterwards.
    fn pin_world(name: String, answered: Pin) -> Result<WorldState, Error>;
    /// Counts the resources that should exist in a world.
    fn count_present(world: &str) -> Result<u32, Error>;
}
