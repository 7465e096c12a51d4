//! Provisioning and teardown while the server is killed, at every failpoint and at any moment.

use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;
use usher_failpoint::Failpoint;

use crate::caller::{Caller, SOON};
use crate::sizes::{Dice, size};
use crate::test_env::signal_agents;
use crate::test_server::{TIMEOUT, TestServer};
use crate::together::side_by_side;

/// Concurrent nodes while servers are killed at random.
const WALKERS: u64 = 5;
/// Concurrent servers that die at failpoints.
const HOUSES: usize = 4;
/// The longest uptime of a server that is killed at random, at first.
const UPTIME_MS: u64 = 1_500;
/// A node that hangs is killed soon.
const SETTINGS: [&str; 2] = ["local.agent_grace=300ms", "local.forget_tokens=100ms"];

/// Provisions and tears down a node whose agent hangs in between, so that a signal must end it.
async fn walk_hung(caller: &Caller, name: &str) -> String {
    let id = caller.provision(name).await;
    caller.until_phase(&id, "Ready").await;
    signal_agents(&caller.data, &id, Signal::STOP);
    caller.deprovision(&id).await;
    caller.until_phase(&id, "Deleted").await;
    id
}

/// Provisions and tears down this many nodes concurrently, on the path of a failpoint.
async fn walk_past(caller: &Caller, point: &str, count: u64) -> Vec<String> {
    let by_signal = point.ends_with("signal");
    let walks = (0..count).map(|number| async move {
        let name = format!("at-{point}-{count}-{number}");
        if by_signal { walk_hung(caller, &name).await } else { caller.walk(&name).await }
    });
    side_by_side(walks).await
}

/// Nothing is left of these nodes, in the control plane or the world, now and after a restart.
async fn is_clean(server: &mut TestServer, walked: &[String]) {
    server.until_nothing_is_left().await;
    server.caller().expect_all_events(walked).await;
    server.stop().await;
    server.start(None);
    server.until_ready().await;
    server.until_nothing_is_left().await;
    assert_eq!(server.unnamed(), Vec::<std::path::PathBuf>::new(), "unnamed files are erased");
}

/// A server that dies at each of these failpoints, at each of its first passings; how many nodes
/// were provisioned and torn down.
async fn die_at(points: impl Iterator<Item = &'static str> + Clone, passings: u64) -> usize {
    let mut server = TestServer::new(&SETTINGS);
    let mut walked = Vec::new();
    for passing in 1..=passings {
        for point in points.clone() {
            let deaths = server.deaths();
            let nth = if is_rare(point) { 1 } else { passing };
            server.start(Some(&format!("{point}:{nth}")));
            server.until_ready().await;
            let caller = server.caller().clone();
            walked.extend(server.alive_while(walk_past(&caller, point, passing)).await);
            // A periodic failpoint may be passed after the teardown.
            let waited = Instant::now();
            while server.deaths() == deaths {
                let never = "never passed";
                assert!(waited.elapsed() < TIMEOUT, "{never} {point} for the {passing}. time");
                sleep(SOON).await;
            }
            if server.has_died() {
                server.start(None);
                server.until_ready().await;
            }
            server.until_nothing_is_left().await;
            server.kill();
        }
    }
    server.start(None);
    server.until_ready().await;
    is_clean(&mut server, &walked).await;
    walked.len()
}

/// Whether a failpoint is passed rarely, however many nodes there are: each death there is at the
/// first passing of another server.
fn is_rare(point: &str) -> bool {
    point.contains("snapshot")
}

/// Every failpoint of a server and of its embedded provider that a walk passes; those of the
/// server key are passed in `keys`.
fn points() -> impl Iterator<Item = &'static str> + Clone {
    Failpoint::ALL.iter().map(|it| it.as_str()).filter(|it| !it.starts_with("key-"))
}

/// Red by: an effect that cannot be repeated, or a name that is used before it is recorded.
// Requirement: D-6
#[tokio::test]
async fn a_server_that_dies_at_a_failpoint_leaves_nothing_behind() {
    let begun = Instant::now();
    let passings = size("USHER_SOAK_PASSINGS", 1);
    let servers = (0..HOUSES).map(|first| die_at(points().skip(first).step_by(HOUSES), passings));
    let walks: usize = side_by_side(servers).await.iter().sum();
    let (kills, took) = (points().count() as u64 * passings, begun.elapsed());
    println!("{walks} walks, {kills} deaths at failpoints, nothing left, {took:.1?}");
}

/// Red by: a start that waits for the leases of a dead process.
// Requirement: W-6
#[tokio::test]
async fn a_server_killed_in_a_step_does_not_wait_for_its_own_leases() {
    let mut server = TestServer::new(&["worker.lease=1h", "broker.reconcile_interval=1h"]);
    server.start(Some("after-effect"));
    server.until_ready().await;
    let id = server.provision("node-1").await;
    server.until_phase(&id, "Ready").await;
    assert_eq!(server.deaths(), 1);
}

/// Red by: a lease that is never taken over, or a queue that loses a wake-up.
// Requirement: W-9, D-6
#[tokio::test]
async fn a_server_that_is_killed_at_any_moment_resumes() {
    let begun = Instant::now();
    let (walks, kills) = (size("USHER_SOAK_WALKS", 5), size("USHER_SOAK_KILLS", 6));
    let mut server = TestServer::up(&SETTINGS).await;
    let caller = server.caller().clone();
    let (walked, killed) = (RefCell::new(Vec::new()), Cell::new(0));
    let is_over = || walked.borrow().len() as u64 >= walks && killed.get() >= kills;
    let walkers = (0..WALKERS).map(|walker| {
        let (caller, walked, is_over) = (&caller, &walked, &is_over);
        async move {
            let mut number = 0;
            while !is_over() {
                let id = caller.walk(&format!("node-{walker}-{number}")).await;
                walked.borrow_mut().push(id);
                number += 1;
            }
        }
    });
    let mut dice = Dice::new();
    {
        let mut work = Box::pin(side_by_side(walkers));
        loop {
            // A machine on which servers start slowly gets more time with every round of kills.
            let longest = UPTIME_MS * (1 + killed.get() / kills);
            let uptime = Duration::from_millis(20 + dice.below(longest));
            tokio::select! {
                _ = &mut work => break,
                () = sleep(uptime) => if !is_over() {
                    server.kill();
                    killed.set(killed.get() + 1);
                    server.start(None);
                }
            }
        }
    }
    server.until_ready().await;
    let walked = walked.into_inner();
    is_clean(&mut server, &walked).await;
    let (walks, kills, took) = (walked.len(), killed.get(), begun.elapsed());
    println!("{walks} walks, {kills} kills at random, nothing left, {took:.1?}");
}
