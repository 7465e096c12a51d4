//! Accepting a declaration: everything is resolved, checked and named before anything is written.

use serde_json::{Map, Value};
use usher_kernel::{Generation, Row, Timestamp};

use super::aggregate::{Declared, Pinned, Resource};
use super::event::Event;
use super::ports::{AssignmentView, BlueprintView, CloudView, CredentialView, Views};
use super::provider_config::{self, ProviderConfig};
use super::refusal::Refusal;
use super::render::{AgentImage, ApiUrl};
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
    pub project: ProjectId,
    pub blueprint_version: BlueprintVersionId,
    pub credential: CredentialId,
    /// The parameters that were given.
    pub parameters: Map<String, Value>,
}

/// What is minted or set where randomness and settings are allowed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Minted {
    /// The new resource.
    pub resource: ResourceId,
    /// The tenancy resource behind it.
    pub tenancy: TenancyId,
    /// The ProviderConfig's row, should there be none yet.
    pub provider_config: ProviderConfigId,
    pub installation: InstallationId,
    /// Where agents find us.
    pub api_url: ApiUrl,
    /// What agents are.
    pub agent_image: AgentImage,
}

/// An accepted declaration: written in one transaction that also counts the ProviderConfig's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The row.
    pub resource: Resource,
    /// The names its first generation will use.
    pub rows: Vec<Row>,
    pub event: Event,
    /// The ProviderConfig's row with this first user, where there was none; otherwise the one that
    /// there is gets one more.
    pub new_provider_config: Option<ProviderConfig>,
}

/// Accepts a declaration or says why not. Nothing is minted here and no port is called.
pub fn provision(
    command: &Provision,
    views: &Views,
    minted: &Minted,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let Resolved { blueprint, credential, cloud, assignment } = resolve(command, views)?;
    let parameters = blueprint.schema.materialise(&command.parameters)?;
    if views.name_in_use {
        return Err(Refusal::NameInUse { what: command.name.clone() });
    }
    let declared = Declared {
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
            role: blueprint.role,
            strategy: blueprint.strategy,
            parameters,
            api_url: minted.api_url.clone(),
            agent_image: minted.agent_image.clone(),
            provider_config: views.provider_config.unwrap_or(minted.provider_config),
        },
    };
    let resource = Resource::declare(declared, now)?;
    let rows = resource.intended("usher", now);
    let new_provider_config = views.provider_config.is_none().then(|| ProviderConfig {
        id: minted.provider_config,
        installation: minted.installation,
        world: assignment.world.clone(),
        namespace: assignment.namespace.clone(),
        provider: cloud.provider,
        credential: credential.id,
        coordinates: credential.coordinates.clone(),
        users: 1,
        phase: provider_config::Phase::Pending,
        generation: Generation::FIRST,
        grace_until: None,
    });
    Ok(Accepted { resource, rows, event: Event::Requested, new_provider_config })
}

struct Resolved<'a> {
    blueprint: &'a BlueprintView,
    credential: &'a CredentialView,
    cloud: &'a CloudView,
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
    Ok(Resolved { blueprint, credential, cloud, assignment })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::aggregate::Fields;
    use super::super::fixture::{NOW, composite, fields, installation, uuid};
    use super::super::ports::Denied;
    use super::*;
    use crate::blueprint::parameter::BadValues;
    use crate::blueprint::{InjectionStrategy, MeshRole, ParameterSchema};
    use crate::object::id::CloudId;
    use crate::object::kv::KvCoordinates;
    use crate::object::provider::Provider;

    fn schema() -> ParameterSchema {
        let schema = json!({ "parameters": [
            { "name": "location", "type": "string", "required": true },
            { "name": "size", "type": "integer", "default": 3 },
        ]});
        serde_json::from_value(schema).unwrap()
    }

    fn command() -> Provision {
        Provision {
            name: "web-1".to_owned(),
            project: fields().project,
            blueprint_version: fields().blueprint_version,
            credential: fields().credential,
            parameters: [("location".to_owned(), json!("fsn1"))].into_iter().collect(),
        }
    }

    fn views(bend: impl FnOnce(&mut Views)) -> Views {
        let cloud = CloudId::from_uuid(uuid(9));
        let mut views = Views {
            blueprint: Some(BlueprintView {
                version: fields().blueprint_version,
                composite: composite(),
                schema: schema(),
                strategy: InjectionStrategy::HelmValues,
                role: MeshRole::Node,
                providers: vec![Provider::Hetzner, Provider::Local],
            }),
            credential: Some(CredentialView {
                id: fields().credential,
                cloud,
                coordinates: coordinates(),
                usable: Ok(()),
            }),
            cloud: Some(CloudView { id: cloud, provider: Provider::Local, endpoint: json!({}) }),
            assignment: Some(AssignmentView { world: "local".into(), namespace: "ns".into() }),
            provider_config: None,
            name_in_use: false,
        };
        bend(&mut views);
        views
    }

    fn coordinates() -> KvCoordinates {
        KvCoordinates::new("secret", "clouds/local").unwrap()
    }

    fn minted() -> Minted {
        Minted {
            resource: fields().id,
            tenancy: fields().tenancy,
            provider_config: ProviderConfigId::from_uuid(uuid(7)),
            installation: installation(),
            api_url: fields().pinned.api_url,
            agent_image: fields().pinned.agent_image,
        }
    }

    /// What is accepted of a declaration that differs from a new row as said.
    fn expected(new_provider_config: bool, bend: impl FnOnce(&mut Fields)) -> Accepted {
        let mut fields = fields();
        fields.pinned.strategy = InjectionStrategy::HelmValues;
        fields.pinned.parameters = schema().materialise(&command().parameters).unwrap();
        (fields.created_at, fields.updated_at, fields.phase_since) = (NOW, NOW, NOW);
        bend(&mut fields);
        let resource = Resource::hydrate(fields).unwrap();
        let rows = resource.intended("usher", NOW);
        let config = ProviderConfig {
            id: minted().provider_config,
            installation: installation(),
            world: "local".to_owned(),
            namespace: "ns".to_owned(),
            provider: Provider::Local,
            credential: command().credential,
            coordinates: coordinates(),
            users: 1,
            phase: provider_config::Phase::Pending,
            generation: Generation::FIRST,
            grace_until: None,
        };
        let new_provider_config = new_provider_config.then_some(config);
        Accepted { resource, rows, event: Event::Requested, new_provider_config }
    }

    // Requirement, V-7
    #[test]
    fn a_declaration_pins_its_siblings_and_records_its_names() {
        let accepted = provision(&command(), &views(|_| ()), &minted(), NOW).unwrap();
        assert_eq!(accepted.rows.len(), 3, "anchor, XR and token");
        assert_eq!(accepted, expected(true, |_| ()));
        assert_eq!(accepted.resource.pinned().parameters.to_map().len(), 2, "defaults included");
    }

    #[test]
    fn a_provider_config_that_exists_is_shared() {
        let other = ProviderConfigId::from_uuid(uuid(8));
        let shared = views(|it| it.provider_config = Some(other));
        let accepted = provision(&command(), &shared, &minted(), NOW).unwrap();
        assert_eq!(accepted, expected(false, |it| it.pinned.provider_config = other));
    }

    #[test]
    fn what_has_no_machine_intends_no_token() {
        let alone = views(|it| {
            it.blueprint =
                it.blueprint.take().map(|it| BlueprintView { role: MeshRole::Standalone, ..it });
        });
        let accepted = provision(&command(), &alone, &minted(), NOW).unwrap();
        assert_eq!(accepted, expected(true, |it| it.pinned.role = MeshRole::Standalone));
        assert_eq!(accepted.rows.len(), 2, "anchor and XR");
    }

    // Requirement: A-6
    #[test]
    fn the_first_sibling_that_is_missing_is_named() {
        let denied = Denied { code: "credential_expired", text: "it ran out".to_owned() };
        let refusal = Refusal::CredentialDenied { code: denied.code, text: denied.text.clone() };
        let deny = |it: &mut Views| {
            it.credential =
                it.credential.take().map(|it| CredentialView { usable: Err(denied), ..it });
        };
        let elsewhere = |it: &mut Views| {
            let endpoint = json!({});
            let id = CloudId::from_uuid(uuid(9));
            it.cloud = Some(CloudView { id, provider: Provider::Aws, endpoint });
        };
        let what = |id: &dyn std::fmt::Display| id.to_string();
        let cases = [
            (
                views(|it| it.blueprint = None),
                Refusal::BlueprintNotFound { what: what(&fields().blueprint_version) },
            ),
            (
                views(|it| it.credential = None),
                Refusal::CredentialNotFound { what: what(&fields().credential) },
            ),
            (
                views(|it| it.cloud = None),
                Refusal::CloudNotFound { what: what(&CloudId::from_uuid(uuid(9))) },
            ),
            (views(deny), refusal),
            (views(elsewhere), Refusal::ProviderUnsupported { what: "aws".to_owned() }),
            (
                views(|it| it.assignment = None),
                Refusal::AssignmentNotFound { what: what(&fields().project) },
            ),
            (views(|it| it.name_in_use = true), Refusal::NameInUse { what: "web-1".to_owned() }),
        ];
        for (views, refusal) in cases {
            assert_eq!(provision(&command(), &views, &minted(), NOW), Err(refusal));
        }
    }

    // Requirement: A-7
    #[test]
    fn bad_values_are_refused_before_the_name_is() {
        let empty = Provision { parameters: Map::new(), ..command() };
        let refusal = Refusal::from(BadValues::Missing("location".to_owned()));
        let taken = views(|it| it.name_in_use = true);
        assert_eq!(provision(&empty, &taken, &minted(), NOW), Err(refusal));
        let unnamed = Provision { name: "Web 1".to_owned(), ..command() };
        let refusal = Refusal::bad_name("Web 1");
        assert_eq!(provision(&unnamed, &views(|_| ()), &minted(), NOW), Err(refusal));
    }
}
