//! The local world on the fleet: a declaration becomes a machine, a host, an agent and a node, and
//! is torn down without a trace.

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

use rustix::process::Signal;
use serde_json::json;
use tokio::time::sleep;

use crate::caller::{SOON, declaration};
use crate::test_server::{TIMEOUT, TestServer};

/// Late heartbeats on a busy machine are not the subject of these tests.
const NEVER_LOST: &str = "mesh.missed_max=1000";

/// A server with this many machines.
async fn up(machines: usize, settings: &[&str]) -> TestServer {
    let machines = format!("local.machines={machines}");
    TestServer::up(&[&[machines.as_str()], settings].concat()).await
}

/// How many machines of the fleet are in a phase, and how many of them a resource holds.
async fn machines(server: &TestServer, phase: &str) -> (usize, usize) {
    let machines = server.caller().list("/v1/fleet/machines").await;
    let found: Vec<_> = machines.iter().filter(|it| it["phase"] == phase).collect();
    (found.len(), found.iter().filter(|it| !it["holder"].is_null()).count())
}

/// Waits until this many machines are in a phase, and this many of them are held.
async fn until_machines(server: &TestServer, phase: &str, counts: (usize, usize)) {
    let begun = Instant::now();
    while machines(server, phase).await != counts {
        assert!(begun.elapsed() < TIMEOUT, "never {counts:?} {phase}: {}", server.said());
        sleep(SOON).await;
    }
}

/// A ready node on a machine.
async fn ready(server: &mut TestServer, name: &str) -> String {
    let id = server.provision(name).await;
    server.until_phase(&id, "Ready").await;
    id
}

/// Tears a node down, and waits until nothing is left.
async fn show_out(server: &mut TestServer, id: &str) {
    server.deprovision(id).await;
    server.until_phase(id, "Deleted").await;
    server.until_nothing_is_left().await;
}

/// The entries of a folder of the data directory.
fn within(server: &TestServer, folder: &str) -> Vec<PathBuf> {
    let objects = server.objects().into_iter();
    objects.filter(|it| it.parent().is_some_and(|it| it.ends_with(folder))).collect()
}

// Requirement: F-73
#[tokio::test]
async fn a_node_comes_and_goes_on_a_machine_of_the_fleet() {
    let mut server = up(4, &[]).await;
    let begun = Instant::now();
    let id = ready(&mut server, "node-1").await;
    println!("a node is ready {:.1?} after it was declared", begun.elapsed());
    // The heartbeat may arrive before the shard's next poll.
    until_machines(&server, "Configured", (1, 1)).await;
    assert_eq!(server.processes().len(), 1);
    show_out(&mut server, &id).await;
}

// Requirement: F-73
#[tokio::test]
async fn a_node_on_the_fleet_outlives_its_server_and_the_next_tears_it_down() {
    let mut server = up(4, &[]).await;
    let id = ready(&mut server, "node-1").await;
    let before = server.processes();
    server.kill();
    assert_eq!(server.processes(), before, "it keeps running");
    server.start(None);
    assert!(server.until_ready().await);
    show_out(&mut server, &id).await;
}

/// Red by: a Failed machine that is released while its host and its node exist, or a FAILED that no
/// operation ends.
// Requirement: F-76
#[tokio::test]
async fn a_machine_that_its_provider_reports_failed_is_torn_down() {
    for lost in ["fleet/hosts", "fleet/process"] {
        let mut server = up(1, &["local.look_interval=100ms"]).await;
        let id = ready(&mut server, "node-1").await;
        let [lost] = &within(&server, lost)[..] else { panic!("{:?}", server.objects()) };
        server.take_away(lost);
        server.until_phase(&id, "Failed").await;
        let why = server.why(&id).await["summary"].to_string();
        assert!(why.contains("local-slot-0000") && why.contains("is gone"), "{why}");
        assert_eq!(machines(&server, "Failed").await, (1, 1), "it is held until it is torn down");
        show_out(&mut server, &id).await;
        // The slot is usable again.
        let id = ready(&mut server, "node-2").await;
        show_out(&mut server, &id).await;
    }
}

/// Red by: a substrate that is ready before it has a machine, or a wait without an explanation.
// Requirement: F-77
#[tokio::test]
async fn a_resource_without_a_free_machine_reports_it_and_gets_the_next_one() {
    let settings = ["broker.reconcile_interval=1h", "local.wait_interval=1h"];
    let mut server = up(1, &settings).await;
    let first = ready(&mut server, "node-1").await;
    let second = server.provision("node-2").await;
    let begun = Instant::now();
    loop {
        let why = server.why(&second).await;
        let said = why["blockers"].to_string().contains("no machine of the fleet is free");
        if said && why["resource"]["phase"] == "Provisioning" {
            break;
        }
        assert!(begun.elapsed() < TIMEOUT, "no blocker names it: {why}");
        sleep(SOON).await;
    }
    server.deprovision(&first).await;
    server.until_phase(&first, "Deleted").await;
    server.until_phase(&second, "Ready").await;
    show_out(&mut server, &second).await;
}

/// Red by: a part that counts as absent while its machine is held, or a machine that is held for a
/// part that is never released.
// Requirement: F-78
#[tokio::test]
async fn a_part_removed_by_hand_releases_its_machine() {
    let settings = [NEVER_LOST, "mesh.drain_grace=1h", "mesh.acknowledgements=500ms"];
    let mut server = up(2, &settings).await;
    let id = ready(&mut server, "node-1").await;
    // The node cannot leave, so that its objects stay.
    server.signal_agents(Signal::STOP);
    server.deprovision(&id).await;
    server.until_reason(&id, "DrainingNode").await;
    // The composer would recreate the part of a substrate: the server is stopped meanwhile.
    server.signal(Signal::STOP);
    for (kind, count) in [("world/part", 2), ("world/substrate", 1)] {
        let found = within(&server, kind);
        assert_eq!(found.len(), count, "{found:?}");
        for it in &found {
            server.take_away(it);
        }
    }
    server.signal(Signal::CONT);
    server.signal_agents(Signal::CONT);
    server.until_phase(&id, "Deleted").await;
    assert_eq!(machines(&server, "Speculative").await, (2, 0), "an absent part has no machine");
    server.until_nothing_is_left().await;
}

/// Red by: a server that keeps running without its machines, silently.
// Requirement: F-79
#[tokio::test]
async fn a_provider_state_that_cannot_be_written_stops_the_server() {
    let mut server = up(1, &["local.forget_tokens=1s"]).await;
    let state = server.data().join("fleet/state");
    fs::remove_file(&state).unwrap();
    fs::create_dir_all(state.join("in-the-way")).unwrap();
    // The server may end before it responds.
    server.ask("POST", "/v1/resources", Some(&declaration("node-1", &json!({})))).await;
    assert_eq!(server.until_ended().await, Some(5));
    let log = server.said();
    let said = log.lines().last().unwrap_or_default();
    let sentence = "usher: failed to write the state of the local provider";
    assert!(said.starts_with(sentence), "{log}");
}

/// Red by: a bootstrap token that stays in the provider's state until that is compacted.
// Requirement: F-80
#[tokio::test]
async fn the_provider_soon_erases_a_redeemed_token() {
    let mut server = up(1, &["local.forget_tokens=100ms"]).await;
    let id = ready(&mut server, "node-1").await;
    let state = server.data().join("fleet/state");
    let begun = Instant::now();
    while String::from_utf8_lossy(&fs::read(&state).unwrap()).contains("ubt_") {
        assert!(begun.elapsed() < TIMEOUT, "never removed: {}", server.said());
        sleep(SOON).await;
    }
    show_out(&mut server, &id).await;
}
