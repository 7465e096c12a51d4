//! The runbook, entry by entry: the symptom is provoked, `usher why` names it, and its remedy
//! works. The entries about nodes are in `order`, those of a failed and of a removed substrate in
//! `walks`.

use std::fs;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::caller::{ALL, SOON};
use crate::estate::Estate;
use crate::house::{House, PATIENCE};
use crate::rest::NEVER_LOST;

/// The output of `usher why` for the only node.
fn why(house: &House) -> String {
    let (code, said) = house.usher(&["why", "node-1"]);
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
async fn until_trouble(house: &House) -> String {
    let begun = Instant::now();
    loop {
        let said = why(house);
        if said.contains("the last step was not finished") {
            return said;
        }
        assert!(begun.elapsed() < PATIENCE, "{said}");
        sleep(SOON).await;
    }
}

/// Applies the remedy of a failed step.
fn retry(house: &House) {
    let (code, said) = house.usher(&["retry", "node-1"]);
    assert_eq!(code, Some(0), "{said}");
}

async fn ready(house: &mut House) -> String {
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    id
}

/// Nothing of it is left, and every event occurred once and in order.
async fn is_gone(house: &mut House, id: &str, told: &[&str]) {
    house.until_phase(id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(id).await, told);
}

/// Blocks every change to the world until it is dropped.
fn locked(house: &House) -> fs::File {
    let lock = fs::File::open(house.data().join("world/lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Red by: a slow substrate that counts as failed, or one that cannot be deleted.
// Requirement: D-21
#[tokio::test]
async fn a_substrate_that_takes_too_long_is_overdue_and_not_failed() {
    let mut house = House::up(&["broker.provisioning_deadline=300ms"]).await;
    let id = house.provision_with("node-1", &json!({ "readyAfterMs": 3_600_000 })).await;
    house.until_reason(&id, "ProvisioningOverdue").await;
    assert_eq!(house.resource(&id).await["phase"], "Provisioning");
    says(
        &why(&house),
        &[
            "its substrate is being made and takes longer than it should",
            "that is not a failure until it says so",
            "deprovision it if it is not wanted any more",
        ],
    );
    let (code, said) = house.usher(&["deprovision", "node-1", "--wait"]);
    assert_eq!(code, Some(0), "{said}");
    is_gone(&mut house, &id, &["Requested", "Deleting", "Deleted"]).await;
}

fn names_database(problem: &Value) -> bool {
    problem["detail"].as_str().is_some_and(|it| it.contains("database"))
}

/// Red by: a server that is ready without its database, or that loses what it accepted
/// before.
// Requirement: D-21
#[tokio::test]
async fn an_unavailable_database_fails_the_probe_and_loses_nothing() {
    let Some(mut estate) = Estate::open(1, &[]).await else { return };
    let caller = estate.caller().clone();
    let id = caller.provision("node-1").await;
    estate.database.stop();
    let begun = Instant::now();
    // The first responses may still name the worker, which noticed the failure first.
    loop {
        let answer = caller.ask("GET", "/readyz", None).await;
        if answer.as_ref().is_some_and(|(status, it)| *status == 503 && names_database(it)) {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{answer:?}");
        sleep(SOON).await;
    }
    estate.database.resume();
    assert!(estate.houses[0].until_ready().await);
    caller.until_phase(&id, "Ready").await;
    caller.deprovision(&id).await;
    caller.until_phase(&id, "Deleted").await;
    caller.all_was_told(&[id]).await;
}

/// Red by: a missing tenancy object that is not named, or a step that is never retried.
// Requirement: D-21
#[tokio::test]
async fn a_missing_tenancy_object_is_named_and_waited_for() {
    let mut house = House::up(&[]).await;
    let id = ready(&mut house).await;
    let named =
        |id: &str| format!("PRAGMA foreign_keys = OFF; UPDATE provider_configs SET id = {id}");
    house.execute(&named("zeroblob(16)")).await;
    house.deprovision(&id).await;
    let said = until_trouble(&house).await;
    says(&said, &["cannot find provider_config", "`usher retry node-1` reconciles it at once"]);
    house.execute(&named("(SELECT provider_config FROM resources)")).await;
    retry(&house);
    is_gone(&mut house, &id, &ALL).await;
}

/// Red by: a substrate that is deleted although its node could not be deregistered.
// Requirement: D-21
#[tokio::test]
async fn a_node_that_cannot_be_deregistered_keeps_its_substrate() {
    let mut house = House::up(&[]).await;
    let id = ready(&mut house).await;
    house
        .execute(
            "CREATE TRIGGER stuck BEFORE UPDATE ON peers BEGIN
             SELECT RAISE(ABORT, 'peers are read-only'); END",
        )
        .await;
    house.deprovision(&id).await;
    let said = until_trouble(&house).await;
    says(&said, &["Deregistering", "nothing is lost and the step is retried with back-off"]);
    assert_eq!(house.resource(&id).await["phase"], "Deregistering");
    let substrate = house.data().join(format!("world/substrate/pr-{id}.json"));
    let states = fs::read_to_string(substrate).unwrap();
    let object: Value = serde_json::from_str(states.lines().last().unwrap()).unwrap();
    assert_eq!(object["deleting_at"], Value::Null, "its deletion was not requested");
    house.execute("DROP TRIGGER stuck").await;
    retry(&house);
    is_gone(&mut house, &id, &ALL).await;
}

/// Red by: a deletion that fails and is forgotten, or an event before it is true.
// Requirement: D-21
#[tokio::test]
async fn a_failed_substrate_deletion_is_retried_until_it_succeeds() {
    let mut house = House::up(&["worker.lease=30s", "worker.step_deadline=20s"]).await;
    let id = ready(&mut house).await;
    let lock = locked(&house);
    house.deprovision(&id).await;
    house.until_phase(&id, "Deprovisioning").await;
    let said = until_trouble(&house).await;
    says(&said, &["fix what is named"]);
    let node = house.insist("GET", "/v1/nodes?all=true", None).await;
    assert_eq!(node["items"][0]["stage"], "deregistered", "its node is gone before");
    assert_eq!(house.told(&id).await, ["Requested", "Ready", "Deleting"]);
    drop(lock);
    is_gone(&mut house, &id, &ALL).await;
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
    let mut house = House::up(&settings).await;
    let id = ready(&mut house).await;
    house.signal_agents(Signal::STOP);
    house.until_reason(&id, "NodeLost").await;
    house.deprovision(&id).await;
    house.until_reason(&id, "TeardownOverdue").await;
    assert_eq!(house.resource(&id).await["phase"], "Deprovisioning");
    let said = why(&house);
    says(&said, &["something holds a part of it; see the blockers", "release what holds it"]);
    assert!(!said.contains("was not finished"), "waiting is not a failure: {said}");
    house.signal_agents(Signal::KILL);
    is_gone(&mut house, &id, &ALL).await;
}

/// Red by: a deletion that waits for a substrate that will never come back.
// Requirement: D-21
#[tokio::test]
async fn a_substrate_removed_before_its_deletion_is_torn_down_after_its_node() {
    let mut house = House::up(&["mesh.drain_grace=4s", "mesh.acknowledgements=1s"]).await;
    let id = ready(&mut house).await;
    // While the world is locked, the removed substrate is not recreated.
    let lock = locked(&house);
    fs::remove_file(house.data().join(format!("world/substrate/pr-{id}.json"))).unwrap();
    house.deprovision(&id).await;
    house.until_phase(&id, "Deprovisioning").await;
    let node = house.insist("GET", "/v1/nodes?all=true", None).await;
    assert_eq!(node["items"][0]["stage"], "deregistered");
    drop(lock);
    is_gone(&mut house, &id, &ALL).await;
}

/// Red by: a stored phase that wins over the facts, or a deletion that an edit of the database
/// cancels.
// Requirement: D-21
#[tokio::test]
async fn a_phase_edited_by_hand_is_corrected_from_the_facts() {
    let mut house = House::up(&[NEVER_LOST, "mesh.drain_grace=20m"]).await;
    let id = ready(&mut house).await;
    house.execute("UPDATE resources SET phase = 'Enrolling'").await;
    retry(&house);
    house.until_phase(&id, "Ready").await;
    house.signal_agents(Signal::STOP);
    house.deprovision(&id).await;
    house.until_phase(&id, "Deregistering").await;
    house.execute("UPDATE resources SET phase = 'Ready'").await;
    house.signal_agents(Signal::CONT);
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    let told = house.told(&id).await;
    assert_eq!(told.last().map(String::as_str), Some("Deleted"));
    assert_eq!(told.iter().filter(|it| *it == "Deleted").count(), 1);
}
