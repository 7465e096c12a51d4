//! The broker's world, and the runner of every world.

mod world;

use std::sync::atomic::{AtomicU64, Ordering};

use usher_sim::broker::breakage::Breakage;
use usher_sim::broker::check::Checker;
use usher_sim::broker::state::State;
use usher_sim::coverage::{Coverage, Names};
use usher_sim::fault::DriverFault;
use usher_sim::injected_fault::InjectedFault;
use usher_sim::run::{self, Range, World};
use usher_sim::scenario;
use usher_sim::words::Words as _;

const SEEDS: &str = include_str!("../seeds/broker.txt");
const TABLE: &str = include_str!("../../domain/tables/broker.table");

// Requirement: S-1
#[test]
fn the_same_seed_gives_the_same_trace() {
    world::same_seed_same_life::<State>();
}

// Requirement: S-7, S-8
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
    ("ends-as-wished", Breakage::KeepAnchor),
    ("timer-when-incomplete", Breakage::WaitOnIncomplete),
    ("node-first", Breakage::SwapTeardown),
    ("no-orphans", Breakage::ConfigNeverCounted),
    ("no-late-enrolment", Breakage::ForgetRevocation),
    ("deleted-means-gone", Breakage::TrustForeground),
    ("foreign-untouched", Breakage::DeleteWithoutUid),
    ("one-event-per-crossing", Breakage::TellTwice),
    ("one-live-token", Breakage::IssueUnasked),
    ("name-before-use", Breakage::ForgetNames),
    ("config-last", Breakage::ConfigFirst),
    ("intent-wins", Breakage::LoseIntent),
    ("sticky", Breakage::FlapReady),
    ("ready-means-enrolled", Breakage::SkipEnrolling),
    ("guard-honoured", Breakage::IgnoreGuard),
    ("in-flight-grace", Breakage::SkipInFlightGrace),
    ("composed-recorded", Breakage::SkipRecording),
    ("mass-deletion-guard-holds", Breakage::IgnoreMassDeletionGuard),
    ("apply-never-creates", Breakage::ApplyWithoutUid),
];

// Requirement: S-9
#[test]
fn every_checker_notices_what_breaks_its_rule() {
    world::checkers_notice::<State, Checker>(&NOTICED);
}

#[test]
fn a_missing_event_is_noticed_at_once() {
    for breakage in [Breakage::TellNothing, Breakage::TellNotReady, Breakage::NumberEarly] {
        let noticed = run::catch::<State>(breakage).map(|(_, wrong)| wrong.checker);
        assert_eq!(noticed, Some(Checker::OneEventPerCrossing.as_str()), "{}", breakage.as_str());
    }
}

// Requirement: S-11
#[test]
fn names_are_distinct() {
    world::names_are_distinct::<State, Checker>();
}

// Requirement: S-4
#[test]
fn what_was_reached_too_rarely_is_a_gap() {
    let mut one = Coverage::default();
    one.injected(0, InjectedFault::CrashBefore);
    one.fault(DriverFault::Crash);
    let mut sum = Coverage::default();
    sum.add(&one);
    let names = Names::of::<State>();
    let cells = names.pairs.len() * InjectedFault::ALL.len();
    let faults = names.faults.len();
    let all_but_one = cells - 1 + faults - 1;
    assert_eq!(sum.gaps(&names, 100).len(), all_but_one);
    assert_eq!(sum.gaps(&names, 1_000).len(), all_but_one + 1, "one seed in 1,000 is too few");
    assert_eq!(sum.gaps(&names, 1_001).len(), cells + faults, "one fault in 1,001 is too few");
}

#[test]
fn sums_of_runs_add_up() {
    let mut parts = Coverage::default();
    let mut whole = Coverage::default();
    for half in [0..20_u64, 20..40] {
        let mut part = Coverage::default();
        for seed in half {
            let one = scenario::run_seed::<State>(seed, None, false).coverage;
            part.add(&one);
            whole.add(&one);
        }
        parts.merge(&part);
    }
    assert_eq!(parts, whole);
}

#[test]
fn a_run_prints_its_coverage_and_fails_on_nothing() {
    let mut out = Vec::new();
    let reading = AtomicU64::new(0);
    let progress = |lived| reading.store(lived, Ordering::Relaxed);
    assert!(
        run::many(Range { world: World::of::<State>(), from: 0, runs: 200 }, &progress, &mut out)
            .unwrap()
    );
    assert_eq!(reading.into_inner(), run::SHARE);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("broker: 200 seeds, 0 wrong\n"), "{text}");
    assert!(text.contains("(Deprovisioning, DeleteSubstrate)"), "{text}");
}
