//! The kernel's step on the store: load, commit, and how the lease is given back.

use std::collections::BTreeMap;
use std::sync::Mutex;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::effect::Effect;
use usher_domain::broker::life::Broker;
use usher_domain::broker::look::{Guard, Look, Object};
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::reason::Reason;
use usher_domain::object::authority::Authority;
use usher_kernel::{
    Generation, Record, Report, Standing, Stopped, Timestamp, Trouble, Uid, Version, World as _,
    step,
};
use usher_store::{Leased, LeasedLedger, Life};

use crate::bed::{Bed, on_both};
use crate::declare::{World, record};

/// An outside in which an anchor can be made, or nothing works.
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

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        if self.broken {
            return Err(Trouble::Unavailable { what: "local".to_owned() });
        }
        if let Effect::CreateAnchor { .. } = effect {
            *self.anchor.lock().unwrap() = Some(Uid::new("u-1"));
        }
        Ok(())
    }
}

async fn run(world: &World, leased: &Leased, outside: &Outside) -> Result<Report<Reason>, Stopped> {
    let ledger = LeasedLedger::new(&world.store, leased.life, leased.claim, record(leased).clone());
    let outcome = step(&Broker::default(), outside, &ledger, leased.now).await;
    ledger.finish(&outcome, Reason::as_str).await.unwrap();
    outcome
}

/// Red by: a lease that is not given back, or given back before the effect is known.
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
