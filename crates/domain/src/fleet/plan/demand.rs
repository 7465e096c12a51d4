//! When a roll-up is believed: not before the first, and not at once when it suddenly shrinks.

use crate::object::closed::closed_set;

/// A roll-up is held if it keeps less than one in so many rows of the one before...
const SHRINK: usize = 10;
/// ...which had at least so many...
const ROWS_MIN: usize = 10;
/// ...until so many in a row have the same number of rows.
const CONFIRMATIONS: u8 = 3;

closed_set! {
    /// What became of a roll-up.
    "judged" Judged {
        /// It is the demand from now on.
        Accepted = "Accepted",
        /// It shrinks too much to be believed alone; the demand stays as it was.
        Held = "Held",
    }
}

/// How far the roll-ups of one cluster can be believed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Trust {
    /// The rows of the last one that was accepted; none before the first.
    pub(super) rows: Option<usize>,
    /// The rows of the last one that was held, and how many like it were in a row.
    held: Option<(usize, u8)>,
}

impl Trust {
    /// Judges a roll-up of so many rows.
    pub(super) fn hear(&mut self, rows: usize) -> Judged {
        let baseline = self.rows.unwrap_or(0);
        let shrinks = baseline >= ROWS_MIN && rows * SHRINK < baseline;
        let alike = self.held.filter(|it| it.0 == rows).map_or(1, |it| it.1 + 1);
        if shrinks && alike < CONFIRMATIONS {
            self.held = Some((rows, alike));
            return Judged::Held;
        }
        *self = Self { rows: Some(rows), held: None };
        Judged::Accepted
    }

    /// Whether anything was ever heard.
    pub(super) const fn is_heard(self) -> bool {
        self.rows.is_some()
    }

    /// Whether the last roll-up waits for others that say the same.
    pub(super) const fn is_held(self) -> bool {
        self.held.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heard(rows: &[usize]) -> Vec<Judged> {
        let mut trust = Trust::default();
        rows.iter().map(|it| trust.hear(*it)).collect()
    }

    #[test]
    fn a_sudden_fall_needs_three_that_say_the_same() {
        use Judged::{Accepted, Held};
        assert_eq!(heard(&[10, 0, 0, 0, 0]), [Accepted, Held, Held, Accepted, Accepted]);
        assert_eq!(heard(&[100, 9, 9, 10]), [Accepted, Held, Held, Accepted], "a tenth is enough");
        assert_eq!(heard(&[9, 0]), [Accepted, Accepted], "few rows may vanish");
        assert_eq!(heard(&[20, 1, 20, 1, 1]), [Accepted, Held, Accepted, Held, Held]);
        let unequal = heard(&[100, 9, 5, 0, 0, 0]);
        assert_eq!(
            unequal,
            [Accepted, Held, Held, Held, Held, Accepted],
            "three falls are not one"
        );
        assert_eq!(heard(&[0]), [Accepted], "also an empty first one is heard");
    }

    #[test]
    fn silence_is_not_demand_for_nothing() {
        assert!(!Trust::default().is_heard());
        let mut trust = Trust::default();
        trust.hear(30);
        trust.hear(1);
        assert!(trust.is_heard() && trust.is_held());
    }
}
