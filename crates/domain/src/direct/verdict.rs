//! The answer of the rules for one cell of the table.

use super::phase::Phase;
use super::proof::Outcome;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names.
pub type Verdict = usher_kernel::Verdict<EffectKind, Phase, RecordChange, EventKind, Reason>;

closed_set! {
    /// The effects of a direct resource.
    "direct effect" EffectKind {
        /// Put our finalizer on the object.
        AddFinalizer = "AddFinalizer",
        /// Write the recorded identity onto the object.
        Stamp = "Stamp",
        /// Create the cloud object.
        Create = "Create",
        /// Make the cloud object as declared.
        Update = "Update",
        /// Delete the cloud object.
        Delete = "Delete",
        /// Take our finalizer off the object.
        RemoveFinalizer = "RemoveFinalizer",
    }

    /// The transitions that emit an event.
    "direct event" EventKind {
        /// Into `Ready`.
        Ready = "Ready",
        /// Into `Deleting`.
        Deleting = "Deleting",
        /// Into `Deleted`.
        Deleted = "Deleted",
    }
}

/// What becomes of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordChange {
    /// The identity that the spec resolves to is recorded, before it is used.
    Intend,
    /// The create is tried again, by a new request.
    Again,
    /// The deletion request is recorded before it is sent.
    Ask,
    /// The end is recorded, with its outcome.
    End(Outcome),
}

impl RecordChange {
    /// The words, in the order of [`RecordChange::index`].
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

    /// The place of its word.
    pub const fn index(self) -> usize {
        match self {
            Self::Intend => 0,
            Self::Again => 1,
            Self::Ask => 2,
            Self::End(Outcome::Deleted) => 3,
            Self::End(Outcome::AlreadyAbsent) => 4,
            Self::End(Outcome::Abandoned) => 5,
            Self::End(Outcome::OrphanReleased) => 6,
            Self::End(Outcome::NotOurs) => 7,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_of_the_record_has_its_word() {
        let ends = Outcome::ALL.iter().map(|it| RecordChange::End(*it));
        let changes = [RecordChange::Intend, RecordChange::Again, RecordChange::Ask];
        let words: Vec<_> =
            changes.into_iter().chain(ends).map(|it| RecordChange::WORDS[it.index()]).collect();
        assert_eq!(words, RecordChange::WORDS);
        for outcome in Outcome::ALL {
            let word = RecordChange::WORDS[RecordChange::End(*outcome).index()];
            assert_eq!(word, outcome.as_str());
        }
    }
}
