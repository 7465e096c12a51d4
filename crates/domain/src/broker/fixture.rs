//! What the broker's tests start from: a plain resource, an empty snapshot, rows by state.

use std::collections::BTreeMap;

use serde_json::json;
use usher_kernel::{Generation, Name, Timestamp, Uid, Visibility};
use uuid::Uuid;

pub(super) use crate::object::fixture::{START, foreign, gone, intended, record, seen};

use super::aggregate::{Fields, Pinned, Resource};
use super::facts::{
    Anchor, Composed, Config, Facts, Gate, GenerationState, Node, Protection, Token, Xr,
};
use super::phase::Phase;
use super::snapshot::{Condition, Guard, Object, Snapshot, XrObject};
use crate::blueprint::MeshRole;
use crate::blueprint::{CompositeType, InjectionStrategy, ParameterValues};
use crate::object::authority::Authority;
use crate::object::id::{
    BlueprintVersionId, CredentialId, InstallationId, PeerId, ProjectId, ProviderConfigId,
    ResourceId, TenancyId,
};
use crate::object::name;

/// The present.
pub(super) const NOW: Timestamp = Timestamp::from_millis(60_000);
/// The generation every resource begins with, and the one after it.
pub(super) const G1: Generation = Generation(1);
pub(super) const G2: Generation = Generation(2);

pub(super) fn uuid(byte: u8) -> Uuid {
    Uuid::from_bytes([byte; 16])
}

pub(super) fn installation() -> InstallationId {
    InstallationId::from_uuid(uuid(6))
}

pub(super) fn peer_id(byte: u8) -> PeerId {
    PeerId::from_uuid(uuid(byte))
}

/// The type of every XR here.
pub(super) fn composite() -> CompositeType {
    scoped("Namespaced")
}

/// The same type, cluster-scoped.
pub(super) fn cluster_wide() -> CompositeType {
    scoped("Cluster")
}

fn scoped(scope: &str) -> CompositeType {
    let xrd = json!({
        "apiVersion": "apiextensions.crossplane.io/v2",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": "xnodes.example.org" },
        "spec": {
            "scope": scope,
            "group": "example.org",
            "names": { "kind": "XNode", "plural": "xnodes" },
            "versions": [{ "name": "v1", "served": true }],
        },
    });
    CompositeType::from_xrd(&xrd).unwrap()
}

/// A new declaration of a node.
pub(super) fn fields() -> Fields {
    let id = ResourceId::from_uuid(uuid(1));
    let pinned = Pinned {
        installation: installation(),
        world: "local".to_owned(),
        namespace: "ns".to_owned(),
        composite: composite(),
        xr_name: name::xr(id),
        role: MeshRole::Node,
        strategy: InjectionStrategy::CloudInitUserData,
        parameters: ParameterValues::default(),
        api_url: "https://usher.example:7420".parse().unwrap(),
        agent_image: "registry.example/usher/agent:0.1.0".parse().unwrap(),
        provider_config: ProviderConfigId::from_uuid(uuid(7)),
    };
    Fields {
        id,
        name: "web-1".to_owned(),
        tenancy: TenancyId::from_uuid(uuid(2)),
        project: ProjectId::from_uuid(uuid(3)),
        blueprint_version: BlueprintVersionId::from_uuid(uuid(4)),
        credential: CredentialId::from_uuid(uuid(5)),
        pinned,
        phase: Phase::Pending,
        generation: G1,
        generation_state: GenerationState::Fresh,
        deletion_requested_at: None,
        grace_until: None,
        substrate_ready_at: None,
        outcome: None,
        created_at: START,
        updated_at: START,
        phase_since: START,
    }
}

/// A stored resource that differs from a new declaration as said.
pub(super) fn resource(bend: impl FnOnce(&mut Fields)) -> Resource {
    let mut fields = fields();
    bend(&mut fields);
    Resource::hydrate(fields).unwrap()
}

/// A resource whose deletion was requested.
pub(super) fn leaving(phase: Phase) -> Resource {
    resource(|it| {
        it.phase = phase;
        it.generation_state = GenerationState::Live;
        it.deletion_requested_at = Some(START);
    })
}

/// A name that an XR composed.
pub(super) fn part(name: &str, generation: Generation) -> Name {
    Name {
        kind: "example.org/Machine".to_owned(),
        place: "ns".to_owned(),
        name: name.to_owned(),
        generation,
    }
}

/// An object with our labels, under an anchor or not.
pub(super) fn object(uid: &str, owner: Option<&str>) -> Object {
    Object {
        uid: Uid::new(uid),
        installation: Some(installation().to_string()),
        record_id: Some(fields().id.to_string()),
        owner: owner.map(Uid::new),
        deleting: false,
    }
}

/// An XR with our labels under an anchor.
pub(super) fn xr(uid: &str, owner: &str, condition: Condition) -> XrObject {
    XrObject { object: object(uid, Some(owner)), condition, drifted: false }
}

/// A snapshot of a ready namespace without objects.
pub(super) fn snapshot() -> Snapshot {
    Snapshot {
        by: "cluster".to_owned(),
        at: NOW,
        authority: Authority::Pinned,
        guard_tripped: false,
        namespace_ready: Ok(true),
        anchors: Ok(BTreeMap::new()),
        config_ready: true,
        xr: Ok(None),
        composed: vec![],
        composed_listed: Ok(()),
        tokens: BTreeMap::new(),
        peers: Ok(BTreeMap::new()),
        protection: Ok(Guard::None),
    }
}

/// The facts of that snapshot.
pub(super) const NOTHING: Facts = Facts {
    visibility: Visibility::Complete,
    gate: Gate::Ready,
    anchor: Anchor::Absent,
    token: Token::None,
    config: Config::Ready,
    xr: Xr::Absent,
    composed: Composed::None,
    node: Node::None,
    protection: Protection::None,
};
