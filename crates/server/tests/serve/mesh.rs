//! Heartbeats stay in memory; only the loss and the recovery of a node are written.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep};
use usher_domain::object::id::PeerId;
use usher_domain::object::name;
use usher_domain::peers::{DrainStep, Heartbeat, Liveness};
use usher_domain::tokens::{Lifetime, Outcome, Request};
use usher_kernel::Generation;
use usher_server::mesh::{Mesh, MeshConfig};
use usher_store::{PeerStatus, ServerNumber};
use uuid::Uuid;

use crate::test_env::{TestEnv, key};

/// A node that registered.
async fn node(env: &TestEnv, name: &str) -> PeerStatus {
    let id = env.declare(name).await;
    let generation = Generation::FIRST;
    env.store.issue(key(), id, generation, Lifetime::default()).await.unwrap();
    let request = Request {
        text: key().derive(name::token(id, generation), generation),
        project: env.store.resource(id).await.unwrap().state.fields().project,
        nonce: "nonce-nonce-nonce-1".parse().unwrap(),
        public_key: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".parse().unwrap(),
        peer: PeerId::from_uuid(Uuid::now_v7()),
    };
    let Outcome::Redeemed(consumed) = env.store.redeem(request).await.unwrap() else {
        panic!("it is not redeemed");
    };
    env.store.peer(consumed.peer).await.unwrap().unwrap()
}

fn mesh(interval: Duration) -> Arc<Mesh> {
    let heartbeat = Heartbeat { interval, missed_max: 3 };
    let config = MeshConfig { heartbeat, ..MeshConfig::default() };
    Arc::new(Mesh::new(config, Arc::default()))
}

/// Makes a mesh present and tells it which nodes it has to expect.
async fn appear(env: &TestEnv, mesh: &Mesh) -> ServerNumber {
    let mut presence = env.store.appear().await.unwrap();
    mesh.appear(presence.number);
    mesh.expect(&env.store.sight(&mut presence).await.unwrap());
    presence.number
}

/// Red by: a node that counts as lost because the server restarted.
// Requirement: M-13
#[tokio::test]
async fn after_a_restart_a_node_is_unknown_until_its_first_heartbeat() {
    let env = TestEnv::new().await;
    let it = node(&env, "web").await;
    let mesh = mesh(Duration::from_secs(10));
    let number = appear(&env, &mesh).await;
    assert_eq!((mesh.liveness(&it), mesh.unclaimed()), (Liveness::Unknown, 1));
    assert!(!mesh.has_left(&it));
    mesh.load(&it, (Instant::now(), env.store.now().await.unwrap()));
    assert_eq!(mesh.record_heartbeat(it.peer.id, 0, "usher-agent/1").claim, Some(number));
    mesh.claimed(it.peer.id, number);
    assert_eq!((mesh.liveness(&it), mesh.unclaimed()), (Liveness::Live, 0));
}

/// Red by: a node that died while no server ran, and that every later drain waits for.
// Requirement: M-13
#[tokio::test]
async fn a_node_that_never_calls_again_is_lost() {
    let env = TestEnv::new().await;
    let it = node(&env, "web").await;
    let mesh = mesh(Duration::from_millis(30));
    appear(&env, &mesh).await;
    let (stop, stopped) = watch::channel(false);
    let listening = tokio::spawn(Arc::clone(&mesh).listen(Arc::clone(&env.store), stopped));
    let lost = until_lost(&env, it.peer.id).await;
    assert_eq!((mesh.liveness(&it), mesh.liveness(&lost)), (Liveness::Unknown, Liveness::Lost));
    stop.send_replace(true);
    listening.await.unwrap();
}

/// Waits until a node is recorded as lost.
async fn until_lost(env: &TestEnv, id: PeerId) -> PeerStatus {
    loop {
        let found = env.store.peer(id).await.unwrap().unwrap();
        if found.lost_since.is_some() {
            return found;
        }
        sleep(Duration::from_millis(5)).await;
    }
}

/// Red by: a node that no server judges any more, because its claim was written between the check
/// of its timeout and the record of its loss.
// Requirement: M-13
#[tokio::test]
async fn a_node_that_is_claimed_while_its_loss_is_recorded_is_lost_later() {
    let env = TestEnv::new().await;
    let it = node(&env, "web").await;
    let (id, mesh) = (it.peer.id, mesh(Duration::from_millis(30)));
    let number = appear(&env, &mesh).await;
    mesh.load(&it, (Instant::now(), env.store.now().await.unwrap()));
    assert_eq!(mesh.record_heartbeat(id, 0, "usher-agent/1").claim, Some(number));
    // The mesh is not told of the claim before the first check, and no heartbeat follows.
    env.store.claim_peer(id, number).await.unwrap();
    let (stop, stopped) = watch::channel(false);
    let listening = tokio::spawn(Arc::clone(&mesh).listen(Arc::clone(&env.store), stopped));
    until_lost(&env, id).await;
    stop.send_replace(true);
    listening.await.unwrap();
}

/// Red by: a write with every heartbeat, or none when a node is lost.
// Requirement: M-13
#[tokio::test]
async fn only_the_loss_and_the_recovery_of_a_node_are_written() {
    let env = TestEnv::new().await;
    let it = node(&env, "web").await;
    let (id, mesh) = (it.peer.id, mesh(Duration::from_millis(30)));
    let number = appear(&env, &mesh).await;
    let (stop, stopped) = watch::channel(false);
    let listening = tokio::spawn(Arc::clone(&mesh).listen(Arc::clone(&env.store), stopped));
    mesh.load(&it, (Instant::now(), env.store.now().await.unwrap()));
    assert_eq!(mesh.record_heartbeat(id, 0, "usher-agent/1").claim, Some(number));
    env.store.claim_peer(id, number).await.unwrap();
    mesh.claimed(id, number);
    let lost = until_lost(&env, id).await;
    // The listener would record the next loss during the rest of this test.
    stop.send_replace(true);
    listening.await.unwrap();
    assert_eq!(mesh.liveness(&lost), Liveness::Lost);
    let elsewhere = PeerStatus { lost_since: None, claimed_by: None, ..lost.clone() };
    assert_eq!(mesh.liveness(&elsewhere), Liveness::Unknown, "no server is recorded to hear it");
    assert!(mesh.has_left(&lost) && !mesh.has_left(&elsewhere));
    assert_eq!(
        mesh.record_heartbeat(id, 0, "usher-agent/1").claim,
        Some(number),
        "its recovery is written"
    );
    assert!(env.store.claim_peer(id, number).await.unwrap());
    mesh.claimed(id, number);
    assert_eq!(mesh.record_heartbeat(id, 0, "usher-agent/1").claim, None, "once");
}

/// Red by: a drain that waits although all nodes acknowledged, or not for the last one.
// Requirement: M-14
#[tokio::test]
async fn a_drain_is_woken_by_the_last_acknowledgement() {
    let env = TestEnv::new().await;
    let (a, b) = (node(&env, "a").await, node(&env, "b").await);
    let mesh = mesh(Duration::from_secs(10));
    let now = env.store.now().await.unwrap();
    mesh.load(&a, (Instant::now(), now));
    mesh.load(&b, (Instant::now(), now));
    let leaver = env.declare("leaver").await;
    let both = BTreeSet::from([a.peer.id, b.peer.id]);
    assert!(mesh.await_all(leaver, 7, both.clone()));
    assert_eq!(mesh.record_heartbeat(a.peer.id, 7, "").woken, []);
    assert_eq!(
        mesh.record_heartbeat(b.peer.id, 6, "").woken,
        [],
        "an older snapshot does not count"
    );
    assert_eq!(mesh.record_heartbeat(b.peer.id, 8, "").woken, [leaver]);
    assert_eq!(mesh.record_heartbeat(b.peer.id, 9, "").woken, [], "once");
    assert!(!mesh.await_all(leaver, 7, both.clone()), "both have acknowledged it already");
    let project = a.peer.registration.project;
    assert_eq!(mesh.acknowledged_by(project, 7).len(), 2);
    assert_eq!(mesh.acknowledged_by(project, 8), [b.peer.id]);
    assert!(mesh.await_all(leaver, 10, both));
    assert_eq!(mesh.record_heartbeat(a.peer.id, 10, "").woken, []);
    let cordoned = b.peer.advance(DrainStep::Cordon, now);
    assert_eq!(mesh.stage_changed(&cordoned, now), [leaver], "a draining node is not waited for");
    assert!(!mesh.await_all(leaver, 11, BTreeSet::from([b.peer.id])), "nor is it from now on");
}

/// Red by: a stream that connects late and misses the drain, or an older row that cancels the
/// drain.
// Requirement: M-14
#[tokio::test]
async fn instructions_are_a_state_that_a_late_stream_still_receives() {
    let env = TestEnv::new().await;
    let it = node(&env, "web").await;
    let mesh = mesh(Duration::from_secs(10));
    let now = env.store.now().await.unwrap();
    let cordoned = it.peer.advance(DrainStep::Cordon, now);
    let ahead = PeerStatus { peer: cordoned.clone(), ..it.clone() };
    mesh.load(&ahead, (Instant::now(), now));
    let instructions = mesh.follow(it.peer.id).unwrap();
    assert!(instructions.borrow().leave_by.is_some());
    mesh.load(&it, (Instant::now(), now));
    assert!(instructions.borrow().leave_by.is_some(), "an older row does not take the drain back");
    mesh.publish(it.peer.registration.project, 5);
    assert_eq!(instructions.borrow().snapshot, 5);
    let out = cordoned.advance(DrainStep::RevokeKey, now);
    mesh.stage_changed(&out, now);
    assert!(instructions.borrow().out);
}
