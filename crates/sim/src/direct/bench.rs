//! How fast decisions about direct resources are, and how fast identities are read and written.

use std::hint::black_box;
use std::time::{Duration, Instant};

use usher_domain::direct::facts::{
    Asked, Cloud, Ended, Facts, GraceOver, Hold, Identity as IdentityFact, Object, Operation,
    Policy, Refs, RowFacts, Search, Stamp,
};
use usher_domain::direct::identity::{Identity as _, IdentityText};
use usher_domain::direct::observe::fold;
use usher_domain::direct::phase::Phase;
use usher_domain::direct::reconcile::rules;
use usher_domain::direct::reconciler::Direct;
use usher_kernel::Lifecycle as _;

use crate::base::Course;
use crate::bench::{header, line};
use crate::direct::model::Membership;
use crate::direct::state::State;
use crate::fault::Mix;
use crate::injected_fault::InjectedFault;
use crate::rng::Rng;
use crate::sim_world::SimWorld as _;

const CELLS: u64 = 20_000_000;
const DECISIONS: u64 = 500_000;
const TEXTS: u64 = 2_000_000;

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = header();
    line(&mut text, "direct: verdicts (rules)", CELLS, verdicts());
    line(&mut text, "direct: whole decisions (fold, decide)", DECISIONS, decisions());
    line(&mut text, "direct: identities read and written", TEXTS, identities());
    text
}

fn verdicts() -> Duration {
    let mut rng = Rng::new(1);
    let cells: Vec<(RowFacts, Facts)> = (0..4_096).map(|_| cell(&mut rng)).collect();
    let began = Instant::now();
    for (row, seen) in cells.iter().cycle().take(usize::try_from(CELLS).unwrap_or(0)) {
        black_box(rules(*black_box(row), *black_box(seen)));
    }
    began.elapsed()
}

/// Decides again and again about one object in an empty world.
fn decisions() -> Duration {
    let course = Course {
        drivers: 0,
        mix: Mix::default(),
        target: (0, InjectedFault::CrashBefore),
        faults_end: 0,
    };
    let mut state = State::empty(Rng::new(1), course, false);
    state.populate();
    let wish = crate::direct::plan::Plan::draw(1, &mut Rng::new(1)).wishes.remove(0);
    state.wishes = vec![wish];
    state.wishes[0].create_at = 0;
    state.grant_wishes();
    let record = state.store.resources[0].record.clone();
    let snapshot = state.snapshot(0, &record, true);
    let (reconciler, now) = (Direct::default(), state.now());
    let began = Instant::now();
    for _ in 0..DECISIONS {
        let seen = fold(&record.state, &record.name_ledger, black_box(&snapshot));
        black_box(reconciler.decide(&record, &seen, now).reason);
    }
    began.elapsed()
}

fn identities() -> Duration {
    let texts: Vec<String> =
        (0..64).map(|it| format!("projects/p{it}/memberships/member-{it}")).collect();
    let began = Instant::now();
    for text in texts.iter().cycle().take(usize::try_from(TEXTS).unwrap_or(0)) {
        if let Ok(text) = black_box(text).parse::<IdentityText>()
            && let Ok(identity) = Membership::parse(&text)
        {
            black_box(identity.format());
        }
    }
    began.elapsed()
}

fn cell(rng: &mut Rng) -> (RowFacts, Facts) {
    let row = RowFacts {
        phase: pick(rng, Phase::ALL),
        identity: pick(rng, IdentityFact::ALL),
        grace_over: pick(rng, GraceOver::ALL),
        asked: pick(rng, Asked::ALL),
        ended: pick(rng, Ended::ALL),
    };
    let seen = Facts {
        object: pick(rng, Object::ALL),
        hold: pick(rng, Hold::ALL),
        policy: pick(rng, Policy::ALL),
        refs: pick(rng, Refs::ALL),
        search: pick(rng, Search::ALL),
        stamp: pick(rng, Stamp::ALL),
        operation: pick(rng, Operation::ALL),
        cloud: pick(rng, Cloud::ALL),
    };
    (row, seen)
}

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[usize::try_from(rng.below(all.len() as u64)).unwrap_or(0)]
}
