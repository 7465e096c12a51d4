//! The log as readers see it: rows about resources and machines, in one order.

use serde_json::{Map, Value};
use usher_domain::object::id::{EventId, MachineLifeId, ProjectId, ResourceId};
use usher_kernel::{Timestamp, Version};

/// A reader's place in the log, as the log spells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor(pub String);

/// One row of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct Told {
    /// Its place.
    pub cursor: Cursor,
    /// Its id, the same in every delivery.
    pub id: EventId,
    /// What was told, from the closed set of the context.
    pub event_type: &'static str,
    /// About whom.
    pub subject: Subject,
    /// With which version of the record.
    pub version: Version,
    /// When.
    pub occurred_at: Timestamp,
    /// What else is worth knowing.
    pub data: Map<String, Value>,
}

/// Whom a row of the log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A resource of a project.
    Resource(ResourceId, ProjectId),
    /// A machine, which belongs to no project.
    Machine(MachineLifeId),
}
