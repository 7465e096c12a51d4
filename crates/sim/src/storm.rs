//! Everything that breaks by itself or is broken by somebody else, and the calm afterwards.

use usher_domain::broker::phase::Phase;
use usher_domain::object::authority::Rail;
use usher_kernel::Generation;

use crate::fault::Fault;
use crate::outside::{Composite, Kind, Object};
use crate::plan::Tick;
use crate::state::State;

/// A jump that no bootstrap token survives.
const HOURS: Tick = 25 * 60 * 60 * 1_000;

impl State {
    /// What breaks by itself.
    pub(crate) fn misbehave(&mut self) {
        if self.tick == 0 && self.strikes(Fault::NamespaceNotReady, 1_000) {
            self.outside.namespace_ready_at = self.rng.between(20, 150);
        }
        if !self.stormy() {
            return;
        }
        let tick = self.tick;
        if self.strikes(Fault::ClockJump, 6) {
            self.skew += self.rng.between(5, 80);
        }
        if self.strikes(Fault::DayJump, 5) {
            self.skew += HOURS;
        }
        if self.strikes(Fault::BlindCollector, 15) {
            let kind = u8::try_from(self.rng.below(3)).unwrap_or(0);
            self.outside.blind_until.insert(kind, tick + self.rng.between(20, 150));
        }
        if self.strikes(Fault::KindRemoved, 5) {
            let kind = u8::try_from(self.rng.below(3)).unwrap_or(0);
            self.outside.removed_until.insert(kind, tick + self.rng.between(10, 60));
        }
        if self.strikes(Fault::WatchDown, 8) {
            self.watch_down_until = tick + self.rng.between(5, 60);
        }
        if !self.outside.is_rebuilt(tick) && self.strikes(Fault::Rebuilt, 6) {
            self.outside.rebuilt_until = tick + self.rng.between(10, 80);
        }
        if self.rng.per_mille(40) {
            self.outside.replica = Some((self.outside.revision, self.outside.objects.clone()));
        }
        self.meddle();
        self.trouble_nodes();
        self.vanish();
    }

    /// Somebody else deletes, takes names, changes labels.
    fn meddle(&mut self) {
        let tick = self.tick;
        let victims: Vec<(u64, Kind, bool)> = self
            .outside
            .objects
            .iter()
            .filter(|it| it.gone_at.is_none() && it.labels.is_some())
            .map(|it| (it.uid, it.kind, it.created < tick - 3))
            .collect();
        for (uid, kind, settled) in victims {
            let fault = match kind {
                Kind::Xr => Fault::XrDeleted,
                Kind::Anchor => Fault::AnchorDeleted,
                Kind::Config | Kind::Secret => Fault::ConfigDeleted,
                Kind::Part(_) => continue,
            };
            if settled && self.strikes(fault, 3) {
                let dwell = self.rng.between(0, 12);
                self.outside.mark(uid, tick + dwell, tick);
                self.note_vanishing(uid);
            }
            if kind == Kind::Xr && settled && self.strikes(Fault::Flap, 8) {
                let until = tick + self.rng.between(1, 15);
                self.with_composite(uid, |it| it.flaps_until = until);
            }
            if kind == Kind::Xr && settled && self.strikes(Fault::Drift, 12) {
                self.with_composite(uid, |it| it.drifted = true);
            }
        }
        self.squat();
    }

    pub(crate) fn with_composite(&mut self, uid: u64, change: impl FnOnce(&mut Composite)) {
        let found = self.outside.objects.iter_mut().find(|it| it.uid == uid);
        if let Some(composite) = found.and_then(|it| it.xr.as_mut()) {
            change(composite);
            self.outside.touch(uid, self.tick);
        }
    }

    /// Somebody else's objects take our names while they are free.
    fn squat(&mut self) {
        for index in 0..self.store.resources.len() {
            let state = &self.store.resources[index].record.state;
            let xr = state.pinned().xr_name.clone();
            let anchor = state.anchor_name(state.generation()).name;
            for (kind, name, fault) in
                [(Kind::Xr, xr, Fault::ForeignXr), (Kind::Anchor, anchor, Fault::ForeignAnchor)]
            {
                let free = self.outside.find(kind, &name).is_none();
                if free && self.strikes(fault, 8) {
                    self.outside.create(Object::foreign(kind, name), self.tick);
                }
            }
        }
    }

    fn trouble_nodes(&mut self) {
        let now = self.now();
        for i in 0..self.store.peers.len() {
            if !self.store.peers[i].is_registered() {
                continue;
            }
            if self.strikes(Fault::NodeLost, 8) {
                let until = self.tick + self.rng.between(5, 60);
                self.store.peers[i].lost_until = until;
                let index = self.store.peers[i].resource;
                self.store.resources[index].entry.wake(now);
            }
            if self.strikes(Fault::NodeRemoved, 2) {
                self.remove_node(i);
            }
        }
    }

    /// Everything in the world vanishes at once; the rail notices.
    fn vanish(&mut self) {
        let standing = self
            .outside
            .objects
            .iter()
            .filter(|it| it.kind == Kind::Xr && it.labels.is_some() && it.gone_at.is_none());
        let standing: Vec<u64> = standing.map(|it| it.uid).collect();
        if standing.len() > 1 && self.strikes(Fault::MassVanish, 12) {
            for uid in standing {
                self.outside.mark(uid, self.tick, self.tick);
                self.note_vanishing(uid);
            }
        }
    }

    /// The rail counts what vanishes although nobody asked it to go.
    fn note_vanishing(&mut self, uid: u64) {
        let Some(object) = self.outside.by_uid(uid).filter(|it| it.kind == Kind::Xr) else {
            return;
        };
        let label = object.labels.as_ref().map(|it| it.life.clone()).unwrap_or_default();
        let asked = self.store.resources.iter().any(|row| {
            row.record.state.id().to_string() == label && row.record.state.is_showing_out()
        });
        if asked {
            return;
        }
        let tick = self.tick;
        self.vanished.retain(|(at, _)| tick - *at < 30);
        self.vanished.push((tick, 0));
        let rail = Rail { count: 1, percent: 20 };
        let present = self.outside.objects.iter().filter(|it| it.kind == Kind::Xr).count();
        let gone = u32::try_from(self.vanished.len()).unwrap_or(u32::MAX);
        if rail.trips(gone, u32::try_from(present).unwrap_or(u32::MAX)) {
            self.store.rail_tripped = true;
            self.say(|_| "the rail trips".to_owned());
        }
    }

    /// The storm is over: nothing is broken any more, and people do their part.
    pub fn heal(&mut self) {
        let now = self.now();
        let tick = self.tick;
        self.store.rail_tripped = false;
        self.outside.rebuilt_until = -1;
        self.outside.replica = None;
        self.outside.blind_until.clear();
        self.outside.removed_until.clear();
        self.outside.namespace_ready_at = self.outside.namespace_ready_at.min(tick);
        for peer in &mut self.store.peers {
            peer.lost_until = peer.lost_until.min(tick);
        }
        let squatters: Vec<u64> = self
            .outside
            .objects
            .iter()
            .filter(|it| it.labels.is_none())
            .filter(|it| self.stands_in_the_way(it))
            .map(|it| it.uid)
            .collect();
        for uid in squatters {
            self.outside.mark(uid, tick, tick);
        }
        self.store.wake_all(now);
        self.say(|_| "the storm is over".to_owned());
    }

    /// A foreign object goes only where somebody still wants the name.
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
