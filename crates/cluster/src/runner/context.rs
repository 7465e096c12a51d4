//! What a step is given beside its key.

use std::sync::{Arc, Mutex, PoisonError};

use usher_kernel::Timestamp;

use crate::kinds::Resource;
use crate::lease::Term;
use crate::watches::{Interest, Selection, TooBroad, Wake, Watches};

/// One step: its time, its term, and what it depends on.
pub struct Context {
    now: Timestamp,
    term: Term,
    may_act_until: Option<Timestamp>,
    watches: Arc<Watches>,
    wake: Wake,
    interests: Mutex<Vec<Interest>>,
}

impl Context {
    pub(super) fn new(
        (term, may_act_until): (Term, Option<Timestamp>),
        watches: Arc<Watches>,
        wake: Wake,
    ) -> Self {
        let now = term.now();
        Self { now, term, may_act_until, watches, wake, interests: Mutex::default() }
    }

    /// When the step began.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    pub fn term(&self) -> &Term {
        &self.term
    }

    /// Until when a step of this item sent requests that were not answered, in this term or in the
    /// one before.
    pub fn may_act_until(&self) -> Option<Timestamp> {
        self.may_act_until
    }

    /// Wakes this item when the selected objects change, until a later step that is finished no
    /// longer asks for it. To be called before the objects are read.
    pub fn watch(&self, resource: &Resource, selection: Selection) -> Result<(), TooBroad> {
        let interest = self.watches.interest(resource, selection, &self.wake)?;
        self.interests.lock().unwrap_or_else(PoisonError::into_inner).push(interest);
        Ok(())
    }

    pub(super) fn into_interests(self) -> Vec<Interest> {
        let mut interests = self.interests.into_inner().unwrap_or_else(PoisonError::into_inner);
        interests.shrink_to_fit();
        interests
    }
}

impl std::fmt::Debug for Context {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("now", &self.now).finish_non_exhaustive()
    }
}
