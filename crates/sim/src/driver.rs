//! Drivers: some prompt, some that die, some that fall asleep for longer than their lease.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use usher_kernel::schedule::{Claim, Jitter};
use usher_kernel::{Stopped, Wake};

use crate::clock::{LEASE, PACE, REQUEST_BOUND, STEP_DEADLINE, Tick, millis};
use crate::driver_step::{DriverStep, Point};
use crate::fault::DriverFault;
use crate::injected_fault::InjectedFault;
use crate::sim_world::{EveryWorld, QueueBend, SimWorld};

type Step<'a> = Pin<Box<dyn Future<Output = Result<Wake, Stopped>> + 'a>>;

/// A driver.
pub struct Driver<'a, R: SimWorld> {
    work: Option<Work<'a, R>>,
    idle_until: Tick,
}

struct Work<'a, R: SimWorld> {
    driver: Rc<DriverStep<'a, R>>,
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

impl<R: SimWorld> Default for Driver<'_, R> {
    fn default() -> Self {
        Self { work: None, idle_until: 0 }
    }
}

impl<'a, R: SimWorld> Driver<'a, R> {
    /// Whether it sleeps over something that it began.
    pub fn is_asleep(&self) -> bool {
        self.work.as_ref().is_some_and(|work| work.overslept)
    }

    /// One tick of this driver.
    pub fn drive(&mut self, state: &'a RefCell<R>) {
        let tick = state.borrow().base().tick;
        if tick < self.idle_until {
            return;
        }
        if self.work.is_none() {
            self.work = claim(state).map(|(work_item, claim)| begin(state, work_item, claim));
        }
        let Some(mut work) = self.work.take() else {
            return;
        };
        loop {
            let polled = work.step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(outcome) => {
                    finish(&work.driver, outcome);
                    return;
                }
                Poll::Pending => {}
            }
            match fate(&mut work, tick) {
                Fate::GoOn => {}
                Fate::Yield => {
                    self.work = Some(work);
                    return;
                }
                Fate::Die => {
                    self.idle_until = tick + state.borrow_mut().base_mut().rng.between(1, 20);
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

fn begin<R: SimWorld>(world: &RefCell<R>, work_item: R::Item, claim: Claim) -> Work<'_, R> {
    let state = world.borrow();
    let driver = Rc::new(DriverStep {
        state: world,
        work_item,
        claim,
        claimed_at: state.now(),
        point: Cell::new(Point::Load),
        done: Cell::new(false),
        returned: Cell::new(false),
        pair: Cell::new(None),
        notes: state.notes(),
    });
    let worker = Rc::clone(&driver);
    let step: Step<'_> = Box::pin(async move { R::step(&worker).await });
    Work { driver, step, started: state.base().tick, overslept: false }
}

/// Takes the lease of some due work item.
fn claim<R: SimWorld>(world: &RefCell<R>) -> Option<(R::Item, Claim)> {
    let mut state = world.borrow_mut();
    if let Some(claimed) = state.claim_behind() {
        return claimed;
    }
    let now = state.now();
    let jitter = jitter(&mut *state);
    let items = state.items();
    if items.is_empty() {
        return None;
    }
    let first = state.base_mut().rng.index(items.len());
    let doubles = state.is_bent(QueueBend::DoubleLease);
    for i in 0..items.len() {
        let work_item = items[(first + i) % items.len()];
        let Some(entry) = state.entry(work_item) else {
            continue;
        };
        let leased = entry.is_leased(now);
        if doubles {
            entry.lease_until = None;
        }
        if let Some(claim) = entry.claim(&PACE, jitter, now) {
            if leased {
                state.wrong(EveryWorld::OneVoice, format!("{work_item:?} was leased twice"));
            }
            return Some((work_item, claim));
        }
    }
    None
}

fn jitter<R: SimWorld>(state: &mut R) -> Jitter {
    Jitter(u32::try_from(state.base_mut().rng.below(1 << 32)).unwrap_or(u32::MAX))
}

/// Gives the lease back.
fn finish<R: SimWorld>(driver: &DriverStep<'_, R>, outcome: Result<Wake, Stopped>) {
    let mut state = driver.state.borrow_mut();
    let now = state.now();
    let jitter = jitter(&mut *state);
    if let Err(stopped) = &outcome {
        state.say(|_| format!("{:?}: {stopped}: {}", driver.work_item, stopped.trouble));
    }
    if outcome.is_ok() && driver.returned.get()
        || state.finish_behind(driver.work_item, &driver.claim, &outcome)
    {
        return;
    }
    let loses = state.is_bent(QueueBend::LoseWakeUp);
    let Some(entry) = state.entry(driver.work_item) else {
        return;
    };
    let mut claim = driver.claim;
    if loses {
        claim.wake_seq = entry.wake_seq;
    }
    match outcome {
        Ok(wake) => entry.release(&claim, wake, now),
        Err(stopped) => entry.postpone(&claim, &stopped.trouble, &PACE, (jitter, now)),
    }
}

/// What becomes of a driver at this pause.
fn fate<R: SimWorld>(work: &mut Work<'_, R>, tick: Tick) -> Fate {
    let mut state = work.driver.state.borrow_mut();
    let fate = targeted(&work.driver, &mut *state).unwrap_or_else(|| drawn(&mut *state));
    match &fate {
        Fate::Die => {
            state.met(DriverFault::Crash);
            note_crash(&work.driver, &mut *state);
        }
        Fate::Sleep(ticks) => {
            if work.driver.claim.until <= state.now().after(millis(*ticks)) {
                state.met(DriverFault::Sleep);
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

/// The injected fault that this run insists on, if this is its moment.
fn targeted<R: SimWorld>(driver: &DriverStep<'_, R>, state: &mut R) -> Option<Fate> {
    let pair = driver.pair.get();
    let base = state.base_mut();
    match driver.point.get() {
        Point::BeforeVerb if base.wants(pair, InjectedFault::CrashBefore) => Some(Fate::Die),
        Point::BeforeVerb if base.wants(pair, InjectedFault::LateDriver) => {
            let beyond = if base.rng.percent(50) { REQUEST_BOUND } else { LEASE };
            Some(Fate::Sleep(LEASE + base.rng.between(1, beyond)))
        }
        Point::AfterVerb if driver.done.get() && base.wants(pair, InjectedFault::CrashAfter) => {
            Some(Fate::Die)
        }
        Point::Load
        | Point::Snapshot
        | Point::BeforeVerb
        | Point::AfterVerb
        | Point::BeforeCommit
        | Point::AfterCommit => None,
    }
}

fn drawn<R: SimWorld>(state: &mut R) -> Fate {
    if state.happens(DriverFault::Crash, 40) {
        Fate::Die
    } else if state.happens(DriverFault::Sleep, 25) {
        Fate::Sleep(state.base_mut().rng.between(5, 2 * LEASE))
    } else if state.base_mut().rng.percent(15) {
        Fate::Yield
    } else {
        Fate::GoOn
    }
}

/// A crash after a verb counts only if the verb was really done.
fn note_crash<R: SimWorld>(driver: &DriverStep<'_, R>, state: &mut R) {
    let injected = match (driver.point.get(), driver.done.get()) {
        (Point::BeforeVerb, _) => InjectedFault::CrashBefore,
        (Point::AfterVerb, true) => InjectedFault::CrashAfter,
        (Point::AfterVerb, false)
        | (Point::Load | Point::Snapshot | Point::BeforeCommit | Point::AfterCommit, _) => return,
    };
    if let Some(pair) = driver.pair.get() {
        state.base_mut().coverage.injected(pair, injected);
    }
}
