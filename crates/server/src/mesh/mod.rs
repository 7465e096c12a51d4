//! Nodes as this process sees them: heartbeats, acknowledgements, and instructions.
//!
//! **Invariants**
//! - A heartbeat writes nothing, unless another server, or none, was recorded to hear the node.
//! - A node is judged by the present server that is recorded to hear it. A node whose server is
//!   absent is unknown, and every present server expects it: after the usual timeout one of them
//!   records its loss, unless a server was recorded to hear it meanwhile.
//! - Time in which this process did not run is not held against a node.
//! - The instructions of a node are a state, not a queue: a broken stream misses nothing.

mod liveness;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::peers::{DrainTimeouts, Heartbeat, Liveness, Peer, Stage};
use usher_kernel::Timestamp;
use usher_store::{Error, PeerStatus, ServerNumber, Store, WorkItem};

use liveness::Expected;
pub use liveness::UnknownFor;

use super::tally::Tally;

/// Heartbeat and drain settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeshConfig {
    pub heartbeat: Heartbeat,
    pub drain_timeouts: DrainTimeouts,
}

/// The desired state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Instructions {
    /// The newest snapshot of the mesh.
    pub snapshot: u64,
    /// The deadline of its drain, if it drains.
    pub leave_by: Option<Instant>,
    /// Whether it was deregistered: its stream ends.
    pub out: bool,
}

/// The last heartbeat of one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastSeen {
    pub at: Instant,
    pub agent_version: String,
}

/// The effect of a heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeartbeatOutcome {
    /// Resources that waited for this acknowledgement only.
    pub woken: Vec<ResourceId>,
    /// The number under which this server has to be recorded to hear the node, if it is not.
    pub claim: Option<ServerNumber>,
}

/// The nodes of this process, in memory.
#[derive(Debug)]
pub struct Mesh {
    config: MeshConfig,
    tally: Arc<Tally>,
    inner: Mutex<Inner>,
    liveness_changed: Notify,
}

#[derive(Debug, Default)]
struct Inner {
    nodes: BTreeMap<PeerId, Node>,
    snapshots: BTreeMap<ProjectId, u64>,
    /// The drains that wait for acknowledgements, by resource.
    waiting: BTreeMap<ResourceId, Waiting>,
    /// The number of this server, while it is present.
    number: Option<ServerNumber>,
    /// The servers that were present at the last poll.
    present: BTreeSet<ServerNumber>,
    /// The nodes that no present server hears.
    expected: BTreeMap<PeerId, Expected>,
    /// Missed heartbeats are counted from here at the earliest.
    resumed_at: Option<Instant>,
    /// Whether this process may refuse heartbeats for a key that it lacks.
    refusing: bool,
}

#[derive(Debug)]
struct Node {
    project: ProjectId,
    last_seen: Option<LastSeen>,
    /// The server that is recorded to hear it.
    claimed_by: Option<ServerNumber>,
    /// When this server was last recorded to hear it.
    claimed_at: Option<Instant>,
    acknowledged: u64,
    left: bool,
    /// Whether it is recorded as lost.
    lost: bool,
    /// When its row was last read.
    read_at: Instant,
    instructions: Instructions,
    /// The channel of its event stream, if it is connected.
    stream: Option<watch::Sender<Instructions>>,
}

#[derive(Debug)]
struct Waiting {
    snapshot: u64,
    missing: BTreeSet<PeerId>,
}

impl Mesh {
    /// A mesh without any heartbeat yet.
    pub fn new(config: MeshConfig, tally: Arc<Tally>) -> Self {
        Self { config, tally, inner: Mutex::default(), liveness_changed: Notify::new() }
    }

    pub const fn config(&self) -> MeshConfig {
        self.config
    }

    /// Loads the record of a node that called, as it was when it was asked for or later. One from
    /// before this server's claim does not take the claim back: no server would judge the node.
    pub fn load(&self, status: &PeerStatus, (asked, now): (Instant, Timestamp)) {
        let peer = &status.peer;
        let mut inner = self.inner();
        let snapshot = inner.snapshots.get(&peer.registration.project).copied().unwrap_or(0);
        let node = inner.node(peer);
        node.read(status, asked);
        node.read_at = Instant::now();
        node.send(self.instructions(peer, snapshot, now));
    }

    /// Counts no silence while this process lacks a key and refuses the nodes that call with it.
    pub fn set_refusing(&self, refusing: bool) {
        let mut inner = self.inner();
        if std::mem::replace(&mut inner.refusing, refusing) && !refusing {
            inner.resumed_at = Some(Instant::now());
            self.liveness_changed.notify_one();
        }
    }

    /// Watches the instructions of a node; `None` if it is not loaded.
    pub fn follow(&self, id: PeerId) -> Option<watch::Receiver<Instructions>> {
        self.inner().nodes.get_mut(&id).map(Node::follow)
    }

    /// The instructions that follow from the stage of a peer.
    fn instructions(&self, peer: &Peer, snapshot: u64, now: Timestamp) -> Instructions {
        let (leave_by, out) = match peer.stage {
            Stage::Registered => (None, false),
            Stage::Cordoned { since } => {
                let left = since.after(self.config.drain_timeouts.grace).since(now);
                (Some(Instant::now() + left), false)
            }
            Stage::Draining { .. } | Stage::Deregistered { .. } => (None, true),
        };
        Instructions { snapshot, leave_by, out }
    }

    /// Records a heartbeat of a loaded node.
    pub fn record_heartbeat(
        &self,
        id: PeerId,
        acknowledged: u64,
        agent_version: &str,
    ) -> HeartbeatOutcome {
        let mut inner = self.inner();
        let number = inner.number;
        let Some(node) = inner.nodes.get_mut(&id) else { return HeartbeatOutcome::default() };
        let first = node.last_seen.is_none();
        node.last_seen =
            Some(LastSeen { at: Instant::now(), agent_version: agent_version.to_owned() });
        node.acknowledged = node.acknowledged.max(acknowledged);
        let claim = number.filter(|_| node.lost || node.claimed_by != number);
        let acknowledged = node.acknowledged;
        let woken = inner.acknowledge(id, acknowledged);
        drop(inner);
        // The listener has to watch a node that is new or was lost.
        if first || claim.is_some() {
            self.liveness_changed.notify_one();
        }
        HeartbeatOutcome { woken, claim }
    }

    /// The instructions of a loaded node.
    pub fn instructions_of(&self, id: PeerId) -> Option<Instructions> {
        self.inner().nodes.get(&id).map(|it| it.instructions)
    }

    /// The same, if its row was read recently: it is read once per heartbeat, however often a node
    /// calls to acknowledge.
    pub fn fresh_instructions_of(&self, id: PeerId) -> Option<Instructions> {
        let inner = self.inner();
        let node = inner.nodes.get(&id)?;
        let fresh = node.read_at.elapsed() < self.config.heartbeat.interval / 2;
        fresh.then_some(node.instructions)
    }

    /// Notes that a node has left.
    pub fn record_leave(&self, id: PeerId) {
        if let Some(node) = self.inner().nodes.get_mut(&id) {
            node.left = true;
        }
    }

    /// Whether a node has left or is recorded as lost. Missing heartbeats alone do not count:
    /// another process may receive them.
    pub fn has_left(&self, status: &PeerStatus) -> bool {
        let said = self.inner().nodes.get(&status.peer.id).is_some_and(|it| it.left);
        said || status.lost_since.is_some()
    }

    /// The liveness of a node: by its heartbeats if this server is recorded to hear it, else by the
    /// record of another server, if that is present.
    pub fn liveness(&self, status: &PeerStatus) -> Liveness {
        let inner = self.inner();
        let own = inner.nodes.get(&status.peer.id).filter(|it| !it.lost && inner.is_own(it));
        match own.and_then(|it| it.last_seen.as_ref()) {
            Some(_) if inner.refusing => Liveness::Unknown,
            Some(last_seen) => self.judge(inner.counted_from(last_seen.at)),
            None if status.lost_since.is_some() => Liveness::Lost,
            None if inner.is_elsewhere(status.claimed_by) => Liveness::Live,
            None => Liveness::Unknown,
        }
    }

    /// Whether this process receives the heartbeats of a node.
    pub fn is_connected(&self, id: PeerId) -> bool {
        let inner = self.inner();
        let last_seen = inner.nodes.get(&id).and_then(|it| it.last_seen.as_ref());
        last_seen.is_some_and(|it| self.judge(it.at) == Liveness::Live)
    }

    /// The nodes of a project that acknowledged this snapshot or a newer one to this process.
    pub fn acknowledged_by(&self, project: ProjectId, snapshot: u64) -> Vec<PeerId> {
        let inner = self.inner();
        let own = inner.nodes.iter().filter(|(_, it)| it.project == project);
        own.filter(|(_, it)| it.acknowledged >= snapshot).map(|(id, _)| *id).collect()
    }

    /// The last heartbeat of a node, and the newest snapshot it acknowledged.
    pub fn last_heartbeat(&self, id: PeerId) -> (Option<LastSeen>, u64) {
        let inner = self.inner();
        inner.nodes.get(&id).map_or((None, 0), |it| (it.last_seen.clone(), it.acknowledged))
    }

    /// Publishes a snapshot of the mesh to every node of a project.
    pub fn publish(&self, project: ProjectId, snapshot: u64) {
        let mut inner = self.inner();
        let newest = inner.snapshots.entry(project).or_default();
        *newest = snapshot.max(*newest);
        let newest = *newest;
        for node in inner.nodes.values_mut().filter(|it| it.project == project) {
            node.send(Instructions { snapshot: newest, ..Instructions::default() });
        }
    }

    /// Sends a node the instructions of its new stage and drops it once it is deregistered. Returns
    /// the resources that waited for its acknowledgement only: a draining node acknowledges
    /// nothing.
    pub fn stage_changed(&self, peer: &Peer, now: Timestamp) -> Vec<ResourceId> {
        let mut inner = self.inner();
        let snapshot = inner.snapshots.get(&peer.registration.project).copied().unwrap_or(0);
        let instructions = self.instructions(peer, snapshot, now);
        if let Some(node) = inner.nodes.get_mut(&peer.id) {
            node.send(instructions);
        }
        if peer.is_gone() {
            inner.nodes.remove(&peer.id);
            inner.waiting.remove(&peer.registration.resource);
        }
        if peer.stage == Stage::Registered { vec![] } else { inner.acknowledge(peer.id, u64::MAX) }
    }

    /// The same, and wakes the resources that waited.
    pub async fn stage_changed_and_wake(
        &self,
        store: &Store,
        peer: &Peer,
        now: Timestamp,
    ) -> Result<(), Error> {
        wake(store, self.stage_changed(peer, now)).await
    }

    /// Registers the acknowledgements that a drain waits for; `false` if none is missing.
    pub fn await_all(
        &self,
        resource: ResourceId,
        snapshot: u64,
        mut missing: BTreeSet<PeerId>,
    ) -> bool {
        let mut inner = self.inner();
        // A node that acknowledged since, or that drains itself, is not waited for.
        missing.retain(|id| inner.nodes.get(id).is_none_or(|it| it.must_acknowledge(snapshot)));
        let waits = !missing.is_empty();
        inner.waiting.insert(resource, Waiting { snapshot, missing });
        waits
    }

    fn judge(&self, heard_at: Instant) -> Liveness {
        let elapsed = Timestamp::ZERO.after(heard_at.elapsed());
        self.config.heartbeat.liveness(Some(Timestamp::ZERO), elapsed)
    }

    fn loss_timeout(&self) -> Duration {
        let Heartbeat { interval, missed_max } = self.config.heartbeat;
        interval.saturating_mul(missed_max)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Node {
    /// Whether its acknowledgement of a snapshot is missing; a draining node needs to send none.
    fn must_acknowledge(&self, snapshot: u64) -> bool {
        let Instructions { leave_by, out, .. } = self.instructions;
        self.acknowledged < snapshot && leave_by.is_none() && !out
    }

    /// Takes over what its row said at this time, unless this server has claimed it since.
    fn read(&mut self, status: &PeerStatus, asked: Instant) {
        if self.claimed_at.is_none_or(|it| it <= asked) {
            self.lost = status.lost_since.is_some();
            self.claimed_by = status.claimed_by;
        }
    }

    fn send(&mut self, instructions: Instructions) {
        // A drain is never cancelled: instructions without it come from an older row. Its deadline
        // is fixed by the first ones.
        let next = Instructions {
            snapshot: self.instructions.snapshot.max(instructions.snapshot),
            leave_by: self.instructions.leave_by.or(instructions.leave_by),
            out: self.instructions.out || instructions.out,
        };
        if std::mem::replace(&mut self.instructions, next) != next
            && self.stream.as_ref().is_some_and(|it| it.send(next).is_err())
        {
            self.stream = None;
        }
    }

    fn follow(&mut self) -> watch::Receiver<Instructions> {
        let fresh = || watch::Sender::new(self.instructions);
        self.stream.get_or_insert_with(fresh).subscribe()
    }
}

impl Inner {
    /// The resources that waited for this acknowledgement only.
    fn acknowledge(&mut self, id: PeerId, acknowledged: u64) -> Vec<ResourceId> {
        let mut woken = Vec::new();
        for (resource, waiting) in &mut self.waiting {
            if acknowledged >= waiting.snapshot
                && waiting.missing.remove(&id)
                && waiting.missing.is_empty()
            {
                woken.push(*resource);
            }
        }
        woken
    }

    fn node(&mut self, peer: &Peer) -> &mut Node {
        let fresh = || Node {
            project: peer.registration.project,
            last_seen: None,
            claimed_by: None,
            claimed_at: None,
            acknowledged: 0,
            left: false,
            lost: false,
            read_at: Instant::now(),
            instructions: Instructions::default(),
            stream: None,
        };
        self.nodes.entry(peer.id).or_insert_with(fresh)
    }
}

/// Wakes resources that waited for an acknowledgement.
pub(super) async fn wake(store: &Store, waited: Vec<ResourceId>) -> Result<(), Error> {
    for resource in waited {
        store.wake(WorkItem::Resource(resource)).await?;
    }
    Ok(())
}
