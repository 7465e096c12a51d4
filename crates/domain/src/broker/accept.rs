//! Accepting a declaration: everything is resolved, checked and named before anything is written.

use serde_json::{Map, Value};
use usher_kernel::{Generation, Row, Timestamp};

use super::aggregate::{Fields, Pinned, Resource};
use super::event::Event;
use super::facts::{Role, Tenure};
use super::phase::Phase;
use super::ports::{AssignmentView, BlueprintView, CredentialView, Views};
use super::refusal::Refusal;
use super::render::{AgentImage, ApiUrl};
use crate::blueprint::MeshRole;
use crate::object::enrolment::KeyId;
use crate::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, ProjectId, ProviderConfigId, ResourceId,
    TenancyId,
};
use crate::object::name;

/// A declaration: a node on this cloud from this blueprint, in this project.
#[derive(Clone, Debug, PartialEq)]
pub struct Provision {
    /// What its people call it.
    pub name: String,
    /// The project.
    pub project: ProjectId,
    /// The blueprint version.
    pub blueprint_version: BlueprintVersionId,
    /// The credential.
    pub credential: CredentialId,
    /// The parameters that were given.
    pub parameters: Map<String, Value>,
}

/// What is minted or set where randomness and settings are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The new life.
    pub resource: ResourceId,
    /// The tenancy resource behind it.
    pub tenancy: TenancyId,
    /// The ProviderConfig's row, should there be none yet.
    pub provider_config: ProviderConfigId,
    /// This installation.
    pub installation: InstallationId,
    /// Where agents find us.
    pub api_url: ApiUrl,
    /// What agents are.
    pub agent_image: AgentImage,
    /// The key tokens are derived with.
    pub key_id: KeyId,
}

/// An accepted declaration: written in one transaction that also counts the ProviderConfig's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The row.
    pub resource: Resource,
    /// The names its first generation will use.
    pub rows: Vec<Row>,
    /// What is told.
    pub event: Event,
    /// Whether the ProviderConfig's row has to be made.
    pub new_provider_config: bool,
}

/// Accepts a declaration or says why not. Nothing is minted here and nothing is asked.
pub fn provision(
    command: &Provision,
    views: &Views,
    minted: &Minted,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let Resolved { blueprint, credential, assignment } = resolve(command, views)?;
    let parameters = blueprint.schema.materialise(&command.parameters)?;
    if views.name_in_use {
        return Err(Refusal::NameInUse { what: command.name.clone() });
    }
    let resource = Resource::declare(Fields {
        id: minted.resource,
        name: command.name.clone(),
        tenancy: minted.tenancy,
        project: command.project,
        blueprint_version: blueprint.version,
        credential: credential.id,
        pinned: Pinned {
            installation: minted.installation,
            world: assignment.world.clone(),
            namespace: assignment.namespace.clone(),
            composite: blueprint.composite.clone(),
            xr_name: name::xr(minted.resource),
            role: match blueprint.role {
                MeshRole::Node => Role::Node,
                MeshRole::Standalone => Role::Standalone,
            },
            strategy: blueprint.strategy,
            parameters,
            api_url: minted.api_url.clone(),
            agent_image: minted.agent_image.clone(),
            key_id: minted.key_id.clone(),
            provider_config: views.provider_config.unwrap_or(minted.provider_config),
        },
        phase: Phase::Pending,
        generation: Generation::FIRST,
        tenure: Tenure::Fresh,
        deletion_requested_at: None,
        quiet_until: None,
        substrate_ready_at: None,
        outcome: None,
        created_at: now,
        updated_at: now,
        phase_since: now,
    })?;
    let rows = resource.intended("usher", now);
    let new_provider_config = views.provider_config.is_none();
    Ok(Accepted { resource, rows, event: Event::Requested, new_provider_config })
}

struct Resolved<'a> {
    blueprint: &'a BlueprintView,
    credential: &'a CredentialView,
    assignment: &'a AssignmentView,
}

/// Finds every sibling, or names the first one that is missing.
fn resolve<'a>(command: &Provision, views: &'a Views) -> Result<Resolved<'a>, Refusal> {
    let blueprint = views.blueprint.as_ref().ok_or_else(|| Refusal::BlueprintNotFound {
        what: command.blueprint_version.to_string(),
    })?;
    let credential = views
        .credential
        .as_ref()
        .ok_or_else(|| Refusal::CredentialNotFound { what: command.credential.to_string() })?;
    let cloud = views
        .cloud
        .as_ref()
        .ok_or_else(|| Refusal::CloudNotFound { what: credential.cloud.to_string() })?;
    if let Err(denied) = &credential.usable {
        return Err(Refusal::CredentialDenied { code: denied.code, text: denied.text.clone() });
    }
    if !blueprint.providers.contains(&cloud.provider) {
        return Err(Refusal::ProviderUnsupported { what: cloud.provider.to_string() });
    }
    let assignment = views
        .assignment
        .as_ref()
        .ok_or_else(|| Refusal::AssignmentNotFound { what: command.project.to_string() })?;
    Ok(Resolved { blueprint, credential, assignment })
}
