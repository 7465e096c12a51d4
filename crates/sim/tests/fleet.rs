//! The fleet's world.

mod world;

use std::cell::RefCell;

use usher_domain::object::id::ResourceId;
use usher_sim::base::Course;
use usher_sim::clock::GIVE_UP;
use usher_sim::fault::Mix;
use usher_sim::fleet::breakage::Breakage;
use usher_sim::fleet::check::Checker;
use usher_sim::fleet::plan::{Population, Slot};
use usher_sim::fleet::state::State;
use usher_sim::injected_fault::InjectedFault;
use usher_sim::rng::Rng;
use usher_sim::scenario::Scenario;
use uuid::Uuid;

const SEEDS: &str = include_str!("../seeds/fleet.txt");
const TABLE: &str = include_str!("../../domain/tables/machine.table");

// Requirement: S-1
#[test]
fn the_same_seed_gives_the_same_trace() {
    world::same_seed_same_life::<State>();
}

// Requirement: S-8
#[test]
fn seeds_end_as_declared() {
    world::end_as_wished::<State>(0..1_000);
}

// Requirement: S-8
#[test]
fn seeds_that_once_failed_end_as_declared() {
    world::end_as_wished::<State>(world::listed(SEEDS));
}

// Requirement: S-10
#[test]
fn the_pairs_are_those_of_the_table() {
    world::pairs_are_those_of::<State>(TABLE);
}

/// For every checker a broken rule that it is the first to notice.
const NOTICED: [(&str, Breakage); 19] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::NoRedrive),
    ("timer-when-incomplete", Breakage::WaitOnIncomplete),
    ("idle-means-left", Breakage::ClearOnTransitional),
    ("nothing-left-at-idle", Breakage::KeepAssignment),
    ("no-stale-crossing", Breakage::TrustSlow),
    ("binding-checked", Breakage::AnswerUnchecked),
    ("not-bricked", Breakage::ErrorIsFailed),
    ("gone-means-gone", Breakage::AbsentIsGone),
    ("no-over-preemption", Breakage::ForgetVictims),
    ("no-over-acquisition", Breakage::NoCreditCreating),
    ("held-untouched", Breakage::HolderIgnored),
    ("cap-honoured", Breakage::CapIgnored),
    ("nothing-taken-blindly", Breakage::PauseIgnored),
    ("token-before-use", Breakage::SequenceReused),
    ("one-event-per-crossing", Breakage::TellTwice),
    ("one-owner", Breakage::AdoptTwice),
    ("no-orphans", Breakage::LateDropped),
    ("quiet-at-rest", Breakage::PollAtRest),
];

// Requirement: S-9
#[test]
fn every_checker_notices_what_breaks_its_rule() {
    world::checkers_notice::<State, Checker>(&NOTICED);
}

// Requirement: S-11
#[test]
fn names_are_distinct() {
    world::names_are_distinct::<State, Checker>();
}

// Requirement: S-12
#[test]
fn a_world_that_starts_empty_takes_machines_and_gives_them_back() {
    let mix = Mix::default();
    let course =
        Course { drivers: 2, mix, target: (usize::MAX, InjectedFault::CrashBefore), faults_end: 0 };
    let mut empty = State::empty(Rng::new(1), course, (None, false));
    assert!(empty.store.rows.is_empty() && empty.outside.machines.is_empty());
    let slot = Slot { kind: 0, staged: true, owner: 0, idle: true, never_salvages: false };
    let slots = vec![slot];
    empty.settle_in(Population { shards: 1, clusters: 1, slots, demands: vec![], holds: vec![] });
    let world = RefCell::new(empty);
    let mut scenario = Scenario::new(&world);
    let mut turns = 0..GIVE_UP;
    let mut pass = |count| turns.by_ref().take(count).for_each(|tick| scenario.turn(tick));
    pass(100);
    let resource = ResourceId::from_uuid(Uuid::from_bytes([1; 16]));
    assert!(world.borrow_mut().hold_for(0, resource));
    pass(200);
    assert!(world.borrow().is_ready(0));
    world.borrow_mut().dismiss(0, resource);
    assert!(!world.borrow().is_gone(0));
    pass(200);
    assert!(world.borrow().is_gone(0));
    assert_eq!(world.borrow().base.wrong, None);
}
