//! What is written down: each entry says what is true from then on.

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
    /// A machine as it is now.
    #[prost(message, optional, tag = "3")]
    pub record: Option<Record>,
    /// A mark as it is now.
    #[prost(message, optional, tag = "4")]
    pub mark: Option<Mark>,
}

/// A machine, and what only its provider knows of it.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Record {
    /// The machine as it is shown.
    #[prost(message, optional, tag = "1")]
    pub machine: Option<Machine>,
    /// The last operation of each verb; empty if there was none.
    #[prost(string, repeated, tag = "2")]
    pub operations: Vec<String>,
    /// What is being done.
    #[prost(message, optional, tag = "3")]
    pub pending: Option<Pending>,
    /// When it changed last.
    #[prost(uint64, tag = "4")]
    pub revision: u64,
    /// Its shape before it was made, which it has again when it is given back.
    #[prost(message, optional, tag = "5")]
    pub offered_resources: Option<Resources>,
    /// What of it could be used before it was made.
    #[prost(message, optional, tag = "6")]
    pub offered_allocatable: Option<Resources>,
}

/// What is being done to a machine.
#[derive(Clone, PartialEq, prost::Message)]
#[prost(skip_debug)]
pub struct Pending {
    /// The verb's place among the verbs.
    #[prost(uint32, tag = "1")]
    pub kind: u32,
    /// The operation.
    #[prost(string, tag = "2")]
    pub operation: String,
    /// What the machine needs to join; kept as long as it may be needed again.
    #[prost(bytes = "bytes", tag = "3")]
    pub blob: Bytes,
    /// How long work may take to end.
    #[prost(int64, tag = "4")]
    pub grace_seconds: i64,
}

/// The highest token of a shard for a machine.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Mark {
    /// The shard.
    #[prost(string, tag = "1")]
    pub shard: String,
    /// The machine.
    #[prost(string, tag = "2")]
    pub machine: String,
    /// The shard's life.
    #[prost(int64, tag = "3")]
    pub epoch: i64,
    /// Its count in that life.
    #[prost(int64, tag = "4")]
    pub sequence: i64,
}

impl Entry {
    /// Whether it holds what somebody needs to join.
    pub fn has_blob(&self) -> bool {
        let pending = self.record.as_ref().and_then(|it| it.pending.as_ref());
        pending.is_some_and(|it| !it.blob.is_empty())
    }
}

impl Record {
    /// The machine as it is shown.
    pub fn machine(&self) -> Machine {
        self.machine.clone().unwrap_or_default()
    }

    /// Its id.
    pub fn id(&self) -> &str {
        self.machine.as_ref().map_or("", |it| it.id.as_str())
    }

    /// Where it is.
    pub fn state(&self) -> MachineState {
        self.machine.as_ref().map_or(MachineState::Unspecified, Machine::state)
    }

    /// The last operation of a verb.
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
