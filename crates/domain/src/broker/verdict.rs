//! The answer of the rules for one cell of the table.

use super::facts::GenerationState;
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
pub type Verdict = usher_kernel::Verdict<EffectKind, Phase, RecordChange, EventKind, Reason>;

closed_set! {
    /// The effects of a resource.
    "effect" EffectKind {
        /// Create the anchor of the generation.
        CreateAnchor = "CreateAnchor",
        /// Issue the bootstrap token of the generation.
        IssueToken = "IssueToken",
        /// Create the XR, or apply it onto the one that was seen.
        Apply = "Apply",
        /// Show the node out of the mesh.
        DeregisterNode = "DeregisterNode",
        /// Release our own guard on the XR.
        ReleaseProtection = "ReleaseProtection",
        /// Delete the XR.
        DeleteSubstrate = "DeleteSubstrate",
        /// Delete the anchor.
        DeleteAnchor = "DeleteAnchor",
    }

    /// The transitions that emit an event.
    "event" EventKind {
        /// Into `Ready`.
        Ready = "Ready",
        /// Into `Failed`.
        Failed = "Failed",
        /// Into `Deleted`.
        Deleted = "Deleted",
    }
}

/// What becomes of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// It is from now on as said.
    To(GenerationState),
    /// It ended; the next one begins fresh.
    Next,
}
