//! Wakes records because something changed in their world.
//!
//! A watch that is new or has overflowed missed changes. The world is then listed and compared with
//! the ledger: a stable record that matches its objects is not woken.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use usher_domain::broker::world::{WorldNews, WorldWatch};
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_kernel::Trouble;
use usher_store::{Error, Store};
use uuid::Uuid;

use super::tally::{Count, Tally};
use super::worker::stopped;
use super::world_snapshot::WorldSnapshot;
use super::worlds::Attached;
use usher_wire::chain;

/// The delay before a failed watch or write is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Records per wake-up.
const WOKEN_MAX: usize = 500;
/// Resources per page.
const PAGE: u32 = 100;

/// Wakes the records of one world.
pub struct Waker {
    pub store: Arc<Store>,
    /// Name of the world.
    pub name: String,
    pub attached: Attached,
    pub tally: Arc<Tally>,
}

impl Waker {
    /// Runs until the server stops. A broken watch is opened again.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                why = self.watch() => {
                    tracing::warn!(world = self.name, error = %why, "failed to watch a world");
                }
            }
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Follows the watch until it fails; returns the reason.
    async fn watch(&self) -> String {
        let mut watch = match self.attached.world.watch().await {
            Ok(watch) => watch,
            Err(why) => return why.to_string(),
        };
        loop {
            match watch.next().await {
                Ok(WorldNews::Relist) => {
                    if let Err(why) = self.compare_all(&mut *watch).await {
                        return why;
                    }
                    self.attached.listed.send_replace(true);
                }
                Ok(WorldNews::Changed(owners)) => self.wake_owners(owners).await,
                Err(why) => return why.to_string(),
            }
        }
    }

    /// Lists the world, compares it with the ledger and wakes the records that differ.
    async fn compare_all(&self, watch: &mut dyn WorldWatch) -> Result<(), String> {
        let listed = watch.list().await.map_err(|why: Trouble| why.to_string())?;
        let snapshot = WorldSnapshot::new(listed);
        let woken = self.compare(&snapshot).await.map_err(|why| chain(&why))?;
        let objects = snapshot.count();
        tracing::info!(world = self.name, objects, woken, "world compared with the ledger");
        Ok(())
    }

    async fn compare(&self, snapshot: &WorldSnapshot) -> Result<u64, Error> {
        let mut woken = 0;
        let mut configs: BTreeSet<ProviderConfigId> = BTreeSet::new();
        let mut after: Option<ResourceId> = None;
        loop {
            let ids = self.store.resources_after(None, after, PAGE).await?;
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            let mut reconcilers = Vec::new();
            for record in self.store.records(&ids).await? {
                let record = match record {
                    Ok(record) => record,
                    // The worker that claims it parks it.
                    Err(Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                if record.state.pinned().world != self.name {
                    continue;
                }
                configs.insert(record.state.pinned().provider_config);
                if snapshot.disagrees(&record) {
                    reconcilers.push(*record.state.id().as_uuid());
                }
            }
            woken += self.wake(&reconcilers).await?;
        }
        for id in configs {
            let record = self.store.provider_config(id).await?;
            if snapshot.disagrees_with_config(&record) {
                woken += self.wake(&[*id.as_uuid()]).await?;
            }
        }
        Ok(woken)
    }

    async fn wake_owners(&self, owners: Vec<Uuid>) {
        let reconcilers: BTreeSet<Uuid> = owners.into_iter().collect();
        let reconcilers: Vec<Uuid> = reconcilers.into_iter().collect();
        for reconcilers in reconcilers.chunks(WOKEN_MAX) {
            while let Err(error) = self.wake(reconcilers).await {
                tracing::warn!(error = %chain(&error), "failed to wake records");
                sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Makes records due, all in one write, so that the watch does not fall behind.
    async fn wake(&self, reconcilers: &[Uuid]) -> Result<u64, Error> {
        if reconcilers.is_empty() {
            return Ok(0);
        }
        for _ in reconcilers {
            self.tally.count(Count::Wakes);
        }
        self.store.wake_labels(reconcilers.to_vec()).await
    }
}
