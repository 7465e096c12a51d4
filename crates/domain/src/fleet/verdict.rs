//! The answer of the rules for one cell of the table.

use super::facts::Order;
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The verb to send, if any.
    pub effect: Option<EffectKind>,
    /// The phase to be in.
    pub phase: Phase,
    /// What becomes of the binding.
    pub binding: Turn,
    /// How far the order is from now on.
    pub order: Order,
    /// What is told when this is committed.
    pub event: Option<EventKind>,
    /// How long to rest.
    pub rest: Rest,
    /// Why.
    pub reason: Reason,
}

closed_set! {
    /// The verbs of a machine's life.
    "effect" EffectKind {
        /// Make its host.
        Create = "Create",
        /// Let it join its cluster.
        Configure = "Configure",
        /// Let it leave its cluster.
        Drain = "Drain",
        /// Give its host back.
        Delete = "Delete",
        /// Take away what is left of it, since it failed.
        Salvage = "Salvage",
    }
}

closed_set! {
    /// What becomes of the binding.
    "turn" Turn {
        /// It stays as it is.
        Kept = "Kept",
        /// It is what is wanted.
        Wanted = "Wanted",
        /// It is what was asked for before that was taken back.
        Asked = "Asked",
        /// It is taken back, and remembered as asked for.
        TakenBack = "TakenBack",
        /// It has ended, and all that belonged to it.
        Cleared = "Cleared",
    }
}

closed_set! {
    /// The crossings that are told.
    "event" EventKind {
        /// Into another phase.
        Moved = "Moved",
        /// Its provider names another cluster.
        Disputed = "Disputed",
        /// Its provider names our cluster again, or none.
        Settled = "Settled",
        /// Its provider does not know it any more.
        Gone = "Gone",
    }
}

closed_set! {
    /// How long to rest.
    "rest" Rest {
        /// Not at all.
        Now = "Now",
        /// Until the next look, or a change.
        Poll = "Poll",
        /// Until the deadline of the phase, or a change.
        Deadline = "Deadline",
        /// Until something changes.
        OnChange = "OnChange",
        /// For good.
        Never = "Never",
    }
}

impl Verdict {
    /// A rest in which nothing moves.
    pub(super) const fn rest(phase: Phase, order: Order, rest: Rest, reason: Reason) -> Self {
        Self { effect: None, phase, binding: Turn::Kept, order, event: None, rest, reason }
    }

    /// A crossing: it is told, and the next step goes on from there.
    pub(super) const fn crossing(phase: Phase, binding: Turn, reason: Reason) -> Self {
        Self {
            effect: None,
            phase,
            binding,
            order: Order::None,
            event: Some(EventKind::Moved),
            rest: Rest::Now,
            reason,
        }
    }

    pub(super) const fn ordering(self) -> Self {
        Self { order: Order::Recorded, ..self }
    }
}
