//! Prices, penalties and probabilities: numbers that are never NaN and never negative.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::object::offender::shortened;

macro_rules! config {
    ($($(#[$doc:meta])* $name:ident: $refusal:ident, $accepts:expr;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(f64);

        impl $name {
            /// The amount, if the text is one.
            pub fn new(figure: f64) -> Result<Self, Refusal> {
                let accepts: fn(f64) -> bool = $accepts;
                if accepts(figure) {
                    // Adding nothing takes the sign off a negative zero.
                    return Ok(Self(figure + 0.0));
                }
                Err(Refusal::$refusal(figure.to_string()))
            }

            /// The number.
            pub const fn get(self) -> f64 {
                self.0
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.cmp(other) == Ordering::Equal
            }
        }

        impl Eq for $name {}

        impl PartialOrd for $name {
            fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
                Some(self.cmp(other))
            }
        }

        impl Ord for $name {
            fn cmp(&self, other: &Self) -> Ordering {
                self.0.total_cmp(&other.0)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                if self.0.is_infinite() { f.write_str("+Inf") } else { self.0.fmt(f) }
            }
        }

        impl FromStr for $name {
            type Err = Refusal;

            fn from_str(text: &str) -> Result<Self, Refusal> {
                let bad = || Refusal::$refusal(shortened(text));
                Self::new(text.parse().map_err(|_| bad())?).map_err(|_| bad())
            }
        }

        impl TryFrom<String> for $name {
            type Error = Refusal;

            fn try_from(text: String) -> Result<Self, Refusal> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(it: $name) -> Self {
                it.to_string()
            }
        }
    )+};
}

config! {
    /// Dollars per hour.
    Price: Price, |it| it >= 0.0 && it.is_finite();
    /// Dollars that an interruption or a reclamation costs; more than any sum for what is pinned.
    Penalty: Penalty, |it| it >= 0.0;
    /// The chance per hour that the host is preempted.
    Probability: Probability, |it| (0.0..=1.0).contains(&it);
}

/// The last bucket: what is pinned costs more than any sum.
const BUCKET_PINNED: i32 = 27;

impl Penalty {
    /// The upper bound of a penalty bucket: 0 and 1 are nothing, 2 is half a dollar, then doubling.
    pub fn of_bucket(bucket: i32) -> Result<Self, Refusal> {
        match bucket {
            0 | 1 => Ok(Self(0.0)),
            2..BUCKET_PINNED => Ok(Self(0.5 * 2_f64.powi(bucket - 2))),
            BUCKET_PINNED => Ok(Self(f64::INFINITY)),
            _ => Err(Refusal::Penalty(bucket.to_string())),
        }
    }
}

/// What an hour on such a machine costs a need with this penalty.
pub fn effective_cost(price: Price, chance: Probability, penalty: Penalty) -> f64 {
    if chance.0 == 0.0 { price.0 } else { chance.0.mul_add(penalty.0, price.0) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // Requirement: F-38
    #[test]
    fn hostile_amounts_are_refused() {
        for figure in [f64::NAN, -0.01, f64::NEG_INFINITY] {
            assert!(Price::new(figure).is_err(), "{figure}");
            assert!(Penalty::new(figure).is_err(), "{figure}");
            assert!(Probability::new(figure).is_err(), "{figure}");
        }
        assert!(Price::new(f64::INFINITY).is_err());
        assert!(Probability::new(1.000_001).is_err());
        assert_eq!(Price::new(-0.0).map(|it| it.to_string()), Ok("0".to_owned()));
        assert!("NaN".parse::<Penalty>().is_err());
        assert!("ten".parse::<Price>().is_err());
    }

    #[test]
    fn the_buckets_double_up_to_the_pinned_one() {
        let dollars = |bucket| Penalty::of_bucket(bucket).map(|it| it.to_string());
        let words = [0, 1, 2, 3, 26, 27].map(|it| dollars(it).unwrap());
        assert_eq!(words, ["0", "0", "0.5", "1", "8388608", "+Inf"]);
        for bucket in [-1, 28, i32::MAX, i32::MIN] {
            assert!(dollars(bucket).is_err(), "{bucket}");
        }
    }

    // Requirement: F-28
    #[test]
    fn only_a_machine_that_may_be_taken_costs_its_penalty() {
        let of = |price, chance, penalty| {
            let (price, chance) = (Price::new(price).unwrap(), Probability::new(chance).unwrap());
            effective_cost(price, chance, Penalty::new(penalty).unwrap())
        };
        assert!((of(1.0, 0.1, 5.0) - 1.5).abs() < 1e-12);
        assert!((of(1.0, 0.0, f64::INFINITY) - 1.0).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn a_penalty_is_read_back_exactly(figure in 0.0..1e300_f64) {
            let penalty = Penalty::new(figure).unwrap();
            prop_assert_eq!(penalty.to_string().parse(), Ok(penalty));
        }

        // Requirement: F-38
        #[test]
        fn any_text_is_money_or_a_refusal(text in ".*") {
            let _ = text.parse::<Price>();
            let _ = text.parse::<Probability>();
        }
    }
}
