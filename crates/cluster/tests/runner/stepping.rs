//! The runner within one term: which item is stepped when, and what is requested for it.

use std::collections::BTreeMap;
use std::time::Duration;

use usher_cluster::kinds::Resource;
use usher_cluster::runner::{Config, Count, ObjectRunner, Stepped, Tally};
use usher_cluster::watches::Selection;
use usher_kernel::{Trouble, Wake};

use crate::item::{Act, Key, TestItem, maps, rest, trouble};
use crate::rig::{
    MAPS, TestClock, TestRunner, admin, count, create, done, named, server, set_goal, settle, until,
};

fn each(names: &[&str], times: usize) -> BTreeMap<String, usize> {
    names.iter().map(|name| ((*name).to_owned(), times)).collect()
}

fn unavailable(after: Option<Duration>) -> Trouble {
    Trouble::Unavailable { what: "the outside".into(), after }
}

/// Red by: pages of a list that are not asked for; a list and an event that step an item twice.
// Requirement: KA-25
#[tokio::test(start_paused = true)]
async fn every_object_is_stepped_once_by_a_term_and_rests() {
    let server = server().await;
    let names: Vec<String> = (0..25).map(|it| format!("m{it:02}")).collect();
    for name in &names {
        create(&admin(&server), name).await;
    }
    let config = Config { page: 10, ..Config::default() };
    let item = TestItem::scripted(named(&server, "usher"), |_, _| rest());
    let runner = TestRunner::with(item, config).await;
    settle().await;
    assert!(runner.item.steps().is_empty(), "nothing without a term");
    let _term = runner.begin(&TestClock::new(), 1);
    settle().await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    assert_eq!(runner.item.steps(), each(&names, 1));
    assert_eq!(runner.waker.len(), 25);
    let requests = || -> u64 {
        let counters = server.counters();
        counters.iter().filter(|(key, _)| key.verb != "watch").map(|(_, count)| count).sum()
    };
    let before = requests();
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(requests(), before, "an hour at rest");
    assert_eq!(runner.item.steps(), each(&names, 1));
}

/// Red by: a wake-up during a step that is lost.
// Requirement: KA-26
#[tokio::test(start_paused = true)]
async fn an_item_that_changes_while_it_is_stepped_is_stepped_again() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let slow = |_: &str, number| match number {
        1 => Act::Wait(Duration::from_secs(10)),
        _ => rest(),
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), slow)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 1).await;
    set_goal(&admin(&server), "a", 2).await;
    runner.waker.wake(&Key("a".into()));
    settle().await;
    assert_eq!(runner.item.steps_of("a"), 1, "one step at a time");
    runner.stepped("a", 2).await;
    settle().await;
    assert_eq!(runner.item.pauses("a"), [10], "once, as soon as the first step ended");
}

// Requirement: KA-25
#[tokio::test(start_paused = true)]
async fn objects_that_come_change_and_go_are_followed() {
    let server = server().await;
    let client = admin(&server);
    let runner = TestRunner::start(TestItem::new(client.clone())).await;
    let _term = runner.begin(&TestClock::new(), 7);
    settle().await;
    create(&client, "a").await;
    until(async || is_done(&client, "a", "1").await).await;
    set_goal(&client, "a", 2).await;
    until(async || is_done(&client, "a", "2").await).await;
    let path = format!("{MAPS}/a");
    let found = done(&client, ("GET", &path), &serde_json::Value::Null).await;
    assert_eq!(found["data"]["epoch"], "7");
    done(&client, ("DELETE", &path), &serde_json::Value::Null).await;
    until(async || runner.waker.is_empty()).await;
    create(&client, "a").await;
    until(async || is_done(&client, "a", "1").await).await;
}

async fn is_done(client: &usher_cluster::client::Client, name: &str, goal: &str) -> bool {
    let path = format!("{MAPS}/{name}");
    let found = done(client, ("GET", &path), &serde_json::Value::Null).await;
    found["data"]["done"] == goal
}

/// Red by: an item that acts in a loop; an item that acts and is not stepped again.
// Requirement: KA-26
#[tokio::test(start_paused = true)]
async fn an_item_that_acted_is_stepped_at_once_and_one_that_always_acts_backs_off() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let acting = |_: &str, _| Act::End(Stepped::Done { wake: Wake::OnChange, acted: true });
    let runner = TestRunner::start(TestItem::scripted(admin(&server), acting)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 14).await;
    let pauses = runner.item.pauses("a");
    assert_eq!(pauses[..13], [0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 4, 8, 16]);
}

/// Red by: conflicts that are repeated without end; a back-off of the first one.
// Requirement: KA-27
#[tokio::test(start_paused = true)]
async fn trouble_is_repeated_at_its_pace() {
    let minute = Duration::from_mins(1);
    let cases = [
        (Trouble::Conflict, vec![0, 0, 0, 1, 2, 4]),
        (unavailable(None), vec![1, 2, 4, 8]),
        (unavailable(Some(minute)), vec![60, 60, 60]),
        (unavailable(Some(minute * 60)), vec![300, 300]),
        (Trouble::Blocked { what: "a finalizer".into() }, vec![1, 2, 4]),
        (Trouble::Rejected { what: "admission".into() }, vec![300, 300]),
    ];
    for (met, wanted) in cases {
        let server = server().await;
        create(&admin(&server), "a").await;
        let what = met.clone();
        let item = TestItem::scripted(admin(&server), move |_, _| trouble(what.clone()));
        let runner = TestRunner::start(item).await;
        let _term = runner.begin(&TestClock::new(), 1);
        runner.stepped("a", wanted.len() + 1).await;
        assert_eq!(runner.item.pauses("a")[..wanted.len()], wanted, "{met}");
    }
}

/// Red by: a panic that ends the runner, or that is repeated.
// Requirement: KA-28
#[tokio::test(start_paused = true)]
async fn an_item_that_panics_is_parked_and_blocks_no_other() {
    let server = server().await;
    for name in ["a", "b", "c"] {
        create(&admin(&server), name).await;
    }
    let script = |name: &str, number| match (name, number) {
        ("b", 1) => Act::Panic,
        ("c", 1) => trouble(Trouble::Corrupt { what: "a row".into() }),
        _ => rest(),
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let term = runner.begin(&TestClock::new(), 1);
    settle().await;
    assert_eq!(runner.item.steps(), each(&["a", "b", "c"], 1));
    let counts = [Count::Panicked, Count::Parked, Count::Troubles, Count::Steps];
    assert_eq!(counts.map(|it| runner.tally.of(it)), [1, 2, 2, 1]);
    for name in ["b", "c"] {
        set_goal(&admin(&server), name, 2).await;
        runner.waker.wake(&Key(name.into()));
    }
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(runner.item.steps(), each(&["a", "b", "c"], 1), "parked until an operator says so");
    runner.waker.unpark(&Key("b".into()));
    runner.stepped("b", 2).await;
    drop(term);
    let _term = runner.begin(&TestClock::new(), 2);
    runner.stepped("c", 2).await;
}

/// Red by: a step without a deadline.
// Requirement: KA-28
#[tokio::test(start_paused = true)]
async fn a_step_that_does_not_end_is_cut_off_and_repeated() {
    let server = server().await;
    for name in ["a", "b"] {
        create(&admin(&server), name).await;
    }
    let script = |name: &str, number| match (name, number) {
        ("a", 1..=2) => Act::Hang,
        _ => rest(),
    };
    let config = Config { steps_max: 1, ..Config::default() };
    let runner = TestRunner::with(TestItem::scripted(admin(&server), script), config).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 3).await;
    assert_eq!(runner.item.pauses("a"), [21, 22], "20 s each, and the back-off");
    assert_eq!(runner.item.steps_of("b"), 1);
    assert_eq!(runner.tally.of(Count::TooSlow), 2);
    let last = runner.item.seen("a").pop().expect("a step");
    assert!(last.may_act_until.is_some(), "its requests may still arrive");
}

/// Red by: items that are stepped in the order of their names, or all at once.
// Requirement: KA-29
#[tokio::test(start_paused = true)]
async fn items_are_stepped_in_the_order_in_which_they_are_due() {
    let server = server().await;
    for name in ["a", "b", "c", "d"] {
        create(&admin(&server), name).await;
    }
    // The first one is due at once after each of its steps.
    let script = |name: &str, _| match name {
        "a" => Act::End(Stepped::Done { wake: Wake::Now, acted: false }),
        _ => Act::End(Stepped::Done { wake: Wake::OnChange, acted: false }),
    };
    let config = Config { steps_max: 1, ..Config::default() };
    let runner = TestRunner::with(TestItem::scripted(admin(&server), script), config).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("d", 1).await;
    assert_eq!(["b", "c", "d"].map(|name| runner.item.steps_of(name)), [1, 1, 1]);
    runner.waker.wake(&Key("d".into()));
    runner.stepped("d", 2).await;
    runner.stop.send_replace(true);
}

// Requirement: KA-29
#[tokio::test(start_paused = true)]
async fn no_more_items_are_stepped_at_a_time_than_configured() {
    let server = server().await;
    for number in 0..20 {
        create(&admin(&server), &format!("m{number}")).await;
    }
    let script = |_: &str, _| Act::Wait(Duration::from_secs(5));
    let config = Config { steps_max: 4, ..Config::default() };
    let runner = TestRunner::with(TestItem::scripted(admin(&server), script), config).await;
    let _term = runner.begin(&TestClock::new(), 1);
    until(async || !runner.item.steps().is_empty()).await;
    for batch in 1..=5 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(runner.item.steps().len(), batch * 4);
        tokio::time::sleep(Duration::from_secs(4)).await;
    }
}

// Requirement: KA-29
#[tokio::test(start_paused = true)]
async fn a_timer_is_kept() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let clock = TestClock::new();
    let start = clock.clock().wall();
    let script = move |_: &str, number: usize| {
        let due = start.after(Duration::from_secs(100 * number as u64));
        Act::End(Stepped::Done { wake: Wake::At(due), acted: false })
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let _term = runner.begin(&clock, 1);
    runner.stepped("a", 5).await;
    assert_eq!(runner.item.pauses("a")[1..], [100, 100, 100]);
}

/// Red by: interests that grow with every step; ones that are dropped by a step that failed.
// Requirement: KA-30
#[tokio::test(start_paused = true)]
async fn an_item_is_woken_by_what_its_last_step_asked_for() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let others = || Resource::new("", "serviceaccounts");
    let script = move |name: &str, number| {
        let on = |name: &str| Selection::Object { namespace: "work".into(), name: name.into() };
        match (name, number) {
            ("a", 1) => Act::Depend(others(), on("one")),
            ("a", 2) => Act::Panic,
            ("a", 3) => Act::Depend(others(), on("two")),
            _ => rest(),
        }
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    let is_followed = async || runner.watches.hearing().iter().any(|(it, _)| *it == others());
    until(is_followed).await;
    settle().await;
    // The watch of the other kind woke it when it was open.
    assert_eq!(runner.item.steps_of("a"), 2);
    assert!(is_followed().await, "kept by a step that panicked");
    runner.waker.unpark(&Key("a".into()));
    runner.stepped("a", 3).await;
    settle().await;
    assert_eq!(runner.item.steps_of("a"), 3);
    service_account(&server, "one").await;
    settle().await;
    assert_eq!(runner.item.steps_of("a"), 3, "no longer asked for");
    service_account(&server, "two").await;
    runner.stepped("a", 4).await;
    until(async || !is_followed().await).await;
}

/// Red by: interests of the last finished step that are dropped by one that failed.
// Requirement: KA-30
#[tokio::test(start_paused = true)]
async fn an_item_whose_step_failed_is_woken_by_what_the_one_before_asked_for() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let script = move |_: &str, number| {
        let on_one = Selection::Object { namespace: "work".into(), name: "one".into() };
        match number {
            1 => Act::Depend(Resource::new("", "serviceaccounts"), on_one),
            2 => trouble(Trouble::Rejected { what: "a step".into() }),
            _ => rest(),
        }
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 2).await;
    settle().await;
    assert_eq!(runner.item.steps_of("a"), 2);
    service_account(&server, "one").await;
    settle().await;
    assert_eq!(runner.item.steps_of("a"), 3);
}

async fn service_account(server: &usher_apiserver::ApiServer, name: &str) {
    let body = serde_json::json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name},
    });
    done(&admin(server), ("POST", "/api/v1/namespaces/work/serviceaccounts"), &body).await;
}

// Requirement: KA-16
#[tokio::test(start_paused = true)]
async fn secrets_are_no_source() {
    let server = server().await;
    let secrets = Resource::new("", "secrets");
    let item = TestItem::new(admin(&server)).of(secrets, Selection::Any);
    let watches = TestRunner::start(TestItem::new(admin(&server)).of(maps(), Selection::Any)).await;
    let tally = std::sync::Arc::<Tally>::default();
    let item = std::sync::Arc::new(item);
    let refused =
        ObjectRunner::new(item, std::sync::Arc::clone(&watches.watches), Config::default(), tally);
    assert!(refused.is_err());
    assert_eq!(count(&server, "list", "secrets"), 0);
}
