//! What a machine is given when it joins a cluster.

use async_trait::async_trait;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::ident::ClusterId;
use usher_kernel::Trouble;

/// Makes what a machine needs to join. It may hold secrets: it is made when it is sent, and is
/// neither kept nor told.
#[async_trait]
pub trait Bootstrap: Send + Sync + 'static {
    /// What this machine needs to join this cluster.
    async fn blob(&self, machine: &Machine, cluster: &ClusterId) -> Result<Vec<u8>, Trouble>;
}

/// Clusters whose machines join without being given anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nothing;

#[async_trait]
impl Bootstrap for Nothing {
    async fn blob(&self, _: &Machine, _: &ClusterId) -> Result<Vec<u8>, Trouble> {
        Ok(vec![])
    }
}
