//! Drains of a store that several servers share.
//!
//! ```text
//!   now and then: does anybody leave? ──▶ the project is looked at, often, until the node is out
//!                                          ├ a node of ours leaves: it is told to
//!                                          ├ a node of ours stays: it is told of the snapshot
//!                                          └ acknowledgements are asked for: they are written
//! ```
//!
//! **Invariants**
//! - While nobody leaves nothing else is asked.
//! - Nothing is written unless whoever leads a drain asked for it.
//! - What is missed here costs time and no more: every drain has its deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;
use usher_domain::object::id::{PeerId, ProjectId};
use usher_kernel::Timestamp;
use usher_store::{Error, PeerStatus, Store};

use super::control_plane::snapshot_of;
use super::mesh::Mesh;
use super::worker::stopped;
use usher_wire::chain;

/// How often a project is looked at while somebody leaves it.
const TICK: Duration = Duration::from_millis(250);
/// How soon something is tried again that failed.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// Follows the drains that other servers may lead.
pub struct Drains {
    store: Arc<Store>,
    mesh: Arc<Mesh>,
    watched: BTreeMap<ProjectId, Watched>,
}

/// A project that somebody leaves.
#[derive(Debug, Default)]
struct Watched {
    /// Who was seen on its way out.
    leavers: BTreeSet<PeerId>,
    /// What was written down.
    written: BTreeMap<PeerId, u64>,
}

impl Drains {
    /// Drains of this store's nodes, as far as this mesh hears them.
    pub const fn new(store: Arc<Store>, mesh: Arc<Mesh>) -> Self {
        Self { store, mesh, watched: BTreeMap::new() }
    }

    /// Follows until it is told to stop. A store that nobody shares has nothing to follow.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let Some(ask_every) = self.store.log_poll() else { return };
        loop {
            let pause = match self.look().await {
                Ok(()) if self.watched.is_empty() => ask_every,
                Ok(()) => TICK.min(ask_every),
                Err(error) => {
                    tracing::warn!(error = %chain(&error), "cannot follow the drains of others");
                    RETRY_AFTER
                }
            };
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = sleep(pause) => {}
            }
        }
    }

    /// Looks at every project that somebody leaves.
    async fn look(&mut self) -> Result<(), Error> {
        for project in self.store.projects_being_left().await? {
            self.watched.entry(project).or_default();
        }
        for (project, watched) in &mut self.watched {
            let leaving = self.store.leaving(*project).await?;
            let now = self.store.now().await?;
            for it in &leaving {
                watched.leavers.insert(it.peer.id);
                self.mesh.tell_moved(&self.store, &it.peer, now).await?;
                if let Some(snapshot) = snapshot_of(&it.peer) {
                    self.mesh.publish(*project, snapshot);
                }
            }
            watched.forget(&self.store, &self.mesh, (&leaving, now)).await?;
            watched.write(&self.store, &self.mesh, (*project, leaving)).await?;
        }
        self.watched.retain(|_, it| !it.leavers.is_empty());
        Ok(())
    }
}

impl Watched {
    /// Whoever was on its way out and is not any more is out.
    async fn forget(
        &mut self,
        store: &Store,
        mesh: &Mesh,
        (leaving, now): (&[PeerStatus], Timestamp),
    ) -> Result<(), Error> {
        let out = |id: &&PeerId| leaving.iter().all(|it| it.peer.id != **id);
        let gone: Vec<PeerId> = self.leavers.iter().filter(out).copied().collect();
        for id in gone {
            if let Some(found) = store.peer(id).await? {
                mesh.tell_moved(store, &found.peer, now).await?;
            }
            self.leavers.remove(&id);
        }
        Ok(())
    }

    /// Writes down what was acknowledged here and is asked for. The newest snapshot comes first:
    /// whoever acknowledged it knows the older ones, too.
    async fn write(
        &mut self,
        store: &Store,
        mesh: &Mesh,
        (project, leaving): (ProjectId, Vec<PeerStatus>),
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
