//! What holds a shard back, and what it recovers after a total loss of state.

use usher_domain::fleet::aggregate::{Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_store::{Brake, MachineCommand};
use usher_wire::fleet::MachineState;
use uuid::Uuid;

use crate::shard_harness::ShardHarness;

// Requirement: F-67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_paused_or_dry_running_shard_starts_nothing_and_resumes() {
    let mut harness = ShardHarness::open(4).await;
    harness.until(Phase::Speculative, 4).await;
    let shard = || "shard-0".parse().unwrap();
    harness.store.brake_shard(shard(), Brake::Pause, true, None).await.unwrap();
    harness.need("a", 2, 100).await;
    harness.eventually("held back", || harness.shown().contains("why=\"Paused\"")).await;
    harness.store.brake_shard(shard(), Brake::DryRun, true, None).await.unwrap();
    harness.store.brake_shard(shard(), Brake::Pause, false, None).await.unwrap();
    harness.eventually("dry run", || harness.shown().contains("why=\"DryRun\"")).await;
    assert_eq!((harness.count(Phase::Speculative).await, harness.fake.deeds().len()), (4, 0));
    harness.store.brake_shard(shard(), Brake::DryRun, false, None).await.unwrap();
    harness.until(Phase::Configured, 2).await;
    harness.stop().await;
}

// Requirement: F-68
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_behind_a_resource_is_neither_preempted_nor_reclaimed() {
    let mut harness = ShardHarness::open(2).await;
    harness.until(Phase::Speculative, 2).await;
    let holder = ResourceId::from_uuid(Uuid::from_u128(9));
    let binding = Binding { cluster: "broker".parse().unwrap(), assignment: Assignment::default() };
    let wanted = Wanted::of(Target::Bind(binding));
    let id = harness.row("m0").await.id;
    let command = MachineCommand::Hold { holder, wanted };
    harness.store.command_machine(id, command, None).await.unwrap();
    harness.until(Phase::Configured, 1).await;
    harness.need("broker", 0, 0).await;
    harness.need("greedy", 2, 1_000_000).await;
    harness.until(Phase::Configured, 2).await;
    let asked = harness.fake.traffic().0;
    harness.eventually("plans were made", || harness.fake.traffic().0 > asked + 5).await;
    assert_eq!(harness.fake.machine("m0").cluster, "broker");
    assert_eq!(harness.fake.machine("m1").cluster, "greedy");
    let read = harness.row("m0").await.record.version;
    harness.store.command_machine(id, MachineCommand::LetGo { holder, read }, None).await.unwrap();
    harness.eventually("it is taken now", || harness.fake.machine("m0").cluster == "greedy").await;
    harness.stop().await;
}

// Requirement: F-69
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lost_bindings_are_restored_and_a_cluster_without_demand_keeps_them() {
    let mut first = ShardHarness::open(6).await;
    first.need("a", 3, 77).await;
    first.until(Phase::Configured, 3).await;
    first.stop().await;
    let mut second = ShardHarness::closed(0).await;
    for it in first.fake.machines() {
        second.fake.add(it);
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
    let asked = second.fake.traffic().0;
    second.eventually("plans were made", || second.fake.traffic().0 > asked + 5).await;
    assert_eq!(second.fake.count(MachineState::Configured), 3, "no demand was received");
    second.need("a", 1, 77).await;
    second.until(Phase::Configured, 1).await;
    second.until(Phase::Idle, 2).await;
    second.stop().await;
}

// Requirement: F-67
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_its_store_a_shard_sends_no_command() {
    let mut harness = ShardHarness::open(4).await;
    harness.need("a", 4, 100).await;
    harness.until(Phase::Configured, 4).await;
    harness.need("a", 0, 100).await;
    harness.store.close().await;
    let (asked, deeds) = (harness.fake.traffic().0, harness.fake.deeds().len());
    harness.eventually("lists continue", || harness.fake.traffic().0 > asked + 3).await;
    // A drain that was recorded before the store failed may still be sent.
    let later = harness.fake.deeds().len();
    harness.eventually("lists continue", || harness.fake.traffic().0 > asked + 30).await;
    assert_eq!(harness.fake.deeds().len(), later, "{deeds} before");
    assert!(harness.fake.count(MachineState::Speculative) == 0);
    harness.crash().await;
}
