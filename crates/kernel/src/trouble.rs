//! Trouble: the outside failed, or somebody was faster.

use thiserror::Error;

/// Why a step could not be finished. Never a refusal of a command and never a bug.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Our own row was moved by somebody else since it was read.
    #[error("the row has moved since it was read")]
    Conflict,
    /// The other side did not answer, or its answer was lost.
    #[error("cannot reach {what}")]
    Unavailable {
        /// Who did not answer.
        what: String,
    },
    /// The other side holds it: a remote conflict, a finalizer, a guard.
    #[error("held by {what}")]
    Blocked {
        /// Who holds it.
        what: String,
    },
    /// The other side refused for good reason: rights, admission, validation.
    #[error("refused by {what}")]
    Rejected {
        /// Who refused.
        what: String,
    },
    /// What was stored breaks the rules of its own aggregate.
    #[error("cannot read {what}")]
    Corrupt {
        /// Which row.
        what: String,
    },
}

/// When a step that met trouble is tried again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// At once: the next look sees what the other one did.
    AtOnce,
    /// With back-off.
    BackOff,
    /// At the slowest pace, and visibly.
    Slow,
    /// Not before somebody mended the row.
    Park,
}

impl Trouble {
    /// The one place that says how each trouble is retried.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Conflict => Retry::AtOnce,
            Self::Unavailable { .. } | Self::Blocked { .. } => Retry::BackOff,
            Self::Rejected { .. } => Retry::Slow,
            Self::Corrupt { .. } => Retry::Park,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: K-15
    #[test]
    fn each_trouble_has_its_own_pace() {
        let what = String::from("cluster");
        let cases = [
            (Trouble::Conflict, Retry::AtOnce),
            (Trouble::Unavailable { what: what.clone() }, Retry::BackOff),
            (Trouble::Blocked { what: what.clone() }, Retry::BackOff),
            (Trouble::Rejected { what: what.clone() }, Retry::Slow),
            (Trouble::Corrupt { what }, Retry::Park),
        ];
        for (trouble, pace) in cases {
            assert_eq!(trouble.retry(), pace, "{trouble}");
        }
    }
}
