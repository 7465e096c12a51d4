//! The worker: leases what is due, steps each item alone, and gives every lease back.
//!
//! ```text
//!   due (own writes signal, else one look a second) ──▶ claim a batch ──▶ one task per item
//!                                                                          ├ panic: parked
//!                                                                          └ too slow: postponed
//! ```
//!
//! **Invariants**
//! - One item in trouble stops no other: the steps of each lease are a task of their own.
//! - The steps under one lease end by their deadline, which is shorter than the lease.
//! - At rest there is one cheap look per pause and nothing else.
//! - Whoever is told to stop takes nothing new and ends when its steps have.

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

/// The figures of the worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The most steps at a time.
    pub steps_max: usize,
    /// How long the steps under one lease may take.
    pub step_deadline: Duration,
    /// How often to look who is due although nothing was heard.
    pub due_query: Duration,
}

impl Default for Figures {
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
    /// Does it; what to step next if the item goes on under its lease, else that was given back.
    /// After this time it goes on no more. An error is the store's: the lease was not given back.
    async fn step(&self, leased: Leased, keeps_until: Instant) -> Result<Option<Leased>, Error>;
}

/// A pool of steps over one store.
pub struct Worker {
    store: Arc<Store>,
    steps: Arc<dyn Steps>,
    figures: Figures,
    tally: Arc<Tally>,
    running: JoinSet<Ended>,
    /// Whose step a task is, for one that panics.
    leases: HashMap<Id, (WorkItem, Claim)>,
}

/// How a task ended, if it did not panic.
enum Ended {
    Done,
    TooSlow,
    Unreturned(Error),
}

impl Worker {
    /// A worker that steps with `steps`.
    pub fn new(
        store: Arc<Store>,
        steps: Arc<dyn Steps>,
        figures: Figures,
        tally: Arc<Tally>,
    ) -> Self {
        let (running, leases) = (JoinSet::new(), HashMap::new());
        Self { store, steps, figures, tally, running, leases }
    }

    /// Works until it is told to stop; then every lease is given back or its step has ended.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut due = self.store.due();
        let (mut looks, mut full) = (true, false);
        let mut look_at = Instant::now();
        while !*stop.borrow() {
            if looks {
                due.clear();
                look_at = Instant::now() + self.figures.due_query;
                full = self.claim().await;
            }
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                Some(ended) = self.running.join_next_with_id(), if !self.running.is_empty() => {
                    self.end(ended).await;
                    // Whoever is due since the last look was signalled.
                    looks = full;
                }
                () = due.wait(), if !full => looks = true,
                () = sleep_until(look_at), if !full => looks = true,
            }
        }
        self.finish().await;
    }

    /// Takes what is due as far as there is room; whether there is none left.
    async fn claim(&mut self) -> bool {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.end(ended).await;
        }
        loop {
            let room = self.figures.steps_max.saturating_sub(self.running.len());
            if room == 0 {
                return true;
            }
            if self.claim_for(room).await < room {
                return false;
            }
        }
    }

    /// Takes up to so many that are due; how many.
    async fn claim_for(&mut self, room: usize) -> usize {
        let begun = Instant::now();
        match self.store.claim_due(u32::try_from(room).unwrap_or(u32::MAX)).await {
            Ok(batch) => {
                self.tally.answered();
                for (item, what) in batch.parked {
                    self.tally.count(Count::Parked);
                    tracing::error!(%item, what, "parked: the row breaks its own rules");
                }
                let count = batch.leased.len();
                for leased in batch.leased {
                    self.spawn(leased, begun);
                }
                count
            }
            Err(error) => {
                self.tally.unanswered(&error);
                tracing::warn!(error = %chain(&error), "cannot look who is due");
                0
            }
        }
    }

    /// Steps an item whose lease began then or later.
    fn spawn(&mut self, leased: Leased, begun: Instant) {
        let (item, claim) = (leased.item, leased.claim);
        let (steps, deadline) = (Arc::clone(&self.steps), self.figures.step_deadline);
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

    /// Whoever did not give its lease back has it given back here.
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
                tracing::warn!(error = %chain(&error), "cannot give a lease back");
                (id, Some(error.trouble()))
            }
            Err(error) => {
                self.tally.count(Count::Panicked);
                let what = "what a step left when it panicked: this is a bug".to_owned();
                (error.id(), Some(Trouble::Corrupt { what }))
            }
        };
        let Some((item, claim)) = self.leases.remove(&id) else { return };
        let Some(trouble) = trouble else { return };
        tracing::warn!(%item, %trouble, "a step was not finished");
        let given_back = match self.store.postpone(item, claim, trouble).await {
            Ok(true) => Ok(true),
            // Whoever overtook it may have looked before it did.
            Ok(false) => self.store.wake(item).await,
            Err(error) => Err(error),
        };
        if let Err(error) = given_back {
            // The lease ends by itself.
            tracing::warn!(%item, error = %chain(&error), "cannot give a lease back");
        }
    }

    /// Lets running steps end within their deadline and gives back what is left then.
    async fn finish(mut self) {
        let until = Instant::now() + self.figures.step_deadline;
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
            // The lease ends by itself if this cannot be written.
            let _ = self.store.postpone(item, claim, trouble).await;
        }
    }
}

/// Steps an item until its lease is given back. No step begins with less than half of the time
/// left.
async fn drive(steps: &dyn Steps, first: Leased, keeps_until: Instant) -> Result<(), Error> {
    // The clock of a step may be late, and is never ahead: absence counts by it.
    let (begun, claimed_at) = (Instant::now(), first.now);
    let mut next = Some(first);
    while let Some(leased) = next {
        let now = claimed_at.after(begun.elapsed());
        next = steps.step(Leased { now, ..leased }, keeps_until).await?;
    }
    Ok(())
}

/// Ends when everything is told to stop. A dropped sender counts as the same.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
