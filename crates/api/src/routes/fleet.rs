//! Machines, shards and demand.

use axum::body::Body;
use axum::http::{Method, Response};
use serde::Deserialize;
use usher_domain::fleet::aggregate::{Machine, Target, Wanted};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{ClusterReport, Operator, RawNeed, RawRequirement, check_needs};
use usher_domain::object::id::MachineRecordId;
use usher_domain::object::offender::shortened;
use usher_domain::operators::Role;
use usher_wire::operator as wire;

use super::Paged;
use crate::call::{Call, all, ok, page, paging};
use crate::fleet::{
    AimView, DemandView, FleetPlan, MachineQuery, MachineView, MachineWhy, NeedView, NewDemand,
    ShardView,
};
use crate::ports::{Answer, Failure};
use crate::refusal::{Refusal, Thing};
use crate::render;
use crate::route::{AFTER, Kind, LIMIT, PAGED, QueryParam, Right, Route, param};

const MACHINES: &str = "/v1/fleet/machines";
const SHARDS: &str = "/v1/fleet/shards";
const DEMANDS: &str = "/v1/fleet/demand";
const DEMAND: &str = "/v1/fleet/demand/{cluster}";
/// The operator that only gangs have, and its number in the protocol.
const SAME: (&str, i32) = ("Same", 5);

const QUERY: &[QueryParam] = &[
    param("shard", Kind::Text, "Only of this shard"),
    param("cluster", Kind::Text, "Only bound to this cluster"),
    param("phase", Kind::Text, "Only in this phase"),
    param("name", Kind::Text, "Only the newest machine of this name, per provider"),
    param("gone", Kind::Flag, "Also machines that are gone"),
    AFTER,
    LIMIT,
];

pub(super) fn routes() -> Vec<Route> {
    let viewer = Right::Installation(Role::Viewer);
    let operator = Right::Installation(Role::Operator);
    let admin = Right::Installation(Role::Admin);
    let switches = |route: Route| route.gives::<wire::Shard>(200);
    vec![
        Route::new((Method::GET, MACHINES), viewer, "List machines", list)
            .lists::<wire::Machine>(QUERY),
        Route::new((Method::GET, "/v1/fleet/machines/{id}"), viewer, "Get a machine", get)
            .gives::<wire::Machine>(200),
        Route::new((Method::GET, "/v1/fleet/machines/{id}/why"), viewer, "Explain a machine", why)
            .gives::<wire::MachineWhy>(200),
        Route::new(
            (Method::POST, "/v1/fleet/machines/{id}/settle"),
            admin,
            "Settle a dispute",
            settle,
        )
        .takes::<wire::SettleMachine>()
        .gives::<wire::Machine>(200),
        Route::new((Method::GET, SHARDS), viewer, "List shards", shards).lists::<wire::Shard>(&[]),
        Route::new((Method::GET, "/v1/fleet/shards/{shard}/plan"), viewer, "Plan a cycle", plan)
            .gives::<wire::FleetPlan>(200),
        switches(Route::new(
            (Method::POST, "/v1/fleet/shards/{shard}/pause"),
            admin,
            "Pause a shard",
            pause,
        )),
        switches(Route::new(
            (Method::POST, "/v1/fleet/shards/{shard}/resume"),
            admin,
            "Resume a shard",
            resume,
        )),
        switches(Route::new(
            (Method::PUT, "/v1/fleet/shards/{shard}/dry-run"),
            admin,
            "Switch dry-run of a shard",
            dry_run,
        ))
        .takes::<wire::SetDryRun>(),
        Route::new((Method::GET, DEMANDS), viewer, "List demands", demands)
            .lists::<wire::Demand>(PAGED),
        Route::new((Method::GET, DEMAND), viewer, "Get the demand of a cluster", demand)
            .gives::<wire::Demand>(200),
        Route::new((Method::PUT, DEMAND), operator, "Set the demand of a cluster", set_demand)
            .takes::<wire::WriteDemand>()
            .gives::<wire::DemandOutcome>(200),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Params {
    shard: Option<String>,
    cluster: Option<String>,
    phase: Option<String>,
    name: Option<String>,
    #[serde(default)]
    gone: bool,
    after: Option<String>,
    limit: Option<u32>,
}

async fn list(call: Call) -> Answer<Response<Body>> {
    let Params { shard, cluster, phase, name, gone, after, limit } = call.query()?;
    let paging = paging(after, limit)?;
    let no_phase = |_| {
        let phases: Vec<&str> = Phase::ALL.iter().map(|it| it.as_str()).collect();
        let why = format!("\"phase\" is not one of {}", phases.join(", "));
        Refusal::QueryInvalid { why }
    };
    let query = MachineQuery {
        shard: shard.map(|it| it.parse()).transpose().map_err(Failure::from)?,
        cluster: cluster.map(|it| it.parse()).transpose().map_err(Failure::from)?,
        phase: phase.map(|it| it.parse::<Phase>()).transpose().map_err(no_phase)?,
        gone,
        name,
    };
    page(call.ports().fleet.machines(query, paging).await?, machine)
}

fn id(call: &Call) -> Answer<MachineRecordId> {
    let text = call.param("id")?;
    let missing = |_| Refusal::NotFound { thing: Thing::Machine, what: shortened(text) };
    Ok(text.parse().map_err(missing)?)
}

async fn get(call: Call) -> Answer<Response<Body>> {
    ok(&machine(&call.ports().fleet.machine(id(&call)?).await?))
}

async fn why(call: Call) -> Answer<Response<Body>> {
    let MachineWhy { machine: view, summary, blockers, advice, deadline } =
        call.ports().fleet.why_machine(id(&call)?).await?;
    ok(&wire::MachineWhy {
        machine: machine(&view),
        summary,
        blockers: blockers.iter().map(render::blocker).collect(),
        advice: advice.iter().map(render::advice).collect(),
        deadline: render::maybe(deadline),
    })
}

async fn settle(call: Call) -> Answer<Response<Body>> {
    let body: wire::SettleMachine = call.body()?;
    let settlement = match body.settlement.as_str() {
        "adopt" => Settlement::Adopt,
        "drain" => Settlement::Drain,
        _ => {
            let why = "\"settlement\" is not one of adopt, drain".to_owned();
            return Err(Refusal::BodyInvalid { why }.into());
        }
    };
    let settled = call.ports().fleet.settle(call.caller()?, id(&call)?, settlement).await?;
    ok(&machine(&settled))
}

async fn shards(call: Call) -> Answer<Response<Body>> {
    all(call.ports().fleet.shards().await?, shard)
}

/// The shard of the path; a malformed id is not found.
fn named(call: &Call) -> Answer<ShardId> {
    let text = call.param("shard")?;
    let missing = |_| Refusal::NotFound { thing: Thing::Shard, what: shortened(text) };
    Ok(text.parse().map_err(missing)?)
}

async fn pause(call: Call) -> Answer<Response<Body>> {
    ok(&shard(&call.ports().fleet.pause(call.caller()?, &named(&call)?, true).await?))
}

async fn resume(call: Call) -> Answer<Response<Body>> {
    ok(&shard(&call.ports().fleet.pause(call.caller()?, &named(&call)?, false).await?))
}

async fn dry_run(call: Call) -> Answer<Response<Body>> {
    let wire::SetDryRun { on } = call.body()?;
    ok(&shard(&call.ports().fleet.dry_run(call.caller()?, &named(&call)?, on).await?))
}

async fn plan(call: Call) -> Answer<Response<Body>> {
    ok(&planned(&call.ports().fleet.plan(&named(&call)?).await?))
}

async fn demands(call: Call) -> Answer<Response<Body>> {
    let paging = call.query::<Paged>()?.paging()?;
    page(call.ports().fleet.demands(paging).await?, wanted_by)
}

async fn demand(call: Call) -> Answer<Response<Body>> {
    let text = call.param("cluster")?;
    let missing = |_| Refusal::NotFound { thing: Thing::Demand, what: shortened(text) };
    let cluster: ClusterId = text.parse().map_err(missing)?;
    ok(&wanted_by(&call.ports().fleet.demand(&cluster).await?))
}

async fn set_demand(call: Call) -> Answer<Response<Body>> {
    let body: wire::WriteDemand = call.body()?;
    let new = NewDemand {
        cluster: call.param("cluster")?.parse().map_err(Failure::from)?,
        shard: body.shard.map(|it| it.parse()).transpose().map_err(Failure::from)?,
        needs: body.needs.into_iter().map(raw).collect(),
    };
    check_needs(&new.needs)?;
    let outcome = call.ports().fleet.set_demand(call.caller()?, new).await?;
    let demand = wanted_by(&outcome.demand);
    ok(&wire::DemandOutcome { judged: outcome.judged.to_string(), demand })
}

fn raw(it: wire::Need) -> RawNeed {
    RawNeed {
        requirements: it.requirements.into_iter().map(requirement).collect(),
        aggregate: it.aggregate,
        min_unit: it.min_unit,
        priority: it.priority,
        spread: it.spread,
        interruption_bucket: it.interruption_bucket,
        reclamation_bucket: it.reclamation_bucket,
        group: it.group,
    }
}

/// An unknown operator becomes 0, which the domain refuses with the key of the requirement.
fn requirement(it: wire::Requirement) -> RawRequirement {
    let words = Operator::ALL.iter().map(|it| it.as_str()).zip(1..).chain([SAME]);
    let number = words.into_iter().find(|(word, _)| *word == it.operator);
    let operator = number.map_or(0, |(_, number)| number);
    RawRequirement { key: it.key, operator, values: it.values }
}

fn need(it: &RawNeed) -> wire::Need {
    let word = |number: i32| {
        let place = usize::try_from(number - 1).ok();
        place.and_then(|it| Operator::ALL.get(it)).map_or(SAME.0, |it| it.as_str()).to_owned()
    };
    let requirements = it.requirements.iter().map(|it| wire::Requirement {
        key: it.key.clone(),
        operator: word(it.operator),
        values: it.values.clone(),
    });
    wire::Need {
        aggregate: it.aggregate.clone(),
        min_unit: it.min_unit.clone(),
        requirements: requirements.collect(),
        priority: it.priority,
        spread: it.spread.clone(),
        interruption_bucket: it.interruption_bucket,
        reclamation_bucket: it.reclamation_bucket,
        group: it.group.clone(),
    }
}

fn wanted_by(it: &DemandView) -> wire::Demand {
    wire::Demand {
        cluster: it.cluster.to_string(),
        shard: it.shard.to_string(),
        version: it.version.0,
        received_at: render::time(it.received_at),
        held: it.is_held,
        needs: it.needs.iter().map(need).collect(),
    }
}

fn shard(it: &ShardView) -> wire::Shard {
    wire::Shard {
        id: it.id.to_string(),
        epoch: it.epoch,
        held_until: render::maybe(it.held_until),
        switch: it.switch.to_string(),
        paused_at: render::maybe(it.paused_at),
        dry_run_at: render::maybe(it.dry_run_at),
    }
}

fn wanted(it: &Wanted) -> String {
    let word = match it.target {
        Target::Bind(_) => "Bind",
        Target::Unbound => "Unbound",
        Target::Release => "Release",
    };
    word.to_owned()
}

fn machine(view: &MachineView) -> wire::Machine {
    let row: &Machine = &view.machine;
    let fields = row.fields();
    let offer = fields.offer.known();
    let error = row.state().error().map(str::to_owned);
    wire::Machine {
        id: view.id.to_string(),
        name: fields.id.to_string(),
        provider: fields.provider.clone(),
        shard: fields.owner.to_string(),
        phase: row.phase().to_string(),
        reason: view.reason.to_string(),
        cluster: row.state().binding().map(|it| it.cluster.to_string()),
        wanted: wanted(&fields.wanted),
        wanted_cluster: fields.wanted.cluster().map(ToString::to_string),
        holder: fields.holder.map(|it| it.to_string()),
        disputed_cluster: fields.disputed.as_ref().map(|it| it.cluster.to_string()),
        host: row.state().host().map(|it| it.reference.clone()),
        command: fields.command.to_string(),
        error,
        instance_type: offer.map(|it| it.instance_type.clone()),
        zone: offer.map(|it| it.zone.clone()),
        capacity_type: offer.map(|it| it.capacity.to_string()),
        price_per_hour: offer.map(|it| it.price.get()),
        phase_since: render::time(fields.phase_since),
        version: view.version.0,
    }
}

fn planned(it: &FleetPlan) -> wire::FleetPlan {
    let aim = |it: &AimView| wire::Aim {
        machine: it.id.to_string(),
        name: it.name.clone(),
        phase: it.phase.to_string(),
        wanted: wanted(&it.wanted),
        cluster: it.wanted.cluster().map(ToString::to_string),
        cause: it.cause.to_string(),
        grace_seconds: it.wanted.grace.as_secs(),
    };
    let status = |it: &NeedView| wire::NeedStatus {
        cluster: it.cluster.to_string(),
        place: it.place,
        outcome: it.outcome.to_string(),
        need: it.need.as_ref().map(need),
    };
    let cluster = |it: &ClusterReport| wire::ClusterStatus {
        cluster: it.cluster.to_string(),
        surplus: it.surplus,
        reclaimed: it.reclaimed,
        held_back: it.held_back.map(|it| it.to_string()),
        refused: it.refused.iter().map(|it| it.code().to_owned()).collect(),
    };
    wire::FleetPlan {
        shard: shard(&it.shard),
        machines: it.machines,
        broken: it.broken,
        aims: it.aims.iter().map(aim).collect(),
        aims_total: it.aims_total,
        outcomes: it.outcomes.iter().map(|(word, many)| (word.to_string(), *many)).collect(),
        needs: it.needs.iter().map(status).collect(),
        clusters: it.clusters.iter().map(cluster).collect(),
        held_back: it.held_back.iter().map(ToString::to_string).collect(),
    }
}
