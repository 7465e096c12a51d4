//! Drivers: some prompt, some that die, some that fall asleep for longer than their lease.

use std::cell::{Cell, RefCell};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use usher_kernel::schedule::{Claim, Jitter};
use usher_kernel::{Stopped, Wake};

use crate::clock::{LEASE, PACE, REQUEST_BOUND, STEP_DEADLINE, Tick, millis};
use crate::fault::DriverFault;
use crate::realm::{EveryWorld, QueueBend, Realm};
use crate::seat::{Point, Seat};
use crate::strike::Strike;

type Step<'a> = Pin<Box<dyn Future<Output = Result<Wake, Stopped>> + 'a>>;

/// A driver.
pub struct Driver<'a, R: Realm> {
    work: Option<Work<'a, R>>,
    idle_until: Tick,
}

struct Work<'a, R: Realm> {
    seat: Rc<Seat<'a, R>>,
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

impl<R: Realm> Default for Driver<'_, R> {
    fn default() -> Self {
        Self { work: None, idle_until: 0 }
    }
}

impl<'a, R: Realm> Driver<'a, R> {
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
            self.work = claim(state).map(|(life, claim)| begin(state, life, claim));
        }
        let Some(mut work) = self.work.take() else {
            return;
        };
        loop {
            let polled = work.step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            match polled {
                Poll::Ready(outcome) => {
                    finish(&work.seat, outcome);
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

fn begin<R: Realm>(world: &RefCell<R>, life: R::Life, claim: Claim) -> Work<'_, R> {
    let state = world.borrow();
    let seat = Rc::new(Seat {
        state: world,
        life,
        claim,
        claimed_at: state.now(),
        point: Cell::new(Point::Load),
        done: Cell::new(false),
        returned: Cell::new(false),
        pair: Cell::new(None),
        notes: state.notes(),
    });
    let worker = Rc::clone(&seat);
    let step: Step<'_> = Box::pin(async move { R::step(&worker).await });
    Work { seat, step, started: state.base().tick, overslept: false }
}

/// Takes the lease of some life that is due.
fn claim<R: Realm>(world: &RefCell<R>) -> Option<(R::Life, Claim)> {
    let mut state = world.borrow_mut();
    if let Some(claimed) = state.claim_behind() {
        return claimed;
    }
    let now = state.now();
    let jitter = jitter(&mut *state);
    let lives = state.lives();
    if lives.is_empty() {
        return None;
    }
    let first = state.base_mut().rng.below(lives.len() as u64);
    let first = usize::try_from(first).unwrap_or(0);
    let doubles = bend(&*state) == Some(QueueBend::DoubleLease);
    for i in 0..lives.len() {
        let life = lives[(first + i) % lives.len()];
        let Some(entry) = state.entry(life) else {
            continue;
        };
        let leased = entry.is_leased(now);
        if doubles {
            entry.lease_until = None;
        }
        if let Some(claim) = entry.claim(&PACE, jitter, now) {
            if leased {
                state.wrong(EveryWorld::OneVoice, format!("{life:?} was leased twice"));
            }
            return Some((life, claim));
        }
    }
    None
}

fn bend<R: Realm>(state: &R) -> Option<QueueBend> {
    state.breakage().and_then(R::bends_queue)
}

fn jitter<R: Realm>(state: &mut R) -> Jitter {
    Jitter(u32::try_from(state.base_mut().rng.below(1 << 32)).unwrap_or(u32::MAX))
}

/// Gives the lease back.
fn finish<R: Realm>(seat: &Seat<'_, R>, outcome: Result<Wake, Stopped>) {
    let mut state = seat.state.borrow_mut();
    let now = state.now();
    let jitter = jitter(&mut *state);
    if let Err(stopped) = &outcome {
        state.say(|_| format!("{:?}: {stopped}: {}", seat.life, stopped.trouble));
    }
    if outcome.is_ok() && seat.returned.get()
        || state.finish_behind(seat.life, &seat.claim, &outcome)
    {
        return;
    }
    let loses = bend(&*state) == Some(QueueBend::LoseWakeUp);
    let Some(entry) = state.entry(seat.life) else {
        return;
    };
    let mut claim = seat.claim;
    if loses {
        claim.wake_seq = entry.wake_seq;
    }
    match outcome {
        Ok(wake) => entry.release(&claim, wake, now),
        Err(stopped) => entry.postpone(&claim, &stopped.trouble, &PACE, (jitter, now)),
    }
}

/// What becomes of a driver at this pause.
fn fate<R: Realm>(work: &mut Work<'_, R>, tick: Tick) -> Fate {
    let mut state = work.seat.state.borrow_mut();
    let fate = targeted(&work.seat, &mut *state).unwrap_or_else(|| drawn(&mut *state));
    match &fate {
        Fate::Die => {
            state.met(DriverFault::Crash);
            note_crash(&work.seat, &mut *state);
        }
        Fate::Sleep(ticks) => {
            if work.seat.claim.until <= state.now().after(millis(*ticks)) {
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

/// The strike that this life insists on, if this is its moment.
fn targeted<R: Realm>(seat: &Seat<'_, R>, state: &mut R) -> Option<Fate> {
    let pair = seat.pair.get();
    let base = state.base_mut();
    match seat.point.get() {
        Point::BeforeVerb if base.wants(pair, Strike::CrashBefore) => Some(Fate::Die),
        Point::BeforeVerb if base.wants(pair, Strike::LateDriver) => {
            let beyond = if base.rng.percent(50) { REQUEST_BOUND } else { LEASE };
            Some(Fate::Sleep(LEASE + base.rng.between(1, beyond)))
        }
        Point::AfterVerb if seat.done.get() && base.wants(pair, Strike::CrashAfter) => {
            Some(Fate::Die)
        }
        Point::Load
        | Point::Look
        | Point::BeforeVerb
        | Point::AfterVerb
        | Point::BeforeCommit
        | Point::AfterCommit => None,
    }
}

fn drawn<R: Realm>(state: &mut R) -> Fate {
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
fn note_crash<R: Realm>(seat: &Seat<'_, R>, state: &mut R) {
    let strike = match (seat.point.get(), seat.done.get()) {
        (Point::BeforeVerb, _) => Strike::CrashBefore,
        (Point::AfterVerb, true) => Strike::CrashAfter,
        (Point::AfterVerb, false)
        | (Point::Load | Point::Look | Point::BeforeCommit | Point::AfterCommit, _) => return,
    };
    if let Some(pair) = seat.pair.get() {
        state.base_mut().coverage.strike(pair, strike);
    }
}
