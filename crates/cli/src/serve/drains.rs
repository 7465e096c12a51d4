//! Drains of a store that several servers share.
//!
//! ```text
//!   the log tells of a deletion ─┬▶ its project is looked at, often, until the node is out
//!   as often: does anybody leave? ╯   ├ a node of ours leaves: it is told to
//!                                     ├ a node of ours stays: it is told of the snapshot
//!                                     └ acknowledgements are asked for: they are written down
//! ```
//!
//! **Invariants**
//! - While nobody leaves nothing is asked but that and the log.
//! - Nothing is written unless whoever leads a drain asked for it.
//! - What is missed here costs time and no more: every drain has its deadlines.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use usher_domain::broker::event::EventType;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_kernel::Timestamp;
use usher_store::{Attended, Cursor, Error, Store, Told};

use super::inside::snapshot_of;
use super::mesh::Mesh;
use super::worker::stopped;
use crate::stop::chain;

/// How often a project is looked at while somebody leaves it.
const TICK: Duration = Duration::from_millis(250);
/// How soon something is tried again that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// How much of the log is read at once.
const BATCH: u32 = 100;

/// Follows the drains that other servers may lead.
pub struct Drains {
    store: Arc<Store>,
    mesh: Arc<Mesh>,
    watched: BTreeMap<ProjectId, Watched>,
    /// When to ask next whether somebody leaves of whom the log does not tell: a node that is
    /// replaced, or one that was on its way when this server started.
    ask_at: Instant,
}

/// A project that somebody leaves.
#[derive(Debug, Default)]
struct Watched {
    /// Whose deletion was told of, and until when a node of it is expected to leave.
    resources: BTreeMap<ResourceId, Instant>,
    /// Who was seen on its way out.
    leavers: BTreeMap<PeerId, ResourceId>,
    /// What was written down.
    written: BTreeMap<PeerId, u64>,
}

impl Drains {
    /// Drains of this store's nodes, as far as this mesh hears them.
    pub fn new(store: Arc<Store>, mesh: Arc<Mesh>) -> Self {
        Self { store, mesh, watched: BTreeMap::new(), ask_at: Instant::now() }
    }

    /// Follows until it is told to stop. A store that nobody shares has nothing to follow.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let Some(ask_every) = self.store.log_poll() else { return };
        let mut cursor = None;
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                failed = self.follow(&mut cursor, ask_every) => {
                    tracing::warn!(error = %chain(&failed), "cannot follow the drains of others");
                }
            }
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = sleep(RETRY_AFTER) => {}
            }
        }
    }

    /// Follows until something fails.
    async fn follow(&mut self, cursor: &mut Option<Cursor>, ask_every: Duration) -> Error {
        loop {
            if let Err(error) = self.turn(cursor, ask_every).await {
                if matches!(error, Error::Forgotten { .. }) {
                    *cursor = None;
                }
                return error;
            }
        }
    }

    async fn turn(
        &mut self,
        cursor: &mut Option<Cursor>,
        ask_every: Duration,
    ) -> Result<(), Error> {
        if Instant::now() >= self.ask_at {
            for project in self.store.projects_being_left().await? {
                self.watched.entry(project).or_default();
            }
            self.ask_at = Instant::now() + ask_every;
        }
        let after = match *cursor {
            Some(after) => after,
            None => *cursor.insert(self.store.log_end().await?),
        };
        let store = Arc::clone(&self.store);
        let mut follower = store.follow(after);
        let idle = self.watched.is_empty();
        let tick = if idle { self.ask_at } else { self.ask_at.min(Instant::now() + TICK) };
        tokio::select! {
            told = follower.next(BATCH) => {
                for it in &told? {
                    self.hear(it);
                }
                *cursor = Some(follower.cursor());
            }
            () = sleep_until(tick) => {}
        }
        self.look().await
    }

    fn hear(&mut self, told: &Told) {
        match told.event_type {
            EventType::Deleting => {
                let patience = self.mesh.figures().patience;
                let until = Instant::now() + patience.grace + patience.acknowledgements;
                let watched = self.watched.entry(told.project).or_default();
                watched.resources.insert(told.resource, until);
            }
            EventType::Deleted => {
                if let Some(watched) = self.watched.get_mut(&told.project) {
                    watched.resources.remove(&told.resource);
                }
            }
            EventType::Requested | EventType::Ready | EventType::Failed => {}
        }
    }

    /// Looks at every project that somebody leaves.
    async fn look(&mut self) -> Result<(), Error> {
        for (project, watched) in &mut self.watched {
            let leaving = self.store.leaving(*project).await?;
            let now = self.store.now().await?;
            for it in &leaving {
                watched.leavers.insert(it.peer.id, it.peer.registration.resource);
                self.mesh.moved(&it.peer, now);
                if let Some(snapshot) = snapshot_of(&it.peer) {
                    self.mesh.publish(*project, snapshot);
                }
            }
            watched.forget(&self.store, &self.mesh, (&leaving, now)).await?;
            watched.write(&self.store, &self.mesh, (*project, leaving)).await?;
        }
        let now = Instant::now();
        self.watched.retain(|_, it| {
            it.resources.retain(|_, until| now < *until);
            !it.resources.is_empty() || !it.leavers.is_empty()
        });
        Ok(())
    }
}

impl Watched {
    /// Whoever was on its way out and is not any more is out.
    async fn forget(
        &mut self,
        store: &Store,
        mesh: &Mesh,
        (leaving, now): (&[Attended], Timestamp),
    ) -> Result<(), Error> {
        let out = |id: &&PeerId| leaving.iter().all(|it| it.peer.id != **id);
        let gone: Vec<PeerId> = self.leavers.keys().filter(out).copied().collect();
        for id in gone {
            if let Some(found) = store.peer(id).await? {
                mesh.moved(&found.peer, now);
            }
            if let Some(resource) = self.leavers.remove(&id) {
                self.resources.remove(&resource);
            }
        }
        Ok(())
    }

    /// Writes down what was acknowledged here and is asked for. The newest snapshot comes first:
    /// whoever acknowledged it knows the older ones, too.
    async fn write(
        &mut self,
        store: &Store,
        mesh: &Mesh,
        (project, leaving): (ProjectId, Vec<Attended>),
    ) -> Result<(), Error> {
        let asked = leaving.iter().filter(|it| it.asked_at.is_some());
        let mut snapshots: Vec<u64> = asked.filter_map(|it| snapshot_of(&it.peer)).collect();
        snapshots.sort_unstable();
        for snapshot in snapshots.into_iter().rev() {
            let mut by = mesh.acknowledged_by(project, snapshot);
            by.retain(|id| self.written.get(id).is_none_or(|it| *it < snapshot));
            if by.is_empty() {
                continue;
            }
            store.acknowledge(project, by.clone(), snapshot).await?;
            self.written.extend(by.into_iter().map(|id| (id, snapshot)));
        }
        Ok(())
    }
}
