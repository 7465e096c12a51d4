//! What becomes of a deletion that was denied while its object was in use.
//!
//! Decided for each recorded deletion whose object the Usage does not hold (any more). One pure,
//! total function from facts to an answer; `tables/replay.table` repeats it, cell by
//! cell.
//!
//! **Invariants**
//! - Nothing is replayed on an answer that is missing.
//! - A replay is on record before it is sent, and is sent only for the uid that was denied.

use usher_kernel::Uid;

use super::attempt::Outcome;
use super::facts::Attempt;
use super::reference::UsageKey;
use crate::object::closed::closed_set;

closed_set! {
    /// The progress of a recorded deletion.
    "replay progress" Progress {
        /// It waits for the end of the use.
        Recorded = "Recorded",
        /// Its replay is on record.
        Begun = "Begun",
        /// Its requester withdrew it.
        Withdrawn = "Withdrawn",
    }

    /// The object whose deletion was denied.
    "replay object" Object {
        /// It exists under the same uid and is not being deleted.
        Present = "Present",
        /// It exists, the garbage collector requested it, and the owners have changed since.
        OwnersChanged = "OwnersChanged",
        /// It is gone, is being deleted, or another object has its name.
        Gone = "Gone",
        /// It could not be read.
        Unknown = "Unknown",
    }

    /// Whether the recorded deletion is still valid by its age.
    "replay age" Age {
        /// It is.
        Current = "Current",
        /// Its time ran out.
        Expired = "Expired",
    }

    /// The other Usages that hold the object.
    "replay holders" Holders {
        /// There are none.
        None = "None",
        /// One of them has the deletion on record.
        Informed = "Informed",
        /// None of them has the deletion on record.
        Uninformed = "Uninformed",
        /// They could not be read.
        Unknown = "Unknown",
    }

    /// Whether the Usage replays deletions.
    "replay policy" Policy {
        /// It does.
        On = "On",
        /// It does not.
        Off = "Off",
    }
}

/// What is known of one recorded deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    pub progress: Progress,
    pub object: Object,
    /// Whether it is still valid by its age.
    pub age: Age,
    /// The other Usages that hold the object.
    pub holders: Holders,
    /// Whether the Usage replays deletions.
    pub policy: Policy,
}

/// One recorded deletion: what is known of it, and what its effects need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The object's uid.
    pub uid: Uid,
    /// What is known of it.
    pub facts: Facts,
    /// The Usage that it would be handed over to.
    pub holder: Option<(UsageKey, Uid)>,
    /// The revision that it would be replayed on, where the owners matter.
    pub revision: Option<String>,
}

/// What becomes of one recorded deletion, and how it ended if it is settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of it.
    pub attempt: Attempt,
    /// How it ended.
    pub outcome: Option<Outcome>,
}

/// The verdict for one cell of the table.
pub const fn rules(it: Facts) -> Verdict {
    if matches!(it.progress, Progress::Withdrawn) {
        return settle(Outcome::Withdrawn);
    }
    match it.object {
        Object::Unknown => return open(Attempt::Unknown),
        Object::Gone => return settle(Outcome::Deleted),
        Object::OwnersChanged | Object::Present => {}
    }
    if matches!(it.age, Age::Expired) {
        return settle(Outcome::Expired);
    }
    if matches!(it.object, Object::OwnersChanged) {
        return settle(Outcome::OwnersChanged);
    }
    match (it.holders, it.policy, it.progress) {
        (Holders::Unknown, _, _) => open(Attempt::Unknown),
        (Holders::Informed, _, _) => settle(Outcome::HandedOver),
        (Holders::Uninformed, _, _) => open(Attempt::HandOver),
        (Holders::None, Policy::Off, _) => settle(Outcome::NotReplayed),
        (Holders::None, Policy::On, Progress::Begun) => open(Attempt::Begun),
        (Holders::None, Policy::On, Progress::Recorded | Progress::Withdrawn) => open(Attempt::Due),
    }
}

/// The recorded deletion to deal with: one that can be dealt with comes before one that is unknown.
pub fn next(denied: &[Denied]) -> Option<(&Denied, Verdict)> {
    let mut judged = denied.iter().map(|it| (it, rules(it.facts)));
    let known = judged.clone().find(|(_, verdict)| verdict.attempt != Attempt::Unknown);
    known.or_else(|| judged.next())
}

const fn settle(outcome: Outcome) -> Verdict {
    Verdict { attempt: Attempt::Settled, outcome: Some(outcome) }
}

const fn open(attempt: Attempt) -> Verdict {
    Verdict { attempt, outcome: None }
}
