//! Machines, shards and demand.

use async_trait::async_trait;
use usher_api::fleet::{
    AimView, DemandOutcome, DemandView, Fleet, FleetPlan, MachineQuery, MachineView, MachineWhy,
    NeedView, NewDemand, ShardView,
};
use usher_api::ports::Answer;
use usher_api::refusal::{Refusal, Thing};
use usher_api::views::{Advice, Blocker, Caller, Page, Paging};
use usher_domain::fleet::accept::{Raw, Report, adopt};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::plan::{
    Cause, ClusterReport, HeldBack, Judged, Outcome, Switch, check_needs,
};
use usher_domain::fleet::reason::Reason;
use usher_domain::fleet::refusal::Refusal as Fault;
use usher_domain::object::id::MachineRecordId;
use usher_kernel::Version;

use super::{Fake, START, paged, uuid};

/// The one machine, which is bound to cluster `a`.
pub(crate) fn machine() -> MachineRecordId {
    MachineRecordId::from_uuid(uuid(300))
}

fn view() -> MachineView {
    let texts = |key: &str, value: &str| [(key.to_owned(), value.to_owned())].into();
    let raw = Raw {
        id: "m-1".to_owned(),
        state: 5,
        host: Some(("p".to_owned(), "h-1".to_owned())),
        instance_type: "small".to_owned(),
        capacity_type: 4,
        price_per_hour: 0.25,
        resources: texts("cpu", "4"),
        cluster: "a".to_owned(),
        ..Raw::default()
    };
    let shard = "s".parse().unwrap();
    let adopted = adopt(&Report::read(&raw).unwrap(), "p", &shard, START).unwrap();
    let (id, version) = (machine(), Version(3));
    MachineView { id, version, machine: adopted.machine, reason: Reason::AsDeclared }
}

fn missing(thing: Thing, what: &dyn ToString) -> Refusal {
    Refusal::NotFound { thing, what: what.to_string() }
}

impl Fake {
    fn found(&self, id: MachineRecordId) -> Answer<MachineView> {
        self.check()?;
        if id == machine() { Ok(view()) } else { Err(missing(Thing::Machine, &id).into()) }
    }

    fn the_shard(&self, id: &ShardId) -> Answer<ShardView> {
        self.check()?;
        if id.as_str() != "s" {
            return Err(missing(Thing::Shard, id).into());
        }
        let (paused, dry) = {
            let state = self.state();
            (state.paused, state.dry_run)
        };
        Ok(ShardView {
            id: id.clone(),
            epoch: 7,
            held_until: Some(START),
            switch: match (paused, dry) {
                (true, _) => Switch::Paused,
                (false, true) => Switch::DryRun,
                (false, false) => Switch::Run,
            },
            paused_at: paused.then_some(START),
            dry_run_at: dry.then_some(START),
        })
    }
}

#[async_trait]
impl Fleet for Fake {
    async fn machines(&self, query: MachineQuery, paging: Paging) -> Answer<Page<MachineView>> {
        self.check()?;
        let it = view();
        let bound = it.machine.state().binding().map(|it| it.cluster.clone());
        let meant = query.name.is_none_or(|name| name == it.machine.id().as_str())
            && query.shard.is_none_or(|shard| shard == it.machine.fields().owner)
            && query.cluster.is_none_or(|cluster| Some(cluster) == bound)
            && query.phase.is_none_or(|phase| phase == it.machine.phase());
        let items = if meant { vec![it] } else { vec![] };
        paged(&items, &paging)
    }

    async fn machine(&self, id: MachineRecordId) -> Answer<MachineView> {
        self.found(id)
    }

    async fn why_machine(&self, id: MachineRecordId) -> Answer<MachineWhy> {
        let text = |it: &str| it.to_owned();
        Ok(MachineWhy {
            machine: self.found(id)?,
            summary: text("it serves cluster a"),
            blockers: vec![Blocker {
                kind: text("shard"),
                name: text("s"),
                since: Some(START),
                text: text("it is paused"),
            }],
            advice: vec![Advice {
                symptom: text("a symptom"),
                diagnosis: text("a diagnosis"),
                remedy: text("a remedy"),
            }],
            deadline: None,
        })
    }

    async fn settle(
        &self,
        _: &Caller,
        id: MachineRecordId,
        settlement: Settlement,
    ) -> Answer<MachineView> {
        let it = self.found(id)?;
        match settlement {
            Settlement::Adopt => Ok(it),
            Settlement::Drain => Err(Fault::NotDisputed(it.machine.id().to_string()).into()),
        }
    }

    async fn shards(&self) -> Answer<Vec<ShardView>> {
        Ok(vec![self.the_shard(&"s".parse().unwrap())?])
    }

    async fn pause(&self, _: &Caller, shard: &ShardId, paused: bool) -> Answer<ShardView> {
        self.the_shard(shard)?;
        self.state().paused = paused;
        self.the_shard(shard)
    }

    async fn dry_run(&self, _: &Caller, shard: &ShardId, dry_run: bool) -> Answer<ShardView> {
        self.the_shard(shard)?;
        self.state().dry_run = dry_run;
        self.the_shard(shard)
    }

    async fn plan(&self, shard: &ShardId) -> Answer<FleetPlan> {
        let it = view();
        let cluster: ClusterId = "a".parse().unwrap();
        Ok(FleetPlan {
            shard: self.the_shard(shard)?,
            machines: 1,
            broken: 0,
            aims: vec![AimView {
                id: it.id,
                name: "m-1".to_owned(),
                phase: it.machine.phase(),
                wanted: it.machine.wanted().clone(),
                cause: Cause::Preempt,
            }],
            aims_total: 900,
            outcomes: vec![(Outcome::NoCapacity, 1)],
            needs: vec![NeedView {
                cluster: cluster.clone(),
                place: 0,
                outcome: Outcome::NoCapacity,
                need: None,
            }],
            clusters: vec![ClusterReport {
                cluster,
                surplus: 3,
                reclaimed: 1,
                held_back: Some(HeldBack::ReclaimCap),
                refused: vec![Fault::NeedEmpty],
            }],
            held_back: vec![HeldBack::ListQuarantined],
        })
    }

    async fn demands(&self, paging: Paging) -> Answer<Page<DemandView>> {
        self.check()?;
        paged(&self.state().demands, &paging)
    }

    async fn demand(&self, cluster: &ClusterId) -> Answer<DemandView> {
        self.check()?;
        let state = self.state();
        let found = state.demands.iter().find(|it| it.cluster == *cluster).cloned();
        found.ok_or_else(|| missing(Thing::Demand, cluster).into())
    }

    async fn set_demand(&self, _: &Caller, new: NewDemand) -> Answer<DemandOutcome> {
        self.check()?;
        check_needs(&new.needs)?;
        let mut state = self.state();
        let demand = DemandView {
            cluster: new.cluster,
            shard: new.shard.unwrap_or_else(|| "s".parse().unwrap()),
            version: Version(1),
            received_at: START,
            is_held: false,
            needs: new.needs,
        };
        state.demands.retain(|it| it.cluster != demand.cluster);
        state.demands.push(demand.clone());
        Ok(DemandOutcome { judged: Judged::Accepted, demand })
    }
}
