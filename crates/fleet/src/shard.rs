//! A shard: acquires its lease, runs one epoch after the other, and releases the lease.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};
use usher_domain::fleet::facts::{Bound, Facts, Reported, Restriction};
use usher_domain::fleet::ident::ShardId;
use usher_domain::fleet::reconcile::rules;
use usher_kernel::{Requeue, Timestamp};
use usher_store::{Acquisition, Error, ShardLease, Store, StoredMachine};
use uuid::Uuid;

use super::bootstrap::Bootstrap;
use super::epoch::{Epoch, EpochConfig};
use super::lister::Lister;
use super::planner::Planner;
use super::pool::Pool;
use super::provider::Provider;
use super::tally::Tally;
use super::writer::writer;
use usher_wire::chain;

/// The delay before an unavailable store is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Machines read per page.
const PAGE: u32 = 2_000;

/// A shard that is not running yet.
pub struct Shard {
    pub id: ShardId,
    pub store: Arc<Store>,
    pub provider: Provider,
    pub bootstrap: Arc<dyn Bootstrap>,
    pub config: EpochConfig,
    pub tally: Arc<Tally>,
}

impl Shard {
    /// Runs an epoch whenever it acquires the lease, until it is stopped.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        let holder = Uuid::new_v4();
        while !*stop.borrow() {
            let asked = Instant::now();
            let acquired =
                self.store.acquire_shard(self.id.clone(), holder, self.config.lease).await;
            let pause = match acquired {
                Ok(Acquisition::Ours(lease)) => {
                    let (shard, epoch) = (&self.id, lease.epoch);
                    tracing::info!(%shard, epoch, "shard lease acquired");
                    self.live((lease, asked), &stop).await;
                    Duration::ZERO
                }
                Ok(Acquisition::Theirs(state)) => {
                    let left = state.lease.map_or(Duration::ZERO, |it| it.1.since(state.now));
                    left.clamp(Duration::from_millis(10), self.config.lease)
                }
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "failed to acquire the shard lease");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Runs one epoch, until its lease is lost or the process stops.
    async fn live(&self, (lease, asked): (ShardLease, Instant), stop: &watch::Receiver<bool>) {
        let parts = (Arc::clone(&self.store), self.provider.clone(), Arc::clone(&self.bootstrap));
        let held = (lease, asked);
        let epoch = Arc::new(Epoch::new(parts, self.config, Arc::clone(&self.tally), held));
        let (end, ended) = watch::channel(false);
        let mut stop = stop.clone();
        let mut keeping = JoinSet::new();
        let kept = Arc::clone(&epoch);
        keeping.spawn(async move { kept.keep().await });
        let loaded = tokio::select! {
            loaded = load(&epoch) => loaded.map_err(|error| chain(&error)),
            () = stopped(&mut stop) => Err("the process is stopping".to_owned()),
            () = epoch.lost.notified() => Err("the lease was lost".to_owned()),
        };
        if let Err(why) = loaded {
            tracing::warn!(why, "failed to load the machines of the shard");
            self.give_back(&epoch).await;
            return;
        }
        let (writer, writing) = writer(&epoch);
        let mut parts = JoinSet::new();
        parts.spawn(Pool::new(Arc::clone(&epoch), writer).run(ended.clone()));
        parts.spawn(writing.run());
        parts.spawn(Lister::new(Arc::clone(&epoch)).run(ended.clone()));
        parts.spawn(Planner::new(Arc::clone(&epoch)).run(ended));
        tokio::select! {
            () = stopped(&mut stop) => {}
            () = epoch.lost.notified() => {
                tracing::warn!(shard = %self.id, "shard lease lost to another process");
            }
            Some(part) = parts.join_next() => {
                tracing::error!(?part, "shard task ended unexpectedly: the shard restarts");
            }
        }
        end.send_replace(true);
        while let Some(part) = parts.join_next().await {
            if let Err(why) = part {
                tracing::error!(error = %why, "shard task failed");
            }
        }
        keeping.shutdown().await;
        self.give_back(&epoch).await;
    }

    async fn give_back(&self, epoch: &Epoch) {
        if let Err(error) = self.store.release_shard(epoch.lease()).await {
            // The lease expires.
            tracing::warn!(error = %chain(&error), "failed to release the shard lease");
        }
    }
}

/// Loads every machine of the shard.
async fn load(epoch: &Epoch) -> Result<(), Error> {
    let shard = epoch.lease().shard;
    let mut after = None;
    loop {
        let roll = epoch.store.machines_of(&shard, after, PAGE).await?;
        for (id, what) in &roll.broken {
            tracing::error!(%id, what, "skipped an invalid machine row");
        }
        let now = epoch.now();
        for machine in &roll.machines {
            remember(epoch, machine, now);
        }
        after = roll.next;
        if after.is_none() {
            return Ok(());
        }
    }
}

/// Records a row. A machine that would need no step if its provider reported it as recorded stays
/// idle: the first list notifies those that differ.
fn remember(epoch: &Epoch, StoredMachine { id, record }: &StoredMachine, now: Timestamp) {
    let (machine, deadlines) = (&record.state, &epoch.config.reconciler.deadlines);
    let binding = if machine.phase().is_bound() { Bound::Ours } else { Bound::None };
    let report = Reported::of(machine.phase());
    let seen = Facts { restriction: Restriction::None, report, binding };
    let due = match rules(machine.facts(deadlines, now), seen).requeue {
        Requeue::Deadline => Some(machine.deadline(deadlines)),
        Requeue::OnChange | Requeue::Never => None,
        Requeue::Now
        | Requeue::Poll
        | Requeue::Throttle
        | Requeue::Slow
        | Requeue::InFlightGrace
        | Requeue::Watch => Some(now),
    };
    let mut memory = epoch.memory();
    let slot = memory.note(*id, record.version, machine);
    if let Some(at) = due {
        memory.wake(slot, at);
    }
}

/// Returns when the process stops. A dropped sender counts as a stop.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    let _ = stop.wait_for(|it| *it).await;
}
