//! How much of a snapshot was answered, and why other parts are unknown.

use crate::identity::{Answer, NameLedger, Row, Sighting, Unknown};

crate::words! {
    /// How far the answers of one snapshot can be trusted; names the cause of every unknown part.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Visibility {
        /// Every authority answered.
        Complete = "Complete",
        /// An authority did not answer.
        Unreachable = "Unreachable",
        /// An authority refused access.
        Forbidden = "Forbidden",
        /// The cluster is not the pinned one, or it was restored to an older state.
        ClusterReplaced = "ClusterReplaced",
        /// The mass-deletion guard tripped: unasked absence is held.
        GuardTripped = "GuardTripped",
    }
}

impl Visibility {
    /// Judges a snapshot by the authority that answered and by the worst answer that is missing.
    pub fn judge(cluster_replaced: bool, guard_tripped: bool, worst: Option<Unknown>) -> Self {
        match (cluster_replaced, guard_tripped, worst) {
            (true, _, _) | (_, _, Some(Unknown::ClusterReplaced)) => Self::ClusterReplaced,
            (false, true, _) | (_, _, Some(Unknown::GuardTripped)) => Self::GuardTripped,
            (false, false, None) => Self::Complete,
            (false, false, Some(Unknown::Unreachable)) => Self::Unreachable,
            (false, false, Some(Unknown::Forbidden)) => Self::Forbidden,
        }
    }

    /// Whether something may be hidden that no later change would show. A tripped guard hides
    /// nothing that was present: what it holds back is unknown name by name.
    pub const fn is_incomplete(self) -> bool {
        match self {
            Self::Unreachable | Self::Forbidden | Self::ClusterReplaced => true,
            Self::Complete | Self::GuardTripped => false,
        }
    }

    /// Why a part is unknown. A snapshot that calls itself complete and misses a part did not
    /// reach it.
    pub const fn unknown(self) -> Unknown {
        match self {
            Self::Complete | Self::Unreachable => Unknown::Unreachable,
            Self::Forbidden => Unknown::Forbidden,
            Self::GuardTripped => Unknown::GuardTripped,
            Self::ClusterReplaced => Unknown::ClusterReplaced,
        }
    }

    /// [`Visibility::unknown`] as a reason of the caller's own closed set.
    pub fn unknown_reason<R: From<Unknown>>(self) -> R {
        R::from(self.unknown())
    }
}

/// One snapshot of the outside, judged.
pub trait Observation {
    /// What is recorded in the name ledger by the same commit.
    fn sightings(&self) -> &[Sighting];

    /// How much of it was answered.
    fn visibility(&self) -> Visibility;

    /// Whether an authority that was queried did not answer.
    fn is_incomplete(&self) -> bool {
        let unknown = |it: &Sighting| matches!(it.answer, Answer::Unknown(_));
        self.visibility().is_incomplete() || self.sightings().iter().any(unknown)
    }

    /// The name ledger after this snapshot, and the rows that it changed.
    fn absorbed(&self, name_ledger: &NameLedger) -> (NameLedger, Vec<Row>) {
        let rows = name_ledger.absorb(self.sightings());
        (name_ledger.with(&rows), rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_missing_answer_decides_the_visibility() {
        let cases = [
            ((false, false, None), Visibility::Complete),
            ((false, false, Some(Unknown::Unreachable)), Visibility::Unreachable),
            ((false, false, Some(Unknown::Forbidden)), Visibility::Forbidden),
            ((false, false, Some(Unknown::GuardTripped)), Visibility::GuardTripped),
            ((false, true, Some(Unknown::Forbidden)), Visibility::GuardTripped),
            ((false, true, Some(Unknown::ClusterReplaced)), Visibility::ClusterReplaced),
            ((true, true, None), Visibility::ClusterReplaced),
        ];
        for ((replaced, tripped, worst), visibility) in cases {
            assert_eq!(Visibility::judge(replaced, tripped, worst), visibility, "{worst:?}");
        }
    }

    #[test]
    fn only_a_missing_answer_makes_a_snapshot_incomplete() {
        let incomplete = Visibility::ALL.iter().filter(|it| it.is_incomplete());
        let words: Vec<_> = incomplete.map(|it| it.as_str()).collect();
        assert_eq!(words, ["Unreachable", "Forbidden", "ClusterReplaced"]);
    }

    #[test]
    fn every_visibility_explains_an_unknown_part() {
        let unknowns: Vec<Unknown> = Visibility::ALL.iter().map(|it| it.unknown()).collect();
        let expected = [
            Unknown::Unreachable,
            Unknown::Unreachable,
            Unknown::Forbidden,
            Unknown::ClusterReplaced,
            Unknown::GuardTripped,
        ];
        assert_eq!(unknowns, expected);
        let reason: Unknown = Visibility::Complete.unknown_reason();
        assert_eq!(reason, Unknown::Unreachable);
    }
}
