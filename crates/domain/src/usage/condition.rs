//! What a Usage says about itself in its conditions.

use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

closed_set! {
    /// The types of a Usage's conditions.
    "condition type" ConditionType {
        /// Everything is as declared.
        Ready = "Ready",
        /// What the references mean is known.
        Resolved = "Resolved",
        /// The server refuses the deletion of what is used.
        Protected = "Protected",
        /// Something is waited for; the reason says what.
        Waiting = "Waiting",
    }

    /// The status of a condition.
    "condition status" ConditionStatus {
        /// It is so.
        True = "True",
        /// It is not so.
        False = "False",
        /// Unknown.
        Unknown = "Unknown",
    }
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// What it is about.
    pub condition: ConditionType,
    /// Whether it is so.
    pub status: ConditionStatus,
    /// Why.
    pub reason: Reason,
}

/// The conditions of a Usage in this phase, for this reason.
pub fn conditions(phase: Phase, reason: Reason) -> [Condition; 4] {
    let protected = phase == Phase::Protected;
    let of = |condition, holds: bool| Condition {
        condition,
        status: if holds { ConditionStatus::True } else { ConditionStatus::False },
        reason,
    };
    let unresolved = matches!(reason, Reason::ReferencesInvalid | Reason::NoMatchingObject);
    let unread = matches!(
        reason,
        Reason::Unreachable
            | Reason::Forbidden
            | Reason::ClusterReplaced
            | Reason::MassDeletionGuardTripped
    );
    let begun = matches!(reason, Reason::AddingFinalizer | Reason::ResolvingReferences);
    let resolved = if unresolved {
        ConditionStatus::False
    } else if begun || (unread && !protected) {
        ConditionStatus::Unknown
    } else {
        ConditionStatus::True
    };
    let steady = matches!(reason, Reason::InUse | Reason::ProtectedForReason);
    [
        of(ConditionType::Ready, protected),
        Condition { condition: ConditionType::Resolved, status: resolved, reason },
        of(ConditionType::Protected, protected),
        of(ConditionType::Waiting, !steady),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(phase: Phase, reason: Reason) -> Vec<String> {
        let conditions = conditions(phase, reason);
        conditions.iter().map(|it| format!("{}={}", it.condition, it.status)).collect()
    }

    #[test]
    fn ready_is_said_only_of_what_is_protected() {
        for phase in Phase::ALL {
            for reason in Reason::ALL {
                let conditions = conditions(*phase, *reason);
                let ready = *phase == Phase::Protected;
                for it in conditions {
                    assert_eq!(it.reason, *reason);
                    match it.condition {
                        ConditionType::Ready | ConditionType::Protected => {
                            assert_eq!(it.status == ConditionStatus::True, ready);
                        }
                        ConditionType::Resolved | ConditionType::Waiting => {}
                    }
                }
            }
        }
    }

    #[test]
    fn waiting_and_unknown_are_shown_in_the_conditions() {
        let protected = said(Phase::Protected, Reason::InUse);
        assert_eq!(protected, ["Ready=True", "Resolved=True", "Protected=True", "Waiting=False"]);
        let leaving = said(Phase::Protected, Reason::UserTerminating);
        assert_eq!(leaving, ["Ready=True", "Resolved=True", "Protected=True", "Waiting=True"]);
        let lost = said(Phase::Pending, Reason::NoMatchingObject);
        assert_eq!(lost, ["Ready=False", "Resolved=False", "Protected=False", "Waiting=True"]);
        let blind = said(Phase::Pending, Reason::Unreachable);
        assert_eq!(blind, ["Ready=False", "Resolved=Unknown", "Protected=False", "Waiting=True"]);
    }
}
