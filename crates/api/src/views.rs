//! The types that ports take and return.

use std::time::Duration;

use serde_json::{Map, Value};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::verdict::EffectKind;
use usher_domain::catalog::lint::Finding;
use usher_domain::object::enrolment::{Nonce, PublicKey, TokenText};
use usher_domain::object::id::{
    CloudId, CredentialId, OperatorTokenId, PeerId, ProjectId, ProviderConfigId, ResourceId,
};
use usher_domain::object::idempotency;
use usher_domain::object::key::KeyRecord;
use usher_domain::object::manifest::SecretText;
use usher_domain::object::provider::Provider;
use usher_domain::object::slug::Slug;
use usher_domain::operators::Grant;
use usher_domain::peers::{Liveness, Peer};
use usher_domain::projects::{ProjectName, ProjectSlug};
use usher_domain::tokens::Token;
use usher_kernel::{Name, Row, Timestamp, Version};
use usher_wire::http::AgentEvent;

pub use crate::log::{Cursor, LogEntry, Subject};

/// The owner of a valid operator's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// Idempotency keys are scoped to the token.
    pub token: OperatorTokenId,
    /// The name of the token: the actor of the audit log.
    pub name: Slug,
    pub grant: Grant,
}

/// A reference by id or name. A text that parses as an id is always an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ref<Id, Name> {
    Id(Id),
    Name(Name),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// The cursor of the previous page; `None` is the first page.
    pub after: Option<String>,
    /// Within 1 and 500.
    pub limit: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The cursor of the next page, opaque to callers.
    pub next: Option<String>,
}

/// An idempotency key with the digest of its request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub key: idempotency::Key,
    pub digest: idempotency::Digest,
}

/// An accepted declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Provisioned {
    pub resource: ResourceView,
    /// Whether an earlier request with the same key created it.
    pub replayed: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceQuery {
    /// `None` is every project.
    pub project: Option<ProjectId>,
    /// Only the newest resource of this name, per project.
    pub name: Option<String>,
    /// Also deleted ones. A name is found whether it is deleted or not.
    pub deleted: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeQuery {
    /// `None` is every project.
    pub project: Option<ProjectId>,
    /// Also deregistered ones.
    pub all: bool,
}

/// A resource with the names of what it refers to.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    pub resource: Resource,
    pub version: Version,
    /// `None` before the first reconciliation.
    pub reason: Option<Reason>,
    pub project: ProjectSlug,
    /// `None` if the blueprint was deleted.
    pub blueprint: Option<(Slug, String)>,
    /// `None` if the credential was deleted.
    pub credential: Option<Slug>,
    /// `None` if it has no node.
    pub node: Option<Liveness>,
}

/// Something that keeps a resource in its phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// `peer`, `usage`, `namespace`, `anchor`, …
    pub kind: String,
    pub name: String,
    pub since: Option<Timestamp>,
    /// One sentence.
    pub text: String,
}

/// An applicable runbook entry, filled with current facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    pub symptom: String,
    pub diagnosis: String,
    /// A sentence or a command.
    pub remedy: String,
}

/// The explanation of a resource's phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    pub resource: ResourceView,
    /// One sentence.
    pub summary: String,
    pub blockers: Vec<Blocker>,
    pub advice: Vec<Advice>,
    /// Failed attempts since the last completed step.
    pub attempts: u32,
    /// When it is reconciled next; `None` if only a wake-up does.
    pub next_reconcile_at: Option<Timestamp>,
    /// Whether it waits for an operator to retry it.
    pub parked: bool,
    /// The error of the last step, if it failed.
    pub trouble: Option<String>,
}

/// What a deletion would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub resource: ResourceView,
    pub steps: Vec<PlanStep>,
    pub blockers: Vec<Blocker>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    pub phase: Phase,
    pub reason: Reason,
    /// `None` means waiting.
    pub effect: Option<EffectKind>,
    pub name: Option<Name>,
}

/// Every external name a resource ever had, with its state.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    pub resource: ResourceView,
    /// Oldest first.
    pub rows: Vec<Row>,
    /// The ProviderConfig it shares, with its own names.
    pub provider_config: Option<(ProviderConfigId, Vec<Row>)>,
}

/// An object of ours in a world that no active record accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub world: String,
    pub kind: String,
    /// A namespace, or empty.
    pub place: String,
    pub name: String,
    pub uid: Option<String>,
    /// The resource that its labels name.
    pub resource: Option<ResourceId>,
    /// Why it has no owner.
    pub cause: String,
    /// Objects of another installation are not reapable.
    pub reapable: bool,
}

/// The mass-deletion guard of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardView {
    pub world: String,
    /// Since when the guard distrusts absence.
    pub tripped_at: Option<Timestamp>,
    /// Objects that vanished unasked within the window.
    pub vanished: u32,
    /// Objects that were present.
    pub present: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProject {
    pub slug: ProjectSlug,
    /// The display name.
    pub name: ProjectName,
}

/// The outcome of one bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// `None` if it was not published.
    pub version: Option<usher_domain::catalog::BlueprintVersion>,
    pub blueprint: Slug,
    /// The name of the version.
    pub name: String,
    /// Whether the same content was published before.
    pub unchanged: bool,
    pub findings: Vec<Finding>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NewCloud {
    pub name: Slug,
    pub provider: Provider,
    /// Holds no secrets.
    pub endpoint: Map<String, Value>,
}

/// The coordinates of a credential, never its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCredential {
    pub name: Slug,
    pub cloud: Ref<CloudId, Slug>,
    pub coordinates: usher_domain::credentials::KvCoordinates,
    pub expires_at: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialView {
    pub credential: usher_domain::credentials::Credential,
    pub cloud: Slug,
    /// At this moment.
    pub status: usher_domain::credentials::Status,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentView {
    pub assignment: usher_domain::credentials::Assignment,
    pub project: ProjectSlug,
    pub credential: Slug,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentKey {
    pub project: ProjectId,
    pub credential: Ref<CredentialId, Slug>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    Installation,
    Project(ProjectId),
    Resource(ResourceId),
}

/// A bootstrap token, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    pub token: Token,
    pub redeemable: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    pub peer: Peer,
    /// The name of its resource.
    pub resource: String,
    pub liveness: Liveness,
    /// Since when no present server hears it, and when it counts as lost for that.
    pub unknown: Option<(Timestamp, Timestamp)>,
    /// The last heartbeat that this process received.
    pub last_heartbeat_at: Option<Timestamp>,
    pub agent_version: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOperatorToken {
    pub name: Slug,
    pub grant: Grant,
    pub expires_at: Option<Timestamp>,
}

/// A validated registration request.
#[derive(Clone, Debug)]
pub struct Registration {
    pub text: TokenText,
    /// As the agent claims.
    pub project: ProjectId,
    /// As the agent claims.
    pub resource: ResourceId,
    pub nonce: Nonce,
    pub public_key: PublicKey,
    /// At most 64 visible characters.
    pub agent_version: String,
}

/// The answer to a registration, the same for every repetition.
#[derive(Clone, Debug)]
pub struct Enrolled {
    pub node: PeerId,
    pub secret: SecretText,
    /// The heartbeat interval.
    pub heartbeat: Duration,
}

/// A heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The newest snapshot of the mesh it applied.
    pub acknowledged: u64,
    pub in_flight: u64,
    pub draining: bool,
    pub agent_version: String,
}

/// A server key, and what names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyView {
    pub key: KeyRecord,
    /// Bootstrap tokens that may still be redeemed.
    pub tokens: u64,
    /// Nodes that call with a secret of it.
    pub nodes: u64,
    /// Whether the answering server holds it.
    pub held: bool,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug)]
pub struct BeatAnswer {
    pub snapshot: u64,
    /// The drain grace, if the node is being drained.
    pub drain: Option<Duration>,
    /// The secret of the current key, if the node called with the one of an older key.
    pub secret: Option<SecretText>,
}

/// A message to a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentMessage {
    /// Its id, if the stream can be resumed after it.
    pub id: Option<String>,
    pub event: AgentEvent,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// `database`, `world:local`, `worker`, …
    pub name: String,
    /// The error, without secrets.
    pub failing: Option<String>,
}
