//! What an adapter returns from one snapshot of the outside: answers, not judgements.
//!
//! The order matters: the operations are read before the object, so that one that ends in between
//! is seen by what it made.

use std::time::Duration;

use usher_kernel::{Timestamp, Uid, Unknown};

use super::identity::Identified;
use super::mark::Mark;
use super::operation::Operation;
use super::reference::Unresolved;
use crate::object::authority::Authority;
use crate::object::kv::KvCoordinates;

/// An answer of the cloud, or why there is none.
pub type Reading<T> = Result<T, ReadError>;

/// Why the cloud gave no answer that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It refused: we may not read it, or its container does not exist.
    Refused,
    /// It throttles requests.
    Throttled {
        /// How long it asks us to wait.
        retry_after: Option<Duration>,
    },
    /// It failed, or could not be reached in time.
    Unavailable,
}

/// The unjudged answers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The authority that answered for the cloud.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// When the last lease ended that was not released cleanly.
    pub may_act_until: Option<Timestamp>,
    /// Whether the cluster is the pinned one.
    pub cluster: Authority,
    /// Whether too many of its objects vanished at once.
    pub cluster_guard_tripped: bool,
    /// The Kubernetes object under the name of the row.
    pub object: Result<Option<Object>, Unknown>,
    /// Where the credential lies that the object may use.
    pub credential: KvCoordinates,
    /// The identity that the spec resolves to; `None` if not queried.
    pub spec: Option<Result<Identified, Unresolved>>,
    /// Whether the configuration references resolve; they are not resolved during teardown.
    pub configuration: Option<Result<(), Unresolved>>,
    /// The references of the spec, as it spells them.
    pub references: Vec<String>,
    /// Whether the cloud's answers are those of its authority; a replica that lags is not.
    pub authority: Authority,
    /// Whether too much vanished from the cloud at once.
    pub guard_tripped: bool,
    /// The operations on the cloud object, the newest first.
    pub operations: Reading<Vec<Operation>>,
    /// What the cloud said of one identity.
    pub cloud: Option<CloudReading>,
    /// What carries our mark in the account; queried where no identity is recorded.
    pub search: Option<Reading<Vec<(Identified, Found)>>>,
}

/// The Kubernetes object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub uid: Uid,
    /// Whether it is being deleted.
    pub deleting: bool,
    pub finalizers: Vec<String>,
    /// The text of its deletion policy.
    pub policy: Option<String>,
    /// The stamp in its annotation.
    pub stamp: Option<String>,
    /// The stamp in its status.
    pub status: Option<String>,
}

/// What the cloud said of one identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudReading {
    /// The identity.
    pub identified: Identified,
    /// The object there.
    pub found: Reading<Option<Found>>,
    /// Whether its container exists; probed after a refusal.
    pub container: Option<Container>,
}

/// A cloud object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Its uid, or what this cloud has in its place: something that no other object ever has.
    pub uid: Uid,
    /// Its revision.
    pub etag: Option<String>,
    /// Our mark, or a foreign one.
    pub mark: Option<Mark>,
    /// Whether it differs from what is declared.
    pub drifted: bool,
    /// Whether it is being deleted.
    pub leaving: bool,
}

/// The container of a cloud object, as its own authority says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Container {
    /// It exists: the refusal was meant for us.
    NameState,
    /// It is gone, and everything in it.
    Gone,
    /// Unknown.
    Unknown,
}
