//! The runbook, entry by entry: the symptom is provoked, `usher why` names it, and its remedy
//! works. The entries about nodes are in `order`, those of a failed and of a removed substrate in
//! `walks`.

use std::fs;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::caller::{ALL, SOON};
use crate::rest::NEVER_LOST;
use crate::test_cluster::TestCluster;
use crate::test_server::{TIMEOUT, TestServer};

/// The output of `usher why` for the only node.
fn why(server: &TestServer) -> String {
    let (code, said) = server.usher(&["why", "node-1"]);
    assert_eq!(code, Some(0), "{said}");
    said
}

/// Checks that the output contains all of these.
fn says(said: &str, all: &[&str]) {
    for it in all {
        assert!(said.contains(it), "missing: {it}\n{said}");
    }
}

/// The output of `usher why` once a step failed.
async fn until_trouble(server: &TestServer) -> String {
    let begun = Instant::now();
    loop {
        let said = why(server);
        if said.contains("the last step was not finished") {
            return said;
        }
        assert!(begun.elapsed() < TIMEOUT, "{said}");
        sleep(SOON).await;
    }
}

/// Applies the remedy of a failed step.
fn retry(server: &TestServer) {
    let (code, said) = server.usher(&["retry", "node-1"]);
    assert_eq!(code, Some(0), "{said}");
}

async fn ready(server: &mut TestServer) -> String {
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    id
}

/// Nothing of it is left, and every event occurred once and in order.
async fn is_gone(server: &mut TestServer, id: &str, events: &[&str]) {
    server.until_phase(id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(id).await, events);
}

/// Blocks every change to the world until it is dropped.
fn locked(server: &TestServer) -> fs::File {
    let lock = fs::File::open(server.data().join("world/lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Red by: a slow substrate that counts as failed, or one that cannot be deleted.
// Requirement: D-21
#[tokio::test]
async fn a_substrate_that_takes_too_long_is_overdue_and_not_failed() {
    let mut server = TestServer::up(&["broker.provisioning_deadline=300ms"]).await;
    let id = server.provision_with("node-1", &json!({ "readyAfterMs": 3_600_000 })).await;
    server.until_reason(&id, "ProvisioningOverdue").await;
    assert_eq!(server.resource(&id).await["phase"], "Provisioning");
    says(
        &why(&server),
        &[
            "its substrate takes longer to create than it should",
            "that is no failure until it reports one",
            "deprovision it if it is not needed any more",
        ],
    );
    let (code, said) = server.usher(&["deprovision", "node-1", "--wait"]);
    assert_eq!(code, Some(0), "{said}");
    is_gone(&mut server, &id, &["Requested", "Deleting", "Deleted"]).await;
}

fn names_database(problem: &Value) -> bool {
    problem["detail"].as_str().is_some_and(|it| it.contains("database"))
}

/// Red by: a server that is ready without its database, or that loses what it accepted
/// before.
// Requirement: D-21
#[tokio::test]
async fn an_unavailable_database_fails_the_probe_and_loses_nothing() {
    let Some(mut cluster) = TestCluster::open(1, &[]).await else { return };
    let caller = cluster.caller().clone();
    let id = caller.provision("node-1").await;
    cluster.database.stop();
    let begun = Instant::now();
    // The first responses may still name the worker, which noticed the failure first.
    loop {
        let answer = caller.ask("GET", "/readyz", None).await;
        if answer.as_ref().is_some_and(|(status, it)| *status == 503 && names_database(it)) {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "{answer:?}");
        sleep(SOON).await;
    }
    cluster.database.resume();
    assert!(cluster.servers[0].until_ready().await);
    caller.until_phase(&id, "Ready").await;
    caller.deprovision(&id).await;
    caller.until_phase(&id, "Deleted").await;
    caller.expect_all_events(&[id]).await;
}

/// Red by: a missing tenancy object that is not named, or a step that is never retried.
// Requirement: D-21
#[tokio::test]
async fn a_missing_tenancy_object_is_named_and_waited_for() {
    let mut server = TestServer::up(&[]).await;
    let id = ready(&mut server).await;
    let named =
        |id: &str| format!("PRAGMA foreign_keys = OFF; UPDATE provider_configs SET id = {id}");
    server.execute(&named("zeroblob(16)")).await;
    server.deprovision(&id).await;
    let said = until_trouble(&server).await;
    says(&said, &["cannot find provider_config", "`usher retry node-1` reconciles it at once"]);
    server.execute(&named("(SELECT provider_config FROM resources)")).await;
    retry(&server);
    is_gone(&mut server, &id, &ALL).await;
}

/// Red by: a substrate that is deleted although its node could not be deregistered.
// Requirement: D-21
#[tokio::test]
async fn a_node_that_cannot_be_deregistered_keeps_its_substrate() {
    let mut server = TestServer::up(&[]).await;
    let id = ready(&mut server).await;
    server
        .execute(
            "CREATE TRIGGER stuck BEFORE UPDATE ON peers BEGIN
             SELECT RAISE(ABORT, 'peers are read-only'); END",
        )
        .await;
    server.deprovision(&id).await;
    let said = until_trouble(&server).await;
    says(&said, &["Deregistering", "nothing is lost and the step is retried with back-off"]);
    assert_eq!(server.resource(&id).await["phase"], "Deregistering");
    let substrate = server.data().join(format!("world/substrate/pr-{id}.json"));
    let states = fs::read_to_string(substrate).unwrap();
    let object: Value = serde_json::from_str(states.lines().last().unwrap()).unwrap();
    assert_eq!(object["deleting_at"], Value::Null, "its deletion was not requested");
    server.execute("DROP TRIGGER stuck").await;
    retry(&server);
    is_gone(&mut server, &id, &ALL).await;
}

/// Red by: a deletion that fails and is not retried, or an event that is emitted too early.
// Requirement: D-21
#[tokio::test]
async fn a_failed_substrate_deletion_is_retried_until_it_succeeds() {
    let mut server = TestServer::up(&["worker.lease=30s", "worker.step_deadline=20s"]).await;
    let id = ready(&mut server).await;
    let lock = locked(&server);
    server.deprovision(&id).await;
    server.until_phase(&id, "Deprovisioning").await;
    let said = until_trouble(&server).await;
    says(&said, &["fix what is named"]);
    let node = server.insist("GET", "/v1/nodes?all=true", None).await;
    assert_eq!(node["items"][0]["stage"], "deregistered", "its node is gone before");
    assert_eq!(server.events(&id).await, ["Requested", "Ready", "Deleting"]);
    drop(lock);
    is_gone(&mut server, &id, &ALL).await;
}

/// Red by: a held part that counts as a failed step, or whose holder is not named.
// Requirement: D-21
#[tokio::test]
async fn the_holder_of_a_part_is_named_and_waited_for_without_a_failed_step() {
    let settings = [
        "local.agent_grace=1h",
        "broker.teardown_deadline=300ms",
        "worker.lease=30s",
        "worker.step_deadline=20s",
    ];
    let mut server = TestServer::up(&settings).await;
    let id = ready(&mut server).await;
    server.signal_agents(Signal::STOP);
    server.until_reason(&id, "NodeLost").await;
    server.deprovision(&id).await;
    server.until_reason(&id, "TeardownOverdue").await;
    assert_eq!(server.resource(&id).await["phase"], "Deprovisioning");
    let said = why(&server);
    says(&said, &["something holds a part of it; see the blockers", "release what holds it"]);
    assert!(!said.contains("was not finished"), "waiting is not a failure: {said}");
    server.signal_agents(Signal::KILL);
    is_gone(&mut server, &id, &ALL).await;
}

/// Red by: a deletion that waits for a substrate that will never reappear.
// Requirement: D-21
#[tokio::test]
async fn a_substrate_removed_before_its_deletion_is_torn_down_after_its_node() {
    let mut server = TestServer::up(&["mesh.drain_grace=4s", "mesh.acknowledgements=1s"]).await;
    let id = ready(&mut server).await;
    // While the world is locked, the removed substrate is not recreated.
    let lock = locked(&server);
    fs::remove_file(server.data().join(format!("world/substrate/pr-{id}.json"))).unwrap();
    server.deprovision(&id).await;
    server.until_phase(&id, "Deprovisioning").await;
    let node = server.insist("GET", "/v1/nodes?all=true", None).await;
    assert_eq!(node["items"][0]["stage"], "deregistered");
    drop(lock);
    is_gone(&mut server, &id, &ALL).await;
}

/// Red by: a stored phase that wins over the facts, or a deletion that an edit of the database
/// cancels.
// Requirement: D-21
#[tokio::test]
async fn a_phase_edited_by_hand_is_corrected_from_the_facts() {
    let mut server = TestServer::up(&[NEVER_LOST, "mesh.drain_grace=20m"]).await;
    let id = ready(&mut server).await;
    server.execute("UPDATE resources SET phase = 'Enrolling'").await;
    retry(&server);
    server.until_phase(&id, "Ready").await;
    server.signal_agents(Signal::STOP);
    server.deprovision(&id).await;
    server.until_phase(&id, "Deregistering").await;
    server.execute("UPDATE resources SET phase = 'Ready'").await;
    server.signal_agents(Signal::CONT);
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    let events = server.events(&id).await;
    assert_eq!(events.last().map(String::as_str), Some("Deleted"));
    assert_eq!(events.iter().filter(|it| *it == "Deleted").count(), 1);
}
