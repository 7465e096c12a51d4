//! What an error of a provider means: each class has its treatment, and none ends a machine.

use usher_kernel::Trouble;

use crate::object::closed::closed_set;

closed_set! {
    /// The classes of a provider's errors.
    "error class" ErrorClass {
        /// It may work the next time: unavailable, too slow, internal, exhausted, cancelled.
        Retryable = "Retryable",
        /// The provider has seen a newer token: this verb arrived already, or another process sends
        /// verbs.
        Fenced = "Fenced",
        /// There is no such machine.
        NotFound = "NotFound",
        /// The provider does not know the verb, or does not let us use it.
        Unsupported = "Unsupported",
        /// The provider does not accept the request.
        Invalid = "Invalid",
        /// The machine is not where the verb begins.
        OutOfPosition = "OutOfPosition",
    }
}

impl ErrorClass {
    /// The class of a status code of the protocol. An unknown code may pass.
    pub const fn of_status(code: i32) -> Self {
        match code {
            3 => Self::Invalid,
            5 => Self::NotFound,
            7 | 12 | 16 => Self::Unsupported,
            9 => Self::Fenced,
            6 | 11 => Self::OutOfPosition,
            _ => Self::Retryable,
        }
    }

    /// How the kernel treats it. The row is not changed by any of them: the next snapshot decides.
    pub fn trouble(self, provider: &str) -> Trouble {
        let what = provider.to_owned();
        match self {
            Self::Retryable => Trouble::unavailable(what),
            Self::Fenced | Self::NotFound | Self::OutOfPosition => Trouble::Blocked { what },
            Self::Unsupported | Self::Invalid => Trouble::Rejected { what },
        }
    }
}

#[cfg(test)]
mod tests {
    use usher_kernel::Retry;

    use super::*;

    // Requirement: F-12
    #[test]
    fn every_status_has_a_class() {
        let class = |code| ErrorClass::of_status(code).as_str();
        assert_eq!([3, 5, 6, 9].map(class), ["Invalid", "NotFound", "OutOfPosition", "Fenced"]);
        for code in [1, 2, 4, 8, 10, 13, 14, 15, 99, -1, i32::MAX] {
            assert_eq!(class(code), "Retryable", "{code}");
        }
        assert_eq!([7, 12, 16].map(class), ["Unsupported"; 3]);
    }

    // Requirement: F-12
    #[test]
    fn no_class_parks_a_machine() {
        for class in ErrorClass::ALL {
            let retry = class.trouble("provider").retry();
            assert!(matches!(retry, Retry::BackOff { .. } | Retry::Slow), "{class}: {retry:?}");
        }
    }
}
