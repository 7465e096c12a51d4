//! The finite facts of a ProviderConfig's life, and its verdict.

use std::convert::Infallible;

use usher_kernel::Visibility;

use crate::broker::facts::{Anchor, Finalization, Gate};
use crate::object::closed::closed_set;
use crate::object::unknown::unknown_reasons;

closed_set! {
    /// Where a ProviderConfig is.
    "provider config phase" Phase {
        /// Wanted, not there yet.
        Pending = "Pending",
        /// There, and recorded.
        Ready = "Ready",
        /// It has no users; it is being torn down.
        Leaving = "Leaving",
        /// Nothing is left of it.
        Gone = "Gone",
    }
}

closed_set! {
    /// Whether anybody uses it.
    "users" Users {
        /// None.
        None = "None",
        /// At least one.
        Some = "Some",
    }
}

closed_set! {
    /// The ProviderConfig together with its Secret, which lives exactly as long.
    "object" Object {
        /// Neither is there.
        Absent = "Absent",
        /// Ours, but the uid of one is not in the ledger yet.
        Unrecorded = "Unrecorded",
        /// Ours, recorded, and as rendered; during teardown: one still stands.
        Present = "Present",
        /// Ours and recorded, but one is not as it should be rendered, or missing.
        Drifted = "Drifted",
        /// Ours, and one is on its way out.
        Deleting = "Deleting",
        /// A foreign object has a name of theirs; during teardown: and no other stands.
        Foreign = "Foreign",
        /// Unknown.
        Unknown = "Unknown",
    }
}

closed_set! {
    /// The verbs of a ProviderConfig's life.
    "verb" VerbKind {
        /// Create the anchor of the generation.
        CreateAnchor = "CreateAnchor",
        /// Create each object, or apply it onto the one that was seen.
        Apply = "Apply",
        /// Ask one object to go, at the uid and revision that were seen.
        Delete = "Delete",
        /// Ask the anchor to go.
        DeleteAnchor = "DeleteAnchor",
    }
}

closed_set! {
    /// Why a ProviderConfig is where it is.
    "provider config reason" Reason {
        /// The namespace is not ready.
        NamespaceNotReady = "NamespaceNotReady",
        /// The anchor of the generation is being created.
        CreatingAnchor = "CreatingAnchor",
        /// What was seen is recorded before the next verb.
        Recording = "Recording",
        /// A foreign object has the anchor's name.
        AnchorNameTaken = "AnchorNameTaken",
        /// The anchor is gone: the object under it will be collected.
        AnchorLost = "AnchorLost",
        /// The object is being created.
        Creating = "Creating",
        /// The object is written again.
        Correcting = "Correcting",
        /// A foreign object has its name.
        NameTaken = "NameTaken",
        /// Another party asked it to go.
        LeavingUnasked = "LeavingUnasked",
        /// All is as wanted.
        Steady = "Steady",
        /// It has no users any more.
        NoUsers = "NoUsers",
        /// The object's deletion is being asked for.
        Deleting = "Deleting",
        /// Something is on its way out.
        WaitingToGo = "WaitingToGo",
        /// A driver from before the last user left may still be heard.
        QuietTime = "QuietTime",
        /// The anchor's deletion is being asked for.
        DeletingAnchor = "DeletingAnchor",
        /// Nothing was seen, but some identity row is still open.
        UnsettledRows = "UnsettledRows",
        /// The old generation is gone and a user wants a new one.
        GenerationReplaced = "GenerationReplaced",
        /// Nothing is left.
        Gone = "Gone",
        /// An authority that must answer did not.
        Unreachable = "Unreachable",
        /// An authority that must answer refused access.
        Forbidden = "Forbidden",
        /// The world is not the one that was pinned.
        ClusterReplaced = "ClusterReplaced",
        /// Too much vanished at once.
        RailTripped = "RailTripped",
    }
}

unknown_reasons!(Reason);

/// What the row says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    /// Where it is.
    pub phase: Phase,
    /// Whether anybody uses it.
    pub users: Users,
    /// How far the row is from being allowed to end.
    pub closing: Finalization,
}

/// What one observation saw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How far the answers can be trusted.
    pub visibility: Visibility,
    /// The project's namespace.
    pub gate: Gate,
    /// The anchor.
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

/// What the rules answer: everything but the names. Nothing is told of a ProviderConfig.
pub type Verdict = usher_kernel::Verdict<VerbKind, Phase, RecordChange, Infallible, Reason>;
