//! How the world evolves by itself: composer, collector, machines, agents, drains, watches.

use crate::broker::execute::Sender;
use crate::broker::fault::Fault;
use crate::broker::outside::{Agent, Composite, Guard, Kind, Object};
use crate::broker::state::State;
use crate::clock::Tick;
use crate::sim_world::SimWorld as _;

impl State {
    /// One tick of everything but the drivers.
    pub(crate) fn go_on(&mut self) {
        self.grant_wishes();
        self.misbehave();
        self.return_kinds();
        self.compose_children();
        self.compose_late();
        self.boot_agents();
        self.enrol_agents(self.base.breakage);
        self.finish_drains();
        self.repeat_requests();
        self.outside.sweep(self.base.tick);
        let tick = self.base.tick;
        if self.outside.collect(tick, &mut self.base.rng) {
            self.met(Fault::BlindCollector);
        }
        self.deliver_watch();
        self.read_events();
    }

    /// The composer announces children, then creates them; it reads a cache, so it may be late.
    fn compose_children(&mut self) {
        let tick = self.base.tick;
        let xrs: Vec<Object> =
            self.outside.objects.iter().filter(|it| it.xr.is_some()).cloned().collect();
        for xr in xrs {
            let Some(composite) = xr.xr.as_ref() else {
                continue;
            };
            if xr.leaving {
                self.leave_substrate(&xr);
                continue;
            }
            if composite.refs.is_empty() && composite.refs_at <= tick {
                let refs: Vec<(u8, String)> = (0..composite.parts)
                    .map(|kind| (kind, part_name(&xr, composite, kind)))
                    .collect();
                self.with_composite(xr.uid, |it| it.refs = refs);
                continue;
            }
            let missing = composite
                .refs
                .iter()
                .find(|(kind, name)| self.outside.find(Kind::Part(*kind), name).is_none());
            if let Some((kind, name)) = missing.cloned()
                && self.base.rng.percent(50)
            {
                self.create_part(&xr, kind, &name);
            }
            self.settle_readiness(&xr);
        }
    }

    fn create_part(&mut self, xr: &Object, kind: u8, name: &str) {
        let managed = self.outside.managed;
        let dwell = self.base.rng.between(1, 25);
        let ready_at = if managed { Tick::MAX } else { self.base.tick + dwell };
        let part = Object {
            owner: Some(xr.uid),
            labels: xr.xr.as_ref().map(|it| it.labels.clone()),
            made_by: xr.made_by,
            held: managed,
            ready_at,
            ..Object::foreign(Kind::Part(kind), name.to_owned())
        };
        self.outside.create(part, self.base.tick);
    }

    /// Notifies the watch when a part, and so the XR, becomes ready.
    fn settle_readiness(&mut self, xr: &Object) {
        let tick = self.base.tick;
        let turned = self.outside.children(xr.uid).any(|it| it.ready_at == tick);
        let composite = xr.xr.as_ref();
        let flapped = composite.is_some_and(|it| it.flaps_until == tick);
        let failed = composite.is_some_and(|it| it.fails_at == Some(tick));
        let freed = composite.is_some_and(|it| it.guard == Guard::Another)
            && (self.base.rng.per_mille(8) || !self.in_fault_phase());
        if failed {
            self.met(Fault::Hopeless);
        }
        if freed {
            self.with_composite(xr.uid, |it| it.guard = Guard::None);
        } else if turned || flapped || failed {
            self.outside.touch(xr.uid, tick);
        }
    }

    /// The composer drops its finalizer first; a stale cache may even make it create once more.
    fn leave_substrate(&mut self, xr: &Object) {
        let last = xr.gone_at == Some(self.base.tick);
        if !last {
            return;
        }
        if self.outside.children(xr.uid).next().is_some() {
            self.base.coverage.fault(Fault::XrBeforeChildren);
        }
        let refs = xr.xr.as_ref().map(|it| it.refs.clone()).unwrap_or_default();
        if let Some((kind, name)) = refs.first().cloned()
            && self.happens(Fault::LateComposer, 300)
        {
            let at = self.base.tick + self.base.rng.between(1, 60);
            self.late_parts.push((at, xr.clone(), kind, name));
        }
    }

    /// A composer with a stale cache creates a child of an XR that is gone.
    fn compose_late(&mut self) {
        let tick = self.base.tick;
        let due: Vec<_> = self.late_parts.iter().filter(|it| it.0 <= tick).cloned().collect();
        self.late_parts.retain(|it| it.0 > tick);
        for (_, xr, kind, name) in due {
            if self.outside.find(Kind::Part(kind), &name).is_none() {
                self.met(Fault::LateComposer);
                self.create_part(&xr, kind, &name);
            }
        }
    }

    /// A machine boots once its XR is ready; one that was made again boots again.
    fn boot_agents(&mut self) {
        let tick = self.base.tick;
        let xrs: Vec<Object> =
            self.outside.objects.iter().filter(|it| it.xr.is_some()).cloned().collect();
        for xr in xrs {
            let machine = self.outside.children(xr.uid).find(|it| it.kind == Kind::Part(0));
            let (Some(composite), Some(machine), Some(Sender::Resource(resource))) =
                (xr.xr.as_ref(), machine.map(|it| it.uid), xr.made_by)
            else {
                continue;
            };
            let booted = composite.booted == Some(machine) || !self.outside.is_ready(&xr, tick);
            let Some((token, generation)) = composite.token.filter(|_| !booted) else {
                continue;
            };
            let never = self.injects(Fault::AgentNever, 200);
            let late = !never && self.injects(Fault::AgentLate, 400);
            let delay =
                if late { self.base.rng.between(40, 250) } else { self.base.rng.between(0, 20) };
            let tries_at = (!never).then_some(tick + delay);
            self.with_composite(xr.uid, |it| it.booted = Some(machine));
            let enrolled = false;
            let agent = Agent { machine, token, resource, generation, tries_at, enrolled };
            self.outside.agents.push(agent);
        }
    }

    /// A changed object wakes its work item; one listing replaces what a broken watch missed.
    fn deliver_watch(&mut self) {
        let (tick, now) = (self.base.tick, self.now());
        if tick < self.watch_down_until {
            self.outside.changed.clear();
            return;
        }
        if tick == self.watch_down_until {
            self.store.wake_all(now);
        }
        let lag = if self.in_fault_phase() { 2 } else { 0 };
        let due: Vec<(Tick, String)> =
            self.outside.changed.iter().filter(|it| it.0 + lag <= tick).cloned().collect();
        self.outside.changed.retain(|it| it.0 + lag > tick);
        for (_, label) in due {
            self.store.wake_by_label(&label, now);
        }
    }
}

/// The name of a part. In half of the runs it is the same for every XR of one name.
fn part_name(xr: &Object, composite: &Composite, kind: u8) -> String {
    if composite.distinct {
        format!("{}-u{}-{kind}", xr.name, xr.uid)
    } else {
        format!("{}-{kind}", xr.name)
    }
}
