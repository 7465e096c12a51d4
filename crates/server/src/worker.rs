//! The worker: leases due items, reconciles each in its own task, and releases every lease.
//!
//! ```text
//!   due (own writes wake it, else one query a second) ─▶ claim a batch ──▶ one task per item
//!                                                                          ├ panic: parked
//!                                                                          └ too slow: postponed
//! ```
//!
//! **Invariants**
//! - A failing item blocks no other: the steps of each lease are a task of their own.
//! - The steps under one lease end by their deadline, which is shorter than the lease.
//! - An idle worker makes one cheap query per pause and nothing else.
//! - A stopping worker claims nothing new and ends when its running steps have ended.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use usher_kernel::Trouble;
use usher_kernel::schedule::Claim;
use usher_store::{Error, Leased, Store, WorkItem};

use super::tally::{Count, Tally};
use usher_wire::chain;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkerConfig {
    /// How many items are reconciled at a time.
    pub steps_max: usize,
    /// How long the steps under one lease may take.
    pub step_deadline: Duration,
    /// How often to query the queue without a wake-up.
    pub due_query: Duration,
}

impl Default for WorkerConfig {
    fn default() -> Self {
        Self {
            steps_max: 32,
            step_deadline: Duration::from_secs(20),
            due_query: Duration::from_secs(1),
        }
    }
}

/// One step of one leased item.
#[async_trait]
pub trait Steps: Send + Sync + 'static {
    /// Runs one step. Returns the item if it needs another step under the same lease, which does
    /// not happen after `keeps_until`; otherwise the lease was released. After an error, which is
    /// one of the store, the lease was not released.
    async fn step(&self, leased: Leased, keeps_until: Instant) -> Result<Option<Leased>, Error>;
}

/// A pool of steps over one store.
pub struct Worker {
    store: Arc<Store>,
    steps: Arc<dyn Steps>,
    config: WorkerConfig,
    tally: Arc<Tally>,
    running: JoinSet<Ended>,
    /// The item of each task, needed if the task panics.
    leases: HashMap<Id, (WorkItem, Claim)>,
}

/// How a task ended, if it did not panic.
enum Ended {
    Done,
    TooSlow,
    Unreturned(Error),
}

impl Worker {
    pub fn new(
        store: Arc<Store>,
        steps: Arc<dyn Steps>,
        config: WorkerConfig,
        tally: Arc<Tally>,
    ) -> Self {
        let (running, leases) = (JoinSet::new(), HashMap::new());
        Self { store, steps, config, tally, running, leases }
    }

    /// Runs until the server stops; releases every lease before it returns.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut due = self.store.due();
        let (mut polls, mut full) = (true, false);
        let mut poll_at = Instant::now();
        while !*stop.borrow() {
            if polls {
                due.clear();
                poll_at = Instant::now() + self.config.due_query;
                full = self.claim().await;
            }
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.end(ended).await;
                    // An item that became due since the last query has woken this loop.
                    polls = full;
                }
                () = due.wait(), if !full => polls = true,
                () = sleep_until(poll_at), if !full => polls = true,
            }
        }
        self.finish().await;
    }

    /// Claims due items up to the limit; whether the limit is reached.
    async fn claim(&mut self) -> bool {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.end(ended).await;
        }
        loop {
            let room = self.config.steps_max.saturating_sub(self.running.len());
            if room == 0 {
                return true;
            }
            if self.claim_for(room).await < room {
                return false;
            }
        }
    }

    /// Claims at most `room` due items; returns how many.
    async fn claim_for(&mut self, room: usize) -> usize {
        let begun = Instant::now();
        match self.store.claim_due(u32::try_from(room).unwrap_or(u32::MAX)).await {
            Ok(batch) => {
                self.tally.answered();
                for (item, what) in batch.parked {
                    self.tally.count(Count::Parked);
                    tracing::error!(%item, what, "item parked: corrupt row");
                }
                let count = batch.leased.len();
                for leased in batch.leased {
                    self.spawn(leased, begun);
                }
                count
            }
            Err(error) => {
                self.tally.unanswered(&error);
                tracing::warn!(error = %chain(&error), "failed to query due items");
                0
            }
        }
    }

    /// Starts the task of an item; its lease began at `begun` or later.
    fn spawn(&mut self, leased: Leased, begun: Instant) {
        let (item, claim) = (leased.item, leased.claim);
        let (steps, deadline) = (Arc::clone(&self.steps), self.config.step_deadline);
        let task = self.running.spawn(async move {
            let driven = drive(&*steps, leased, begun + deadline / 2);
            match timeout_at(begun + deadline, driven).await {
                Ok(Ok(())) => Ended::Done,
                Ok(Err(error)) => Ended::Unreturned(error),
                Err(_) => Ended::TooSlow,
            }
        });
        self.leases.insert(task.id(), (item, claim));
    }

    /// Releases the lease of a task that ended without doing so.
    async fn end(&mut self, ended: Result<(Id, Ended), JoinError>) {
        let (id, trouble) = match ended {
            Ok((id, Ended::Done)) => (id, None),
            Ok((id, Ended::TooSlow)) => {
                self.tally.count(Count::TooSlow);
                let what = "the end of the step before its deadline".to_owned();
                (id, Some(Trouble::unavailable(what)))
            }
            Ok((id, Ended::Unreturned(error))) => {
                self.tally.unanswered(&error);
                tracing::warn!(error = %chain(&error), "failed to release a lease");
                (id, Some(error.trouble()))
            }
            Err(error) => {
                self.tally.count(Count::Panicked);
                let what = "the state after a step panicked: this is a bug".to_owned();
                (error.id(), Some(Trouble::Corrupt { what }))
            }
        };
        let Some((item, claim)) = self.leases.remove(&id) else { return };
        let Some(trouble) = trouble else { return };
        tracing::warn!(%item, %trouble, "step not finished");
        let given_back = match self.store.postpone(item, claim, trouble, None).await {
            Ok(true) => Ok(true),
            // A newer lease holder may have gone idle on a stale snapshot.
            Ok(false) => self.store.wake(item).await,
            Err(error) => Err(error),
        };
        if let Err(error) = given_back {
            // The lease expires.
            tracing::warn!(%item, error = %chain(&error), "failed to release a lease");
        }
    }

    /// Waits for running steps until their deadline and releases the remaining leases.
    async fn finish(mut self) {
        let until = Instant::now() + self.config.step_deadline;
        while !self.running.is_empty() {
            match tokio::time::timeout_at(until, self.running.join_next_with_id()).await {
                Ok(Some(ended)) => self.end(ended).await,
                Ok(None) => break,
                Err(_) => self.running.shutdown().await,
            }
        }
        let left: Vec<(WorkItem, Claim)> = self.leases.drain().map(|(_, it)| it).collect();
        for (item, claim) in left {
            let trouble = Trouble::unavailable("a server that was stopped".to_owned());
            // The lease expires if this write fails.
            let _ = self.store.postpone(item, claim, trouble, None).await;
        }
    }
}

/// Steps an item until its lease is released. No step begins with less than half of the time left.
async fn drive(steps: &dyn Steps, first: Leased, keeps_until: Instant) -> Result<(), Error> {
    // The clock of a step may lag and is never ahead: the in-flight grace depends on it.
    let (begun, claimed_at) = (Instant::now(), first.now);
    let mut next = Some(first);
    while let Some(leased) = next {
        let now = claimed_at.after(begun.elapsed());
        next = steps.step(Leased { now, ..leased }, keeps_until).await?;
    }
    Ok(())
}

/// Ends when the server stops. A dropped sender counts as a stop.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
