//! How far a list of all machines counts.
//!
//! A list has records, which are merged one by one, and absences, which prove nothing:
//! a missing machine is queried by itself. A list that was cut, or in which suddenly too
//! many are missing, does not even raise the question.

use std::collections::BTreeSet;

use super::ident::MachineId;
use crate::object::authority::MassDeletionGuard;
use crate::object::closed::closed_set;

closed_set! {
    /// How far the absences of a list count.
    "credence" Credence {
        /// A missing machine is queried by itself.
        Whole = "Whole",
        /// It was cut or could not be read in full: no machine is missing.
        Cut = "Cut",
        /// Too many are missing at once: none is, until a person or a full list says so.
        TooSmall = "TooSmall",
    }
}

/// What a list means for the machines that are on record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weighed {
    /// How far its absences count.
    pub credence: Credence,
    /// The missing machines, to be queried one by one.
    pub missing: Vec<MachineId>,
}

/// What is known of a list without its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// How many machines are on record.
    pub recorded: usize,
    /// How many of them are missing in the list.
    pub missing: usize,
    /// How many are listed.
    pub listed: usize,
    /// Whether nothing was cut off and every record had an id.
    pub whole: bool,
}

impl Counts {
    /// How far the absences of such a list count. There is no guard once an operator has reset it.
    pub fn credence(self, guard: Option<MassDeletionGuard>) -> Credence {
        let count = |many: usize| u32::try_from(many).unwrap_or(u32::MAX);
        // An empty answer of a provider that had machines is the commonest wrong one.
        let emptied = self.listed == 0 && self.recorded > 0;
        let trips =
            |it: MassDeletionGuard| emptied || it.trips(count(self.missing), count(self.recorded));
        if !self.whole {
            Credence::Cut
        } else if guard.is_some_and(trips) {
            Credence::TooSmall
        } else {
            Credence::Whole
        }
    }
}

/// Weighs a list. `whole` says that nothing was cut off and every record had an id; there is no
/// guard once an operator has reset it.
pub fn weigh(
    recorded: &BTreeSet<MachineId>,
    listed: &BTreeSet<MachineId>,
    whole: bool,
    guard: Option<MassDeletionGuard>,
) -> Weighed {
    let missing: Vec<MachineId> = recorded.difference(listed).cloned().collect();
    let counts =
        Counts { recorded: recorded.len(), missing: missing.len(), listed: listed.len(), whole };
    match counts.credence(guard) {
        credence @ Credence::Whole => Weighed { credence, missing },
        credence @ (Credence::Cut | Credence::TooSmall) => Weighed { credence, missing: vec![] },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(range: std::ops::Range<usize>) -> BTreeSet<MachineId> {
        range.map(|it| format!("m{it}").parse().unwrap()).collect()
    }

    // Requirement: F-20
    #[test]
    fn a_machine_missing_in_a_complete_list_is_queried() {
        let weighed = weigh(&ids(0..100), &ids(3..110), true, Some(MassDeletionGuard::default()));
        assert_eq!(weighed.credence, Credence::Whole);
        assert_eq!(weighed.missing, ids(0..3).into_iter().collect::<Vec<_>>());
    }

    // Requirement: F-19
    #[test]
    fn a_list_that_was_cut_or_is_suddenly_small_misses_nothing() {
        let cases = [
            (ids(0..100), false, Credence::Cut),
            (ids(0..79), true, Credence::TooSmall),
            (ids(0..0), true, Credence::TooSmall),
        ];
        for (listed, whole, credence) in cases {
            let weighed = weigh(&ids(0..100), &listed, whole, Some(MassDeletionGuard::default()));
            assert_eq!(weighed, Weighed { credence, missing: vec![] });
        }
        let last = weigh(&ids(0..1), &ids(0..0), true, Some(MassDeletionGuard::default()));
        assert_eq!(last.credence, Credence::TooSmall, "also of the last machine");
        let opened = weigh(&ids(0..100), &ids(0..0), true, None);
        assert_eq!(opened.missing.len(), 100, "unless a person says so");
    }

    proptest! {
        // Requirement: F-19
        #[test]
        fn nothing_is_missing_that_is_listed_or_never_was(
            recorded in prop::collection::btree_set(0..60_usize, 0..60),
            listed in prop::collection::btree_set(0..60_usize, 0..60),
            whole in any::<bool>(),
        ) {
            let name = |it: &usize| format!("m{it}").parse::<MachineId>().unwrap();
            let recorded: BTreeSet<_> = recorded.iter().map(name).collect();
            let listed: BTreeSet<_> = listed.iter().map(name).collect();
            let weighed = weigh(&recorded, &listed, whole, Some(MassDeletionGuard::default()));
            prop_assert!(weighed.missing.iter().all(|it| recorded.contains(it)));
            prop_assert!(weighed.missing.iter().all(|it| !listed.contains(it)));
            prop_assert!(weighed.credence == Credence::Whole || weighed.missing.is_empty());
        }
    }
}
