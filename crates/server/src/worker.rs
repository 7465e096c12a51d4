//! The worker: leases what is due, steps each life alone, and gives every lease back.
//!
//! ```text
//!   due (own writes signal, else one look a second) ──▶ claim a batch ──▶ one task per life
//!   woken by an own write that leased it as well ───────────────────────▶  │ panic: parked
//!                                                                          └ too slow: postponed
//! ```
//!
//! **Invariants**
//! - One life in trouble stops no other: the steps of each lease are a task of their own.
//! - The steps under one lease end by their deadline, which is shorter than the lease.
//! - At rest there is one cheap look per pause and nothing else.
//! - Whoever is told to stop takes nothing new and ends when its steps have.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{Id, JoinError, JoinSet};
use tokio::time::{Instant, sleep_until, timeout_at};
use usher_kernel::Trouble;
use usher_kernel::schedule::Claim;
use usher_store::{Error, Handed, Handing, Leased, Life, Store};

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

/// One step of one leased life.
#[async_trait]
pub trait Steps: Send + Sync + 'static {
    /// Does it; what to step next if the life goes on under its lease, else that was given back.
    /// After this time it goes on no more. An error is the store's: the lease was not given back.
    async fn step(&self, leased: Leased, keeps_until: Instant) -> Result<Option<Leased>, Error>;
}

/// A pool of steps over one store.
pub struct Worker {
    store: Arc<Store>,
    steps: Arc<dyn Steps>,
    figures: Figures,
    tally: Arc<Tally>,
    /// As many as there may be steps at a time.
    seats: Arc<Semaphore>,
    handing: Handing,
    running: JoinSet<Ended>,
    /// Whose step a task is, for one that panics.
    leases: HashMap<Id, (Life, Claim)>,
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
        let seats = Arc::new(Semaphore::new(figures.steps_max));
        let handing = store.take_over(Arc::clone(&seats), Instant::now);
        Self { store, steps, figures, tally, seats, handing, running, leases }
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
                Some(handed) = self.handing.next() => {
                    self.take(handed);
                    looks = false;
                }
                () = due.wait(), if !full => looks = true,
                // Seats come back also from writes that handed nobody over.
                () = sleep_until(look_at) => looks = true,
            }
        }
        self.finish().await;
    }

    /// Takes what is due as far as there is room; whether there is none left.
    async fn claim(&mut self) -> bool {
        while let Some(ended) = self.running.try_join_next_with_id() {
            self.end(ended).await;
        }
        let full = loop {
            let Some(seats) = self.half_of_the_seats() else { break true };
            if !self.claim_for(seats).await {
                break false;
            }
        };
        self.handing.set_crowded(full);
        full
    }

    /// Takes what is due, one for each seat; whether there may be more.
    async fn claim_for(&mut self, mut seats: OwnedSemaphorePermit) -> bool {
        let (room, begun) = (seats.num_permits(), Instant::now());
        match self.store.claim_due(u32::try_from(room).unwrap_or(u32::MAX)).await {
            Ok(batch) => {
                self.tally.answered();
                for (life, what) in batch.parked {
                    self.tally.count(Count::Parked);
                    tracing::error!(%life, what, "parked: the row breaks its own rules");
                }
                let more = batch.leased.len() >= room;
                for leased in batch.leased {
                    // No more were asked for than there are seats.
                    let seat = seats.split(1);
                    self.spawn(leased, begun, seat);
                }
                more
            }
            Err(error) => {
                self.tally.unanswered(&error);
                tracing::warn!(error = %chain(&error), "cannot look who is due");
                false
            }
        }
    }

    /// Seats for those who are due; the others are for whoever is handed over meanwhile.
    fn half_of_the_seats(&self) -> Option<OwnedSemaphorePermit> {
        let half = self.seats.available_permits().div_ceil(2).max(1);
        let take = |count: usize| {
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            Arc::clone(&self.seats).try_acquire_many_owned(count).ok()
        };
        // Somebody may have been faster.
        take(half).or_else(|| take(1))
    }

    fn take(&mut self, Handed { leased, since, seat }: Handed) {
        self.spawn(leased, since, Some(seat));
    }

    /// Steps a life whose lease began then or later.
    fn spawn(&mut self, leased: Leased, begun: Instant, seat: Option<OwnedSemaphorePermit>) {
        let (life, claim) = (leased.life, leased.claim);
        let (steps, deadline) = (Arc::clone(&self.steps), self.figures.step_deadline);
        let task = self.running.spawn(async move {
            let _seat = seat;
            let driven = drive(&*steps, leased, begun + deadline / 2);
            match timeout_at(begun + deadline, driven).await {
                Ok(Ok(())) => Ended::Done,
                Ok(Err(error)) => Ended::Unreturned(error),
                Err(_) => Ended::TooSlow,
            }
        });
        self.leases.insert(task.id(), (life, claim));
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
        let Some((life, claim)) = self.leases.remove(&id) else { return };
        let Some(trouble) = trouble else { return };
        tracing::warn!(%life, %trouble, "a step was not finished");
        let given_back = match self.store.postpone(life, claim, trouble).await {
            Ok(true) => Ok(true),
            // Whoever overtook it may have looked before it did.
            Ok(false) => self.store.wake(life).await,
            Err(error) => Err(error),
        };
        if let Err(error) = given_back {
            // The lease ends by itself.
            tracing::warn!(%life, error = %chain(&error), "cannot give a lease back");
        }
    }

    /// Lets running steps end within their deadline and gives back what is left then.
    async fn finish(mut self) {
        let until = Instant::now() + self.figures.step_deadline;
        for Handed { leased: Leased { life, claim, .. }, .. } in self.handing.close() {
            // The lease ends by itself if this cannot be written.
            let _ = self.store.give_back(life, claim).await;
        }
        while !self.running.is_empty() {
            match tokio::time::timeout_at(until, self.running.join_next_with_id()).await {
                Ok(Some(ended)) => self.end(ended).await,
                Ok(None) => break,
                Err(_) => self.running.shutdown().await,
            }
        }
        let left: Vec<(Life, Claim)> = self.leases.drain().map(|(_, it)| it).collect();
        for (life, claim) in left {
            let trouble = Trouble::unavailable("a server that was stopped".to_owned());
            // The lease ends by itself if this cannot be written.
            let _ = self.store.postpone(life, claim, trouble).await;
        }
    }
}

/// Steps a life until its lease is given back. No step begins with less than half of the time left.
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

/// Ends when everything is told to stop. Whoever could tell being gone is the same.
pub(super) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
