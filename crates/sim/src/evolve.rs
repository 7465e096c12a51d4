//! The world goes its own way: wishes, composer, collector, machines, and everything that breaks.

use usher_domain::broker::command::{self, Outstanding};
use usher_domain::broker::phase::Phase;
use usher_domain::object::id::PeerId;
use usher_kernel::Generation;
use uuid::Uuid;

use crate::breakage::Breakage;
use crate::check::Checker;
use crate::fault::Fault;
use crate::outside::{Agent, Guard, Kind, Object};
use crate::plan::{REQUEST_BOUND, Tick};
use crate::seat::millis;
use crate::state::State;
use crate::store::PeerRow;

impl State {
    /// One tick of everything but the drivers.
    pub fn evolve(&mut self, breakage: Option<Breakage>) {
        self.grant_wishes();
        self.misbehave();
        self.compose_children();
        self.compose_late();
        self.boot_agents();
        self.enrol_agents(breakage);
        self.finish_drains();
        self.repeat_requests();
        self.outside.sweep(self.tick);
        let tick = self.tick;
        self.outside.collect(tick, &mut self.rng);
        self.deliver_watch();
    }

    /// Commands: each is one transaction on its row.
    fn grant_wishes(&mut self) {
        for wish in 0..self.plan.wishes.len() {
            let wishes = self.plan.wishes[wish].clone();
            if wishes.declare_at == self.tick && self.store.resources.len() == wish {
                self.declare(wish);
            } else if wishes.declare_at <= self.tick && self.store.resources.len() == wish {
                self.declare(wish);
            }
            if self.store.resources.len() <= wish {
                continue;
            }
            if wishes.retire_at == Some(self.tick) || wishes.retire_at == Some(self.tick - 30) {
                self.retire(wish);
            }
            if wishes.replace_at == Some(self.tick) {
                self.replace(wish);
            }
            if wishes.abandon_at == Some(self.tick) {
                self.abandon(wish);
            }
        }
    }

    fn outstanding(&self, index: usize) -> Outstanding {
        Outstanding {
            heard_until: self.store.resources[index].entry.heard_until(),
            request_bound: millis(REQUEST_BOUND),
        }
    }

    fn retire(&mut self, index: usize) {
        let outstanding = self.outstanding(index);
        let now = self.now();
        let change =
            command::deprovision(&self.store.resources[index].record.state, &outstanding, now);
        self.write_change(index, change);
        self.say(|_| format!("deletion of resource {index} is asked for"));
    }

    fn replace(&mut self, index: usize) {
        let outstanding = self.outstanding(index);
        let now = self.now();
        let resource = &self.store.resources[index].record.state;
        if let Ok(change) = command::replace(resource, &outstanding, now) {
            self.write_change(index, change);
            self.say(|_| format!("a new generation of resource {index} is asked for"));
        }
    }

    fn abandon(&mut self, index: usize) {
        let live = self.store.peers.iter().any(|it| it.resource == index && it.registered);
        let now = self.now();
        let record = &self.store.resources[index].record;
        if let Ok(change) = command::abandon(record, live, ("admin", "given up"), now) {
            self.write_change(index, change);
            self.say(|_| format!("resource {index} is abandoned"));
        }
    }

    fn write_change(&mut self, index: usize, change: command::Change) {
        let now = self.now();
        let row = &self.store.resources[index];
        if change.next != row.record.state {
            let next = (change.next, change.rows.as_slice());
            let written = self.store.write(index, None, next, change.event);
            debug_assert!(written.is_ok(), "a command holds the row");
        }
        self.store.resources[index].entry.wake(now);
        self.store.config.entry.wake(now);
    }

    /// What breaks by itself.
    fn misbehave(&mut self) {
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
                Kind::Config => Fault::ConfigDeleted,
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

    fn with_composite(&mut self, uid: u64, change: impl FnOnce(&mut crate::outside::Composite)) {
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
                    self.outside.create(foreign(kind, name), self.tick);
                }
            }
        }
    }

    fn trouble_nodes(&mut self) {
        let now = self.now();
        for i in 0..self.store.peers.len() {
            if !self.store.peers[i].registered {
                continue;
            }
            if self.strikes(Fault::NodeLost, 8) {
                let until = self.tick + self.rng.between(5, 60);
                self.store.peers[i].lost_until = until;
                let index = self.store.peers[i].resource;
                self.store.resources[index].entry.wake(now);
            }
            if self.strikes(Fault::NodeRemoved, 2) {
                self.store.peers[i].registered = false;
                let index = self.store.peers[i].resource;
                self.store.resources[index].entry.wake(now);
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
        let rail = usher_domain::object::authority::Rail { count: 1, percent: 20 };
        let present = self.outside.objects.iter().filter(|it| it.kind == Kind::Xr).count();
        let gone = u32::try_from(self.vanished.len()).unwrap_or(u32::MAX);
        if rail.trips(gone, u32::try_from(present).unwrap_or(u32::MAX)) {
            self.store.rail_tripped = true;
            self.say(|_| "the rail trips".to_owned());
        }
    }

    /// The composer announces children, then creates them; it reads a cache, so it may be late.
    fn compose_children(&mut self) {
        let tick = self.tick;
        let xrs: Vec<Object> =
            self.outside.objects.iter().filter(|it| it.xr.is_some()).cloned().collect();
        for xr in xrs {
            let Some(composite) = xr.xr.as_ref() else {
                continue;
            };
            if xr.gone_at.is_some() {
                self.leave_substrate(&xr);
                continue;
            }
            if composite.refs.is_empty() && composite.refs_at <= tick {
                let refs: Vec<(u8, String)> = (0..composite.parts)
                    .map(|kind| (kind, format!("{}-u{}-{kind}", xr.name, xr.uid)))
                    .collect();
                self.with_composite(xr.uid, |it| it.refs = refs);
                continue;
            }
            let missing = composite
                .refs
                .iter()
                .find(|(kind, name)| self.outside.find(Kind::Part(*kind), name).is_none());
            if let Some((kind, name)) = missing.cloned()
                && self.rng.percent(50)
            {
                self.create_part(&xr, kind, &name);
            }
            self.settle_readiness(&xr);
        }
    }

    fn create_part(&mut self, xr: &Object, kind: u8, name: &str) {
        let ready_at = self.tick + self.rng.between(1, 25);
        let part = Object {
            kind: Kind::Part(kind),
            name: name.to_owned(),
            owner: Some(xr.uid),
            labels: xr.labels.clone(),
            ready_at,
            ..foreign(Kind::Part(kind), String::new())
        };
        self.outside.create(part, self.tick);
    }

    /// Tells the watch when a part, and so the XR, becomes ready.
    fn settle_readiness(&mut self, xr: &Object) {
        let tick = self.tick;
        let turned = self.outside.children(xr.uid).any(|it| it.ready_at == tick);
        let composite = xr.xr.as_ref();
        let flapped = composite.is_some_and(|it| it.flaps_until == tick);
        let failed = composite.is_some_and(|it| it.fails_at == Some(tick));
        let freed = composite.is_some_and(|it| it.guard == Guard::Somebody)
            && (self.rng.per_mille(8) || !self.stormy());
        if freed {
            self.with_composite(xr.uid, |it| it.guard = Guard::None);
        } else if turned || flapped || failed {
            self.outside.touch(xr.uid, tick);
        }
    }

    /// The composer drops its finalizer first; a stale cache may even make it create once more.
    fn leave_substrate(&mut self, xr: &Object) {
        let last = xr.gone_at == Some(self.tick);
        if !last {
            return;
        }
        if self.outside.children(xr.uid).next().is_some() {
            self.coverage.fault(Fault::XrBeforeChildren);
        }
        let refs = xr.xr.as_ref().map(|it| it.refs.clone()).unwrap_or_default();
        if let Some((kind, name)) = refs.first().cloned()
            && self.strikes(Fault::LateComposer, 300)
        {
            let at = self.tick + self.rng.between(1, 60);
            self.late_parts.push((at, xr.clone(), kind, name));
        }
    }

    /// A composer with a stale cache creates a child of an XR that is gone.
    fn compose_late(&mut self) {
        let tick = self.tick;
        let due: Vec<_> = self.late_parts.iter().filter(|it| it.0 <= tick).cloned().collect();
        self.late_parts.retain(|it| it.0 > tick);
        for (_, xr, kind, name) in due {
            if self.outside.find(Kind::Part(kind), &name).is_none() {
                self.create_part(&xr, kind, &name);
            }
        }
    }

    /// A machine boots once its XR is ready for the first time.
    fn boot_agents(&mut self) {
        let tick = self.tick;
        let xrs: Vec<Object> =
            self.outside.objects.iter().filter(|it| it.xr.is_some()).cloned().collect();
        for xr in xrs {
            let Some(composite) = xr.xr.as_ref().filter(|it| !it.booted) else {
                continue;
            };
            let (Some((token, generation)), true) =
                (composite.token, self.outside.is_ready(&xr, tick))
            else {
                continue;
            };
            let label = xr.labels.as_ref().map(|it| it.life.clone()).unwrap_or_default();
            let owner = self
                .store
                .resources
                .iter()
                .position(|row| row.record.state.id().to_string() == label);
            let machine = self.outside.children(xr.uid).next().map(|it| it.uid);
            let (Some(resource), Some(machine)) = (owner, machine) else {
                continue;
            };
            let never = self.strikes(Fault::AgentNever, 200);
            let late = self.strikes(Fault::AgentLate, 400);
            let delay = if late { self.rng.between(40, 250) } else { self.rng.between(0, 20) };
            let tries_at = (!never).then_some(tick + delay);
            self.with_composite(xr.uid, |it| it.booted = true);
            let enrolled = false;
            let agent = Agent { machine, token, resource, generation, tries_at, enrolled };
            self.outside.agents.push(agent);
        }
    }

    fn enrol_agents(&mut self, breakage: Option<Breakage>) {
        let tick = self.tick;
        for i in 0..self.outside.agents.len() {
            let agent = self.outside.agents[i].clone();
            let alive = self.outside.by_uid(agent.machine).is_some();
            // A request of a machine that is gone may still be under way.
            let speaks = alive || (agent.tries_at == Some(tick) && self.stormy());
            if agent.enrolled || !speaks || agent.tries_at.is_none_or(|at| tick < at) {
                continue;
            }
            self.redeem(i, breakage);
        }
    }

    /// Redeeming locks the resource row, then the token row.
    fn redeem(&mut self, agent: usize, breakage: Option<Breakage>) {
        let it = self.outside.agents[agent].clone();
        let resource = &self.store.resources[it.resource].record.state;
        let admits = resource.admits(it.generation);
        if it.generation < resource.generation() {
            self.met(Fault::OldAgent);
        }
        let token = self.store.tokens.get(&it.token).copied();
        let free = token.is_some_and(|token| {
            !token.consumed
                && (breakage == Some(Breakage::ForgetRevocation) || (!token.revoked && admits))
        });
        if !free {
            self.outside.agents[agent].tries_at = Some(self.tick + 15);
            return;
        }
        if !admits {
            let what =
                format!("a node enrolled into {} of resource {}", it.generation, it.resource);
            self.wrong(Checker::NoLateEnrolment, what);
        }
        if let Some(token) = self.store.tokens.get_mut(&it.token) {
            token.consumed = true;
        }
        let number = u8::try_from(self.store.peers.len() + 1).unwrap_or(u8::MAX);
        self.store.peers.push(PeerRow {
            id: PeerId::from_uuid(Uuid::from_bytes([number; 16])),
            resource: it.resource,
            generation: it.generation,
            machine: it.machine,
            lost_until: -1,
            deregisters_at: None,
            registered: true,
        });
        self.outside.agents[agent].enrolled = true;
        let now = self.now();
        self.store.resources[it.resource].entry.wake(now);
        self.say(|_| format!("enrolled: node of resource {} {}", it.resource, it.generation));
    }

    fn finish_drains(&mut self) {
        let (tick, now) = (self.tick, self.now());
        for i in 0..self.store.peers.len() {
            let peer = &mut self.store.peers[i];
            let index = peer.resource;
            let heard_again = peer.lost_until == tick;
            let drained = peer.registered && peer.deregisters_at.is_some_and(|at| at <= tick);
            peer.registered &= !drained;
            if drained || heard_again {
                self.store.resources[index].entry.wake(now);
            }
        }
    }

    fn repeat_requests(&mut self) {
        let tick = self.tick;
        let due: Vec<_> = self.echoes.iter().filter(|it| it.0 <= tick).cloned().collect();
        self.echoes.retain(|it| it.0 > tick);
        for (_, request) in due {
            if !self.outside.is_rebuilt(tick) || !request.is_for_cluster() {
                let _ = self.execute(&request);
            }
        }
    }

    /// A changed object wakes its life; what a broken watch missed, one listing stands in for.
    fn deliver_watch(&mut self) {
        let (tick, now) = (self.tick, self.now());
        if tick < self.watch_down_until {
            self.outside.changed.clear();
            return;
        }
        if tick == self.watch_down_until {
            self.store.wake_all(now);
        }
        let lag = if self.stormy() { 2 } else { 0 };
        let due: Vec<(Tick, String)> =
            self.outside.changed.iter().filter(|it| it.0 + lag <= tick).cloned().collect();
        self.outside.changed.retain(|it| it.0 + lag > tick);
        for (_, label) in due {
            self.store.wake_by_label(&label, now);
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

fn foreign(kind: Kind, name: String) -> Object {
    Object {
        kind,
        name,
        uid: 0,
        owner: None,
        labels: None,
        created: 0,
        revision: 0,
        gone_at: None,
        ready_at: 0,
        xr: None,
    }
}
