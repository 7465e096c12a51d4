//! The proof of a release: rows and records, and never an outcome alone.
//!
//! Outside of this context a [`ProvenAbsent`] cannot be made, and an [`Ended`] only by asking a row
//! with its ledger. Rows and orphan records come from a store, so a writer of the store can
//! claim an end; no other code can.

use usher_kernel::{NameState, Row};

use super::orphan::OrphanRecord;
use crate::object::closed::closed_set;

closed_set! {
    /// How a direct resource ended.
    "direct outcome" Outcome {
        /// We deleted the cloud object, and it is gone.
        Deleted = "Deleted",
        /// No object of ours existed before our deletion.
        AlreadyAbsent = "AlreadyAbsent",
        /// The cloud object was left alone because the policy says so; it is on record.
        Abandoned = "Abandoned",
        /// Which cloud object it was could not be said; what is known is on record.
        OrphanReleased = "OrphanReleased",
        /// What it names is foreign; it was left alone and is on record.
        NotOurs = "NotOurs",
    }
}

impl Outcome {
    /// Whether something may remain in the cloud that an orphan record has to name.
    pub const fn needs_record(self) -> bool {
        match self {
            Self::Deleted | Self::AlreadyAbsent => false,
            Self::Abandoned | Self::OrphanReleased | Self::NotOurs => true,
        }
    }
}

/// An authority answered that nothing is there, or nothing was ever sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProvenAbsent(());

impl ProvenAbsent {
    /// From a row that the answer of an authority turned.
    pub(super) fn on_record(row: &Row) -> Option<Self> {
        (row.state == NameState::Gone).then_some(Self(()))
    }

    /// From a ledger that was there from the start and names nothing.
    pub(super) fn never_sent(witnessed: bool, rows: &[Row]) -> Option<Self> {
        (witnessed && rows.is_empty()).then_some(Self(()))
    }
}

/// The end of a direct resource, with its proof: the only value that removes the finalizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    outcome: Outcome,
}

impl Ended {
    /// The end of one whose cloud object is absent: by our deletion, or before it.
    pub fn absent(_: ProvenAbsent, asked: bool) -> Self {
        let outcome = if asked { Outcome::Deleted } else { Outcome::AlreadyAbsent };
        Self { outcome }
    }

    /// The end of one that may leave a cloud object behind, which this record names.
    pub fn recorded(record: &OrphanRecord) -> Self {
        Self { outcome: record.outcome() }
    }

    /// How it ended.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::fixture::{foreign, gone, intended, name, seen};

    // Requirement: I-8
    #[test]
    fn only_a_row_that_is_gone_proves_absence() {
        assert!(ProvenAbsent::on_record(&gone(name(), "c")).is_some());
        for row in [intended(name()), seen(name(), "c"), foreign(name())] {
            assert!(ProvenAbsent::on_record(&row).is_none(), "{row:?}");
        }
    }

    // Requirement: I-16
    #[test]
    fn an_empty_ledger_proves_absence_only_if_it_was_there_from_the_start() {
        assert!(ProvenAbsent::never_sent(true, &[]).is_some());
        assert!(ProvenAbsent::never_sent(false, &[]).is_none());
        assert!(ProvenAbsent::never_sent(true, &[intended(name())]).is_none());
    }

    #[test]
    fn the_requester_distinguishes_deleted_from_already_absent() {
        let proof = || ProvenAbsent(());
        assert_eq!(Ended::absent(proof(), true).outcome(), Outcome::Deleted);
        assert_eq!(Ended::absent(proof(), false).outcome(), Outcome::AlreadyAbsent);
        let left = [Outcome::Abandoned, Outcome::OrphanReleased, Outcome::NotOurs];
        let needs: Vec<_> = Outcome::ALL.iter().filter(|it| it.needs_record()).collect();
        assert_eq!(needs, left.iter().collect::<Vec<_>>());
    }
}
