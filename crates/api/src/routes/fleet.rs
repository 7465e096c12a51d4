//! Machines, shards and demand.

use axum::body::Body;
use axum::http::{Method, Response};
use serde::Deserialize;
use usher_domain::fleet::aggregate::{Machine, State, Target, Wanted};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{ClusterReport, Operator, RawNeed, RawRequirement, check_needs};
use usher_domain::object::id::MachineLifeId;
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
use crate::route::{AFTER, Asked, Kind, LIMIT, PAGED, Right, Route, asked};

const MACHINES: &str = "/v1/fleet/machines";
const SHARDS: &str = "/v1/fleet/shards";
const DEMANDS: &str = "/v1/fleet/demand";
const DEMAND: &str = "/v1/fleet/demand/{cluster}";
/// The word for a requirement that only gangs have, and its number on the wire.
const SAME: (&str, i32) = ("Same", 5);

const LISTED: &[Asked] = &[
    asked("shard", Kind::Text, "Only of this shard"),
    asked("cluster", Kind::Text, "Only bound to this cluster"),
    asked("phase", Kind::Text, "Only in this phase"),
    asked("name", Kind::Text, "Only the newest life of this name, with each provider"),
    asked("gone", Kind::Flag, "Also those that are gone"),
    AFTER,
    LIMIT,
];

pub(super) fn routes() -> Vec<Route> {
    let looks = Right::Installation(Role::Viewer);
    let acts = Right::Installation(Role::Operator);
    let decides = Right::Installation(Role::Admin);
    let switches = |route: Route| route.gives::<wire::Shard>(200);
    vec![
        Route::new((Method::GET, MACHINES), looks, "List machines", list)
            .lists::<wire::Machine>(LISTED),
        Route::new((Method::GET, "/v1/fleet/machines/{id}"), looks, "Look at a machine", get)
            .gives::<wire::Machine>(200),
        Route::new((Method::GET, "/v1/fleet/machines/{id}/why"), looks, "Say why it is so", why)
            .gives::<wire::MachineWhy>(200),
        Route::new((Method::POST, "/v1/fleet/machines/{id}/settle"), decides, "Settle it", settle)
            .takes::<wire::SettleMachine>()
            .gives::<wire::Machine>(200),
        Route::new((Method::GET, SHARDS), looks, "List shards", shards).lists::<wire::Shard>(&[]),
        Route::new((Method::GET, "/v1/fleet/shards/{shard}/plan"), looks, "Plan a cycle", plan)
            .gives::<wire::FleetPlan>(200),
        switches(Route::new(
            (Method::POST, "/v1/fleet/shards/{shard}/pause"),
            decides,
            "Begin nothing new",
            pause,
        )),
        switches(Route::new(
            (Method::POST, "/v1/fleet/shards/{shard}/resume"),
            decides,
            "Go on",
            resume,
        )),
        switches(Route::new(
            (Method::PUT, "/v1/fleet/shards/{shard}/dry-run"),
            decides,
            "Only tell plans, or act upon them",
            dry_run,
        ))
        .takes::<wire::SetDryRun>(),
        Route::new((Method::GET, DEMANDS), looks, "List what clusters need", demands)
            .lists::<wire::Demand>(PAGED),
        Route::new((Method::GET, DEMAND), looks, "Look at what a cluster needs", demand)
            .gives::<wire::Demand>(200),
        Route::new((Method::PUT, DEMAND), acts, "Replace what a cluster needs", set_demand)
            .takes::<wire::WriteDemand>()
            .gives::<wire::HeardDemand>(200),
    ]
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listed {
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
    let Listed { shard, cluster, phase, name, gone, after, limit } = call.query()?;
    let paging = paging(after, limit)?;
    let no_phase = |_| Refusal::QueryInvalid { why: "\"phase\" is no phase".to_owned() };
    let query = MachineQuery {
        shard: shard.map(|it| it.parse()).transpose().map_err(Failure::from)?,
        cluster: cluster.map(|it| it.parse()).transpose().map_err(Failure::from)?,
        phase: phase.map(|it| it.parse::<Phase>()).transpose().map_err(no_phase)?,
        gone,
        name,
    };
    page(call.ports().fleet.machines(query, paging).await?, machine)
}

fn id(call: &Call) -> Answer<MachineLifeId> {
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

/// The shard of the path; what cannot name one names none.
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
    let heard = call.ports().fleet.set_demand(call.caller()?, new).await?;
    let demand = wanted_by(&heard.demand);
    ok(&wire::HeardDemand { judged: heard.judged.to_string(), demand })
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

/// A word that nobody knows is the number that nobody knows: the domain refuses it by its key.
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
        heard_at: render::time(it.heard_at),
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
    let error = match row.state() {
        State::Failed { error, .. } => Some(error.clone()),
        State::Speculative
        | State::Creating
        | State::Idle { .. }
        | State::Configuring { .. }
        | State::Configured { .. }
        | State::Draining { .. }
        | State::Deleting { .. }
        | State::Gone => None,
    };
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
        order: fields.order.to_string(),
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
    let standing = |it: &NeedView| wire::NeedStanding {
        cluster: it.cluster.to_string(),
        place: it.place,
        outcome: it.outcome.to_string(),
        need: it.need.as_ref().map(need),
    };
    let cluster = |it: &ClusterReport| wire::ClusterStanding {
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
        needs: it.needs.iter().map(standing).collect(),
        clusters: it.clusters.iter().map(cluster).collect(),
        held_back: it.held_back.iter().map(ToString::to_string).collect(),
    }
}
