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
use crate::bench::{CELLS, header, line, repeated};
use crate::direct::model::Membership;
use crate::direct::state::State;
use crate::fault::Mix;
use crate::injected_fault::InjectedFault;
use crate::rng::Rng;
use crate::sim_world::SimWorld as _;

const DECISIONS: u64 = 500_000;
const TEXTS: u64 = 2_000_000;

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = header();
    line(
        &mut text,
        "direct: verdicts (rules)",
        CELLS,
        repeated(CELLS, cell, |it| rules(it.0, it.1)),
    );
    line(&mut text, "direct: whole decisions (fold, decide)", DECISIONS, decisions());
    line(&mut text, "direct: identities read and written", TEXTS, identities());
    text
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
        phase: rng.pick(Phase::ALL),
        identity: rng.pick(IdentityFact::ALL),
        grace_over: rng.pick(GraceOver::ALL),
        asked: rng.pick(Asked::ALL),
        ended: rng.pick(Ended::ALL),
    };
    let seen = Facts {
        object: rng.pick(Object::ALL),
        hold: rng.pick(Hold::ALL),
        policy: rng.pick(Policy::ALL),
        refs: rng.pick(Refs::ALL),
        search: rng.pick(Search::ALL),
        stamp: rng.pick(Stamp::ALL),
        operation: rng.pick(Operation::ALL),
        cloud: rng.pick(Cloud::ALL),
    };
    (row, seen)
}
