//! The kernel's step on the store: load, commit, and the release of the lease.

use std::collections::BTreeMap;
use std::sync::Mutex;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::reason::Reason;
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::snapshot::{Guard, Object, Snapshot};
use usher_domain::object::authority::Authority;
use usher_kernel::{
    Generation, NameState, Record, Report, Stage, Stopped, Timestamp, Trouble, Uid, Version, Wake,
    World as _, step,
};
use usher_store::{Leased, LeasedLedger, WorkItem};

use crate::declare::{World, record};
use crate::test_store::{TestStore, on_both};

/// A control plane in which an anchor can be created, or every call fails.
struct Outside {
    anchor: Mutex<Option<Uid>>,
    broken: bool,
    now: Timestamp,
}

impl Outside {
    const fn new(now: Timestamp) -> Self {
        Self { anchor: Mutex::new(None), broken: false, now }
    }
}

impl usher_kernel::World<Broker> for Outside {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        let fields = record.state.fields();
        let object = |uid: Uid| Object {
            uid,
            installation: Some(fields.pinned.installation.to_string()),
            record_id: Some(fields.id.to_string()),
            owner: None,
            deleting: false,
        };
        let anchors: BTreeMap<_, _> = self
            .anchor
            .lock()
            .unwrap()
            .clone()
            .map(|uid| (Generation::FIRST, object(uid)))
            .into_iter()
            .collect();
        let snapshot = Snapshot {
            by: "local".to_owned(),
            at: self.now,
            authority: Authority::Pinned,
            guard_tripped: false,
            namespace_ready: Ok(true),
            anchors: Ok(anchors),
            config_ready: false,
            xr: Ok(None),
            composed: vec![],
            composed_listed: Ok(()),
            tokens: BTreeMap::new(),
            peers: Ok(BTreeMap::new()),
            protection: Ok(Guard::None),
        };
        Ok(fold(&record.state, &record.name_ledger, &snapshot))
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        if self.broken {
            return Err(Trouble::unavailable("local".to_owned()));
        }
        if let Effect::CreateAnchor { .. } = effect {
            *self.anchor.lock().unwrap() = Some(Uid::new("u-1"));
        }
        Ok(())
    }
}

type Outcome = Result<Report<Reason>, Stopped>;

/// One step that has time for another one or not, and the record that the next one starts with.
async fn run_keeping(
    (world, outside): (&World, &Outside),
    (leased, record): (&Leased, &Record<Resource>),
    in_time: bool,
) -> (Outcome, Option<Record<Resource>>) {
    let (lease, in_time) = ((leased.item, leased.claim), move || in_time);
    let ledger = LeasedLedger::new(&world.store, lease, record.clone(), &in_time);
    let done = step(&Broker::default(), outside, &ledger, leased.now).await;
    let outcome = done.map(|it| it.expect("its record is leased"));
    let kept = ledger.finish(&outcome, Reason::as_str).await.unwrap();
    (outcome, kept)
}

async fn run(world: &World, leased: &Leased, outside: &Outside) -> Outcome {
    let turn = (leased, record(leased));
    let (outcome, kept) = run_keeping((world, outside), turn, false).await;
    assert_eq!(kept, None, "there is no time for another step");
    outcome
}

/// Red by: a lease that is not released, or released before the effect is known.
// Requirement: Q-17
#[tokio::test]
async fn a_step_releases_its_lease_exactly_once() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let mut outside = Outside::new(test.store.now().await.unwrap());

        outside.broken = true;
        let leased = world.claim(item).await;
        let stopped = run(&world, &leased, &outside).await.unwrap_err();
        assert!(matches!(stopped.trouble, Trouble::Unavailable { .. }));
        let entry = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 1), "postponed");
        assert!(entry.unreturned_until.is_some(), "its request may be in flight");
        let status = test.store.queue_status(item).await.unwrap().unwrap();
        assert_eq!(status.reason.as_deref(), Some("CreatingAnchor"), "what was tried");
        assert!(status.trouble.is_some(), "and what stopped it");

        outside.broken = false;
        test.store.wake(item).await.unwrap();
        let leased = world.claim(item).await;
        let report = run(&world, &leased, &outside).await.unwrap();
        assert_eq!((report.reason, report.committed), (Reason::CreatingAnchor, false));
        let entry = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 0), "released");

        test.store.wake(item).await.unwrap();
        let leased = world.claim(item).await;
        let report = run(&world, &leased, &outside).await.unwrap();
        assert_eq!((report.reason, report.committed), (Reason::RecordingAnchor, true));
        let entry = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 0), "released by the commit");
        let reason = format!(
            "SELECT count(*) FROM queue WHERE reason = 'RecordingAnchor' AND record = {}",
            test.database.id(item.id())
        );
        assert_eq!(test.database.number(&reason).await, 1, "and records the reason");

        let leased = world.claim(item).await;
        let row = &record(&leased).name_ledger.rows()[0];
        assert_eq!((row.state, row.uid.clone()), (NameState::Seen, Some(Uid::new("u-1"))));
        assert_eq!(record(&leased).version, Version(2));
        let seen = outside.observe(record(&leased)).await;
        assert!(seen.is_ok());
    })
    .await;
}

/// Red by: a lease that is released between two steps, or a record that is not the written one.
// Requirement: W-16
#[tokio::test]
async fn an_item_with_another_step_keeps_its_lease_and_its_new_record() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let declared = world.declare("web").await;
        let item = WorkItem::Resource(declared.id());
        let outside = Outside::new(test.store.now().await.unwrap());
        *outside.anchor.lock().unwrap() = Some(Uid::new("u-1"));
        let leased = world.claim(item).await;
        let held = test.store.entry(item).await.unwrap();
        let turn = (&leased, record(&leased));
        let (outcome, kept) = run_keeping((&world, &outside), turn, true).await;
        assert_eq!(outcome.unwrap().reason, Reason::RecordingAnchor);
        let own = kept.expect("it is requeued at once");
        assert_eq!(test.store.entry(item).await.unwrap(), held, "the queue is as it was");
        assert_eq!(test.store.resource(declared.id()).await.unwrap(), own);
        assert_eq!(own.version, Version(2));
        let (_, kept) = run_keeping((&world, &outside), (&leased, &own), false).await;
        assert_eq!(kept, None);
        let entry = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!(entry.lease_until, None, "released when its time was over");
    })
    .await;
}

/// Red by: a release that drops a wake-up that arrived during the step.
// Requirement: W-17
#[tokio::test]
async fn a_wake_up_during_a_step_makes_the_item_due_when_the_step_ends() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let ends = async |outcome: Outcome| {
            test.store.wake(item).await.unwrap();
            let leased = world.claim(item).await;
            let lease = (leased.item, leased.claim);
            let ledger = LeasedLedger::new(&test.store, lease, record(&leased).clone(), &|| true);
            test.store.wake(item).await.unwrap();
            assert_eq!(ledger.finish(&outcome, Reason::as_str).await.unwrap(), None);
            let entry = test.store.entry(item).await.unwrap().unwrap();
            assert_eq!(entry.lease_until, None);
            assert!(entry.due.unwrap() <= test.store.now().await.unwrap(), "no pause: {entry:?}");
        };
        ends(Ok(RESTS)).await;
        let trouble = Trouble::Rejected { what: "a request".to_owned() };
        ends(Err(Stopped { stage: Stage::Apply, trouble })).await;
    })
    .await;
}

/// The due time of an item, set aside.
async fn rests(test: &TestStore) {
    test.database.execute("UPDATE queue SET lease_until = NULL, due = NULL").await;
}

async fn is_due(test: &TestStore, item: WorkItem) -> bool {
    test.store.entry(item).await.unwrap().unwrap().due.is_some()
}

const RESTS: Report<Reason> =
    Report { reason: Reason::AsDeclared, wake: Wake::OnChange, acted: false, committed: false };

/// Red by: a worker that lost its lease, saw the newest state, and does not requeue the item.
// Requirement: W-17
#[tokio::test]
async fn a_late_worker_wakes_the_item_that_the_newer_holder_let_idle() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let late = world.claim(item).await;
        let lease = (late.item, late.claim);
        let ledger = LeasedLedger::new(&test.store, lease, record(&late).clone(), &|| false);
        test.database.execute("UPDATE queue SET lease_until = NULL, fence = fence + 1").await;
        rests(&test).await;
        assert_eq!(ledger.finish(&Ok(RESTS), Reason::as_str).await.unwrap(), None);
        assert!(is_due(&test, item).await, "after a step that was finished");
        rests(&test).await;
        let ledger = LeasedLedger::new(&test.store, lease, record(&late).clone(), &|| false);
        let stopped = Stopped { stage: Stage::Commit, trouble: Trouble::Conflict };
        ledger.finish::<Reason>(&Err(stopped), Reason::as_str).await.unwrap();
        assert!(is_due(&test, item).await, "and after one that was not");
    })
    .await;
}
