//! A dry-run plan of a shard from the stored state, with the index and the planner of the shard.

use std::cmp::Reverse;

use usher_api::fleet::{AimView, FleetPlan, NeedView};
use usher_api::ports::Answer;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::plan::{
    Aim, Circumstances, Fleet, HeldBack, Need, Outcome, Plan, PlanConfig, RawNeed, Slot, Switch,
    Windows, plan,
};
use usher_domain::object::id::MachineRecordId;
use usher_store::Demand;

use super::super::failure;
use super::{Machines, shown};

/// Machines per page.
const PAGE: u32 = 1_000;
/// The most aims in an answer.
const AIMS_MAX: usize = 500;
/// The most needs in an answer.
const NEEDS_MAX: usize = 500;

/// A shard in memory: its index, and the machine of each slot.
struct Loaded {
    fleet: Fleet,
    slots: Vec<MachineRecordId>,
    broken: u64,
    demands: Vec<Demand>,
}

impl Machines {
    /// Plans one cycle and changes nothing.
    pub(super) async fn plan_cycle(&self, shard: &ShardId) -> Answer<FleetPlan> {
        let state = self.known_shard(shard).await?;
        let lists = self.store.lists(shard).await.map_err(failure)?;
        let whole = lists.iter().all(|it| it.list.credence == Credence::Whole);
        let at = Circumstances {
            now: self.store.now().await.map_err(failure)?,
            store_up: true,
            list_believed: whole && !lists.is_empty(),
            // The plan is always returned; brakes are reported in `held_back`.
            switch: Switch::Run,
            config: PlanConfig::default(),
        };
        let loaded = self.load(shard).await?;
        let Plan { aims, report } = plan(&loaded.fleet, &at);
        let mut views = Vec::with_capacity(aims.len().min(AIMS_MAX));
        for aim in aims.iter().take(AIMS_MAX) {
            views.extend(self.aim_view(&loaded, aim).await?);
        }
        let mut held_back = report.held_back.clone();
        match state.switch() {
            Switch::Run => {}
            Switch::DryRun => held_back.push(HeldBack::DryRun),
            Switch::Paused => held_back.push(HeldBack::Paused),
        }
        let outcomes = Outcome::ALL.iter().map(|it| (*it, count(report.count(*it)))).collect();
        let unmet = report.needs.iter().filter(|it| it.outcome != Outcome::Satisfied);
        let needs = unmet.take(NEEDS_MAX).filter_map(|it| {
            let cluster = &report.clusters.get(it.cluster as usize)?.cluster;
            let (cluster, need) = (cluster.clone(), loaded.need(cluster, it.need));
            Some(NeedView { cluster, place: it.need, outcome: it.outcome, need })
        });
        Ok(FleetPlan {
            shard: shown(&state),
            machines: count(loaded.slots.len()),
            broken: loaded.broken,
            aims: views,
            aims_total: count(aims.len()),
            outcomes,
            needs: needs.collect(),
            clusters: report.clusters,
            held_back,
        })
    }

    /// Reads a shard page by page into an index.
    async fn load(&self, shard: &ShardId) -> Answer<Loaded> {
        let fleet = Fleet::new(shard.clone(), Windows::default());
        let mut loaded = Loaded { fleet, slots: vec![], broken: 0, demands: vec![] };
        let mut after = None;
        loop {
            let roll = self.store.machines_of(shard, after, PAGE).await.map_err(failure)?;
            for it in &roll.machines {
                loaded.enter(it.id, &it.record.state);
            }
            loaded.broken += count(roll.broken.len());
            after = roll.next;
            if after.is_none() {
                break;
            }
        }
        for (cluster, _) in self.store.demand_versions(shard).await.map_err(failure)? {
            if let Some(demand) = self.store.demand(&cluster).await.map_err(failure)? {
                let needs = demand.needs.iter().map(Need::read).collect();
                loaded.fleet.believe(&cluster, needs, demand.trust);
                loaded.demands.push(demand);
            }
        }
        Ok(loaded)
    }

    /// The view of an aim; `None` if its machine is gone.
    async fn aim_view(&self, loaded: &Loaded, aim: &Aim) -> Answer<Option<AimView>> {
        let Some(id) = loaded.slots.get(aim.slot.0 as usize).copied() else { return Ok(None) };
        let machine = self.store.machine(id).await.map_err(failure)?.record.state;
        Ok(loaded.fleet.wanted(aim, &machine).map(|wanted| AimView {
            id,
            name: machine.id().to_string(),
            phase: machine.phase(),
            wanted,
            cause: aim.cause,
        }))
    }
}

impl Loaded {
    fn enter(&mut self, id: MachineRecordId, machine: &Machine) {
        let slot = Slot(u32::try_from(self.slots.len()).unwrap_or(u32::MAX));
        self.fleet.apply(slot, Some(machine));
        self.slots.push(id);
    }

    /// A need by its place among the valid ones, the highest priority first.
    fn need(&self, cluster: &ClusterId, place: u32) -> Option<RawNeed> {
        let demand = self.demands.iter().find(|it| it.cluster == *cluster)?;
        let mut needs: Vec<_> = demand.needs.iter().filter(|it| Need::read(it).is_ok()).collect();
        needs.sort_by_key(|it| Reverse(it.priority));
        needs.get(place as usize).map(|it| (*it).clone())
    }
}

fn count(many: usize) -> u64 {
    u64::try_from(many).unwrap_or(u64::MAX)
}
