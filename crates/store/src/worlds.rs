//! Worlds at the border: pins and the mass-deletion guard.

use usher_domain::object::authority::Pin;
use usher_kernel::Timestamp;

use crate::error::Error;
use crate::store::{Inner, Store, verbs};

/// What is remembered of a world.
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
    /// Reads what is remembered of a world.
    fn world(name: &str) -> Result<Option<WorldState>, Error>;
    /// Pins a world, or raises the revision of the very one that is pinned; what is remembered
    /// then.
    fn pin_world(name: String, answered: Pin) -> Result<WorldState, Error>;
    /// Counts the resources of a world that should stand there.
    fn count_present(world: &str) -> Result<u32, Error>;
}
