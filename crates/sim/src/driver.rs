//! Drivers: some prompt, some that die, some that fall asleep for longer than their lease.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use usher_kernel::schedule::{Claim, Jitter};
use usher_kernel::{Stopped, Wake};

use crate::breakage::Breakage;
use crate::check::Checker;
use crate::fault::Fault;
use crate::plan::{LEASE, Pair, REQUEST_BOUND, STEP_DEADLINE, Strike, Tick};
use crate::seat::{Point, Seat, Sim, millis};
use crate::state::State;
use crate::store::{Life, PACE};

type Step<'a> = Pin<Box<dyn Future<Output = Result<Wake, Stopped>> + 'a>>;

/// A driver.
#[derive(Default)]
pub struct Driver<'a> {
    work: Option<Work<'a>>,
    idle_until: Tick,
}

struct Work<'a> {
    seat: std::rc::Rc<Seat<'a>>,
    step: Step<'a>,
    started: Tick,
    overslept: bool,
}

/// What a pause turns into.
enum Fate {
    GoOn,
    Yield,
    Die,
    Sleep(Tick),
}

impl<'a> Driver<'a> {
    /// Whether it sleeps over something that it began.
    pub fn is_asleep(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.overslept)
    }

    /// One tick of this driver.
    pub fn drive(&mut self, sim: &'a Sim) {
        let tick = sim.state.borrow().tick;
        if tick < self.idle_until {
            return;
        }
        if self.work.is_none() {
            self.work = claim(sim).map(|(life, claim)| begin(sim, life, claim));
        }
        let Some(mut work) = self.work.take() else {
            return;
        };
        loop {
            let polled = work.step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(outcome) => {
                    finish(sim, &work.seat, outcome);
                    return;
                }
                Poll::Pending => {}
            }
            match fate(sim, &mut work, tick) {
                Fate::GoOn => {}
                Fate::Yield => {
                    self.work = Some(work);
                    return;
                }
                Fate::Die => {
                    self.idle_until = tick + sim.state.borrow_mut().rng.between(1, 20);
                    return;
                }
                Fate::Sleep(ticks) => {
                    work.overslept = true;
                    self.idle_until = tick + ticks;
                    self.work = Some(work);
                    return;
                }
            }
        }
    }
}

fn begin<'a>(sim: &'a Sim, life: Life, claim: Claim) -> Work<'a> {
    let state = sim.state.borrow();
    let seat = std::rc::Rc::new(Seat {
        sim,
        life,
        claim,
        claimed_at: state.now(),
        next_number: state.store.next_number(),
        point: std::cell::Cell::new(Point::Load),
        looked_at: std::cell::Cell::new(state.tick),
        behind_rail: std::cell::Cell::new(false),
        done: std::cell::Cell::new(false),
        pair: std::cell::Cell::new(None),
    });
    let worker = std::rc::Rc::clone(&seat);
    let step: Step<'a> = Box::pin(async move { worker.step().await });
    Work { seat, step, started: state.tick, overslept: false }
}

/// Takes the lease of some life that is due.
fn claim(sim: &Sim) -> Option<(Life, Claim)> {
    let mut state = sim.state.borrow_mut();
    let now = state.now();
    let jitter = jitter(&mut state);
    let lives = state.store.lives();
    let first = usize::try_from(state.rng.below(lives.len() as u64)).unwrap_or(0);
    for i in 0..lives.len() {
        let life = lives[(first + i) % lives.len()];
        let Some(entry) = state.store.entry(life) else {
            continue;
        };
        let leased = entry.is_leased(now);
        if sim.breakage == Some(Breakage::DoubleLease) {
            entry.lease_until = None;
        }
        if let Some(claim) = entry.claim(&PACE, jitter, now) {
            if leased {
                state.wrong(Checker::OneVoice, format!("{life:?} was leased twice"));
            }
            return Some((life, claim));
        }
    }
    None
}

fn jitter(state: &mut State) -> Jitter {
    Jitter(u32::try_from(state.rng.below(1 << 32)).unwrap_or(u32::MAX))
}

/// Gives the lease back.
fn finish(sim: &Sim, seat: &Seat<'_>, outcome: Result<Wake, Stopped>) {
    let mut state = sim.state.borrow_mut();
    let now = state.now();
    let jitter = jitter(&mut state);
    if let Err(stopped) = &outcome {
        state.say(|_| format!("{:?}: {stopped}: {}", seat.life, stopped.trouble));
    }
    let Some(entry) = state.store.entry(seat.life) else {
        return;
    };
    let mut claim = seat.claim;
    if sim.breakage == Some(Breakage::LoseWakeUp) {
        claim.wake_seq = entry.wake_seq;
    }
    match outcome {
        Ok(wake) => entry.release(&claim, wake, now),
        Err(stopped) => entry.postpone(&claim, &stopped.trouble, &PACE, (jitter, now)),
    }
}

/// What becomes of a driver at this pause.
fn fate(sim: &Sim, work: &mut Work<'_>, tick: Tick) -> Fate {
    let mut state = sim.state.borrow_mut();
    let pair = work.seat.pair.get();
    let point = work.seat.point.get();
    let targeted = match point {
        Point::BeforeVerb => {
            if state.wants(pair, Strike::CrashBefore) {
                Some(Fate::Die)
            } else if state.wants(pair, Strike::LateDriver) {
                let beyond = if state.rng.percent(50) { REQUEST_BOUND } else { LEASE };
                Some(Fate::Sleep(LEASE + state.rng.between(1, beyond)))
            } else {
                None
            }
        }
        Point::AfterVerb => {
            let wanted = work.seat.done.get() && state.wants(pair, Strike::CrashAfter);
            wanted.then_some(Fate::Die)
        }
        Point::Load | Point::Look | Point::BeforeCommit | Point::AfterCommit => None,
    };
    let fate = targeted.unwrap_or_else(|| drawn(&mut state));
    match &fate {
        Fate::Die => {
            state.met(Fault::Crash);
            state.note_crash(pair, (point, work.seat.done.get()));
        }
        Fate::Sleep(ticks) => {
            if work.seat.claim.until <= state.now().after(millis(*ticks)) {
                state.met(Fault::Sleep);
            }
        }
        // A driver that knows the time stops; one that overslept does one more thing first.
        Fate::GoOn | Fate::Yield if tick - work.started > STEP_DEADLINE => {
            if !std::mem::take(&mut work.overslept) {
                return Fate::Die;
            }
        }
        Fate::GoOn | Fate::Yield => {}
    }
    fate
}

fn drawn(state: &mut State) -> Fate {
    if state.happens(Fault::Crash, 40) {
        Fate::Die
    } else if state.happens(Fault::Sleep, 25) {
        Fate::Sleep(state.rng.between(5, 2 * LEASE))
    } else if state.rng.percent(15) {
        Fate::Yield
    } else {
        Fate::GoOn
    }
}

impl State {
    /// Whether this life insists on this strike, here and now, once.
    pub fn wants(&mut self, pair: Option<Pair>, strike: Strike) -> bool {
        let wanted =
            !self.struck && pair == Some(self.plan.target.0) && strike == self.plan.target.1;
        self.struck |= wanted;
        wanted
    }

    /// A crash after a verb counts only if the verb was really done.
    fn note_crash(&mut self, pair: Option<Pair>, at: (Point, bool)) {
        let strike = match at {
            (Point::BeforeVerb, _) => Strike::CrashBefore,
            (Point::AfterVerb, true) => Strike::CrashAfter,
            (Point::AfterVerb, false)
            | (Point::Load | Point::Look | Point::BeforeCommit | Point::AfterCommit, _) => return,
        };
        if let Some(pair) = pair {
            self.coverage.strike(pair, strike);
        }
    }
}
