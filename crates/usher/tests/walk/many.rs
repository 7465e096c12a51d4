//! Provisioning and teardown with three servers over one database, one of which is always dying.

use std::cell::{Cell, RefCell};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tokio::time::sleep;

use crate::caller::Caller;
use crate::sizes::{Dice, size};
use crate::test_cluster::TestCluster;
use crate::together::side_by_side;

/// Concurrent nodes.
const WALKERS: u64 = 20;
/// The lease of `test_server::SETTINGS`.
const LEASE: Duration = Duration::from_secs(1);
/// Interval of the kills.
const KILL_EVERY_MS: u64 = 3_000;

/// Resources with more than one redeemable token.
const LIVE_TWICE: &str = "SELECT count(*) FROM (SELECT resource FROM tokens
    WHERE consumed_at IS NULL AND revoked_at IS NULL GROUP BY resource HAVING count(*) > 1) it";
/// Resources with more than one registered node.
const HERE_TWICE: &str = "SELECT count(*) FROM (SELECT resource FROM peers
    WHERE stage <> 'deregistered' GROUP BY resource HAVING count(*) > 1) it";

/// Provisions and tears down this many nodes; their ids.
pub(crate) async fn walk_all(caller: &Caller, count: u64) -> Vec<String> {
    let (begun, walked) = (Cell::new(0), RefCell::new(Vec::new()));
    let walkers = (0..WALKERS.min(count)).map(|_| async {
        while begun.get() < count {
            let number = begun.get();
            begun.set(number + 1);
            let id = caller.walk(&format!("node-{number}")).await;
            walked.borrow_mut().push(id);
        }
    });
    side_by_side(walkers).await;
    walked.into_inner()
}

/// Injects one fault.
async fn strike(cluster: &mut TestCluster, number: u64, dice: &mut Dice) {
    let count = cluster.servers.len() as u64;
    let chosen = usize::try_from(dice.below(count)).unwrap();
    match number {
        // It is paused for three leases, and resumes unaware of it.
        it if it % 10 == 1 => {
            cluster.servers[chosen].signal(Signal::STOP);
            sleep(LEASE * 3).await;
            cluster.servers[chosen].signal(Signal::CONT);
        }
        3 => {
            cluster.database.stop();
            sleep(Duration::from_millis(500)).await;
            cluster.database.resume();
        }
        _ => {
            cluster.servers[chosen].kill();
            cluster.servers[chosen].start(None);
        }
    }
}

/// Red by: a lease with two holders, a token that is issued twice, or a drain that only one server
/// can end.
// Requirement: D-18
#[tokio::test]
async fn three_servers_under_random_kills_lose_nothing() {
    let begun = Instant::now();
    let count = size("USHER_SOAK_RESOURCES", 10);
    let kill_every = size("USHER_SOAK_KILL_EVERY_MS", KILL_EVERY_MS);
    let Some(mut cluster) = TestCluster::open(3, &[]).await else { return };
    let caller = cluster.caller().clone();
    let mut dice = Dice::new();
    let mut strikes = 0;
    let walked = {
        let mut work = Box::pin(walk_all(&caller, count));
        loop {
            let pause = Duration::from_millis(kill_every / 2 + dice.below(kill_every));
            tokio::select! {
                walked = &mut work => break walked,
                () = sleep(pause) => {}
            }
            tokio::select! {
                walked = &mut work => break walked,
                () = strike(&mut cluster, strikes, &mut dice) => strikes += 1,
            }
            assert_eq!(cluster.number(LIVE_TWICE).await, 0, "no resource has two live tokens");
            assert_eq!(cluster.number(HERE_TWICE).await, 0, "no resource has two nodes");
        }
    };
    for server in &mut cluster.servers {
        server.signal(Signal::CONT);
        server.until_ready().await;
    }
    cluster.servers[0].until_nothing_is_left().await;
    caller.expect_all_events(&walked).await;
    let (walks, took) = (walked.len(), begun.elapsed());
    let counts = &cluster.agents.counts;
    let enrolled = counts.enrolled.load(Ordering::Relaxed);
    let left = counts.left.load(Ordering::Relaxed);
    println!("{walks} walks, {strikes} faults, {enrolled} enrolled, {left} left, {took:.1?}");
}
