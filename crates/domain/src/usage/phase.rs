//! The phases of a Usage.

use crate::object::closed::closed_set;

closed_set! {
    /// Where a Usage is.
    "usage phase" Phase {
        /// Declared; not everything it speaks of is protected.
        Pending = "Pending",
        /// Everything it speaks of is protected, and the API server was seen to refuse.
        Protected = "Protected",
        /// Its user is gone and may reappear under the same name; nothing is protected.
        Idle = "Idle",
        /// The use is over; what it held is let go. Sticky.
        Releasing = "Releasing",
        /// Nothing is held any more; the Usage itself goes.
        Released = "Released",
    }
}

impl Phase {
    /// Whether a Usage in this phase holds what it speaks of.
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
        let told: Vec<_> = Phase::ALL.iter().map(|it| (it.as_str(), it.holds())).collect();
        let expected = [
            ("Pending", true),
            ("Protected", true),
            ("Idle", false),
            ("Releasing", false),
            ("Released", false),
        ];
        assert_eq!(told, expected);
    }
}
