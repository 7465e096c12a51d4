//! The answer of the rules for one cell of the table.

use super::facts::Tenure;
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The verb to do, if any.
    pub effect: Option<EffectKind>,
    /// The phase to be in.
    pub phase: Phase,
    /// What becomes of the generation.
    pub turn: Turn,
    /// What is told when this is committed.
    pub event: Option<EventKind>,
    /// How long to rest.
    pub rest: Rest,
    /// Why.
    pub reason: Reason,
}

closed_set! {
    /// The verbs of a resource's life.
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
        /// Ask the XR to go.
        DeleteSubstrate = "DeleteSubstrate",
        /// Ask the anchor to go.
        DeleteAnchor = "DeleteAnchor",
    }
}

closed_set! {
    /// The crossings that are told.
    "event" EventKind {
        /// Into `Ready`.
        Ready = "Ready",
        /// Into `Failed`.
        Failed = "Failed",
        /// Into `Deleted`.
        Deleted = "Deleted",
    }
}

closed_set! {
    /// How long to rest.
    "rest" Rest {
        /// Not at all: only something was recorded that the next step needs.
        Now = "Now",
        /// Until the next look at a passing phase, or a change.
        Poll = "Poll",
        /// Until the quiet time has passed.
        Quiet = "Quiet",
        /// Until something changes.
        OnChange = "OnChange",
        /// For good.
        Never = "Never",
    }
}

/// What becomes of the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It stays as it is.
    Keep,
    /// It is from now on as said.
    To(Tenure),
    /// It ended; the next one begins fresh.
    Next,
}

impl Verdict {
    /// A rest without effect, event or movement of the generation.
    pub(super) const fn rest(phase: Phase, rest: Rest, reason: Reason) -> Self {
        Self { effect: None, phase, turn: Turn::Keep, event: None, rest, reason }
    }

    /// One verb, and a look at what it did.
    pub(super) const fn doing(effect: EffectKind, phase: Phase, reason: Reason) -> Self {
        Self { effect: Some(effect), ..Self::rest(phase, Rest::Poll, reason) }
    }

    /// A crossing that is told.
    pub(super) const fn telling(event: EventKind, phase: Phase, reason: Reason) -> Self {
        Self { event: Some(event), ..Self::rest(phase, Rest::OnChange, reason) }
    }

    pub(super) const fn turning(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    pub(super) const fn resting(self, rest: Rest) -> Self {
        Self { rest, ..self }
    }
}
