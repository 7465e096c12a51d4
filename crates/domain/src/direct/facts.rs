//! The finite facts a decision may branch on, and nothing else.
//!
//! [`RowFacts`] come from the row, its identity rows and the clock, [`Facts`] from one observation.
//! Their product is what the transition table covers, cell by cell.

use usher_kernel::{Unknown, Visibility};

use super::phase::Phase;
use crate::object::closed::closed_set;

/// What the row says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    pub phase: Phase,
    /// What is recorded of the cloud object, this snapshot included.
    pub identity: Identity,
    /// Whether an earlier request may still arrive.
    pub grace_over: GraceOver,
    /// Whether the cloud object was requested to be deleted.
    pub asked: Asked,
    /// Whether the end is on record.
    pub ended: Ended,
}

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The Kubernetes object.
    pub object: Object,
    /// Whether another party holds it.
    pub hold: Hold,
    /// What its annotation says about deletion.
    pub policy: Policy,
    /// What the references of the spec resolve to; during teardown, those of the identity alone.
    pub refs: Refs,
    /// What carries our mark, where no identity is on record.
    pub search: Search,
    /// Whether the object carries what is on record.
    pub stamp: Stamp,
    /// The newest operation on the cloud object.
    pub operation: Operation,
    /// The object under the identity.
    pub cloud: Cloud,
}

closed_set! {
    /// What is recorded of the cloud object.
    "identity" Identity {
        /// Nothing, and the ledger was there from the start: nothing was ever sent.
        None = "None",
        /// Nothing, but the object was ours before this ledger knew it.
        Lost = "Lost",
        /// Nothing, and this snapshot found it: it is recorded before it is used.
        Found = "Found",
        /// Recorded, perhaps requested, not seen yet.
        Intended = "Intended",
        /// Seen, and ours.
        Seen = "Seen",
        /// Proven absent.
        Gone = "Gone",
        /// A foreign cloud object has the name.
        Foreign = "Foreign",
        /// Nothing, and the object carries the stamp of another one: it is a copy.
        BoundElsewhere = "BoundElsewhere",
        /// Nothing, and the stamp cannot be read.
        Malformed = "Malformed",
        /// Abandoned by command.
        Abandoned = "Abandoned",
    }

    /// Whether a request from before the deletion may still arrive.
    "grace_over" GraceOver {
        /// It may: absence does not count.
        No = "No",
        /// It cannot.
        Yes = "Yes",
    }

    /// Whether the cloud object was requested to be deleted.
    "asked" Asked {
        /// It was not.
        No = "No",
        /// It was.
        Yes = "Yes",
    }

    /// Whether the end is on record.
    "ended" Ended {
        /// It is not.
        No = "No",
        /// It is, with its proof.
        Yes = "Yes",
    }

    /// The Kubernetes object.
    "object" Object {
        /// It is to exist, without our finalizer.
        Unheld = "Unheld",
        /// It is to exist, with our finalizer.
        Held = "Held",
        /// Being deleted, with our finalizer.
        Leaving = "Leaving",
        /// Being deleted, without our finalizer.
        Free = "Free",
        /// Not there any more.
        Gone = "Gone",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// Whether another party holds the object.
    "hold" Hold {
        /// It is not held.
        None = "None",
        /// A hold finalizer of another party is on it.
        Another = "Another",
    }

    /// What the annotation says about deletion.
    "policy" Policy {
        /// Delete; hold an orphan.
        Hold = "Hold",
        /// Delete; release an orphan, and record it.
        Release = "Release",
        /// Do not touch the cloud object.
        Abandon = "Abandon",
        /// It cannot be read.
        Unreadable = "Unreadable",
    }

    /// What the references resolve to.
    "refs" Refs {
        /// Not queried.
        Unasked = "Unasked",
        /// To the identity on record, or to one where none is on record.
        Agrees = "Agrees",
        /// To another identity than the one on record.
        Differs = "Differs",
        /// One can never resolve.
        Invalid = "Invalid",
        /// One names an object that is not there.
        NotFound = "NotFound",
        /// One names an object that is being deleted.
        Terminating = "Terminating",
        /// One names an object without an identity.
        NotReady = "NotReady",
        /// The kind of one is not installed.
        KindNotInstalled = "KindNotInstalled",
        /// One may not be read.
        Forbidden = "Forbidden",
        /// One could not be read.
        Unavailable = "Unavailable",
    }

    /// What carries our mark.
    "search" Search {
        /// Nothing, or this kind carries no marks, or no search was needed.
        None = "None",
        /// One cloud object.
        One = "One",
        /// Several.
        Several = "Several",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// Whether the object carries what is on record.
    "stamp" Stamp {
        /// It does.
        Current = "Current",
        /// It does not yet.
        Stale = "Stale",
    }

    /// The newest operation on the cloud object.
    "operation" Operation {
        /// None, or it ended well.
        None = "None",
        /// It runs.
        Running = "Running",
        /// It ended badly.
        Failed = "Failed",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The object under the identity.
    "cloud" Cloud {
        /// Not queried.
        Unasked = "Unasked",
        /// Nothing, said by the authority.
        Absent = "Absent",
        /// Nothing: the container that it would be in is proven gone.
        ContainerGone = "ContainerGone",
        /// Ours, on record, as declared.
        Ours = "Ours",
        /// Ours, on record, not as declared.
        Drifted = "Drifted",
        /// Ours by its mark; it is recorded with this snapshot.
        Unrecorded = "Unrecorded",
        /// Ours, and being deleted.
        Leaving = "Leaving",
        /// A foreign one.
        Foreign = "Foreign",
        /// We may not read it, and the container is not known to be gone.
        Forbidden = "Forbidden",
        /// The cloud throttles us.
        Throttled = "Throttled",
        /// No answer.
        Unavailable = "Unavailable",
        /// The answer of a replica that lags.
        Lagging = "Lagging",
        /// Ours is missing, and too much else with it.
        Vanished = "Vanished",
    }
}

/// What an answer of the cloud says of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CloudPresence {
    /// Nothing.
    Nothing,
    /// Nothing: its container is gone.
    NoContainer,
    /// Ours, as declared.
    Ours,
    /// Ours, not as declared.
    Drifted,
    /// Ours by its mark.
    Unrecorded,
    /// Ours, and being deleted.
    Leaving,
    /// A foreign one.
    Foreign,
}

impl Cloud {
    /// The object there; unknown without an answer that counts.
    pub const fn presence(self) -> Option<CloudPresence> {
        match self {
            Self::Absent => Some(CloudPresence::Nothing),
            Self::ContainerGone => Some(CloudPresence::NoContainer),
            Self::Ours => Some(CloudPresence::Ours),
            Self::Drifted => Some(CloudPresence::Drifted),
            Self::Unrecorded => Some(CloudPresence::Unrecorded),
            Self::Leaving => Some(CloudPresence::Leaving),
            Self::Foreign => Some(CloudPresence::Foreign),
            Self::Unasked
            | Self::Forbidden
            | Self::Throttled
            | Self::Unavailable
            | Self::Lagging
            | Self::Vanished => None,
        }
    }
}

impl Facts {
    /// How much of the snapshot was answered. An answer that was not queried is not missing.
    pub fn visibility(self) -> Visibility {
        let forbidden = self.refs == Refs::Forbidden || self.cloud == Cloud::Forbidden;
        let silent = self.object == Object::Unknown
            || self.refs == Refs::Unavailable
            || self.search == Search::Unknown
            || self.operation == Operation::Unknown
            || matches!(self.cloud, Cloud::Throttled | Cloud::Unavailable | Cloud::Lagging);
        let worst = match (forbidden, silent) {
            (true, _) => Some(Unknown::Forbidden),
            (false, true) => Some(Unknown::Unreachable),
            (false, false) => (self.cloud == Cloud::Vanished).then_some(Unknown::GuardTripped),
        };
        Visibility::judge(false, false, worst)
    }
}

impl Refs {
    /// Whether the spec resolves to an identity.
    pub const fn resolves(self) -> bool {
        matches!(self, Self::Agrees | Self::Differs)
    }
}
