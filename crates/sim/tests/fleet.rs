//! The fleet's world: repeatable, able to fail, and in step with the transition table.

use std::collections::BTreeSet;

use usher_sim::fault;
use usher_sim::fleet::breakage::Breakage;
use usher_sim::fleet::check::Checker;
use usher_sim::fleet::fault::Fault;
use usher_sim::fleet::plan::PAIRS;
use usher_sim::fleet::state::State;
use usher_sim::life::{self, Verdict};
use usher_sim::realm::EveryWorld;
use usher_sim::run;
use usher_sim::words::Words as _;

const SEEDS: &str = include_str!("../seeds/fleet.txt");
const TABLE: &str = include_str!("../../domain/tables/machine.table");

fn live(seed: u64, listen: bool) -> Verdict {
    life::live::<State>(seed, None, listen)
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in [0, 7, 4_711] {
        let (one, other) = (live(seed, true), live(seed, true));
        assert_eq!(one.story, other.story);
        assert!(one.story.len() > 10, "a life has a story: {:?}", one.story);
    }
    assert_ne!(live(1, true).story, live(2, true).story);
}

#[test]
fn lives_end_as_wished() {
    for seed in 0..1_000 {
        assert_eq!(live(seed, false).wrong, None, "seed {seed}");
    }
}

#[test]
fn lives_that_once_went_wrong_end_as_wished() {
    let seeds = SEEDS.lines().filter(|line| !line.starts_with('#'));
    for seed in seeds.map(|line| line.parse().unwrap()) {
        assert_eq!(live(seed, false).wrong, None, "seed {seed}");
    }
}

#[test]
fn the_pairs_are_those_of_the_table() {
    let value = |words: &str, key: &str| {
        let found = words.split_whitespace().find_map(|word| word.strip_prefix(key));
        found.map(str::to_owned)
    };
    let rows = TABLE.lines().filter_map(|line| line.strip_prefix("row ")?.split_once("->"));
    let written: BTreeSet<(String, String)> = rows
        .filter_map(|(_, right)| {
            let effect = value(right, "effect=")?;
            Some((value(right, "phase=").expect("an effect leads to a phase"), effect))
        })
        .collect();
    let simulated: BTreeSet<(String, String)> =
        PAIRS.iter().map(|(phase, effect)| (phase.to_string(), effect.to_string())).collect();
    assert_eq!(written, simulated);
}

/// For every checker a broken rule that it is the first to notice.
const NOTICED: [(&str, Breakage); 18] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::NoRedrive),
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

fn checkers() -> impl Iterator<Item = &'static str> {
    let shared = EveryWorld::ALL.iter().map(|it| it.as_str());
    shared.chain(Checker::ALL.iter().map(|it| it.as_str()))
}

#[test]
fn every_checker_notices_what_breaks_its_rule() {
    assert!(NOTICED.map(|it| it.0).into_iter().eq(checkers()));
    for (checker, breakage) in NOTICED {
        let noticed = run::catch::<State>(breakage).map(|(_, wrong)| wrong.checker);
        assert_eq!(noticed, Some(checker), "{}", breakage.as_str());
    }
}

#[test]
fn names_are_told_apart() {
    let breakages: BTreeSet<&str> = Breakage::ALL.iter().map(|it| it.as_str()).collect();
    assert_eq!(breakages.len(), Breakage::ALL.len());
    assert!(breakages.len() >= 20, "at least twenty rules are broken on purpose");
    let checkers: BTreeSet<&str> = checkers().collect();
    assert_eq!(checkers.len(), NOTICED.len());
    let faults = fault::names::<Fault>();
    assert_eq!(faults.iter().collect::<BTreeSet<_>>().len(), faults.len());
}
