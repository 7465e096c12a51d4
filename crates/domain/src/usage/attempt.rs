//! A deletion that was denied because its object was in use, kept until the use ends.

use serde::{Deserialize, Serialize};
use usher_kernel::{Timestamp, Uid};

use super::reference::ObjectKey;
use crate::object::closed::closed_set;

/// The user name of the garbage collector, where it has a service account of its own.
pub const COLLECTOR: &str = "system:serviceaccount:kube-system:generic-garbage-collector";
/// The user name of the garbage collector where controllers have no service accounts of their own.
/// Every other controller uses this name, too: its requests are checked against the owners as well.
pub const ACCOUNTLESS_COLLECTOR: &str = "system:kube-controller-manager";
/// Every user name of the garbage collector.
const COLLECTORS: [&str; 2] = [COLLECTOR, ACCOUNTLESS_COLLECTOR];
/// The user name of the controller that deletes the content of a deleted namespace.
pub const NAMESPACE_CONTROLLER: &str = "system:serviceaccount:kube-system:namespace-controller";
/// How much of a requester's name is kept.
pub const REQUESTER_MAX: usize = 256;

/// One denied deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub object: ObjectKey,
    /// The only object whose deletion was requested.
    pub uid: Uid,
    /// What was to happen to what it owns.
    pub propagation: Propagation,
    pub requester: String,
    /// The origin of the request.
    pub origin: Origin,
    /// When.
    pub at: Timestamp,
    /// When it expires.
    pub expires_at: Timestamp,
    pub progress: Progress,
}

closed_set! {
    /// What happens to what a deleted object owns.
    "propagation policy" Propagation {
        /// It is deleted after its owner.
        Background = "Background",
        /// It is deleted before its owner.
        Foreground = "Foreground",
        /// It stays.
        Orphan = "Orphan",
    }
}

/// The origin of a deletion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Origin {
    /// A user requested it.
    Asked,
    /// The collector found no owner; it is void once its owners have changed.
    Collected {
        /// The uids of its owners then, sorted.
        owners: Vec<Uid>,
    },
}

impl Origin {
    /// Classifies the requester. The namespace controller counts as a user.
    pub fn judge(requester: &str, owners: &[Uid]) -> Self {
        if COLLECTORS.contains(&requester) {
            let mut owners = owners.to_vec();
            owners.sort();
            Self::Collected { owners }
        } else {
            Self::Asked
        }
    }
}

/// The progress of a recorded deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Progress {
    /// It waits for the end of the use.
    Recorded,
    /// It is being replayed.
    Begun,
    /// Its requester withdrew it.
    Withdrawn {
        /// Since when: earlier requests do not count.
        at: Timestamp,
    },
}

closed_set! {
    /// What became of a recorded deletion.
    "attempt outcome" Outcome {
        /// The object is gone or being deleted.
        Deleted = "Deleted",
        /// Another Usage that holds the object knows of it.
        HandedOver = "HandedOver",
        /// It was withdrawn.
        Withdrawn = "Withdrawn",
        /// Its time ran out.
        Expired = "Expired",
        /// The collector requested it, and the owners have changed since.
        OwnersChanged = "OwnersChanged",
        /// The Usage that ended the protection replays nothing.
        NotReplayed = "NotReplayed",
    }
}

impl Attempt {
    /// The merge of two attempts on one object: the newer one's options, and a person's before the
    /// collector's. A withdrawn deletion is not restored by an earlier request, and a replay in
    /// progress stays as it is.
    #[must_use]
    pub fn merged(&self, newer: &Self) -> Self {
        match self.progress {
            Progress::Begun => self.clone(),
            Progress::Withdrawn { at } if newer.at <= at => self.clone(),
            Progress::Withdrawn { .. } => newer.clone(),
            Progress::Recorded if !self.is_refreshed_by(newer) => self.clone(),
            Progress::Recorded => {
                let asked = self.origin == Origin::Asked && newer.origin != Origin::Asked;
                let wish = if asked { self } else { newer };
                let expires_at = self.expires_at.max(newer.expires_at);
                Self { at: newer.at, expires_at, ..wish.clone() }
            }
        }
    }

    /// Whether a newer attempt says something else, or comes when half of the time has run out.
    /// A requester that repeats its request does not make us write each time.
    fn is_refreshed_by(&self, newer: &Self) -> bool {
        let whole = self.expires_at.since(self.at);
        let asked = newer.origin == Origin::Asked || self.origin != Origin::Asked;
        let differs = newer.propagation != self.propagation || newer.origin != self.origin;
        (asked && differs) || newer.at.since(self.at) > whole / 2
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::usage::fixture::{NOW, attempt};

    // Requirement: G-8
    #[test]
    fn only_the_collector_collects_and_its_owners_are_sorted() {
        let owners = [Uid::new("b"), Uid::new("a")];
        let sorted = vec![Uid::new("a"), Uid::new("b")];
        let collected = Origin::Collected { owners: sorted };
        for collector in [COLLECTOR, ACCOUNTLESS_COLLECTOR] {
            assert_eq!(Origin::judge(collector, &owners), collected, "{collector}");
        }
        assert_eq!(Origin::judge(NAMESPACE_CONTROLLER, &owners), Origin::Asked);
        assert_eq!(Origin::judge("jane", &owners), Origin::Asked);
    }

    #[test]
    fn asking_again_and_again_changes_nothing() {
        let first = attempt("a");
        let again = Attempt { at: NOW.after(Duration::from_secs(1)), ..first.clone() };
        assert_eq!(first.merged(&again), first);
        let late = Attempt { at: NOW.after(Duration::from_hours(13)), ..first.clone() };
        assert_eq!(first.merged(&late), late);
    }

    #[test]
    fn a_person_counts_before_the_collector() {
        let person = attempt("a");
        let collected = Attempt { origin: Origin::Collected { owners: vec![] }, ..attempt("a") };
        assert_eq!(collected.merged(&person), person);
        assert_eq!(person.merged(&collected), person);
    }

    #[test]
    fn another_policy_replaces_the_first() {
        let first = attempt("a");
        let foreground = Attempt { propagation: Propagation::Foreground, ..first.clone() };
        assert_eq!(first.merged(&foreground), foreground);
    }

    // Requirement: G-8
    #[test]
    fn a_withdrawn_deletion_is_not_restored_by_an_earlier_request() {
        let withdrawn = Attempt { progress: Progress::Withdrawn { at: NOW }, ..attempt("a") };
        assert_eq!(withdrawn.merged(&attempt("a")), withdrawn);
        let later = Attempt { at: NOW.after(Duration::from_secs(1)), ..attempt("a") };
        assert_eq!(withdrawn.merged(&later), later);
    }

    #[test]
    fn what_has_begun_stays() {
        let begun = Attempt { progress: Progress::Begun, ..attempt("a") };
        let other = Attempt { propagation: Propagation::Orphan, ..attempt("a") };
        assert_eq!(begun.merged(&other), begun);
    }
}
