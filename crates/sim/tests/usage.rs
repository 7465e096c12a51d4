//! The world of Usages.

mod world;

use usher_sim::sim_world::SimWorld as _;
use usher_sim::usage::breakage::Breakage;
use usher_sim::usage::check::Checker;
use usher_sim::usage::outside::{key, object};
use usher_sim::usage::plan::Plan;
use usher_sim::usage::state::State;

const SEEDS: &str = include_str!("../seeds/usage.txt");
const TABLE: &str = include_str!("../../domain/tables/usage.table");

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
const NOTICED: [(&str, Breakage); 20] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::KeepBlocking),
    ("timer-when-incomplete", Breakage::WaitOnIncomplete),
    ("user-first", Breakage::LeavingIsGone),
    ("in-use-stays", Breakage::ForgetTarget),
    ("circle-refused", Breakage::EditUnexamined),
    ("protected-means-refused", Breakage::ProtectedUnproven),
    ("finalizer-first", Breakage::FinalizerLater),
    ("finalizer-last", Breakage::LetGoOwing),
    ("nothing-released-stays", Breakage::DropStrays),
    ("promise-kept", Breakage::ForgottenTimer),
    ("replay-once", Breakage::ReplayAgain),
    ("only-what-was-asked", Breakage::ReplayWithoutUid),
    ("not-wanted-not-replayed", Breakage::IgnoreOwners),
    ("foreign-untouched", Breakage::SelectAnything),
    ("name-before-use", Breakage::MarkUnrecorded),
    ("dry-run-leaves-no-trace", Breakage::DryRunRecords),
    ("cache-never-allows", Breakage::AllowFromCache),
    ("mark-stays", Breakage::IgnoreOthers),
    ("quiet-at-rest", Breakage::MarkAgain),
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
fn an_empty_world_is_filled_from_outside() {
    let mut state = State::empty(7, None);
    let name = key("Database", "mine");
    assert!(state.is_gone(&name));
    assert!(state.add(object(name.clone(), "ours", 0)).is_some());
    assert!(!state.is_gone(&name));
    state.ask_to_go(&name, usher_domain::usage::attempt::Propagation::Background).unwrap();
    state.evolve();
    assert!(state.is_gone(&name));
    assert!(Plan::nothing(7).wanted.is_empty());
}
