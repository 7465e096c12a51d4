//! The phases of a Usage.

use crate::object::closed::closed_set;

closed_set! {
    /// Where a Usage is.
    "usage phase" Phase {
        /// Declared; not everything it names is protected.
        Pending = "Pending",
        /// Everything it names is protected, and the API server was seen to refuse.
        Protected = "Protected",
        /// Its user is gone and may reappear under the same name; nothing is protected.
        Idle = "Idle",
        /// The use is over; what it held is released. Sticky.
        Releasing = "Releasing",
        /// Nothing is held any more; the Usage itself is deleted.
        Released = "Released",
    }
}

impl Phase {
    /// Whether a Usage in this phase holds the objects it names.
    pub const fn holds(self) -> bool {
        match self {
            Self::Pending | Self::Protected => true,
            Self::Idle | Self::Releasing | Self::Released => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_two_phases_hold() {
        let found: Vec<_> = Phase::ALL.iter().map(|it| (it.as_str(), it.holds())).collect();
        let expected = [
            ("Pending", true),
            ("Protected", true),
            ("Idle", false),
            ("Releasing", false),
            ("Released", false),
        ];
        assert_eq!(found, expected);
    }
}
