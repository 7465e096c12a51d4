//! One tick of everything but the drivers.

use crate::sim_world::SimWorld as _;
use crate::usage::state::State;

impl State {
    /// One tick of everything but the drivers.
    pub(crate) fn go_on(&mut self) {
        self.wish();
        self.misbehave();
        self.tear_down();
        self.repeat_requests();
        self.keep_in_mind();
        self.record_denials();
        self.catch_up();
        self.empty_namespaces();
        self.collect();
        self.depart();
        self.watch();
        self.return_kinds();
    }

    /// What was promised for later and kept in memory only.
    fn keep_in_mind(&mut self) {
        let tick = self.base.tick;
        let (due, later) =
            std::mem::take(&mut self.timers).into_iter().partition::<Vec<_>, _>(|it| it.0 <= tick);
        self.timers = later;
        for (_, request) in due {
            let _ = self.serve(&request);
        }
    }

    /// A kind that is back is listed.
    fn return_kinds(&mut self) {
        let tick = self.base.tick;
        let back = self.outside.removed_until.iter().filter(|it| *it.1 == tick);
        if back.count() > 0 {
            self.outside.removed_until.retain(|_, until| *until > tick);
            let everything = self.outside.objects.iter().map(|it| it.key.clone());
            for key in everything.collect::<Vec<_>>() {
                self.outside.changed(key);
            }
        }
    }

    /// The fault phase is over: nothing is broken any more.
    pub(crate) fn calm_down(&mut self) {
        let tick = self.base.tick;
        self.watch_down_until = self.watch_down_until.min(tick);
        self.webhook_down_until = self.webhook_down_until.min(tick);
        self.outside.rebuilt_until = self.outside.rebuilt_until.min(tick);
        self.outside.guarded_until = self.outside.guarded_until.min(tick);
        self.outside.asleep_until = self.outside.asleep_until.min(tick);
        self.outside.blocked_until.clear();
        for until in self.outside.removed_until.values_mut() {
            *until = (*until).min(tick);
        }
        // One listing replaces whatever the watch missed.
        self.watch_down_until = tick;
    }
}
