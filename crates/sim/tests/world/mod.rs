//! What every simulated world is held to: repeatable, able to fail, in step with its table.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot continue fails")]

use std::collections::BTreeSet;

use usher_sim::fault;
use usher_sim::run;
use usher_sim::scenario;
use usher_sim::sim_world::{EveryWorld, SimWorld};
use usher_sim::words::Words;

pub(crate) fn same_seed_same_life<R: SimWorld>() {
    let story = |seed| scenario::run_seed::<R>(seed, None, true).story;
    for seed in [0, 7, 4_711] {
        let one = story(seed);
        assert_eq!(one, story(seed));
        assert!(one.len() > 10, "a run has a trace: {one:?}");
    }
    assert_ne!(story(1), story(2));
}

pub(crate) fn end_as_wished<R: SimWorld>(seeds: impl IntoIterator<Item = u64>) {
    for seed in seeds {
        assert_eq!(scenario::run_seed::<R>(seed, None, false).wrong, None, "seed {seed}");
    }
}

/// The seeds of a file, without its comments.
pub(crate) fn listed(seeds: &str) -> impl Iterator<Item = u64> {
    seeds.lines().filter(|line| !line.starts_with('#')).map(|line| line.parse().unwrap())
}

/// The verbs of a world are those of its table, each with every phase it leads to.
pub(crate) fn pairs_are_those_of<R: SimWorld>(table: &str) {
    let phases = table.lines().find_map(|line| line.strip_prefix("fact phase: ")).unwrap();
    let phases: Vec<&str> = phases.split_whitespace().collect();
    let mut written: BTreeSet<String> = BTreeSet::new();
    let mut given: BTreeSet<&str> = BTreeSet::new();
    for line in table.lines() {
        if line.starts_with("section ") {
            given.clear();
        } else if line.starts_with("given ") {
            given.extend(allowed(line, &phases));
        } else if let Some((left, right)) =
            line.strip_prefix("row ").and_then(|it| it.split_once("->"))
            && let Some(effect) = value(right, "effect=")
        {
            let next = value(right, "phase=").expect("an effect leads to a phase");
            let own = allowed(left, &phases);
            let kept = own.into_iter().filter(|it| given.is_empty() || given.contains(it));
            let reached = if next == "same" { kept.collect() } else { vec![next] };
            written.extend(reached.iter().map(|phase| format!("({phase}, {effect})")));
        }
    }
    assert_eq!(written, R::pairs().into_iter().collect());
}

fn value<'a>(words: &'a str, key: &str) -> Option<&'a str> {
    words.split_whitespace().find_map(|word| word.strip_prefix(key))
}

/// The phases that a line of a table allows.
fn allowed<'a>(line: &str, phases: &[&'a str]) -> Vec<&'a str> {
    let said = value(line, "phase=").unwrap_or("!");
    let (list, wanted) = said.strip_prefix('!').map_or((said, true), |rest| (rest, false));
    let named = |it: &&&str| list.split(',').any(|word| word == **it) == wanted;
    phases.iter().filter(named).copied().collect()
}

/// Every checker is the first to notice some broken rule, and none is forgotten.
pub(crate) fn checkers_notice<R: SimWorld, C: Words>(noticed: &[(&'static str, R::Breakage)]) {
    let shared = EveryWorld::ALL.iter().map(|it| it.as_str());
    let checkers = shared.chain(C::ALL.iter().map(|it| it.as_str()));
    assert!(noticed.iter().map(|it| it.0).eq(checkers), "each checker once, in order");
    for (checker, breakage) in noticed {
        let first = run::catch::<R>(*breakage).map(|(_, wrong)| wrong.checker);
        assert_eq!(first, Some(*checker), "{}", breakage.as_str());
    }
}

pub(crate) fn names_are_distinct<R: SimWorld, C: Words>() {
    let faults = fault::names::<R::Fault>();
    let breakages: Vec<_> = R::Breakage::ALL.iter().map(|it| it.as_str()).collect();
    let shared = EveryWorld::ALL.iter().map(|it| it.as_str());
    let checkers: Vec<_> = shared.chain(C::ALL.iter().map(|it| it.as_str())).collect();
    assert!(breakages.len() >= 20, "at least twenty rules are broken on purpose");
    assert_eq!(breakages.iter().collect::<BTreeSet<_>>().len(), breakages.len());
    assert_eq!(checkers.iter().collect::<BTreeSet<_>>().len(), checkers.len());
    assert_eq!(faults.iter().collect::<BTreeSet<_>>().len(), faults.len());
}
