//! Trouble: the outside failed, or another writer was faster.

use std::time::Duration;

use thiserror::Error;

/// Why a step could not be finished. Never a refusal of a command and never a bug.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Trouble {
    /// Another writer moved our own row since it was read.
    #[error("the row has moved since it was read")]
    Conflict,
    /// The other side did not answer, or its answer was lost.
    #[error("cannot reach {what}")]
    Unavailable {
        /// The authority that did not answer.
        what: String,
        /// How long it asked us to wait, if it said so.
        after: Option<Duration>,
    },
    /// The other side holds it: a remote conflict, a finalizer, a guard.
    #[error("held by {what}")]
    Blocked {
        /// Its holder.
        what: String,
    },
    /// The other side refused for good reason: rights, admission, validation.
    #[error("refused by {what}")]
    Rejected {
        /// The authority that refused.
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
    /// At once for a few times: the next snapshot shows what the other writer did. A row that is
    /// moved again and again backs off.
    AtOnce,
    /// With back-off, and not before the other side requested.
    BackOff {
        /// The shortest pause.
        after: Duration,
    },
    /// At the slowest pace, and visibly.
    Slow,
    /// Not before an operator mended the row.
    Park,
}

impl Trouble {
    /// The other side did not answer, and did not say when it will.
    pub fn unavailable(what: impl Into<String>) -> Self {
        Self::Unavailable { what: what.into(), after: None }
    }

    /// The one place that says how each trouble is retried.
    pub const fn retry(&self) -> Retry {
        match self {
            Self::Conflict => Retry::AtOnce,
            Self::Unavailable { after: Some(after), .. } => Retry::BackOff { after: *after },
            Self::Unavailable { after: None, .. } | Self::Blocked { .. } => {
                Retry::BackOff { after: Duration::ZERO }
            }
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
        const MINUTE: Duration = Duration::from_mins(1);
        let (what, after) = (String::from("cluster"), Some(MINUTE));
        let cases = [
            (Trouble::Conflict, Retry::AtOnce),
            (Trouble::unavailable("cluster"), Retry::BackOff { after: Duration::ZERO }),
            (Trouble::Unavailable { what: what.clone(), after }, Retry::BackOff { after: MINUTE }),
            (Trouble::Blocked { what: what.clone() }, Retry::BackOff { after: Duration::ZERO }),
            (Trouble::Rejected { what: what.clone() }, Retry::Slow),
            (Trouble::Corrupt { what }, Retry::Park),
        ];
        for (trouble, pace) in cases {
            assert_eq!(trouble.retry(), pace, "{trouble}");
        }
    }
}
