//! How fast rules and whole runs are, on this machine.

use std::fmt::Write as _;
use std::hint::black_box;
use std::time::{Duration, Instant};

use crate::rng::Rng;
use crate::{broker, direct, fleet, usage};

/// A measurement: its name, and what prints its table.
pub type Bench = (&'static str, fn() -> String);

/// Every measurement.
pub const BENCHES: [Bench; 2] = [("kernel", broker::bench::table), ("rules", rules)];

/// The rules of all contexts but the broker.
fn rules() -> String {
    [usage::bench::table(), direct::bench::table(), fleet::bench::table()].join("\n")
}

/// How many cells of a table are decided.
pub const CELLS: u64 = 20_000_000;

/// How long so many calls take, with arguments drawn before.
pub fn repeated<A: Copy, B>(
    count: u64,
    draw: impl Fn(&mut Rng) -> A,
    call: impl Fn(A) -> B,
) -> Duration {
    let mut rng = Rng::new(1);
    let arguments: Vec<A> = (0..4_096).map(|_| draw(&mut rng)).collect();
    let began = Instant::now();
    for argument in arguments.iter().cycle().take(usize::try_from(count).unwrap_or(0)) {
        black_box(call(*black_box(argument)));
    }
    began.elapsed()
}

/// The head of a table of rates.
pub fn header() -> String {
    format!("{:<44}{:>12}{:>14}{:>12}\n", "what", "count", "per second", "ns each")
}

/// One line of a table of rates.
pub fn line(text: &mut String, what: &str, count: u64, took: Duration) {
    let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).max(1);
    let each = nanos / count.max(1);
    let rate = u128::from(count) * 1_000_000_000 / u128::from(nanos);
    let _ = writeln!(text, "{what:<44}{count:>12}{rate:>14}{each:>12}");
}
