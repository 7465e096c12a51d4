//! Time as a value: microseconds since the Unix epoch, always handed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// A point in time, in microseconds since the Unix epoch: the finest grain every store keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The epoch itself; the aggregate treats it as "no time".
    pub const ZERO: Self = Self(0);

    /// A timestamp from microseconds since the epoch.
    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// A timestamp from milliseconds since the epoch.
    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1_000))
    }

    /// Microseconds since the epoch.
    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// This time and `span` more, stopping at the end of time.
    #[must_use]
    pub fn after(self, span: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_later_and_back_is_the_same_span() {
        let start = Timestamp::from_millis(5);
        let later = start.after(Duration::from_millis(7));
        assert_eq!(later, Timestamp::from_micros(12_000));
        assert_eq!(later.since(start), Duration::from_millis(7));
    }

    #[test]
    fn a_clock_that_jumped_back_measures_nothing() {
        assert_eq!(Timestamp::ZERO.since(Timestamp::from_millis(1)), Duration::ZERO);
    }

    #[test]
    fn time_has_an_end_and_no_overflow() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Timestamp::from_millis(i64::MAX), end);
        assert_eq!(end.as_micros(), i64::MAX);
    }
}
