//! A store with the demo project, and declarations in it.

use std::sync::Arc;

use usher_domain::broker::accept::{Minted, Provision, provision};
use usher_domain::object::id::{ProviderConfigId, ResourceId, TenancyId};
use usher_domain::object::key::ServerKey;
use usher_server::seed;
use usher_store::migrate::Direction;
use usher_store::{Acceptance, Place, Settings, Store, WorkItem};
use uuid::Uuid;

pub(crate) struct TestEnv {
    pub(crate) store: Arc<Store>,
    _dir: tempfile::TempDir,
}

pub(crate) fn key() -> ServerKey {
    ServerKey::new([7; 32]).unwrap()
}

impl TestEnv {
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(dir.path().join("usher.db"));
        Store::migrate(&place, Direction::Up).await.unwrap();
        let store = Arc::new(Store::open(&place, settings).await.unwrap());
        seed::seed(&store, "local").await.unwrap();
        store.admit_key(key().id().clone()).await.unwrap();
        Self { store, _dir: dir }
    }

    /// Declares a resource; its id.
    pub(crate) async fn declare(&self, name: &str) -> ResourceId {
        let store = &self.store;
        let blueprint = store.blueprints().await.unwrap().remove(0);
        let command = Provision {
            name: name.to_owned(),
            project: store.project(seed::PROJECT).await.unwrap().unwrap().id,
            blueprint_version: store.blueprint_versions(blueprint.id).await.unwrap()[0].id,
            credential: store.credentials().await.unwrap()[0].id,
            parameters: serde_json::Map::new(),
        };
        let id = ResourceId::from_uuid(Uuid::now_v7());
        let minted = Minted {
            resource: id,
            tenancy: TenancyId::from_uuid(Uuid::now_v7()),
            provider_config: ProviderConfigId::from_uuid(Uuid::now_v7()),
            installation: store.installation().id,
            api_url: "http://127.0.0.1:1".parse().unwrap(),
            agent_image: "usher.dev/agent:1".parse().unwrap(),
        };
        let snapshot = store.snapshot(&command, None).await.unwrap();
        let accepted = provision(&command, &snapshot.views, &minted, snapshot.now).unwrap();
        store.accept(Acceptance { accepted, audit: None, key: None }).await.unwrap();
        id
    }

    /// The queue entry of a resource.
    pub(crate) async fn entry(&self, id: ResourceId) -> usher_store::QueueStatus {
        self.store.queue_status(WorkItem::Resource(id)).await.unwrap().unwrap()
    }
}
