//! Amounts of resources, as Kubernetes writes them, parsed once and exact to a thousandth.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::refusal::Refusal;
use crate::object::offender::shortened;

/// The longest text of a quantity, in bytes.
const LENGTH_MAX: usize = 40;
/// What no amount exceeds, in thousandths: a thousand times what the largest suffix can say once.
const THOUSANDTHS_MAX: u128 = 1 << 80;
/// The most resources one machine or need may name.
pub const RESOURCES_MAX: usize = 32;

/// An amount, in thousandths. Never negative.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Quantity(u128);

impl Quantity {
    /// Nothing.
    pub const ZERO: Self = Self(0);

    /// So many whole units.
    pub const fn units(units: u64) -> Self {
        Self(units as u128 * 1_000)
    }

    /// Whether this is nothing.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// What is left when `taken` is taken away; never less than nothing.
    #[must_use]
    pub const fn less(self, taken: Self) -> Self {
        Self(self.0.saturating_sub(taken.0))
    }

    /// So many times this much.
    #[must_use]
    pub fn times(self, count: u64) -> Self {
        Self(self.0.saturating_mul(u128::from(count)))
    }

    /// How many pieces of this size are needed to cover `whole`; none can if this is nothing.
    pub fn pieces(self, whole: Self) -> Option<u64> {
        let pieces = whole.0.checked_add(self.0.checked_sub(1)?)?.checked_div(self.0)?;
        Some(u64::try_from(pieces).unwrap_or(u64::MAX))
    }
}

impl FromStr for Quantity {
    type Err = Refusal;

    /// Reads digits with at most one point and a suffix: none, `m`, `k M G T P E`, `Ki Mi Gi Ti Pi
    /// Ei`, or a decimal exponent.
    fn from_str(text: &str) -> Result<Self, Refusal> {
        let bad = || Refusal::Quantity(shortened(text));
        if text.len() > LENGTH_MAX {
            return Err(bad());
        }
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, suffix) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(bad());
        }
        let (factor, divisor) = scale(suffix).ok_or_else(bad)?;
        let mut sum = 0_u128;
        for digit in whole.bytes().chain(fraction.bytes()) {
            let more = sum.checked_mul(10).and_then(|it| it.checked_add(u128::from(digit - b'0')));
            sum = more.ok_or_else(bad)?;
        }
        let places = u32::try_from(fraction.len()).map_err(|_| bad())?;
        let divisor = 10_u128.checked_pow(places).and_then(|it| it.checked_mul(divisor));
        let scaled = sum.checked_mul(factor).zip(divisor).ok_or_else(bad)?;
        let rounded = scaled.0.div_ceil(scaled.1);
        if rounded > THOUSANDTHS_MAX { Err(bad()) } else { Ok(Self(rounded)) }
    }
}

/// The factor and the divisor that turn units with this suffix into thousandths.
fn scale(suffix: &str) -> Option<(u128, u128)> {
    let decimal = |power: u32| Some((10_u128.pow(power + 3), 1));
    let binary = |power: u32| Some((1_000 << (10 * power), 1));
    match suffix {
        "m" => Some((1, 1)),
        "" => decimal(0),
        "k" => decimal(3),
        "M" => decimal(6),
        "G" => decimal(9),
        "T" => decimal(12),
        "P" => decimal(15),
        "E" => decimal(18),
        "Ki" => binary(1),
        "Mi" => binary(2),
        "Gi" => binary(3),
        "Ti" => binary(4),
        "Pi" => binary(5),
        "Ei" => binary(6),
        _ => exponent(suffix),
    }
}

/// The scale of `e3`, `E+3` or `e-3`.
fn exponent(suffix: &str) -> Option<(u128, u128)> {
    let power = suffix.strip_prefix(['e', 'E'])?;
    let digits = power.strip_prefix(['+', '-']).unwrap_or(power);
    if digits.is_empty() || digits.len() > 2 || !digits.bytes().all(|it| it.is_ascii_digit()) {
        return None;
    }
    let power: i32 = power.parse().ok()?;
    let scale = 10_u128.checked_pow(power.unsigned_abs())?;
    if power < 0 { Some((1_000, scale)) } else { Some((scale.checked_mul(1_000)?, 1)) }
}

/// Amounts by the name of the resource. What is not named is none.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Resources(BTreeMap<String, Quantity>);

impl Resources {
    /// Reads amounts; the first one that is none is refused.
    pub fn parse(texts: &BTreeMap<String, String>) -> Result<Self, Refusal> {
        if texts.len() > RESOURCES_MAX {
            return Err(Refusal::MachineField("resources"));
        }
        let mut amounts = BTreeMap::new();
        for (name, text) in texts {
            let named = !name.is_empty() && name.len() <= super::ident::LENGTH_MAX;
            if !named || name.chars().any(char::is_control) {
                return Err(Refusal::Name { what: "resource", text: shortened(name) });
            }
            amounts.insert(name.clone(), text.parse()?);
        }
        Ok(Self(amounts))
    }

    /// How much there is of one resource.
    pub fn of(&self, name: &str) -> Quantity {
        self.0.get(name).copied().unwrap_or_default()
    }

    /// Every resource that is named.
    pub fn iter(&self) -> impl Iterator<Item = (&str, Quantity)> {
        self.0.iter().map(|(name, amount)| (name.as_str(), *amount))
    }

    /// Whether there is nothing at all.
    pub fn is_nothing(&self) -> bool {
        self.0.values().all(|it| it.is_zero())
    }

    /// Whether there is at least as much of everything that `unit` names.
    pub fn covers(&self, unit: &Self) -> bool {
        unit.iter().all(|(name, amount)| self.of(name) >= amount)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &str) -> Result<u128, Refusal> {
        text.parse::<Quantity>().map(|it| it.0)
    }

    #[test]
    fn each_suffix_has_its_weight() {
        let cases = [
            ("0", 0),
            ("4", 4_000),
            ("250m", 250),
            ("0.5", 500),
            (".5", 500),
            ("1.", 1_000),
            ("1k", 1_000_000),
            ("2M", 2_000_000_000),
            ("1G", 1_000_000_000_000),
            ("1Ki", 1_024_000),
            ("1.5Mi", 1_572_864_000),
            ("2Gi", 2_147_483_648_000),
            ("1Ei", (1 << 60) * 1_000),
            ("1e3", 1_000_000),
            ("1E-1", 100),
            ("0.0001", 1),
        ];
        for (text, thousandths) in cases {
            assert_eq!(read(text), Ok(thousandths), "{text}");
        }
    }

    // Requirement: F-38
    #[test]
    fn what_is_hostile_is_refused_by_name() {
        let nines = "9".repeat(39);
        let bad = [
            "",
            ".",
            "-1",
            "+1",
            "1..0",
            "1.2.3",
            "1 Gi",
            "1GiB",
            "1mm",
            "NaN",
            "inf",
            "1e",
            "1e+",
            "1e99",
            "1e-99",
            "1e999",
            "0x10",
            "１",
            "1\0",
            "99999999999Ei",
            nines.as_str(),
        ];
        for text in bad {
            assert_eq!(read(text), Err(Refusal::Quantity(shortened(text))), "{text:?}");
        }
        assert!(read(&"0".repeat(41)).is_err(), "too long to be an amount");
    }

    #[test]
    fn pieces_round_up_and_nothing_covers_nothing() {
        let unit = Quantity::units(4);
        assert_eq!(unit.pieces(Quantity::units(9)), Some(3));
        assert_eq!(unit.pieces(Quantity::units(8)), Some(2));
        assert_eq!(unit.pieces(Quantity::ZERO), Some(0));
        assert_eq!(Quantity::ZERO.pieces(unit), None);
        assert_eq!(unit.less(Quantity::units(5)), Quantity::ZERO);
        assert_eq!(unit.times(2), Quantity::units(8));
    }

    #[test]
    fn a_machine_covers_what_is_not_more_than_it_has() {
        let of = |pairs: &[(&str, &str)]| {
            let texts = pairs.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
            Resources::parse(&texts.collect()).unwrap()
        };
        let machine = of(&[("cpu", "4"), ("memory", "8Gi")]);
        assert!(machine.covers(&of(&[("cpu", "4")])));
        assert!(machine.covers(&of(&[])));
        assert!(!machine.covers(&of(&[("cpu", "4001m")])));
        assert!(!machine.covers(&of(&[("gpu", "1")])));
        assert!(of(&[("cpu", "0")]).is_nothing());
    }

    proptest! {
        // Requirement: F-38
        #[test]
        fn any_text_is_an_amount_or_a_refusal(text in ".*") {
            let _ = read(&text);
        }

        #[test]
        fn any_whole_number_is_read_exactly(units in any::<u64>()) {
            prop_assert_eq!(units.to_string().parse(), Ok(Quantity::units(units)));
        }
    }
}
