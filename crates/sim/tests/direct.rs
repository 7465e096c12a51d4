//! The simulation itself: repeatable, able to fail, and in step with the transition table.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use usher_domain::direct::reference::{Named, Reference};
use usher_sim::base::Course;
use usher_sim::clock::GIVE_UP;
use usher_sim::direct::breakage::Breakage;
use usher_sim::direct::check::Checker;
use usher_sim::direct::fault::Fault;
use usher_sim::direct::model::Spec;
use usher_sim::direct::plan::PAIRS;
use usher_sim::direct::state::{NAMESPACE, State, Wanted};
use usher_sim::fault::{self, Mix};
use usher_sim::life::{self, Stage, Verdict};
use usher_sim::realm::EveryWorld;
use usher_sim::rng::Rng;
use usher_sim::run::{self, Range, World};
use usher_sim::strike::Strike;
use usher_sim::words::Words as _;

const SEEDS: &str = include_str!("../seeds/direct.txt");
const TABLE: &str = include_str!("../../domain/tables/direct.table");

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
fn another_seed_is_another_life() {
    assert_ne!(live(1, None, true).story, live(2, None, true).story);
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

/// The pairs of a row: where it keeps the phase, one for each phase that it is open to.
fn pairs_of(givens: &[&str], left: &str, right: &str) -> Vec<(String, String)> {
    let value = |words: &str, key: &str| {
        let found = words.split_whitespace().find_map(|word| word.strip_prefix(key));
        found.map(str::to_owned)
    };
    let Some(effect) = value(right, "effect=") else { return vec![] };
    let phase = value(right, "phase=").unwrap_or_default();
    if phase != "same" {
        return vec![(phase, effect)];
    }
    let open = givens.iter().copied().chain([left]).find_map(|it| value(it, "phase="));
    open.unwrap_or_default().split(',').map(|phase| (phase.to_owned(), effect.clone())).collect()
}

#[test]
fn the_pairs_are_those_of_the_table() {
    let mut written: BTreeSet<(String, String)> = BTreeSet::new();
    let mut givens = vec![];
    for line in TABLE.lines() {
        if line.starts_with("section ") {
            givens.clear();
        } else if let Some(given) = line.strip_prefix("given ") {
            givens.push(given);
        } else if let Some((left, right)) =
            line.strip_prefix("row ").and_then(|it| it.split_once("->"))
        {
            written.extend(pairs_of(&givens, left, right));
        }
    }
    let simulated: BTreeSet<(String, String)> =
        PAIRS.iter().map(|(phase, effect)| (phase.to_string(), effect.to_string())).collect();
    assert_eq!(written, simulated);
}

/// For every checker a broken rule that it is the first to notice.
const NOTICED: [(&str, Breakage); 21] = [
    ("one-voice", Breakage::DoubleLease),
    ("ends-as-wished", Breakage::LoseRequest),
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
    ("quiet-time", Breakage::SkipQuietTime),
    ("gone-means-gone", Breakage::ErrorIsAbsent),
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
fn what_has_no_checker_of_its_own_is_noticed_too() {
    let others = Breakage::ALL.iter().filter(|it| NOTICED.iter().all(|(_, known)| known != *it));
    for breakage in others {
        assert!(run::catch::<State>(*breakage).is_some(), "{}", breakage.as_str());
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

#[test]
fn a_run_tells_its_figures_and_fails_on_nothing() {
    let mut out = Vec::new();
    let heard = AtomicU64::new(0);
    let progress = |lived| heard.store(lived, Ordering::Relaxed);
    assert!(
        run::many(Range { world: World::of::<State>(), from: 0, lives: 200 }, &progress, &mut out)
            .unwrap()
    );
    assert_eq!(heard.into_inner(), run::SHARE);
    let text = String::from_utf8(out).unwrap();
    assert!(text.ends_with("direct: 200 lives, 0 wrong\n"), "{text}");
    assert!(text.contains("(Deleting, RemoveFinalizer)"), "{text}");
}

#[test]
fn a_world_that_starts_empty_takes_objects_and_lets_them_go() {
    let mix = Mix::default();
    let course =
        Course { drivers: 2, mix, target: (usize::MAX, Strike::CrashBefore), faults_end: 0 };
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
    let mut stage = Stage::new(&world);
    let identity = "projects/p/memberships/m";
    let mut turns = 0..GIVE_UP;
    for tick in turns.by_ref().take(200) {
        stage.turn(tick);
    }
    assert!(world.borrow().outside.cloud.find(identity).is_some());
    assert!(!world.borrow().is_gone(object));
    world.borrow_mut().outside.parents.clear();
    world.borrow_mut().ask_to_go(object);
    for tick in turns.take(600) {
        stage.turn(tick);
    }
    stage.close();
    assert!(world.borrow().is_gone(object), "although its parent is gone");
    assert_eq!(world.borrow().outside.cloud.find(identity), None);
    assert_eq!(world.borrow().base.wrong, None);
}
