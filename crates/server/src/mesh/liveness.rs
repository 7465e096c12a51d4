//! Which nodes this server decides the liveness of, and when a node counts as lost.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use usher_domain::object::id::PeerId;
use usher_domain::peers::{Liveness, Stage};
use usher_store::{Error, PeerStatus, ServerNumber, Sighting, Store};
use usher_wire::chain;

use super::{Inner, Mesh, Node};
use crate::tally::Count;
use crate::worker::stopped;

/// The delay before a failed write is retried.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// After this many failed writes a round ends: the database fails, not the row of one node.
const FAILURES_MAX: usize = 3;

/// How many checks of the nodes fit into the timeout of a heartbeat. A process that checks less
/// than half as often was stopped or starved.
const CHECKS_PER_TIMEOUT: u32 = 4;

/// How long a node is unknown, and how long until it counts as lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnknownFor {
    pub elapsed: Duration,
    pub left: Duration,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Expected {
    claimed_by: Option<ServerNumber>,
    since: Instant,
}

impl Mesh {
    /// This server is recorded to hear a node.
    pub fn claimed(&self, id: PeerId, by: ServerNumber) {
        let mut inner = self.inner();
        inner.expected.remove(&id);
        if let Some(node) = inner.nodes.get_mut(&id) {
            node.claimed_by = Some(by);
            node.claimed_at = Some(Instant::now());
            node.lost = false;
        }
    }

    /// This server is present under a new number; its nodes have to be recorded again.
    pub fn appear(&self, number: ServerNumber) {
        self.inner().number = Some(number);
    }

    /// This server is absent: it reports no node as live or lost.
    pub fn vanish(&self) {
        let mut inner = self.inner();
        inner.number = None;
        inner.present.clear();
        inner.expected.clear();
    }

    /// Expects the nodes that no present server hears, each from the first poll that found it so.
    pub fn expect(&self, sighting: &Sighting) {
        let mut inner = self.inner();
        let before = std::mem::take(&mut inner.expected);
        inner.present.clone_from(&sighting.present);
        for (id, claimed_by) in &sighting.unclaimed {
            let known = before.get(id).filter(|it| it.claimed_by == *claimed_by);
            let fresh = Expected { claimed_by: *claimed_by, since: Instant::now() };
            // It was claimed after the poll.
            let own = inner.nodes.get(id).is_some_and(|it| inner.is_own(it));
            if !own {
                inner.expected.insert(*id, known.copied().unwrap_or(fresh));
            }
        }
        let expects = !inner.expected.is_empty();
        drop(inner);
        if expects {
            self.liveness_changed.notify_one();
        }
    }

    /// How many nodes no present server hears.
    pub fn unclaimed(&self) -> usize {
        self.inner().expected.len()
    }

    /// How long a node is unknown, if it is expected.
    pub fn unknown_for(&self, id: PeerId) -> Option<UnknownFor> {
        let inner = self.inner();
        let expected = inner.expected.get(&id)?;
        let timeout = self.loss_timeout();
        let counted = inner.counted_from(expected.since).elapsed();
        let left = timeout.saturating_sub(counted);
        Some(UnknownFor { elapsed: expected.since.elapsed(), left })
    }

    /// Records lost nodes until the server stops.
    pub async fn listen(self: Arc<Self>, store: Arc<Store>, mut stop: watch::Receiver<bool>) {
        let check_every = self.loss_timeout() / CHECKS_PER_TIMEOUT;
        let (mut checked_at, mut next) = (Instant::now(), None);
        loop {
            tokio::select! {
                () = stopped(&mut stop) => return,
                () = self.liveness_changed.notified() => {
                    if next.is_none() {
                        checked_at = Instant::now();
                        next = Some(checked_at + check_every);
                    }
                    continue;
                }
                () = until(next) => {}
            }
            let lost = self.lost_nodes(checked_at);
            checked_at = Instant::now();
            let (mut failures, mut retry) = (0, None);
            for (id, claimed_by) in lost {
                let Err(error) = self.record_loss(&store, id, claimed_by).await else { continue };
                let error = chain(&error);
                tracing::warn!(node = %id, error, "failed to record the loss of a node");
                retry = Some(Instant::now() + RETRY_AFTER);
                failures += 1;
                if failures == FAILURES_MAX {
                    break;
                }
            }
            let soon = Instant::now() + check_every;
            let timed_out = self.next_loss().map(|it| it.max(Instant::now()).min(soon));
            next = retry.or(timed_out);
        }
    }

    /// Records the loss of a node, unless it was deregistered, or claimed or recorded as lost
    /// meanwhile.
    async fn record_loss(
        &self,
        store: &Store,
        id: PeerId,
        claimed_by: Option<ServerNumber>,
    ) -> Result<(), Error> {
        if store.lose_peer(id, claimed_by).await? {
            self.tally.count(Count::NodesLost);
            tracing::warn!(node = %id, "node lost");
        }
        let asked = Instant::now();
        let found = store.peer(id).await?;
        self.settled(id, (found.as_ref(), asked));
        Ok(())
    }

    /// When the next node would be lost.
    fn next_loss(&self) -> Option<Instant> {
        let timeout = self.loss_timeout();
        let inner = self.inner();
        inner.watched().map(|(_, at, _)| at + timeout).min()
    }

    /// The nodes whose timeout has passed, each with the server recorded for it. A check that comes
    /// too long after the one before restarts the timeout of every node.
    fn lost_nodes(&self, checked_at: Instant) -> Vec<(PeerId, Option<ServerNumber>)> {
        let mut inner = self.inner();
        if checked_at.elapsed() > self.loss_timeout() / CHECKS_PER_TIMEOUT * 2 {
            inner.resumed_at = Some(Instant::now());
        }
        let lost = |at: &Instant| self.judge(*at) == Liveness::Lost;
        let lost = inner.watched().filter(|(_, at, _)| lost(at));
        lost.map(|(id, _, claimed_by)| (id, claimed_by)).collect()
    }

    /// Takes over what the row of a node said at a time, unless this server has claimed it since:
    /// a claim may come before a loss is recorded, or right after it.
    fn settled(&self, id: PeerId, (found, asked): (Option<&PeerStatus>, Instant)) {
        let mut inner = self.inner();
        inner.expected.remove(&id);
        let Some(node) = inner.nodes.get_mut(&id) else { return };
        let is_out = |it: &PeerStatus| matches!(it.peer.stage, Stage::Deregistered { .. });
        match found.filter(|it| !is_out(it)) {
            None => node.last_seen = None,
            Some(status) => node.read(status, asked),
        }
    }
}

impl Inner {
    /// Whether this server is recorded to hear a node.
    pub(super) fn is_own(&self, node: &Node) -> bool {
        self.number.is_some() && node.claimed_by == self.number
    }

    /// Whether another present server is recorded to hear a node.
    pub(super) fn is_elsewhere(&self, claimed_by: Option<ServerNumber>) -> bool {
        claimed_by != self.number && claimed_by.is_some_and(|it| self.present.contains(&it))
    }

    /// The nodes that this server judges: when their silence began, and the recorded server.
    fn watched(&self) -> impl Iterator<Item = (PeerId, Instant, Option<ServerNumber>)> {
        let judged = |it: &Node| self.is_own(it) || it.claimed_by.is_none();
        let own = self.nodes.iter().filter(move |(_, it)| judged(it) && !it.lost);
        let own = own.filter(|_| self.number.is_some());
        let own = own.filter_map(|(id, it)| Some((*id, it.last_seen.as_ref()?.at, it.claimed_by)));
        let expected = self.expected.iter().map(|(id, it)| (*id, it.since, it.claimed_by));
        let all = own.chain(expected).filter(|_| !self.refusing);
        all.map(|(id, since, claimed_by)| (id, self.counted_from(since), claimed_by))
    }

    /// Missed heartbeats are not counted while this process did not run.
    pub(super) fn counted_from(&self, at: Instant) -> Instant {
        self.resumed_at.map_or(at, |it| it.max(at))
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use usher_domain::object::enrolment::{KeyId, Nonce, PublicKey};
    use usher_domain::object::id::{ProjectId, ResourceId, TokenId};
    use usher_domain::peers::{Peer, Registration};
    use usher_kernel::{Generation, Timestamp};
    use uuid::Uuid;

    use crate::mesh::MeshConfig;

    const SELF: ServerNumber = ServerNumber(7);
    const OTHER: ServerNumber = ServerNumber(6);
    const LOSS_TIMEOUT: Duration = Duration::from_secs(30);

    fn mesh() -> Mesh {
        let mesh = Mesh::new(MeshConfig::default(), Arc::default());
        mesh.appear(SELF);
        mesh
    }

    fn status(claimed_by: Option<ServerNumber>) -> PeerStatus {
        let nonce: Nonce = "nonce-nonce-nonce".parse().unwrap();
        let key: PublicKey = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".parse().unwrap();
        let peer = Peer {
            id: PeerId::from_uuid(Uuid::from_u128(1)),
            registration: Registration {
                token: TokenId::from_uuid(Uuid::from_u128(2)),
                resource: ResourceId::from_uuid(Uuid::from_u128(3)),
                generation: Generation::FIRST,
                project: ProjectId::from_uuid(Uuid::from_u128(4)),
                nonce,
                public_key: key,
            },
            registered_at: Timestamp::ZERO,
            stage: Stage::Registered,
            forced: None,
        };
        let key_id = KeyId::from_stored("key-1");
        PeerStatus { peer, lost_since: None, asked_at: None, acknowledged: 0, claimed_by, key_id }
    }

    fn sighting(present: &[ServerNumber], unclaimed: &[PeerStatus]) -> Sighting {
        Sighting {
            present: present.iter().copied().collect(),
            unclaimed: unclaimed.iter().map(|it| (it.peer.id, it.claimed_by)).collect(),
            ..Sighting::default()
        }
    }

    /// Looks as often as the listener does, for so long.
    async fn lost_within(mesh: &Mesh, span: Duration) -> Vec<(PeerId, Option<ServerNumber>)> {
        let until = Instant::now() + span;
        loop {
            let checked_at = Instant::now();
            let step = (LOSS_TIMEOUT / CHECKS_PER_TIMEOUT)
                .min(until.saturating_duration_since(checked_at));
            tokio::time::advance(step).await;
            let lost = mesh.lost_nodes(checked_at);
            if !lost.is_empty() || Instant::now() >= until {
                return lost;
            }
        }
    }

    // Requirement: M-18
    #[tokio::test(start_paused = true)]
    async fn an_unheard_node_is_unknown_and_lost_after_the_patience() {
        let mesh = mesh();
        let it = status(Some(OTHER));
        assert_eq!(mesh.liveness(&it), Liveness::Unknown, "before the first poll");
        mesh.expect(&sighting(&[SELF, OTHER], &[]));
        assert_eq!((mesh.liveness(&it), mesh.unclaimed()), (Liveness::Live, 0));
        mesh.expect(&sighting(&[SELF], std::slice::from_ref(&it)));
        assert_eq!((mesh.liveness(&it), mesh.unclaimed()), (Liveness::Unknown, 1));
        let second = Duration::from_secs(1);
        assert_eq!(lost_within(&mesh, Duration::from_secs(29)).await, []);
        // A later poll does not restart the timeout.
        mesh.expect(&sighting(&[SELF], std::slice::from_ref(&it)));
        assert_eq!(mesh.unknown_for(it.peer.id).unwrap().left, second);
        assert_eq!(lost_within(&mesh, second).await, [(it.peer.id, Some(OTHER))]);
    }

    // Requirement: M-18
    #[tokio::test(start_paused = true)]
    async fn a_node_is_judged_only_by_the_server_that_hears_it() {
        let mesh = mesh();
        let it = status(None);
        mesh.load(&it, (Instant::now(), Timestamp::ZERO));
        assert_eq!(mesh.record_heartbeat(it.peer.id, 0, "").claim, Some(SELF));
        assert_eq!(mesh.liveness(&it), Liveness::Unknown, "until it is recorded");
        mesh.claimed(it.peer.id, SELF);
        assert_eq!(
            mesh.record_heartbeat(it.peer.id, 0, "").claim,
            None,
            "a heartbeat writes nothing"
        );
        assert_eq!(mesh.liveness(&it), Liveness::Live);
        mesh.expect(&sighting(&[SELF, OTHER], &[]));
        mesh.load(&status(Some(OTHER)), (Instant::now(), Timestamp::ZERO));
        assert_eq!(lost_within(&mesh, LOSS_TIMEOUT * 3).await, [], "it moved to another server");
        assert_eq!(mesh.liveness(&status(Some(OTHER))), Liveness::Live);
    }

    /// Red by: a row that was read before the claim and judged after it: the node is this server's
    /// in the database and another's in memory, so that no server ever notices its death.
    // Requirement: M-18
    #[tokio::test(start_paused = true)]
    async fn a_row_from_before_the_claim_does_not_take_it_back() {
        let mesh = mesh();
        let before = status(Some(OTHER));
        let asked = Instant::now();
        mesh.load(&before, (asked, Timestamp::ZERO));
        assert_eq!(mesh.record_heartbeat(before.peer.id, 0, "").claim, Some(SELF));
        tokio::time::advance(Duration::from_millis(1)).await;
        mesh.claimed(before.peer.id, SELF);
        mesh.load(&before, (asked, Timestamp::ZERO));
        assert_eq!(mesh.liveness(&status(Some(SELF))), Liveness::Live);
        assert_eq!(lost_within(&mesh, LOSS_TIMEOUT).await, [(before.peer.id, Some(SELF))]);
    }

    // Requirement: M-19
    #[tokio::test(start_paused = true)]
    async fn time_in_which_the_process_did_not_run_is_not_counted() {
        let mesh = mesh();
        let it = status(Some(SELF));
        mesh.load(&it, (Instant::now(), Timestamp::ZERO));
        mesh.record_heartbeat(it.peer.id, 0, "");
        let checked_at = Instant::now();
        tokio::time::advance(LOSS_TIMEOUT * 2).await;
        assert_eq!(mesh.lost_nodes(checked_at), []);
        assert_eq!(mesh.liveness(&it), Liveness::Live);
        assert_eq!(lost_within(&mesh, LOSS_TIMEOUT).await, [(it.peer.id, Some(SELF))]);
    }

    // Requirement: M-19
    #[tokio::test(start_paused = true)]
    async fn an_absent_server_vouches_for_no_node_and_judges_none() {
        let mesh = mesh();
        let it = status(Some(SELF));
        mesh.load(&it, (Instant::now(), Timestamp::ZERO));
        mesh.record_heartbeat(it.peer.id, 0, "");
        mesh.expect(&sighting(&[SELF, OTHER], &[]));
        mesh.vanish();
        assert_eq!(mesh.liveness(&it), Liveness::Unknown);
        assert_eq!(mesh.liveness(&status(Some(OTHER))), Liveness::Unknown);
        assert_eq!(lost_within(&mesh, LOSS_TIMEOUT * 2).await, []);
        assert_eq!(mesh.record_heartbeat(it.peer.id, 0, "").claim, None);
        let next = ServerNumber(8);
        mesh.appear(next);
        assert_eq!(
            mesh.record_heartbeat(it.peer.id, 0, "").claim,
            Some(next),
            "it is recorded anew"
        );
    }
}
