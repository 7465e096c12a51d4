//! What goes in and out of the ports, in the domain's own words.

use std::time::Duration;

use serde_json::{Map, Value};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::verdict::EffectKind;
use usher_domain::catalog::lint::Finding;
use usher_domain::idempotency;
use usher_domain::object::enrolment::{Nonce, PublicKey, TokenText};
use usher_domain::object::id::{
    CloudId, CredentialId, OperatorTokenId, PeerId, ProjectId, ProviderConfigId, ResourceId,
};
use usher_domain::object::manifest::SecretText;
use usher_domain::object::provider::Provider;
use usher_domain::object::slug::Slug;
use usher_domain::operators::Grant;
use usher_domain::peers::{Liveness, Peer};
use usher_domain::projects::{ProjectName, ProjectSlug};
use usher_domain::tokens::Token;
use usher_kernel::{Name, Row, Timestamp, Version};
use usher_wire::http::AgentEvent;

pub use crate::log::{Cursor, Subject, Told};

/// Whoever is let in by an operator's token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    /// The token; idempotency keys are scoped to it.
    pub token: OperatorTokenId,
    /// What the token is called: the actor of the audit log.
    pub name: Slug,
    /// What it allows, and where.
    pub grant: Grant,
}

/// A thing that has a name and an id. A text in the form of an id is always an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ref<Id, Name> {
    /// By its id.
    Id(Id),
    /// By its name.
    Name(Name),
}

/// Where a listing goes on, and how much of it is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paging {
    /// What the page before said was next; nothing begins at the beginning.
    pub after: Option<String>,
    /// The most items, within 1 and 500.
    pub limit: u32,
}

/// One page of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page<T> {
    /// What is on it.
    pub items: Vec<T>,
    /// Where the next one begins, if there is one. Whoever made it reads it; nobody else does.
    pub next: Option<String>,
}

/// A declaration, as it is asked for: names, not yet resolved.
#[derive(Clone, Debug, PartialEq)]
pub struct Declaration {
    /// What its people call it.
    pub name: String,
    /// The project.
    pub project: ProjectId,
    /// The blueprint.
    pub blueprint: Slug,
    /// Its version; nothing means the newest.
    pub version: Option<String>,
    /// The credential.
    pub credential: Slug,
    /// The parameters that were given.
    pub parameters: Map<String, Value>,
}

/// A key a caller brought, with the digest of what it was brought for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    /// The key.
    pub key: idempotency::Key,
    /// What was asked for.
    pub digest: idempotency::Digest,
}

/// A declaration that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Provisioned {
    /// The resource.
    pub resource: ResourceView,
    /// Whether it was accepted before and is only answered again.
    pub replayed: bool,
}

/// Which resources are listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResourceQuery {
    /// Of this project; nothing means of each.
    pub project: Option<ProjectId>,
    /// Only the newest life of this name, in each project.
    pub name: Option<String>,
    /// Whether deleted ones are listed too. A name is always found, deleted or not.
    pub deleted: bool,
}

/// Which nodes are listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeQuery {
    /// Of this project; nothing means of each.
    pub project: Option<ProjectId>,
    /// Whether deregistered ones are listed too.
    pub all: bool,
}

/// A resource with what its row does not say.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceView {
    /// The row.
    pub resource: Resource,
    /// Its version.
    pub version: Version,
    /// Why it is where it is, once somebody looked.
    pub reason: Option<Reason>,
    /// What its project is called.
    pub project: ProjectSlug,
    /// What its blueprint is called, if it is still in the catalog.
    pub blueprint: Option<(Slug, String)>,
    /// What its credential is called, if there still is one.
    pub credential: Option<Slug>,
}

/// Something that holds a resource where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    /// What kind of thing it is: `peer`, `usage`, `namespace`, `rail`, `anchor`, …
    pub kind: String,
    /// Which one.
    pub name: String,
    /// Since when, if that is known.
    pub since: Option<Timestamp>,
    /// What it is doing, in a sentence.
    pub text: String,
}

/// An entry of the runbook that fits, with live facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What is seen.
    pub symptom: String,
    /// What it means.
    pub diagnosis: String,
    /// What to do: a sentence or a command.
    pub remedy: String,
}

/// Why a resource is where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct Why {
    /// The resource.
    pub resource: ResourceView,
    /// What it waits for or does, in a sentence.
    pub summary: String,
    /// Who holds it.
    pub blockers: Vec<Blocker>,
    /// What to make of it.
    pub advice: Vec<Advice>,
    /// How often it was tried since the last step that was finished.
    pub attempts: u32,
    /// When somebody looks again; nothing is a rest without a timer.
    pub next_look_at: Option<Timestamp>,
    /// Whether nobody looks again before an operator says so.
    pub parked: bool,
    /// What failed last, if the last step did not end well.
    pub trouble: Option<String>,
}

/// What a deletion would do.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The resource.
    pub resource: ResourceView,
    /// Its steps, in their order.
    pub steps: Vec<PlanStep>,
    /// What would hold it up.
    pub blockers: Vec<Blocker>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanStep {
    /// The phase it happens in.
    pub phase: Phase,
    /// Why.
    pub reason: Reason,
    /// What would be done; nothing means waiting.
    pub effect: Option<EffectKind>,
    /// To which name, if to one.
    pub name: Option<Name>,
}

/// Every outside name a resource ever had, and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Receipt {
    /// The resource.
    pub resource: ResourceView,
    /// Its names with their evidence, oldest first.
    pub rows: Vec<Row>,
    /// The ProviderConfig it shares, with that life's own names.
    pub provider_config: Option<(ProviderConfigId, Vec<Row>)>,
}

/// Something of ours outside that no living row accounts for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Orphan {
    /// The world it stands in.
    pub world: String,
    /// What kind of thing it is.
    pub kind: String,
    /// Where: a namespace, or empty.
    pub place: String,
    /// What it is called there.
    pub name: String,
    /// Its uid, if it was seen.
    pub uid: Option<String>,
    /// The life it says it belongs to.
    pub resource: Option<ResourceId>,
    /// Why nobody owns it, in a few words.
    pub cause: String,
    /// Whether it may be reaped: nothing of another installation is.
    pub reapable: bool,
}

/// The rail of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RailView {
    /// The world.
    pub world: String,
    /// Since when absence is held, if it is.
    pub tripped_at: Option<Timestamp>,
    /// How much vanished unasked within the window.
    pub vanished: u32,
    /// How much was present.
    pub present: u32,
}

/// A project to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewProject {
    /// What it is called in commands and paths.
    pub slug: ProjectSlug,
    /// What it is called on screens.
    pub name: ProjectName,
}

/// What became of a bundle.
#[derive(Clone, Debug, PartialEq)]
pub struct Imported {
    /// The version, unless it could not be published.
    pub version: Option<usher_domain::catalog::BlueprintVersion>,
    /// The blueprint of the bundle.
    pub blueprint: Slug,
    /// The version's name in the bundle.
    pub name: String,
    /// Whether it was published before, with the same content.
    pub unchanged: bool,
    /// What was noticed.
    pub findings: Vec<Finding>,
}

/// A cloud to be entered.
#[derive(Clone, Debug, PartialEq)]
pub struct NewCloud {
    /// What it is called.
    pub name: Slug,
    /// Who runs it.
    pub provider: Provider,
    /// Where it answers. No secrets.
    pub endpoint: Map<String, Value>,
}

/// A credential to be entered: where it lies, never what it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewCredential {
    /// What it is called.
    pub name: Slug,
    /// The cloud it was issued for.
    pub cloud: Ref<CloudId, Slug>,
    /// Where it lies.
    pub coordinates: usher_domain::credentials::KvCoordinates,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// A credential, and what the listing of one says beside its row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialView {
    /// The row.
    pub credential: usher_domain::credentials::Credential,
    /// What its cloud is called.
    pub cloud: Slug,
    /// Whether it holds at this moment.
    pub status: usher_domain::credentials::Status,
}

/// An assignment with the names of both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentView {
    /// The row.
    pub assignment: usher_domain::credentials::Assignment,
    /// What the project is called.
    pub project: ProjectSlug,
    /// What the credential is called.
    pub credential: Slug,
}

/// Whose credential is meant, and for whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentKey {
    /// The project.
    pub project: ProjectId,
    /// The credential.
    pub credential: Ref<CredentialId, Slug>,
}

/// What labels are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The whole installation.
    Installation,
    /// A project.
    Project(ProjectId),
    /// A resource.
    Resource(ResourceId),
}

/// A bootstrap token, without its text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenView {
    /// The row.
    pub token: Token,
    /// Whether anybody could still redeem it.
    pub redeemable: bool,
}

/// A node of the mesh.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The row.
    pub peer: Peer,
    /// What its resource is called.
    pub resource: String,
    /// Whether it is heard.
    pub liveness: Liveness,
    /// When it was last heard by this process.
    pub heard_at: Option<Timestamp>,
    /// What it says it is, if it was heard.
    pub agent_version: Option<String>,
}

/// An operator's token to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewOperatorToken {
    /// What it is called.
    pub name: Slug,
    /// What it allows, and where.
    pub grant: Grant,
    /// When it ends by itself.
    pub expires_at: Option<Timestamp>,
}

/// What an agent registers with, as checked data.
#[derive(Clone, Debug)]
pub struct Registration {
    /// The bootstrap token.
    pub text: TokenText,
    /// The project it believes to join.
    pub project: ProjectId,
    /// The resource it believes to be.
    pub resource: ResourceId,
    /// Its nonce.
    pub nonce: Nonce,
    /// Its key.
    pub public_key: PublicKey,
    /// What it is, at most 64 visible characters.
    pub agent_version: String,
}

/// The answer to a registration, the same for each repetition.
#[derive(Clone, Debug)]
pub struct Enrolled {
    /// Who it is from now on.
    pub node: PeerId,
    /// What it calls with from now on.
    pub secret: SecretText,
    /// How often it says that it lives.
    pub heartbeat: Duration,
}

/// A sign of life. Its acknowledgement of the mesh rides on it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beat {
    /// The newest snapshot of the mesh it knows.
    pub acknowledged: u64,
    /// How much work it has in flight.
    pub in_flight: u64,
    /// Whether it is on its way out.
    pub draining: bool,
    /// What it is.
    pub agent_version: String,
}

/// The answer to a sign of life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BeatAnswer {
    /// The newest snapshot of the mesh.
    pub snapshot: u64,
    /// The order to leave within this time, if there is one.
    pub drain: Option<Duration>,
}

/// Something a node is told, with the id it goes on after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentTold {
    /// Its id in the stream, if it can be gone on after.
    pub id: Option<String>,
    /// What.
    pub event: AgentEvent,
}

/// One named check of readiness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// What was asked: `database`, `world:local`, `worker`, …
    pub name: String,
    /// What is wrong, if something is. No secret, no row's trouble.
    pub failing: Option<String>,
}
