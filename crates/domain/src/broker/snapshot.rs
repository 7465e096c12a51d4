//! What an adapter returns from one snapshot of the outside: answers, not judgements.

use std::collections::BTreeMap;

use usher_kernel::{Generation, Name, Timestamp, Uid, Unknown};

use crate::object::authority::Authority;
use crate::object::id::PeerId;

/// An answer, or why there is none.
pub type Reading<T> = Result<T, Unknown>;

/// The unjudged answers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The authority that answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether the world is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub guard_tripped: bool,
    /// The namespace's readiness.
    pub namespace_ready: Reading<bool>,
    /// Every anchor under our names or with our label, by generation.
    pub anchors: Reading<BTreeMap<Generation, Object>>,
    /// Whether the ProviderConfig may be referred to.
    pub config_ready: bool,
    /// The object under the XR's name.
    pub xr: Reading<Option<XrObject>>,
    /// Everything the XR refers to, everything labelled as composed by it, and every composed
    /// name whose row is open.
    pub composed: Vec<ComposedSnapshot>,
    /// Whether all that the XR may have composed could be listed.
    pub composed_listed: Reading<()>,
    /// The tokens that were issued, by generation.
    pub tokens: BTreeMap<Generation, TokenState>,
    /// The peers that ever redeemed one, by generation.
    pub peers: Reading<BTreeMap<Generation, Peer>>,
    /// What guards the XR.
    pub protection: Reading<Guard>,
}

/// An object outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub uid: Uid,
    /// The text of its installation label.
    pub installation: Option<String>,
    /// The text of its resource-id label.
    pub record_id: Option<String>,
    /// The uid of its owner.
    pub owner: Option<Uid>,
    /// Whether it is being deleted.
    pub deleting: bool,
}

/// The XR and what it says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XrObject {
    pub object: Object,
    /// Its conditions.
    pub condition: Condition,
    /// Whether it differs from what would be rendered.
    pub drifted: bool,
}

/// What the XR's conditions say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// Neither ready nor failed.
    Converging,
    /// `Ready` is true.
    Ready,
    /// `ProvisioningFailed` is true.
    Failed {
        /// The condition's message.
        message: String,
    },
}

/// One composed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComposedSnapshot {
    /// The name; its generation is the one of the row, or of the XR that refers to it.
    pub name: Name,
    /// The plural of its kind, where the cluster serves it.
    pub plural: Option<String>,
    /// The object under it.
    pub reading: Reading<ComposedState>,
    /// Whether the XR refers to it.
    pub referred: bool,
}

/// The object under a composed name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComposedState {
    /// An object; ours if its chain of owners leads to our XR.
    Present {
        /// Its uid.
        uid: Uid,
        /// Whether our XR owns it.
        ours: bool,
    },
    /// Nothing.
    Absent,
    /// Its kind was removed from the world.
    KindRemoved,
}

/// A bootstrap token, as its own context judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenState {
    /// It can be redeemed.
    Redeemable,
    /// A node redeemed it.
    Consumed,
    /// It ran out.
    Expired,
    /// It was revoked.
    Revoked,
}

/// A peer, as its own context judges it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    pub id: PeerId,
    /// How it is.
    pub state: PeerState,
}

/// How a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Registered: live, or unknown since a restart.
    Registered,
    /// Registered, without a heartbeat for too long.
    Lost,
    /// Deregistered, its key revoked.
    Deregistered,
}

/// What guards the XR against deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Guard {
    /// None.
    None,
    /// Only we.
    Ours,
    /// Another party.
    Another,
}
