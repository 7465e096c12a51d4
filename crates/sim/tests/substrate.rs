//! The simulated cluster keeps the promises of every world that a substrate can live in.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot unwrap has failed"
)]

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::{self, Outstanding};
use usher_domain::broker::effect::Effect;
use usher_domain::broker::event::Event;
use usher_domain::broker::observe::{Observed, fold};
use usher_domain::broker::provider_config::{self, ProviderConfig, Verb};
use usher_domain::broker::reconciler::Broker;
use usher_domain::broker::tombstone::Tombstone;
use usher_domain::object::authority::Authority;
use usher_kernel::{Decision, Ledger, Name, Record, Row, Timestamp, Trouble, Version, World};
use usher_sim::broker::breakage::Breakage;
use usher_sim::broker::execute::{AnyVerb, Request, Sender};
use usher_sim::broker::outside::{Kind, Object, Outside};
use usher_sim::broker::plan::Wishes;
use usher_sim::broker::state::State;
use usher_sim::broker::store::Write;
use usher_sim::clock::Tick;
use usher_sim::contract::substrate::{self, Meddling, TestWorld};
use usher_sim::sim_world::SimWorld as _;

/// One resource in a cluster where nothing breaks by itself.
struct Cluster {
    breakage: Option<Breakage>,
    state: RefCell<State>,
    hidden: RefCell<bool>,
    kept: RefCell<Option<Outside>>,
}

impl Cluster {
    fn new(seed: u64, breakage: Option<Breakage>) -> Self {
        let mut state = State::new(seed, None, false);
        state.base.course.faults_end = 0;
        state.base.tick = 1;
        state.wishes = vec![Wishes {
            role: MeshRole::Node,
            declare_at: Tick::MAX,
            retire_at: None,
            replace_at: None,
            abandon_at: None,
            guard_ours: false,
            distinct_parts: true,
            parts: 2,
        }];
        state.declare(0);
        if breakage == Some(Breakage::LoseWakeUp) {
            state.watch_down_until = Tick::MAX;
        }
        let (hidden, kept) = (RefCell::new(false), RefCell::new(None));
        Self { breakage, state: RefCell::new(state), hidden, kept }
    }

    fn snapshot(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        if *self.hidden.borrow() && self.breakage != Some(Breakage::ErrorIsAbsent) {
            return Err(Trouble::unavailable("cluster".to_owned()));
        }
        let mut snapshot = self.state.borrow_mut().snapshot(0, record, true);
        if self.breakage == Some(Breakage::TrustRebuilt) {
            snapshot.authority = Authority::Pinned;
        }
        Ok(fold(&record.state, &record.name_ledger, &snapshot))
    }

    fn send(&self, sender: Sender, verb: AnyVerb) -> Result<(), Trouble> {
        let mut state = self.state.borrow_mut();
        let observed_at = state.base.tick;
        state.execute(&Request {
            sender,
            verb,
            observed_at,
            in_time: true,
            breakage: self.breakage,
        })
    }

    fn write(
        &self,
        version: Option<Version>,
        (next, rows): (Resource, &[Row]),
        event: Option<Event>,
    ) -> Result<(), Trouble> {
        let mut state = self.state.borrow_mut();
        let now = state.now();
        let write = Write { version, next, rows, event, promised: None, breakage: None };
        state.store.write(0, write, now)
    }
}

impl World<Broker> for Cluster {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.snapshot(record)
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send(Sender::Resource(0), AnyVerb::Resource(effect.clone()))
    }
}

impl World<Tombstone> for Cluster {
    async fn observe(&self, record: &Record<Resource>) -> Result<Observed, Trouble> {
        self.snapshot(record)
    }

    async fn apply(&self, _: &Record<Resource>, effect: &Effect) -> Result<(), Trouble> {
        self.send(Sender::Resource(0), AnyVerb::Resource(effect.clone()))
    }
}

impl World<provider_config::ProviderConfigReconciler> for Cluster {
    async fn observe(
        &self,
        record: &Record<ProviderConfig>,
    ) -> Result<provider_config::Observed, Trouble> {
        let snapshot = self.state.borrow_mut().observe_config(record);
        Ok(provider_config::fold(&record.state, &record.name_ledger, &snapshot))
    }

    async fn apply(&self, _: &Record<ProviderConfig>, verb: &Verb) -> Result<(), Trouble> {
        self.send(Sender::Config, AnyVerb::Config(verb.clone()))
    }
}

impl Ledger<Broker> for Cluster {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.resource()))
    }

    async fn commit(&self, version: Version, it: &Decision<Broker>) -> Result<(), Trouble> {
        self.write(Some(version), (it.next.clone(), &it.rows), it.event.clone())
    }
}

impl Ledger<Tombstone> for Cluster {
    async fn load(&self) -> Result<Option<Record<Resource>>, Trouble> {
        Ok(Some(self.resource()))
    }

    async fn commit(&self, version: Version, it: &Decision<Tombstone>) -> Result<(), Trouble> {
        self.write(Some(version), (it.next.clone(), &it.rows), None)
    }
}

impl Ledger<provider_config::ProviderConfigReconciler> for Cluster {
    async fn load(&self) -> Result<Option<Record<ProviderConfig>>, Trouble> {
        Ok(Some(self.config()))
    }

    async fn commit(
        &self,
        version: Version,
        decision: &Decision<provider_config::ProviderConfigReconciler>,
    ) -> Result<(), Trouble> {
        let record = &mut self.state.borrow_mut().store.config.record;
        if record.version != version {
            return Err(Trouble::Conflict);
        }
        record.version = version.next();
        record.name_ledger = record.name_ledger.with(&decision.rows);
        record.state = decision.next.clone();
        Ok(())
    }
}

impl TestWorld for Cluster {
    fn now(&self) -> Timestamp {
        self.state.borrow().now()
    }

    async fn pass(&self) {
        let mut state = self.state.borrow_mut();
        state.base.tick += 1;
        state.evolve();
    }

    fn resource(&self) -> Record<Resource> {
        self.state.borrow().store.resources[0].record.clone()
    }

    fn config(&self) -> Record<ProviderConfig> {
        self.state.borrow().store.config.record.clone()
    }

    fn events(&self) -> Vec<Event> {
        self.state.borrow().store.events.iter().map(|it| it.event.clone()).collect()
    }

    /// The machines of this cluster boot by themselves.
    async fn enrol(&self) {}

    async fn retire(&self) {
        let outstanding = Outstanding { may_act_until: None, request_bound: Duration::ZERO };
        let change = command::deprovision(&self.resource().state, &outstanding, self.now());
        self.write(None, (change.next, &change.rows), change.event).unwrap();
    }

    async fn was_woken(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let row = &mut state.store.resources[0];
        let entry = row.tombstone.as_mut().unwrap_or(&mut row.entry);
        entry.due.take().is_some()
    }

    async fn meddle(&self, meddling: Meddling) {
        let mut state = self.state.borrow_mut();
        let tick = state.base.tick;
        let kind = |name: &Name| if name.kind == "Anchor" { Kind::Anchor } else { Kind::Xr };
        match meddling {
            Meddling::TakeName(name) => {
                let object = Object::foreign(kind(&name), name.name);
                state.outside.create(object, tick);
            }
            Meddling::Remove(name) => {
                let found = state.outside.find(kind(&name), &name.name).map(|it| it.uid);
                if let Some(uid) = found {
                    state.outside.mark(uid, tick, tick);
                }
            }
            Meddling::Rebuild => state.outside.rebuilt_until = Tick::MAX,
            Meddling::Forget => {
                let older = Outside::default();
                *self.kept.borrow_mut() = Some(std::mem::replace(&mut state.outside, older));
            }
            Meddling::Hide => {
                *self.hidden.borrow_mut() = true;
                if self.breakage == Some(Breakage::ErrorIsAbsent) {
                    state.outside.empty_until = Tick::MAX;
                }
            }
            Meddling::Restore => {
                state.outside.rebuilt_until = -1;
                *self.hidden.borrow_mut() = false;
                if let Some(kept) = self.kept.borrow_mut().take() {
                    state.outside = kept;
                }
            }
        }
    }
}

/// Nothing here ever waits: whatever takes time takes ticks.
fn keep<'a, F: Future<Output = ()> + 'a>(
    (seed, breakage): (u64, Option<Breakage>),
    promise: impl Fn(&'a Cluster) -> F,
) {
    let cluster = Box::leak(Box::new(Cluster::new(seed, breakage)));
    let mut kept = pin!(promise(cluster));
    let mut context = Context::from_waker(Waker::noop());
    assert_eq!(kept.as_mut().poll(&mut context), Poll::Ready(()), "seed {seed}");
}

fn keeps<'a, F: Future<Output = ()> + 'a>(promise: impl Fn(&'a Cluster) -> F) {
    for seed in 0..10 {
        keep((seed, None), &promise);
    }
}

/// What a cluster with this breakage says when it is asked to keep a promise.
fn breaks<'a, F: Future<Output = ()> + 'a>(
    breakage: Breakage,
    promise: impl Fn(&'a Cluster) -> F,
) -> String {
    let broken = catch_unwind(AssertUnwindSafe(|| keep((1, Some(breakage)), &promise)));
    let said = broken.expect_err(&format!("{breakage:?} is not noticed"));
    said.downcast_ref::<String>().cloned().unwrap_or_default()
}

// Requirement: LW-3
#[test]
fn a_broken_cluster_breaks_its_promise() {
    breaks(Breakage::ApplyWithoutUid, substrate::an_apply_needs_the_object_that_was_seen);
    breaks(Breakage::DeleteWithoutUid, substrate::a_deletion_names_its_object);
    breaks(Breakage::DropAnchor, substrate::a_create_may_be_repeated_and_makes_one_object);
    breaks(Breakage::TrustRebuilt, substrate::another_world_proves_no_absence);
    breaks(Breakage::TrustRebuilt, substrate::a_world_that_forgot_proves_no_absence);
    breaks(Breakage::ErrorIsAbsent, substrate::a_world_that_does_not_answer_is_not_empty);
    let reported =
        breaks(Breakage::LoseWakeUp, substrate::what_was_taken_away_is_absent_and_wakes_its_life);
    assert_eq!(reported, "nothing is woken by a disappearance");
}

// Requirement: LW-2
#[test]
fn a_name_that_was_never_used_is_absent() {
    keeps(substrate::a_name_that_was_never_used_is_absent);
}

// Requirement: LW-2
#[test]
fn a_create_may_be_repeated_and_makes_one_object() {
    keeps(substrate::a_create_may_be_repeated_and_makes_one_object);
}

// Requirement: LW-2
#[test]
fn a_name_that_is_taken_is_foreign_and_left_alone() {
    keeps(substrate::a_name_that_is_taken_is_foreign_and_left_alone);
}

// Requirement: LW-2
#[test]
fn a_substrate_whose_name_is_taken_is_foreign() {
    keeps(substrate::a_substrate_whose_name_is_taken_is_foreign);
}

// Requirement: LW-3
#[test]
fn an_apply_needs_the_object_that_was_seen() {
    keeps(substrate::an_apply_needs_the_object_that_was_seen);
}

// Requirement: LW-4
#[test]
fn nothing_stays_under_an_anchor_that_is_gone() {
    keeps(substrate::nothing_stays_under_an_anchor_that_is_gone);
}

// Requirement: LW-4
#[test]
fn what_stands_under_an_anchor_goes_with_it() {
    keeps(substrate::what_stands_under_an_anchor_goes_with_it);
}

// Requirement: LW-3
#[test]
fn a_deletion_names_its_object() {
    keeps(substrate::a_deletion_names_its_object);
}

// Requirement: LW-5
#[test]
fn a_substrate_says_what_it_composed() {
    keeps(substrate::a_substrate_says_what_it_composed);
}

// Requirement: LW-5
#[test]
fn a_deletion_ends_with_every_part_gone() {
    keeps(substrate::a_deletion_ends_with_every_part_gone);
}

// Requirement: LW-7
#[test]
fn what_was_taken_away_is_absent_and_wakes_its_life() {
    keeps(substrate::what_was_taken_away_is_absent_and_wakes_its_life);
}

// Requirement: LW-7
#[test]
fn a_change_wakes_its_life() {
    keeps(substrate::a_change_wakes_its_life);
}

// Requirement: LW-6
#[test]
fn another_world_proves_no_absence() {
    keeps(substrate::another_world_proves_no_absence);
}

// Requirement: LW-6
#[test]
fn a_world_that_forgot_proves_no_absence() {
    keeps(substrate::a_world_that_forgot_proves_no_absence);
}

// Requirement: LW-6
#[test]
fn a_world_that_does_not_answer_is_not_empty() {
    keeps(substrate::a_world_that_does_not_answer_is_not_empty);
}

// Requirement: LW-1
#[test]
fn a_life_walks_in_and_out() {
    keeps(substrate::a_life_walks_in_and_out);
}

// Requirement: LW-1
#[test]
fn a_lost_substrate_is_replaced() {
    keeps(substrate::a_lost_substrate_is_replaced);
}

// Requirement: LW-7
#[test]
fn a_tombstone_takes_away_what_came_back() {
    keeps(substrate::a_tombstone_takes_away_what_came_back);
}
