//! The answer of the rules for one cell of the table.

use usher_kernel::Requeue;

use super::facts::CommandState;
use super::phase::Phase;
use super::reason::Reason;
use crate::object::closed::closed_set;

/// What the rules answer: everything but the names. Without a change the command stays as it is.
pub type Verdict = usher_kernel::Verdict<EffectKind, Phase, RecordChange, EventKind, Reason>;

/// The change of the command and of the binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordChange {
    /// The progress of the command from now on.
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
        /// Drain it from its cluster.
        Drain = "Drain",
        /// Give its host back.
        Delete = "Delete",
        /// Clean up what is left of it, since it failed.
        Salvage = "Salvage",
    }

    /// What becomes of the binding.
    "binding change" BindingChange {
        /// It stays as it is.
        Kept = "Kept",
        /// It is the declared one.
        Wanted = "Wanted",
        /// It is that of the withdrawn command.
        Asked = "Asked",
        /// It is withdrawn, and remembered as requested.
        TakenBack = "TakenBack",
        /// It has ended, and all that belonged to it.
        Cleared = "Cleared",
    }

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

/// Only the command changes.
pub(super) const fn held(
    phase: Phase,
    command: CommandState,
    requeue: Requeue,
    reason: Reason,
) -> Verdict {
    let change = RecordChange { command, binding: BindingChange::Kept };
    Verdict::wait(phase, requeue, reason).change_record(change)
}

/// A crossing: it is emitted, and the next step continues from there.
pub(super) const fn cross(phase: Phase, binding: BindingChange, reason: Reason) -> Verdict {
    let change = RecordChange { command: CommandState::None, binding };
    Verdict::emit(EventKind::Moved, phase, reason).change_record(change)
}
