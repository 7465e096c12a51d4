//! Everything that breaks by itself or is broken by another client, and the time without faults.

use usher_domain::broker::phase::Phase;
use usher_domain::object::authority::MassDeletionGuard;
use usher_kernel::{Generation, NameState};

use crate::broker::execute::Sender;
use crate::broker::fault::Fault;
use crate::broker::outside::{self, Composite, Kind, Labels, Object};
use crate::broker::state::{State, installation};
use crate::clock::Tick;
use crate::sim_world::SimWorld as _;

/// A jump that no bootstrap token survives.
const HOURS: Tick = 25 * 60 * 60 * 1_000;

impl State {
    /// What breaks by itself.
    pub(crate) fn misbehave(&mut self) {
        if self.base.tick == 0 && self.injects(Fault::NamespaceNotReady, 1_000) {
            self.outside.namespace_ready_at = self.base.rng.between(20, 150);
        }
        if !self.in_fault_phase() {
            return;
        }
        let tick = self.base.tick;
        if self.injects(Fault::ClockJump, 6) {
            self.base.skew += self.base.rng.between(5, 80);
        }
        if self.injects(Fault::DayJump, 5) {
            self.base.skew += HOURS;
        }
        if self.happens(Fault::BlindCollector, 15) {
            let kind = u8::try_from(self.base.rng.below(3)).unwrap_or(0);
            self.outside.blind_until.insert(kind, tick + self.base.rng.between(20, 150));
        }
        if self.happens(Fault::KindRemoved, 8) {
            let kind = u8::try_from(self.base.rng.below(3)).unwrap_or(0);
            self.outside.removed_until.insert(kind, tick + self.base.rng.between(10, 60));
        }
        if self.injects(Fault::WatchDown, 8) {
            self.watch_down_until = tick + self.base.rng.between(5, 60);
        }
        if !self.outside.is_rebuilt(tick) && self.happens(Fault::Rebuilt, 6) {
            self.outside.rebuilt_until = tick + self.base.rng.between(10, 80);
        }
        if self.base.rng.per_mille(40) {
            self.outside.replica = Some((self.outside.revision, self.outside.objects.clone()));
        }
        self.meddle();
        self.trouble_nodes();
        self.vanish();
        self.hide();
    }

    /// The watch on a kind that reappeared lists its objects.
    pub(crate) fn return_kinds(&mut self) {
        let tick = self.base.tick;
        let removed = &self.outside.removed_until;
        let back: Vec<u8> = removed.iter().filter(|it| *it.1 == tick).map(|it| *it.0).collect();
        for kind in back {
            let parts = self.outside.objects.iter().filter(|it| it.kind == Kind::Part(kind));
            for uid in parts.map(|it| it.uid).collect::<Vec<u64>>() {
                self.outside.touch(uid, tick);
            }
        }
    }

    /// Another client deletes, takes names, changes labels.
    fn meddle(&mut self) {
        let tick = self.base.tick;
        let victims: Vec<(u64, Kind, bool)> = self
            .outside
            .objects
            .iter()
            .filter(|it| !it.leaving && it.made_by.is_some())
            .map(|it| (it.uid, it.kind, it.created < tick - 3))
            .collect();
        for (uid, kind, settled) in victims {
            let fault = match kind {
                Kind::Xr => Fault::XrDeleted,
                Kind::Anchor => Fault::AnchorDeleted,
                Kind::Config | Kind::Secret => Fault::ConfigDeleted,
                Kind::Part(_) => Fault::PartDeleted,
            };
            if settled && self.injects(fault, 3) {
                let dwell = self.base.rng.between(0, 12);
                self.outside.mark(uid, tick + dwell, tick);
                self.note_vanishing(uid);
            }
            if kind == Kind::Xr && settled && self.injects(Fault::Flap, 8) {
                let until = tick + self.base.rng.between(1, 15);
                self.with_composite(uid, |it| it.flaps_until = until);
            }
            if kind == Kind::Xr && settled && self.injects(Fault::Drift, 12) {
                self.with_composite(uid, |it| it.drifted = true);
            }
            if self.is_on_record(uid) && self.injects(Fault::Stripped, 5) {
                self.strip(uid);
            }
        }
        self.squat();
    }

    /// Whether an XR or an anchor is in the ledger with its uid.
    fn is_on_record(&self, uid: u64) -> bool {
        let is_root = |it: &&Object| matches!(it.kind, Kind::Xr | Kind::Anchor);
        let labelled = self.outside.by_uid(uid).filter(|it| it.labels.is_some());
        let Some(it) = labelled.filter(is_root) else {
            return false;
        };
        let name_ledger = match it.made_by {
            Some(Sender::Resource(i)) => self.store.name_ledger(i),
            Some(Sender::Config) => &self.store.config.record.name_ledger,
            None => return false,
        };
        let uid = outside::uid(uid);
        name_ledger
            .rows()
            .iter()
            .any(|row| row.state == NameState::Seen && row.uid.as_ref() == Some(&uid))
    }

    /// The watch selects by labels: it reports that they are gone, and nothing more after that.
    fn strip(&mut self, uid: u64) {
        self.outside.touch(uid, self.base.tick);
        if let Some(it) = self.outside.objects.iter_mut().find(|it| it.uid == uid) {
            it.labels = None;
            if let Some(composite) = &mut it.xr {
                composite.drifted = true;
            }
        }
    }

    pub(crate) fn with_composite(&mut self, uid: u64, change: impl FnOnce(&mut Composite)) {
        let found = self.outside.objects.iter_mut().find(|it| it.uid == uid);
        if let Some(composite) = found.and_then(|it| it.xr.as_mut()) {
            change(composite);
            self.outside.touch(uid, self.base.tick);
        }
    }

    /// Objects of another owner take our names while they are free.
    fn squat(&mut self) {
        for index in 0..self.store.resources.len() {
            let state = &self.store.resources[index].record.state;
            let xr = state.pinned().xr_name.clone();
            let anchor = state.anchor_name(state.generation()).name;
            let record_id = state.id().to_string();
            if self.outside.find(Kind::Anchor, &anchor).is_none()
                && self.injects(Fault::ForeignAnchor, 8)
            {
                self.outside.create(Object::foreign(Kind::Anchor, anchor), self.base.tick);
            }
            if self.outside.find(Kind::Xr, &xr).is_some() {
                continue;
            }
            let bare = Object::foreign(Kind::Xr, xr);
            if self.injects(Fault::ForeignXr, 8) {
                self.outside.create(bare, self.base.tick);
            } else if self.injects(Fault::RestoredXr, 8) {
                let labels = Some(Labels { installation: installation().to_string(), record_id });
                let owner = self.strange_owner().filter(|_| self.base.rng.percent(50));
                self.outside.create(Object { owner, labels, ..bare }, self.base.tick);
            }
        }
    }

    /// An anchor that exists and belongs to no resource.
    fn strange_owner(&self) -> Option<u64> {
        let mut anchors = self.outside.objects.iter().filter(|it| it.kind == Kind::Anchor);
        anchors.find(|it| it.made_by == Some(Sender::Config)).map(|it| it.uid)
    }

    fn trouble_nodes(&mut self) {
        for i in 0..self.store.peers.len() {
            if !self.store.peers[i].is_registered() {
                continue;
            }
            if self.injects(Fault::NodeLost, 8) {
                let until = self.base.tick + self.base.rng.between(5, 60);
                self.store.peers[i].lost_until = until;
            }
            if self.injects(Fault::NodeRemoved, 2) {
                self.remove_node(i);
            }
        }
    }

    /// Everything in the world vanishes at once; the mass-deletion guard notices.
    fn vanish(&mut self) {
        let existing = self.existing_xrs();
        if existing.len() > 1 && self.injects(Fault::MassVanish, 12) {
            for uid in existing {
                self.outside.mark(uid, self.base.tick, self.base.tick);
                self.note_vanishing(uid);
            }
        }
    }

    fn existing_xrs(&self) -> Vec<u64> {
        let xrs = self.outside.objects.iter().filter(|it| it.kind == Kind::Xr);
        xrs.filter(|it| it.made_by.is_some() && !it.leaving).map(|it| it.uid).collect()
    }

    /// Every read shows an empty world for a while, if that trips the mass-deletion guard: fewer
    /// disappearances than it counts are believed by design.
    fn hide(&mut self) {
        let existing = self.existing_xrs();
        let unasked = existing.iter().filter(|uid| self.is_unasked(**uid)).count();
        let quiet = self.base.tick >= self.outside.empty_until;
        if quiet && self.trips(unasked) && self.happens(Fault::EmptyReads, 25) {
            let until = self.base.tick + self.base.rng.between(10, 80);
            self.outside.empty_until = until;
            for uid in existing {
                self.note_vanishing(uid);
            }
            self.say(|_| format!("every read is empty until {until}"));
        }
    }

    /// Whether the deletion of this XR was not requested.
    fn is_unasked(&self, uid: u64) -> bool {
        let xr = self.outside.by_uid(uid).filter(|it| it.kind == Kind::Xr);
        match xr.and_then(|it| it.made_by) {
            Some(Sender::Resource(i)) => !self.store.resources[i].record.state.is_tearing_down(),
            Some(Sender::Config) | None => false,
        }
    }

    /// Whether so many disappearances of now trip the guard, together with those of late.
    fn trips(&self, more: usize) -> bool {
        let guard = MassDeletionGuard { count: 1, percent: 20 };
        let late = self.vanished.iter().filter(|at| self.base.tick - **at < 30).count();
        let present = self.outside.objects.iter().filter(|it| it.kind == Kind::Xr).count();
        let count = |it: usize| u32::try_from(it).unwrap_or(u32::MAX);
        guard.trips(count(late + more), count(present))
    }

    /// The mass-deletion guard counts what vanishes although its deletion was not requested.
    fn note_vanishing(&mut self, uid: u64) {
        if !self.is_unasked(uid) {
            return;
        }
        self.vanished.push(self.base.tick);
        if self.trips(0) {
            self.store.guard_tripped = true;
            self.say(|_| "the mass-deletion guard trips".to_owned());
        }
    }

    /// The fault phase is over: nothing is broken any more, and people do their part.
    pub(crate) fn calm_down(&mut self) {
        let now = self.now();
        let tick = self.base.tick;
        // Resetting the guard reconciles that world; nothing else wakes its work items.
        if std::mem::take(&mut self.store.guard_tripped) {
            self.store.wake_all(now);
        }
        self.outside.rebuilt_until = -1;
        self.outside.empty_until = -1;
        self.outside.replica = None;
        self.outside.blind_until.clear();
        for until in self.outside.removed_until.values_mut() {
            *until = tick.min(*until);
        }
        self.outside.namespace_ready_at = self.outside.namespace_ready_at.min(tick);
        for peer in &mut self.store.peers {
            peer.lost_until = peer.lost_until.min(tick);
        }
        let squatters: Vec<u64> = self
            .outside
            .objects
            .iter()
            .filter(|it| it.made_by.is_none())
            .filter(|it| self.stands_in_the_way(it))
            .map(|it| it.uid)
            .collect();
        for uid in squatters {
            self.outside.mark(uid, tick, tick);
        }
    }

    /// A foreign object is removed only where the name is still needed.
    fn stands_in_the_way(&self, object: &Object) -> bool {
        self.store.resources.iter().any(|row| {
            let state = &row.record.state;
            let anchors = (1..=state.generation().0 + 1).map(Generation);
            let named = object.name == state.pinned().xr_name
                || anchors.map(|it| state.anchor_name(it).name).any(|it| it == object.name);
            named && state.phase() != Phase::Deleted && state.deletion_requested_at().is_none()
        })
    }
}
