//! The graph of uses: every existing Usage, indexed by the objects it holds.
//!
//! An edge leads from the used object to its user: the first cannot be deleted before the second.
//! The graph is changed one Usage at a time; the cost of a change does not grow with the number of
//! others.
//!
//! **Invariants**
//! - Objects are distinguished by group, kind, namespace and name; Usages by uid.
//! - A Usage of Crossplane's is shown as a blocker and never counts as a holder.

use std::collections::{BTreeMap, BTreeSet};

use usher_kernel::{Timestamp, Uid};

use super::aggregate::Usage;
use super::reference::{ObjectKey, UsageKey};
use crate::object::closed::closed_set;

/// How many links of a chain are followed.
pub const CHAIN_MAX: usize = 32;
/// How many links are returned in all.
pub const LINKS_MAX: usize = 256;

closed_set! {
    /// The kind of Usage.
    "usage family" Family {
        /// Ours.
        Usher = "Usher",
        /// Crossplane's: shown, never answered for.
        Crossplane = "Crossplane",
    }
}

/// One Usage in the graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its kind.
    pub family: Family,
    /// Which.
    pub usage: UsageKey,
    /// Which incarnation.
    pub uid: Uid,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it holds the objects it names, and has not released them.
    pub holds: bool,
    /// What is used.
    pub of: Vec<ObjectKey>,
    /// Its users.
    pub by: Vec<ObjectKey>,
    /// Why it is protected.
    pub reason: Option<String>,
    /// The objects whose denied deletion it has on record.
    pub attempts: BTreeSet<Uid>,
}

impl Entry {
    /// A Usage of ours.
    pub fn of(usage: &Usage) -> Self {
        Self {
            family: Family::Usher,
            usage: usage.key.clone(),
            uid: usage.uid.clone(),
            created_at: usage.created_at,
            holds: usage.status.phase.holds(),
            of: usage.targets().to_vec(),
            by: usage.users().to_vec(),
            reason: usage.spec.as_ref().ok().and_then(|it| it.reason.clone()),
            attempts: usage.status.attempts.iter().map(|it| it.uid.clone()).collect(),
        }
    }

    /// Its age: older ones come first, and no two are equal.
    fn age(&self) -> (Timestamp, &Uid) {
        (self.created_at, &self.uid)
    }
}

/// One link of a chain: this object cannot be deleted before that one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// What is held.
    pub object: ObjectKey,
    /// By which Usage.
    pub usage: UsageKey,
    /// Its users; empty if it is held for a reason.
    pub user: Option<ObjectKey>,
    /// How many links lie before it.
    pub depth: usize,
}

/// Every existing Usage.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    entries: BTreeMap<Uid, Entry>,
    by_target: BTreeMap<ObjectKey, BTreeSet<Uid>>,
    by_namespace: BTreeMap<String, BTreeSet<Uid>>,
}

impl Graph {
    /// Puts a Usage in, or in the place of what was known of it.
    pub fn put(&mut self, entry: Entry) {
        // Most changes do not touch the objects that a Usage names, nor the indexes.
        if let Some(known) = self.entries.get_mut(&entry.uid).filter(|it| it.of == entry.of) {
            *known = entry;
            return;
        }
        self.remove(&entry.uid);
        for object in &entry.of {
            self.by_target.entry(object.clone()).or_default().insert(entry.uid.clone());
            let place = self.by_namespace.entry(object.namespace.clone()).or_default();
            place.insert(entry.uid.clone());
        }
        self.entries.insert(entry.uid.clone(), entry);
    }

    /// Takes a Usage out.
    pub fn remove(&mut self, uid: &Uid) -> Option<Entry> {
        let entry = self.entries.remove(uid)?;
        for object in &entry.of {
            take(&mut self.by_target, object, uid);
            take(&mut self.by_namespace, &object.namespace, uid);
        }
        Some(entry)
    }

    /// How many Usages there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// What is known of a Usage.
    pub fn get(&self, uid: &Uid) -> Option<&Entry> {
        self.entries.get(uid)
    }

    /// Every Usage that names an object, Crossplane's included, in the order of their uids.
    pub fn blockers(&self, object: &ObjectKey) -> impl Iterator<Item = &Entry> {
        let uids = self.by_target.get(object).into_iter().flatten();
        uids.filter_map(|uid| self.entries.get(uid)).filter(|it| it.holds)
    }

    /// Our Usages that hold an object.
    pub fn holders(&self, object: &ObjectKey) -> impl Iterator<Item = &Entry> {
        self.blockers(object).filter(|it| it.family == Family::Usher)
    }

    /// Our Usages that hold something in a namespace.
    pub fn holders_in(&self, namespace: &str) -> impl Iterator<Item = &Entry> {
        let uids = self.by_namespace.get(namespace).into_iter().flatten();
        let entries = uids.filter_map(|uid| self.entries.get(uid));
        entries.filter(|it| it.holds && it.family == Family::Usher)
    }

    /// The holders of an object, their holders, and so on: nearest first, bounded.
    pub fn chain(&self, object: &ObjectKey) -> Vec<Link> {
        let mut links = Vec::new();
        let mut met = BTreeSet::from([object.clone()]);
        let mut layer = vec![object.clone()];
        for depth in 0..CHAIN_MAX {
            let mut next = Vec::new();
            for object in &layer {
                for entry in self.blockers(object) {
                    let users: Vec<Option<&ObjectKey>> = if entry.by.is_empty() {
                        vec![None]
                    } else {
                        entry.by.iter().map(Some).collect()
                    };
                    for user in users {
                        if links.len() == LINKS_MAX {
                            return links;
                        }
                        let (usage, user) = (entry.usage.clone(), user.cloned());
                        next.extend(user.clone().filter(|it| met.insert(it.clone())));
                        links.push(Link { object: object.clone(), usage, user, depth });
                    }
                }
            }
            if next.is_empty() {
                break;
            }
            layer = next;
        }
        links
    }

    /// The circle that a Usage of these objects by those users would close, through these Usages of
    /// ours.
    pub fn circle(
        &self,
        (of, by): (&[ObjectKey], &[ObjectKey]),
        through: Through<'_>,
    ) -> Option<Vec<ObjectKey>> {
        let mut before: BTreeMap<ObjectKey, Option<ObjectKey>> =
            by.iter().map(|it| (it.clone(), None)).collect();
        let mut open: Vec<ObjectKey> = by.to_vec();
        while let Some(object) = open.pop() {
            if of.contains(&object) {
                return Some(path(&before, object));
            }
            for entry in self.holders(&object).filter(|it| through.leads(it)) {
                for user in &entry.by {
                    if !before.contains_key(user) {
                        before.insert(user.clone(), Some(object.clone()));
                        open.push(user.clone());
                    }
                }
            }
        }
        None
    }
}

/// Through which Usages a circle counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Through<'a> {
    /// Through all but the one that is declared: a declaration removes no protection.
    Others(&'a Uid),
    /// Through those that are older than this: of an existing cycle exactly one Usage, the
    /// youngest, yields.
    Older(Timestamp, &'a Uid),
}

impl Through<'_> {
    fn leads(self, entry: &Entry) -> bool {
        match self {
            Self::Others(own) => entry.uid != *own,
            Self::Older(created_at, uid) => entry.age() < (created_at, uid),
        }
    }
}

/// The way that was gone to an object, closed to a circle.
fn path(before: &BTreeMap<ObjectKey, Option<ObjectKey>>, last: ObjectKey) -> Vec<ObjectKey> {
    let mut path = vec![last.clone()];
    let mut at = last;
    while let Some(Some(earlier)) = before.get(&at) {
        path.push(earlier.clone());
        at = earlier.clone();
    }
    path.reverse();
    path
}

/// A circle for a person: each object is held by the next, the last by the first.
pub fn shown(circle: &[ObjectKey]) -> String {
    let first = circle.first().into_iter();
    let names = circle.iter().chain(first).map(ToString::to_string);
    names.collect::<Vec<_>>().join(" → ")
}

fn take<K: Ord>(index: &mut BTreeMap<K, BTreeSet<Uid>>, key: &K, uid: &Uid) {
    if let Some(uids) = index.get_mut(key) {
        uids.remove(uid);
        if uids.is_empty() {
            index.remove(key);
        }
    }
}

#[cfg(test)]
mod tests;
