//! What the rules answer: a verb, a phase, an event, a rest and a reason, without names.

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
    /// What is recorded beside the phase, if anything.
    pub turn: Option<Turn>,
    /// What is told when this is committed.
    pub event: Option<EventKind>,
    /// How long to rest.
    pub rest: Rest,
    /// Why.
    pub reason: Reason,
}

closed_set! {
    /// The verbs of a Usage's life.
    "usage effect" EffectKind {
        /// Put our finalizer on the Usage.
        AddFinalizer = "AddFinalizer",
        /// Mark a used object.
        Mark = "Mark",
        /// Let the owners of the Usage go before it.
        Yield = "Yield",
        /// Let the owners of a used object go before it.
        Unblock = "Unblock",
        /// Take the mark off an object.
        Unmark = "Unmark",
        /// Record a denied deletion with another Usage that holds the object.
        HandOver = "HandOver",
        /// Repeat a denied deletion.
        Replay = "Replay",
        /// Ask the Usage itself to go.
        Retire = "Retire",
        /// Take our finalizer off the Usage.
        RemoveFinalizer = "RemoveFinalizer",
    }
}

impl EffectKind {
    /// Whether the verb writes the Usage itself, so that nothing else may be written beside it.
    pub const fn is_own(self) -> bool {
        match self {
            Self::AddFinalizer | Self::Yield | Self::Retire | Self::RemoveFinalizer => true,
            Self::Mark | Self::Unblock | Self::Unmark | Self::HandOver | Self::Replay => false,
        }
    }
}

closed_set! {
    /// What is recorded beside the phase.
    "usage turn" Turn {
        /// What the references mean.
        Resolve = "Resolve",
        /// That the replay of a deletion begins: it cannot be withdrawn any more.
        Begin = "Begin",
        /// That a recorded deletion is done, or will not be done.
        Settle = "Settle",
    }
}

closed_set! {
    /// What is told.
    "usage event" EventKind {
        /// Everything the Usage speaks of is protected.
        Protected = "Protected",
        /// Something that was protected is not any more.
        Exposed = "Exposed",
        /// A recorded deletion was done, or will not be done.
        AttemptSettled = "AttemptSettled",
        /// Nothing is held any more.
        Released = "Released",
    }
}

closed_set! {
    /// How long to rest.
    "usage rest" Rest {
        /// Not at all.
        Now = "Now",
        /// Until the next look, or a change.
        Poll = "Poll",
        /// Until something changes.
        OnChange = "OnChange",
        /// For good.
        Never = "Never",
    }
}

impl Verdict {
    /// A rest without effect or event.
    pub(super) const fn rest(phase: Phase, rest: Rest, reason: Reason) -> Self {
        Self { effect: None, phase, turn: None, event: None, rest, reason }
    }

    /// One verb, and a look at what it did.
    pub(super) const fn doing(effect: EffectKind, phase: Phase, reason: Reason) -> Self {
        Self { effect: Some(effect), ..Self::rest(phase, Rest::Poll, reason) }
    }

    /// Something is recorded, and looked at again.
    pub(super) const fn turning(turn: Turn, phase: Phase, reason: Reason) -> Self {
        Self { turn: Some(turn), ..Self::rest(phase, Rest::Now, reason) }
    }

    /// A crossing that is told.
    pub(super) const fn telling(event: EventKind, phase: Phase, reason: Reason) -> Self {
        Self { event: Some(event), ..Self::rest(phase, Rest::Now, reason) }
    }
}
