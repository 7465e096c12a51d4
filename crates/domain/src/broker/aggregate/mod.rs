//! The provisioned resource: one row, two constructors, one validation path.

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name, NameLedger, Row, Timestamp};

use super::command::Outstanding;
use super::event::Outcome;
use super::facts::{Finalization, GenerationState, Intent, RowFacts};
use super::phase::Phase;
use super::refusal::Refusal;
use super::render::{AgentImage, ApiUrl, anchor};
use super::verdict::{RecordChange, Verdict};
use crate::blueprint::MeshRole;
use crate::blueprint::{CompositeType, InjectionStrategy, ParameterValues};
use crate::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, ProjectId, ProviderConfigId, ResourceId,
    TenancyId,
};
use crate::object::label::is_dns_label;
use crate::object::manifest::Scope;
use crate::object::name;

/// The kind of a bootstrap token in the identity ledger.
pub const KIND_TOKEN: &str = "Token";
/// The kind of a peer in the identity ledger.
pub const KIND_PEER: &str = "Peer";

/// What a resource is, as stored. Public so that a store can fill it; only a [`Resource`] made
/// from it by [`Resource::hydrate`] may be decided upon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fields {
    pub id: ResourceId,
    /// What its people call it; unique in its project among the not deleted.
    pub name: String,
    /// The tenancy resource behind it.
    pub tenancy: TenancyId,
    pub project: ProjectId,
    /// The blueprint version it was declared from.
    pub blueprint_version: BlueprintVersionId,
    /// The credential it was declared with; the cloud follows from it.
    pub credential: CredentialId,
    /// What was read from the records it refers to once, at acceptance.
    pub pinned: Pinned,
    pub phase: Phase,
    pub generation: Generation,
    /// The progress of the generation.
    pub generation_state: GenerationState,
    /// When deletion was requested; written once.
    pub deletion_requested_at: Option<Timestamp>,
    /// Until when absence does not count, because a late request may still arrive.
    pub grace_until: Option<Timestamp>,
    /// When the substrate of this generation was first ready; starts the token's lifetime.
    pub substrate_ready_at: Option<Timestamp>,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// When it was declared.
    pub created_at: Timestamp,
    /// When the row last changed.
    pub updated_at: Timestamp,
    /// When the phase last changed.
    pub phase_since: Timestamp,
}

/// What was read from the records it refers to once, so that teardown needs none of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The installation that owns whatever it creates.
    pub installation: InstallationId,
    /// The world of the substrate.
    pub world: String,
    /// The project's namespace there.
    pub namespace: String,
    /// The XR's type.
    pub composite: CompositeType,
    /// The XR's name.
    pub xr_name: String,
    /// Whether a node enrols.
    pub role: MeshRole,
    /// How its token reaches it.
    pub strategy: InjectionStrategy,
    /// The parameters, defaults included.
    pub parameters: ParameterValues,
    /// Where its agent finds us.
    pub api_url: ApiUrl,
    /// What its agent is.
    pub agent_image: AgentImage,
    /// The ProviderConfig's counted row.
    pub provider_config: ProviderConfigId,
}

/// What a declaration fixes for the lifetime of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    pub id: ResourceId,
    /// What its people call it.
    pub name: String,
    /// The tenancy resource behind it.
    pub tenancy: TenancyId,
    pub project: ProjectId,
    pub blueprint_version: BlueprintVersionId,
    pub credential: CredentialId,
    /// What was read from the records it refers to.
    pub pinned: Pinned,
}

/// A resource whose invariants hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Resource {
    fields: Fields,
}

impl Resource {
    /// A new declaration.
    pub fn declare(declared: Declared, now: Timestamp) -> Result<Self, Refusal> {
        let Declared { id, name, tenancy, project, blueprint_version, credential, pinned } =
            declared;
        Self::build(Fields {
            id,
            name,
            tenancy,
            project,
            blueprint_version,
            credential,
            pinned,
            phase: Phase::Pending,
            generation: Generation::FIRST,
            generation_state: GenerationState::Fresh,
            deletion_requested_at: None,
            grace_until: None,
            substrate_ready_at: None,
            outcome: None,
            created_at: now,
            updated_at: now,
            phase_since: now,
        })
    }

    /// A stored row; one that breaks the invariants is refused here and not found out later.
    pub fn hydrate(fields: Fields) -> Result<Self, Refusal> {
        Self::build(fields)
    }

    fn build(fields: Fields) -> Result<Self, Refusal> {
        match first_offence(&fields) {
            Some("name") => Err(Refusal::bad_name(&fields.name)),
            Some(what) => Err(Refusal::InvalidInput { what: what.to_owned() }),
            None => Ok(Self { fields }),
        }
    }

    /// Everything, for storing and showing.
    pub const fn fields(&self) -> &Fields {
        &self.fields
    }

    pub const fn id(&self) -> ResourceId {
        self.fields.id
    }

    pub const fn phase(&self) -> Phase {
        self.fields.phase
    }

    pub const fn generation(&self) -> Generation {
        self.fields.generation
    }

    /// The progress of the generation.
    pub const fn generation_state(&self) -> GenerationState {
        self.fields.generation_state
    }

    /// What was read from the records it refers to at acceptance.
    pub const fn pinned(&self) -> &Pinned {
        &self.fields.pinned
    }

    /// When deletion was requested.
    pub const fn deletion_requested_at(&self) -> Option<Timestamp> {
        self.fields.deletion_requested_at
    }

    /// Whether a part of this resource is being torn down, so that every generation counts.
    pub const fn is_tearing_down(&self) -> bool {
        self.fields.deletion_requested_at.is_some()
            || self.fields.phase.is_leaving()
            || matches!(self.fields.generation_state, GenerationState::Leaving)
    }

    /// Whether a token of this generation may be redeemed: no agent enrols into a generation in
    /// teardown.
    pub fn admits(&self, generation: Generation) -> bool {
        self.fields.generation == generation && !self.is_tearing_down()
    }

    /// The row as its next worker takes it: a worker that has released its lease cleanly since the
    /// teardown began is not awaited any more.
    #[must_use]
    pub fn with_grace(&self, outstanding: &Outstanding, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.grace_until = self.fields.grace_until.min(outstanding.grace_until(now));
        next
    }

    /// Whether absence counts: no request from before the teardown began can still arrive.
    pub fn is_grace_over(&self, now: Timestamp) -> bool {
        self.fields.grace_until.is_none_or(|until| until <= now)
    }

    /// The facts of the row, with the identity rows as of the end of this step.
    pub fn facts(&self, name_ledger: &NameLedger, now: Timestamp) -> RowFacts {
        let intent = match self.fields.deletion_requested_at {
            Some(_) => Intent::Requested,
            None => Intent::None,
        };
        let finalization = if !self.is_grace_over(now) {
            Finalization::InFlight
        } else if name_ledger.is_settled() {
            Finalization::Settled
        } else {
            Finalization::Open
        };
        RowFacts {
            phase: self.fields.phase,
            intent,
            generation_state: self.fields.generation_state,
            role: self.fields.pinned.role,
            finalization,
        }
    }

    /// The row after a verdict. Times move only if something else does.
    pub(super) fn turned(&self, verdict: Verdict, substrate_ready: bool, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.phase = verdict.phase;
        if substrate_ready && next.fields.substrate_ready_at.is_none() {
            next.fields.substrate_ready_at = Some(now);
        }
        match verdict.change {
            None => {}
            Some(RecordChange::To(generation_state)) => {
                next.fields.generation_state = generation_state;
            }
            Some(RecordChange::Next) => {
                next.fields.generation = self.fields.generation.next();
                next.fields.generation_state = GenerationState::Fresh;
                next.fields.grace_until = None;
                next.fields.substrate_ready_at = None;
            }
        }
        if verdict.phase == Phase::Deleted && self.fields.phase != Phase::Deleted {
            next.fields.outcome = Some(Outcome::Removed);
        }
        next.touched(self, now)
    }

    /// The row after deletion was requested; the same row if it already was.
    pub(super) fn retired(&self, grace_until: Option<Timestamp>, now: Timestamp) -> Self {
        if self.fields.deletion_requested_at.is_some() {
            return self.clone();
        }
        let mut next = self.clone();
        next.fields.phase = match self.fields.pinned.role {
            MeshRole::Node => Phase::Deregistering,
            MeshRole::Standalone => Phase::Deprovisioning,
        };
        next.fields.deletion_requested_at = Some(now);
        next.fields.grace_until = self.fields.grace_until.max(grace_until);
        next.touched(self, now)
    }

    /// The row after a new generation was requested.
    pub(super) fn replaced(&self, grace_until: Option<Timestamp>, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.phase = Phase::Pending;
        next.fields.generation_state = GenerationState::Leaving;
        next.fields.grace_until = self.fields.grace_until.max(grace_until);
        next.touched(self, now)
    }

    /// The row after it was abandoned.
    pub(super) fn abandoned(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.phase = Phase::Deleted;
        next.fields.deletion_requested_at = self.fields.deletion_requested_at.or(Some(now));
        next.fields.outcome = Some(Outcome::Abandoned);
        next.touched(self, now)
    }

    /// The row after an abandoned resource was put back into teardown.
    pub(super) fn reaped(&self, now: Timestamp) -> Self {
        let mut next = self.clone();
        next.fields.outcome = Some(Outcome::Removed);
        next.touched(self, now)
    }

    fn touched(mut self, before: &Self, now: Timestamp) -> Self {
        if self == *before {
            return self;
        }
        let now = now.max(before.fields.updated_at);
        self.fields.updated_at = now;
        if self.fields.phase != before.fields.phase {
            self.fields.phase_since = now;
        }
        self
    }

    /// The namespace of the XR and its anchor; empty if they are cluster-scoped.
    fn place(&self) -> String {
        match self.fields.pinned.composite.scope() {
            Scope::Namespaced => self.fields.pinned.namespace.clone(),
            Scope::Cluster => String::new(),
        }
    }

    /// The name of the anchor of a generation.
    pub fn anchor_name(&self, generation: Generation) -> Name {
        Name {
            kind: anchor::kind(self.fields.pinned.composite.scope()).to_owned(),
            place: self.place(),
            name: name::anchor(self.fields.id, generation),
            generation,
        }
    }

    /// The name of the XR of a generation.
    pub fn xr_name(&self, generation: Generation) -> Name {
        Name {
            kind: self.fields.pinned.composite.group_kind(),
            place: self.place(),
            name: self.fields.pinned.xr_name.clone(),
            generation,
        }
    }

    /// The name of the bootstrap token of a generation.
    pub fn token_name(&self, generation: Generation) -> Name {
        self.enrolment_name(KIND_TOKEN, generation)
    }

    /// The name of the peer of a generation: known by the token that it redeems.
    pub fn peer_name(&self, generation: Generation) -> Name {
        self.enrolment_name(KIND_PEER, generation)
    }

    fn enrolment_name(&self, kind: &str, generation: Generation) -> Name {
        Name {
            kind: kind.to_owned(),
            place: String::new(),
            name: name::token(self.fields.id, generation).to_string(),
            generation,
        }
    }

    /// The names the current generation will use, recorded before any of them is used.
    pub fn intended(&self, by: &str, now: Timestamp) -> Vec<Row> {
        let generation = self.fields.generation;
        let mut names = vec![self.anchor_name(generation), self.xr_name(generation)];
        if self.fields.pinned.role == MeshRole::Node {
            names.push(self.token_name(generation));
        }
        let xr = self.xr_name(generation);
        let plural =
            |name: &Name| (*name == xr).then(|| self.fields.pinned.composite.plural().to_owned());
        let row = |name: Name| {
            let plural = plural(&name);
            Row::intended(name, by, now).with_plural(plural)
        };
        names.into_iter().map(row).collect()
    }
}

fn first_offence(fields: &Fields) -> Option<&'static str> {
    let asked = fields.deletion_requested_at.is_some();
    let rules = [
        (fields.id.is_zero(), "id"),
        (fields.tenancy.is_zero(), "tenancy"),
        (fields.project.is_zero(), "project"),
        (fields.blueprint_version.is_zero(), "blueprint_version"),
        (fields.credential.is_zero(), "credential"),
        (fields.pinned.installation.is_zero(), "installation"),
        (fields.pinned.provider_config.is_zero(), "provider_config"),
        (fields.pinned.xr_name != name::xr(fields.id), "xr_name"),
        (!is_dns_label(&fields.name), "name"),
        (fields.pinned.namespace.trim().is_empty(), "namespace"),
        (fields.pinned.world.trim().is_empty(), "world"),
        (fields.generation < Generation::FIRST, "generation"),
        (fields.created_at == Timestamp::ZERO, "created_at"),
        (fields.updated_at < fields.created_at, "updated_at"),
        (fields.phase_since < fields.created_at, "phase_since"),
        (fields.phase.is_leaving() && !asked, "deletion_requested_at"),
        (fields.outcome.is_some() != (fields.phase == Phase::Deleted), "outcome"),
    ];
    rules.into_iter().find_map(|(broken, what)| broken.then_some(what))
}

#[cfg(test)]
mod tests;
