//! Measures the real binary: nodes provisioned and torn down per second next to bare commits of the
//! same store at the same concurrency, writes and processor time per node, latency of a change, and
//! memory with many resources.
//!
//! `--quick` runs smaller sizes; `--only sqlite` or `--only postgres` runs one database;
//! `--resources N` sets the number of resources for the memory measurement, 0 skips it;
//! `--at N` runs one number of walkers only.
#![expect(clippy::unwrap_used, reason = "a measurement that fails has no result")]

mod bench_env;
#[expect(dead_code, clippy::panic, reason = "shared with the tests")]
#[path = "../../tests/walk/caller.rs"]
mod caller;
mod commits;
mod cpu;
#[expect(dead_code, clippy::panic, reason = "shared with the tests of the store")]
#[path = "../../../store/tests/store/declare.rs"]
mod declare;
#[expect(dead_code, reason = "shared with the tests")]
#[path = "../../tests/walk/fake_agents.rs"]
mod fake_agents;
mod follow;
mod memory;
#[path = "../../../store/benches/store/pace.rs"]
mod pace;
#[path = "../../tests/walk/port.rs"]
mod port;
#[path = "../../../store/benches/store/report.rs"]
mod report;
#[path = "../../tests/walk/running.rs"]
mod running;
#[expect(dead_code, reason = "shared with the tests")]
#[path = "../../tests/walk/test_env.rs"]
mod test_env;
#[expect(dead_code, clippy::panic, reason = "shared with the tests")]
#[path = "../../tests/walk/test_server.rs"]
mod test_server;
#[path = "../../tests/walk/together.rs"]
mod together;
mod walks;

use std::time::Duration;

use bench_env::BenchEnv;
use report::say;

#[derive(Clone, Copy)]
struct Sizes {
    /// Duration of one round.
    round: Duration,
    /// Number of rounds; the median counts.
    rounds: usize,
    /// Nodes that are timed one by one.
    timed: usize,
    /// Resources of the memory measurement.
    resources: u64,
    /// Concurrent walkers, if only one number is run.
    at: Option<usize>,
}

const FULL: Sizes =
    Sizes { round: Duration::from_secs(10), rounds: 3, timed: 300, resources: 100_000, at: None };
const QUICK: Sizes =
    Sizes { round: Duration::from_secs(4), rounds: 1, timed: 100, resources: 1_000, at: None };

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |word: &str| words.iter().skip_while(|it| *it != word).nth(1);
    let mut sizes = if words.iter().any(|it| it == "--quick") { QUICK } else { FULL };
    if let Some(count) = after("--resources") {
        sizes.resources = count.parse().unwrap();
    }
    sizes.at = after("--at").map(|it| it.parse().unwrap());
    let only = after("--only").map(String::as_str);
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        if only.is_none_or(|it| it == "sqlite") {
            measure(&BenchEnv::sqlite(), sizes).await;
        }
        if only.is_none_or(|it| it == "postgres") {
            match BenchEnv::postgres() {
                Some(bench_env) => measure(&bench_env, sizes).await,
                None => say("\nPostgreSQL: SKIPPED, there is none"),
            }
        }
    });
}

async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    say(format_args!("\n# {}", bench_env.name()));
    walks::measure(bench_env, sizes).await;
    if sizes.resources > 0 {
        memory::measure(bench_env, sizes).await;
    }
}
