//! One epoch of a shard: the lease it rests on, and all that its parts share.
//!
//! **Invariants**
//! - Nothing is ordered, written or taken away once the lease may have ended.
//! - No lock is held while something is waited for.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;
use usher_domain::fleet::life::Life;
use usher_domain::fleet::plan::{Figures as PlanFigures, Switch, Windows};
use usher_domain::object::authority::Rail;
use usher_kernel::Timestamp;
use usher_kernel::schedule::Pace;
use usher_store::{ShardLease, Store};

use super::bootstrap::Bootstrap;
use super::memory::Memory;
use super::provider::Provider;
use super::tally::Tally;

/// The figures of a shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Figures {
    /// The machines' life.
    pub life: Life,
    /// How long idle machines are kept.
    pub windows: Windows,
    /// The figures of a plan.
    pub plan: PlanFigures,
    /// What too small a list is.
    pub rail: Rail,
    /// Whether plans are acted upon, as far as the settings say.
    pub switch: Switch,
    /// The most steps at a time.
    pub steps_max: usize,
    /// How long one step may take.
    pub step_deadline: Duration,
    /// How often machines are listed and a plan is made although nothing was heard.
    pub cycle: Duration,
    /// How often what changed is listed while machines are on their way.
    pub passing: Duration,
    /// How often everything is listed, and not only what changed.
    pub full_list: Duration,
    /// How long the lease runs.
    pub lease: Duration,
    /// How long a verb may be on its way after nobody waits for its answer any more.
    pub request_bound: Duration,
    /// How soon what failed is tried again.
    pub pace: Pace,
}

/// All that the parts of one epoch share.
pub struct Epoch {
    /// The store.
    pub store: Arc<Store>,
    /// The provider.
    pub provider: Provider,
    /// What machines are given when they join.
    pub bootstrap: Arc<dyn Bootstrap>,
    /// The figures.
    pub figures: Figures,
    /// What is counted.
    pub tally: Arc<Tally>,
    memory: Mutex<Memory>,
    lease: Mutex<Held>,
    is_paused: AtomicBool,
    /// Somebody became due.
    pub stirred: Notify,
    /// A plan is worth making.
    pub replan: Notify,
    /// A list is worth asking for.
    pub relist: Notify,
    /// The lease was lost.
    pub lost: Notify,
}

/// The lease, as far as this process can know.
#[derive(Debug)]
struct Held {
    lease: ShardLease,
    /// The store's time, and when that was.
    clock: (Timestamp, Instant),
    /// Until when nobody else can have acquired the shard.
    until: Instant,
}

impl Epoch {
    /// An epoch that began with a lease which was asked for at `asked`.
    pub fn new(
        (store, provider, bootstrap): (Arc<Store>, Provider, Arc<dyn Bootstrap>),
        figures: Figures,
        tally: Arc<Tally>,
        (lease, asked): (ShardLease, Instant),
    ) -> Self {
        let memory = Memory::new(lease.shard.clone(), figures.windows, lease.epoch);
        let until = asked + figures.lease;
        let held = Held { clock: (lease.now, asked), until, lease };
        Self {
            store,
            provider,
            bootstrap,
            figures,
            tally,
            memory: Mutex::new(memory),
            lease: Mutex::new(held),
            is_paused: AtomicBool::new(false),
            stirred: Notify::new(),
            replan: Notify::new(),
            relist: Notify::new(),
            lost: Notify::new(),
        }
    }

    /// What is remembered. It is held for as long as something is looked up or noted.
    pub fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store's time, by this process's own clock.
    pub fn now(&self) -> Timestamp {
        let (at, begun) = self.held().clock;
        at.after(begun.elapsed())
    }

    /// When a time of the store is, by this process's own clock.
    pub fn instant(&self, at: Timestamp) -> Instant {
        let (now, begun) = self.held().clock;
        begun + at.since(now)
    }

    /// By what right something is written.
    pub fn lease(&self) -> ShardLease {
        self.held().lease.clone()
    }

    /// Whether nobody else can have acquired the shard yet.
    pub fn is_ours(&self) -> bool {
        Instant::now() < self.held().until
    }

    /// Whether somebody paused the shard.
    pub fn is_paused(&self) -> bool {
        self.is_paused.load(Ordering::Relaxed)
    }

    /// Somebody paused the shard, or let it go on.
    pub fn set_paused(&self, paused: bool) {
        self.is_paused.store(paused, Ordering::Relaxed);
    }

    /// Renews the lease until it is lost. A store that does not answer is asked again: whether the
    /// lease holds is known only once it does.
    pub async fn keep(&self) {
        loop {
            tokio::time::sleep(self.figures.lease / 3).await;
            let asked = Instant::now();
            match self.store.renew_shard(self.lease(), self.figures.lease).await {
                Ok(Some(lease)) => {
                    let mut held = self.held();
                    held.clock = (lease.now.max(held.clock.0), asked);
                    held.until = asked + self.figures.lease;
                    held.lease = lease;
                    drop(held);
                    self.stirred.notify_one();
                }
                Ok(None) => {
                    self.held().until = asked;
                    self.lost.notify_one();
                    return;
                }
                Err(error) => {
                    let error = usher_wire::chain(&error);
                    tracing::warn!(error, "cannot renew the lease of the shard");
                }
            }
        }
    }

    fn held(&self) -> MutexGuard<'_, Held> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
