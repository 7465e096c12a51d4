//! The interface that a provider author implements.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use usher_wire::fleet::{HostRef, Machine, MachineState, Resources};

use crate::state::HostedMachine;

/// The grace period of the node of a failed machine.
pub const LAST_GRACE: Duration = Duration::from_secs(10);

/// A verb on one machine.
#[derive(Clone, Debug)]
pub struct Command {
    /// The operation id, the same for each retry of this verb: pass it to the substrate as its
    /// idempotency token.
    pub operation: String,
    /// The machine in its current state.
    pub machine: Machine,
}

/// The result of a Create.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatedHost {
    /// The host of the machine; both parts are required.
    pub host: HostRef,
    /// Its resources, if they differ from the offer.
    pub resources: Option<Resources>,
    /// Its allocatable resources, if they are known.
    pub allocatable: Option<Resources>,
}

/// A host that no longer exists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// The machine of the host.
    pub machine: HostedMachine,
    /// The evidence.
    pub reason: String,
}

/// Why a verb failed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Fault {
    /// Whether the verb is retried.
    pub is_transient: bool,
    /// The error message.
    pub reason: String,
}

/// A substrate of machines.
///
/// Every verb may be called again with the same operation after a crash, and must then find its
/// earlier result. A verb that exceeds its timeout has failed; a Create is still awaited, and the
/// host it made is deleted.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Every available slot and idle machine. Called at the start and at each poll.
    async fn describe(&self) -> Result<Vec<Machine>, Fault>;

    /// Makes the host of a machine.
    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault>;

    /// Joins a machine to a cluster.
    async fn configure(&self, command: &Command, blob: &Bytes) -> Result<(), Fault>;

    /// Removes a machine from its cluster. Its workload has this grace period.
    async fn drain(&self, command: &Command, grace: Duration) -> Result<(), Fault>;

    /// Deletes the host of a machine.
    async fn delete(&self, command: &Command) -> Result<(), Fault>;

    /// Removes what is left of a failed machine: its node, then its host. A failed Create, named
    /// by `made_by`, may have left a host that no record names.
    async fn salvage(&self, command: &Command, _made_by: Option<&str>) -> Result<(), Fault> {
        if command.machine.host.is_none() {
            return Ok(());
        }
        match self.drain(command, LAST_GRACE).await {
            // A node that cannot be drained is removed with its host.
            Ok(()) | Err(Fault { is_transient: false, .. }) => self.delete(command).await,
            Err(transient) => Err(transient),
        }
    }

    /// Whether machines can be deleted.
    fn deletes(&self) -> bool {
        true
    }

    /// Returns when the node of a configured machine is ready.
    async fn ready(&self, _command: &Command) -> Result<(), Fault> {
        Ok(())
    }

    /// The hosts that the substrate reports as gone. A host whose check failed is not among them.
    async fn check(&self, _hosts: &[HostedMachine]) -> Result<Vec<LostHost>, Fault> {
        Ok(Vec::new())
    }
}

impl Fault {
    /// The verb is retried until its timeout.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self { is_transient: true, reason: reason.into() }
    }

    /// The machine fails.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { is_transient: false, reason: reason.into() }
    }
}

/// What is wrong with an offered machine, if anything is.
pub(crate) fn invalid_offer(offer: &Machine) -> Option<String> {
    let wrong = |what: &str| Some(format!("machine \"{}\" {what}", offer.id));
    let chance = offer.interruption_probability;
    if offer.id.is_empty() {
        return Some("a machine has no id".to_owned());
    }
    if offer.instance_type.is_empty() {
        return wrong("has no instance type");
    }
    if offer.zone.is_empty() {
        return wrong("has no zone");
    }
    if offer.capacity_type() == usher_wire::fleet::CapacityType::Unspecified {
        return wrong("has no capacity type");
    }
    if !offer.price_per_hour.is_finite() || offer.price_per_hour < 0.0 {
        return wrong("has an invalid price");
    }
    if !(0.0..=1.0).contains(&chance) {
        return wrong("has an interruption probability outside 0..=1");
    }
    if offer.capacity_type() == usher_wire::fleet::CapacityType::Spot && chance <= 0.0 {
        return wrong("is spot capacity without an interruption probability");
    }
    let named = offer.host.as_ref().is_some_and(is_named);
    match offer.state() {
        MachineState::Speculative if offer.host.is_none() => None,
        MachineState::Idle if named => None,
        MachineState::Speculative | MachineState::Idle => {
            wrong("has a host that does not fit its state")
        }
        MachineState::Unspecified
        | MachineState::Creating
        | MachineState::Configuring
        | MachineState::Configured
        | MachineState::Draining
        | MachineState::Deleting
        | MachineState::Failed => wrong("is neither speculative nor idle"),
    }
}

/// Whether both parts of the host reference are set.
pub(crate) fn is_named(host: &HostRef) -> bool {
    !host.provider.is_empty() && !host.r#ref.is_empty()
}
