//! Drains of a store that several servers share.
//!
//! ```text
//!   poll for draining nodes ──▶ the project is polled often until the node is deregistered
//!                                ├ a connected node drains: it is sent its instructions
//!                                ├ a connected node stays: it is sent the snapshot
//!                                └ acknowledgements were requested: they are written
//! ```
//!
//! **Invariants**
//! - While no node drains there is no query: the poll for the other servers tells of drains.
//! - Nothing is written unless the server that leads a drain requested it.
//! - A failure here costs time only: every drain has its deadlines.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use usher_domain::object::id::{PeerId, ProjectId};
use usher_kernel::Timestamp;
use usher_store::{Error, PeerStatus, Store};

use super::control_plane::snapshot_of;
use super::mesh::Mesh;

/// How often a project is polled while one of its nodes drains.
const TICK: Duration = Duration::from_millis(250);

/// Follows drains that other servers lead.
pub struct Drains {
    store: Arc<Store>,
    mesh: Arc<Mesh>,
    watched: BTreeMap<ProjectId, Watched>,
}

/// A project with draining nodes.
#[derive(Debug, Default)]
struct Watched {
    /// Nodes that were seen draining.
    leavers: BTreeSet<PeerId>,
    /// The acknowledgements that were written, by node.
    written: BTreeMap<PeerId, u64>,
}

impl Drains {
    /// Follows the drains of this store for the nodes that are connected to this process.
    pub const fn new(store: Arc<Store>, mesh: Arc<Mesh>) -> Self {
        Self { store, mesh, watched: BTreeMap::new() }
    }

    /// How long to wait for the next look, if it is not pressing.
    pub(super) fn pause(&self, at_rest: Duration) -> Duration {
        if self.watched.is_empty() { at_rest } else { TICK.min(at_rest) }
    }

    /// Reads every project with draining nodes.
    pub(super) async fn observe(
        &mut self,
        draining_projects: BTreeSet<ProjectId>,
    ) -> Result<(), Error> {
        for project in draining_projects {
            self.watched.entry(project).or_default();
        }
        for (project, watched) in &mut self.watched {
            let leaving = self.store.leaving(*project).await?;
            let now = self.store.now().await?;
            for it in &leaving {
                watched.leavers.insert(it.peer.id);
                self.mesh.stage_changed_and_wake(&self.store, &it.peer, now).await?;
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
    /// A node that no longer drains is deregistered.
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
                mesh.stage_changed_and_wake(store, &found.peer, now).await?;
            }
            self.leavers.remove(&id);
        }
        Ok(())
    }

    /// Writes the requested acknowledgements that this process has received. The newest snapshot
    /// comes first: its acknowledgement implies the older ones.
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
