//! The queue: one entry per Usage and per marked object, woken by the watch.

use std::collections::BTreeMap;

use usher_domain::usage::reference::{ObjectKey, Pick};
use usher_kernel::Row;
use usher_kernel::schedule::Entry;

use crate::sim_world::SimWorld as _;
use crate::usage::outside::{Object, USAGES};
use crate::usage::state::State;

/// A work item in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Item {
    /// A Usage, by its uid.
    Usage(u64),
    /// A marked object, by its uid.
    Stray(u64),
}

/// The queue.
pub type Queue = BTreeMap<Item, Entry>;

impl State {
    /// The watch delivers what changed, or loses it while it is down.
    pub(crate) fn watch(&mut self) {
        let tick = self.base.tick;
        if tick < self.watch_down_until {
            self.outside.changes.clear();
            return;
        }
        if tick == self.watch_down_until {
            self.outside.changes.clear();
            let keys = self.outside.objects.iter().map(|it| it.key.clone());
            let everything: Vec<ObjectKey> = keys.collect();
            let items: Vec<Item> = self.queue.keys().copied().collect();
            for key in everything {
                self.deliver(&key);
            }
            for work_item in items {
                self.wake(work_item);
            }
            return;
        }
        let changes = std::mem::take(&mut self.outside.changes);
        for (at, key) in changes {
            if at == 0 {
                let at = tick + self.base.rng.between(0, 3);
                self.outside.changes.push((at.max(1), key));
            } else if at <= tick {
                self.deliver(&key);
            } else {
                self.outside.changes.push((at, key));
            }
        }
    }

    /// A change wakes every work item that it concerns, and creates those that are new.
    fn deliver(&mut self, key: &ObjectKey) {
        let now = self.now();
        if let Some(object) = self.outside.under(key) {
            let (uid, marked) = (object.uid, object.mark.is_some());
            if key.group == USAGES {
                self.queue.entry(Item::Usage(uid)).or_insert_with(|| Entry::new(now));
                self.wake(Item::Usage(uid));
                let usage = self.outside.by_uid(uid).cloned();
                for target in usage.iter().flat_map(concerned) {
                    self.wake_about(&target);
                }
            } else if marked {
                self.queue.entry(Item::Stray(uid)).or_insert_with(|| Entry::new(now));
            }
        } else if key.group == USAGES {
            // A Usage is gone: whatever carries a mark is observed again.
            let marked = self.outside.objects.iter().filter(|it| it.mark.is_some());
            for key in marked.map(|it| it.key.clone()).collect::<Vec<_>>() {
                self.wake_about(&key);
            }
        }
        self.wake_about(key);
    }

    fn wake_about(&mut self, key: &ObjectKey) {
        let related = self.outside.objects.iter().filter(|it| is_about(it, key));
        let mut items: Vec<Item> = related.map(|it| Item::Usage(it.uid)).collect();
        items.extend(self.outside.under(key).map(|it| Item::Stray(it.uid)));
        for work_item in items {
            self.wake(work_item);
        }
    }

    /// Makes a work item due.
    pub(crate) fn wake(&mut self, work_item: Item) {
        let now = self.now();
        if let Some(entry) = self.queue.get_mut(&work_item) {
            entry.wake(now);
        }
    }
}

/// What a Usage refers to, so that Usages of the same object are woken.
fn concerned(object: &Object) -> Vec<ObjectKey> {
    let Some(usage) = object.usage() else { return vec![] };
    usage.targets().iter().chain(usage.users()).cloned().collect()
}

/// Whether a Usage is about this object, by record or by declaration.
fn is_about(object: &Object, key: &ObjectKey) -> bool {
    let Some(body) = &object.body else { return false };
    let status = &body.status;
    let resolved = status.of.iter().chain(&status.by).any(|it| it.found.contains(key));
    let attempted = status.attempts.iter().any(|it| it.object == *key);
    let named = |row: &Row| row.name.name == key.name && row.name.kind.ends_with(&key.kind);
    let recorded = body.name_ledger.rows().iter().any(named);
    let declared = body.spec.iter().flat_map(|it| std::iter::once(&it.of).chain(&it.by));
    let mut declared = declared.filter(|it| it.kind == key.kind);
    resolved
        || attempted
        || recorded
        || declared.any(|it| match &it.pick {
            Pick::Name(name) => *name == key.name,
            Pick::Match(_) => true,
        })
}
