//! The answer of the rules for one cell of the table.

use super::phase::Phase;
use super::proof::Outcome;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The verb to do, if any.
    pub effect: Option<EffectKind>,
    /// The phase to be in.
    pub phase: Phase,
    /// What becomes of the record.
    pub turn: Turn,
    /// What is told when this is committed.
    pub event: Option<EventKind>,
    /// How long to rest.
    pub rest: Rest,
    /// Why.
    pub reason: Reason,
}

closed_set! {
    /// The verbs of a direct resource's life.
    "direct effect" EffectKind {
        /// Put our finalizer on the object.
        AddFinalizer = "AddFinalizer",
        /// Write the recorded identity onto the object.
        Stamp = "Stamp",
        /// Create the cloud object.
        Create = "Create",
        /// Make the cloud object as declared.
        Update = "Update",
        /// Ask the cloud object to go.
        Delete = "Delete",
        /// Take our finalizer off the object.
        RemoveFinalizer = "RemoveFinalizer",
    }
}

closed_set! {
    /// The crossings that are told.
    "direct event" EventKind {
        /// Into `Ready`.
        Ready = "Ready",
        /// Into `Deleting`.
        Deleting = "Deleting",
        /// Into `Deleted`.
        Deleted = "Deleted",
    }
}

closed_set! {
    /// How long to rest.
    "direct rest" Rest {
        /// Not at all: only something was recorded that the next step needs.
        Now = "Now",
        /// Until the next look at a passing phase, or a change.
        Poll = "Poll",
        /// As long as the cloud asks.
        Throttle = "Throttle",
        /// Long: what failed will probably fail again.
        Slow = "Slow",
        /// Until no driver from before the deletion can be heard.
        Quiet = "Quiet",
        /// Until something changes.
        OnChange = "OnChange",
        /// Until it is time to see once more whether something came back.
        Watch = "Watch",
        /// For good.
        Never = "Never",
    }
}

/// What becomes of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It stays as it is.
    Keep,
    /// The identity that the spec stands for is recorded, before it is used.
    Intend,
    /// The create is tried again, by a new request.
    Again,
    /// That the cloud object is asked to go is recorded, before it is asked.
    Ask,
    /// The end is recorded, with its outcome.
    End(Outcome),
}

impl Turn {
    /// The words of turns that move something, in the order of [`Turn::index`].
    pub const WORDS: [&'static str; 8] = [
        "intend",
        "again",
        "ask",
        "Deleted",
        "AlreadyAbsent",
        "Abandoned",
        "OrphanReleased",
        "NotOurs",
    ];

    /// The place of its word; none if it moves nothing.
    pub const fn index(self) -> Option<usize> {
        match self {
            Self::Keep => None,
            Self::Intend => Some(0),
            Self::Again => Some(1),
            Self::Ask => Some(2),
            Self::End(Outcome::Deleted) => Some(3),
            Self::End(Outcome::AlreadyAbsent) => Some(4),
            Self::End(Outcome::Abandoned) => Some(5),
            Self::End(Outcome::OrphanReleased) => Some(6),
            Self::End(Outcome::NotOurs) => Some(7),
        }
    }
}

impl Verdict {
    /// A rest without effect, event or movement of the record.
    pub(super) const fn rest(phase: Phase, rest: Rest, reason: Reason) -> Self {
        Self { effect: None, phase, turn: Turn::Keep, event: None, rest, reason }
    }

    /// One verb, and a look at what it did.
    pub(super) const fn doing(effect: EffectKind, phase: Phase, reason: Reason) -> Self {
        Self { effect: Some(effect), ..Self::rest(phase, Rest::Poll, reason) }
    }

    /// A crossing that is told.
    pub(super) const fn telling(event: EventKind, phase: Phase, reason: Reason) -> Self {
        Self { event: Some(event), ..Self::rest(phase, Rest::Now, reason) }
    }

    pub(super) const fn turning(self, turn: Turn) -> Self {
        Self { turn, ..self }
    }

    pub(super) const fn resting(self, rest: Rest) -> Self {
        Self { rest, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_turn_that_moves_something_has_its_word() {
        let ends = Outcome::ALL.iter().map(|it| Turn::End(*it));
        let turns = [Turn::Intend, Turn::Again, Turn::Ask].into_iter().chain(ends);
        let turns: Vec<Turn> = turns.collect();
        let words: Vec<_> = turns.iter().filter_map(|it| Turn::WORDS.get(it.index()?)).collect();
        assert_eq!(words, Turn::WORDS.iter().collect::<Vec<_>>());
        assert_eq!(Turn::Keep.index(), None);
        for outcome in Outcome::ALL {
            let word = Turn::End(*outcome).index().and_then(|at| Turn::WORDS.get(at));
            assert_eq!(word, Some(&outcome.as_str()));
        }
    }
}
