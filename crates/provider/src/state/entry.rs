//! Journal entries: each holds the new value of what changed.

use std::fmt;

use bytes::Bytes;
use usher_wire::fleet::{Machine, MachineState, Resources};

use super::verb::Kind;

/// One change of the provider state.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Entry {
    /// The newest revision.
    #[prost(uint64, tag = "1")]
    pub head: u64,
    /// The next operation's number.
    #[prost(uint64, tag = "2")]
    pub next_operation: u64,
    /// The new record of a machine.
    #[prost(message, optional, tag = "3")]
    pub record: Option<Record>,
    /// The new mark.
    #[prost(message, optional, tag = "4")]
    pub mark: Option<Mark>,
}

/// A machine and the provider's private data about it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Record {
    /// The public machine.
    #[prost(message, optional, tag = "1")]
    pub machine: Option<Machine>,
    /// The last operation id of each verb; empty if there was none.
    #[prost(string, repeated, tag = "2")]
    pub operations: Vec<String>,
    /// The operation in progress.
    #[prost(message, optional, tag = "3")]
    pub pending: Option<Pending>,
    /// The revision of its last change.
    #[prost(uint64, tag = "4")]
    pub revision: u64,
    /// The offered resources, restored on Delete.
    #[prost(message, optional, tag = "5")]
    pub offered_resources: Option<Resources>,
    /// The offered allocatable resources, restored on Delete.
    #[prost(message, optional, tag = "6")]
    pub offered_allocatable: Option<Resources>,
}

/// An operation in progress.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Pending {
    /// The index of the verb.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The operation id.
    #[prost(string, tag = "2")]
    pub operation: String,
    /// The bootstrap blob; kept until the operation ends.
    #[prost(bytes = "bytes", tag = "3")]
    pub blob: Bytes,
    /// The grace period of a Drain.
    #[prost(int64, tag = "4")]
    pub grace_seconds: i64,
}

/// A fence mark: the highest token of a shard for a machine.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mark {
    /// The shard.
    #[prost(string, tag = "1")]
    pub shard: String,
    /// The machine.
    #[prost(string, tag = "2")]
    pub machine: String,
    /// The epoch of the shard.
    #[prost(int64, tag = "3")]
    pub epoch: i64,
    /// The sequence number in that epoch.
    #[prost(int64, tag = "4")]
    pub sequence: i64,
}

impl Entry {
    /// Whether it holds a bootstrap blob.
    pub fn has_blob(&self) -> bool {
        let pending = self.record.as_ref().and_then(|it| it.pending.as_ref());
        pending.is_some_and(|it| !it.blob.is_empty())
    }
}

impl Record {
    /// The public machine.
    pub fn machine(&self) -> Machine {
        self.machine.clone().unwrap_or_default()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.machine.as_ref().map_or("", |it| it.id.as_str())
    }

    /// Its state.
    pub fn state(&self) -> MachineState {
        self.machine.as_ref().map_or(MachineState::Unspecified, Machine::state)
    }

    /// The last operation id of a verb.
    pub fn operation(&self, kind: Kind) -> Option<&str> {
        self.operations.get(kind.index()).map(String::as_str).filter(|it| !it.is_empty())
    }

    pub(super) fn set_operation(&mut self, kind: Kind, operation: &str) {
        self.operations.resize(Kind::ALL.len(), String::new());
        if let Some(place) = self.operations.get_mut(kind.index()) {
            operation.clone_into(place);
        }
    }
}

impl Pending {
    /// The verb.
    pub fn kind(&self) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| u32::try_from(kind.index()) == Ok(self.kind))
    }
}

impl fmt::Debug for Pending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pending")
            .field("kind", &self.kind())
            .field("operation", &self.operation)
            .field("blob", &format_args!("{} bytes", self.blob.len()))
            .field("grace_seconds", &self.grace_seconds)
            .finish()
    }
}
