//! The ports that the routes call; the server implements them over store, worlds and mesh.
//!
//! **Invariants**
//! - A port gets validated values and an authorized caller.
//! - A port generates ids, reads the clock, and writes the audit entry in the transaction of the
//!   change.
//! - A refusal of the domain is [`Failure::Refused`] with its closed code; a dependency that does
//!   not answer is [`Failure::Unavailable`]; the rest is a bug and [`Failure::Broken`].
//! - No error text holds a secret.

use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;
use usher_domain::audit;
use usher_domain::broker::accept::Provision;
use usher_domain::catalog::{Blueprint, BlueprintVersion, Bundle};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::Verdict;
use usher_domain::labels::Definition;
use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{
    BlueprintId, BlueprintVersionId, CloudId, CredentialId, OperatorTokenId, PeerId, ProjectId,
    ResourceId, TenancyId,
};
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::object::slug::Slug;
use usher_domain::operators::{OperatorToken, TokenHash};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, ProjectSlug, TenancyResource};

use crate::fleet::Fleet;
use crate::views::{
    AgentMessage, AssignmentKey, AssignmentView, Beat, BeatAnswer, Caller, Check, CredentialView,
    Cursor, Enrolled, GuardView, Imported, KeyUse, KeyView, Layer, LogEntry, NewCloud,
    NewCredential, NewOperatorToken, NewProject, NodeQuery, NodeView, Orphan, Page, Paging, Plan,
    Provisioned, Receipt, Ref, Registration, ResourceQuery, ResourceView, TokenView, Why,
};

/// A refusal. Every code has a status in [`crate::codes`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Refused {
    pub code: &'static str,
    pub text: String,
}

impl Refused {
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    #[error(transparent)]
    Refused(#[from] Refused),
    /// A dependency does not answer; a later retry may help.
    #[error("{what} is unavailable")]
    Unavailable { what: String },
    /// A stored row is invalid, or there is a bug.
    #[error("internal error: {what}")]
    Broken {
        /// Logged, and not returned to the caller.
        what: String,
    },
}

pub type Answer<T> = Result<T, Failure>;

macro_rules! refusals {
    ($($kind:ty),+ $(,)?) => {$(
        impl From<$kind> for Refused {
            fn from(refusal: $kind) -> Self {
                Self::new(refusal.code(), refusal.to_string())
            }
        }

        impl From<$kind> for Failure {
            fn from(refusal: $kind) -> Self {
                Self::Refused(refusal.into())
            }
        }
    )+};
}

refusals! {
    usher_domain::broker::refusal::Refusal,
    usher_domain::credentials::BadCoordinates,
    usher_domain::credentials::UseRefusal,
    usher_domain::credentials::VerdictRefusal,
    usher_domain::fleet::refusal::Refusal,
    usher_domain::object::idempotency::Refusal,
    usher_domain::labels::TooManyLabels,
    usher_domain::object::enrolment::BadNonce,
    usher_domain::object::enrolment::BadPublicKey,
    usher_domain::object::enrolment::BadToken,
    usher_domain::object::label::BadLabel,
    usher_domain::object::occupancy::Occupied,
    usher_domain::object::provider::UnknownProvider,
    usher_domain::object::slug::BadSlug,
    usher_domain::operators::BadGrant,
    usher_domain::peers::Refusal,
    usher_domain::projects::BadProjectName,
    usher_domain::tokens::Refusal,
    usher_domain::tokens::RevokeRefusal,
    usher_domain::blueprint::injection::UnknownWord,
    usher_domain::blueprint::parameter::BadSchema,
    usher_domain::blueprint::xrd::BadXrd,
    crate::refusal::Refusal,
}

#[derive(Clone)]
pub struct Ports {
    pub resources: Arc<dyn Resources>,
    pub orphans: Arc<dyn Orphans>,
    pub events: Arc<dyn Events>,
    pub projects: Arc<dyn Projects>,
    pub catalog: Arc<dyn Catalog>,
    pub clouds: Arc<dyn Clouds>,
    pub credentials: Arc<dyn Credentials>,
    pub labels: Arc<dyn LabelLayers>,
    pub nodes: Arc<dyn Nodes>,
    pub fleet: Arc<dyn Fleet>,
    pub operators: Arc<dyn Operators>,
    pub agents: Arc<dyn Agents>,
    pub keys: Arc<dyn Keys>,
    pub readiness: Arc<dyn Readiness>,
}

/// Provisioned resources. An unknown id is refused with `provisioned_resource_not_found`.
#[async_trait]
pub trait Resources: Send + Sync {
    /// The version of a blueprint, the newest if none is named, and a credential, by their names.
    async fn references(
        &self,
        blueprint: (&Slug, Option<&str>),
        credential: &Slug,
    ) -> Answer<(BlueprintVersionId, CredentialId)>;
    /// Accepts a declaration. The same key and digest return the resource of the first request.
    async fn provision(
        &self,
        caller: &Caller,
        command: Provision,
        key: Option<KeyUse>,
    ) -> Answer<Provisioned>;
    /// Requests the deletion; idempotent.
    async fn deprovision(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    async fn get(&self, id: ResourceId) -> Answer<ResourceView>;
    async fn list(&self, query: ResourceQuery, paging: Paging) -> Answer<Page<ResourceView>>;
    /// Explains the phase of a resource.
    async fn why(&self, id: ResourceId) -> Answer<Why>;
    /// What a deletion would do, without side effects.
    async fn plan_deprovision(&self, id: ResourceId) -> Answer<Plan>;
    /// Every external name it ever had, with the evidence.
    async fn receipt(&self, id: ResourceId) -> Answer<Receipt>;
    /// Reconciles it now, even if it is parked.
    async fn retry(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    /// Requests a new generation.
    async fn replace(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    async fn abandon(&self, caller: &Caller, id: ResourceId, why: &str) -> Answer<ResourceView>;
}

/// External objects without an owner, and the mass-deletion guards.
#[async_trait]
pub trait Orphans: Send + Sync {
    /// Objects in a world that no record accounts for, and abandoned ones.
    async fn orphans(&self, paging: Paging) -> Answer<Page<Orphan>>;
    /// Turns every reapable orphan into a tombstone, which tears it down; returns them.
    async fn reap(&self, caller: &Caller) -> Answer<Vec<Orphan>>;
    /// The guard of every world.
    async fn guards(&self) -> Answer<Vec<GuardView>>;
    /// Resets the guard of a world; an unknown world is refused with `world_not_found`.
    async fn reset_guard(&self, caller: &Caller, world: &str) -> Answer<GuardView>;
}

/// The log of events.
#[async_trait]
pub trait Events: Send + Sync {
    /// Up to `limit` entries after a cursor; `None` is the beginning.
    ///
    /// A malformed cursor is refused with `cursor_invalid`, an expired one with `cursor_forgotten`.
    async fn page(&self, after: Option<Cursor>, limit: u32) -> Answer<Vec<LogEntry>>;
    /// Follows the log after a cursor; `None` is the end of the log.
    async fn follow(&self, after: Option<Cursor>) -> Answer<Box<dyn Feed>>;
}

#[async_trait]
pub trait Feed: Send {
    /// Waits for the next entries; cancel-safe. At shutdown it fails with
    /// [`Failure::Unavailable`].
    async fn next(&mut self) -> Answer<Vec<LogEntry>>;
}

/// Projects, their placements and tenancy resources.
///
/// What is unknown is refused with `project_not_found` or `assignment_not_found` (no placement).
#[async_trait]
pub trait Projects: Send + Sync {
    async fn list(&self, paging: Paging) -> Answer<Page<Project>>;
    async fn get(&self, project: &Ref<ProjectId, ProjectSlug>) -> Answer<Project>;
    /// A slug in use is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewProject) -> Answer<Project>;
    /// Deletes an empty project.
    async fn delete(&self, caller: &Caller, id: ProjectId) -> Answer<()>;
    async fn placements(&self, paging: Paging) -> Answer<Page<Placement>>;
    async fn placement(&self, project: ProjectId) -> Answer<Placement>;
    async fn place(&self, caller: &Caller, project: ProjectId, world: &str) -> Answer<Placement>;
    /// Terminates a placement, unless resources exist there.
    async fn terminate_placement(&self, caller: &Caller, project: ProjectId) -> Answer<Placement>;
    /// An unknown one is refused with `tenancy_not_found`.
    async fn tenancy(&self, id: TenancyId) -> Answer<TenancyResource>;
}

/// The catalog of blueprints. An unknown one is refused with `blueprint_not_found`.
#[async_trait]
pub trait Catalog: Send + Sync {
    async fn list(&self, paging: Paging) -> Answer<Page<Blueprint>>;
    async fn get(&self, blueprint: &Ref<BlueprintId, Slug>) -> Answer<Blueprint>;
    /// Oldest first.
    async fn versions(&self, blueprint: BlueprintId) -> Answer<Vec<BlueprintVersion>>;
    /// Publishes one bundle. The same version with the same content is unchanged, with different
    /// content refused with `version_published`; a fatal finding is refused with
    /// `blueprint_unsound`.
    async fn publish(&self, caller: &Caller, bundle: Bundle) -> Answer<Imported>;
    /// Publishes each bundle that can be; returns the outcome of each.
    async fn import(&self, caller: &Caller, bundles: Vec<Bundle>) -> Answer<Vec<Imported>>;
    /// A version that a resource uses is refused with `still_referenced`.
    async fn delete_version(
        &self,
        caller: &Caller,
        blueprint: BlueprintId,
        version: &str,
    ) -> Answer<()>;
}

/// The inventory of clouds. An unknown one is refused with `cloud_not_found`.
#[async_trait]
pub trait Clouds: Send + Sync {
    async fn list(&self, paging: Paging) -> Answer<Page<Cloud>>;
    async fn get(&self, cloud: &Ref<CloudId, Slug>) -> Answer<Cloud>;
    /// A name in use is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewCloud) -> Answer<Cloud>;
    /// A cloud with credentials is refused with `still_referenced`.
    async fn delete(&self, caller: &Caller, id: CloudId) -> Answer<()>;
}

/// Credentials and their assignments to projects.
///
/// What is unknown is refused with `credential_not_found` or `credential_not_assigned`.
#[async_trait]
pub trait Credentials: Send + Sync {
    async fn list(&self, paging: Paging) -> Answer<Page<CredentialView>>;
    async fn get(&self, credential: &Ref<CredentialId, Slug>) -> Answer<CredentialView>;
    /// A name in use is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewCredential) -> Answer<CredentialView>;
    /// Revokes a credential; idempotent.
    async fn revoke(&self, caller: &Caller, id: CredentialId) -> Answer<CredentialView>;
    /// A credential with resources or assignments is refused with `still_referenced`.
    async fn delete(&self, caller: &Caller, id: CredentialId) -> Answer<()>;
    async fn assignments(&self, project: ProjectId) -> Answer<Vec<AssignmentView>>;
    /// Requests a credential; a second request is refused with `name_in_use`.
    async fn request(&self, caller: &Caller, key: AssignmentKey) -> Answer<AssignmentView>;
    async fn decide(
        &self,
        caller: &Caller,
        key: AssignmentKey,
        verdict: Verdict,
    ) -> Answer<AssignmentView>;
    async fn unassign(&self, caller: &Caller, key: AssignmentKey) -> Answer<()>;
}

/// Labels and definitions of their keys.
#[async_trait]
pub trait LabelLayers: Send + Sync {
    async fn get(&self, layer: Layer) -> Answer<Labels>;
    /// Replaces the labels of one layer and wakes the records they reach.
    async fn write(&self, caller: &Caller, layer: Layer, labels: Labels) -> Answer<Labels>;
    async fn definitions(&self) -> Answer<Vec<Definition>>;
    /// Creates or replaces the definition of a key.
    async fn define(&self, caller: &Caller, it: Definition) -> Answer<Definition>;
}

/// Bootstrap tokens and nodes.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Bootstrap tokens of one project, or of all.
    async fn tokens(&self, project: Option<ProjectId>, paging: Paging) -> Answer<Page<TokenView>>;
    async fn list(&self, query: NodeQuery, paging: Paging) -> Answer<Page<NodeView>>;
    /// An unknown node is refused with `node_not_found`.
    async fn get(&self, id: PeerId) -> Answer<NodeView>;
    /// Lets the drain of a node end without acknowledgements of its peers.
    async fn force(&self, caller: &Caller, id: PeerId) -> Answer<NodeView>;
}

/// Operators' tokens and the audit log.
#[async_trait]
pub trait Operators: Send + Sync {
    /// The caller of a valid token, by its hash.
    async fn admit(&self, hash: TokenHash) -> Answer<Option<Caller>>;
    /// Tokens without their texts.
    async fn list(&self, paging: Paging) -> Answer<Page<OperatorToken>>;
    /// Creates a token. Its text is returned only here; see `domain::operators::text`.
    async fn create(
        &self,
        caller: &Caller,
        new: NewOperatorToken,
    ) -> Answer<(OperatorToken, SecretText)>;
    /// Revokes a token; an unknown one is refused with `operator_token_not_found`.
    async fn revoke(&self, caller: &Caller, id: OperatorTokenId) -> Answer<()>;
    async fn audit(&self, paging: Paging) -> Answer<Page<audit::Entry>>;
}

/// The keys that secrets are derived with.
#[async_trait]
pub trait Keys: Send + Sync {
    /// Every key, oldest first; those that no secret names are retired.
    async fn list(&self) -> Answer<Vec<KeyView>>;
    /// Makes a new key current in place of this one, and lists them.
    async fn rotate(&self, caller: &Caller, from: &KeyId) -> Answer<Vec<KeyView>>;
    /// The current key, and the message authentication code of a receipt with it.
    async fn seal(&self, receipt: &[u8]) -> Answer<(KeyId, String)>;
    /// Whether a receipt has this code with this key.
    async fn is_sealed(&self, receipt: &[u8], key: &KeyId, code: &str) -> Answer<bool>;
}

/// The calls of agents.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Registers a node. The same token, nonce and key get the answer of the first time.
    ///
    /// A token of another resource than the named one is refused with `token_unknown`.
    async fn register(&self, registration: Registration) -> Answer<Enrolled>;
    /// Authenticates a node by its secret, compared in constant time. A wrong secret is refused
    /// with `unauthenticated`; a node that is unknown or whose key is revoked with `key_revoked`;
    /// any node with `key_missing`, if this server lacks the key of its secret.
    async fn admit(&self, node: PeerId, secret: &SecretText) -> Answer<()>;
    /// A heartbeat also acknowledges a snapshot of the mesh.
    async fn heartbeat(&self, node: PeerId, beat: Beat) -> Answer<BeatAnswer>;
    /// Messages to a node, beginning with those it missed since an id.
    async fn stream(&self, node: PeerId, last: Option<String>) -> Answer<Box<dyn AgentFeed>>;
    async fn leave(&self, node: PeerId, in_flight: u64) -> Answer<()>;
}

#[async_trait]
pub trait AgentFeed: Send {
    /// Waits for the next message; cancel-safe. `None` ends the stream.
    async fn next(&mut self) -> Option<AgentMessage>;
}

#[async_trait]
pub trait Readiness: Send + Sync {
    /// Every check by its name; troubles of single records are not among them.
    async fn checks(&self) -> Vec<Check>;
}
