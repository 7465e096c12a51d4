//! Mishaps on demand, for tests of those who call.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

/// A request, as a fault hook sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The verb, as authorisation names it.
    pub verb: String,
    /// `plural.group`; empty for what is no resource.
    pub resource: String,
    /// The namespace; empty for none.
    pub namespace: String,
    /// The name; empty for a collection.
    pub name: String,
}

/// What befalls a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    #[default]
    None,
    /// It is refused with this status before anything happens.
    Refuse(u16),
    /// It is done, and the caller is told this status instead of the answer.
    LoseAnswer(u16),
    /// It waits before anything happens.
    Delay(Duration),
    /// A watch ends after so many events.
    EndWatchAfter(usize),
}

type Hook = Arc<dyn Fn(&Asked) -> Fault + Send + Sync>;

/// The hook that decides what goes wrong.
#[derive(Default)]
pub(crate) struct Faults(RwLock<Option<Hook>>);

impl Faults {
    pub(crate) fn set(&self, hook: Option<Hook>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = hook;
    }

    pub(crate) fn befall(&self, asked: &Asked) -> Fault {
        let hook = self.0.read().unwrap_or_else(PoisonError::into_inner).clone();
        hook.map_or(Fault::None, |hook| hook(asked))
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Faults")
    }
}
