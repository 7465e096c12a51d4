//! The runner on a server with faults: every object is stepped all the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use usher_apiserver::{ApiServer, Fault, RequestKind};
use usher_cluster::client::Client;
use usher_cluster::kinds::Resource;
use usher_cluster::runner::{Config, Count};
use usher_cluster::watches::Selection;

use crate::item::{Act, TestItem, rest};
use crate::rig::{
    MAPS, TestClock, TestRunner, admin, count, create, done, named, server, set_goal, settle, until,
};

fn is_watch(asked: &RequestKind) -> bool {
    asked.user == "usher" && asked.verb == "watch" && asked.resource == "configmaps"
}

async fn converged(client: &Client, names: &[&str]) {
    until(async || {
        let list = done(client, ("GET", MAPS), &serde_json::Value::Null).await;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ours =
            items.iter().filter(|it| names.iter().any(|name| it["metadata"]["name"] == *name));
        let at_goal = |it: &serde_json::Value| it["data"]["goal"] == it["data"]["done"];
        let ours: Vec<_> = ours.collect();
        ours.len() == names.len() && ours.into_iter().all(at_goal)
    })
    .await;
}

/// Changes objects, old and new, while a fault is there; after it all of them have their goal.
async fn survives(
    server: &ApiServer,
    fault: impl Fn(&RequestKind) -> Fault + Send + Sync + 'static,
) {
    let client = admin(server);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in &names[..4] {
        create(&client, name).await;
    }
    let runner = TestRunner::start(TestItem::new(named(server, "usher"))).await;
    let _term = runner.begin(&TestClock::new(), 1);
    converged(&client, &names[..4]).await;
    server.set_faults(fault);
    for (goal, name) in names.iter().enumerate() {
        if goal >= 4 {
            create(&client, name).await;
        }
        set_goal(&client, name, goal + 2).await;
        tokio::time::sleep(Duration::from_secs(7)).await;
    }
    server.forget_history();
    for name in names {
        set_goal(&client, name, 99).await;
    }
    tokio::time::sleep(Duration::from_secs(20)).await;
    server.clear_faults();
    converged(&client, &names).await;
    // What is there after the faults is followed as before.
    set_goal(&client, "a", 100).await;
    converged(&client, &names).await;
}

/// Red by: a watch that is resumed past a change; a list that is not repeated.
// Requirement: KA-32
#[tokio::test(start_paused = true)]
async fn every_object_is_stepped_although_watches_break_end_or_lag() {
    let faults = [
        Fault::EndWatchAfter(1),
        Fault::BreakWatchAfter(0),
        Fault::BreakWatchAfter(2),
        Fault::DelayEvents(Duration::from_secs(40)),
        Fault::Refuse(410),
        Fault::Refuse(500),
        Fault::Refuse(403),
        Fault::NeverAnswer,
        Fault::RetryAfter { code: 429, seconds: 30 },
    ];
    for fault in faults {
        let server = server().await;
        println!("{fault:?}");
        survives(&server, move |it| if is_watch(it) { fault.clone() } else { Fault::None }).await;
    }
}

// Requirement: KA-32
#[tokio::test(start_paused = true)]
async fn every_object_is_stepped_although_each_second_request_fails() {
    let faults = [
        Fault::Refuse(409),
        Fault::Refuse(500),
        Fault::Refuse(503),
        Fault::LoseAnswer(504),
        Fault::NeverAnswer,
        Fault::RetryAfter { code: 429, seconds: 5 },
    ];
    for fault in faults {
        let (server, asked) = (server().await, AtomicUsize::new(0));
        println!("{fault:?}");
        survives(&server, move |it| {
            let is_meant = it.user == "usher" && it.verb != "watch";
            let is_failed = is_meant && asked.fetch_add(1, Ordering::SeqCst).is_multiple_of(2);
            if is_failed { fault.clone() } else { Fault::None }
        })
        .await;
    }
}

/// Red by: a watch that begins after the state which a list showed.
// Requirement: KA-32
#[tokio::test(start_paused = true)]
async fn every_object_is_stepped_although_lists_are_behind() {
    for behind in [1, 5, 50] {
        let server = server().await;
        survives(&server, move |it| match it.verb.as_str() {
            "list" if it.user == "usher" => Fault::ReadBehind(behind),
            "watch" if it.user == "usher" => Fault::BreakWatchAfter(1),
            _ => Fault::None,
        })
        .await;
    }
}

/// Red by: a delay that a server asks for and is not given.
// Requirement: KA-27
#[tokio::test(start_paused = true)]
async fn a_server_that_asks_for_a_delay_gets_it() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let first = Arc::new(AtomicUsize::new(0));
    server.set_faults(move |it| {
        let is_meant = it.user == "usher" && it.verb == "get" && it.resource == "configmaps";
        let is_first = is_meant && first.fetch_add(1, Ordering::SeqCst) == 0;
        if is_first { Fault::RetryAfter { code: 429, seconds: 77 } } else { Fault::None }
    });
    let runner = TestRunner::start(TestItem::new(named(&server, "usher"))).await;
    let _term = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 2).await;
    assert_eq!(runner.item.pauses("a")[0], 77);
}

/// Red by: an item that rests on a kind which may not be watched; a poll that goes on after the
/// right was given.
// Requirement: KA-33
#[tokio::test(start_paused = true)]
async fn an_item_that_depends_on_a_kind_without_a_right_is_polled() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let others = || Resource::new("", "serviceaccounts");
    server.set_faults(|it| {
        let is_meant = it.resource == "serviceaccounts" && it.user == "usher";
        if is_meant && it.verb == "watch" { Fault::Refuse(403) } else { Fault::None }
    });
    let script = move |name: &str, _| match name {
        "a" => Act::Depend(others(), Selection::Any),
        _ => rest(),
    };
    let runner = TestRunner::start(TestItem::scripted(named(&server, "usher"), script)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    tokio::time::sleep(Duration::from_mins(10)).await;
    let polled = runner.item.steps_of("a");
    assert!((18..=24).contains(&polled), "{polled} steps in ten minutes");
    assert!(runner.tally.of(Count::Deaf) >= 18);
    server.clear_faults();
    tokio::time::sleep(Duration::from_mins(5)).await;
    let polled = runner.item.steps_of("a");
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(runner.item.steps_of("a"), polled, "it is heard now");
}

/// Red by: a source that may not be watched, whose objects are never found.
// Requirement: KA-33
#[tokio::test(start_paused = true)]
async fn a_source_without_a_right_to_watch_is_listed_again_and_again() {
    let server = server().await;
    server.set_faults(|it| if is_watch(it) { Fault::Refuse(403) } else { Fault::None });
    let runner = TestRunner::start(TestItem::new(named(&server, "usher"))).await;
    let _term = runner.begin(&TestClock::new(), 1);
    settle().await;
    create(&admin(&server), "a").await;
    converged(&admin(&server), &["a"]).await;
    let before = count(&server, "list", "configmaps");
    tokio::time::sleep(Duration::from_mins(10)).await;
    let polls = count(&server, "list", "configmaps") - before;
    assert!((20..=60).contains(&polls), "{polls} lists in ten minutes");
}

/// Red by: a source whose kind is not installed, waited for by a poll.
// Requirement: KA-25
#[tokio::test(start_paused = true)]
async fn a_source_whose_kind_is_not_installed_is_stepped_when_it_is() {
    let server = server().await;
    let wells = Resource::new("deep.example", "wells");
    let item = TestItem::scripted(named(&server, "usher"), |_, _| rest());
    let runner = TestRunner::start(item.of(wells, Selection::Any)).await;
    let _term = runner.begin(&TestClock::new(), 1);
    settle().await;
    let definition = serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "wells.deep.example"},
        "spec": {
            "group": "deep.example", "scope": "Namespaced",
            "names": {"plural": "wells", "kind": "Well"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object"},
            }}],
        },
    });
    let client = admin(&server);
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    done(&client, ("POST", definitions), &definition).await;
    let path = "/apis/deep.example/v1/namespaces/work/wells";
    let well = serde_json::json!({
        "apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": "w"},
    });
    until(async || crate::rig::call(&client, ("POST", path), &well).await.is_ok()).await;
    runner.stepped("w", 1).await;
}

/// Red by: objects of a rebuilt or restored cluster that are not listed.
// Requirement: KA-32
#[tokio::test(start_paused = true)]
async fn objects_of_a_cluster_that_is_restored_are_stepped() {
    let server = server().await;
    let client = admin(&server);
    let config = Config { steps_max: 2, ..Config::default() };
    for name in ["a", "b"] {
        create(&client, name).await;
    }
    let older = server.snapshot();
    let runner = TestRunner::with(TestItem::new(named(&server, "usher")), config).await;
    let _term = runner.begin(&TestClock::new(), 1);
    converged(&client, &["a", "b"]).await;
    done(&client, ("DELETE", &format!("{MAPS}/b")), &serde_json::Value::Null).await;
    create(&client, "c").await;
    converged(&client, &["a", "c"]).await;
    server.rebuild(ApiServer::builder().snapshot(older)).await.expect("an older cluster");
    converged(&client, &["a", "b"]).await;
    until(async || runner.waker.len() == 2).await;
}
