//! What the routes ask for. Somebody else answers: the store, the world, the mesh.
//!
//! **Invariants**
//! - A port gets checked values and a caller who may ask; rights were judged before.
//! - A port mints ids, takes the time, and writes the audit entry in the transaction of the change.
//! - A no of the domain is [`Failure::Refused`] with its closed code; a dependency that does not
//!   answer is [`Failure::Unavailable`]; the rest is a bug and [`Failure::Broken`].
//! - No failure's text holds a secret.

use std::sync::Arc;

use async_trait::async_trait;
use thiserror::Error;
use usher_domain::audit;
use usher_domain::catalog::{Blueprint, BlueprintVersion, Bundle};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::Verdict;
use usher_domain::labels::Definition;
use usher_domain::object::id::{
    BlueprintId, CloudId, CredentialId, OperatorTokenId, PeerId, ProjectId, ResourceId, TenancyId,
};
use usher_domain::object::label::Labels;
use usher_domain::object::manifest::SecretText;
use usher_domain::object::slug::Slug;
use usher_domain::operators::{OperatorToken, TokenHash};
use usher_domain::placements::Placement;
use usher_domain::projects::{Project, ProjectSlug, TenancyResource};

use crate::fleet::Fleet;
use crate::views::{
    AgentTold, AssignmentKey, AssignmentView, Beat, BeatAnswer, Caller, Check, CredentialView,
    Cursor, Declaration, Enrolled, Imported, KeyUse, Layer, NewCloud, NewCredential,
    NewOperatorToken, NewProject, NodeQuery, NodeView, Orphan, Page, Paging, Plan, Provisioned,
    RailView, Receipt, Ref, Registration, ResourceQuery, ResourceView, TokenView, Told, Why,
};

/// A no with its closed code. Every code has a status in [`crate::codes`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{text}")]
pub struct Refused {
    /// The code.
    pub code: &'static str,
    /// The refusal in a sentence.
    pub text: String,
}

impl Refused {
    /// A refusal with its code.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }
}

/// Why a port did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The domain says no.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Somebody who is needed does not answer; asking again later may help.
    #[error("cannot reach {what}")]
    Unavailable {
        /// Who.
        what: String,
    },
    /// A stored row breaks its own rules, or a bug showed itself.
    #[error("cannot go on: {what}")]
    Broken {
        /// What is broken; it is logged and not told.
        what: String,
    },
}

/// The answer of a port.
pub type Answer<T> = Result<T, Failure>;

/// Turns refusals of the domain into those of a port.
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
    usher_domain::idempotency::Refusal,
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

/// Everything the routes ask for.
#[derive(Clone)]
pub struct Ports {
    /// Resources.
    pub resources: Arc<dyn Resources>,
    /// What has no owner, and the rails.
    pub orphans: Arc<dyn Orphans>,
    /// The log.
    pub events: Arc<dyn Events>,
    /// Projects, placements and tenancy resources.
    pub projects: Arc<dyn Projects>,
    /// Blueprints.
    pub catalog: Arc<dyn Catalog>,
    /// Clouds.
    pub clouds: Arc<dyn Clouds>,
    /// Credentials and their assignments.
    pub credentials: Arc<dyn Credentials>,
    /// Labels.
    pub labels: Arc<dyn LabelLayers>,
    /// Bootstrap tokens and nodes.
    pub nodes: Arc<dyn Nodes>,
    /// Machines, shards and demand.
    pub fleet: Arc<dyn Fleet>,
    /// Operators' tokens and the audit log.
    pub operators: Arc<dyn Operators>,
    /// What agents ask for.
    pub agents: Arc<dyn Agents>,
    /// Whether this process can serve.
    pub readiness: Arc<dyn Readiness>,
}

/// Resources: the broker's lives.
///
/// An id nobody knows is refused with `provisioned_resource_not_found`.
#[async_trait]
pub trait Resources: Send + Sync {
    /// Accepts a declaration. The same key and digest are answered with the resource they made.
    async fn provision(
        &self,
        caller: &Caller,
        declaration: Declaration,
        key: Option<KeyUse>,
    ) -> Answer<Provisioned>;
    /// Records the wish to delete; asking again changes nothing.
    async fn deprovision(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    /// Looks at one.
    async fn get(&self, id: ResourceId) -> Answer<ResourceView>;
    /// Lists them.
    async fn list(&self, query: ResourceQuery, paging: Paging) -> Answer<Page<ResourceView>>;
    /// Says why one is where it is.
    async fn why(&self, id: ResourceId) -> Answer<Why>;
    /// Says what a deletion would do, and changes nothing.
    async fn plan_deprovision(&self, id: ResourceId) -> Answer<Plan>;
    /// Every outside name it ever had, with the evidence.
    async fn receipt(&self, id: ResourceId) -> Answer<Receipt>;
    /// Looks at it now, even if it was parked.
    async fn retry(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    /// Asks for a new generation.
    async fn replace(&self, caller: &Caller, id: ResourceId) -> Answer<ResourceView>;
    /// Gives it up.
    async fn abandon(&self, caller: &Caller, id: ResourceId, why: &str) -> Answer<ResourceView>;
}

/// What stands outside and has no owner, and the rails that hold absence.
#[async_trait]
pub trait Orphans: Send + Sync {
    /// World minus ledger, and what was given up.
    async fn orphans(&self, paging: Paging) -> Answer<Page<Orphan>>;
    /// Takes every orphan that may be reaped back as a tombstone, which shows it out; says which.
    async fn reap(&self, caller: &Caller) -> Answer<Vec<Orphan>>;
    /// The rail of every world.
    async fn rails(&self) -> Answer<Vec<RailView>>;
    /// Opens the rail of a world; an unknown one is refused with `world_not_found`.
    async fn open_rail(&self, caller: &Caller, world: &str) -> Answer<RailView>;
}

/// The log of events.
#[async_trait]
pub trait Events: Send + Sync {
    /// The rows after a place, in the log's order, up to so many; no place is the beginning.
    ///
    /// A text that is no place is refused with `cursor_invalid`, a place that was forgotten with
    /// `cursor_forgotten`.
    async fn page(&self, after: Option<Cursor>, limit: u32) -> Answer<Vec<Told>>;
    /// Follows the log after a place; no place is the end of the log.
    async fn follow(&self, after: Option<Cursor>) -> Answer<Box<dyn Feed>>;
}

/// A reader of the log that waits for more.
#[async_trait]
pub trait Feed: Send {
    /// The next rows as soon as there are any. It may be given up while it waits without losing
    /// any. At the end of this process it fails with [`Failure::Unavailable`].
    async fn next(&mut self) -> Answer<Vec<Told>>;
}

/// Projects, where they are placed, and what they hold.
///
/// What is unknown is refused with `project_not_found` or `assignment_not_found` (no placement).
#[async_trait]
pub trait Projects: Send + Sync {
    /// Lists projects.
    async fn list(&self, paging: Paging) -> Answer<Page<Project>>;
    /// Finds a project.
    async fn get(&self, project: &Ref<ProjectId, ProjectSlug>) -> Answer<Project>;
    /// Makes a project; a slug that is taken is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewProject) -> Answer<Project>;
    /// Removes a project in which nothing lives.
    async fn delete(&self, caller: &Caller, id: ProjectId) -> Answer<()>;
    /// Lists placements.
    async fn placements(&self, paging: Paging) -> Answer<Page<Placement>>;
    /// Where a project is placed.
    async fn placement(&self, project: ProjectId) -> Answer<Placement>;
    /// Places a project on a world.
    async fn place(&self, caller: &Caller, project: ProjectId, world: &str) -> Answer<Placement>;
    /// Asks a placement to end, unless something lives there.
    async fn terminate_placement(&self, caller: &Caller, project: ProjectId) -> Answer<Placement>;
    /// A tenancy resource; an unknown one is refused with `tenancy_not_found`.
    async fn tenancy(&self, id: TenancyId) -> Answer<TenancyResource>;
}

/// The catalog of blueprints. An unknown one is refused with `blueprint_not_found`.
#[async_trait]
pub trait Catalog: Send + Sync {
    /// Lists blueprints.
    async fn list(&self, paging: Paging) -> Answer<Page<Blueprint>>;
    /// Finds a blueprint.
    async fn get(&self, blueprint: &Ref<BlueprintId, Slug>) -> Answer<Blueprint>;
    /// Its versions, oldest first.
    async fn versions(&self, blueprint: BlueprintId) -> Answer<Vec<BlueprintVersion>>;
    /// Publishes one bundle. The same version with the same content is answered as unchanged, with
    /// another content refused with `version_published`; a fatal finding is refused with
    /// `blueprint_unsound`.
    async fn publish(&self, caller: &Caller, bundle: Bundle) -> Answer<Imported>;
    /// Publishes what can be published of several, and says what became of each.
    async fn import(&self, caller: &Caller, bundles: Vec<Bundle>) -> Answer<Vec<Imported>>;
    /// Removes a version that no living resource was declared from, else `still_referenced`.
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
    /// Lists clouds.
    async fn list(&self, paging: Paging) -> Answer<Page<Cloud>>;
    /// Finds a cloud.
    async fn get(&self, cloud: &Ref<CloudId, Slug>) -> Answer<Cloud>;
    /// Enters a cloud; a name that is taken is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewCloud) -> Answer<Cloud>;
    /// Removes a cloud without credentials, else `still_referenced`.
    async fn delete(&self, caller: &Caller, id: CloudId) -> Answer<()>;
}

/// Credentials and which project may use them.
///
/// What is unknown is refused with `credential_not_found` or `credential_not_assigned`.
#[async_trait]
pub trait Credentials: Send + Sync {
    /// Lists credentials.
    async fn list(&self, paging: Paging) -> Answer<Page<CredentialView>>;
    /// Finds a credential.
    async fn get(&self, credential: &Ref<CredentialId, Slug>) -> Answer<CredentialView>;
    /// Enters a credential; a name that is taken is refused with `name_in_use`.
    async fn create(&self, caller: &Caller, new: NewCredential) -> Answer<CredentialView>;
    /// Withdraws a credential; the first time counts.
    async fn revoke(&self, caller: &Caller, id: CredentialId) -> Answer<CredentialView>;
    /// Removes a credential that nobody uses or may use, else `still_referenced`.
    async fn delete(&self, caller: &Caller, id: CredentialId) -> Answer<()>;
    /// Lists the assignments of a project.
    async fn assignments(&self, project: ProjectId) -> Answer<Vec<AssignmentView>>;
    /// Asks for a credential; a second request is refused with `name_in_use`.
    async fn request(&self, caller: &Caller, key: AssignmentKey) -> Answer<AssignmentView>;
    /// Decides about an assignment.
    async fn decide(
        &self,
        caller: &Caller,
        key: AssignmentKey,
        verdict: Verdict,
    ) -> Answer<AssignmentView>;
    /// Removes an assignment.
    async fn unassign(&self, caller: &Caller, key: AssignmentKey) -> Answer<()>;
}

/// Labels and what is known of their keys.
#[async_trait]
pub trait LabelLayers: Send + Sync {
    /// The labels of one layer.
    async fn get(&self, layer: Layer) -> Answer<Labels>;
    /// Writes the labels of one layer: these and no others. Wakes what they reach.
    async fn write(&self, caller: &Caller, layer: Layer, labels: Labels) -> Answer<Labels>;
    /// What is known of keys.
    async fn definitions(&self) -> Answer<Vec<Definition>>;
    /// Says what is known of a key; the last word counts.
    async fn define(&self, caller: &Caller, it: Definition) -> Answer<Definition>;
}

/// Bootstrap tokens and the nodes they became.
#[async_trait]
pub trait Nodes: Send + Sync {
    /// Lists bootstrap tokens of a project, or of each.
    async fn tokens(&self, project: Option<ProjectId>, paging: Paging) -> Answer<Page<TokenView>>;
    /// Lists nodes.
    async fn list(&self, query: NodeQuery, paging: Paging) -> Answer<Page<NodeView>>;
    /// Finds a node; an unknown one is refused with `node_not_found`.
    async fn get(&self, id: PeerId) -> Answer<NodeView>;
    /// Orders that a leaving node's drain waits for nobody's acknowledgement.
    async fn force(&self, caller: &Caller, id: PeerId) -> Answer<NodeView>;
}

/// Who may operate, and what was ordered.
#[async_trait]
pub trait Operators: Send + Sync {
    /// The caller behind a token that is good at this moment, if its hash is known.
    async fn admit(&self, hash: TokenHash) -> Answer<Option<Caller>>;
    /// Lists tokens, without their texts.
    async fn list(&self, paging: Paging) -> Answer<Page<OperatorToken>>;
    /// Makes a token. Its text is told here and never again; see `domain::operators::text`.
    async fn create(
        &self,
        caller: &Caller,
        new: NewOperatorToken,
    ) -> Answer<(OperatorToken, SecretText)>;
    /// Withdraws a token; an unknown one is refused with `operator_token_not_found`.
    async fn revoke(&self, caller: &Caller, id: OperatorTokenId) -> Answer<()>;
    /// Reads the audit log, in its order.
    async fn audit(&self, paging: Paging) -> Answer<Page<audit::Entry>>;
}

/// What agents ask for.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Registers a node. The same token, nonce and key are answered as the first time.
    ///
    /// A token of another resource than the named one is refused with `token_unknown`.
    async fn register(&self, registration: Registration) -> Answer<Enrolled>;
    /// Lets a node in by its secret, compared in constant time. A secret that is wrong is refused
    /// with `unauthenticated`; a node that is unknown or whose key is revoked with `key_revoked`.
    async fn admit(&self, node: PeerId, secret: &SecretText) -> Answer<()>;
    /// Hears a sign of life, which acknowledges a snapshot of the mesh.
    async fn heartbeat(&self, node: PeerId, beat: Beat) -> Answer<BeatAnswer>;
    /// Tells a node things from now on, and first what it missed since an id.
    async fn stream(&self, node: PeerId, last: Option<String>) -> Answer<Box<dyn AgentFeed>>;
    /// Hears a node's last word.
    async fn leave(&self, node: PeerId, in_flight: u64) -> Answer<()>;
}

/// What a node is told, as it happens.
#[async_trait]
pub trait AgentFeed: Send {
    /// The next thing; nothing is the end of the stream. It may be given up while it waits.
    async fn next(&mut self) -> Option<AgentTold>;
}

/// Whether this process can serve.
#[async_trait]
pub trait Readiness: Send + Sync {
    /// Every check, by its name. A row's trouble is none of them.
    async fn checks(&self) -> Vec<Check>;
}
