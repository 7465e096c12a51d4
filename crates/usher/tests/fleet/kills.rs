//! Lifecycles of machines while shard and provider, both of the real binary, are killed.

use std::time::{Duration, Instant};

use tokio::time::sleep;

use crate::pair::{Fake, Pair};
use crate::sizes::{Dice, size};

const MACHINES: usize = 6;
const FAKE: Fake = Fake { machines: MACHINES, dwell: "5ms:60ms" };
/// The longest uptime of a process that is killed at random.
const LIFE_MS: u64 = 1_500;
/// The failpoints of a shard.
const POINTS: [&str; 4] = ["before-effect", "after-effect", "before-commit", "after-commit"];

/// Red by: a command that is sent before it is recorded, or whose outcome is not observed again.
// Requirement: F-72
#[tokio::test]
async fn a_shard_that_dies_at_a_failpoint_resumes() {
    let mut pair = Pair::new(FAKE);
    let mut lifecycles = 0;
    for passing in 1..=size("USHER_SOAK_PASSINGS", 2) {
        for point in POINTS {
            let deaths = pair.deaths;
            pair.start_server(Some(&format!("{point}:{passing}")));
            pair.until("Speculative", MACHINES).await;
            pair.need("a", MACHINES, 0).await;
            pair.until("Configured", MACHINES).await;
            pair.need("a", 0, 0).await;
            pair.until("Speculative", MACHINES).await;
            lifecycles += MACHINES as u64;
            pair.is_clean();
            assert!(pair.deaths > deaths, "{point} was not passed {passing} times");
            let mut server = pair.server.take().unwrap();
            let _ = server.kill();
            server.wait().unwrap();
        }
    }
    println!("{lifecycles} machine lifecycles, {} deaths at failpoints", pair.deaths);
}

/// Red by: an operation that is abandoned because a process died, or done twice.
// Requirement: F-72
#[tokio::test]
async fn a_shard_and_a_provider_killed_at_any_moment_leave_nothing_behind() {
    let begun = Instant::now();
    let wanted = size("USHER_SOAK_LIFECYCLES", 12);
    let mut pair = Pair::new(FAKE);
    pair.start_server(None);
    pair.until("Speculative", MACHINES).await;
    let (mut dice, mut kills, mut lifecycles) = (Dice::new(), 0, 0);
    while lifecycles < wanted {
        for (machines, phase) in [(MACHINES, "Configured"), (0, "Speculative")] {
            pair.need("a", machines, 0).await;
            for _ in 0..2 {
                sleep(Duration::from_millis(20 + dice.below(LIFE_MS))).await;
                let victim = if dice.below(2) == 0 { &mut pair.server } else { &mut pair.provider };
                if let Some(mut victim) = victim.take() {
                    victim.kill().unwrap();
                    victim.wait().unwrap();
                    kills += 1;
                }
                if pair.server.is_none() {
                    pair.start_server(None);
                }
                if pair.provider.is_none() {
                    pair.start_provider();
                }
            }
            pair.until(phase, MACHINES).await;
        }
        lifecycles += MACHINES as u64;
        pair.is_clean();
    }
    let took = begun.elapsed();
    println!("{lifecycles} machine lifecycles, {kills} kills, nothing left, {took:.1?}");
}
