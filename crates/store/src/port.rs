//! What goes in and out of the store, whichever database is behind it.

use std::fmt;
use std::str::FromStr;

use serde_json::{Map, Value};
use thiserror::Error;
use usher_domain::audit;
use usher_domain::broker::accept::Accepted;
use usher_domain::broker::event::EventType;
pub use usher_domain::broker::ledger::{
    Batch, Command, ConfigWrite, Held, Leased, Release, RememberedKey, ResourceWrite, Snapshot,
    Stay, WorkItem,
};
use usher_domain::fleet;
use usher_domain::object::id::{EventId, InstallationId, MachineRecordId, ProjectId, ResourceId};
use usher_kernel::{Timestamp, Version};
use uuid::Uuid;

/// Which installation a database belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Installation {
    /// Its id.
    pub id: InstallationId,
    /// How it came to be.
    pub provenance: Provenance,
}

/// How an installation came to be, as far as its database shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Provenance {
    /// It is new.
    New,
    /// It was here before.
    Known,
    /// It was here before, and its server was promoted or recovered to a point in time: commits may
    /// be missing that a client saw.
    Recovered,
    /// Its database was seen elsewhere: it is a clone or was restored.
    Moved {
        /// What it was called there.
        before: InstallationId,
    },
}

/// What is written beside an accepted declaration.
#[derive(Clone, Debug, PartialEq)]
pub struct Acceptance {
    /// The declaration.
    pub accepted: Accepted,
    /// The row of the audit log.
    pub audit: Option<audit::Entry>,
    /// The idempotency key to record.
    pub key: Option<RememberedKey>,
}

impl Acceptance {
    /// The version of a resource that was just accepted.
    pub const VERSION: Version = Version(1);
}

/// A reader's place in the log: everything up to it has been read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cursor {
    /// Counts the databases the log was continued in.
    pub epoch: u64,
    /// The transaction; SQLite has none.
    pub transaction: u64,
    /// The row.
    pub seq: u64,
}

impl Cursor {
    /// Before the first row that is kept.
    pub const START: Self = Self { epoch: 0, transaction: 0, seq: 0 };
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.epoch, self.transaction, self.seq)
    }
}

/// A text that is no cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot read the cursor")]
pub struct BadCursor;

impl FromStr for Cursor {
    type Err = BadCursor;

    fn from_str(text: &str) -> Result<Self, BadCursor> {
        let mut parts = text.split('.').map(|part| {
            let plain = !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
            part.parse::<u64>().ok().filter(|it| plain && *it <= i64::MAX.unsigned_abs())
        });
        let mut next = || parts.next().flatten().ok_or(BadCursor);
        let cursor = Self { epoch: next()?, transaction: next()?, seq: next()? };
        if parts.next().is_some() { Err(BadCursor) } else { Ok(cursor) }
    }
}

/// One row of the log.
#[derive(Clone, Debug, PartialEq)]
pub struct LoggedEvent {
    /// Its place.
    pub cursor: Cursor,
    /// Its id, the same in every delivery.
    pub id: EventId,
    /// The event, and what it is about.
    pub about: About,
    /// With which version of the record.
    pub version: Version,
    /// When.
    pub occurred_at: Timestamp,
    /// The payload.
    pub data: Map<String, Value>,
}

/// The event, and what it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A resource of the broker.
    Resource {
        /// Which.
        id: ResourceId,
        /// In which project.
        project: ProjectId,
        /// What.
        event_type: EventType,
    },
    /// A machine of the fleet, which belongs to no project.
    Machine {
        /// The machine.
        id: MachineRecordId,
        /// What.
        event_type: fleet::event::EventType,
    },
}

impl About {
    /// The discriminator.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Resource { event_type, .. } => event_type.as_str(),
            Self::Machine { event_type, .. } => event_type.as_str(),
        }
    }

    /// The record that it is about.
    pub const fn subject(self) -> Uuid {
        match self {
            Self::Resource { id, .. } => *id.as_uuid(),
            Self::Machine { id, .. } => *id.as_uuid(),
        }
    }

    /// The resource, if it is about one.
    pub const fn resource(self) -> Option<ResourceId> {
        match self {
            Self::Resource { id, .. } => Some(id),
            Self::Machine { .. } => None,
        }
    }

    /// The project, if it happened in one.
    pub const fn project(self) -> Option<ProjectId> {
        match self {
            Self::Resource { project, .. } => Some(project),
            Self::Machine { .. } => None,
        }
    }
}

/// What labels are on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layer {
    /// The whole installation: the widest surroundings.
    Installation,
    /// A project.
    Project(ProjectId),
    /// A resource.
    Resource(ResourceId),
}

impl Layer {
    /// The name of every layer, from the widest to the nearest.
    pub const WORDS: [&str; 3] = ["installation", "project", "resource"];

    /// Its name in rows.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Installation => "installation",
            Self::Project(_) => "project",
            Self::Resource(_) => "resource",
        }
    }

    /// Whose labels they are; the installation is one and has no name.
    pub(crate) const fn owner(self) -> Uuid {
        match self {
            Self::Installation => Uuid::nil(),
            Self::Project(id) => *id.as_uuid(),
            Self::Resource(id) => *id.as_uuid(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nothing_else_is_one() {
        let cursor = Cursor { epoch: 2, transaction: 70_000, seq: 9 };
        assert_eq!(cursor.to_string(), "2.70000.9");
        assert_eq!("2.70000.9".parse(), Ok(cursor));
        for text in [
            "",
            "1",
            "1.2",
            "1.2.3.4",
            "1.2.-3",
            "1.2.+3",
            "a.b.c",
            "1..3",
            "1.2.9223372036854775808",
        ] {
            assert_eq!(text.parse::<Cursor>(), Err(BadCursor), "{text}");
        }
        assert!(Cursor::START < cursor);
    }
}
