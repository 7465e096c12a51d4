//! What an adapter returns from one snapshot of the outside: answers, not judgements.
//!
//! What is queried follows from the Usage: see [`objects`] and [`is_probed`].

use std::collections::{BTreeMap, BTreeSet};

use usher_kernel::{NameLedger, NameState, Timestamp, Uid, Unknown};

use super::aggregate::Usage;
use super::attempt::{Attempt, Progress};
use super::reference::{ObjectKey, Role, UsageKey};
use super::selector::Candidate;
use crate::object::authority::Authority;

/// An answer, or why there is none.
pub type Reading<T> = Result<T, Unknown>;

/// The unjudged answers of one snapshot. What is not queried is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The authority that answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether the world is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub guard_tripped: bool,
    /// What the selector of `of` may match.
    pub of_candidates: Reading<Vec<Candidate>>,
    /// What the selector of `by` may match.
    pub by_candidates: Reading<Vec<Candidate>>,
    /// Whether the other namespace consents, if another one is named.
    pub consents: Reading<bool>,
    /// The cycle that the resolved objects would close with older Usages.
    pub circle: Reading<Option<String>>,
    /// The objects under the queried names, read live.
    pub objects: BTreeMap<ObjectKey, Reading<Found>>,
    /// The other Usages of those objects, as of this snapshot: an index that has caught up with the
    /// server since the snapshot began, never one that may lag.
    pub others: Reading<Vec<Other>>,
    /// What the server answered to a dry-run deletion.
    pub probes: BTreeMap<ObjectKey, Reading<Probe>>,
}

/// The object under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// An object.
    Present(Object),
    /// Nothing.
    Absent,
    /// Its kind is served in no version any more, and its definition is gone.
    KindRemoved,
}

/// An object outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub uid: Uid,
    /// Its mark: the value of the label.
    pub mark: Option<String>,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// The uids of its owners, sorted.
    pub owners: Vec<Uid>,
    /// Whether one of them waits for it when it is deleted in the foreground.
    pub blocks: bool,
    /// The revision it was read at.
    pub revision: String,
}

/// Another Usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Other {
    /// Which.
    pub usage: UsageKey,
    /// Which incarnation.
    pub uid: Uid,
    /// What it holds.
    pub holds: BTreeSet<ObjectKey>,
    /// The denied deletions that it has on record, and the progress of each.
    pub attempts: BTreeMap<Uid, Progress>,
}

impl Other {
    /// What there is to know of another Usage.
    pub fn of(usage: &Usage) -> Self {
        let held = usage.targets().iter().filter(|it| usage.holds(it));
        let attempts = usage.status.attempts.iter();
        Self {
            usage: usage.key.clone(),
            uid: usage.uid.clone(),
            holds: held.cloned().collect(),
            attempts: attempts.map(|it| (it.uid.clone(), it.progress)).collect(),
        }
    }

    /// Whether it remembers this deletion, or knows that it was withdrawn after it was requested.
    pub fn knows(&self, attempt: &Attempt) -> bool {
        self.attempts.get(&attempt.uid).is_some_and(|it| match it {
            Progress::Recorded | Progress::Begun => true,
            Progress::Withdrawn { at } => attempt.at <= *at,
        })
    }
}

/// The server's answer to a dry-run deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    /// Our admission refused it on account of this Usage, or of so many that not all were named.
    Refused,
    /// It would have been done, or another webhook refused it.
    Allowed,
}

/// The objects to read: held objects, their users, objects that may carry our mark, objects of
/// denied deletions.
pub fn objects(usage: &Usage, name_ledger: &NameLedger) -> BTreeSet<ObjectKey> {
    let held = usage.targets().iter().chain(usage.users()).cloned();
    let marked = name_ledger.rows().iter().filter(|it| it.state == NameState::Seen);
    let marked = marked.filter_map(|it| Role::Mark.key(&it.name));
    let attempted = usage.status.attempts.iter().map(|it| it.object.clone());
    held.chain(marked).chain(attempted).collect()
}

/// Whether a deletion of this object should be tried, to see whether it is refused.
pub fn is_probed(usage: &Usage, key: &ObjectKey, object: &Object, others: &[Other]) -> bool {
    usage.holds(key)
        && !object.deleting
        && !usage.status.proven.contains(&object.uid)
        && object.mark.as_deref().is_some_and(|mark| is_counted(usage, key, mark, others))
}

/// Whether a mark counts for this Usage: its own, or that of another one that holds the object and
/// so would not take it off.
pub fn is_counted(usage: &Usage, key: &ObjectKey, mark: &str, others: &[Other]) -> bool {
    let theirs = |it: &Other| it.uid.0 == mark && it.holds.contains(key);
    mark == usage.mark() || others.iter().any(theirs)
}
