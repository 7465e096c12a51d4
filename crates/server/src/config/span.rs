//! A duration written as a number and a unit.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Span(pub Duration);

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("invalid duration \"{text}\": expected a number and one of ms, s, m, h, d, such as 30s")]
pub struct BadSpan {
    pub text: String,
}

const UNITS: [(&str, u64); 5] =
    [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000), ("ms", 1)];

impl Span {
    pub const fn secs(secs: u64) -> Self {
        Self(Duration::from_secs(secs))
    }
}

impl FromStr for Span {
    type Err = BadSpan;

    fn from_str(text: &str) -> Result<Self, BadSpan> {
        let bad = || BadSpan { text: text.to_owned() };
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let (number, unit) = text.split_at(digits);
        let number: u64 = number.parse().map_err(|_| bad())?;
        let (_, millis) = UNITS.into_iter().find(|(it, _)| *it == unit).ok_or_else(bad)?;
        let millis = number.checked_mul(millis).ok_or_else(bad)?;
        Ok(Self(Duration::from_millis(millis)))
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let millis = u64::try_from(self.0.as_millis()).unwrap_or(u64::MAX);
        let whole = |(_, unit): &(&str, u64)| millis >= *unit && millis.is_multiple_of(*unit);
        let (unit, size) = UNITS.into_iter().find(whole).unwrap_or(("ms", 1));
        write!(f, "{}{unit}", millis / size)
    }
}

impl TryFrom<String> for Span {
    type Error = BadSpan;

    fn try_from(text: String) -> Result<Self, BadSpan> {
        text.parse()
    }
}

impl From<Span> for String {
    fn from(span: Span) -> Self {
        span.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_written_in_its_largest_whole_unit() {
        for (text, millis) in
            [("1500ms", 1_500), ("30s", 30_000), ("5m", 300_000), ("1h", 3_600_000), ("0ms", 0)]
        {
            let span: Span = text.parse().unwrap();
            assert_eq!((span.0, span.to_string()), (Duration::from_millis(millis), text.into()));
        }
        assert_eq!("60s".parse::<Span>().unwrap().to_string(), "1m");
        assert_eq!("30d".parse::<Span>().unwrap().to_string(), "30d");
    }

    #[test]
    fn an_invalid_duration_is_refused() {
        for text in ["", "5", "s", "-1s", "1 s", "1w", "1.5s", "99999999999999999999s"] {
            assert_eq!(text.parse::<Span>(), Err(BadSpan { text: text.to_owned() }), "{text}");
        }
    }
}
