//! Wakes lives because something changed in their world, and once at the start those that need it.
//!
//! A watch that was not there, or was told too much at once, missed changes. One round over the
//! world stands in for them: whoever is as it is recorded, and rests, is left alone.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_store::{Error, Store};
use uuid::Uuid;

use super::inside::Joined;
use super::standings::Standings;
use super::tally::{Count, Tally};
use super::worker::stopped;
use usher_local::LocalWorld;
use usher_local::watch::{News, Touched, Watch};
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
    /// The world.
    pub world: Arc<LocalWorld<Joined>>,
    /// The counters.
    pub tally: Arc<Tally>,
    /// Told once the first listing was compared.
    pub listed: watch::Sender<bool>,
}

impl Waker {
    /// Wakes until it is told to stop. A watch that breaks is made again.
    pub async fn run(self, mut stop: watch::Receiver<bool>) {
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                why = self.attend() => {
                    tracing::warn!(error = %why, "cannot watch the local world");
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
        let mut watch = match self.world.watch() {
            Ok(watch) => watch,
            Err(why) => return chain(&why),
        };
        loop {
            match watch.next().await {
                Ok(News::All) => {
                    if let Err(why) = self.compare_all(&mut watch).await {
                        return why;
                    }
                    self.listed.send_replace(true);
                }
                Ok(News::Changes(touched)) => self.wake_touched(&touched).await,
                Err(why) => return chain(&why),
            }
        }
    }

    /// Compares what stands with what is recorded.
    async fn compare_all(&self, watch: &mut Watch) -> Result<(), String> {
        let standing = Standings::read(watch).await.map_err(|why| chain(&why))?;
        let woken = self.compare(&standing).await.map_err(|why| chain(&why))?;
        let objects = standing.count();
        tracing::info!(objects, woken, "compared the local world with the ledger");
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

    async fn wake_touched(&self, touched: &[Touched]) {
        let lives: BTreeSet<Uuid> = touched.iter().filter_map(life).collect();
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

fn life(touched: &Touched) -> Option<Uuid> {
    touched.life.as_ref().and_then(|it| it.parse().ok())
}
