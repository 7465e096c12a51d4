//! What the rules answer: an effect, a phase, an event, a requeue and a reason, without names.

use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
pub type Verdict = usher_kernel::Verdict<EffectKind, Phase, RecordChange, EventKind, Reason>;

closed_set! {
    /// The effects of a Usage.
    "usage effect" EffectKind {
        /// Put our finalizer on the Usage.
        AddFinalizer = "AddFinalizer",
        /// Mark a used object.
        Mark = "Mark",
        /// Release the owners of the Usage before it.
        Yield = "Yield",
        /// Release the owners of a used object before it.
        Unblock = "Unblock",
        /// Take the mark off an object.
        Unmark = "Unmark",
        /// Record a denied deletion with another Usage that holds the object.
        HandOver = "HandOver",
        /// Repeat a denied deletion.
        Replay = "Replay",
        /// Delete the Usage itself.
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
    "usage record change" RecordChange {
        /// What the references mean.
        Resolve = "Resolve",
        /// That the replay of a deletion begins: it cannot be withdrawn any more.
        Begin = "Begin",
        /// That a recorded deletion is done, or will not be done.
        Settle = "Settle",
    }

    /// Its event.
    "usage event" EventKind {
        /// Everything the Usage names is protected.
        Protected = "Protected",
        /// Something that was protected is not any more.
        Exposed = "Exposed",
        /// A recorded deletion was done, or will not be done.
        AttemptSettled = "AttemptSettled",
        /// Nothing is held any more.
        Released = "Released",
    }
}
