//! Provisioning and teardown on PostgreSQL, with one and with several servers.

use crate::test_server::TestServer;

const ALL: [&str; 4] = ["Requested", "Ready", "Deleting", "Deleted"];

/// Red by: a statement that only the embedded database understands.
// Requirement: D-6
#[tokio::test]
async fn a_node_enrols_and_leaves_on_postgresql() {
    let Some(mut server) = TestServer::serve(&[]).await else { return };
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    assert_eq!(server.processes().len(), 1, "one agent runs");
    server.deprovision(&id).await;
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    server.until_events(&id, &ALL).await;
    let receipt = server.insist("GET", &format!("/v1/resources/{id}/receipt"), None).await;
    let rows = receipt["rows"].as_array().or(receipt["names"].as_array()).unwrap();
    assert!(rows.len() >= 6 && rows.iter().all(|it| it["state"] == "gone"), "{receipt}");
    assert_eq!(server.stop().await, Some(0));
}

/// Red by: a lease that is never taken over because its server was killed.
// Requirement: D-6
#[tokio::test]
async fn a_server_on_postgresql_resumes_after_a_kill() {
    let Some(mut server) = TestServer::serve(&[]).await else { return };
    let id = server.provision("node-1").await;
    server.kill();
    server.until_phase(&id, "Ready").await;
    server.deprovision(&id).await;
    server.kill();
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    server.until_events(&id, &ALL).await;
}

/// Every drain takes 10 min unless the servers notify each other.
const PATIENT: [&str; 5] = [
    "mesh.heartbeat=10m",
    "mesh.drain_grace=20m",
    "mesh.acknowledgements=10m",
    "database.log_poll=100ms",
    "worker.due_query=50ms",
];

/// Red by: a node that receives its drain only from the server that runs it, or a server that
/// receives acknowledgements only from its own nodes. Polling alone takes 10 min.
// Requirement: M-17
#[tokio::test]
async fn a_drain_ends_when_its_node_left_whichever_server_runs_it() {
    let Some(mut here) = TestServer::serve(&PATIENT).await else { return };
    let mut there = here.neighbour().await;
    let mut ids = Vec::new();
    for name in ["a", "b", "c"] {
        ids.push(here.provision(&format!("{name}-here")).await);
        ids.push(there.provision(&format!("{name}-there")).await);
    }
    for id in &ids {
        here.until_phase(id, "Ready").await;
    }
    // One by one, so that others are pending, and each is deleted through the other server.
    for (index, id) in ids.iter().enumerate() {
        if index % 2 == 0 {
            there.deprovision(id).await;
        } else {
            here.deprovision(id).await;
        }
        here.until_phase(id, "Deleted").await;
        there.until_events(id, &ALL).await;
    }
    there.stop().await;
    here.until_nothing_is_left().await;
}

/// Red by: servers that learn of drains from the event log only, which has none of a replacement.
// Requirement: M-17
#[tokio::test]
async fn a_node_is_replaced_whichever_server_receives_its_heartbeats() {
    let Some(mut here) = TestServer::serve(&PATIENT).await else { return };
    let mut there = here.neighbour().await;
    let mut ids = Vec::new();
    for name in ["a", "b"] {
        ids.push(here.provision(&format!("{name}-here")).await);
        ids.push(there.provision(&format!("{name}-there")).await);
    }
    for id in &ids {
        here.until_phase(id, "Ready").await;
    }
    for (index, id) in ids.iter().enumerate() {
        let path = format!("/v1/resources/{id}/replace");
        let orderer = if index % 2 == 0 { &mut there } else { &mut here };
        orderer.insist("POST", &path, None).await;
        here.until_generation(id, 2).await;
    }
    there.stop().await;
}

/// A silent node is deregistered soon, but its process may take long to exit.
const DEAF: [&str; 5] = [
    "mesh.drain_grace=2s",
    "mesh.acknowledgements=1s",
    "local.agent_grace=10m",
    "database.log_poll=100ms",
    "worker.due_query=50ms",
];

/// Red by: hosts that are released piece by piece, so that the server which takes them over exits,
/// or a drain that ends with the server which started it.
#[tokio::test]
async fn a_server_that_stops_while_a_node_drains_leaves_the_drain_to_the_other() {
    let Some(mut here) = TestServer::serve(&DEAF).await else { return };
    let mut there = here.neighbour().await;
    let id = here.provision("node-1").await;
    here.until_phase(&id, "Ready").await;
    here.signal_agents(rustix::process::Signal::STOP);
    here.deprovision(&id).await;
    here.until_reason(&id, "WaitingForComposedResources").await;
    let leaving =
        |server: &TestServer| server.objects().iter().any(|it| it.join("leaving").exists());
    let begun = std::time::Instant::now();
    while !leaving(&there) {
        assert!(begun.elapsed() < crate::test_server::TIMEOUT, "{}", here.said());
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    assert_eq!(here.stop().await, Some(0));
    there.signal_agents(rustix::process::Signal::CONT);
    there.until_phase(&id, "Deleted").await;
    there.until_nothing_is_left().await;
    assert_eq!(there.deaths(), 0, "{}", there.said());
}
