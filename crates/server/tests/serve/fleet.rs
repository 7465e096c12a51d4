//! The fleet API over a store.

use std::sync::Arc;
use std::time::Duration;

use usher_api::fleet::{Fleet as _, FleetPlan, MachineQuery, NewDemand};
use usher_api::ports::Failure;
use usher_api::views::{Caller, Paging};
use usher_domain::fleet::accept::{Adopted, Raw, Report, adopt};
use usher_domain::fleet::aggregate::{Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::plan::{Cause, HeldBack, Judged, Outcome, RawNeed};
use usher_domain::fleet::reason::Reason;
use usher_domain::object::id::{MachineRecordId, OperatorTokenId, ResourceId};
use usher_domain::operators::Grant;
use usher_server::services::fleet::Machines;
use usher_store::{Acquisition, Cycle, List, MachineCommand, ShardLease, Store};
use uuid::Uuid;

use crate::test_env::TestEnv;

const LONG: Duration = Duration::from_mins(10);

fn shard(name: &str) -> ShardId {
    name.parse().unwrap()
}

fn cluster(name: &str) -> ClusterId {
    name.parse().unwrap()
}

fn ann() -> Caller {
    let token = OperatorTokenId::from_uuid(Uuid::now_v7());
    Caller { token, name: "ann".parse().unwrap(), grant: Grant::Admin }
}

async fn lease(store: &Store, name: &str) -> ShardLease {
    match store.acquire_shard(shard(name), Uuid::now_v7(), LONG).await.unwrap() {
        Acquisition::Ours(lease) => lease,
        Acquisition::Theirs(_) => panic!("another process holds {name}"),
    }
}

/// A machine of four processors: idle, or a node of a cluster.
fn found(id: &str, bound: &str) -> Adopted {
    let raw = Raw {
        id: id.to_owned(),
        state: if bound.is_empty() { 3 } else { 5 },
        host: Some(("p".to_owned(), "h".to_owned())),
        instance_type: "small".to_owned(),
        capacity_type: 1,
        price_per_hour: 1.0,
        resources: [("cpu".to_owned(), "4".to_owned())].into(),
        cluster: bound.to_owned(),
        ..Raw::default()
    };
    let report = Report::read(&raw).unwrap();
    adopt(&report, "p", &shard("s"), usher_kernel::Timestamp::from_millis(1)).unwrap()
}

/// Writes machines, and a list that is believed or not.
async fn settle(
    store: &Store,
    lease: &ShardLease,
    (adopted, credence): (Vec<Adopted>, Credence),
) -> Vec<MachineRecordId> {
    let list = List { provider: "p".to_owned(), revision: vec![], credence };
    let cycle = Cycle { lease: lease.clone(), writes: vec![], adopted, lists: vec![list] };
    let written = store.commit_cycle(cycle).await.unwrap();
    written.adopted.into_iter().map(Option::unwrap).collect()
}

fn demand(name: &str, cpus: &[u32]) -> NewDemand {
    let need = |cpu: &u32| RawNeed {
        aggregate: [("cpu".to_owned(), cpu.to_string())].into(),
        ..RawNeed::default()
    };
    let needs = cpus.iter().map(need).collect();
    NewDemand { cluster: cluster(name), shard: None, needs }
}

fn code(failure: Failure) -> &'static str {
    let Failure::Refused(refused) = failure else { panic!("{failure:?}") };
    refused.code
}

fn causes(plan: &FleetPlan) -> Vec<(String, Cause)> {
    plan.aims.iter().map(|it| (it.name.clone(), it.cause)).collect()
}

/// Red by: a shard that is guessed for a cluster, or that is not recorded.
// Requirement: F-59
#[tokio::test]
async fn a_cluster_is_served_by_the_named_shard_or_by_the_only_one() {
    let env = TestEnv::new().await;
    let fleet = Machines { store: Arc::clone(&env.store) };
    let served = async |new: NewDemand| -> Result<String, Failure> {
        Ok(fleet.set_demand(&ann(), new).await?.demand.shard.to_string())
    };
    assert_eq!(served(demand("a", &[4])).await.unwrap(), "shard-0", "no shard was acquired yet");
    lease(&env.store, "s").await;
    assert_eq!(served(demand("b", &[4])).await.unwrap(), "s");
    assert_eq!(served(demand("a", &[8])).await.unwrap(), "shard-0", "it is recorded");
    lease(&env.store, "t").await;
    assert_eq!(code(served(demand("c", &[4])).await.unwrap_err()), "shard_required");
    let said = |name: &str, by: &str| NewDemand { shard: Some(shard(by)), ..demand(name, &[4]) };
    assert_eq!(served(said("c", "t")).await.unwrap(), "t");
    assert_eq!(code(served(said("c", "s")).await.unwrap_err()), "cluster_served");
    let audit = env.store.audit(None, 50).await.unwrap();
    let audited: Vec<_> = audit.iter().filter(|it| it.action.as_str() == "fleet.demand").collect();
    assert_eq!(audited.len(), 4, "a refused command is not audited");
    assert_eq!((audited[0].actor.as_str(), audited[0].subject.as_str()), ("ann", "a"));
}

/// Red by: a plan that counts held machines, or that changes the store.
// Requirement: F-56
#[tokio::test]
async fn a_plan_reads_the_stored_state_and_changes_nothing() {
    let env = TestEnv::new().await;
    let (store, fleet) = (&env.store, Machines { store: Arc::clone(&env.store) });
    let held = lease(store, "s").await;
    let machines = vec![found("m-1", ""), found("m-2", ""), found("m-3", "b")];
    let ids = settle(store, &held, (machines, Credence::Whole)).await;
    let holder = ResourceId::from_uuid(Uuid::now_v7());
    let binding = Binding { cluster: cluster("h"), assignment: Assignment::default() };
    let wanted = Wanted::of(Target::Bind(binding));
    let command = MachineCommand::Hold { holder, wanted };
    store.command_machine(ids[0], command, None).await.unwrap();
    fleet.set_demand(&ann(), demand("a", &[8])).await.unwrap();
    fleet.set_demand(&ann(), demand("b", &[])).await.unwrap();
    let before = store.machine(ids[1]).await.unwrap();
    let plan = fleet.plan(&shard("s")).await.unwrap();
    let expected = [("m-2".to_owned(), Cause::Assign), ("m-3".to_owned(), Cause::Reclaim)];
    assert_eq!(causes(&plan), expected, "a held machine is not planned");
    assert_eq!((plan.machines, plan.aims_total, plan.broken), (3, 2, 0));
    assert_eq!(plan.needs[0].outcome, Outcome::NoCapacity, "one of two machines");
    assert_eq!(plan.needs[0].need.as_ref().unwrap().aggregate["cpu"], "8");
    assert_eq!(plan.held_back, []);
    assert_eq!(store.machine(ids[1]).await.unwrap(), before);
    fleet.pause(&ann(), &shard("s"), true).await.unwrap();
    let paused = fleet.plan(&shard("s")).await.unwrap();
    assert_eq!((paused.held_back.as_slice(), paused.aims_total), (&[HeldBack::Paused][..], 2));
    settle(store, &held, (vec![], Credence::TooSmall)).await;
    fleet.pause(&ann(), &shard("s"), false).await.unwrap();
    let distrusted = fleet.plan(&shard("s")).await.unwrap();
    assert_eq!(causes(&distrusted), [("m-2".to_owned(), Cause::Assign)], "nothing is reclaimed");
    assert_eq!(distrusted.held_back, [HeldBack::ListQuarantined]);
    assert_eq!(code(fleet.plan(&shard("x")).await.unwrap_err()), "shard_not_found");
}

/// Red by: a plan that believes a sudden drop at once.
// Requirement: F-53
#[tokio::test]
async fn a_sudden_drop_in_demand_takes_effect_at_the_third_report() {
    let env = TestEnv::new().await;
    let (store, fleet) = (&env.store, Machines { store: Arc::clone(&env.store) });
    let held = lease(store, "s").await;
    settle(store, &held, (vec![found("m-1", "a")], Credence::Whole)).await;
    fleet.set_demand(&ann(), demand("a", &[1; 10])).await.unwrap();
    for (judged, aims) in [(Judged::Held, 0), (Judged::Held, 0), (Judged::Accepted, 1)] {
        let outcome = fleet.set_demand(&ann(), demand("a", &[])).await.unwrap();
        assert_eq!((outcome.judged, outcome.demand.is_held), (judged, judged == Judged::Held));
        let plan = fleet.plan(&shard("s")).await.unwrap();
        let taken = plan.aims.iter().filter(|it| it.cause == Cause::Reclaim).count();
        assert_eq!(taken, aims);
    }
}

/// Red by: a machine that waits without a reason or a remedy.
// Requirement: F-57
#[tokio::test]
async fn why_names_the_shard_the_holder_and_the_list_of_a_machine() {
    let env = TestEnv::new().await;
    let (store, fleet) = (&env.store, Machines { store: Arc::clone(&env.store) });
    let held = lease(store, "s").await;
    let machines = vec![found("m-1", ""), found("m-2", "b")];
    let ids = settle(store, &held, (machines, Credence::Whole)).await;
    let steady = fleet.why_machine(ids[1]).await.unwrap();
    assert_eq!(steady.machine.reason, Reason::AsDeclared);
    assert_eq!(
        (steady.summary.as_str(), steady.advice.len()),
        ("it serves cluster b, as declared", 0)
    );
    let holder = ResourceId::from_uuid(Uuid::now_v7());
    let binding = Binding { cluster: cluster("h"), assignment: Assignment::default() };
    let command = MachineCommand::Hold { holder, wanted: Wanted::of(Target::Bind(binding)) };
    store.command_machine(ids[0], command, None).await.unwrap();
    settle(store, &held, (vec![], Credence::TooSmall)).await;
    fleet.pause(&ann(), &shard("s"), true).await.unwrap();
    store.release_shard(held).await.unwrap();
    let why = fleet.why_machine(ids[0]).await.unwrap();
    assert_eq!(why.machine.reason, Reason::Paused);
    let blockers: Vec<_> = why.blockers.iter().map(|it| it.kind.as_str()).collect();
    assert_eq!(blockers, ["resource", "shard", "list"]);
    let symptoms: Vec<_> = why.advice.iter().map(|it| it.symptom.as_str()).collect();
    assert!(symptoms[0].ends_with("with reason Paused"), "{symptoms:?}");
    assert_eq!(symptoms[1], "no process holds the lease of shard s");
    assert_eq!(symptoms[2], "the last list of provider p is not believed");
    assert!(why.advice[0].remedy.contains("usher fleet resume --shard s"));
    let paging = || Paging { after: None, limit: 1 };
    let query = MachineQuery::default();
    let page = fleet.machines(query.clone(), paging()).await.unwrap();
    assert_eq!(page.items[0].id, ids[0]);
    let after = Paging { after: page.next, limit: 1 };
    let page = fleet.machines(query, after).await.unwrap();
    assert_eq!((page.items[0].id, page.next), (ids[1], None));
    let named = MachineQuery { name: Some("m-2".to_owned()), ..MachineQuery::default() };
    let page = fleet.machines(named, paging()).await.unwrap();
    assert_eq!(page.items[0].id, ids[1]);
    let unknown = MachineRecordId::from_uuid(Uuid::now_v7());
    assert_eq!(code(fleet.machine(unknown).await.unwrap_err()), "machine_not_found");
}
