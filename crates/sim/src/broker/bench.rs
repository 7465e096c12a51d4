//! How fast the rules and whole runs are, on this machine.

use std::time::Instant;

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::facts::{
    Anchor, Composed, Config, Facts, Finalization, Gate, GenerationState, Intent, Node, Protection,
    RowFacts, Token, Xr,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reconcile::rules;
use usher_kernel::Visibility;

use crate::bench::{CELLS, header, line, repeated};
use crate::broker::state::State;
use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::scenario::run_seed;

const SEEDS: u64 = 3_000;

/// Measures and prints a table.
pub fn table() -> String {
    let mut text = header();
    line(&mut text, "verdicts (rules)", CELLS, repeated(CELLS, cell, |it| rules(it.0, it.1)));
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

fn cell(rng: &mut Rng) -> (RowFacts, Facts) {
    let row = RowFacts {
        phase: rng.pick(Phase::ALL),
        intent: rng.pick(Intent::ALL),
        generation_state: rng.pick(GenerationState::ALL),
        role: rng.pick(&MeshRole::ALL),
        finalization: rng.pick(Finalization::ALL),
    };
    let seen = Facts {
        visibility: rng.pick(&Visibility::ALL),
        gate: rng.pick(Gate::ALL),
        anchor: rng.pick(Anchor::ALL),
        token: rng.pick(Token::ALL),
        config: rng.pick(Config::ALL),
        xr: rng.pick(Xr::ALL),
        composed: rng.pick(Composed::ALL),
        node: rng.pick(Node::ALL),
        protection: rng.pick(Protection::ALL),
    };
    (row, seen)
}
