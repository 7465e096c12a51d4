//! Measures the real binary: nodes in and out per second beside bare commits of the same store at
//! the same concurrency in the same run, what a walk writes and which processor time it takes, how
//! soon a change is noticed, and how much memory many resources take.
//!
//! `--quick` makes everything smaller; `--only sqlite` or `--only postgres` leaves one out;
//! `--resources N` says how many resources the memory is measured with, and with none it is not;
//! `--at N` leaves out every other number of walkers.
#![expect(clippy::unwrap_used, reason = "a measurement that fails has nothing to say")]

#[expect(dead_code, clippy::panic, reason = "shared with the tests")]
#[path = "../../tests/walk/caller.rs"]
mod caller;
mod commits;
mod cpu;
#[expect(dead_code, reason = "shared with the tests")]
#[path = "../../tests/walk/crowd.rs"]
mod crowd;
#[expect(dead_code, clippy::panic, reason = "shared with the tests of the store")]
#[path = "../../../store/tests/store/declare.rs"]
mod declare;
mod follow;
mod ground;
#[expect(dead_code, clippy::panic, reason = "shared with the tests")]
#[path = "../../tests/walk/house.rs"]
mod house;
mod memory;
#[path = "../../../store/benches/store/pace.rs"]
mod pace;
#[path = "../../tests/walk/port.rs"]
mod port;
#[expect(dead_code, reason = "shared with the tests")]
#[path = "../../tests/walk/premises.rs"]
mod premises;
#[path = "../../../store/benches/store/report.rs"]
mod report;
#[path = "../../tests/walk/running.rs"]
mod running;
#[path = "../../tests/walk/together.rs"]
mod together;
mod walks;

use std::time::Duration;

use ground::Ground;
use report::say;

/// How large everything is.
#[derive(Clone, Copy)]
struct Sizes {
    /// How long one round lasts.
    round: Duration,
    /// How many rounds of each there are; the middle one counts.
    rounds: usize,
    /// How many nodes are timed one by one.
    timed: usize,
    /// How many resources the memory is measured with.
    resources: u64,
    /// How many walk at a time, if that is one number.
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
            measure(&Ground::sqlite(), sizes).await;
        }
        if only.is_none_or(|it| it == "postgres") {
            match Ground::postgres() {
                Some(ground) => measure(&ground, sizes).await,
                None => say("\nPostgreSQL: SKIPPED, there is none"),
            }
        }
    });
}

async fn measure(ground: &Ground, sizes: Sizes) {
    say(format_args!("\n# {}", ground.name()));
    walks::measure(ground, sizes).await;
    if sizes.resources > 0 {
        memory::measure(ground, sizes).await;
    }
}
