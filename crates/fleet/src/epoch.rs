//! One epoch of a shard: its lease, and the state that its tasks share.
//!
//! **Invariants**
//! - No command is sent and no row is written once the lease may have expired.
//! - No lock is held across an await.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use usher_domain::fleet::plan::{PlanConfig, Switch, Windows};
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_domain::object::authority::MassDeletionGuard;
use usher_kernel::Timestamp;
use usher_kernel::schedule::Pace;
use usher_store::{ShardLease, Store};

use super::bootstrap::Bootstrap;
use super::memory::Memory;
use super::provider::Provider;
use super::tally::Tally;

/// The configuration of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochConfig {
    pub reconciler: MachineReconciler,
    /// How long idle machines are kept.
    pub windows: Windows,
    pub plan: PlanConfig,
    /// Which list counts as too small to be trusted.
    pub guard: MassDeletionGuard,
    /// Whether plans are executed, as configured.
    pub switch: Switch,
    /// The most concurrent steps.
    pub steps_max: usize,
    /// The timeout of one step.
    pub step_deadline: Duration,
    /// Interval of lists and plans without any change.
    pub cycle: Duration,
    /// Interval of lists of changes while machines are in transition.
    pub passing: Duration,
    /// Interval of full lists.
    pub full_list: Duration,
    /// Duration of the lease.
    pub lease: Duration,
    /// How long a request may still arrive after its caller stopped waiting for the response.
    pub request_bound: Duration,
    /// The back-off of failed steps.
    pub pace: Pace,
}

/// The state that the tasks of one epoch share.
pub struct Epoch {
    pub store: Arc<Store>,
    pub provider: Provider,
    pub bootstrap: Arc<dyn Bootstrap>,
    pub config: EpochConfig,
    pub tally: Arc<Tally>,
    memory: Mutex<Memory>,
    lease: Mutex<Held>,
    is_paused: AtomicBool,
    /// A machine became due.
    pub wakeup: Notify,
    /// A plan is due.
    pub replan: Notify,
    /// A list is due.
    pub relist: Notify,
    /// The lease was lost.
    pub lost: Notify,
}

/// The lease, as far as this process can know.
#[derive(Debug)]
struct Held {
    lease: ShardLease,
    /// The store's time, and when it was read.
    clock: (Timestamp, Instant),
    /// Until when no other process can have acquired the shard.
    until: Instant,
}

impl Epoch {
    /// An epoch that starts with a lease requested at `asked`.
    pub fn new(
        (store, provider, bootstrap): (Arc<Store>, Provider, Arc<dyn Bootstrap>),
        config: EpochConfig,
        tally: Arc<Tally>,
        (lease, asked): (ShardLease, Instant),
    ) -> Self {
        let memory = Memory::new(lease.shard.clone(), config.windows, lease.epoch);
        let until = asked + config.lease;
        let held = Held { clock: (lease.now, asked), until, lease };
        Self {
            store,
            provider,
            bootstrap,
            config,
            tally,
            memory: Mutex::new(memory),
            lease: Mutex::new(held),
            is_paused: AtomicBool::new(false),
            wakeup: Notify::new(),
            replan: Notify::new(),
            relist: Notify::new(),
            lost: Notify::new(),
        }
    }

    /// The memory; the lock is held while it is read or written.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store's time, by this process's own clock.
    pub fn now(&self) -> Timestamp {
        let (at, begun) = self.held().clock;
        at.after(begun.elapsed())
    }

    /// A store time as an instant of this process's clock.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let (now, begun) = self.held().clock;
        begun + at.since(now)
    }

    /// The lease that fences every write.
    pub fn lease(&self) -> ShardLease {
        self.held().lease.clone()
    }

    /// Whether no other process can have acquired the shard yet.
    pub fn is_ours(&self) -> bool {
        Instant::now() < self.held().until
    }

    /// Whether an operator paused the shard.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Records that an operator paused or resumed the shard.
    pub fn set_paused(&self, paused: bool) {
        self.is_paused.store(paused, Ordering::Relaxed);
    }

    /// Renews the lease until it is lost. An unavailable store is retried: only its response
    /// shows whether the lease holds.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(self.config.lease / 3).await;
            let asked = Instant::now();
            match self.store.renew_shard(self.lease(), self.config.lease).await {
                Ok(Some(lease)) => {
                    let mut held = self.held();
                    held.clock = (lease.now.max(held.clock.0), asked);
                    held.until = asked + self.config.lease;
                    held.lease = lease;
                    drop(held);
                    self.wakeup.notify_one();
                }
                Ok(None) => {
                    self.held().until = asked;
                    self.lost.notify_one();
                    return;
                }
                Err(error) => {
                    let error = usher_wire::chain(&error);
                    tracing::warn!(error, "failed to renew the shard lease");
                }
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
