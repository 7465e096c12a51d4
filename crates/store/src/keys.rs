//! The ids of the server keys, and how many secrets name each.

use usher_domain::object::enrolment::KeyId;
use usher_domain::object::id::PeerId;
use usher_domain::object::key::KeyRecord;

use crate::error::Error;
use crate::peers::PeerStatus;
use crate::store::{Inner, Store, verbs};

/// A key, and what names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyUse {
    pub key: KeyRecord,
    /// Bootstrap tokens that may still be redeemed.
    pub tokens: u64,
    /// Nodes that are not deregistered.
    pub nodes: u64,
}

verbs! {
    /// Records the first key of an installation, unless it has one; every key.
    fn admit_key(id: KeyId) -> Result<Vec<KeyRecord>, Error>;
    /// Reads every key, oldest first.
    fn keys() -> Result<Vec<KeyRecord>, Error>;
    /// Reads every key with what names it, oldest first.
    fn key_uses() -> Result<Vec<KeyUse>, Error>;
    /// Retires previous keys that no open token and no live node names; which.
    fn retire_keys() -> Result<Vec<KeyId>, Error>;
    /// Reads a peer and the current key.
    fn node(id: PeerId) -> Result<Option<(PeerStatus, KeyId)>, Error>;
    /// Records that a node calls with the secret of this key, which must be current.
    fn move_node_to_key(id: PeerId, key: KeyId) -> Result<(), Error>;
}
