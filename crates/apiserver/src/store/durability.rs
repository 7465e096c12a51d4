//! Where the store keeps what it answered for.

use std::sync::Arc;

use bytes::Bytes;

/// A keeper of objects and of the newest revisions.
///
/// *Guarantees wanted*: [`Durability::commit`] returns only when the whole batch would survive the
/// death of the process, and a batch is never half there. *Assumptions*: one caller, from one
/// thread; revisions grow from batch to batch and never repeat.
pub trait Durability: Send + 'static {
    /// Everything that is kept, for a start.
    fn load(&mut self) -> Result<Loaded, DurabilityError>;
    /// Keeps a batch of changes, whole, before it returns.
    fn commit(&mut self, batch: &[Record]) -> Result<(), DurabilityError>;
    /// Forgets the changes up to this revision; the objects stay.
    fn compact(&mut self, revision: u64) -> Result<(), DurabilityError>;
}

/// One change: what an object was and what it became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// The revision of the change.
    pub revision: u64,
    /// The resource, as `plural.group`.
    pub table: Arc<str>,
    /// `namespace/name`, or the name alone.
    pub key: Arc<str>,
    /// The object before, as JSON.
    pub old: Option<Bytes>,
    /// The object after, as JSON; without one the change was a removal.
    pub new: Option<Bytes>,
}

/// One object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The resource, as `plural.group`.
    pub table: Arc<str>,
    /// `namespace/name`, or the name alone.
    pub key: Arc<str>,
    /// The object as JSON.
    pub value: Bytes,
}

/// What a keeper remembers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The newest revision that was ever kept.
    pub head: u64,
    /// The revision up to which changes are forgotten.
    pub floor: u64,
    /// Every object.
    pub objects: Vec<StoredObject>,
    /// The changes after the floor, oldest first.
    pub log: Vec<Record>,
}

/// A keeper that failed.
#[derive(Debug, thiserror::Error)]
#[error("cannot {action} the file of the API server")]
pub struct DurabilityError {
    /// What was tried, as a verb.
    pub action: &'static str,
    /// What the keeper said.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl DurabilityError {
    /// An error of an action.
    pub fn new(
        action: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { action, source: source.into() }
    }
}
