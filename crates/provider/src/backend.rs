//! What an author of a provider writes: the substrate, and nothing else.

use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use thiserror::Error;
use usher_wire::fleet::{HostRef, Machine, MachineState, Resources};

use crate::state::HostedMachine;

/// How long the node of a machine that failed may take to end.
pub const LAST_GRACE: Duration = Duration::from_secs(10);

/// A verb on one machine.
#[derive(Clone, Debug)]
pub struct Command {
    /// The same each time this verb is tried: hand it to the substrate, so that what was done is
    /// not done twice.
    pub operation: String,
    /// The machine as the kit knows it.
    pub machine: Machine,
}

/// What stands after a machine was made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CreatedHost {
    /// The thing behind the machine; both parts are named.
    pub host: HostRef,
    /// Its shape, if it is known better now.
    pub resources: Option<Resources>,
    /// What of it can be used, if that is known now.
    pub allocatable: Option<Resources>,
}

/// A host that is not there any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LostHost {
    /// Whose.
    pub machine: HostedMachine,
    /// How that is known.
    pub reason: String,
}

/// Why a verb did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{reason}")]
pub struct Fault {
    /// Whether it is worth trying again.
    pub is_transient: bool,
    /// What to tell.
    pub reason: String,
}

/// A substrate of machines.
///
/// Every verb may be called again with the same operation after a crash, and then finds what it
/// did before. A verb that takes longer than its time is told to have failed; one that makes a
/// machine is waited for all the same, and what it made is taken away.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// Every machine that can be had or stands idle. Asked at the start and now and then.
    async fn describe(&self) -> Result<Vec<Machine>, Fault>;

    /// Makes a machine.
    async fn create(&self, command: &Command) -> Result<CreatedHost, Fault>;

    /// Lets a machine join a cluster.
    async fn configure(&self, command: &Command, blob: &Bytes) -> Result<(), Fault>;

    /// Takes a machine out of its cluster. Its work may take this long to end.
    async fn drain(&self, command: &Command, grace: Duration) -> Result<(), Fault>;

    /// Gives a machine back.
    async fn delete(&self, command: &Command) -> Result<(), Fault>;

    /// Takes away whatever is left of a machine that failed: its node, then its host. A host that
    /// nobody heard of may stand, too, if the Create named by `made_by` failed.
    async fn salvage(&self, command: &Command, _made_by: Option<&str>) -> Result<(), Fault> {
        if command.machine.host.is_none() {
            return Ok(());
        }
        match self.drain(command, LAST_GRACE).await {
            // What does not leave by itself goes with its host.
            Ok(()) | Err(Fault { is_transient: false, .. }) => self.delete(command).await,
            Err(transient) => Err(transient),
        }
    }

    /// Whether machines can be given back.
    fn deletes(&self) -> bool {
        true
    }

    /// Returns when the node of a configured machine is ready.
    async fn ready(&self, _command: &Command) -> Result<(), Fault> {
        Ok(())
    }

    /// Those of these hosts that are positively gone. Whoever cannot tell says nothing of it.
    async fn check(&self, _hosts: &[HostedMachine]) -> Result<Vec<LostHost>, Fault> {
        Ok(Vec::new())
    }
}

impl Fault {
    /// It may pass: the verb is tried again until its time is over.
    pub fn transient(reason: impl Into<String>) -> Self {
        Self { is_transient: true, reason: reason.into() }
    }

    /// It will not pass: the machine failed.
    pub fn permanent(reason: impl Into<String>) -> Self {
        Self { is_transient: false, reason: reason.into() }
    }
}

/// What is wrong with an offer, if anything is.
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
        return wrong("has no price");
    }
    if !(0.0..=1.0).contains(&chance) {
        return wrong("has a chance that is none");
    }
    if offer.capacity_type() == usher_wire::fleet::CapacityType::Spot && chance <= 0.0 {
        return wrong("is on the spot market and never taken away");
    }
    let named = offer.host.as_ref().is_some_and(is_named);
    match offer.state() {
        MachineState::Speculative if offer.host.is_none() => None,
        MachineState::Idle if named => None,
        MachineState::Speculative | MachineState::Idle => wrong("has the wrong host"),
        MachineState::Unspecified
        | MachineState::Creating
        | MachineState::Configuring
        | MachineState::Configured
        | MachineState::Draining
        | MachineState::Deleting
        | MachineState::Failed => wrong("is neither speculative nor idle"),
    }
}

/// Whether a host has both of its names.
pub(crate) fn is_named(host: &HostRef) -> bool {
    !host.provider.is_empty() && !host.r#ref.is_empty()
}
