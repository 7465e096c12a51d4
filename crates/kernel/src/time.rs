//! Time as a value: microseconds since the Unix epoch, always handed in.

use std::time::Duration;

use serde::{Deserialize, Serialize};

const DAY: i64 = 86_400;

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

    /// This time and `span` less, stopping at the beginning of time.
    #[must_use]
    pub fn before(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }

    /// The time as RFC 3339 writes it, in UTC and to the microsecond.
    pub fn to_rfc3339(self) -> String {
        let seconds = self.0.div_euclid(1_000_000);
        let micros = self.0.rem_euclid(1_000_000);
        let (year, month, day) = civil(seconds.div_euclid(DAY));
        let second = seconds.rem_euclid(DAY);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
    }

    /// The time that RFC 3339 writes so, in UTC; nothing if it is none, or finer than we keep.
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let text = text.strip_suffix(['Z', 'z'])?;
        let (date, clock) = text.split_once(['T', 't'])?;
        let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
        let [year, month, day] = numbers(date, '-', [4, 2, 2])?;
        let [hour, minute, second] = numbers(clock, ':', [2, 2, 2])?;
        let (1..=6, true) = (fraction.len(), is_digits(fraction)) else { return None };
        let days = days(year, month, day);
        let is_day = civil(days) == (year, month, day);
        if !is_day || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        let micros: i64 = format!("{fraction:0<6}").parse().ok()?;
        let seconds = days * DAY + hour * 3_600 + minute * 60 + second;
        Some(Self(seconds * 1_000_000 + micros))
    }

    /// How long ago `earlier` was; nothing if it lies ahead.
    pub fn since(self, earlier: Self) -> Duration {
        let micros = self.0.saturating_sub(earlier.0);
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

/// Year, month and day of a day that is counted from the Unix epoch. The year begins in March here,
/// so that the leap day is its last.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// How many days after the Unix epoch a day is; the other way round.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let shifted = (month + 9) % 12;
    let of_year = (153 * shifted + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

fn is_digits(text: &str) -> bool {
    text.bytes().all(|it| it.is_ascii_digit())
}

fn numbers(text: &str, between: char, widths: [usize; 3]) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut numbers = [0; 3];
    for (number, width) in numbers.iter_mut().zip(widths) {
        let part = parts.next().filter(|it| it.len() == width && is_digits(it))?;
        *number = part.parse().ok()?;
    }
    parts.next().is_none().then_some(numbers)
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

    // Requirement: K-17
    #[test]
    fn a_clock_that_jumped_back_measures_nothing() {
        assert_eq!(Timestamp::ZERO.since(Timestamp::from_millis(1)), Duration::ZERO);
    }

    // Requirement: K-17
    #[test]
    fn time_has_an_end_and_no_overflow() {
        let end = Timestamp::from_micros(i64::MAX);
        assert_eq!(end.after(Duration::MAX), end);
        assert_eq!(Timestamp::from_millis(i64::MAX), end);
        assert_eq!(end.as_micros(), i64::MAX);
    }

    // Requirement: Y-1
    #[test]
    fn times_are_written_and_read_as_rfc_3339_says() {
        let cases = [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_399_000_001, "2000-02-28T23:59:59.000001Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (1_785_542_399_999_999, "2026-07-31T23:59:59.999999Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
        ];
        for (micros, text) in cases {
            let at = Timestamp::from_micros(micros);
            assert_eq!(at.to_rfc3339(), text);
            assert_eq!(Timestamp::from_rfc3339(text), Some(at), "{text}");
        }
        let half = Timestamp::from_millis(500);
        assert_eq!(Timestamp::from_rfc3339("1970-01-01t00:00:00.5z"), Some(half));
        assert_eq!(Timestamp::from_rfc3339("1970-01-01T00:00:00Z"), Some(Timestamp::ZERO));
    }

    #[test]
    fn what_is_no_time_is_not_read_as_one() {
        for text in [
            "",
            "Z",
            "1970-01-01",
            "1970-01-01T00:00:00",
            "1970-01-01T00:00:00+00:00",
            "1970-02-29T00:00:00Z",
            "1970-13-01T00:00:00Z",
            "1970-00-01T00:00:00Z",
            "1970-01-00T00:00:00Z",
            "1970-01-01T24:00:00Z",
            "1970-01-01T00:60:00Z",
            "1970-01-01T00:00:60Z",
            "1970-01-01T00:00:00.Z",
            "1970-01-01T00:00:00.0000001Z",
            "1970-01-01T00:00:00.-1Z",
            "1970-1-1T00:00:00Z",
            "+970-01-01T00:00:00Z",
            "1970-01-01-01T00:00:00Z",
        ] {
            assert_eq!(Timestamp::from_rfc3339(text), None, "{text}");
        }
    }
}
