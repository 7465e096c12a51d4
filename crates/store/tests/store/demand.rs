//! What clusters need, judged once, and the brakes of a shard.

use usher_domain::audit::{self, Action};
use usher_domain::fleet::plan::{Judged, RawNeed, Switch};
use usher_domain::object::id::AuditId;
use usher_kernel::Version;
use usher_store::{Brake, Error, RollUp};
use uuid::Uuid;

use crate::fleet::{LONG, NOW, cluster, lease, shard, texts};
use crate::test_store::{TestStore, on_both};

fn need(cpu: usize) -> RawNeed {
    RawNeed { aggregate: texts(&[("cpu", &cpu.to_string())]), ..RawNeed::default() }
}

fn roll_up(name: &str, by: &str, rows: usize) -> RollUp {
    RollUp { cluster: cluster(name), shard: shard(by), needs: (0..rows).map(need).collect() }
}

/// Red by: a judgement that is not kept, or a roll-up that replaces the demand without one.
// Requirement: F-53, F-59
#[tokio::test]
async fn a_roll_up_replaces_the_demand_unless_it_falls_too_suddenly() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        assert_eq!(store.demand(&cluster("a")).await.unwrap(), None);
        let outcome = store.accept_demand(roll_up("a", "s", 20), None).await.unwrap();
        assert_eq!((outcome.judged, outcome.demand.version), (Judged::Accepted, Version(1)));
        for (times, judged, rows) in
            [(2, Judged::Held, 20), (3, Judged::Held, 20), (4, Judged::Accepted, 1)]
        {
            let outcome = store.accept_demand(roll_up("a", "s", 1), None).await.unwrap();
            assert_eq!((outcome.judged, outcome.demand.needs.len()), (judged, rows));
            assert_eq!(outcome.demand.version, Version(times));
            assert_eq!(outcome.demand.trust.is_held(), judged == Judged::Held);
            assert_eq!(store.demand(&cluster("a")).await.unwrap(), Some(outcome.demand));
        }
        let refused = store.accept_demand(roll_up("a", "t", 1), None).await.unwrap_err();
        assert!(matches!(refused, Error::Served { .. }), "{refused}");
        store.accept_demand(roll_up("b", "s", 2), None).await.unwrap();
        store.accept_demand(roll_up("c", "t", 0), None).await.unwrap();
        let versions = store.demand_versions(&shard("s")).await.unwrap();
        assert_eq!(versions, [(cluster("a"), Version(4)), (cluster("b"), Version(1))]);
        let page = |it: Vec<usher_store::Demand>| -> Vec<String> {
            it.into_iter().map(|it| it.cluster.to_string()).collect()
        };
        assert_eq!(page(store.demands(None, 2).await.unwrap()), ["a", "b"]);
        assert_eq!(page(store.demands(Some(&cluster("b")), 2).await.unwrap()), ["c"]);
    })
    .await;
}

/// Red by: a brake that clears the other one, or a command without its row in the audit log.
// Requirement: F-55
#[tokio::test]
async fn brakes_are_kept_for_every_replica_with_who_pulled_them() {
    on_both(async |test: TestStore| {
        let store = &test.store;
        let entry = |action| audit::Entry {
            id: AuditId::from_uuid(Uuid::now_v7()),
            at: NOW,
            actor: "ann".to_owned(),
            action,
            project: None,
            subject: "s".to_owned(),
            detail: serde_json::Map::new(),
        };
        let missing = store.brake_shard(shard("s"), Brake::Pause, true, None).await.unwrap_err();
        assert!(matches!(missing, Error::NotFound { .. }), "{missing}");
        lease(store, "s", LONG).await;
        let switch = async |brake, on, action| {
            let audit = Some(entry(action));
            store.brake_shard(shard("s"), brake, on, audit).await.unwrap()
        };
        let paused = switch(Brake::Pause, true, Action::FleetPause).await;
        assert_eq!(paused.switch(), Switch::Paused);
        let again = switch(Brake::Pause, true, Action::FleetPause).await;
        assert_eq!(again.paused_at, paused.paused_at, "the first time counts");
        switch(Brake::DryRun, true, Action::FleetDryRun).await;
        let resumed = switch(Brake::Pause, false, Action::FleetResume).await;
        assert_eq!(resumed.switch(), Switch::DryRun, "it was in a dry run, too");
        let running = switch(Brake::DryRun, false, Action::FleetDryRun).await;
        assert_eq!(running.switch(), Switch::Run);
        let audit = store.audit(None, 9).await.unwrap();
        let actions: Vec<_> = audit.iter().map(|it| it.action.as_str()).collect();
        let expected =
            ["fleet.pause", "fleet.pause", "fleet.dry_run", "fleet.resume", "fleet.dry_run"];
        assert_eq!(actions, expected);
    })
    .await;
}
