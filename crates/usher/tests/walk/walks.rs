//! Provisioning and teardown as a new user does it.

use crate::caller::ALL;
use crate::crowd::Crowd;
use crate::house::House;
use crate::rest::{NEVER_LOST, SETTLED, until_settled};

/// Red by: a node that counts as gone while its process runs, or an event that occurs twice.
// Requirement: L-24, D-6, HC-26
#[tokio::test]
async fn a_node_enrols_and_leaves_and_nothing_is_left() {
    let mut house = House::up(&[NEVER_LOST]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    assert_eq!(house.processes().len(), 1, "one agent runs");
    let nodes = house.insist("GET", "/v1/nodes", None).await;
    assert_eq!(nodes["items"][0]["name"], "node-1");
    assert_eq!(nodes["items"][0]["liveness"], "live");
    let plan = house.insist("GET", &format!("/v1/resources/{id}/plan"), None).await;
    let planned: Vec<_> =
        plan["steps"].as_array().unwrap().iter().map(|it| &it["effect"]).collect();
    let effects: Vec<_> = planned.into_iter().filter_map(|it| it.as_str()).collect();
    assert_eq!(effects, ["DeregisterNode", "DeleteSubstrate", "DeleteAnchor"]);
    let asked = house.insist("DELETE", &format!("/v1/resources/{id}"), None).await;
    assert_eq!(asked["phase"], "Deregistering");
    assert_ne!(asked["reason"], "AsDeclared", "that was before");
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL);
    let receipt = house.insist("GET", &format!("/v1/resources/{id}/receipt"), None).await;
    let names = receipt["names"].as_array().or(receipt["rows"].as_array()).unwrap();
    assert!(names.len() >= 6, "{receipt}");
    assert!(names.iter().all(|it| it["standing"] == "gone"), "{receipt}");
    assert_eq!(house.stop().await, Some(0));
    assert!(!house.data().join("endpoint.json").exists());
}

/// Red by: a server that loses state, or that wakes an unchanged node.
// Requirement: W-9, D-6
#[tokio::test]
async fn a_ready_resource_survives_a_restart_and_is_not_reconciled() {
    let mut house = House::up(&[NEVER_LOST]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    let before = (house.processes(), house.resource(&id).await["version"].clone());
    assert_eq!(house.stop().await, Some(0));
    assert_eq!(house.processes(), before.0, "the agent keeps running");
    let said_before = house.said().len();
    house.start(None);
    assert!(house.until_ready().await);
    let after = house.resource(&id).await["version"].clone();
    assert_eq!((house.processes(), after), before);
    let said = house.said().split_off(said_before);
    assert_eq!(figures_of("woken", &said), ["0"], "{said}");
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL);
}

/// The values of a field in a log, in order.
fn figures_of<'a>(field: &str, log: &'a str) -> Vec<&'a str> {
    let words = log.split_whitespace().filter_map(|it| it.split_once('='));
    words.filter(|(key, _)| *key == field).map(|(_, value)| value).collect()
}

/// Red by: a substrate that counts as present because it once was.
// Requirement: D-21
#[tokio::test]
async fn a_substrate_removed_by_hand_is_recreated_with_a_new_node() {
    let mut house = House::up(&[]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    let first = house.insist("GET", "/v1/nodes", None).await["items"][0]["id"].clone();
    house.take_away(&house.data().join(format!("world/substrate/pr-{id}.json")));
    house.until_generation(&id, 2).await;
    let nodes = house.insist("GET", "/v1/nodes?all=true", None).await;
    let live: Vec<_> = nodes["items"].as_array().unwrap().iter().collect();
    let stages: Vec<_> = live.iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["deregistered", "registered"]);
    assert_ne!(live[1]["id"], first);
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
}

/// Red by: a failure that is not shown, or a failed resource that cannot be deleted.
// Requirement: T-35, D-21
#[tokio::test]
async fn a_failed_substrate_shows_its_cause_and_can_be_deleted() {
    let mut house = House::up(&[]).await;
    let wish = serde_json::json!({ "failWith": "no quota" });
    let id = house.provision_with("node-1", &wish).await;
    house.until_phase(&id, "Failed").await;
    let why = house.why(&id).await;
    assert_eq!(why["summary"], "its substrate failed for good: no quota");
    assert!(why["advice"][0]["remedy"].as_str().unwrap().contains("usher deprovision node-1"));
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ["Requested", "Failed", "Deleting", "Deleted"]);
}

/// Red by: a timer in Ready, or a heartbeat that is written.
// Requirement: W-11
#[tokio::test]
async fn an_idle_server_observes_nothing_and_writes_nothing() {
    // The shard counts its lists, and sends one per cycle; its lease renewal
    // has to be written.
    let shard = ["fleet.cycle_interval=1h", "fleet.lease=1h"];
    let mut house = House::up(&[NEVER_LOST, shard[0], shard[1]]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    // Work triggered by the last changes is done first.
    let look = async || house.caller().counters().await;
    let before = until_settled(SETTLED, look).await;
    let told = ["usher_world_observations_total", "usher_store_writes_total"];
    assert!(told.iter().all(|it| before.contains_key(*it)), "{before:?}");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(house.caller().counters().await, before, "fifteen heartbeats later");
    assert_eq!(house.why(&id).await["next_look_at"], serde_json::Value::Null);
}

/// Red by: a node that hangs and counts as live, or a drain that waits for it without an end.
// Requirement: T-29, M-16
#[tokio::test]
async fn a_node_that_hangs_is_lost_recovers_and_is_torn_down() {
    let mut house = House::up(&["local.agent_grace=300ms"]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    house.signal_agents(rustix::process::Signal::STOP);
    house.until_reason(&id, "NodeLost").await;
    assert_eq!(house.resource(&id).await["phase"], "Ready", "a lost node changes no phase");
    let why = house.why(&id).await;
    assert!(why["advice"][0]["remedy"].as_str().unwrap().contains("--replace"), "{why}");
    house.signal_agents(rustix::process::Signal::CONT);
    house.until_reason(&id, "AsDeclared").await;
    house.signal_agents(rustix::process::Signal::STOP);
    house.until_reason(&id, "NodeLost").await;
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL);
}

/// Red by: a registration that does not count as a heartbeat.
// Requirement: D-20
#[tokio::test]
async fn a_node_that_registers_and_sends_no_heartbeat_is_lost() {
    let mut house = House::up(&["local.agent=external", "mesh.heartbeat=4s"]).await;
    let _crowd = Crowd::gather_silent(&house.data());
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    house.until_reason(&id, "NodeLost").await;
}

/// Red by: a node that was killed and is not restarted.
// Requirement: M-16
#[tokio::test]
async fn a_killed_agent_restarts_as_the_same_node() {
    let mut house = House::up(&[]).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    let before = house.processes();
    house.signal_agents(rustix::process::Signal::KILL);
    let begun = std::time::Instant::now();
    while house.processes().is_empty() || house.processes() == before {
        assert!(begun.elapsed() < crate::house::PATIENCE, "{}", house.said());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let nodes = house.insist("GET", "/v1/nodes", None).await;
    assert_eq!(nodes["items"].as_array().unwrap().len(), 1, "{nodes}");
    house.deprovision(&id).await;
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
}

/// Red by: an abandoned object that cannot be found again.
// Requirement: L-24
#[tokio::test]
async fn an_abandoned_object_is_an_orphan_until_it_is_reaped() {
    let mut house = House::up(&["local.agent=external"]).await;
    let id = house.provision("node-1").await;
    house.until_reason(&id, "WaitingForNode").await;
    let reason = serde_json::json!({ "reason": "the machine is not ours any more" });
    house.insist("POST", &format!("/v1/resources/{id}/abandon"), Some(&reason)).await;
    house.until_phase(&id, "Deleted").await;
    let orphans = house.insist("GET", "/v1/orphans", None).await;
    assert!(!orphans["items"].as_array().unwrap().is_empty(), "{orphans}");
    house.insist("POST", "/v1/orphans/reap", Some(&serde_json::json!({}))).await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ["Requested", "Deleted"]);
}

/// Red by: a substrate that is deleted while its node works, or a drain without an end.
// Requirement: T-29, M-12
#[tokio::test]
async fn work_in_flight_is_waited_for_within_the_grace() {
    let settings = [NEVER_LOST, "mesh.drain_grace=1h", "mesh.acknowledgements=1s"];
    let mut house = House::up(&settings).await;
    let id = house.provision("node-1").await;
    house.until_phase(&id, "Ready").await;
    let job = house.give_work();
    house.deprovision(&id).await;
    house.until_reason(&id, "DrainingNode").await;
    let why = house.why(&id).await;
    assert_eq!(why["blockers"][0]["kind"], "peer", "{why}");
    assert_eq!(house.resource(&id).await["phase"], "Deregistering", "the substrate is untouched");
    std::fs::remove_file(job).unwrap();
    house.until_phase(&id, "Deleted").await;
    house.until_nothing_is_left().await;
    assert_eq!(house.told(&id).await, ALL);
}
