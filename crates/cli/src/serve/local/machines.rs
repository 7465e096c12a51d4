//! What the local world asks of a fleet, where its machines are the fleet's.

use std::fmt;

use async_trait::async_trait;
use usher_domain::object::id::ResourceId;
use usher_kernel::Trouble;

/// Machines that are had for a part of a substrate and given back.
#[async_trait]
pub trait Machines: fmt::Debug + Send + Sync + 'static {
    /// Sees to it that a machine is had for a part; whether it stands. Asking again changes
    /// nothing.
    async fn have(&self, part: &str, holder: ResourceId) -> Result<bool, Trouble>;

    /// Sees to it that nothing of the holder's machine is left; whether nothing is.
    async fn give_back(&self, holder: ResourceId) -> Result<bool, Trouble>;
}
