//! The node leaves before its substrate is deleted, whatever is wrong with it; what `usher why`
//! prints, and that the remedy works.

use std::fs;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rustix::process::Signal;
use serde_json::Value;

use crate::rest::NEVER_LOST;
use crate::test_server::{TIMEOUT, TestServer};

/// Watches a substrate from outside the server.
struct Recorder {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Option<i64>>,
}

impl Recorder {
    /// Starts to watch an existing substrate.
    fn of(server: &TestServer, id: &str) -> Self {
        let path = server.data().join(format!("world/substrate/pr-{id}.json"));
        assert!(path.exists(), "{}", path.display());
        let (stop, stopped) = mpsc::channel();
        let thread = thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(1)) == Err(RecvTimeoutError::Timeout) {
                if let Some(at) = asked_at(&path) {
                    return Some(at);
                }
            }
            asked_at(&path)
        });
        Self { stop, thread }
    }

    /// When its deletion was requested, in microseconds.
    fn asked_at(self) -> i64 {
        // A recorder that has seen the deletion has dropped its receiver.
        let _ = self.stop.send(());
        self.thread.join().unwrap().unwrap()
    }
}

/// The deletion time that an object records itself; now at the latest, if it is gone.
fn asked_at(path: &Path) -> Option<i64> {
    let Ok(text) = fs::read_to_string(path) else {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        return i64::try_from(now.as_micros()).ok();
    };
    serde_json::from_str::<Value>(text.lines().last()?).ok()?["deleting_at"].as_i64()
}

/// Tears a resource down and compares when its node left with when its substrate was deleted.
async fn shown_out_in_order(server: &mut TestServer, id: &str, nodes: i64) {
    let recorder = Recorder::of(server, id);
    server.deprovision(id).await;
    server.until_phase(id, "Deleted").await;
    let asked_at = recorder.asked_at();
    let own = format!("FROM peers WHERE hex(resource) = '{}'", id.replace('-', "").to_uppercase());
    let out = format!("{own} AND stage = 'deregistered' AND deregistered_at <= {asked_at}");
    let all = server.number(&format!("SELECT count(*) {own}")).await;
    assert_eq!(all, nodes);
    let out = server.number(&format!("SELECT count(*) {out}")).await;
    assert_eq!(out, nodes, "a substrate was deleted before its node left");
    server.until_nothing_is_left().await;
}

/// The output of `usher why`.
fn why(server: &TestServer) -> String {
    let (code, said) = server.usher(&["why", "node-1"]);
    assert_eq!(code, Some(0), "{said}");
    said
}

/// The remedy of a lost or missing node.
const REPLACE: &str = "`usher retry node-1 --replace`";

/// Checks that the remedy of a lost or missing node is printed, and applies it.
async fn replaced(server: &mut TestServer, id: &str) {
    let said = why(server);
    assert!(said.contains(REPLACE), "{said}");
    replace(server, id).await;
}

/// Replaces the node, and waits for the new one.
async fn replace(server: &mut TestServer, id: &str) {
    let (code, said) = server.usher(&["retry", "node-1", "--replace"]);
    assert_eq!(code, Some(0), "{said}");
    server.until_generation(id, 2).await;
}

/// Red by: a substrate that is deleted under a node whose agent was just killed.
// Requirement: T-2
#[tokio::test]
async fn a_node_whose_agent_is_killed_leaves_first() {
    let mut server = TestServer::up(&["local.agent_grace=300ms"]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    server.signal_agents(Signal::KILL);
    shown_out_in_order(&mut server, &id, 1).await;
}

/// Red by: a node whose agent keeps dying and that counts as live, or that cannot be replaced.
// Requirement: T-35, M-16
#[tokio::test]
async fn a_node_whose_agent_keeps_dying_is_lost_and_replaced() {
    let mut server = TestServer::up(&["local.agent_grace=300ms"]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let begun = Instant::now();
    // The supervisor restarts it, so it is killed before each check.
    let said = loop {
        server.signal_agents(Signal::KILL);
        let said = why(&server);
        if said.contains("its node registered and sends no heartbeats any more") {
            break said;
        }
        assert!(begun.elapsed() < TIMEOUT, "{}", server.said());
    };
    assert!(said.contains(REPLACE), "{said}");
    replace(&mut server, &id).await;
    shown_out_in_order(&mut server, &id, 2).await;
}

/// Red by: a node that hangs and blocks its replacement or its substrate for ever.
// Requirement: T-2
#[tokio::test]
async fn a_node_that_hangs_is_replaced_and_one_that_hangs_again_leaves_first() {
    let mut server = TestServer::up(&["local.agent_grace=300ms"]).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    server.signal_agents(Signal::STOP);
    server.until_reason(&id, "NodeLost").await;
    replaced(&mut server, &id).await;
    server.signal_agents(Signal::STOP);
    shown_out_in_order(&mut server, &id, 2).await;
}

/// Red by: a drain without an end, or a substrate that is deleted within the grace.
// Requirement: T-2, D-21
#[tokio::test]
async fn a_node_that_is_slow_to_drain_leaves_first_and_within_the_grace() {
    // It is overdue at once, and there is time to check that before it is deregistered.
    let settings = [
        NEVER_LOST,
        "mesh.drain_grace=20s",
        "mesh.acknowledgements=1s",
        "broker.drain_deadline=100ms",
    ];
    let mut server = TestServer::up(&settings).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    server.give_work();
    let recorder = Recorder::of(&server, &id);
    server.deprovision(&id).await;
    server.until_reason(&id, "DrainOverdue").await;
    let said = why(&server);
    assert!(said.contains("its node should have left by now"), "{said}");
    assert!(said.contains("the node is cordoned; its heartbeats arrive"), "{said}");
    assert!(said.contains("it is deregistered by force when its grace has passed"), "{said}");
    server.until_phase(&id, "Deleted").await;
    let asked_at = recorder.asked_at();
    let out = format!("SELECT count(*) FROM peers WHERE deregistered_at <= {asked_at}");
    assert_eq!(server.number(&out).await, 1);
    server.until_nothing_is_left().await;
}

/// Red by: a machine that never boots and blocks its resource for ever, or a hidden cause.
// Requirement: T-35, D-21
#[tokio::test]
async fn a_node_that_never_booted_is_overdue_and_replaced() {
    let deadline = "broker.enrolment_deadline=300ms";
    let mut server = TestServer::up(&["local.agent=external", deadline]).await;
    let id = server.provision("node-1").await;
    server.until_reason(&id, "EnrolmentOverdue").await;
    let said = why(&server);
    assert!(said.contains("its node should have registered by now"), "{said}");
    assert!(said.contains("it is not redeemed yet"), "{said}");
    // What kept it from booting is mended before the remedy.
    assert_eq!(server.stop().await, Some(0));
    server.set("local.agent=process");
    server.start(None);
    server.until_ready().await;
    replaced(&mut server, &id).await;
    shown_out_in_order(&mut server, &id, 1).await;
}

/// Red by: the deletion of a resource that never had a node and waits for one.
// Requirement: T-2
#[tokio::test]
async fn a_resource_that_never_had_a_node_is_torn_down() {
    let mut server = TestServer::up(&["local.agent=external"]).await;
    let id = server.provision("node-1").await;
    server.until_reason(&id, "WaitingForNode").await;
    shown_out_in_order(&mut server, &id, 0).await;
}

/// Red by: a node that stays registered because its substrate was removed by hand.
// Requirement: T-2
#[tokio::test]
async fn a_substrate_removed_during_the_drain_does_not_change_the_outcome() {
    let settings = [NEVER_LOST, "mesh.drain_grace=1h", "mesh.acknowledgements=1s"];
    let mut server = TestServer::up(&settings).await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    let job = server.give_work();
    server.deprovision(&id).await;
    server.until_reason(&id, "DrainingNode").await;
    assert!(why(&server).contains("its node is being drained and removed from the mesh"));
    server.take_away(&server.data().join(format!("world/substrate/pr-{id}.json")));
    fs::remove_file(job).unwrap();
    server.until_phase(&id, "Deleted").await;
    server.until_nothing_is_left().await;
    let events = server.events(&id).await;
    assert_eq!(events, ["Requested", "Ready", "Deleting", "Deleted"]);
}
