//! Peers as the store keeps them: enrolment, liveness, and acknowledged drains.

use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::peers::Peer;
use usher_kernel::Timestamp;

use crate::error::Error;
use crate::presence::ServerNumber;
use crate::store::{Inner, Store, verbs};

/// A peer, and since when it is lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerStatus {
    /// The peer.
    pub peer: Peer,
    /// Since when it is lost, if it is.
    pub lost_since: Option<Timestamp>,
    /// Since when servers record which peers acknowledged its deregistration.
    pub asked_at: Option<Timestamp>,
    /// The newest snapshot that is recorded as acknowledged by it.
    pub acknowledged: u64,
    /// The server that receives its heartbeats, or was the last to; nothing if none ever did.
    pub claimed_by: Option<ServerNumber>,
    /// The key of the secret that it calls with.
    pub key_id: KeyId,
}

/// Which peers are listed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFilter {
    /// Of this project; nothing means of each.
    pub project: Option<ProjectId>,
    /// With a secret of this key; nothing means of each.
    pub key: Option<KeyId>,
    /// Whether deregistered ones are listed too.
    pub deregistered: bool,
}

verbs! {
    /// Reads a peer.
    fn peer(id: PeerId) -> Result<Option<PeerStatus>, Error>;
    /// Reads the peers of a resource, oldest generation first.
    fn peers(resource: ResourceId) -> Result<Vec<Peer>, Error>;
    /// Reads the peers of these resources that are not deregistered.
    fn peers_of(resources: Vec<ResourceId>) -> Result<Vec<PeerStatus>, Error>;
    /// Lists peers after an id with the names of their resources, in one query.
    fn list_peers(
        filter: PeerFilter, after: Option<PeerId>, count: u32
    ) -> Result<Vec<(PeerStatus, String)>, Error>;
    /// Reads the peers of a project that are not deregistered, and the database's time if there
    /// are any.
    fn mesh(project: ProjectId) -> Result<(Option<Timestamp>, Vec<PeerStatus>), Error>;
    /// Records that a server hears a peer. A lost peer is live again, and its resource is woken;
    /// whether it was lost.
    fn claim_peer(id: PeerId, by: ServerNumber) -> Result<bool, Error>;
    /// Records that a peer is lost and wakes its resource; `false` if it already was, or if the
    /// server that hears it is not this one any more.
    fn lose_peer(id: PeerId, claimed_by: Option<ServerNumber>) -> Result<bool, Error>;
    /// Reads the peers of a project that are being drained.
    fn leaving(project: ProjectId) -> Result<Vec<PeerStatus>, Error>;
    /// Requests that every server records who acknowledged a drain; `false` if already requested.
    fn ask_acknowledgements(leaver: PeerId) -> Result<bool, Error>;
    /// Records who acknowledged a snapshot and wakes the resources of the project that wait for
    /// it.
    fn acknowledge(
        project: ProjectId, by: Vec<PeerId>, snapshot: u64
    ) -> Result<(), Error>;
}
