//! How fast the rules and whole runs are, on this machine.

use std::hint::black_box;
use std::time::{Duration, Instant};

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::facts::{
    Anchor, Composed, Config, Facts, Finalization, Gate, GenerationState, Intent, Node, Protection,
    RowFacts, Token, Xr,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reconcile::rules;
use usher_kernel::Visibility;

use crate::bench::{header, line};
use crate::broker::state::State;
use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::scenario::run_seed;

const CELLS: u64 = 20_000_000;
const SEEDS: u64 = 3_000;

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = header();
    line(&mut text, "verdicts (rules)", CELLS, verdicts());
    let began = Instant::now();
    let mut coverage = Coverage::default();
    for seed in 0..SEEDS {
        coverage.add(&run_seed::<State>(seed, None, false).coverage);
    }
    let took = began.elapsed();
    line(&mut text, "steps of simulated runs", coverage.steps, took);
    line(&mut text, "whole runs", SEEDS, took);
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

fn cell(rng: &mut Rng) -> (RowFacts, Facts) {
    let row = RowFacts {
        phase: pick(rng, Phase::ALL),
        intent: pick(rng, Intent::ALL),
        generation_state: pick(rng, GenerationState::ALL),
        role: pick(rng, &MeshRole::ALL),
        finalization: pick(rng, Finalization::ALL),
    };
    let seen = Facts {
        visibility: pick(rng, Visibility::ALL),
        gate: pick(rng, Gate::ALL),
        anchor: pick(rng, Anchor::ALL),
        token: pick(rng, Token::ALL),
        config: pick(rng, Config::ALL),
        xr: pick(rng, Xr::ALL),
        composed: pick(rng, Composed::ALL),
        node: pick(rng, Node::ALL),
        protection: pick(rng, Protection::ALL),
    };
    (row, seen)
}

fn pick<T: Copy>(rng: &mut Rng, all: &[T]) -> T {
    all[usize::try_from(rng.below(all.len() as u64)).unwrap_or(0)]
}
