//! How fast the rules, the loop and whole lives are.

use std::fmt::Write as _;
use std::time::Instant;

use crate::coverage::Coverage;
use crate::life::live;

const LIVES: u64 = 2_000;

/// Measures and prints a table.
pub fn table() -> String {
    let began = Instant::now();
    let mut coverage = Coverage::default();
    for seed in 0..LIVES {
        coverage.add(&live(seed, None, false).coverage);
    }
    let took = began.elapsed();
    let per_second = |count: u64| count * 1_000_000 / u64::try_from(took.as_micros()).unwrap_or(1);
    let mut text = String::new();
    let _ = writeln!(text, "{:<24}{:>12}{:>14}", "what", "count", "per second");
    for (what, count) in [("lives", LIVES), ("steps", coverage.steps), ("verbs", coverage.verbs)] {
        let _ = writeln!(text, "{what:<24}{count:>12}{:>14}", per_second(count));
    }
    text
}
