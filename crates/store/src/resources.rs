//! The store's methods for resources: declare, load, commit, command, list.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::broker::accept::Provision;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::snapshot::TokenState;
use usher_domain::labels::Definition;
use usher_domain::object::id::{ProjectId, ProviderConfigId, ResourceId, TokenId};
use usher_domain::object::idempotency;
use usher_domain::object::label::Labels;
use usher_domain::object::provider::Provider;
use usher_kernel::schedule::Claim;
use usher_kernel::{Generation, Record, Timestamp, Version};

use crate::error::Error;
use crate::peers::PeerStatus;
use crate::port::{Acceptance, Command, ConfigWrite, ResourceWrite, Snapshot};
use crate::store::{Inner, Store, verbs};
use crate::worlds::WorldState;

/// What is known of a resource beside its record.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceContext {
    /// The database's time of this snapshot.
    pub now: Timestamp,
    /// The state of its ProviderConfig.
    pub config: ConfigState,
    /// The stored state of its world.
    pub world: Option<WorldState>,
    /// Its tokens, oldest generation first.
    pub tokens: Vec<TokenSummary>,
    /// Its peers, oldest generation first.
    pub peers: Vec<PeerStatus>,
    /// The labels in force.
    pub labels: Labels,
    /// What is known of label keys, if any label is in force.
    pub definitions: Vec<Definition>,
}

/// A token as its resource sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TokenSummary {
    pub id: TokenId,
    pub generation: Generation,
    pub issued_at: Timestamp,
    pub state: TokenState,
}

/// The state of a ProviderConfig as its users see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigState {
    /// Its cloud.
    pub provider: Provider,
    /// Its phase.
    pub phase: provider_config::Phase,
}

impl ConfigState {
    /// Whether a resource may refer to it.
    pub const fn is_ready(self) -> bool {
        matches!(self.phase, provider_config::Phase::Ready)
    }
}

/// Which resources are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceFilter {
    /// Of this project; nothing means of each.
    pub project: Option<ProjectId>,
    /// Only the newest of this name in each project, deleted or not.
    pub name: Option<String>,
    /// Whether deleted ones are listed too.
    pub deleted: bool,
}

/// A resource of a list, with its display names.
#[derive(Clone, Debug, PartialEq)]
pub struct ListedResource {
    /// The resource with its identity rows.
    pub record: Record<Resource>,
    /// Its display names.
    pub names: DisplayNames,
}

/// The names of a resource and of what it was declared from, as far as those still exist.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DisplayNames {
    /// Its name.
    pub name: String,
    /// Its project's slug.
    pub project: Option<String>,
    /// Its blueprint's name and version.
    pub blueprint: Option<(String, String)>,
    /// Its credential's name.
    pub credential: Option<String>,
    /// Why its newest step that wrote or was finished did what it did.
    pub reason: Option<String>,
}

verbs! {
    /// Reads everything a declaration is resolved against, in one snapshot.
    fn snapshot(
        command: &Provision, key: Option<(idempotency::Scope, idempotency::Key)>
    ) -> Result<Snapshot, Error>;
    /// Writes an accepted declaration: row, names, event, queue entry, one more user of the
    /// ProviderConfig, audit and idempotency key, in one transaction. If a view has moved since it
    /// was read, [`Error::ViewsMoved`]: take a new snapshot and decide again.
    fn accept(acceptance: Acceptance) -> Result<(), Error>;
    /// Writes a step of a resource or its tombstone, if its version still holds.
    fn commit(write: ResourceWrite) -> Result<(), Error>;
    /// Writes a step of a ProviderConfig, if its version still holds.
    fn commit_config(write: ConfigWrite) -> Result<(), Error>;
    /// Applies an operator's command to a resource, and wakes it; the resource afterwards, and its
    /// version. The audit row is in the resource's own project.
    fn command(
        id: ResourceId, command: Command, audit: Option<audit::Entry>
    ) -> Result<(Resource, Version), Error>;
    /// Reads a resource with its identity rows.
    fn resource(id: ResourceId) -> Result<Record<Resource>, Error>;
    /// Reads a ProviderConfig with its identity rows.
    fn provider_config(id: ProviderConfigId) -> Result<Record<ProviderConfig>, Error>;
    /// Reads these resources, in any order; one that breaks its own rules fails no other.
    fn records(ids: &[ResourceId]) -> Result<Vec<Result<Record<Resource>, Error>>, Error>;
    /// Lists resources after an id with their display names, in one query.
    fn list_resources(
        filter: &ResourceFilter, after: Option<ResourceId>, count: u32
    ) -> Result<Vec<ListedResource>, Error>;
    /// Lists the ids of resources after an id, of one project or of all, deleted ones too.
    fn resources_after(
        project: Option<ProjectId>, after: Option<ResourceId>, count: u32
    ) -> Result<Vec<ResourceId>, Error>;
    /// Reads the names of a resource and of what it was declared from.
    fn display_names(id: ResourceId) -> Result<Option<DisplayNames>, Error>;
    /// Reads what is known of a resource beside its record.
    fn resource_context(resource: &Resource) -> Result<ResourceContext, Error>;
    /// Expires a tombstone that was kept long enough and has no names to watch; `false` if it has.
    fn expire_tombstone(id: ResourceId, claim: Claim, keep: Duration) -> Result<bool, Error>;
    /// Wakes up to so many tombstones that were kept so long: their steps expire them.
    fn wake_tombstones(keep: Duration, count: u32) -> Result<u64, Error>;
}
