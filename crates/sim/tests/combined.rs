//! All worlds at once: repeatable, and each world's checkers still notice what breaks its rules.

use usher_sim::combined::breakage::Breakage;
use usher_sim::combined::scenario::{names, run_seed};
use usher_sim::words::Words as _;

const SEEDS: &str = include_str!("../seeds/combined.txt");

// Requirement: S-13
#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [0, 7, 4_711] {
        let (one, other) = (run_seed(seed, None, true), run_seed(seed, None, true));
        assert_eq!(one.story, other.story);
        for world in ["broker", "usage", "direct", "fleet"] {
            assert!(one.story.iter().any(|line| line.contains(world)), "{world} has its part");
        }
    }
}

// Requirement: S-13
#[test]
fn seeds_end_as_declared() {
    for seed in 0..200 {
        assert_eq!(run_seed(seed, None, false).wrong, None, "seed {seed}");
    }
}

// Requirement: W-5
#[test]
fn seeds_that_once_failed_end_as_declared() {
    let seeds = SEEDS.lines().filter(|line| !line.starts_with('#'));
    for seed in seeds.map(|line| line.parse().unwrap()) {
        assert_eq!(run_seed(seed, None, false).wrong, None, "seed {seed}");
    }
}

/// What is broken in one world, and who is the first to notice it in all of them.
const NOTICED: [(Breakage, &str); 9] = [
    (Breakage::BypassAdmission, "in-use-stays"),
    (Breakage::DropFinalizers, "deleted-means-gone-below"),
    (Breakage::KeepMachine, "ends-as-wished"),
    (Breakage::TrustForeground, "deleted-means-gone"),
    (Breakage::SwapTeardown, "node-first"),
    (Breakage::LeavingIsGone, "user-first"),
    (Breakage::ReleaseOnError, "gone-means-gone"),
    (Breakage::ReleaseBeforeVerify, "gone-means-gone"),
    (Breakage::ClearOnTransitional, "idle-means-left"),
];

// Requirement: S-13
#[test]
fn every_breakage_is_noticed() {
    assert!(NOTICED.iter().map(|it| it.0).eq(Breakage::ALL.iter().copied()));
    for (breakage, checker) in NOTICED {
        let wrong = (0..1_000).find_map(|seed| run_seed(seed, Some(breakage), false).wrong);
        assert_eq!(wrong.map(|it| it.checker), Some(checker), "{}", breakage.as_str());
    }
}

// Requirement: S-13
#[test]
fn whatever_is_left_out_has_a_name() {
    let names = names();
    let known = |it: &String| names.pairs.contains(it) || names.faults.contains(it);
    let unknown: Vec<_> = names.left_out.iter().filter(|it| !known(it)).collect();
    assert_eq!(unknown, Vec::<&String>::new());
}
