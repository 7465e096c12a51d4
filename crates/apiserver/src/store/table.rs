//! One resource in memory: its objects by key, and the ring of its newest changes.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use tokio::sync::watch;

use super::entry::Entry;

/// The maximum number of changes in a ring.
pub(super) const RING_CHANGES: usize = 16_384;
/// The maximum size of the JSON in a ring.
const RING_BYTES: usize = 64 * 1024 * 1024;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Change {
    /// The revision.
    pub(crate) revision: u64,
    /// The object's key.
    pub(crate) key: Arc<str>,
    /// The object before.
    pub(crate) old: Option<Arc<Entry>>,
    /// The object after.
    pub(crate) new: Option<Arc<Entry>>,
    /// For a removal: the object before, stamped with this revision.
    pub(crate) gone: Option<Arc<Entry>>,
    weight: usize,
}

/// The objects and changes of one resource.
pub(super) struct Table {
    pub(super) objects: BTreeMap<Arc<str>, Arc<Entry>>,
    ring: VecDeque<Arc<Change>>,
    ring_bytes: usize,
    /// Changes up to this revision are compacted.
    pub(super) floor: u64,
    /// Notified of every change.
    pub(super) changed: watch::Sender<u64>,
}

impl Table {
    pub(super) fn new(floor: u64) -> Self {
        Self {
            objects: BTreeMap::new(),
            ring: VecDeque::new(),
            ring_bytes: 0,
            floor,
            changed: watch::Sender::new(floor),
        }
    }

    /// Applies a change to the objects and the ring.
    pub(super) fn apply(&mut self, change: Arc<Change>) {
        match &change.new {
            Some(entry) => {
                self.objects.insert(change.key.clone(), entry.clone());
            }
            None => {
                self.objects.remove(&change.key);
            }
        }
        let revision = change.revision;
        self.remember(change);
        self.changed.send_replace(revision);
    }

    /// Adds a change to the ring only.
    pub(super) fn remember(&mut self, change: Arc<Change>) {
        self.ring_bytes += change.weight;
        self.ring.push_back(change);
        while self.ring.len() > RING_CHANGES || self.ring_bytes > RING_BYTES {
            self.forget_oldest();
        }
    }

    /// Compacts the changes up to a revision.
    pub(super) fn forget(&mut self, revision: u64) {
        while self.ring.front().is_some_and(|change| change.revision <= revision) {
            self.forget_oldest();
        }
        self.floor = self.floor.max(revision);
    }

    fn forget_oldest(&mut self) {
        if let Some(change) = self.ring.pop_front() {
            self.ring_bytes -= change.weight;
            self.floor = change.revision;
        }
    }

    /// The changes after a revision, oldest first.
    pub(super) fn after(&self, revision: u64) -> impl DoubleEndedIterator<Item = &Arc<Change>> {
        let start = self.ring.partition_point(|change| change.revision <= revision);
        self.ring.range(start..)
    }

    /// The objects under a prefix.
    pub(super) fn under(&self, prefix: &str) -> BTreeMap<Arc<str>, Arc<Entry>> {
        let from: (Bound<&str>, Bound<&str>) = (Bound::Included(prefix), Bound::Unbounded);
        self.objects
            .range::<str, _>(from)
            .take_while(|(key, _)| key.starts_with(prefix))
            .map(|(key, entry)| (key.clone(), entry.clone()))
            .collect()
    }

    /// The objects under a prefix at a revision after the floor.
    pub(super) fn under_at(&self, prefix: &str, revision: u64) -> BTreeMap<Arc<str>, Arc<Entry>> {
        let mut objects = self.under(prefix);
        for change in self.after(revision).rev().filter(|change| change.key.starts_with(prefix)) {
            match &change.old {
                Some(entry) => objects.insert(change.key.clone(), entry.clone()),
                None => objects.remove(&change.key),
            };
        }
        objects
    }
}

impl Change {
    /// A change; for a removal the last object is stamped with the revision.
    pub(super) fn new(
        revision: u64,
        key: Arc<str>,
        old: Option<Arc<Entry>>,
        new: Option<Arc<Entry>>,
    ) -> Self {
        const OVERHEAD: usize = 256;
        let gone = match (&old, &new) {
            (Some(old), None) => Some(Arc::new(old.restamped(revision))),
            (Some(_) | None, Some(_)) | (None, None) => None,
        };
        let shown = new.as_ref().or(gone.as_ref());
        let weight = OVERHEAD + shown.map_or(0, |entry| entry.size());
        Self { revision, key, old, new, gone, weight }
    }
}
