//! Steps machines that are due: so many at a time, each alone, each with a deadline.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use usher_domain::fleet::plan::Slot;
use usher_kernel::{Stage, Stopped, Timestamp, Trouble};

use super::epoch::Epoch;
use super::memory::Turn;
use super::step::{Step, rest_of};
use super::tally::Done;
use super::writer::Writer;
use crate::shard::stopped;

/// When a machine is looked at again, and whether its step came to its end.
type Rest = (Option<Timestamp>, bool);

/// The steps of one epoch.
pub struct Pool {
    epoch: Arc<Epoch>,
    writer: Writer,
    running: JoinSet<Rest>,
    /// Whose step a task is, for one that panics.
    slots: HashMap<Id, Slot>,
}

impl Pool {
    /// A pool that hands in what it decides.
    pub fn new(epoch: Arc<Epoch>, writer: Writer) -> Self {
        Self { epoch, writer, running: JoinSet::new(), slots: HashMap::new() }
    }

    /// Steps until the epoch ends; then no step runs any more.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            self.claim();
            // Without a lease or without room nobody is begun, however due; both are told of.
            let may_begin = self.has_room() && self.epoch.is_ours();
            let next = self.epoch.memory().next_due().filter(|_| may_begin);
            let next = next.map(|at| self.epoch.instant(at));
            tokio::select! {
                biased;
                () = stopped(&mut ended) => break,
                Some(done) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.end(done);
                }
                () = self.epoch.stirred.notified() => {}
                () = until(next) => {}
            }
        }
        // Each has a deadline of its own.
        while let Some(done) = self.running.join_next_with_id().await {
            self.end(done);
        }
    }

    fn has_room(&self) -> bool {
        self.running.len() < self.epoch.figures.steps_max
    }

    /// Begins what is due as far as there is room. Without a lease nothing is begun.
    fn claim(&mut self) {
        while let Some(done) = self.running.try_join_next_with_id() {
            self.end(done);
        }
        if !self.epoch.is_ours() {
            return;
        }
        let now = self.epoch.now();
        let turns = self.epoch.memory().claim(self.epoch.figures.steps_max, now);
        for turn in turns {
            self.begin(turn);
        }
    }

    fn begin(&mut self, turn: Turn) {
        let (epoch, slot) = (Arc::clone(&self.epoch), turn.slot);
        let step = Step::new(Arc::clone(&epoch), self.writer.clone(), &turn);
        let task = self.running.spawn(async move {
            let done = timeout(epoch.figures.step_deadline, step.run()).await;
            let done = done.unwrap_or_else(|_| {
                epoch.tally.count(Done::TooSlow);
                let what = "the end of a step before its deadline".to_owned();
                Err(Stopped { stage: Stage::Observe, trouble: Trouble::unavailable(what) })
            });
            if let Err(Stopped { stage, trouble }) = &done {
                tracing::debug!(slot = slot.0, %stage, %trouble, "a step met trouble");
            }
            rest_of(&done, (&epoch, turn.attempts))
        });
        self.slots.insert(task.id(), slot);
    }

    fn end(&mut self, done: Result<(Id, Rest), JoinError>) {
        let (id, rest) = match done {
            Ok((id, rest)) => (id, rest),
            Err(why) => {
                self.epoch.tally.count(Done::Panicked);
                tracing::error!(error = %why, "a step of a machine panicked: this is a bug");
                let later = self.epoch.now().after(self.epoch.figures.pace.max);
                (why.id(), (Some(later), false))
            }
        };
        let Some(slot) = self.slots.remove(&id) else { return };
        let now = self.epoch.now();
        self.epoch.memory().rest(slot, rest.0, rest.1, now);
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
