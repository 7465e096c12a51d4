//! The event log: entries about resources and machines in one order.

use serde_json::{Map, Value};
use usher_domain::object::id::{EventId, MachineRecordId, ProjectId, ResourceId};
use usher_kernel::{Timestamp, Version};

/// A position in the log, opaque to readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    pub cursor: Cursor,
    /// The same in every delivery.
    pub id: EventId,
    /// From the closed set of the context.
    pub event_type: &'static str,
    pub subject: Subject,
    /// The version of the record.
    pub version: Version,
    pub occurred_at: Timestamp,
    pub data: Map<String, Value>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    Resource(ResourceId, ProjectId),
    /// A machine belongs to no project.
    Machine(MachineRecordId),
}
