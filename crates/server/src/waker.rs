//! Wakes lives because something changed in their world, and once at the start those that need it.
//!
//! A watch that was not there, or was told too much at once, missed changes. One round over the
//! world stands in for them: whoever is as it is recorded, and rests, is left alone.

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

use super::standings::Standings;
use super::tally::{Count, Tally};
use super::worker::stopped;
use super::worlds::Attached;
use usher_wire::chain;

/// How soon something is tried again that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many lives are woken at a time.
const WOKEN_MAX: usize = 500;
/// How many resources are read at a time.
const PAGE: u32 = 100;

/// Wakes the lives of one world.
pub struct Waker {
    /// The store.
    pub store: Arc<Store>,
    /// The name of the world.
    pub name: String,
    /// The world.
    pub attached: Attached,
    /// The counters.
    pub tally: Arc<Tally>,
}

impl Waker {
    /// Wakes until it is told to stop. A watch that breaks is made again.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                why = self.attend() => {
                    tracing::warn!(world = self.name, error = %why, "failed to watch a world");
                }
            }
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Follows the world; why it cannot any more.
    async fn attend(&self) -> String {
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

    /// Compares what stands with what is recorded.
    async fn compare_all(&self, watch: &mut dyn WorldWatch) -> Result<(), String> {
        let listed = watch.list().await.map_err(|why: Trouble| why.to_string())?;
        let standing = Standings::new(listed);
        let woken = self.compare(&standing).await.map_err(|why| chain(&why))?;
        let objects = standing.count();
        tracing::info!(world = self.name, objects, woken, "world compared with the ledger");
        Ok(())
    }

    async fn compare(&self, standing: &Standings) -> Result<u64, Error> {
        let mut woken = 0;
        let mut configs: BTreeSet<ProviderConfigId> = BTreeSet::new();
        let mut after: Option<ResourceId> = None;
        loop {
            let ids = self.store.resources_after(None, after, PAGE).await?;
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            let mut lives = Vec::new();
            for record in self.store.records(&ids).await? {
                let record = match record {
                    Ok(record) => record,
                    // Whoever claims it parks it.
                    Err(Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                if record.state.pinned().world != self.name {
                    continue;
                }
                configs.insert(record.state.pinned().provider_config);
                if standing.disagrees(&record) {
                    lives.push(*record.state.id().as_uuid());
                }
            }
            woken += self.wake(&lives).await?;
        }
        for id in configs {
            let record = self.store.provider_config(id).await?;
            if standing.disagrees_with_config(&record) {
                woken += self.wake(&[*id.as_uuid()]).await?;
            }
        }
        Ok(woken)
    }

    async fn wake_owners(&self, owners: Vec<Uuid>) {
        let lives: BTreeSet<Uuid> = owners.into_iter().collect();
        let lives: Vec<Uuid> = lives.into_iter().collect();
        for lives in lives.chunks(WOKEN_MAX) {
            while let Err(error) = self.wake(lives).await {
                tracing::warn!(error = %chain(&error), "cannot wake lives");
                sleep(RETRY_AFTER).await;
            }
        }
    }

    /// Makes lives due, all in one write: whoever is told of many must not fall behind.
    async fn wake(&self, lives: &[Uuid]) -> Result<u64, Error> {
        if lives.is_empty() {
            return Ok(0);
        }
        for _ in lives {
            self.tally.count(Count::Wakes);
        }
        self.store.wake_labels(lives.to_vec()).await
    }
}
