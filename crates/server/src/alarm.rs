//! Timers in memory that wake resources.
//!
//! A timer that is lost with the process costs time only: the resource is requeued anyway.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until};
use usher_domain::object::id::ResourceId;
use usher_store::{Store, WorkItem};

use super::worker::stopped;

/// The delay before a failed wake-up is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// The timers, by resource.
#[derive(Debug, Default)]
pub struct Alarms {
    set: Mutex<BTreeMap<ResourceId, Instant>>,
    changed: Notify,
}

impl Alarms {
    /// Wakes a resource at this time, or at its earlier timer.
    pub fn set(&self, id: ResourceId, at: Instant) {
        let mut set = self.entries();
        let due = set.entry(id).or_insert(at);
        *due = at.min(*due);
        drop(set);
        self.changed.notify_one();
    }

    /// Wakes due resources until the server stops.
    pub async fn run(self: Arc<Self>, store: Arc<Store>, mut stop: watch::Receiver<bool>) {
        loop {
            let next = self.entries().values().min().copied();
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = self.changed.notified() => continue,
                () = until(next) => {}
            }
            for id in self.take_due() {
                if store.wake(WorkItem::Resource(id)).await.is_err() {
                    self.set(id, Instant::now() + RETRY_AFTER);
                    sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    fn take_due(&self) -> Vec<ResourceId> {
        let now = Instant::now();
        let mut set = self.entries();
        let due = set.iter().filter(|(_, at)| **at <= now).map(|(id, _)| *id).collect();
        set.retain(|_, at| *at > now);
        due
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<ResourceId, Instant>> {
        self.set.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
