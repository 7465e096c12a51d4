//! The world of Usages: repeatable, able to fail, and in step with its transition table.

use std::collections::BTreeSet;

use usher_sim::fault;
use usher_sim::life::{self, Verdict};
use usher_sim::realm::{EveryWorld, Realm as _};
use usher_sim::run;
use usher_sim::usage::breakage::Breakage;
use usher_sim::usage::check::Checker;
use usher_sim::usage::fault::Fault;
use usher_sim::usage::outside::{key, object};
use usher_sim::usage::plan::{PAIRS, Plan};
use usher_sim::usage::state::State;
use usher_sim::words::Words as _;

const SEEDS: &str = include_str!("../seeds/usage.txt");
const TABLE: &str = include_str!("../../domain/tables/usage.table");

fn live(seed: u64, breakage: Option<Breakage>, listen: bool) -> Verdict {
    life::live::<State>(seed, breakage, listen)
}

#[test]
fn the_same_seed_is_the_same_life() {
    for seed in [0, 7, 4_711] {
        let (one, other) = (live(seed, None, true), live(seed, None, true));
        assert_eq!(one.story, other.story);
        assert!(one.story.len() > 10, "a life has a story: {:?}", one.story);
    }
}

#[test]
fn lives_end_as_wished() {
    for seed in 0..1_000 {
        assert_eq!(live(seed, None, false).wrong, None, "seed {seed}");
    }
}

#[test]
fn lives_that_once_went_wrong_end_as_wished() {
    let seeds = SEEDS.lines().filter(|line| !line.starts_with('#'));
    for seed in seeds.map(|line| line.parse().unwrap()) {
        assert_eq!(live(seed, None, false).wrong, None, "seed {seed}");
    }
}

/// The values that a line of the table allows for a fact.
fn allowed(line: &str, fact: &str, all: &[&str]) -> BTreeSet<String> {
    let mut words = line.split_whitespace();
    let said = words.find_map(|word| word.strip_prefix(fact)?.strip_prefix('='));
    let owned = |it: &&str| (*it).to_owned();
    match said.map(|it| it.strip_prefix('!').map_or((it, true), |rest| (rest, false))) {
        None => all.iter().map(owned).collect(),
        Some((list, true)) => list.split(',').map(str::to_owned).collect(),
        Some((list, false)) => {
            all.iter().filter(|it| !list.split(',').any(|word| word == **it)).map(owned).collect()
        }
    }
}

#[test]
fn the_pairs_are_those_of_the_table() {
    let phases = ["Pending", "Protected", "Idle", "Releasing", "Released"];
    let mut written: BTreeSet<(String, String)> = BTreeSet::new();
    let mut given: BTreeSet<String> = BTreeSet::new();
    for line in TABLE.lines() {
        if line.starts_with("section ") {
            given.clear();
        } else if line.starts_with("given ") {
            given.extend(allowed(line, "phase", &phases));
        } else if let Some((left, right)) =
            line.strip_prefix("row ").and_then(|it| it.split_once("->"))
            && let Some(effect) = right.split_whitespace().find_map(|it| it.strip_prefix("effect="))
        {
            assert!(right.contains("phase=same"), "a verb keeps its phase: {line}");
            let own = allowed(left, "phase", &phases);
            let reached = own.into_iter().filter(|it| given.is_empty() || given.contains(it));
            written.extend(reached.map(|phase| (phase, effect.to_owned())));
        }
    }
    let simulated: BTreeSet<(String, String)> =
        PAIRS.iter().map(|(phase, effect)| (phase.to_string(), effect.to_string())).collect();
    assert_eq!(written, simulated);
}

/// For every checker a broken rule that it is the first to notice.
const NOTICED: [(&str, Breakage); 19] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::KeepBlocking),
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
    assert!(breakages.len() >= 12, "at least twelve rules are broken on purpose");
    assert_eq!(checkers().collect::<BTreeSet<_>>().len(), NOTICED.len());
    let faults = fault::names::<Fault>();
    assert_eq!(faults.iter().collect::<BTreeSet<_>>().len(), faults.len());
}

#[test]
fn a_world_of_nothing_is_peopled_by_somebody_else() {
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
