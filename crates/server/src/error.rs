//! Why a server does not start or does not go on.

use thiserror::Error;
use usher_wire::chain;

use crate::place;

/// Why a server ends before it is asked to; the binary maps it to an exit code.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ServerError {
    /// The settings, or what lies in the data directory, cannot be used.
    #[error("{0}")]
    Usage(String),
    /// The schema of the database is not this program's.
    #[error("{0}")]
    Refused(String),
    /// Something that is needed does not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl ServerError {
    /// The settings, or what lies in the data directory, cannot be used.
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    /// Something that is needed does not answer.
    pub fn unavailable(text: impl Into<String>) -> Self {
        Self::Unavailable(text.into())
    }
}

impl From<usher_store::Error> for ServerError {
    fn from(error: usher_store::Error) -> Self {
        if let usher_store::Error::Schema(refusal) = &error {
            let (code, remedy) = (refusal.code(), refusal.remedy());
            return Self::Refused(format!("{refusal} ({code})\n{remedy}"));
        }
        Self::unavailable(chain(&error))
    }
}

impl From<place::Error> for ServerError {
    fn from(error: place::Error) -> Self {
        match &error {
            place::Error::BadKey { .. } | place::Error::BadToken { .. } => {
                Self::usage(chain(&error))
            }
            place::Error::Disk { .. } | place::Error::Unminted => Self::unavailable(chain(&error)),
        }
    }
}
