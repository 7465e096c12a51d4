//! The answer of a context's rules for one cell of its table: everything but the names.

use crate::requeue::Requeue;

/// What the rules answer, over a context's own closed sets: effects, phases, changes of the
/// record beside the phase, events and reasons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict<E, P, C, V, R> {
    /// The effect to apply, if any.
    pub effect: Option<E>,
    /// The phase to be in.
    pub phase: P,
    /// What changes in the record beside the phase, if anything.
    pub change: Option<C>,
    /// The event to emit with the commit, if any; then there is no effect.
    pub event: Option<V>,
    /// When to take the next step.
    pub requeue: Requeue,
    /// Why.
    pub reason: R,
}

impl<E: Copy, P: Copy, C: Copy, V: Copy, R: Copy> Verdict<E, P, C, V, R> {
    /// Neither effect nor event.
    pub const fn wait(phase: P, requeue: Requeue, reason: R) -> Self {
        Self { effect: None, phase, change: None, event: None, requeue, reason }
    }

    /// One effect, and a snapshot of what it did.
    pub const fn act(effect: E, phase: P, reason: R) -> Self {
        Self { effect: Some(effect), ..Self::wait(phase, Requeue::Poll, reason) }
    }

    /// One event; the next step continues from there.
    pub const fn emit(event: V, phase: P, reason: R) -> Self {
        Self { event: Some(event), ..Self::wait(phase, Requeue::Now, reason) }
    }

    /// The same with this change of the record.
    #[must_use]
    pub const fn change_record(self, change: C) -> Self {
        Self { change: Some(change), ..self }
    }

    /// The same with this time of the next step.
    #[must_use]
    pub const fn requeue(self, requeue: Requeue) -> Self {
        Self { requeue, ..self }
    }

    /// The same under [`Requeue::with_snapshot`].
    #[must_use]
    pub const fn with_snapshot(self, is_incomplete: bool) -> Self {
        self.requeue(self.requeue.with_snapshot(is_incomplete))
    }
}
