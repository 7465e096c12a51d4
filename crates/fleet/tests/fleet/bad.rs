//! Providers that send invalid data, repeat records, do not respond, or name other clusters.

use std::time::Duration;

use usher_domain::fleet::phase::Phase;
use usher_fleet::provider::Patience;
use usher_fleet::tally::{Kind, Outcome};
use usher_wire::fleet::{HostRef, Machine, MachineState};

use crate::plant::machine;
use crate::yard::Yard;

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
    let mut yard = Yard::closed(3).await;
    for it in garbage() {
        yard.plant.add(it);
    }
    yard.start();
    // A record with a state is followed; one without a valid offer serves no need.
    yard.until(Phase::Speculative, 6).await;
    yard.need("a", 6, 100).await;
    yard.until(Phase::Configured, 3).await;
    let bound = yard.plant.machines().into_iter().filter(|it| !it.cluster.is_empty());
    let mut bound: Vec<String> = bound.map(|it| it.id).collect();
    bound.retain(|it| it.starts_with('m'));
    assert_eq!(bound, ["m0", "m1", "m2"]);
    let shown = yard.shown();
    for reason in ["price", "interruption_probability", "machine_state", "machine_host"] {
        let counter = format!("usher_fleet_machines_rejected_total{{reason=\"{reason}\"}}");
        assert!(shown.contains(&counter), "{counter}: {shown}");
    }
    yard.stop().await;
}

// Requirement: F-63
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_with_an_invalid_record_keeps_its_state_and_recovers() {
    let mut yard = Yard::open(2).await;
    yard.need("a", 2, 100).await;
    yard.until(Phase::Configured, 2).await;
    let before = yard.row("m1").await.record.state;
    yard.plant.bend("m1", |it| {
        it.state = 77;
        it.price_per_hour = -3.0;
    });
    let asked = yard.plant.traffic().0;
    yard.eventually("listed again", || yard.plant.traffic().0 > asked + 3).await;
    assert_eq!(yard.row("m1").await.record.state, before, "the last good state is kept");
    yard.plant.bend("m1", |it| {
        it.set_state(MachineState::Configured);
        it.price_per_hour = 0.25;
    });
    let dear = before.fields().offer.known().unwrap().price;
    yard.until_rows("a new price", |rows| {
        let it = rows.iter().find(|it| it.record.state.id().as_str() == "m1").unwrap();
        it.record.state.fields().offer.known().unwrap().price < dear
    })
    .await;
    assert!(yard.told().await.iter().all(|it| it.data["to"] != "Failed"));
    yard.stop().await;
}

/// Red by: a Delete that is sent to a failed machine, or a failure that blocks others.
// Requirement: PM-17
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_machine_without_salvage_stays_and_blocks_no_other() {
    let mut yard = Yard::closed(2).await;
    yard.figures.life.deadlines.failed = Duration::ZERO;
    yard.start();
    yard.until(Phase::Speculative, 2).await;
    yard.plant.bend("m0", |it| {
        it.set_state(MachineState::Failed);
        "no quota".clone_into(&mut it.last_error);
    });
    yard.eventually("salvage refused", || {
        yard.tally.outcomes(Kind::Salvage, Outcome::Unsupported) > 0
    })
    .await;
    yard.need("a", 2, 100).await;
    yard.until(Phase::Configured, 1).await;
    assert_eq!(yard.count(Phase::Failed).await, 1);
    let shown = yard.shown();
    let mut deletes = shown.lines().filter(|it| it.contains("outcomes_total{kind=\"Delete\""));
    assert!(deletes.all(|it| it.ends_with(" 0")), "no public command is sent to it: {shown}");
    // An operator cleaned up at the provider.
    yard.plant.bend("m0", |it| {
        it.set_state(MachineState::Speculative);
        it.last_error.clear();
    });
    yard.until(Phase::Configured, 2).await;
    yard.stop().await;
}

// Requirement: F-64
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_truncated_or_empty_list_removes_no_machine_and_no_capacity() {
    for keep in [0, 5] {
        let mut yard = Yard::open(24).await;
        yard.need("a", 20, 100).await;
        yard.until(Phase::Configured, 20).await;
        yard.plant.behave(|it| it.bend = Some(if keep == 0 { empty } else { cut }));
        yard.eventually("quarantined", || yard.is_list_quarantined()).await;
        let deeds = yard.plant.deeds().len();
        yard.need("a", 10, 100).await;
        let asked = yard.plant.traffic().0;
        yard.eventually("listed again", || yard.plant.traffic().0 > asked + 3).await;
        assert_eq!(yard.count(Phase::Configured).await, 20, "nothing is gone or reclaimed");
        assert_eq!(yard.plant.deeds().len(), deeds);
        yard.plant.behave(|it| it.bend = None);
        yard.until(Phase::Configured, 10).await;
        assert_eq!(yard.rows().await.len(), 24);
        yard.stop().await;
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
    let mut yard = Yard::open(12).await;
    yard.until(Phase::Speculative, 12).await;
    yard.plant.behave(|it| it.bend = Some(|list| list.retain(|it| it.id != "m3")));
    let asked = yard.plant.traffic().0;
    yard.eventually("listed in full", || yard.plant.traffic().0 > asked + 25).await;
    assert_eq!(yard.rows().await.len(), 12, "the provider returns it by id");
    yard.plant.behave(|it| it.bend = None);
    yard.plant.remove("m3");
    yard.until_rows("gone", |rows| rows.len() == 11).await;
    yard.stop().await;
    let told = yard.told().await;
    let gone: Vec<_> = told.iter().filter(|it| it.data["to"] == "Gone").collect();
    assert_eq!(gone.len(), 1);
    assert_eq!(gone[0].data["machine"], "m3");
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_to_another_cluster_is_not_touched_until_settled() {
    let mut yard = Yard::open(3).await;
    yard.need("a", 2, 100).await;
    yard.until(Phase::Configured, 2).await;
    let mine = yard.plant.machines().into_iter().find(|it| it.cluster == "a").unwrap().id;
    yard.plant.bend(&mine, |it| "strangers".clone_into(&mut it.cluster));
    yard.until_rows("a dispute and another node", |rows| {
        let disputed = rows.iter().filter(|it| it.record.state.fields().disputed.is_some());
        let free = rows.iter().filter(|it| {
            let it = &it.record.state;
            it.phase() == Phase::Configured && it.fields().disputed.is_none()
        });
        disputed.count() == 1 && free.count() == 2
    })
    .await;
    yard.need("a", 0, 100).await;
    yard.until(Phase::Idle, 2).await;
    assert_eq!(yard.plant.machine(&mine).cluster, "strangers", "the shard did not touch it");
    yard.plant.bend(&mine, |it| "a".clone_into(&mut it.cluster));
    yard.until(Phase::Idle, 3).await;
    yard.stop().await;
    let kinds: Vec<String> =
        yard.told().await.iter().map(|it| it.about.word().to_owned()).collect();
    let count = |kind: &str| kinds.iter().filter(|it| *it == kind).count();
    assert_eq!((count("fleet.MachineDisputed"), count("fleet.MachineSettled")), (1, 1));
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_response_after_the_observed_end_reverts_nothing() {
    let mut yard = Yard::open(6).await;
    yard.plant.behave(|it| (it.is_staged, it.holds_answers) = (true, true));
    yard.need("a", 6, 100).await;
    yard.eventually("six answers are held", || yard.plant.traffic().1 == 6).await;
    // The responses say Creating; by the time they are sent the machines are long idle.
    yard.plant.let_go();
    let asked = yard.plant.traffic().0;
    yard.eventually("the end is listed", || yard.plant.traffic().0 > asked + 2).await;
    yard.plant.release();
    yard.until_ended("six nodes", Phase::Configured).await;
    yard.stop().await;
    let told = yard.told().await;
    let to = |phase: &str| told.iter().filter(|it| it.data["to"] == phase).count();
    assert_eq!((to("Creating"), to("Idle"), to("Configured")), (6, 6, 6));
    yard.plant.nothing_was_done_twice();
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn repeated_records_are_applied_once() {
    let mut yard = Yard::closed(3).await;
    yard.plant.behave(|it| {
        it.bend = Some(|list| {
            let again = list.clone();
            list.extend(again);
        });
    });
    yard.start();
    yard.need("a", 2, 100).await;
    yard.until(Phase::Configured, 2).await;
    assert_eq!(yard.rows().await.len(), 3);
    assert!(yard.shown().contains("reason=\"repeated\""));
    yard.stop().await;
}

// Requirement: F-44, F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bursts_of_errors_leave_every_machine_usable() {
    let mut yard = Yard::open(6).await;
    yard.until(Phase::Speculative, 6).await;
    yard.plant.behave(|it| it.fenced = 20);
    yard.need("a", 3, 100).await;
    yard.until(Phase::Configured, 3).await;
    assert!(yard.tally.outcomes(Kind::Provision, Outcome::Fenced) > 0);
    yard.plant.behave(|it| it.failing = 60);
    yard.need("a", 6, 100).await;
    yard.until(Phase::Configured, 6).await;
    yard.plant.behave(|it| (it.fenced, it.failing) = (10, 30));
    yard.need("a", 0, 100).await;
    yard.until(Phase::Idle, 6).await;
    yard.stop().await;
    assert!(yard.told().await.iter().all(|it| it.data["to"] != "Failed"));
    yard.plant.nothing_was_done_twice();
    yard.no_transition_error();
}

// Requirement: F-66
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unresponsive_provider_is_retried() {
    let mut yard = Yard::closed(4).await;
    yard.patience = Patience { call: Duration::from_secs(2), list: Duration::from_secs(10) };
    yard.start();
    yard.need("a", 2, 100).await;
    yard.until(Phase::Configured, 2).await;
    yard.plant.behave(|it| it.is_silent = true);
    yard.need("a", 4, 100).await;
    // A command is recorded only after its machine was seen in the state where it applies.
    yard.eventually("a call timed out", || yard.gave_up() > 2).await;
    assert_eq!(yard.count(Phase::Configured).await, 2);
    yard.plant.behave(|it| it.is_silent = false);
    yard.until(Phase::Configured, 4).await;
    assert_eq!(yard.rows().await.len(), 4);
    yard.stop().await;
    yard.plant.nothing_was_done_twice();
}
