//! One seed, one life: first safety under every fault, then liveness in calm weather.

use std::cell::RefCell;

use crate::breakage::Breakage;
use crate::check::{Checker, Wrong};
use crate::coverage::Coverage;
use crate::driver::Driver;
use crate::plan::{GIVE_UP, LEASE, Tick};
use crate::seat::Sim;
use crate::state::State;

/// How a life went.
pub struct Verdict {
    /// What went wrong, if anything.
    pub wrong: Option<Wrong>,
    /// What it met.
    pub coverage: Coverage,
    /// Its story, if somebody listened.
    pub story: Vec<String>,
}

/// Lives the life of a seed.
pub fn live(seed: u64, breakage: Option<Breakage>, listen: bool) -> Verdict {
    let sim = Sim { state: RefCell::new(State::new(seed, listen)), breakage };
    run(&sim);
    let state = sim.state.into_inner();
    Verdict { wrong: state.wrong, coverage: state.coverage, story: state.story.unwrap_or_default() }
}

fn run(sim: &Sim) {
    let count = sim.state.borrow().plan.drivers;
    let mut drivers: Vec<Driver<'_>> = (0..count).map(|_| Driver::default()).collect();
    let mut calm_since: Option<Tick> = None;
    for tick in 0..GIVE_UP {
        let healed = {
            let mut state = sim.state.borrow_mut();
            state.tick = tick;
            if tick == state.plan.faults_end {
                state.heal();
            }
            state.evolve(sim.breakage);
            state.tick > state.plan.faults_end
        };
        for driver in &mut drivers {
            driver.drive(sim);
        }
        let mut state = sim.state.borrow_mut();
        if state.wrong.is_some() {
            return;
        }
        let calm = healed && !drivers.iter().any(Driver::is_asleep) && state.is_calm();
        calm_since = calm.then(|| calm_since.unwrap_or(tick));
        if calm_since.is_some_and(|since| tick - since > 2 * LEASE) {
            state.check_quiet();
            return;
        }
    }
    let mut state = sim.state.borrow_mut();
    state.check_quiet();
    if state.wrong.is_none() {
        let what = format!("the world never comes to rest: {}", state.restless().join(", "));
        state.wrong(Checker::EndsAsWished, what);
    }
}

impl State {
    /// Whether nothing is on its way: no wish, no request, no departure, no enrolment.
    fn is_calm(&self) -> bool {
        self.restless().is_empty()
    }

    /// What is still on its way.
    fn restless(&self) -> Vec<&'static str> {
        let tick = self.tick;
        let wished = self.plan.wishes.iter().any(|it| {
            [it.retire_at.map(|at| at + 30), it.replace_at, it.abandon_at, Some(it.declare_at)]
                .into_iter()
                .flatten()
                .any(|at| tick <= at)
        });
        let enrolling = self.outside.agents.iter().any(|it| {
            !it.enrolled
                && it.tries_at.is_some()
                && self.outside.by_uid(it.machine).is_some()
                && self.is_redeemable(it.token)
        });
        let unfinished = (0..self.store.resources.len()).any(|it| self.unfinished(it).is_some());
        let requests = !self.echoes.is_empty() || !self.late_parts.is_empty();
        let leaving = self.outside.objects.iter().any(|it| it.gone_at.is_some());
        [
            (wished, "a wish"),
            (leaving, "a departure"),
            (enrolling, "an enrolment"),
            (unfinished, "a resource"),
            (requests, "a request"),
        ]
        .into_iter()
        .filter_map(|(under_way, what)| under_way.then_some(what))
        .collect()
    }
}
