//! Providers that send invalid data, repeat records, do not respond, or name other clusters.

use std::time::Duration;

use usher_domain::fleet::phase::Phase;
use usher_fleet::provider::CallTimeouts;
use usher_fleet::tally::{Kind, Outcome};
use usher_wire::fleet::{HostRef, Machine, MachineState};

use crate::fake_provider::machine;
use crate::shard_harness::ShardHarness;

fn host() -> HostRef {
    HostRef { provider: "plant".to_owned(), r#ref: "h".to_owned() }
}

/// Machines that are each invalid in another way.
fn garbage() -> Vec<Machine> {
    let bent = |id: &str, change: fn(&mut Machine)| {
        let mut it = machine(id);
        change(&mut it);
        it
    };
    vec![
        bent("negative-price", |it| it.price_per_hour = -1.0),
        bent("no-price", |it| it.price_per_hour = f64::NAN),
        bent("too-certain", |it| it.interruption_probability = 1.5),
        bent("no-state", |it| it.state = 0),
        bent("unknown-state", |it| it.state = 99),
        bent("idle-without-host", |it| it.set_state(MachineState::Idle)),
        bent("host-without-state", |it| it.host = Some(host())),
        bent("bound-and-idle", |it| {
            it.set_state(MachineState::Idle);
            it.host = Some(host());
            "a".clone_into(&mut it.cluster);
        }),
        bent("bound-to-no-cluster", |it| {
            it.set_state(MachineState::Configured);
            it.host = Some(host());
        }),
        bent("\u{7}", |_| ()),
        bent(" padded ", |_| ()),
        bent("", |_| ()),
    ]
}

// Requirement: F-63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_records_block_no_machine_and_serve_no_need() {
    let mut harness = ShardHarness::closed(3).await;
    for it in garbage() {
        harness.fake.add(it);
    }
    harness.start();
    // A record with a state is followed; one without a valid offer serves no need.
    harness.until(Phase::Speculative, 6).await;
    harness.need("a", 6, 100).await;
    harness.until(Phase::Configured, 3).await;
    let bound = harness.fake.machines().into_iter().filter(|it| !it.cluster.is_empty());
    let mut bound: Vec<String> = bound.map(|it| it.id).collect();
    bound.retain(|it| it.starts_with('m'));
    assert_eq!(bound, ["m0", "m1", "m2"]);
    let shown = harness.shown();
    for reason in ["price", "interruption_probability", "machine_state", "machine_host"] {
        let counter = format!("usher_fleet_machines_rejected_total{{reason=\"{reason}\"}}");
        assert!(shown.contains(&counter), "{counter}: {shown}");
    }
    harness.stop().await;
}

// Requirement: F-63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_an_invalid_record_keeps_its_state_and_recovers() {
    let mut harness = ShardHarness::open(2).await;
    harness.need("a", 2, 100).await;
    harness.until(Phase::Configured, 2).await;
    let before = harness.row("m1").await.record.state;
    harness.fake.bend("m1", |it| {
        it.state = 77;
        it.price_per_hour = -3.0;
    });
    let asked = harness.fake.traffic().0;
    harness.eventually("listed again", || harness.fake.traffic().0 > asked + 3).await;
    assert_eq!(harness.row("m1").await.record.state, before, "the last good state is kept");
    harness.fake.bend("m1", |it| {
        it.set_state(MachineState::Configured);
        it.price_per_hour = 0.25;
    });
    let dear = before.fields().offer.known().unwrap().price;
    harness
        .until_rows("a new price", |rows| {
            let it = rows.iter().find(|it| it.record.state.id().as_str() == "m1").unwrap();
            it.record.state.fields().offer.known().unwrap().price < dear
        })
        .await;
    assert!(harness.events().await.iter().all(|it| it.data["to"] != "Failed"));
    harness.stop().await;
}

/// Red by: a Delete that is sent to a failed machine, or a failure that blocks others.
// Requirement: PM-17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_machine_without_salvage_stays_and_blocks_no_other() {
    let mut harness = ShardHarness::closed(2).await;
    harness.config.reconciler.deadlines.failed = Duration::ZERO;
    harness.start();
    harness.until(Phase::Speculative, 2).await;
    harness.fake.bend("m0", |it| {
        it.set_state(MachineState::Failed);
        "no quota".clone_into(&mut it.last_error);
    });
    harness
        .eventually("salvage refused", || {
            harness.tally.outcomes(Kind::Salvage, Outcome::Unsupported) > 0
        })
        .await;
    harness.need("a", 2, 100).await;
    harness.until(Phase::Configured, 1).await;
    assert_eq!(harness.count(Phase::Failed).await, 1);
    let shown = harness.shown();
    let mut deletes = shown.lines().filter(|it| it.contains("outcomes_total{kind=\"Delete\""));
    assert!(deletes.all(|it| it.ends_with(" 0")), "no public command is sent to it: {shown}");
    // An operator cleaned up at the provider.
    harness.fake.bend("m0", |it| {
        it.set_state(MachineState::Speculative);
        it.last_error.clear();
    });
    harness.until(Phase::Configured, 2).await;
    harness.stop().await;
}

// Requirement: F-64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_or_empty_list_removes_no_machine_and_no_capacity() {
    for keep in [0, 5] {
        let mut harness = ShardHarness::open(24).await;
        harness.need("a", 20, 100).await;
        harness.until(Phase::Configured, 20).await;
        harness.fake.behave(|it| it.bend = Some(if keep == 0 { empty } else { cut }));
        harness.eventually("quarantined", || harness.is_list_quarantined()).await;
        let deeds = harness.fake.deeds().len();
        harness.need("a", 10, 100).await;
        let asked = harness.fake.traffic().0;
        harness.eventually("listed again", || harness.fake.traffic().0 > asked + 3).await;
        assert_eq!(harness.count(Phase::Configured).await, 20, "nothing is gone or reclaimed");
        assert_eq!(harness.fake.deeds().len(), deeds);
        harness.fake.behave(|it| it.bend = None);
        harness.until(Phase::Configured, 10).await;
        assert_eq!(harness.rows().await.len(), 24);
        harness.stop().await;
    }
}

fn empty(list: &mut Vec<Machine>) {
    list.clear();
}

fn cut(list: &mut Vec<Machine>) {
    list.truncate(5);
}

// Requirement: F-64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_missing_in_a_full_list_is_gone_only_after_a_read_by_id() {
    let mut harness = ShardHarness::open(12).await;
    harness.until(Phase::Speculative, 12).await;
    harness.fake.behave(|it| it.bend = Some(|list| list.retain(|it| it.id != "m3")));
    let asked = harness.fake.traffic().0;
    harness.eventually("listed in full", || harness.fake.traffic().0 > asked + 25).await;
    assert_eq!(harness.rows().await.len(), 12, "the provider returns it by id");
    harness.fake.behave(|it| it.bend = None);
    harness.fake.remove("m3");
    harness.until_rows("gone", |rows| rows.len() == 11).await;
    harness.stop().await;
    let events = harness.events().await;
    let gone: Vec<_> = events.iter().filter(|it| it.data["to"] == "Gone").collect();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].data["machine"], "m3");
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_to_another_cluster_is_not_touched_until_settled() {
    let mut harness = ShardHarness::open(3).await;
    harness.need("a", 2, 100).await;
    harness.until(Phase::Configured, 2).await;
    let mine = harness.fake.machines().into_iter().find(|it| it.cluster == "a").unwrap().id;
    harness.fake.bend(&mine, |it| "strangers".clone_into(&mut it.cluster));
    harness
        .until_rows("a dispute and another node", |rows| {
            let disputed = rows.iter().filter(|it| it.record.state.fields().disputed.is_some());
            let free = rows.iter().filter(|it| {
                let it = &it.record.state;
                it.phase() == Phase::Configured && it.fields().disputed.is_none()
            });
            disputed.count() == 1 && free.count() == 2
        })
        .await;
    harness.need("a", 0, 100).await;
    harness.until(Phase::Idle, 2).await;
    assert_eq!(harness.fake.machine(&mine).cluster, "strangers", "the shard did not touch it");
    harness.fake.bend(&mine, |it| "a".clone_into(&mut it.cluster));
    harness.until(Phase::Idle, 3).await;
    harness.stop().await;
    let kinds: Vec<String> =
        harness.events().await.iter().map(|it| it.about.word().to_owned()).collect();
    let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
    assert_eq!((count("fleet.MachineDisputed"), count("fleet.MachineSettled")), (1, 1));
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_after_the_observed_end_reverts_nothing() {
    let mut harness = ShardHarness::open(6).await;
    harness.fake.behave(|it| (it.is_staged, it.holds_answers) = (true, true));
    harness.need("a", 6, 100).await;
    harness.eventually("six answers are held", || harness.fake.traffic().1 == 6).await;
    // The responses say Creating; by the time they are sent the machines are long idle.
    harness.fake.let_go();
    let asked = harness.fake.traffic().0;
    harness.eventually("the end is listed", || harness.fake.traffic().0 > asked + 2).await;
    harness.fake.release();
    harness.until_ended("six nodes", Phase::Configured).await;
    harness.stop().await;
    let events = harness.events().await;
    let to = |phase: &str| events.iter().filter(|it| it.data["to"] == phase).count();
    assert_eq!((to("Creating"), to("Idle"), to("Configured")), (6, 6, 6));
    harness.fake.nothing_was_done_twice();
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_records_are_applied_once() {
    let mut harness = ShardHarness::closed(3).await;
    harness.fake.behave(|it| {
        it.bend = Some(|list| {
            let again = list.clone();
            list.extend(again);
        });
    });
    harness.start();
    harness.need("a", 2, 100).await;
    harness.until(Phase::Configured, 2).await;
    assert_eq!(harness.rows().await.len(), 3);
    assert!(harness.shown().contains("reason=\"repeated\""));
    harness.stop().await;
}

// Requirement: F-44, F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_errors_leave_every_machine_usable() {
    let mut harness = ShardHarness::open(6).await;
    harness.until(Phase::Speculative, 6).await;
    harness.fake.behave(|it| it.fenced = 20);
    harness.need("a", 3, 100).await;
    harness.until(Phase::Configured, 3).await;
    assert!(harness.tally.outcomes(Kind::Provision, Outcome::Fenced) > 0);
    harness.fake.behave(|it| it.failing = 60);
    harness.need("a", 6, 100).await;
    harness.until(Phase::Configured, 6).await;
    harness.fake.behave(|it| (it.fenced, it.failing) = (10, 30));
    harness.need("a", 0, 100).await;
    harness.until(Phase::Idle, 6).await;
    harness.stop().await;
    assert!(harness.events().await.iter().all(|it| it.data["to"] != "Failed"));
    harness.fake.nothing_was_done_twice();
    harness.no_transition_error();
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_provider_is_retried() {
    let mut harness = ShardHarness::closed(4).await;
    harness.timeouts = CallTimeouts { call: Duration::from_secs(2), list: Duration::from_secs(10) };
    harness.start();
    harness.need("a", 2, 100).await;
    harness.until(Phase::Configured, 2).await;
    harness.fake.behave(|it| it.is_silent = true);
    harness.need("a", 4, 100).await;
    // A command is recorded only after its machine was seen in the state where it applies.
    harness.eventually("a call timed out", || harness.gave_up() > 2).await;
    assert_eq!(harness.count(Phase::Configured).await, 2);
    harness.fake.behave(|it| it.is_silent = false);
    harness.until(Phase::Configured, 4).await;
    assert_eq!(harness.rows().await.len(), 4);
    harness.stop().await;
    harness.fake.nothing_was_done_twice();
}
