//! A world to declare in, and declarations.

use std::sync::Arc;

use serde_json::{Map, json};
use usher_domain::blueprint::{InjectionStrategy, MeshRole, ParameterSchema};
use usher_domain::broker::accept::{self, Minted, Provision};
use usher_domain::broker::aggregate::{Fields, Resource};
use usher_domain::broker::event::{Event, Outcome};
use usher_domain::broker::phase::Phase;
use usher_domain::catalog::{Blueprint, BlueprintVersion};
use usher_domain::clouds::Cloud;
use usher_domain::credentials::{Assignment, Credential, Verdict};
use usher_domain::object::id::{
    BlueprintId, BlueprintVersionId, CloudId, CredentialId, ProjectId, ProviderConfigId,
    ResourceId, TenancyId,
};
use usher_domain::object::key::ServerKey;
use usher_domain::object::kv::KvCoordinates;
use usher_domain::object::provider::Provider;
use usher_domain::placements::{NamespacePhase, Placement};
use usher_domain::projects::Project;
use usher_kernel::{NameState, Record, Row};
use usher_sim::contract::port::TestIds;
use usher_store::{Acceptance, Error, Held, Leased, ResourceWrite, Store, WorkItem};
use uuid::Uuid;

/// Everything a declaration needs.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) store: Arc<Store>,
    pub(crate) project: ProjectId,
    pub(crate) cloud: CloudId,
    pub(crate) credential: CredentialId,
    pub(crate) blueprint_version: BlueprintVersionId,
}

/// The key of every test.
pub(crate) fn server_key() -> ServerKey {
    ServerKey::new([7; 32]).unwrap()
}

impl World {
    pub(crate) async fn new(store: &Arc<Store>) -> Self {
        let ids = TestIds {
            installation: store.installation().id,
            project: ProjectId::from_uuid(Uuid::now_v7()),
            blueprint_version: BlueprintVersionId::from_uuid(Uuid::now_v7()),
            credential: CredentialId::from_uuid(Uuid::now_v7()),
        };
        Self::on(store, &ids).await
    }

    /// A world with these ids.
    pub(crate) async fn on(store: &Arc<Store>, ids: &TestIds) -> Self {
        let TestIds { project, blueprint_version, credential, .. } = *ids;
        store.admit_key(server_key().id().clone()).await.unwrap();
        let now = store.now().await.unwrap();
        let slug = format!("p{}", Uuid::now_v7().simple());
        let name = "Demo".parse().unwrap();
        let row = Project { id: project, slug: slug.parse().unwrap(), name };
        store.create_project(row).await.unwrap();
        let phase = NamespacePhase::Ready;
        let world = "local".to_owned();
        store.place_project(Placement { project, world, phase }).await.unwrap();
        let cloud = CloudId::from_uuid(Uuid::now_v7());
        let name = format!("c{}", Uuid::now_v7().simple()).parse().unwrap();
        let provider = Provider::Local;
        let endpoint = Map::new();
        store.create_cloud(Cloud { id: cloud, name, provider, endpoint }).await.unwrap();
        store.create_credential(a_credential(credential, cloud)).await.unwrap();
        let asked = Assignment::request(project, credential, "ann");
        let granted = asked.decide(Verdict::Approve, "bob", now).unwrap();
        store.assign(asked.clone()).await.unwrap();
        store.decide_assignment(asked, granted).await.unwrap();
        let version = a_version(blueprint_version, now);
        let name = format!("b{}", Uuid::now_v7().simple()).parse().unwrap();
        store.create_blueprint(Blueprint { id: version.blueprint, name }).await.unwrap();
        store.publish(version).await.unwrap();
        Self { store: Arc::clone(store), project, cloud, credential, blueprint_version }
    }

    pub(crate) fn command(&self, name: &str) -> Provision {
        Provision {
            name: name.to_owned(),
            project: self.project,
            blueprint_version: self.blueprint_version,
            credential: self.credential,
            parameters: Map::new(),
        }
    }

    pub(crate) fn minted(&self) -> Minted {
        Minted {
            resource: ResourceId::from_uuid(Uuid::now_v7()),
            tenancy: TenancyId::from_uuid(Uuid::now_v7()),
            provider_config: ProviderConfigId::from_uuid(Uuid::now_v7()),
            installation: self.store.installation().id,
            api_url: "https://usher.example".parse().unwrap(),
            agent_image: "registry.example/usher:1".parse().unwrap(),
        }
    }

    /// Snapshot, decision and acceptance, retried while another writer wins.
    pub(crate) async fn declare(&self, name: &str) -> Resource {
        self.try_declare(name).await.unwrap()
    }

    pub(crate) async fn try_declare(&self, name: &str) -> Result<Resource, Error> {
        let command = self.command(name);
        loop {
            let snapshot = self.store.snapshot(&command, None).await?;
            let accepted =
                accept::provision(&command, &snapshot.views, &self.minted(), snapshot.now)
                    .map_err(Error::Refused)?;
            let resource = accepted.resource.clone();
            let acceptance = Acceptance { accepted, audit: None, key: None };
            match self.store.accept(acceptance).await {
                Ok(()) => return Ok(resource),
                Err(Error::ViewsMoved { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Claims until this item is leased.
    pub(crate) async fn claim(&self, item: WorkItem) -> Leased {
        for _ in 0..100 {
            let batch = self.store.claim_due(64).await.unwrap();
            if let Some(leased) = batch.leased.into_iter().find(|it| it.item == item) {
                return leased;
            }
        }
        panic!("{item} is not due");
    }
}

fn a_credential(id: CredentialId, cloud: CloudId) -> Credential {
    Credential {
        id,
        name: format!("k{}", Uuid::now_v7().simple()).parse().unwrap(),
        cloud,
        provider: Provider::Local,
        coordinates: KvCoordinates::new("secret", "clouds/local").unwrap(),
        expires_at: None,
        revoked_at: None,
    }
}

fn a_version(id: BlueprintVersionId, now: usher_kernel::Timestamp) -> BlueprintVersion {
    BlueprintVersion {
        id,
        blueprint: BlueprintId::from_uuid(Uuid::now_v7()),
        version: "1.0.0".to_owned(),
        xrd: json!({
            "apiVersion": "apiextensions.crossplane.io/v2",
            "kind": "CompositeResourceDefinition",
            "metadata": { "name": "nodes.blueprints.example" },
            "spec": {
                "group": "blueprints.example",
                "names": { "kind": "Node", "plural": "nodes" },
                "scope": "Namespaced",
                "versions": [{ "name": "v1", "served": true, "referenceable": true }],
            },
        }),
        composition: json!({}),
        schema: ParameterSchema::new(vec![]).unwrap(),
        strategy: InjectionStrategy::CloudInitUserData,
        role: MeshRole::Node,
        providers: vec![Provider::Local],
        published_at: now,
    }
}

/// The record of a leased resource.
pub(crate) fn record(leased: &Leased) -> &Record<Resource> {
    match &leased.record {
        Held::Resource(record) => record,
        Held::ProviderConfig(_) => panic!("{} is a ProviderConfig", leased.item),
    }
}

/// The row with some of its fields changed.
pub(crate) fn bent(resource: &Resource, bend: impl FnOnce(&mut Fields)) -> Resource {
    let mut fields = resource.fields().clone();
    bend(&mut fields);
    Resource::hydrate(fields).unwrap()
}

/// A write of the row with some of its fields changed.
pub(crate) fn write(
    record: &Record<Resource>,
    bend: impl FnOnce(&mut Fields),
    event: Option<Event>,
) -> ResourceWrite {
    ResourceWrite {
        version: record.version,
        before: record.state.clone(),
        next: bent(&record.state, bend),
        rows: vec![],
        event,
        lease: None,
        release: None,
    }
}

/// A commit with three marks: if its version is even, the phase is `Ready` and the event `Ready`
/// is emitted; the evidence of the first name is the version.
pub(crate) fn marked(record: &Record<Resource>) -> ResourceWrite {
    let version = record.version.next();
    let ready = version.0.is_multiple_of(2);
    let phase = if ready { Phase::Ready } else { Phase::Enrolling };
    let mut row: Row = record.name_ledger.rows()[0].clone();
    row.evidence.answer = format!("v{}", version.0);
    let event = ready.then_some(Event::Ready);
    ResourceWrite { rows: vec![row], ..write(record, |it| it.phase = phase, event) }
}

/// The write that finishes a resource: everything is gone, with its event.
pub(crate) fn ending(record: &Record<Resource>) -> ResourceWrite {
    let end = |it: &mut Fields| {
        it.phase = Phase::Deleted;
        it.deletion_requested_at = Some(it.created_at);
        it.outcome = Some(Outcome::Removed);
    };
    let event = Event::Deleted { outcome: Outcome::Removed };
    let gone = |row: &Row| Row { state: NameState::Gone, ..row.clone() };
    ResourceWrite {
        rows: record.name_ledger.rows().iter().map(gone).collect(),
        ..write(record, end, Some(event))
    }
}
