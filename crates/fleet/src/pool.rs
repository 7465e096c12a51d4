//! Runs steps of due machines: a bounded number, one per machine, each with a deadline.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout};
use usher_domain::fleet::plan::Slot;
use usher_kernel::{Stage, Stopped, Timestamp, Trouble};

use super::epoch::Epoch;
use super::memory::DueMachine;
use super::step::{Step, requeue_of};
use super::tally::Done;
use super::writer::Writer;
use crate::shard::stopped;

/// When a machine is requeued, and whether its step finished.
type Requeue = (Option<Timestamp>, bool);

/// The steps of one epoch.
pub struct Pool {
    epoch: Arc<Epoch>,
    writer: Writer,
    running: JoinSet<Requeue>,
    /// The machine of a task, for one that panics.
    slots: HashMap<Id, Slot>,
}

impl Pool {
    /// A pool that commits through this writer.
    pub fn new(epoch: Arc<Epoch>, writer: Writer) -> Self {
        Self { epoch, writer, running: JoinSet::new(), slots: HashMap::new() }
    }

    /// Runs steps until the epoch ends; then waits for the running ones.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) {
        while !*ended.borrow() {
            self.claim();
            // Without a lease or a free permit no step starts, however due; both notify this loop.
            let may_begin = self.has_room() && self.epoch.is_ours();
            let next = self.epoch.memory().next_due().filter(|_| may_begin);
            let next = next.map(|at| self.epoch.instant(at));
            tokio::select! {
                biased;
                () = stopped(&mut ended) => break,
                Some(done) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.end(done);
                }
                () = self.epoch.wakeup.notified() => {}
                () = until(next) => {}
            }
        }
        // Each has its own deadline.
        while let Some(done) = self.running.join_next_with_id().await {
            self.end(done);
        }
    }

    fn has_room(&self) -> bool {
        self.running.len() < self.epoch.config.steps_max
    }

    /// Starts steps of due machines up to the limit. Without a lease none starts.
    fn claim(&mut self) {
        while let Some(done) = self.running.try_join_next_with_id() {
            self.end(done);
        }
        if !self.epoch.is_ours() {
            return;
        }
        let now = self.epoch.now();
        let machines = self.epoch.memory().claim(self.epoch.config.steps_max, now);
        for machine in machines {
            self.begin(machine);
        }
    }

    fn begin(&mut self, machine: DueMachine) {
        let (epoch, slot) = (Arc::clone(&self.epoch), machine.slot);
        let step = Step::new(Arc::clone(&epoch), self.writer.clone(), &machine);
        let task = self.running.spawn(async move {
            let done = timeout(epoch.config.step_deadline, step.run()).await;
            let done = done.unwrap_or_else(|_| {
                epoch.tally.count(Done::TooSlow);
                let what = "the end of a step before its deadline".to_owned();
                Err(Stopped { stage: Stage::Observe, trouble: Trouble::unavailable(what) })
            });
            if let Err(Stopped { stage, trouble }) = &done {
                tracing::debug!(slot = slot.0, %stage, %trouble, "machine step failed");
            }
            requeue_of(&done, (&epoch, machine.attempts))
        });
        self.slots.insert(task.id(), slot);
    }

    fn end(&mut self, done: Result<(Id, Requeue), JoinError>) {
        let (id, requeue) = match done {
            Ok((id, requeue)) => (id, requeue),
            Err(why) => {
                self.epoch.tally.count(Done::Panicked);
                tracing::error!(error = %why, "machine step panicked: this is a bug");
                let later = self.epoch.now().after(self.epoch.config.pace.max);
                (why.id(), (Some(later), false))
            }
        };
        let Some(slot) = self.slots.remove(&id) else { return };
        let now = self.epoch.now();
        self.epoch.memory().finish(slot, requeue.0, requeue.1, now);
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
