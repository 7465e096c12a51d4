//! The bootstrap data of a machine that joins a cluster.

use async_trait::async_trait;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::ident::ClusterId;
use usher_kernel::Trouble;

/// Creates the bootstrap data of a machine. It may hold secrets: it is created when it is sent, and
/// is neither stored nor logged.
#[async_trait]
pub trait Bootstrap: Send + Sync + 'static {
    /// The bootstrap data of this machine for this cluster.
    async fn blob(&self, machine: &Machine, cluster: &ClusterId) -> Result<Vec<u8>, Trouble>;
}

/// Clusters whose machines join without bootstrap data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

#[async_trait]
impl Bootstrap for Nothing {
    async fn blob(&self, _: &Machine, _: &ClusterId) -> Result<Vec<u8>, Trouble> {
        Ok(vec![])
    }
}
