//! What the cluster does by itself during teardown: the collector, departures, emptied namespaces.
//!
//! The collector behaves like that of Kubernetes: it strips references to owners that are gone
//! while another one exists, deletes what has no owner any more, continues in the foreground where
//! an owner waits, passes admission like every client, and backs off after it was denied.

use usher_domain::usage::attempt::{COLLECTOR, NAMESPACE_CONTROLLER, Propagation};

use crate::clock::Tick;
use crate::usage::admission::DeletionRequest;
use crate::usage::outside::{Owner, USAGES};
use crate::usage::state::State;

/// The longest pause of the collector.
const PAUSE_MAX: Tick = 160;

impl State {
    /// One round of the collector over everything that is due.
    pub(crate) fn collect(&mut self) {
        let tick = self.base.tick;
        if tick < self.outside.asleep_until {
            return;
        }
        let due =
            self.outside.objects.iter().filter(|it| {
                !it.owners.is_empty() && it.deleting.is_none() && it.collect_at <= tick
            });
        for uid in due.map(|it| it.uid).collect::<Vec<u64>>() {
            self.collect_one(uid);
        }
    }

    fn collect_one(&mut self, uid: u64) {
        let Some(object) = self.outside.by_uid(uid) else { return };
        let (mut solid, mut dangling, mut waiting) = (0, 0, 0);
        for owner in &object.owners {
            match self.outside.by_uid(owner.uid) {
                None => dangling += 1,
                Some(it) if it.deleting.is_some() && it.foreground => waiting += 1,
                Some(_) => solid += 1,
            }
        }
        if dangling + waiting == 0 {
            return;
        }
        if solid > 0 {
            self.strip_owners(uid);
            return;
        }
        let owns = self.outside.objects.iter().any(|it| it.owners.iter().any(|o| o.uid == uid));
        let propagation =
            if waiting > 0 && owns { Propagation::Foreground } else { Propagation::Background };
        let asked = DeletionRequest { requester: COLLECTOR, propagation, dry_run: false };
        let done = self.delete(uid, asked);
        let tick = self.base.tick;
        if let Some(object) = self.outside.by_uid_mut(uid) {
            if done.is_err() {
                object.collect_at = tick + object.collect_pause;
                object.collect_pause = (object.collect_pause * 2).min(PAUSE_MAX);
            } else {
                object.collect_at = tick + 1;
            }
        }
    }

    /// Removes owner references to objects that are gone or being deleted.
    fn strip_owners(&mut self, uid: u64) {
        let stays = |outside: &crate::usage::outside::Outside, owner: &Owner| {
            outside.by_uid(owner.uid).is_some_and(|it| it.deleting.is_none() || !it.foreground)
        };
        let owners = self.outside.by_uid(uid).map(|it| it.owners.clone()).unwrap_or_default();
        let kept: Vec<Owner> = owners.into_iter().filter(|it| stays(&self.outside, it)).collect();
        self.write(uid, |it| it.owners = kept);
    }

    /// What is being deleted is removed when nothing holds it any more.
    pub(crate) fn depart(&mut self) {
        let tick = self.base.tick;
        let gone: Vec<u64> = self
            .outside
            .objects
            .iter()
            .filter(|it| {
                let since = it.deleting.map_or(-1, |since| tick - since);
                let held = it.body.as_ref().is_some_and(|it| it.finalizer);
                since >= 0 && since >= it.hold_lease && !held && !self.is_waited_for(it.uid)
            })
            .map(|it| it.uid)
            .collect();
        for uid in gone {
            self.vanish(uid);
        }
    }

    /// Whether an object in the foreground waits for something that it owns.
    fn is_waited_for(&self, uid: u64) -> bool {
        let foreground = self.outside.by_uid(uid).is_some_and(|it| it.foreground);
        let blocks = |owner: &Owner| owner.uid == uid && owner.blocks;
        foreground && self.outside.objects.iter().any(|it| it.owners.iter().any(blocks))
    }

    /// A namespace being deleted is emptied kind by kind; a denial stops its kind for this round.
    pub(crate) fn empty_namespaces(&mut self) {
        let tick = self.base.tick;
        let due: Vec<String> = self
            .outside
            .finalization
            .iter()
            .filter(|it| *it.1 <= tick)
            .map(|it| it.0.clone())
            .collect();
        for namespace in due {
            let pause = self.base.rng.between(4, 20);
            self.outside.finalization.insert(namespace.clone(), tick + pause);
            let mut kinds: Vec<String> = self
                .outside
                .objects
                .iter()
                .filter(|it| it.key.namespace == namespace)
                .map(|it| it.key.kind.clone())
                .collect();
            kinds.sort();
            kinds.dedup();
            for kind in kinds {
                self.empty_kind(&namespace, &kind);
            }
        }
    }

    fn empty_kind(&mut self, namespace: &str, kind: &str) {
        let inside = self.outside.objects.iter().filter(|it| {
            it.key.namespace == namespace && it.key.kind == kind && it.deleting.is_none()
        });
        for uid in inside.map(|it| it.uid).collect::<Vec<u64>>() {
            let propagation = Propagation::Background;
            let asked =
                DeletionRequest { requester: NAMESPACE_CONTROLLER, propagation, dry_run: false };
            if self.delete(uid, asked).is_err() {
                return;
            }
        }
    }

    /// A kind is removed with all its objects, without admission.
    pub(crate) fn remove_kind(&mut self, kind: &str, until: Tick) {
        self.outside.removed_until.insert(kind.to_owned(), until);
        let objects = self.outside.objects.iter();
        let gone = objects.filter(|it| it.key.kind == kind && it.key.group != USAGES);
        for uid in gone.map(|it| it.uid).collect::<Vec<u64>>() {
            self.excuse(uid);
            self.vanish(uid);
        }
    }
}
