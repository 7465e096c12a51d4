//! The store as a simulation uses it, and what goes in and out: every verb is one transaction.
//!
//! The verbs wait for their answers, because nothing else happens in a simulated moment. A store
//! that needs a runtime brings one.

use std::time::Duration;

use usher_domain::broker::accept::{Accepted, Provision};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::Event;
use usher_domain::broker::ledger::{
    Batch, Command, ConfigWrite, Release, RememberedKey, ResourceWrite, Snapshot, WorkItem,
};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, ProjectId, ProviderConfigId, ResourceId,
};
use usher_domain::object::idempotency;
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Request, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Record, Timestamp, Trouble, Version};

/// Why a store refuses a verb.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum No {
    /// The record has moved since it was read.
    Conflict,
    /// What a declaration was resolved against has moved.
    Moved,
    /// The resource is being torn down.
    Leaving,
    /// The domain refuses it, by this code.
    Refused(&'static str),
    /// The row breaks its own rules.
    Corrupt,
    /// Its outcome is unknown, or it was not done for a reason of the database's own.
    Unavailable(String),
}

impl No {
    /// What it means for a step.
    pub fn trouble(self) -> Trouble {
        let what = format!("{self:?}");
        match self {
            Self::Conflict => Trouble::Conflict,
            Self::Leaving | Self::Refused(_) => Trouble::Rejected { what },
            Self::Corrupt => Trouble::Corrupt { what },
            Self::Moved | Self::Unavailable(_) => Trouble::unavailable(what),
        }
    }
}

/// What every declaration of a store's own world refers to.
#[derive(Clone, Copy, Debug)]
pub struct TestIds {
    /// The installation.
    pub installation: InstallationId,
    /// The project, placed and ready.
    pub project: ProjectId,
    /// The blueprint version, of nodes.
    pub blueprint_version: BlueprintVersionId,
    /// The credential, granted to the project.
    pub credential: CredentialId,
}

/// One row of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadEvents {
    /// Its place in the log, in the store's own words.
    pub place: String,
    pub resource: ResourceId,
    /// With which version of the record.
    pub version: Version,
    /// The generation at that time.
    pub generation: Generation,
    /// The emitted event.
    pub event: Event,
}

/// A store.
pub trait Port {
    /// What declarations refer to.
    fn ids(&self) -> TestIds;

    /// The store's time.
    fn now(&mut self) -> Timestamp;

    /// As if this span had passed.
    fn pass(&mut self, span: Duration);

    /// Another client edits the row of a resource directly, so that it breaks its own rules.
    fn spoil(&mut self, resource: ResourceId);

    /// Reads everything a declaration is resolved against.
    fn snapshot(
        &mut self,
        command: &Provision,
        key: Option<(idempotency::Scope, idempotency::Key)>,
    ) -> Result<Snapshot, No>;

    /// Writes an accepted declaration.
    fn accept(&mut self, accepted: Accepted, key: Option<RememberedKey>) -> Result<(), No>;

    /// Leases up to so many due work items.
    fn claim_due(&mut self, count: u32) -> Result<Batch, No>;

    /// Writes a step of a resource or its tombstone.
    fn commit(&mut self, write: ResourceWrite) -> Result<(), No>;

    /// Writes a step of a ProviderConfig.
    fn commit_config(&mut self, write: ConfigWrite) -> Result<(), No>;

    /// Gives a lease back after a step that changed nothing.
    fn release(&mut self, release: Release) -> Result<(), No>;

    /// Gives a lease back after trouble.
    fn postpone(&mut self, work_item: WorkItem, claim: Claim, trouble: &Trouble) -> Result<(), No>;

    /// Makes a work item due now; `false` if it is not in the queue.
    fn wake(&mut self, work_item: WorkItem) -> Result<bool, No>;

    /// Makes a resource due, or its tombstone.
    fn wake_label(&mut self, resource: ResourceId) -> Result<bool, No>;

    /// Makes every unfinished work item due.
    fn wake_all(&mut self) -> Result<(), No>;

    /// Carries out a person's command.
    fn order(&mut self, resource: ResourceId, order: Command) -> Result<Resource, No>;

    /// Issues the token of a generation.
    fn issue(&mut self, resource: ResourceId, generation: Generation) -> Result<(), No>;

    /// Redeems a token.
    fn redeem(&mut self, request: &Request) -> Result<Outcome, No>;

    /// Writes the drain stage of a peer.
    fn move_peer(&mut self, before: &Peer, after: &Peer) -> Result<(), No>;

    /// Reads a resource with its identity rows.
    fn resource(&mut self, id: ResourceId) -> Result<Record<Resource>, No>;

    /// Reads a ProviderConfig with its identity rows.
    fn config(&mut self, id: ProviderConfigId) -> Result<Record<ProviderConfig>, No>;

    /// Reads an entry of the queue.
    fn entry(&mut self, work_item: WorkItem) -> Result<Option<Entry>, No>;

    /// Reads the tokens of a resource, oldest generation first.
    fn tokens(&mut self, resource: ResourceId) -> Result<Vec<Token>, No>;

    /// Reads the peers of a resource, oldest generation first.
    fn peers(&mut self, resource: ResourceId) -> Result<Vec<Peer>, No>;

    /// Reads the events after a place in the log, or from its beginning.
    fn events(&mut self, after: Option<&str>, count: u32) -> Result<Vec<ReadEvents>, No>;
}
