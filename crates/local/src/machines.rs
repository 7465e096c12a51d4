//! What the local world asks of a fleet, where its machines are the fleet's.

use std::fmt;

use async_trait::async_trait;
use tokio::sync::mpsc::UnboundedReceiver;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::ResourceId;
use usher_kernel::Trouble;

use super::object::Footing;

/// Machines that are had for a part of a substrate and given back.
#[async_trait]
pub trait Machines: fmt::Debug + Send + Sync + 'static {
    /// Sees to it that a machine is had for a part; how it is, and nothing while it is on its way.
    /// Asking again changes nothing.
    async fn have(&self, part: &str, holder: ResourceId) -> Result<Option<Footing>, Trouble>;

    /// Sees to it that nothing of a part's machine is left; whether nothing is.
    async fn give_back(&self, part: &str, holder: ResourceId) -> Result<bool, Trouble>;

    /// Takes the machine of a holder without a part back, once its node is out, if the world that
    /// answered so is the one that was pinned and nothing holds its absences.
    async fn reclaim(&self, holder: ResourceId, answered: &Pin) -> Result<Reclaim, Trouble>;

    /// Whether a machine is held.
    async fn is_held(&self, holder: ResourceId) -> Result<bool, Trouble>;

    /// Everybody who holds a machine.
    async fn holders(&self) -> Result<Vec<ResourceId>, Trouble>;

    /// Tells from now on who is worth another look.
    async fn stirs(&self) -> Result<UnboundedReceiver<Stir>, Trouble>;
}

/// What became of a machine that is held without a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reclaim {
    /// None is held.
    Over,
    /// It goes, and every step of it is told.
    Leaving,
    /// Its resource is not done with it, or the world is not believed.
    Wanted,
}

/// Who is worth another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stir {
    /// Whoever holds a machine that moved.
    Holder(ResourceId),
    /// Somebody who waits for a machine: one may be free. Whoever takes it stirs the next.
    Waiting,
}
