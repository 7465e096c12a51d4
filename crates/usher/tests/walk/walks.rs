//! Provisioning and teardown as a new user does it.

use crate::caller::ALL;
use crate::fake_agents::FakeAgents;
use crate::rest::{NEVER_LOST, SETTLED, until_settled};
use crate::test_server::TestServer;

/// Red by: a node that counts as gone while its process runs, or an event that occurs twice.
// Requirement: L-24, D-6, HC-26
#[tokio::test]
async fn a_node_enrols_and_leaves_and_nothing_is_left() {
    let mut server = TestServer::up(&[NEVER_LOST]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    assert_eq!(server.processes().len(), 1, "one agent runs");
    let nodes = server.insist("GET", "/v1/nodes", None).await;
    assert_eq!(nodes["items"][0]["name"], "node-1");
    assert_eq!(nodes["items"][0]["liveness"], "live");
    let plan = server.insist("GET", &format!("/v1/resources/{id}/plan"), None).await;
    let planned: Vec<_> =
        plan["steps"].as_array().unwrap().iter().map(|it| &it["effect"]).collect();
    let effects: Vec<_> = planned.into_iter().filter_map(|it| it.as_str()).collect();
    assert_eq!(effects, ["DeregisterNode", "DeleteSubstrate", "DeleteAnchor"]);
    let asked = server.insist("DELETE", &format!("/v1/resources/{id}"), None).await;
    assert_eq!(asked["phase"], "Deregistering");
    assert_ne!(asked["reason"], "AsDeclared", "that was before");
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ALL);
    let receipt = server.insist("GET", &format!("/v1/resources/{id}/receipt"), None).await;
    let names = receipt["names"].as_array().or(receipt["rows"].as_array()).unwrap();
    assert!(names.len() >= 6, "{receipt}");
    assert!(names.iter().all(|it| it["state"] == "gone"), "{receipt}");
    assert_eq!(server.stop().await, Some(0));
    assert!(!server.data().join("endpoint.json").exists());
}

/// Red by: a server that loses state, or that wakes an unchanged node.
// Requirement: W-9, D-6
#[tokio::test]
async fn a_ready_resource_survives_a_restart_and_is_not_reconciled() {
    let mut server = TestServer::up(&[NEVER_LOST]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let before = (server.processes(), server.resource(&id).await["version"].clone());
    assert_eq!(server.stop().await, Some(0));
    assert_eq!(server.processes(), before.0, "the agent keeps running");
    let said_before = server.said().len();
    server.start(None);
    assert!(server.until_ready().await);
    let after = server.resource(&id).await["version"].clone();
    assert_eq!((server.processes(), after), before);
    let said = server.said().split_off(said_before);
    assert_eq!(figures_of("woken", &said), ["0"], "{said}");
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ALL);
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
    let mut server = TestServer::up(&[]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let first = server.insist("GET", "/v1/nodes", None).await["items"][0]["id"].clone();
    server.take_away(&server.data().join(format!("world/substrate/pr-{id}.json")));
    server.until_generation(&id, 2).await;
    let nodes = server.insist("GET", "/v1/nodes?all=true", None).await;
    let live: Vec<_> = nodes["items"].as_array().unwrap().iter().collect();
    let stages: Vec<_> = live.iter().map(|it| it["stage"].as_str().unwrap()).collect();
    assert_eq!(stages, ["deregistered", "registered"]);
    assert_ne!(live[1]["id"], first);
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
}

/// Red by: a failure that is not shown, or a failed resource that cannot be deleted.
// Requirement: T-35, D-21
#[tokio::test]
async fn a_failed_substrate_shows_its_cause_and_can_be_deleted() {
    let mut server = TestServer::up(&[]).await;
    let wish = serde_json::json!({ "failWith": "no quota" });
    let id = server.provision_with("node-1", &wish).await;
    server.until_phase(&id, "Failed").await;
    let why = server.why(&id).await;
    assert_eq!(why["summary"], "its substrate failed for good: no quota");
    assert!(why["advice"][0]["remedy"].as_str().unwrap().contains("usher deprovision node-1"));
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ["Requested", "Failed", "Deleting", "Deleted"]);
}

/// Red by: a timer in Ready, or a heartbeat that is written.
// Requirement: W-11
#[tokio::test]
async fn an_idle_server_observes_nothing_and_writes_nothing() {
    // The shard counts its lists, and sends one per cycle; its lease renewal
    // has to be written.
    let shard = ["fleet.cycle_interval=1h", "fleet.lease=1h"];
    let mut server = TestServer::up(&[NEVER_LOST, shard[0], shard[1]]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    // Work triggered by the last changes is done first.
    let observe = async || server.caller().counters().await;
    let before = until_settled(SETTLED, observe).await;
    let counted = ["usher_world_observations_total", "usher_store_writes_total"];
    assert!(counted.iter().all(|it| before.contains_key(*it)), "{before:?}");
    tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    assert_eq!(server.caller().counters().await, before, "fifteen heartbeats later");
    assert_eq!(server.why(&id).await["next_reconcile_at"], serde_json::Value::Null);
}

/// Red by: a node that hangs and counts as live, or a drain that waits for it without an end.
// Requirement: T-29, M-16
#[tokio::test]
async fn a_node_that_hangs_is_lost_recovers_and_is_torn_down() {
    let mut server = TestServer::up(&["local.agent_grace=300ms"]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    server.signal_agents(rustix::process::Signal::STOP);
    server.until_reason(&id, "NodeLost").await;
    assert_eq!(server.resource(&id).await["phase"], "Ready", "a lost node changes no phase");
    let why = server.why(&id).await;
    assert!(why["advice"][0]["remedy"].as_str().unwrap().contains("--replace"), "{why}");
    server.signal_agents(rustix::process::Signal::CONT);
    server.until_reason(&id, "AsDeclared").await;
    server.signal_agents(rustix::process::Signal::STOP);
    server.until_reason(&id, "NodeLost").await;
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ALL);
}

/// Red by: a registration that does not count as a heartbeat.
// Requirement: D-20
#[tokio::test]
async fn a_node_that_registers_and_sends_no_heartbeat_is_lost() {
    let mut server = TestServer::up(&["local.agent=external", "mesh.heartbeat=4s"]).await;
    let _agents = FakeAgents::gather_silent(&server.data());
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    server.until_reason(&id, "NodeLost").await;
}

/// Red by: a node that was killed and is not restarted.
// Requirement: M-16
#[tokio::test]
async fn a_killed_agent_restarts_as_the_same_node() {
    let mut server = TestServer::up(&[]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let before = server.processes();
    server.signal_agents(rustix::process::Signal::KILL);
    let begun = std::time::Instant::now();
    while server.processes().is_empty() || server.processes() == before {
        assert!(begun.elapsed() < crate::test_server::TIMEOUT, "{}", server.said());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let nodes = server.insist("GET", "/v1/nodes", None).await;
    assert_eq!(nodes["items"].as_array().unwrap().len(), 1, "{nodes}");
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
}

/// Red by: an abandoned object that cannot be found again.
// Requirement: L-24
#[tokio::test]
async fn an_abandoned_object_is_an_orphan_until_it_is_reaped() {
    let mut server = TestServer::up(&["local.agent=external"]).await;
    let id = server.provision("node-1").await;
    server.until_reason(&id, "WaitingForNode").await;
    let reason = serde_json::json!({ "reason": "the machine is not ours any more" });
    server.insist("POST", &format!("/v1/resources/{id}/abandon"), Some(&reason)).await;
    server.until_phase(&id, "Deleted").await;
    let orphans = server.insist("GET", "/v1/orphans", None).await;
    assert!(!orphans["items"].as_array().unwrap().is_empty(), "{orphans}");
    server.insist("POST", "/v1/orphans/reap", Some(&serde_json::json!({}))).await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ["Requested", "Deleted"]);
}

/// Red by: a substrate that is deleted while its node works, or a drain without an end.
// Requirement: T-29, M-12
#[tokio::test]
async fn work_in_flight_is_waited_for_within_the_grace() {
    let settings = [NEVER_LOST, "mesh.drain_grace=1h", "mesh.acknowledgements=1s"];
    let mut server = TestServer::up(&settings).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let job = server.give_work();
    server.deprovision(&id).await;
    server.until_reason(&id, "DrainingNode").await;
    let why = server.why(&id).await;
    assert_eq!(why["blockers"][0]["kind"], "peer", "{why}");
    assert_eq!(server.resource(&id).await["phase"], "Deregistering", "the substrate is untouched");
    std::fs::remove_file(job).unwrap();
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    assert_eq!(server.events(&id).await, ALL);
}
