//! Request counters.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// Requests by verb, resource and status.
#[derive(Debug, Default)]
pub(crate) struct Counters(Mutex<BTreeMap<RequestKey, u64>>);

/// The labels of a counter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct RequestKey {
    /// The authorization verb.
    pub verb: String,
    /// `plural.group`; empty if it is not a served resource.
    pub resource: String,
    /// The status of the response.
    pub code: u16,
}

impl Counters {
    pub(crate) fn count(&self, key: RequestKey) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *counts.entry(key).or_default() += 1;
    }

    pub(crate) fn snapshot(&self) -> BTreeMap<RequestKey, u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
