//! The changes of all resources, for the garbage collector.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::until;
use crate::auth::User;
use crate::core::Core;
use crate::faults::{Fault, RequestKind};
use crate::kinds::Resource;
use crate::store::{Change, Cursor, Entry};

/// How many changes of one resource are read at once.
const BATCH: usize = 256;

/// The changes of one resource.
pub(super) enum Observed {
    /// All objects: at the start, or when changes were missed.
    All(Vec<Arc<Entry>>),
    /// The changes since.
    Changes(Vec<Arc<Change>>),
    /// The resource is not served any more.
    Gone,
}

/// Follows every resource.
pub(super) struct Feed {
    core: Arc<Core>,
    cursors: HashMap<Arc<str>, (Arc<Resource>, Cursor)>,
    user: User,
    kinds: watch::Receiver<u64>,
    faults: watch::Receiver<u64>,
    ending: watch::Receiver<bool>,
    head: u64,
    /// If new kinds are learned at an interval only: those that are known.
    discovery: Option<Discovery>,
}

/// The kinds that are known until discovery is read again.
struct Discovery {
    interval: Duration,
    next: Instant,
    known: HashSet<Arc<str>>,
}

impl Feed {
    /// With an interval, new kinds are learned at its ticks instead of at once.
    pub(super) fn new(core: &Arc<Core>, user: &User, interval: Option<Duration>) -> Self {
        let mut kinds = core.registry.changes();
        kinds.mark_changed();
        let discovery = interval.map(|interval| Discovery {
            interval,
            next: Instant::now() + interval,
            known: served(core),
        });
        Self {
            core: core.clone(),
            cursors: HashMap::new(),
            user: user.clone(),
            kinds,
            faults: core.faults.changes(),
            ending: core.ending.subscribe(),
            head: 0,
            discovery,
        }
    }

    /// Waits for a change; `None` on shutdown. Returns whether the served or visible kinds changed.
    pub(super) async fn wait(&mut self) -> Option<bool> {
        let core = self.core.clone();
        let next_reading = self.discovery.as_ref().map(|it| it.next);
        tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => return None,
            _ = self.kinds.changed() => return Some(self.discovery.is_none()),
            _ = self.faults.changed() => return Some(true),
            () = until(next_reading) => {}
            () = core.store.changed_after(self.head) => return Some(false),
        }
        Some(self.discover())
    }

    /// Whether the collector does not know a kind: a fault hides it, or it is new.
    pub(super) fn is_hidden(&self, resource: &Resource) -> bool {
        let is_new = self.discovery.as_ref().is_some_and(|it| !it.known.contains(&resource.table));
        is_new || is_refused(&self.core, &self.user, resource)
    }

    /// Learns the served kinds; returns whether there are others than before.
    fn discover(&mut self) -> bool {
        let Some(discovery) = self.discovery.as_mut() else { return false };
        discovery.next = Instant::now() + discovery.interval;
        let known = served(&self.core);
        let before = std::mem::replace(&mut discovery.known, known);
        before != discovery.known
    }

    /// The changes of all resources up to one revision: a dependent never comes without the owner
    /// that was created before it.
    pub(super) fn poll(&mut self) -> Vec<(Arc<Resource>, Observed)> {
        self.head = self.core.store.head();
        let mut seen = Vec::new();
        let served = self.core.registry.kinds().tables();
        let tables: Vec<Arc<str>> = served.iter().map(|kind| kind.table.clone()).collect();
        let lost: Vec<Arc<str>> =
            self.cursors.keys().filter(|table| !tables.contains(table)).cloned().collect();
        for table in lost {
            if let Some((resource, _)) = self.cursors.remove(&table) {
                seen.push((resource, Observed::Gone));
            }
        }
        for resource in served {
            if self.is_hidden(&resource) {
                continue;
            }
            let found = self.poll_resource(&resource);
            if let Some(found) = found {
                seen.push((resource, found));
            }
        }
        seen
    }

    fn poll_resource(&mut self, resource: &Arc<Resource>) -> Option<Observed> {
        if let Some((known, cursor)) = self.cursors.get_mut(&resource.table) {
            *known = resource.clone();
            let mut changes = Vec::new();
            loop {
                match cursor.ready_until(self.head, BATCH) {
                    Ok(ready) if ready.is_empty() => break,
                    Ok(ready) => changes.extend(ready),
                    Err(_) => return Some(self.list(resource)),
                }
            }
            return (!changes.is_empty()).then_some(Observed::Changes(changes));
        }
        Some(self.list(resource))
    }

    fn list(&mut self, resource: &Arc<Resource>) -> Observed {
        let store = &self.core.store;
        // If this revision is compacted already, the newest one must do.
        let (listing, cursor) = store
            .list_at_and_follow(&resource.table, self.head)
            .unwrap_or_else(|_| store.list_and_follow(&resource.table, ""));
        self.cursors.insert(resource.table.clone(), (resource.clone(), cursor));
        Observed::All(listing.objects.into_values().collect())
    }
}

/// The tables of the served kinds.
fn served(core: &Core) -> HashSet<Arc<str>> {
    core.registry.kinds().tables().iter().map(|kind| kind.table.clone()).collect()
}

/// Whether a fault refuses to watch a resource.
fn is_refused(core: &Core, user: &User, resource: &Resource) -> bool {
    let fault = core.faults.for_request(|| RequestKind {
        user: user.name.clone(),
        verb: "watch".to_owned(),
        resource: resource.qualified(),
        subresource: String::new(),
        namespace: String::new(),
        name: String::new(),
    });
    matches!(fault, Fault::Refuse(_) | Fault::RetryAfter { .. })
}
