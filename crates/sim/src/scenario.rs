//! One seed, one run: first safety under every fault, then liveness without faults.

use std::cell::RefCell;

use crate::base::Wrong;
use crate::clock::{GIVE_UP, LEASE, Tick};
use crate::coverage::Coverage;
use crate::driver::Driver;
use crate::sim_world::{EveryWorld, SimWorld};

/// How a run went.
pub struct Verdict {
    /// What went wrong, if anything.
    pub wrong: Option<Wrong>,
    /// What it met.
    pub coverage: Coverage,
    /// Its trace, if one was recorded.
    pub story: Vec<String>,
}

/// Runs a seed.
pub fn run_seed<R: SimWorld>(seed: u64, breakage: Option<R::Breakage>, listen: bool) -> Verdict {
    run_world(R::new(seed, breakage, listen))
}

/// Runs a world to its end.
pub fn run_world<R: SimWorld>(world: R) -> Verdict {
    let world = RefCell::new(world);
    let mut stage = Scenario::new(&world);
    for tick in 0..GIVE_UP {
        stage.turn(tick);
        if stage.is_over() {
            break;
        }
    }
    stage.close();
    verdict(&*world.borrow())
}

fn verdict<R: SimWorld>(state: &R) -> Verdict {
    let base = state.base();
    Verdict {
        wrong: base.wrong.clone(),
        coverage: base.coverage.clone(),
        story: base.story.clone().unwrap_or_default(),
    }
}

/// A world and its drivers, tick by tick.
pub struct Scenario<'a, R: SimWorld> {
    state: &'a RefCell<R>,
    drivers: Vec<Driver<'a, R>>,
    tick: Tick,
    calm_since: Option<Tick>,
}

impl<'a, R: SimWorld> Scenario<'a, R> {
    /// A world at its beginning.
    pub fn new(state: &'a RefCell<R>) -> Self {
        let count = state.borrow().base().course.drivers;
        let drivers = (0..count).map(|_| Driver::default()).collect();
        Self { state, drivers, tick: 0, calm_since: None }
    }

    /// One tick of the world and then of its drivers.
    pub fn turn(&mut self, tick: Tick) {
        self.tick = tick;
        {
            let mut state = self.state.borrow_mut();
            state.base_mut().tick = tick;
            if tick == state.base().course.faults_end {
                state.heal();
                state.say(|_| "the fault phase is over".to_owned());
            }
            state.evolve();
        }
        for driver in &mut self.drivers {
            driver.drive(self.state);
        }
        let calm = self.is_calm();
        self.calm_since = calm.then(|| self.calm_since.unwrap_or(tick));
    }

    /// Whether nothing is in progress any more, now.
    fn is_calm(&self) -> bool {
        let state = self.state.borrow();
        let healed = self.tick > state.base().course.faults_end;
        healed && !self.drivers.iter().any(Driver::is_asleep) && state.restless().is_empty()
    }

    /// Whether nothing has been in progress for longer than any request could be.
    pub fn is_at_rest(&self) -> bool {
        self.calm_since.is_some_and(|since| self.tick - since > 2 * LEASE)
    }

    /// Whether there is nothing more to see: the world is idle, or something went wrong.
    pub fn is_over(&self) -> bool {
        self.is_at_rest() || self.state.borrow().base().wrong.is_some()
    }

    /// The last check of a world that had its time.
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        if state.base().wrong.is_some() {
            return;
        }
        state.check_quiet();
        if state.base().wrong.is_none() && !self.is_at_rest() {
            let what = format!("the world never comes to rest: {}", state.restless().join(", "));
            state.wrong(EveryWorld::EndsAsWished, what);
        }
    }
}
