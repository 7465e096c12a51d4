//! The world of direct resources.

mod world;

use std::cell::RefCell;

use usher_domain::direct::reference::{Named, Reference};
use usher_sim::base::Course;
use usher_sim::clock::GIVE_UP;
use usher_sim::direct::breakage::Breakage;
use usher_sim::direct::check::Checker;
use usher_sim::direct::model::Spec;
use usher_sim::direct::state::{NAMESPACE, State, Wanted};
use usher_sim::fault::Mix;
use usher_sim::injected_fault::InjectedFault;
use usher_sim::rng::Rng;
use usher_sim::scenario::Scenario;

const SEEDS: &str = include_str!("../seeds/direct.txt");
const TABLE: &str = include_str!("../../domain/tables/direct.table");

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
const NOTICED: [(&str, Breakage); 22] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::LoseRequest),
    ("timer-when-incomplete", Breakage::WaitOnIncomplete),
    ("named", Breakage::ForgetEnded),
    ("foreign-untouched", Breakage::ForeignIsOurs),
    ("release-means-gone", Breakage::ForgetOperation),
    ("known-release", Breakage::ForgetHistory),
    ("orphan-by-policy", Breakage::ReleaseOnDependencyError),
    ("name-before-use", Breakage::SkipWriteAhead),
    ("finalizer-first", Breakage::SkipFinalizer),
    ("one-object", Breakage::FollowSpec),
    ("copy-never-acts", Breakage::CopyIsBelieved),
    ("abandon-asks-nothing", Breakage::IgnoreAbandon),
    ("parentless", Breakage::ResolveConfiguration),
    ("hold-honoured", Breakage::IgnoreHold),
    ("policy-honoured", Breakage::GuessPolicy),
    ("one-event-per-crossing", Breakage::TellTwice),
    ("sticky", Breakage::LoseIntent),
    ("no-residue", Breakage::SkipWatch),
    ("quiet-at-rest", Breakage::PollAtRest),
    ("in-flight-grace", Breakage::SkipInFlightGrace),
    ("gone-means-gone", Breakage::ErrorIsAbsent),
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
fn a_world_that_starts_empty_takes_objects_and_lets_them_go() {
    let mix = Mix::default();
    let course =
        Course { drivers: 2, mix, target: (usize::MAX, InjectedFault::CrashBefore), faults_end: 0 };
    let mut empty = State::empty(Rng::new(1), course, false);
    empty.outside.cloud.containers.push("projects/p".to_owned());
    empty.add_parent("project", "projects/p");
    let parent = Named { namespace: NAMESPACE.to_owned(), name: "project".to_owned() };
    let object = empty.add(Wanted {
        name: "object".to_owned(),
        spec: Spec {
            parent: Reference::Named(parent),
            config: None,
            member: "m".to_owned(),
            wanted: 1,
        },
        policy: None,
    });
    let world = RefCell::new(empty);
    let mut scenario = Scenario::new(&world);
    let identity = "projects/p/memberships/m";
    let mut turns = 0..GIVE_UP;
    for tick in turns.by_ref().take(200) {
        scenario.turn(tick);
    }
    assert!(world.borrow().outside.cloud.find(identity).is_some());
    assert!(!world.borrow().is_gone(object));
    world.borrow_mut().outside.parents.clear();
    world.borrow_mut().ask_to_go(object);
    for tick in turns.take(600) {
        scenario.turn(tick);
    }
    scenario.close();
    assert!(world.borrow().is_gone(object), "although its parent is gone");
    assert_eq!(world.borrow().outside.cloud.find(identity), None);
    assert_eq!(world.borrow().base.wrong, None);
}
