//! Persistence of the store.

use std::sync::Arc;

use bytes::Bytes;

/// Persists objects and the newest changes.
///
/// *Guarantees*: [`Durability::commit`] returns only when the whole batch is durable, and a batch
/// is atomic. *Assumptions*: one caller, from one thread; revisions rise from batch to batch.
pub trait Durability: Send + 'static {
    /// Loads everything at the start.
    fn load(&mut self) -> Result<Loaded, DurabilityError>;
    /// Makes a batch of changes durable before it returns.
    fn commit(&mut self, batch: &[Record]) -> Result<(), DurabilityError>;
    /// Removes the changes up to this revision; the objects stay.
    fn compact(&mut self, revision: u64) -> Result<(), DurabilityError>;
}

/// One change of an object.
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
    /// The object after, as JSON; `None` for a removal.
    pub new: Option<Bytes>,
}

/// A stored object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// The resource, as `plural.group`.
    pub table: Arc<str>,
    /// `namespace/name`, or the name alone.
    pub key: Arc<str>,
    /// The object as JSON.
    pub value: Bytes,
}

/// The persisted state.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Loaded {
    /// The newest committed revision.
    pub head: u64,
    /// The compacted revision.
    pub floor: u64,
    /// Every object.
    pub objects: Vec<StoredObject>,
    /// The changes after the floor, oldest first.
    pub log: Vec<Record>,
}

/// Data in the format of another version of this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("its format is {found}, and this server reads {known}")]
pub(crate) struct OtherFormat {
    pub(crate) found: u64,
    pub(crate) known: u64,
}

/// A failed persistence operation.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} the file of the API server")]
pub struct DurabilityError {
    /// The operation, as a verb.
    pub action: &'static str,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

impl DurabilityError {
    /// An error of an operation.
    pub fn new(
        action: &'static str,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        Self { action, source: source.into() }
    }
}
