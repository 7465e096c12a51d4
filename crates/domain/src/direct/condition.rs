//! What an object's status says of itself: several conditions, each with its own reason.

use super::facts::{Facts, Identity, Object, Refs, RowFacts};
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

closed_set! {
    /// The types of conditions.
    "condition" ConditionType {
        /// The cloud object is as declared.
        Ready = "Ready",
        /// The references of the spec resolve.
        Resolved = "Resolved",
        /// The identity of the cloud object is on record.
        Identified = "Identified",
        /// Deletion is under way.
        Deleting = "Deleting",
    }

    /// Whether a condition holds.
    "condition status" Status {
        /// It does.
        True = "True",
        /// It does not.
        False = "False",
        /// Unknown.
        Unknown = "Unknown",
    }
}

/// One condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its type.
    pub condition: ConditionType,
    /// Whether it holds.
    pub status: Status,
    /// Why.
    pub reason: Reason,
}

/// The conditions after a decision for this reason.
pub fn conditions(row: RowFacts, seen: Facts, (phase, reason): (Phase, Reason)) -> [Condition; 4] {
    let truth = |holds| if holds { Status::True } else { Status::False };
    let resolved = match seen.refs {
        Refs::Agrees | Refs::Differs => Status::True,
        Refs::Unasked | Refs::Forbidden | Refs::Unavailable => Status::Unknown,
        Refs::Invalid
        | Refs::NotFound
        | Refs::Terminating
        | Refs::NotReady
        | Refs::KindNotInstalled => Status::False,
    };
    let identified = match row.identity {
        Identity::Intended | Identity::Seen | Identity::Gone | Identity::Abandoned => Status::True,
        Identity::None
        | Identity::Lost
        | Identity::Found
        | Identity::Foreign
        | Identity::BoundElsewhere
        | Identity::Malformed => Status::False,
    };
    let leaving = match seen.object {
        Object::Leaving | Object::Free | Object::Gone => Status::True,
        Object::Unheld | Object::Held => Status::False,
        Object::Unknown => Status::Unknown,
    };
    let of = |condition, status| Condition { condition, status, reason };
    [
        of(ConditionType::Ready, truth(phase == Phase::Ready)),
        of(ConditionType::Resolved, resolved),
        of(ConditionType::Identified, identified),
        of(ConditionType::Deleting, leaving),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::facts::Cloud;
    use crate::direct::fixture::{HELD, ROW};

    fn rendered(row: RowFacts, seen: Facts, phase: Phase) -> Vec<Status> {
        conditions(row, seen, (phase, Reason::AsDeclared)).iter().map(|it| it.status).collect()
    }

    // Requirement: I-27
    #[test]
    fn each_condition_says_its_own_part() {
        use Status::{False, True, Unknown};
        let seen = Facts { cloud: Cloud::Ours, ..HELD };
        let row = RowFacts { identity: Identity::Seen, ..ROW };
        assert_eq!(rendered(row, seen, Phase::Ready), [True, True, True, False]);
        let missing = Facts { refs: Refs::NotFound, ..seen };
        assert_eq!(rendered(ROW, missing, Phase::Pending), [False, False, False, False]);
        let leaving = Facts { object: Object::Leaving, refs: Refs::Unasked, ..seen };
        assert_eq!(rendered(row, leaving, Phase::Deleting), [False, Unknown, True, True]);
        let types: Vec<_> =
            conditions(ROW, HELD, (Phase::Pending, Reason::HeldByFinalizer)).to_vec();
        assert_eq!(types.iter().map(|it| it.condition).collect::<Vec<_>>(), ConditionType::ALL);
        assert!(types.iter().all(|it| it.reason == Reason::HeldByFinalizer));
    }
}
