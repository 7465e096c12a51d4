//! How the world evolves by itself: parents are deleted, operations end, the watch reports.

use crate::clock::Tick;
use crate::direct::state::State;
use crate::sim_world::SimWorld as _;

impl State {
    /// One tick of everything but the drivers.
    pub(crate) fn go_on(&mut self) {
        self.grant_wishes();
        self.misbehave();
        self.repeat_requests();
        let tick = self.base.tick;
        self.outside.cloud.go_on(tick);
        self.let_parents_go();
        self.deliver_watch();
        self.check_named();
    }

    fn let_parents_go(&mut self) {
        let tick = self.base.tick;
        let gone = |at: Option<Tick>| at.is_some_and(|at| at <= tick);
        let leaving = self.outside.parents.iter().filter(|it| gone(it.gone_at));
        for name in leaving.map(|it| it.name.clone()).collect::<Vec<_>>() {
            self.outside.parents.retain(|it| it.name != name);
            self.outside.touch_parent(&name, tick);
        }
        let back = self.outside.parents.iter();
        let back = back.filter(|it| it.unready_until == tick || it.missing_until == tick);
        for name in back.map(|it| it.name.clone()).collect::<Vec<_>>() {
            self.outside.touch_parent(&name, tick);
        }
    }

    /// A changed object wakes its record; one listing replaces what a broken watch missed.
    fn deliver_watch(&mut self) {
        let (tick, now) = (self.base.tick, self.now());
        if tick < self.watch_down_until {
            self.outside.changed.clear();
            return;
        }
        let listed = [self.watch_down_until, self.outside.kind_missing_until];
        if listed.contains(&tick) || self.outside.rebuilt_until == tick {
            self.store.wake_all(now);
        }
        let lag = if self.in_fault_phase() { 2 } else { 0 };
        let due: Vec<u64> =
            self.outside.changed.iter().filter(|it| it.0 + lag <= tick).map(|it| it.1).collect();
        self.outside.changed.retain(|it| it.0 + lag > tick);
        for object in due {
            self.store.wake(object, now);
        }
    }
}
