//! The finite facts of a ProviderConfig, and its verdict.

use std::convert::Infallible;

use usher_kernel::Visibility;

use super::reason::Reason;
use crate::broker::facts::{Anchor, Finalization, Gate};
use crate::object::closed::closed_set;

closed_set! {
    /// Where a ProviderConfig is.
    "provider config phase" Phase {
        /// It has users and is not complete yet.
        Pending = "Pending",
        /// There, and recorded.
        Ready = "Ready",
        /// It has no users; it is being torn down.
        Leaving = "Leaving",
        /// Nothing is left of it.
        Gone = "Gone",
    }

    /// Whether it has users.
    "users" Users {
        /// None.
        None = "None",
        /// At least one.
        Some = "Some",
    }

    /// The ProviderConfig together with its Secret, which exists exactly as long.
    "object" Object {
        /// Neither is there.
        Absent = "Absent",
        /// Ours, but the uid of one is not in the ledger yet.
        Unrecorded = "Unrecorded",
        /// Ours, recorded, and as rendered; during teardown: one still exists.
        Present = "Present",
        /// Ours and recorded, but one is not as it should be rendered, or missing.
        Drifted = "Drifted",
        /// Ours, and one is being deleted.
        Deleting = "Deleting",
        /// A foreign object has a name of theirs; during teardown: and none of ours exists.
        Foreign = "Foreign",
        /// Unknown.
        Unknown = "Unknown",
    }

    /// The effects of a ProviderConfig.
    "verb" VerbKind {
        /// Create the anchor of the generation.
        CreateAnchor = "CreateAnchor",
        /// Create each object, or apply it onto the one that was seen.
        Apply = "Apply",
        /// Delete one object, at the uid and revision that were seen.
        Delete = "Delete",
        /// Delete the anchor.
        DeleteAnchor = "DeleteAnchor",
    }
}

/// What the row says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// Where it is.
    pub phase: Phase,
    /// Whether it has users.
    pub users: Users,
    /// How far the row is from being allowed to end.
    pub finalization: Finalization,
}

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How far the answers can be trusted.
    pub visibility: Visibility,
    /// The project's namespace.
    pub gate: Gate,
    pub anchor: Anchor,
    /// The ProviderConfig together with its Secret.
    pub object: Object,
}

/// What becomes of the record beside its phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// The generation ended; the next one begins.
    NextGeneration,
}

/// What the rules answer: everything but the names. There are no events of a ProviderConfig.
pub type Verdict = usher_kernel::Verdict<VerbKind, Phase, RecordChange, Infallible, Reason>;
