//! Wakes lives because something changed in their world, and once at the start those that need it.
//!
//! A watch that was not there, or was told too much at once, missed changes. One listing stands in
//! for them: whoever is as it is recorded, and rests, is left alone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_kernel::{Book, Record, Standing};
use usher_store::{Error, Store};
use uuid::Uuid;

use super::inside::Joined;
use super::local::LocalWorld;
use super::local::error;
use super::local::object::{Condition, Kind, Object};
use super::local::registry::Registry;
use super::local::watch::{Item, News, Touched};
use super::tally::{Count, Tally};
use super::worker::stopped;
use crate::stop::chain;

/// How soon something is tried again that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How many lives are woken at a time.
const WOKEN_MAX: usize = 500;
/// How many resources are read at a time.
const PAGE: u32 = 500;

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
                Ok(News::All(listed)) => {
                    if let Err(why) = self.compare_all(&listed).await {
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
    async fn compare_all(&self, listed: &[Touched]) -> Result<(), String> {
        let standing = Standings::read(self.world.registry(), listed);
        let standing = standing.map_err(|why| chain(&why))?;
        let woken = self.compare(&standing).await.map_err(|why| chain(&why))?;
        tracing::info!(objects = listed.len(), woken, "compared the local world with the ledger");
        Ok(())
    }

    async fn compare(&self, standing: &Standings) -> Result<u64, Error> {
        let mut woken = 0;
        let mut configs: BTreeSet<ProviderConfigId> = BTreeSet::new();
        let mut after: Option<ResourceId> = None;
        loop {
            let ids = self.store.resources_after(after, PAGE).await?;
            let Some(last) = ids.last() else { break };
            after = Some(*last);
            for id in ids {
                let record = match self.store.resource(id).await {
                    Ok(record) => record,
                    // Whoever claims it parks it.
                    Err(Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                configs.insert(record.state.pinned().provider_config);
                if standing.disagrees(&record) {
                    woken += self.wake(&[*id.as_uuid()]).await?;
                }
            }
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
        for _ in lives {
            self.tally.count(Count::Wakes);
        }
        self.store.wake_labels(lives.to_vec()).await
    }
}

fn life(touched: &Touched) -> Option<Uuid> {
    touched.life.as_ref().and_then(|it| it.parse().ok())
}

/// What stands in the world, by the life it belongs to.
struct Standings {
    objects: BTreeMap<Uuid, Vec<Object>>,
}

impl Standings {
    fn read(registry: &Registry, touched: &[Touched]) -> Result<Self, error::Error> {
        let mut objects: BTreeMap<Uuid, Vec<Object>> = BTreeMap::new();
        for it in touched {
            let Item::Object(kind, name) = &it.item else { continue };
            let Some(life) = life(it) else { continue };
            match registry.get(*kind, name) {
                Ok(Some(object)) => objects.entry(life).or_default().push(object),
                Ok(None) => {}
                // One that cannot be read makes its life look; it is unknown to it as well.
                Err(error::Error::Corrupt { .. }) => {
                    objects.entry(life).or_default().push(unreadable(*kind, name));
                }
                Err(why) => return Err(why),
            }
        }
        Ok(Self { objects })
    }

    fn of(&self, life: &Uuid) -> &[Object] {
        self.objects.get(life).map_or(&[], Vec::as_slice)
    }

    /// Whether a resource must look: it is on its way, or the world is not as it is recorded.
    fn disagrees(&self, record: &Record<Resource>) -> bool {
        let resource = &record.state;
        let objects = self.of(resource.id().as_uuid());
        let wanted = match resource.phase() {
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => return true,
            Phase::Deleted => return !objects.is_empty(),
            Phase::Ready => Condition::Ready,
            Phase::Failed => return !is_recorded(&record.book, objects),
        };
        let turned =
            objects.iter().filter_map(|it| it.substrate.as_ref()).any(|it| it.condition != wanted);
        turned || !is_recorded(&record.book, objects)
    }

    fn disagrees_with_config(&self, record: &Record<ProviderConfig>) -> bool {
        let objects = self.of(record.state.id.as_uuid());
        match record.state.phase {
            provider_config::Phase::Pending | provider_config::Phase::Leaving => true,
            provider_config::Phase::Ready => !is_recorded(&record.book, objects),
            provider_config::Phase::Gone => !objects.is_empty(),
        }
    }
}

/// Whether exactly what is recorded as seen stands there, and none of it is on its way out.
fn is_recorded(book: &Book, objects: &[Object]) -> bool {
    let outside = |kind: &str| kind.contains('/') || kind.contains("Anchor");
    let seen =
        book.rows().iter().filter(|row| row.standing == Standing::Seen && outside(&row.name.kind));
    let seen: BTreeSet<&str> = seen.filter_map(|row| Some(row.uid.as_ref()?.0.as_str())).collect();
    let standing: BTreeSet<&str> = objects.iter().map(|it| it.uid.0.as_str()).collect();
    seen == standing && objects.iter().all(|it| it.deleting_at.is_none())
}

fn unreadable(kind: Kind, name: &str) -> Object {
    Object {
        name: name.to_owned(),
        uid: usher_kernel::Uid::new(""),
        ledger_kind: kind.folder().to_owned(),
        place: String::new(),
        labels: BTreeMap::new(),
        owner: None,
        revision: 0,
        created_at: usher_kernel::Timestamp::ZERO,
        deleting_at: None,
        manifest: serde_json::Value::Null,
        substrate: None,
    }
}
