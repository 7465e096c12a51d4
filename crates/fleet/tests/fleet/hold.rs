//! What holds a shard back, and what it recovers after a total loss of state.

use usher_domain::fleet::aggregate::{Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_store::{Brake, MachineCommand};
use usher_wire::fleet::MachineState;
use uuid::Uuid;

use crate::yard::Yard;

// Requirement: F-67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_or_dry_running_shard_starts_nothing_and_resumes() {
    let mut yard = Yard::open(4).await;
    yard.until(Phase::Speculative, 4).await;
    let shard = || "shard-0".parse().unwrap();
    yard.store.brake_shard(shard(), Brake::Pause, true, None).await.unwrap();
    yard.need("a", 2, 100).await;
    yard.eventually("held back", || yard.shown().contains("why=\"Paused\"")).await;
    yard.store.brake_shard(shard(), Brake::DryRun, true, None).await.unwrap();
    yard.store.brake_shard(shard(), Brake::Pause, false, None).await.unwrap();
    yard.eventually("dry run", || yard.shown().contains("why=\"DryRun\"")).await;
    assert_eq!((yard.count(Phase::Speculative).await, yard.plant.deeds().len()), (4, 0));
    yard.store.brake_shard(shard(), Brake::DryRun, false, None).await.unwrap();
    yard.until(Phase::Configured, 2).await;
    yard.stop().await;
}

// Requirement: F-68
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_behind_a_resource_is_neither_preempted_nor_reclaimed() {
    let mut yard = Yard::open(2).await;
    yard.until(Phase::Speculative, 2).await;
    let holder = ResourceId::from_uuid(Uuid::from_u128(9));
    let binding = Binding { cluster: "broker".parse().unwrap(), assignment: Assignment::default() };
    let wanted = Wanted::of(Target::Bind(binding));
    let id = yard.row("m0").await.id;
    let order = MachineCommand::Hold { holder, wanted };
    yard.store.command_machine(id, order, None).await.unwrap();
    yard.until(Phase::Configured, 1).await;
    yard.need("broker", 0, 0).await;
    yard.need("greedy", 2, 1_000_000).await;
    yard.until(Phase::Configured, 2).await;
    let asked = yard.plant.traffic().0;
    yard.eventually("plans were made", || yard.plant.traffic().0 > asked + 5).await;
    assert_eq!(yard.plant.machine("m0").cluster, "broker");
    assert_eq!(yard.plant.machine("m1").cluster, "greedy");
    let read = yard.row("m0").await.record.version;
    yard.store.command_machine(id, MachineCommand::LetGo { holder, read }, None).await.unwrap();
    yard.eventually("it is taken now", || yard.plant.machine("m0").cluster == "greedy").await;
    yard.stop().await;
}

// Requirement: F-69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_bindings_are_restored_and_a_cluster_without_demand_keeps_them() {
    let mut first = Yard::open(6).await;
    first.need("a", 3, 77).await;
    first.until(Phase::Configured, 3).await;
    first.stop().await;
    let mut second = Yard::closed(0).await;
    for it in first.plant.machines() {
        second.plant.add(it);
    }
    second.start();
    second.until(Phase::Configured, 3).await;
    for row in second.rows().await {
        let machine = &row.record.state;
        if machine.phase() == Phase::Configured {
            let binding = machine.state().binding().unwrap();
            assert_eq!((binding.cluster.as_str(), binding.assignment.priority), ("a", 77));
        }
    }
    let asked = second.plant.traffic().0;
    second.eventually("plans were made", || second.plant.traffic().0 > asked + 5).await;
    assert_eq!(second.plant.count(MachineState::Configured), 3, "no demand was received");
    second.need("a", 1, 77).await;
    second.until(Phase::Configured, 1).await;
    second.until(Phase::Idle, 2).await;
    second.stop().await;
}

// Requirement: F-67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_a_shard_sends_no_command() {
    let mut yard = Yard::open(4).await;
    yard.need("a", 4, 100).await;
    yard.until(Phase::Configured, 4).await;
    yard.need("a", 0, 100).await;
    yard.store.close().await;
    let (asked, deeds) = (yard.plant.traffic().0, yard.plant.deeds().len());
    yard.eventually("lists go on", || yard.plant.traffic().0 > asked + 3).await;
    // A drain that was recorded before the store failed may still be sent.
    let later = yard.plant.deeds().len();
    yard.eventually("lists go on", || yard.plant.traffic().0 > asked + 30).await;
    assert_eq!(yard.plant.deeds().len(), later, "{deeds} before");
    assert!(yard.plant.count(MachineState::Speculative) == 0);
    yard.crash().await;
}
