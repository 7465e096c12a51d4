//! The API of machines, shards and demand.

mod plan;
mod runbook;

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Map;
use usher_api::fleet::{
    DemandOutcome, DemandView, Fleet, FleetPlan, MachineQuery, MachineView, MachineWhy, NewDemand,
    ShardView,
};
use usher_api::ports::Answer;
use usher_api::refusal::{Refusal, Thing};
use usher_api::views::{Advice, Blocker, Caller, Page, Paging};
use usher_domain::audit::Action;
use usher_domain::fleet::aggregate::{Deadlines, Machine};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::facts::Restriction;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Switch, check_needs};
use usher_domain::fleet::reconcile::as_recorded;
use usher_domain::object::id::MachineRecordId;
use usher_kernel::Timestamp;
use usher_store::{Brake, Demand, MachineCommand, RollUp, ShardState, Store, StoredMachine};

use self::runbook::Live;
use super::names::not_found;
use super::{after, entry, failure, missing, page};

/// The shard of a cluster if no shard was named and none was acquired yet.
const SHARD: &str = "shard-0";

/// The fleet API over the store alone; the shards may run in other processes.
pub struct Machines {
    pub store: Arc<Store>,
}

#[async_trait]
impl Fleet for Machines {
    async fn machines(&self, query: MachineQuery, paging: Paging) -> Answer<Page<MachineView>> {
        let count = paging.limit.saturating_add(1);
        let found = if let Some(name) = &query.name {
            self.store.find_machines(name, None).await.map_err(failure)?
        } else {
            let place = after(&paging)?;
            let stored = usher_store::MachineQuery {
                shard: query.shard,
                cluster: query.cluster,
                phase: query.phase,
                free: false,
                holder: None,
                gone: query.gone,
            };
            self.store.machines(&stored, place, count).await.map_err(failure)?.machines
        };
        let statuses = self.statuses().await?;
        let views = found.into_iter().map(|it| statuses.view(it)).collect();
        Ok(page(views, &paging, |it: &MachineView| it.id.to_string()))
    }

    async fn machine(&self, id: MachineRecordId) -> Answer<MachineView> {
        let found = self.stored_machine(id).await?;
        Ok(self.statuses().await?.view(found))
    }

    async fn why_machine(&self, id: MachineRecordId) -> Answer<MachineWhy> {
        let found = self.stored_machine(id).await?;
        let statuses = self.statuses().await?;
        let machine = statuses.view(found);
        self.explained(machine, &statuses).await
    }

    async fn settle(
        &self,
        caller: &Caller,
        id: MachineRecordId,
        settlement: Settlement,
    ) -> Answer<MachineView> {
        let word = match settlement {
            Settlement::Adopt => "adopt",
            Settlement::Drain => "drain",
        };
        let detail = Map::from_iter([("settlement".to_owned(), word.into())]);
        let audit = entry(caller, Action::MachineSettle, (None, id.to_string()), detail);
        let command = MachineCommand::Settle(settlement);
        let settled = self.store.command_machine(id, command, Some(audit)).await;
        let settled = settled.map_err(missing(not_found(Thing::Machine, &id.to_string())))?;
        Ok(self.statuses().await?.view(settled))
    }

    async fn shards(&self) -> Answer<Vec<ShardView>> {
        let shards = self.store.shards().await.map_err(failure)?;
        Ok(shards.iter().map(shown).collect())
    }

    async fn pause(&self, caller: &Caller, shard: &ShardId, paused: bool) -> Answer<ShardView> {
        let action = if paused { Action::FleetPause } else { Action::FleetResume };
        self.brake(caller, shard, (Brake::Pause, paused, action)).await
    }

    async fn dry_run(&self, caller: &Caller, shard: &ShardId, on: bool) -> Answer<ShardView> {
        self.brake(caller, shard, (Brake::DryRun, on, Action::FleetDryRun)).await
    }

    async fn plan(&self, shard: &ShardId) -> Answer<FleetPlan> {
        self.plan_cycle(shard).await
    }

    async fn demands(&self, paging: Paging) -> Answer<Page<DemandView>> {
        let place: Option<ClusterId> = after(&paging)?;
        let count = paging.limit.saturating_add(1);
        let found = self.store.demands(place.as_ref(), count).await.map_err(failure)?;
        let views = found.into_iter().map(believed).collect();
        Ok(page(views, &paging, |it: &DemandView| it.cluster.to_string()))
    }

    async fn demand(&self, cluster: &ClusterId) -> Answer<DemandView> {
        let found = self.store.demand(cluster).await.map_err(failure)?;
        let unknown = || not_found(Thing::Demand, cluster.as_str());
        Ok(believed(found.ok_or_else(unknown)?))
    }

    async fn set_demand(&self, caller: &Caller, new: NewDemand) -> Answer<DemandOutcome> {
        check_needs(&new.needs)?;
        let shard = self.serving(&new).await?;
        let detail = Map::from_iter([("needs".to_owned(), new.needs.len().into())]);
        let subject = (None, new.cluster.to_string());
        let audit = entry(caller, Action::FleetDemand, subject, detail);
        let roll_up = RollUp { cluster: new.cluster, shard, needs: new.needs };
        let outcome = self.store.accept_demand(roll_up, Some(audit)).await.map_err(failure)?;
        Ok(DemandOutcome { judged: outcome.judged, demand: believed(outcome.demand) })
    }
}

impl Machines {
    async fn known_shard(&self, shard: &ShardId) -> Answer<ShardState> {
        let found = self.store.shard(shard.clone()).await.map_err(failure)?;
        let unknown = || not_found(Thing::Shard, shard.as_str());
        found.ok_or_else(unknown)
    }

    async fn stored_machine(&self, id: MachineRecordId) -> Answer<StoredMachine> {
        let found = self.store.machine(id).await;
        found.map_err(missing(not_found(Thing::Machine, &id.to_string())))
    }

    async fn brake(
        &self,
        caller: &Caller,
        shard: &ShardId,
        (brake, on, action): (Brake, bool, Action),
    ) -> Answer<ShardView> {
        let detail = Map::from_iter([("on".to_owned(), on.into())]);
        let audit = entry(caller, action, (None, shard.to_string()), detail);
        let braked = self.store.brake_shard(shard.clone(), brake, on, Some(audit)).await;
        let unknown = not_found(Thing::Shard, shard.as_str());
        Ok(shown(&braked.map_err(missing(unknown))?))
    }

    /// The shard that serves a cluster: the named one, the current one, or the only one.
    async fn serving(&self, new: &NewDemand) -> Answer<ShardId> {
        if let Some(shard) = &new.shard {
            return Ok(shard.clone());
        }
        if let Some(known) = self.store.demand(&new.cluster).await.map_err(failure)? {
            return Ok(known.shard);
        }
        let mut shards = self.store.shards().await.map_err(failure)?;
        match (shards.pop(), shards.is_empty()) {
            (None, _) => Ok(SHARD.parse()?),
            (Some(only), true) => Ok(only.id),
            (Some(_), false) => {
                Err(Refusal::ShardRequired { cluster: new.cluster.to_string() }.into())
            }
        }
    }

    /// The state of every shard, and the time.
    async fn statuses(&self) -> Answer<ShardStatuses> {
        let shards = self.store.shards().await.map_err(failure)?;
        Ok(ShardStatuses { shards, now: self.store.now().await.map_err(failure)? })
    }

    async fn explained(
        &self,
        machine: MachineView,
        statuses: &ShardStatuses,
    ) -> Answer<MachineWhy> {
        let row = &machine.machine;
        let fields = row.fields();
        let deadline = row.deadline(&Deadlines::default());
        let passing = row.phase().is_passing() || row.phase() == Phase::Failed;
        let live = Live::of(&machine, statuses.now);
        let entry = runbook::entry(machine.reason, &live);
        let mut advice: Vec<Advice> = entry.advice.into_iter().collect();
        let lists = self.store.lists(&fields.owner).await.map_err(failure)?;
        let list = lists.iter().find(|it| it.list.provider == fields.provider);
        let state = statuses.of(row);
        advice.extend(runbook::beside(state, list, &live));
        let mut blockers = vec![];
        if let Some(holder) = fields.holder {
            blockers.push(Blocker {
                kind: "resource".to_owned(),
                name: holder.to_string(),
                since: None,
                text: "this resource holds the machine, so no plan takes it".to_owned(),
            });
        }
        if let Some(at) = state.and_then(|it| it.paused_at) {
            let text = "its shard is paused: nothing new is begun".to_owned();
            blockers.push(braked(&fields.owner, at, text));
        }
        if let Some(at) = state.and_then(|it| it.dry_run_at) {
            let text = "its shard is in dry run: plans are only reported".to_owned();
            blockers.push(braked(&fields.owner, at, text));
        }
        if let Some(list) = list.filter(|it| it.list.credence == Credence::TooSmall) {
            blockers.push(Blocker {
                kind: "list".to_owned(),
                name: fields.provider.clone(),
                since: Some(list.at),
                text: "too many were missing at once, so absence is not believed".to_owned(),
            });
        }
        let deadline = Some(deadline).filter(|_| passing);
        Ok(MachineWhy { summary: entry.summary, blockers, advice, deadline, machine })
    }
}

fn braked(shard: &ShardId, at: Timestamp, text: String) -> Blocker {
    Blocker { kind: "shard".to_owned(), name: shard.to_string(), since: Some(at), text }
}

/// The state of every shard at one time.
struct ShardStatuses {
    shards: Vec<ShardState>,
    now: Timestamp,
}

impl ShardStatuses {
    fn of(&self, machine: &Machine) -> Option<&ShardState> {
        self.shards.iter().find(|it| it.id == machine.fields().owner)
    }

    fn view(&self, it: StoredMachine) -> MachineView {
        let machine = it.record.state;
        let paused = self.of(&machine).is_some_and(|it| it.switch() == Switch::Paused);
        let restriction = if paused { Restriction::Paused } else { Restriction::None };
        let reason = as_recorded(&machine, &Deadlines::default(), restriction, self.now).reason;
        MachineView { id: it.id, version: it.record.version, machine, reason }
    }
}

fn shown(it: &ShardState) -> ShardView {
    ShardView {
        id: it.id.clone(),
        epoch: it.epoch,
        held_until: it.lease.map(|(_, until)| until).filter(|_| it.is_held()),
        switch: it.switch(),
        paused_at: it.paused_at,
        dry_run_at: it.dry_run_at,
    }
}

fn believed(it: Demand) -> DemandView {
    DemandView {
        cluster: it.cluster,
        shard: it.shard,
        version: it.version,
        received_at: it.received_at,
        is_held: it.trust.is_held(),
        needs: it.needs,
    }
}
