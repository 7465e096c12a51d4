//! How the world evolves by itself: work ends, lists arrive, shards plan, requests are repeated.

use crate::fleet::state::State;
use crate::sim_world::SimWorld as _;

impl State {
    /// One tick of everything but the drivers.
    pub(crate) fn go_on(&mut self) {
        self.grant_wishes();
        self.fault_phase();
        self.end_work();
        self.repeat_requests();
        self.run_shards();
    }

    fn end_work(&mut self) {
        let tick = self.base.tick;
        for machine in 0..self.outside.machines.len() {
            let it = &self.outside.machines[machine];
            if it.ends_at.is_some_and(|at| at <= tick) {
                self.outside.complete(machine);
                self.say(|it| {
                    let actual = &it.outside.machines[machine];
                    format!("{} has become {}", actual.id, actual.phase)
                });
            }
        }
    }
}
