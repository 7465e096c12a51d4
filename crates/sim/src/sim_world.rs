//! A world that drivers can be let loose on.

use std::fmt::{Debug, Write as _};

use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Stopped, Timestamp, Trouble, Wake};

use crate::base::{Base, Wrong};
use crate::clock::timestamp;
use crate::driver_step::DriverStep;
use crate::fault::Fault;
use crate::words::{Words, words};

words! {
    /// What every world is held to.
    EveryWorld {
        /// No lease is given while another one runs.
        // Requirement: K-1
        OneVoice = "one-voice",
        /// A run without further faults ends as wished.
        // Requirement: K-11, O-4, B-17, T-5, T-12, T-26, T-32, P-10, E-10, E-18, S-3, G-10, G-17
        // Requirement: G-25, F-2, F-13, F-14, F-32, F-46
        EndsAsWished = "ends-as-wished",
        /// An incomplete snapshot is never waited on without a timer.
        // Requirement: K-18
        TimerWhenIncomplete = "timer-when-incomplete",
    }
}

words! {
    /// What the breakages with these words bend in the queue that every world shares.
    QueueBend {
        /// A lease is given while another one runs.
        DoubleLease = "double-lease",
        /// A wake-up during a step is lost.
        LoseWakeUp = "lose-wake-up",
        /// A driver that was overtaken still commits.
        CommitOvertaken = "skip-version-check",
    }
}

/// One simulated world: its records, its outside, its faults, its checkers.
pub trait SimWorld: Sized + 'static {
    /// Which record an entry of the queue belongs to.
    type Item: Copy + Debug;
    /// A verb in flight.
    type Request: Clone;
    /// What a driver notes beside the harness's own notes, from its claim on.
    type Notes;
    /// What can go wrong, beside the faults of a driver.
    type Fault: Fault;
    /// The rules that can be broken on purpose.
    type Breakage: Words;

    /// The world's name.
    const NAME: &'static str;

    /// The verbs of its tables, each with the phase it leads to.
    fn pairs() -> Vec<String>;

    /// The world of a seed, before anything has happened.
    fn new(seed: u64, breakage: Option<Self::Breakage>, listen: bool) -> Self;

    /// What every world has.
    fn base(&self) -> &Base<Self>;

    /// What every world has.
    fn base_mut(&mut self) -> &mut Base<Self>;

    /// Every work item in the queue.
    fn items(&self) -> Vec<Self::Item>;

    /// The entry of a work item.
    fn entry(&mut self, work_item: Self::Item) -> Option<&mut Entry>;

    /// Takes the lease of some due work item from the store behind this world; `None` if there is
    /// none.
    fn claim_behind(&mut self) -> Option<Option<(Self::Item, Claim)>> {
        None
    }

    /// Gives a lease back to the store behind this world; `false` if there is none.
    fn finish_behind(&mut self, _: Self::Item, _: &Claim, _: &Result<Wake, Stopped>) -> bool {
        false
    }

    /// What a driver notes at its claim.
    fn notes(&self) -> Self::Notes;

    /// One step of the claimed work item, by the product's own loop and rules.
    fn step(driver: &DriverStep<'_, Self>) -> impl Future<Output = Result<Wake, Stopped>>;

    /// Does what a request asks for, as the real outside would.
    fn execute(&mut self, request: &Self::Request) -> Result<(), Trouble>;

    /// Whether a request is answered well without doing anything.
    fn swallows(&self, _: &Self::Request) -> bool {
        false
    }

    /// One tick of everything but the drivers.
    fn evolve(&mut self);

    /// The fault phase is over: nothing is broken any more, and people do their part.
    fn heal(&mut self);

    /// What is still in progress.
    fn restless(&self) -> Vec<&'static str>;

    /// What must hold once the world is idle.
    fn check_quiet(&mut self);

    /// Whether this rule is broken.
    fn is_broken(&self, breakage: Self::Breakage) -> bool {
        self.base().breakage == Some(breakage)
    }

    /// Whether the queue is bent like this.
    fn is_bent(&self, bend: QueueBend) -> bool {
        self.base().breakage.is_some_and(|it| it.as_str() == bend.as_str())
    }

    /// The database's clock.
    fn now(&self) -> Timestamp {
        timestamp(self.base().tick + self.base().skew)
    }

    /// Whether the world may still misbehave.
    fn in_fault_phase(&self) -> bool {
        self.base().tick < self.base().course.faults_end
    }

    /// Whether a fault of this kind begins now, with this chance in thousandths. A caller that asks
    /// notes the fault once it has an effect.
    fn happens(&mut self, fault: impl Fault, per_mille: u64) -> bool {
        let may = self.in_fault_phase() && self.base().course.mix.has(fault);
        may && self.base_mut().rng.per_mille(per_mille)
    }

    /// Whether a fault of this kind happens now, with this chance in thousandths.
    fn injects(&mut self, fault: impl Fault, per_mille: u64) -> bool {
        let happens = self.happens(fault, per_mille);
        if happens {
            self.met(fault);
        }
        happens
    }

    /// Notes a fault for coverage and story.
    fn met(&mut self, fault: impl Fault) {
        self.base_mut().coverage.fault(fault);
        self.say(|_| format!("fault: {}", fault.as_str()));
    }

    /// Notes what went wrong first.
    fn wrong(&mut self, checker: impl Words, what: String) {
        let checker = checker.as_str();
        self.say(|_| format!("WRONG ({checker}): {what}"));
        self.base_mut().wrong.get_or_insert(Wrong { checker, what });
    }

    /// Adds a line to the story.
    fn say(&mut self, line: impl FnOnce(&Self) -> String) {
        if self.base().story.is_none() {
            return;
        }
        let mut text = String::new();
        let _ = write!(text, "{:>5}  {}", self.base().tick, line(self));
        if let Some(story) = &mut self.base_mut().story {
            story.push(text);
        }
    }

    /// What was sent once arrives a second time.
    fn repeat_requests(&mut self) {
        for request in self.base_mut().due_echoes() {
            if !self.swallows(&request) {
                let _ = self.execute(&request);
            }
        }
    }
}

/// What of this is under way.
pub fn under_way<const N: usize>(parts: [(bool, &'static str); N]) -> Vec<&'static str> {
    parts.into_iter().filter_map(|(is_under_way, what)| is_under_way.then_some(what)).collect()
}
