//! The finite facts a decision may branch on, and nothing else.
//!
//! [`RowFacts`] come from the Usage, [`Facts`] from one observation. Their product is what the
//! transition table covers, cell by cell.

use usher_kernel::Visibility;

use super::phase::Phase;
use crate::object::closed::closed_set;

/// What the Usage says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// Where it is.
    pub phase: Phase,
    /// Whether its deletion was requested.
    pub intent: Intent,
    /// Whether our finalizer holds it.
    pub finalizer: Finalizer,
    /// Whether what it refers to is resolved again.
    pub resolve: Resolve,
    /// Whether its owners wait for it.
    pub owners: Owners,
}

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How far the answers can be trusted.
    pub visibility: Visibility,
    /// Whether the references still mean what is recorded.
    pub resolution: Resolution,
    /// What is used.
    pub of: Of,
    /// The users.
    pub by: By,
    /// Whether a held object whose deletion was requested makes its owners wait.
    pub blocking: Blocking,
    /// Marks on what is not to be held (any more).
    pub excess: Excess,
}

closed_set! {
    /// Whether deletion of the Usage was requested.
    "usage intent" Intent {
        /// It is to exist.
        None = "None",
        /// It has a deletion timestamp.
        Requested = "Requested",
    }

    /// Whether our finalizer is on the Usage.
    "usage finalizer" Finalizer {
        /// It is.
        On = "On",
        /// It is not.
        Off = "Off",
    }

    /// How often references are resolved.
    "resolve" Resolve {
        /// Once: the use ends with the uid of its user.
        Once = "Once",
        /// At every snapshot: a new object under the same reference takes the place of the old one.
        Always = "Always",
    }

    /// Whether an owner of the Usage waits for it before its own deletion ends.
    "usage owners" Owners {
        /// None does.
        Free = "Free",
        /// One does.
        Waiting = "Waiting",
    }

    /// Whether the references still mean what is recorded.
    "resolution" Resolution {
        /// They do.
        Same = "Same",
        /// They mean something else, which is recorded first.
        Changed = "Changed",
        /// They cannot be used; what is recorded stays.
        Refused = "Refused",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// What is used; of several objects the one that needs something first.
    "of" Of {
        /// Nothing is resolved yet.
        Unresolved = "Unresolved",
        /// It is not there.
        Absent = "Absent",
        /// Its kind was removed from the world.
        KindRemoved = "KindRemoved",
        /// It exists, and its uid is not on record yet.
        Unrecorded = "Unrecorded",
        /// It exists and carries no mark that counts.
        Unmarked = "Unmarked",
        /// Its deletion was refused, and its mark has outlived the Usage that wrote it.
        Outlived = "Outlived",
        /// It is marked; whether its deletion is refused is not answered yet.
        Marked = "Marked",
        /// It is marked and its deletion would be allowed.
        Allowed = "Allowed",
        /// It is marked and its deletion was refused.
        Proven = "Proven",
        /// It is being deleted: no Usage can hold it.
        Leaving = "Leaving",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The user; of several users the one furthest from being gone.
    "by" By {
        /// None: it is protected for a reason.
        None = "None",
        /// The user was never seen.
        Missing = "Missing",
        /// The user exists.
        Present = "Present",
        /// The user is being deleted, and still there.
        Leaving = "Leaving",
        /// The object that was the user is gone.
        Gone = "Gone",
        /// The user's kind was removed from the world.
        KindRemoved = "KindRemoved",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// Whether a held object whose deletion was requested makes its owners wait.
    "blocking" Blocking {
        /// It does not.
        None = "None",
        /// It does: an owner that waits for it may be what its user waits for.
        Owners = "Owners",
    }

    /// Marks on what is not to be held (any more).
    "excess" Excess {
        /// None.
        None = "None",
        /// One exists and no other Usage holds its object.
        Marked = "Marked",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// What becomes of the next recorded deletion of what is not held (any more), as
    /// [`super::replay`] decides.
    "attempt" Attempt {
        /// None.
        None = "None",
        /// It is done, or will not be done.
        Settled = "Settled",
        /// Another Usage holds the object and does not have it on record.
        HandOver = "HandOver",
        /// It is to be replayed, which is recorded first.
        Due = "Due",
        /// Its replay is on record.
        Begun = "Begun",
        /// Unknown.
        Unknown = "Unknown",
    }
}
