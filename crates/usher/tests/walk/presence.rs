//! A node that no present server hears is unknown, and lost after the usual timeout.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::caller::{Caller, SOON};
use crate::fake_agents::FakeAgents;
use crate::rest::NEVER_LOST;
use crate::test_cluster::TestCluster;
use crate::test_server::{TIMEOUT, TestServer};

const HEARTBEAT: &str = "mesh.heartbeat=500ms";
/// Ten seconds without a heartbeat.
const SLOWLY_LOST: &str = "mesh.missed_max=20";
/// Two seconds without a heartbeat.
const SOON_LOST: &str = "mesh.missed_max=4";
const POLL: &str = "database.log_poll=200ms";
/// How long the other servers wait for a server that is stopped, and more.
const ABSENT: Duration = Duration::from_secs(20);

/// Provisions nodes that all call the first server, although the second runs again afterwards.
async fn on_the_first(cluster: &mut TestCluster, count: usize) -> Vec<String> {
    cluster.servers[1].kill();
    let mut ids = Vec::new();
    for number in 0..count {
        ids.push(cluster.caller().provision(&format!("node-{number}")).await);
    }
    for id in &ids {
        cluster.caller().until_phase(id, "Ready").await;
    }
    cluster.servers[1].start(None);
    cluster.servers[1].until_ready().await;
    ids
}

/// Ends the node of a resource without a farewell.
pub(crate) fn kill_node(agents: &FakeAgents, resource: &str) {
    let running = agents.running.lock().unwrap();
    running.iter().find(|(name, _)| name.contains(resource)).unwrap().1.abort();
}

/// The node of a resource, as a server shows it.
async fn node(caller: &Caller, id: &str) -> Value {
    let nodes = caller.list("/v1/nodes").await;
    nodes.into_iter().find(|it| it["resource"] == id).unwrap()
}

async fn until_liveness(caller: &Caller, id: &str, liveness: &str) {
    let begun = Instant::now();
    loop {
        let node = node(caller, id).await;
        if node["liveness"] == liveness {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "never {liveness}: {node}");
        sleep(SOON).await;
    }
}

async fn until_lost(server: &mut TestServer, id: &str) {
    server.until_reason(id, "NodeLost").await;
    assert_eq!(server.resource(id).await["phase"], "Ready", "its phase stays");
    until_liveness(server.caller(), id, "lost").await;
}

async fn losses(server: &TestServer) -> u64 {
    server.caller().counters().await["usher_nodes_lost_total"]
}

/// Red by: a node that no server expects, because its heartbeats could reach another server.
// Requirement: M-18
#[tokio::test]
async fn a_node_that_died_while_no_server_ran_is_lost() {
    let settings = [HEARTBEAT, SLOWLY_LOST, POLL];
    let Some(mut cluster) = TestCluster::open(2, &settings).await else { return };
    let dead = cluster.caller().provision("dead").await;
    let live = cluster.caller().provision("live").await;
    for id in [&dead, &live] {
        cluster.caller().until_phase(id, "Ready").await;
    }
    for server in &mut cluster.servers {
        server.kill();
    }
    kill_node(&cluster.agents, &dead);
    for server in &mut cluster.servers {
        server.start(None);
    }
    until_lost(&mut cluster.servers[0], &dead).await;
    until_liveness(cluster.servers[1].caller(), &dead, "lost").await;
    until_liveness(cluster.servers[0].caller(), &live, "live").await;
    let losses = (losses(&cluster.servers[0]).await, losses(&cluster.servers[1]).await);
    assert_eq!(losses.0 + losses.1, 1, "one server recorded the loss of one node");
}

/// Red by: nodes of a killed server that stay unknown, or that are lost although another server
/// hears them.
// Requirement: M-18
#[tokio::test]
async fn the_nodes_of_a_killed_server_move_or_are_lost() {
    let settings = [HEARTBEAT, SLOWLY_LOST, POLL];
    let Some(mut cluster) = TestCluster::open(2, &settings).await else { return };
    let ids = on_the_first(&mut cluster, 4).await;
    let (dead, live) = ids.split_at(2);
    for id in &ids {
        until_liveness(cluster.servers[1].caller(), id, "live").await;
    }
    cluster.servers[0].kill();
    for id in dead {
        kill_node(&cluster.agents, id);
    }
    for id in dead {
        until_lost(&mut cluster.servers[1], id).await;
    }
    for id in live {
        until_liveness(cluster.servers[1].caller(), id, "live").await;
        let it = cluster.servers[1].resource(id).await;
        assert_eq!((&it["reason"], &it["node"]), (&json!("AsDeclared"), &json!("live")));
    }
    assert_eq!(losses(&cluster.servers[1]).await, 2, "only dead nodes are lost");
}

/// Red by: a server that resumes and records the loss of nodes that another server hears.
// Requirement: M-19
#[tokio::test]
async fn a_stopped_server_loses_its_nodes_to_another_and_judges_none() {
    let settings = [HEARTBEAT, SLOWLY_LOST, POLL];
    let Some(mut cluster) = TestCluster::open(2, &settings).await else { return };
    let ids = on_the_first(&mut cluster, 3).await;
    cluster.servers[0].signal(Signal::STOP);
    let begun = Instant::now();
    for id in &ids {
        while node(cluster.servers[1].caller(), id).await["last_heartbeat_at"].is_null() {
            assert!(begun.elapsed() < TIMEOUT, "{id} never moved");
            sleep(SOON).await;
        }
    }
    sleep(ABSENT).await;
    cluster.servers[0].signal(Signal::CONT);
    cluster.servers[0].until_ready().await;
    sleep(ABSENT).await;
    for server in &cluster.servers {
        assert_eq!(losses(server).await, 0, "{}", server.said());
        for id in &ids {
            until_liveness(server.caller(), id, "live").await;
        }
    }
}

/// Red by: a node that dies with a stopped server, whose session with the database stays open.
// Requirement: M-19
#[tokio::test]
async fn a_node_of_a_server_that_is_stopped_for_long_is_lost() {
    let settings = [HEARTBEAT, SOON_LOST, POLL];
    let Some(mut cluster) = TestCluster::open(2, &settings).await else { return };
    let ids = on_the_first(&mut cluster, 1).await;
    cluster.servers[0].signal(Signal::STOP);
    kill_node(&cluster.agents, &ids[0]);
    until_lost(&mut cluster.servers[1], &ids[0]).await;
    cluster.servers[0].signal(Signal::CONT);
}

/// Red by: a summary, a list or a metric that shows a node as healthy that no server hears.
// Requirement: M-20
#[tokio::test(flavor = "multi_thread")]
async fn an_unheard_node_is_shown_as_unknown_and_when_it_counts_as_lost() {
    let settings = [HEARTBEAT, NEVER_LOST, POLL];
    let Some(mut cluster) = TestCluster::open(1, &settings).await else { return };
    let id = cluster.caller().provision("web").await;
    cluster.caller().until_phase(&id, "Ready").await;
    let server = &mut cluster.servers[0];
    server.until_reason(&id, "AsDeclared").await;
    let why = server.why(&id).await;
    assert_eq!(why["summary"], "everything is as declared");
    server.kill();
    kill_node(&cluster.agents, &id);
    server.start(None);
    server.until_ready().await;
    let begun = Instant::now();
    while node(server.caller(), &id).await["unknown_since"].is_null() {
        assert!(begun.elapsed() < TIMEOUT, "{}", server.said());
        sleep(SOON).await;
    }
    let shown = node(server.caller(), &id).await;
    assert_eq!(shown["liveness"], "unknown", "{shown}");
    assert!(shown["unknown_since"].as_str() < shown["lost_at"].as_str(), "{shown}");
    let resource = server.resource(&id).await;
    assert_eq!((&resource["phase"], &resource["node"]), (&json!("Ready"), &json!("unknown")));
    let why = server.why(&id).await;
    let summary = why["summary"].as_str().unwrap();
    assert!(summary.starts_with("no server hears its node since "), "{why}");
    assert!(summary.contains("counts as lost at "), "{why}");
    assert_eq!(server.caller().counters().await["usher_nodes_unknown"], 1);
    for kind in ["nodes", "resources"] {
        let (code, printed) = server.usher(&["get", kind]);
        assert_eq!(code, Some(0), "{printed}");
        assert!(printed.contains("unknown"), "{printed}");
    }
}
