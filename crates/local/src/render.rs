//! The objects as they should be, from what was pinned.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use usher_domain::blueprint::MeshRole;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::broker::render::{self, Agent, OwnerLabels};
use usher_domain::object::enrolment::TokenText;
use usher_domain::object::manifest::Manifest;
use usher_kernel::{Generation, Name, Record, Timestamp, Uid};

use super::object::{Boot, Condition, Kind, Object, Owner, Substrate};
use usher_domain::broker::world::Known;

/// Where an agent finds its settings, beside its record.
pub(super) const SETTINGS_FILE: &str = "agent.json";
/// Where it finds its token.
pub(super) const TOKEN_FILE: &str = "bootstrap-token";
/// Nobody here reads a credential from a store.
const SECRET_STORE: &str = "local";

/// The anchor of one generation of a resource.
pub(super) fn anchor(resource: &Resource, anchor: &Name, now: Timestamp) -> Object {
    let life = OwnerLabels::of_resource(resource.id(), resource.pinned().installation);
    let scope = resource.pinned().composite.scope();
    let manifest = render::anchor::anchor(life, &anchor.name, scope, &resource.pinned().namespace);
    object(&manifest, anchor, None, now)
}

/// The anchor of one generation of a ProviderConfig.
pub(super) fn config_anchor(config: &ProviderConfig, anchor: &Name, now: Timestamp) -> Object {
    let life = OwnerLabels::of_provider_config(config.id, config.installation);
    let scope = config.provider.config_type().scope;
    let manifest = render::anchor::anchor(life, &anchor.name, scope, &config.namespace);
    object(&manifest, anchor, None, now)
}

/// A substrate, as it is created.
pub(super) fn substrate(
    resource: &Resource,
    (xr, anchor): (&Name, &Uid),
    tags: &BTreeMap<String, String>,
    token: Option<&TokenText>,
    now: Timestamp,
) -> Object {
    let manifest = xr_manifest(resource, xr.generation, anchor, tags);
    let owner = Owner {
        kind: Kind::Anchor,
        name: resource.anchor_name(xr.generation).name,
        uid: anchor.clone(),
    };
    let boot = token.map(|it| Boot { settings: settings(resource), token: it.expose().to_owned() });
    let substrate = Substrate { boot, parts: Vec::new(), condition: Condition::Converging };
    Object { substrate: Some(substrate), ..object(&manifest, xr, Some(owner), now) }
}

/// One of a ProviderConfig's objects, as it is created.
pub(super) fn config_object(
    config: &ProviderConfig,
    (name, anchor): (&Name, &Uid),
    kind: Kind,
    now: Timestamp,
) -> Object {
    let owner = Owner {
        kind: Kind::Anchor,
        name: config.anchor_name(config.generation).name,
        uid: anchor.clone(),
    };
    object(&config_manifest(config, anchor, kind), name, Some(owner), now)
}

/// Whether a substrate differs from what would be rendered. Its token is derived, so it never does.
pub(super) fn is_drifted(found: &Object, record: &Record<Resource>, known: &Known) -> bool {
    let resource = &record.state;
    let Some(anchor) = found.owner.as_ref().map(|it| &it.uid) else { return true };
    let mut rows = record.name_ledger.rows().iter();
    let own = rows.find(|row| row.uid.as_ref() == Some(&found.uid));
    let generation = own.map_or(resource.generation(), |row| row.name.generation);
    let wanted = xr_manifest(resource, generation, anchor, &known.tags);
    let boot = found.substrate.as_ref().and_then(|it| it.boot.as_ref());
    let settings = needs_agent(resource).then(|| settings(resource));
    found.manifest != *wanted.as_value()
        || !carries(&found.labels, &labels(&wanted))
        || boot.map(|it| &it.settings) != settings.as_ref()
}

/// Whether one of a ProviderConfig's objects differs from what would be rendered.
pub(super) fn is_config_drifted(
    found: &Object,
    kind: Kind,
    record: &Record<ProviderConfig>,
) -> bool {
    let Some(anchor) = found.owner.as_ref().map(|it| &it.uid) else { return true };
    let wanted = config_manifest(&record.state, anchor, kind);
    found.manifest != *wanted.as_value() || !carries(&found.labels, &labels(&wanted))
}

/// Whether all these labels are among those; whoever else wrote one may.
pub(super) fn carries(found: &BTreeMap<String, String>, wanted: &BTreeMap<String, String>) -> bool {
    wanted.iter().all(|(key, value)| found.get(key) == Some(value))
}

/// Whether something enrols.
pub(super) fn needs_agent(resource: &Resource) -> bool {
    match resource.pinned().role {
        MeshRole::Node => true,
        MeshRole::Standalone => false,
    }
}

fn settings(resource: &Resource) -> Value {
    let pinned = resource.pinned();
    let agent = Agent {
        api_url: &pinned.api_url,
        image: &pinned.agent_image,
        project: resource.fields().project,
        resource: resource.id(),
    };
    serde_json::from_str(&agent.config(TOKEN_FILE)).unwrap_or_default()
}

fn xr_manifest(
    resource: &Resource,
    generation: Generation,
    anchor: &Uid,
    tags: &BTreeMap<String, String>,
) -> Manifest {
    let pinned = resource.pinned();
    render::xr(&render::Xr {
        resource: resource.id(),
        generation,
        labels: OwnerLabels::of_resource(resource.id(), pinned.installation),
        composite: &pinned.composite,
        namespace: &pinned.namespace,
        anchor,
        parameters: &pinned.parameters,
        tags,
        seen: None,
    })
}

fn config_manifest(config: &ProviderConfig, anchor: &Uid, kind: Kind) -> Manifest {
    let endpoint = Map::new();
    let it = render::ProviderConfig {
        id: config.id,
        generation: config.generation,
        labels: OwnerLabels::of_provider_config(config.id, config.installation),
        provider: config.provider,
        namespace: &config.namespace,
        endpoint: &endpoint,
        credential: &config.coordinates,
        anchor,
    };
    match kind {
        Kind::ExternalSecret => render::external_secret(&it, SECRET_STORE, None),
        Kind::Anchor | Kind::Substrate | Kind::Part | Kind::ProviderConfig => {
            render::provider_config(&it, None)
        }
    }
}

fn object(manifest: &Manifest, name: &Name, owner: Option<Owner>, now: Timestamp) -> Object {
    Object {
        name: name.name.clone(),
        uid: Uid::new(""),
        ledger_kind: name.kind.clone(),
        place: name.place.clone(),
        labels: labels(manifest),
        owner,
        revision: 0,
        created_at: now,
        deleting_at: None,
        manifest: manifest.as_value().clone(),
        substrate: None,
        footing: None,
    }
}

/// The labels that a manifest carries.
fn labels(manifest: &Manifest) -> BTreeMap<String, String> {
    let labels = manifest.as_value().pointer("/metadata/labels").and_then(Value::as_object);
    let labels = labels.into_iter().flatten();
    labels.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
