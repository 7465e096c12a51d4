//! Measures the store beside bare transactions on the same database in the same run.
//!
//! `--quick` makes everything smaller; `--only sqlite` or `--only postgres` runs one database.
#![expect(clippy::unwrap_used, reason = "a measurement that fails has no result")]

mod bare;
mod bench_env;
mod count;
#[expect(dead_code, clippy::unwrap_used, clippy::panic, reason = "shared with the tests")]
#[path = "../../tests/store/declare.rs"]
mod declare;
mod depth;
mod pace;
mod report;
mod speed;

use bench_env::BenchEnv;
use report::say;

/// How large everything is.
#[derive(Clone, Copy)]
struct Sizes {
    /// How long one round lasts, in milliseconds.
    round_ms: u64,
    /// How many rounds of each there are; the middle one counts.
    rounds: usize,
    /// How many rows are in the queue.
    queue: [u64; 3],
    /// How many rows are in the log.
    log: [u64; 3],
}

const FULL: Sizes = Sizes {
    round_ms: 1_500,
    rounds: 5,
    queue: [1_000, 100_000, 1_000_000],
    log: [10_000, 1_000_000, 10_000_000],
};
const QUICK: Sizes = Sizes {
    round_ms: 400,
    rounds: 3,
    queue: [1_000, 10_000, 100_000],
    log: [1_000, 10_000, 100_000],
};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let sizes = if words.iter().any(|it| it == "--quick") { QUICK } else { FULL };
    let only = words.iter().skip_while(|it| *it != "--only").nth(1).map(String::as_str);
    count::install();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        for (name, bench_env) in
            [("sqlite", BenchEnv::sqlite().await), ("postgres", BenchEnv::postgres().await)]
        {
            match bench_env {
                Some(_) if only.is_some_and(|it| it != name) => {}
                Some(bench_env) => Box::pin(measure(&bench_env, sizes)).await,
                None => say(format_args!("\n{name}: SKIPPED, there is none")),
            }
        }
    });
}

async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    say(format_args!("\n# {}", bench_env.name()));
    Box::pin(speed::measure(bench_env, sizes)).await;
    depth::measure(bench_env, sizes).await;
}
