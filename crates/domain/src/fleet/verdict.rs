//! The answer of the rules for one cell of the table.

use usher_kernel::Requeue;

use super::facts::CommandState;
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names. Without a change the order stays as it is.
pub type Verdict = usher_kernel::Verdict<EffectKind, Phase, RecordChange, EventKind, Reason>;

/// What becomes of the order and of the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// How far the order is from now on.
    pub command: CommandState,
    /// What becomes of the binding.
    pub binding: BindingChange,
}

closed_set! {
    /// The effects of a machine.
    "effect" EffectKind {
        /// Make its host.
        Create = "Create",
        /// Let it join its cluster.
        Configure = "Configure",
        /// Let it leave its cluster.
        Drain = "Drain",
        /// Give its host back.
        Delete = "Delete",
        /// Take away what is left of it, since it failed.
        Salvage = "Salvage",
    }
}

closed_set! {
    /// What becomes of the binding.
    "binding change" BindingChange {
        /// It stays as it is.
        Kept = "Kept",
        /// It is what is wanted.
        Wanted = "Wanted",
        /// It is what was asked for before that was taken back.
        Asked = "Asked",
        /// It is taken back, and remembered as asked for.
        TakenBack = "TakenBack",
        /// It has ended, and all that belonged to it.
        Cleared = "Cleared",
    }
}

closed_set! {
    /// The transitions that emit an event.
    "event" EventKind {
        /// Into another phase.
        Moved = "Moved",
        /// Its provider names another cluster.
        Disputed = "Disputed",
        /// Its provider names our cluster again, or none.
        Settled = "Settled",
        /// Its provider does not know it any more.
        Gone = "Gone",
    }
}

/// Nothing moves but the order.
pub(super) const fn held(
    phase: Phase,
    command: CommandState,
    requeue: Requeue,
    reason: Reason,
) -> Verdict {
    let change = RecordChange { command, binding: BindingChange::Kept };
    Verdict::wait(phase, requeue, reason).change_record(change)
}

/// A crossing: it is told, and the next step goes on from there.
pub(super) const fn cross(phase: Phase, binding: BindingChange, reason: Reason) -> Verdict {
    let change = RecordChange { command: CommandState::None, binding };
    Verdict::emit(EventKind::Moved, phase, reason).change_record(change)
}
