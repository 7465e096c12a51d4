//! What breaks by itself during the fault phase, and how it is repaired.

use usher_domain::fleet::issue::Issuer;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Fleet, Switch};

use crate::clock::Tick;
use crate::fleet::breakage::Breakage;
use crate::fleet::fault::Fault;
use crate::fleet::outside::{ELSEWHERE, Treatment};
use crate::fleet::state::{State, WINDOWS};
use crate::sim_world::SimWorld as _;

impl State {
    /// One tick of the fault phase.
    pub(crate) fn fault_phase(&mut self) {
        if !self.in_fault_phase() {
            return;
        }
        self.fault_provider();
        self.fault_machines();
        self.fault_shards();
    }

    fn for_a_while(&mut self) -> Tick {
        self.base.tick + self.base.rng.between(5, 60)
    }

    fn fault_provider(&mut self) {
        if self.injects(Fault::ProviderDown, 6) {
            self.outside.down_until = self.for_a_while();
        }
        if self.lists_are_true() && self.injects(Fault::EmptyList, 6) {
            self.outside.empty_until = self.for_a_while();
        }
        if self.injects(Fault::ProviderRestart, 6) {
            for machine in 0..self.outside.machines.len() {
                let it = &mut self.outside.machines[machine];
                if it.phase.is_passing() && self.base.rng.percent(50) {
                    it.ends_at = None;
                    it.put(Phase::Failed);
                }
            }
        }
        if self.injects(Fault::Discovered, 4) && self.outside.machines.len() < 60 {
            let machine = self.add_machine(0, Treatment { staged: true, never_salvages: false });
            let host = self.outside.host();
            self.outside.machines[machine].host = Some(host);
            self.outside.machines[machine].put(Phase::Idle);
        }
    }

    /// Whether no list that was believed, or is in flight, lacks an existing machine.
    fn lists_are_true(&self) -> bool {
        let existing: Vec<&str> = self
            .outside
            .machines
            .iter()
            .filter(|it| !it.removed)
            .map(|it| it.id.as_str())
            .collect();
        self.store.shards.iter().all(|shard| {
            let believed = existing
                .iter()
                .all(|id| !shard.list_believed || shard.listed.iter().any(|it| it.as_str() == *id));
            let list = shard.list.as_ref().filter(|it| it.whole);
            believed && list.is_none_or(|it| it.records.len() >= existing.len())
        })
    }

    fn fault_machines(&mut self) {
        if self.outside.machines.is_empty() {
            return;
        }
        let any = self.base.rng.index(self.outside.machines.len());
        let phase = self.outside.machines[any].phase;
        let hosted = matches!(phase, Phase::Idle | Phase::Configured);
        if hosted && self.injects(Fault::HostLost, 15) {
            let end = self.base.rng.pick(&[Phase::Failed, Phase::Speculative, Phase::Idle]);
            self.outside.machines[any].put(end);
        }
        if self.happens(Fault::Removed, 4) && !self.outside.machines[any].removed {
            self.met(Fault::Removed);
            self.outside.machines[any].removed = true;
        }
        let phase = self.outside.machines[any].phase;
        if phase == Phase::Configured && self.injects(Fault::DrainedOutside, 12) {
            let ends_at = Some(self.for_a_while());
            self.outside.machines[any].put(Phase::Draining);
            self.outside.machines[any].ends_at = ends_at;
        }
        let phase = self.outside.machines[any].phase;
        if phase == Phase::Idle && self.injects(Fault::BoundOutside, 12) {
            ELSEWHERE.clone_into(&mut self.outside.machines[any].cluster);
            self.outside.machines[any].put(Phase::Configured);
        }
        if self.injects(Fault::PriceChanged, 10) {
            self.outside.machines[any].price += 0.5;
        }
        if self.injects(Fault::PriceUnreadable, 6) {
            self.outside.machines[any].price = f64::NAN;
        }
    }

    fn fault_shards(&mut self) {
        if self.injects(Fault::ShardRestart, 8) {
            let shards = self.store.shards.len() as u64;
            let shard = usize::try_from(self.base.rng.below(shards.max(1))).unwrap_or(0);
            self.restart(shard);
        }
        if self.injects(Fault::StoreDown, 6) {
            self.store.down_until = self.for_a_while();
        }
        let clusters = self.demand.len().max(1) as u64;
        let any = usize::try_from(self.base.rng.below(clusters)).unwrap_or(0);
        if self.injects(Fault::ClusterSilent, 8) {
            let until = self.for_a_while();
            self.silent_until.insert(any, until);
        }
        let rich = self.demand.get(any).is_some_and(|it| it.len() >= 10);
        if rich && self.injects(Fault::Collapse, 60) {
            self.collapsing.insert(any);
        }
        if self.injects(Fault::Unreadable, 8) {
            let until = self.for_a_while();
            self.unreadable_until.insert(any, until);
        }
        if self.injects(Fault::Paused, 6) {
            self.switch = (Switch::Paused, self.for_a_while());
        }
        if self.injects(Fault::DryRun, 6) {
            self.switch = (Switch::DryRun, self.for_a_while());
        }
        if self.injects(Fault::ClockJump, 6) {
            self.base.skew += self.base.rng.between(1, 200);
        }
    }

    /// A shard starts again: a new epoch in the store, and nothing in its memory.
    pub(crate) fn restart(&mut self, shard: usize) {
        let same = self.is_broken(Breakage::SequenceReused);
        let entry = &mut self.store.shards[shard];
        entry.epoch += u64::from(!same);
        entry.issuer = Issuer::new(entry.epoch);
        entry.reserved.clear();
        entry.fleet = Fleet::new(entry.id.clone(), WINDOWS);
        entry.list_believed = false;
        entry.listed.clear();
        entry.list = None;
        entry.aims.clear();
        let shards = self.store.shards.len();
        self.roll_ups.retain(|cluster, _| cluster % shards != shard);
        for row in 0..self.store.rows.len() {
            if self.store.owner(row) == shard {
                self.store.rows[row].messages.clear();
                self.reindex(row);
            }
        }
        self.say(|_| format!("shard {shard} starts again"));
    }

    /// The fault phase is over.
    pub(crate) fn calm_down(&mut self) {
        self.outside.down_until = 0;
        self.outside.empty_until = 0;
        self.store.down_until = 0;
        self.silent_until.clear();
        self.unreadable_until.clear();
        self.switch = (Switch::Run, 0);
        for it in &mut self.outside.machines {
            it.treatment.never_salvages = false;
        }
    }
}
