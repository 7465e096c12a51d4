//! The kernel's step on the store: load, commit, and how the lease is given back.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::life::Broker;
use usher_domain::broker::look::{Guard, Look, Object};
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::reason::Reason;
use usher_domain::object::authority::Authority;
use usher_kernel::{
    Generation, Ledger, Record, Report, Stage, Standing, Stopped, Timestamp, Trouble, Uid, Version,
    Wake, World as _, step,
};
use usher_store::{Leased, LeasedLedger, Life, Store};

use crate::bed::{Bed, on_both};
use crate::declare::{World, ending, record};

/// An outside in which an anchor can be made, or nothing works.
struct Outside {
    anchor: Mutex<Option<Uid>>,
    broken: bool,
    now: Timestamp,
    /// Whom a change wakes, if somebody watches.
    watched_by: Option<Arc<Store>>,
}

impl Outside {
    const fn new(now: Timestamp) -> Self {
        Self { anchor: Mutex::new(None), broken: false, now, watched_by: None }
    }
}

impl usher_kernel::World<Broker> for Outside {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        let fields = record.state.fields();
        let object = |uid: Uid| Object {
            uid,
            installation: Some(fields.pinned.installation.to_string()),
            life: Some(fields.id.to_string()),
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
        let look = Look {
            by: "local".to_owned(),
            at: self.now,
            authority: Authority::Pinned,
            rail_tripped: false,
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
        Ok(fold(&record.state, &record.book, &look))
    }

    async fn apply(&self, record: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        if self.broken {
            return Err(Trouble::unavailable("local".to_owned()));
        }
        if let Effect::CreateAnchor { .. } = effect {
            *self.anchor.lock().unwrap() = Some(Uid::new("u-1"));
        }
        if let Some(store) = &self.watched_by {
            store.wake(Life::Resource(record.state.id())).await.unwrap();
        }
        Ok(())
    }
}

type Outcome = Result<Report<Reason>, Stopped>;

/// One step that has time for another one or not, and with which record it goes on.
async fn run_keeping(
    (world, outside): (&World, &Outside),
    (leased, record): (&Leased, &Record<Resource>),
    in_time: bool,
) -> (Outcome, Option<Record<Resource>>) {
    let (lease, in_time) = ((leased.life, leased.claim), move || in_time);
    let ledger = LeasedLedger::new(&world.store, lease, record.clone(), &in_time);
    let done = step(&Broker::default(), outside, &ledger, leased.now).await;
    let outcome = done.map(|it| it.expect("its record is leased"));
    let kept = ledger.finish(&outcome, Reason::as_str).await.unwrap();
    (outcome, kept)
}

async fn run(world: &World, leased: &Leased, outside: &Outside) -> Outcome {
    let turn = (leased, record(leased));
    let (outcome, kept) = run_keeping((world, outside), turn, false).await;
    assert_eq!(kept, None, "there is no time to go on");
    outcome
}

/// Red by: a lease that is not given back, or given back before the effect is known.
// Requirement: Q-17
#[tokio::test]
async fn a_step_ends_with_its_lease_given_back_once() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let life = Life::Resource(world.declare("web").await.id());
        let mut outside = Outside::new(bed.store.now().await.unwrap());

        outside.broken = true;
        let leased = world.claim(life).await;
        let stopped = run(&world, &leased, &outside).await.unwrap_err();
        assert!(matches!(stopped.trouble, Trouble::Unavailable { .. }));
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 1), "postponed");
        assert!(entry.unreturned_until.is_some(), "its request may be on its way");

        outside.broken = false;
        bed.store.wake(life).await.unwrap();
        let leased = world.claim(life).await;
        let report = run(&world, &leased, &outside).await.unwrap();
        assert_eq!((report.reason, report.committed), (Reason::CreatingAnchor, false));
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 0), "released");

        bed.store.wake(life).await.unwrap();
        let leased = world.claim(life).await;
        let report = run(&world, &leased, &outside).await.unwrap();
        assert_eq!((report.reason, report.committed), (Reason::RecordingAnchor, true));
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert_eq!((entry.lease_until, entry.attempts), (None, 0), "released by the commit");
        let reason = format!(
            "SELECT count(*) FROM queue WHERE reason = 'RecordingAnchor' AND life = {}",
            bed.ground.id(life.id())
        );
        assert_eq!(bed.ground.number(&reason).await, 1, "and says why");

        let leased = world.claim(life).await;
        let row = &record(&leased).book.rows()[0];
        assert_eq!((row.standing, row.uid.clone()), (Standing::Seen, Some(Uid::new("u-1"))));
        assert_eq!(record(&leased).version, Version(2));
        let seen = outside.observe(record(&leased)).await;
        assert!(seen.is_ok());
    })
    .await;
}

/// Red by: a lease that is given back between two steps, or a record that is not the written one.
// Requirement: W-16
#[tokio::test]
async fn a_life_that_goes_on_keeps_its_lease_and_knows_what_it_wrote() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let declared = world.declare("web").await;
        let life = Life::Resource(declared.id());
        let mut outside = Outside::new(bed.store.now().await.unwrap());
        outside.watched_by = Some(Arc::clone(&bed.store));
        let leased = world.claim(life).await;
        let held = bed.store.entry(life).await.unwrap();
        let mut own = record(&leased).clone();
        for reason in [Reason::CreatingAnchor, Reason::RecordingAnchor] {
            let (outcome, kept) = run_keeping((&world, &outside), (&leased, &own), true).await;
            assert_eq!(outcome.unwrap().reason, reason);
            own = kept.expect("it looks again at once");
            assert_eq!(bed.store.entry(life).await.unwrap(), held, "nobody touched the queue");
            assert_eq!(bed.store.resource(declared.id()).await.unwrap(), own);
        }
        assert_eq!(own.version, Version(2));
        let (_, kept) = run_keeping((&world, &outside), (&leased, &own), false).await;
        assert_eq!(kept, None);
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert_eq!(entry.lease_until, None, "given back when its time was over");
    })
    .await;
}

/// Red by: a wake-up that is written although its driver looks again, or one that is lost because
/// its driver does not.
// Requirement: W-17
#[tokio::test]
async fn a_wake_up_of_a_life_that_is_stepped_here_is_noted_and_looked_at() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let life = Life::Resource(world.declare("web").await.id());
        let steps = async |in_time: bool| {
            bed.store.wake(life).await.unwrap();
            let leased = world.claim(life).await;
            let (lease, in_time) = ((leased.life, leased.claim), move || in_time);
            let ledger = LeasedLedger::new(&bed.store, lease, record(&leased).clone(), &in_time);
            let before = bed.store.entry(life).await.unwrap().unwrap().wake_seq;
            bed.store.wake(life).await.unwrap();
            Ledger::<Broker>::load(&ledger).await.unwrap();
            assert_eq!(bed.store.wake_labels(vec![life.id()]).await.unwrap(), 1);
            let after = bed.store.entry(life).await.unwrap().unwrap().wake_seq;
            assert_eq!(after, before, "nothing was written");
            ledger.finish(&Ok(RESTS), Reason::as_str).await.unwrap().is_some()
        };
        assert!(steps(true).await, "it looks again under its lease");
        rests(&bed).await;
        assert!(!steps(false).await, "its time is over");
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert!(entry.lease_until.is_none() && entry.due.is_some(), "so whoever is next looks");
    })
    .await;
}

/// The due time of a life, set aside.
async fn rests(bed: &Bed) {
    bed.ground.execute("UPDATE queue SET lease_until = NULL, due = NULL").await;
}

async fn is_due(bed: &Bed, life: Life) -> bool {
    bed.store.entry(life).await.unwrap().unwrap().due.is_some()
}

const RESTS: Report<Reason> =
    Report { reason: Reason::Steady, wake: Wake::OnChange, acted: false, committed: false };

/// Red by: a note that dies with the driver that was cut off.
// Requirement: W-17
#[tokio::test]
async fn what_was_noted_with_a_driver_that_was_cut_off_makes_its_life_due_at_once() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let life = Life::Resource(world.declare("web").await.id());
        let leased = world.claim(life).await;
        let lease = (leased.life, leased.claim);
        let ledger = LeasedLedger::new(&bed.store, lease, record(&leased).clone(), &|| true);
        bed.store.wake(life).await.unwrap();
        drop(ledger);
        let slow = Trouble::Rejected { what: "somebody".to_owned() };
        assert!(bed.store.postpone(life, leased.claim, slow).await.unwrap());
        let entry = bed.store.entry(life).await.unwrap().unwrap();
        assert!(entry.due.unwrap() <= bed.store.now().await.unwrap(), "no pause: {entry:?}");
    })
    .await;
}

/// Red by: a driver that was overtaken, looked last, and tells nobody.
// Requirement: W-17
#[tokio::test]
async fn whoever_was_overtaken_wakes_the_life_that_somebody_else_let_rest() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let life = Life::Resource(world.declare("web").await.id());
        let late = world.claim(life).await;
        let lease = (late.life, late.claim);
        let ledger = LeasedLedger::new(&bed.store, lease, record(&late).clone(), &|| false);
        bed.ground.execute("UPDATE queue SET lease_until = NULL, fence = fence + 1").await;
        rests(&bed).await;
        assert_eq!(ledger.finish(&Ok(RESTS), Reason::as_str).await.unwrap(), None);
        assert!(is_due(&bed, life).await, "after a step that was finished");
        rests(&bed).await;
        let ledger = LeasedLedger::new(&bed.store, lease, record(&late).clone(), &|| false);
        let stopped = Stopped { stage: Stage::Commit, trouble: Trouble::Conflict };
        ledger.finish::<Reason>(&Err(stopped), Reason::as_str).await.unwrap();
        assert!(is_due(&bed, life).await, "and after one that was not");
    })
    .await;
}

/// Red by: a wake-up of a tombstone that is noted with the dead resource and goes to it.
// Requirement: W-17
#[tokio::test]
async fn what_was_noted_with_a_dead_resource_wakes_its_tombstone() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let id = world.declare("web").await.id();
        let (life, tombstone) = (Life::Resource(id), Life::Tombstone(id));
        let leased = world.claim(life).await;
        bed.store.commit(ending(&bed.store.resource(id).await.unwrap())).await.unwrap();
        rests(&bed).await;
        let lease = (life, leased.claim);
        let ledger = LeasedLedger::new(&bed.store, lease, record(&leased).clone(), &|| true);
        assert_eq!(bed.store.wake_labels(vec![*id.as_uuid()]).await.unwrap(), 1);
        assert!(!is_due(&bed, tombstone).await, "noted with the one that is stepped");
        let over = Report { wake: Wake::Never, ..RESTS };
        ledger.finish(&Ok(over), Reason::as_str).await.unwrap();
        assert!(is_due(&bed, tombstone).await);
    })
    .await;
}
