//! What the author of a kind and the resolver need from the outside.
//!
//! They are two ports on purpose: a [`Client`] reaches one account of a cloud and no cluster, a
//! [`Reader`] reaches the cluster and no cloud. Deletion gets the first alone.

use std::time::Duration;

use serde_json::Value;

use super::reference::{Named, Read, Target};
use super::snapshot::{ReadError, Reading};
use crate::object::closed::closed_set;

/// Live reads of referents.
pub trait Reader {
    /// Reads one object of the kind.
    fn read(&self, target: &Target, named: &Named) -> impl Future<Output = Read>;
}

/// One account of a cloud, opened with the credential of a recorded identity.
pub trait Client {
    /// Sends one call and returns the reply.
    fn send(&self, call: &Call) -> impl Future<Output = Reply>;
}

closed_set! {
    /// What is done to a path.
    "method" Method {
        /// Read it.
        Get = "GET",
        /// Create under it, or call a custom verb of it.
        Post = "POST",
        /// Change parts of it.
        Patch = "PATCH",
        /// Delete it.
        Delete = "DELETE",
    }
}

/// A call to a cloud, as data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// What is done.
    pub method: Method,
    /// To what: the path below the service's host.
    pub path: String,
    pub query: Vec<(String, String)>,
    pub body: Option<Value>,
}

/// The answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// An answer of the service.
    Answered {
        /// Its status.
        status: u16,
        /// How long it asks us to wait.
        retry_after: Option<Duration>,
        /// Its body.
        body: Value,
    },
    /// No answer: the service could not be reached, or not in time.
    Silent,
}

impl Reply {
    /// What a read says: something, nothing, or why it says neither. Only 404 says nothing is
    /// there, and whether that counts is judged by the authority that answered.
    pub fn reading(&self) -> Reading<Option<&Value>> {
        let Self::Answered { status, retry_after, body } = self else {
            return Err(ReadError::Unavailable);
        };
        match status {
            200..=299 => Ok(Some(body)),
            404 => Ok(None),
            400 | 401 | 403 => Err(ReadError::Refused),
            429 => Err(ReadError::Throttled { retry_after: *retry_after }),
            _ => Err(ReadError::Unavailable),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: I-8
    #[test]
    fn only_a_404_says_that_nothing_is_there() {
        let wait = Some(Duration::from_secs(7));
        for status in 0..=999 {
            let reply = Reply::Answered { status, retry_after: wait, body: Value::Null };
            let expected = match status {
                200..=299 => Ok(Some(&Value::Null)),
                404 => Ok(None),
                400 | 401 | 403 => Err(ReadError::Refused),
                429 => Err(ReadError::Throttled { retry_after: wait }),
                _ => Err(ReadError::Unavailable),
            };
            assert_eq!(reply.reading(), expected, "{status}");
        }
        assert_eq!(Reply::Silent.reading(), Err(ReadError::Unavailable));
    }
}
