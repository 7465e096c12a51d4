//! Errors that end a server.

use thiserror::Error;
use usher_wire::chain;

use crate::{keyring, place};

/// Why a server does not start or ends early; the binary maps it to an exit code.
#[derive(Debug, PartialEq, Eq, Error)]
pub enum ServerError {
    /// A setting or a file of the data directory is invalid.
    #[error("{0}")]
    Usage(String),
    /// The schema of the database does not match this program.
    #[error("{0}")]
    Refused(String),
    /// A dependency does not answer.
    #[error("{0}")]
    Unavailable(String),
}

impl ServerError {
    pub fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

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
            place::Error::BadToken { .. } => Self::usage(chain(&error)),
            place::Error::Disk { .. } | place::Error::Unminted(_) => {
                Self::unavailable(chain(&error))
            }
        }
    }
}

impl From<keyring::Error> for ServerError {
    fn from(error: keyring::Error) -> Self {
        if let keyring::Error::Store(error) = error {
            error.into()
        } else {
            Self::unavailable(chain(&error))
        }
    }
}
