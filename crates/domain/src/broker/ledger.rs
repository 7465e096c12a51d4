//! Input and output of the broker's ledger, the same for every store and for the simulation.

use std::convert::Infallible;
use std::time::Duration;

use usher_kernel::schedule::Claim;
use usher_kernel::{Record, Row, Timestamp, Version, Wake};
use uuid::Uuid;

use super::aggregate::Resource;
use super::event::Event;
use super::ports::Views;
use super::provider_config::ProviderConfig;
use crate::object::id::{ProviderConfigId, ResourceId};
use crate::object::idempotency;

/// An item of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkItem {
    /// A provisioned resource.
    Resource(ResourceId),
    /// What is left of one.
    Tombstone(ResourceId),
    /// A ProviderConfig.
    ProviderConfig(ProviderConfigId),
}

impl WorkItem {
    /// Every kind's word, as the queue keeps it.
    pub const KINDS: [&str; 3] = ["resource", "tombstone", "provider_config"];
    /// The words of the kinds that have a record of their own.
    pub const RECORDS: [&str; 2] = ["resource", "provider_config"];

    /// The word for its kind.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::Resource(_) => "resource",
            Self::Tombstone(_) => "tombstone",
            Self::ProviderConfig(_) => "provider_config",
        }
    }

    /// The id of its record.
    pub const fn id(self) -> Uuid {
        match self {
            Self::Resource(id) | Self::Tombstone(id) => *id.as_uuid(),
            Self::ProviderConfig(id) => *id.as_uuid(),
        }
    }

    /// The item with this kind and id.
    pub fn read(kind: &str, id: Uuid) -> Option<Self> {
        match kind {
            "resource" => Some(Self::Resource(ResourceId::from_uuid(id))),
            "tombstone" => Some(Self::Tombstone(ResourceId::from_uuid(id))),
            "provider_config" => Some(Self::ProviderConfig(ProviderConfigId::from_uuid(id))),
            _ => None,
        }
    }
}

impl std::fmt::Display for WorkItem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} \"{}\"", self.kind(), self.id())
    }
}

/// Everything a declaration is resolved against, and the database's time of that read.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    pub views: Views,
    /// What is remembered of the caller's idempotency key, if it sent one.
    pub used: Option<idempotency::Used>,
    /// When.
    pub now: Timestamp,
}

/// An idempotency key to remember.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RememberedKey {
    /// The owner of the key.
    pub scope: idempotency::Scope,
    pub key: idempotency::Key,
    /// The digest of the request.
    pub digest: idempotency::Digest,
    /// How long it is remembered.
    pub keep: Duration,
}

/// Items that are due, leased to the caller.
#[derive(Debug, Default)]
pub struct Batch {
    /// The database's time: the `now` of their steps.
    pub now: Option<Timestamp>,
    /// The items that may be stepped.
    pub leased: Vec<Leased>,
    /// Records whose rows break an invariant, and which: only an operator's retry requeues them.
    pub parked: Vec<(WorkItem, String)>,
}

/// One item, leased, as it was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Leased {
    pub item: WorkItem,
    /// The lease.
    pub claim: Claim,
    pub record: Held,
    /// The database's time of the claim.
    pub now: Timestamp,
}

/// The record of a leased item.
#[derive(Clone, Debug, PartialEq)]
pub enum Held {
    /// Of a resource, or of its tombstone.
    Resource(Box<Record<Resource>>),
    /// Of a ProviderConfig.
    ProviderConfig(Record<ProviderConfig>),
}

/// How a lease is given back after a finished step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Release {
    pub item: WorkItem,
    /// The lease.
    pub claim: Claim,
    /// When to requeue.
    pub wake: Wake,
    /// Why, from the closed set of the record's kind.
    pub reason: &'static str,
}

/// The lease that a write is made under and that is kept after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stay {
    pub item: WorkItem,
    /// The lease.
    pub claim: Claim,
    /// Why, from the closed set of the record's kind.
    pub reason: &'static str,
    /// Whether the write finishes its step, so that no trouble is left.
    pub finished: bool,
}

/// What one step writes of a record.
#[derive(Clone, Debug, PartialEq)]
pub struct RecordWrite<S, E> {
    /// The version that must still hold.
    pub version: Version,
    /// The row as it was at that version.
    pub before: S,
    /// The row as it shall be.
    pub next: S,
    /// The identity rows that change with it.
    pub rows: Vec<Row>,
    /// The event of the crossing, if it has one.
    pub event: Option<E>,
    /// The lease it is written under, if that is kept: a lease holder that was overtaken writes
    /// nothing.
    pub lease: Option<Stay>,
    /// The lease to give back with it, if the step is finished by it.
    pub release: Option<Release>,
}

/// What one step writes of a resource or its tombstone.
pub type ResourceWrite = RecordWrite<Resource, Event>;
/// What one step writes of a ProviderConfig.
pub type ConfigWrite = RecordWrite<ProviderConfig, Infallible>;

/// A command of a person about a resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Its deletion.
    Deprovision,
    /// It shall be made again.
    Replace,
    /// It shall be abandoned.
    Abandon {
        /// The operator.
        by: String,
        /// Why.
        reason: String,
    },
    /// What was abandoned shall be torn down after all.
    Reap {
        /// The operator.
        by: String,
    },
    /// It is requeued now, even if it was parked.
    Retry,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_read_back_by_its_words() {
        let (resource, config) =
            (ResourceId::from_uuid(Uuid::max()), ProviderConfigId::from_uuid(Uuid::max()));
        let items = [
            WorkItem::Resource(resource),
            WorkItem::Tombstone(resource),
            WorkItem::ProviderConfig(config),
        ];
        assert_eq!(items.map(WorkItem::kind), WorkItem::KINDS);
        for item in items {
            assert_eq!(WorkItem::read(item.kind(), item.id()), Some(item));
        }
        assert_eq!(WorkItem::read("machine", Uuid::max()), None);
    }
}
