//! Prints measurements.

use std::fmt::Display;
use std::io::Write as _;
use std::time::Duration;

/// Prints one line.
pub(crate) fn say(line: impl Display) {
    // A reader that went away needs no report.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// The middle one.
pub(crate) fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Half and 99 of 100 of these spans are no longer, in microseconds.
pub(crate) fn quantiles(mut spans: Vec<Duration>) -> (f64, f64) {
    spans.sort();
    let at = |share: usize| spans.get(spans.len() * share / 100).copied().unwrap_or_default();
    (at(50).as_secs_f64() * 1e6, at(99).as_secs_f64() * 1e6)
}
