//! Steps of leased items, between a store and a world that fails.

use std::collections::BTreeMap;
use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::observe::Observed;
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::world::{BrokerWorld, Explanation, OwnObject, WorldWatch};
use usher_domain::object::authority::{Authority, BoxFuture};
use usher_kernel::{Record, Timestamp, Trouble};
use usher_server::steps::{Reconcilers, WorldSteps};
use usher_server::tally::Tally;
use usher_server::worker::Steps as _;
use usher_server::worlds::Worlds;
use usher_store::WorkItem;

use crate::test_env::TestEnv;

/// An empty world in which every effect fails.
struct FailingWorld;

fn unavailable<'a, T: Send + 'a>() -> BoxFuture<'a, Result<T, Trouble>> {
    Box::pin(ready(Err(Trouble::unavailable("the cloud".to_owned()))))
}

impl BrokerWorld for FailingWorld {
    fn observe<'a>(&'a self, _: &'a Record<Resource>) -> BoxFuture<'a, Result<Observed, Trouble>> {
        unavailable()
    }

    fn apply<'a>(
        &'a self,
        _: &'a Record<Resource>,
        _: &'a Effect,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        unavailable()
    }

    fn observe_config<'a>(
        &'a self,
        record: &'a Record<ProviderConfig>,
    ) -> BoxFuture<'a, Result<provider_config::Observed, Trouble>> {
        let snapshot = provider_config::Snapshot {
            by: "local".to_owned(),
            at: Timestamp::ZERO,
            authority: Authority::Pinned,
            guard_tripped: false,
            namespace_ready: Ok(true),
            anchors: Ok(BTreeMap::new()),
            config: Ok(None),
            external_secret: Ok(None),
            secret: Ok(None),
        };
        let seen = provider_config::fold(&record.state, &record.name_ledger, &snapshot);
        Box::pin(ready(Ok(seen)))
    }

    fn apply_config<'a>(
        &'a self,
        _: &'a Record<ProviderConfig>,
        _: &'a Verb,
    ) -> BoxFuture<'a, Result<(), Trouble>> {
        unavailable()
    }

    fn watch(&self) -> BoxFuture<'_, Result<Box<dyn WorldWatch>, Trouble>> {
        unavailable()
    }

    fn objects<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Vec<OwnObject>, Trouble>> {
        unavailable()
    }

    fn health(&self) -> BoxFuture<'_, Result<(), Trouble>> {
        unavailable()
    }

    fn explain<'a>(&'a self, _: &'a Resource) -> BoxFuture<'a, Explanation> {
        Box::pin(ready(Explanation::default()))
    }
}

/// Red by: a ledger of the server that does not pass reports on to the store.
// Requirement: Q-17
#[tokio::test]
async fn the_reason_of_a_failed_effect_is_stored_though_no_phase_changed() {
    let env = TestEnv::new().await;
    let id = env.declare("web").await;
    let config = env.store.resource(id).await.unwrap().state.pinned().provider_config;
    let before = env.store.provider_config(config).await.unwrap();
    let mut worlds = Worlds::default();
    worlds.attach("local", Arc::new(FailingWorld));
    let steps = WorldSteps {
        store: Arc::clone(&env.store),
        worlds: Arc::new(worlds),
        reconcilers: Reconcilers::default(),
        tally: Arc::new(Tally::default()),
    };
    for leased in env.store.claim_due(8).await.unwrap().leased {
        let keeps_until = Instant::now() + Duration::from_mins(10);
        assert!(steps.step(leased, keeps_until).await.unwrap().is_none(), "its lease is released");
    }
    assert_eq!(env.store.provider_config(config).await.unwrap(), before, "nothing was written");
    let item = WorkItem::ProviderConfig(config);
    let status = env.store.queue_status(item).await.unwrap().unwrap();
    assert_eq!(status.reason.as_deref(), Some("CreatingAnchor"), "what was tried");
    assert_eq!(status.trouble.as_deref(), Some("cannot reach the cloud"), "what stopped it");
}
