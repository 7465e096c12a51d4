//! How fast rules and whole runs are, on this machine.

use std::fmt::Write as _;
use std::time::Duration;

use crate::{broker, direct, fleet, usage};

/// A measurement: its name, and what prints its table.
pub type Bench = (&'static str, fn() -> String);

/// Every measurement.
pub const BENCHES: [Bench; 2] = [("kernel", broker::bench::table), ("rules", rules)];

/// The rules of all contexts but the broker.
fn rules() -> String {
    [usage::bench::table(), direct::bench::table(), fleet::bench::table()].join("\n")
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
