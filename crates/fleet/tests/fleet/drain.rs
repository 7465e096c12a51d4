//! Regressions with an asynchronous provider: drained capacity that was never usable again.

use std::collections::BTreeMap;

use usher_domain::fleet::aggregate::State;
use usher_domain::fleet::phase::Phase;
use usher_fleet::tally::{Kind, Outcome};
use usher_wire::fleet::MachineState;

use crate::shard_harness::ShardHarness;

/// Demand for twelve of twenty-four machines, all staged, completed once all were accepted.
async fn grown() -> ShardHarness {
    let harness = ShardHarness::open(24).await;
    harness.fake.behave(|it| it.is_staged = true);
    harness.until(Phase::Speculative, 24).await;
    harness.need("a", 12, 100).await;
    harness.until(Phase::Creating, 12).await;
    harness
        .eventually("twelve creations", || harness.fake.count(MachineState::Creating) == 12)
        .await;
    harness.fake.let_go();
    harness.until(Phase::Configuring, 12).await;
    harness
        .eventually("twelve joins", || harness.fake.count(MachineState::Configuring) == 12)
        .await;
    harness.fake.let_go();
    harness.until(Phase::Configured, 12).await;
    harness
}

// Requirement: F-60
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reclaimed_machines_stay_bound_until_drained_and_capacity_shrinks() {
    let mut harness = grown().await;
    harness.need("a", 2, 100).await;
    harness.until(Phase::Draining, 10).await;
    harness.eventually("ten drains", || harness.fake.count(MachineState::Draining) == 10).await;
    for row in harness.rows().await {
        if let State::Draining { binding, .. } = row.record.state.state() {
            assert_eq!(binding.cluster.as_str(), "a");
            assert_eq!(binding.assignment.priority, 100, "as long as it is bound");
        }
    }
    harness.fake.let_go();
    harness.until(Phase::Idle, 10).await;
    assert_eq!(harness.count(Phase::Configured).await, 2);
    for row in harness.rows().await {
        let machine = &row.record.state;
        let bound = machine.phase() == Phase::Configured;
        assert_eq!(machine.state().binding().is_some(), bound, "both are cleared together");
        assert_eq!(machine.wanted().cluster().is_some(), bound);
    }
    assert_eq!(harness.tally.outcomes(Kind::Reclaim, Outcome::Success), 10);
    harness.no_transition_error();
    harness.fake.nothing_was_done_twice();
    harness.stop().await;
}

// Requirement: F-60
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn preempted_machines_leave_their_cluster_before_they_join_another() {
    let mut harness = ShardHarness::open(4).await;
    harness.fake.behave(|it| it.is_staged = true);
    harness.need("low", 4, 10).await;
    for phase in [Phase::Creating, Phase::Configuring] {
        harness.until(phase, 4).await;
        let state = if phase == Phase::Creating {
            MachineState::Creating
        } else {
            MachineState::Configuring
        };
        harness.eventually("accepted", || harness.fake.count(state) == 4).await;
        harness.fake.let_go();
    }
    harness.until(Phase::Configured, 4).await;
    harness.need("high", 3, 1_000_000).await;
    harness.until(Phase::Draining, 3).await;
    harness.eventually("three drains", || harness.fake.count(MachineState::Draining) == 3).await;
    let leaving = harness.rows().await;
    let leaving: Vec<_> =
        leaving.iter().filter(|it| it.record.state.phase() == Phase::Draining).collect();
    for row in &leaving {
        let machine = &row.record.state;
        assert_eq!(machine.state().binding().unwrap().cluster.as_str(), "low");
        assert_eq!(machine.wanted().cluster().unwrap().as_str(), "high");
    }
    let drains = harness.fake.deeds().into_iter().filter(|it| it.verb == MachineState::Draining);
    let graces: Vec<i64> = drains.map(|it| it.grace).collect();
    assert_eq!(graces, [10, 10, 10], "a far more urgent need shortens the grace");
    harness.fake.let_go();
    harness.until(Phase::Configuring, 3).await;
    harness.eventually("three joins", || harness.fake.count(MachineState::Configuring) == 3).await;
    harness.fake.let_go();
    harness.until(Phase::Configured, 4).await;
    let bound = harness.fake.machines().into_iter().filter(|it| it.cluster == "high").count();
    assert_eq!(bound, 3);
    assert_eq!(harness.tally.outcomes(Kind::Preempt, Outcome::Success), 3);
    harness.no_transition_error();
    harness.fake.nothing_was_done_twice();
    harness.stop().await;
}

// Requirement: F-62
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_phase_change_has_one_event_however_it_completed() {
    let mut harness = grown().await;
    harness.need("a", 0, 100).await;
    harness.until(Phase::Draining, 12).await;
    harness.eventually("twelve drains", || harness.fake.count(MachineState::Draining) == 12).await;
    harness.fake.let_go();
    harness.until(Phase::Idle, 12).await;
    harness.stop().await;
    let mut paths: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for event in harness.events().await {
        let text = |key: &str| event.data[key].as_str().unwrap().to_owned();
        paths.entry(text("machine")).or_default().push(text("to"));
    }
    assert_eq!(paths.len(), 12);
    for path in paths.values() {
        let expected = ["Creating", "Idle", "Configuring", "Configured", "Draining", "Idle"];
        assert_eq!(path, &expected);
    }
}
