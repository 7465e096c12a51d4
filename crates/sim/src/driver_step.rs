//! A driver: an await wherever a real driver has one, and everything that can go wrong
//! between a verb or a commit and its answer.

use std::cell::{Cell, RefCell};
use std::task::Poll;

use usher_kernel::schedule::Claim;
use usher_kernel::{Observation, Timestamp, Trouble, Wake};

use crate::clock::{REQUEST_BOUND, millis};
use crate::fault::DriverFault;
use crate::injected_fault::InjectedFault;
use crate::sim_world::{EveryWorld, QueueBend, SimWorld};

/// Where a step pauses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// Before the record is read.
    Load,
    /// Before the world is observed.
    Snapshot,
    /// Before a verb is sent.
    BeforeVerb,
    /// After a verb was done and before its answer.
    AfterVerb,
    /// Before the commit.
    BeforeCommit,
    /// After the commit and before its answer.
    AfterCommit,
}

/// A driver at work on one claim.
pub struct DriverStep<'a, R: SimWorld> {
    /// The world.
    pub state: &'a RefCell<R>,
    /// Whose turn it is.
    pub work_item: R::Item,
    /// The claim it holds.
    pub claim: Claim,
    /// When it claimed.
    pub claimed_at: Timestamp,
    /// Where it paused.
    pub point: Cell<Point>,
    /// Whether its verb was really done.
    pub done: Cell<bool>,
    /// Whether its commit gave the lease back.
    pub returned: Cell<bool>,
    /// The verb of the table that it is about to do.
    pub pair: Cell<Option<usize>>,
    /// What the world notes for its drivers.
    pub notes: R::Notes,
}

impl<R: SimWorld> DriverStep<'_, R> {
    /// The rule that is broken on purpose.
    pub fn breakage(&self) -> Option<R::Breakage> {
        self.state.borrow().base().breakage
    }

    /// A place to die or to fall asleep.
    pub async fn pause(&self, point: Point) {
        self.point.set(point);
        let mut asked = false;
        std::future::poll_fn(|_| {
            if std::mem::replace(&mut asked, true) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Notes a decision and the verb it leads to, one of the table's. What was decided on an
    /// incomplete snapshot has a timer.
    pub fn decided<P: PartialEq>(
        &self,
        (table, verb): (&[P], Option<P>),
        seen: &impl Observation,
        wake: Wake,
    ) {
        let mut state = self.state.borrow_mut();
        if seen.is_incomplete() && wake == Wake::OnChange {
            let what = format!("{:?} waits for a change that may not come", self.work_item);
            state.wrong(EveryWorld::TimerWhenIncomplete, what);
        }
        let coverage = &mut state.base_mut().coverage;
        coverage.steps += 1;
        let place = verb.map(|verb| table.iter().position(|it| *it == verb));
        coverage.unknown_pairs += u64::from(place == Some(None));
        self.pair.set(place.flatten());
    }

    /// Sends a verb: it may be refused, arrive twice, or lose its answer. `request` is called with
    /// whether its sender is within its lease.
    pub async fn send(&self, request: impl FnOnce(bool) -> R::Request) -> Result<(), Trouble> {
        self.pause(Point::BeforeVerb).await;
        let (done, comes_again) = self.arrive(request);
        self.pause(Point::AfterVerb).await;
        if comes_again {
            return Err(Trouble::unavailable("the answer".to_owned()));
        }
        let mut state = self.state.borrow_mut();
        if !self.done.get() {
            return done;
        }
        let wanted = state.base_mut().wants(self.pair.get(), InjectedFault::AnswerLost);
        if wanted || state.happens(DriverFault::AnswerLost, 60) {
            state.met(DriverFault::AnswerLost);
            self.struck(&mut state, InjectedFault::AnswerLost);
            return Err(Trouble::unavailable("the answer".to_owned()));
        }
        done
    }

    /// Commits to the store that also keeps the queue: an overtaken lease holder changes nothing
    /// there.
    pub async fn commit_ours(
        &self,
        write: impl FnOnce() -> Result<(), Trouble>,
    ) -> Result<(), Trouble> {
        self.pause(Point::BeforeCommit).await;
        let written = if self.is_overtaken() { Err(Trouble::Conflict) } else { write() };
        self.committed(written).await
    }

    /// Whether its work item was claimed again since.
    pub fn is_overtaken(&self) -> bool {
        let mut state = self.state.borrow_mut();
        let newest = state.entry(self.work_item).map(|it| it.fence);
        newest != Some(self.claim.fence) && !state.is_bent(QueueBend::CommitOvertaken)
    }

    /// After a commit: its answer may be lost.
    pub async fn committed(&self, result: Result<(), Trouble>) -> Result<(), Trouble> {
        self.pause(Point::AfterCommit).await;
        result?;
        if self.state.borrow_mut().injects(DriverFault::CommitAnswerLost, 50) {
            self.returned.set(false);
            return Err(Trouble::unavailable("the answer of the commit".to_owned()));
        }
        Ok(())
    }

    /// What the world does with a verb, and whether the request will arrive once more. One that
    /// comes again later is never answered; one that comes twice at once is answered once.
    fn arrive(&self, request: impl FnOnce(bool) -> R::Request) -> (Result<(), Trouble>, bool) {
        let mut state = self.state.borrow_mut();
        state.base_mut().coverage.verbs += 1;
        if state.injects(DriverFault::Refusal, 80) {
            return (Err(Trouble::Rejected { what: "the outside".to_owned() }), false);
        }
        let in_time = state.now() < self.claim.until.after(millis(REQUEST_BOUND));
        let request = request(in_time);
        if state.swallows(&request) {
            return (Ok(()), false);
        }
        let repeated = state.injects(DriverFault::Repeated, 60);
        let comes_again = repeated && state.base_mut().rng.percent(50);
        if comes_again {
            let base = state.base_mut();
            let later = base.tick + base.rng.between(1, REQUEST_BOUND - 1);
            base.echoes.push((later, request.clone()));
        } else if repeated {
            let _ = state.execute(&request);
        }
        let done = state.execute(&request);
        self.done.set(done.is_ok());
        if self.claim.until <= state.now() && done.is_ok() {
            self.struck(&mut state, InjectedFault::LateDriver);
        }
        (done, comes_again)
    }

    fn struck(&self, state: &mut R, injected: InjectedFault) {
        if let Some(pair) = self.pair.get() {
            state.base_mut().coverage.injected(pair, injected);
        }
    }
}
