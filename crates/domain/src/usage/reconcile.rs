//! What happens next to a Usage, and why.
//!
//! One pure, total function from facts to a verdict. The transition table beside this crate repeats
//! it, cell by cell.
//!
//! **Invariants**
//! - The finalizer is added before anything else and removed after everything else.
//! - What is used is held until its user is gone, whatever else is being deleted.
//! - That the use is over is committed before anything is released, so that of several Usages of
//!   one object the last one sees that it is the last.
//! - Nothing is released on an answer that is missing.

use usher_kernel::{Requeue, Visibility};

use super::facts::{
    Attempt, Blocking, By, Excess, Facts, Finalizer, Intent, Of, Owners, Resolution, Resolve,
    RowFacts,
};
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};

/// The verdict for one cell of the table. `attempt` is what becomes of the next recorded deletion.
pub fn rules(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    if seen.visibility == Visibility::ClusterReplaced {
        return Verdict::wait(row.phase, Requeue::Poll, Reason::ClusterReplaced);
    }
    match row.phase {
        Phase::Pending | Phase::Protected => match end_of_use(row, seen.by) {
            Some((phase, reason)) => Verdict::wait(phase, Requeue::Now, reason),
            None => hold(row, seen, attempt),
        },
        Phase::Idle => idle(row, seen, attempt),
        Phase::Releasing => release(row, seen, attempt),
        Phase::Released => go(row, seen, attempt),
    }
}

/// Whether the use is over, and what follows.
///
/// A removed kind counts as gone for a Usage being deleted: its objects are gone with it and no
/// object with their uids can reappear. For one that was not, it is a reason to wait. A Usage being
/// deleted that our finalizer does not hold may vanish at any time and can hold nothing.
fn end_of_use(row: RowFacts, by: By) -> Option<(Phase, Reason)> {
    let asked = row.intent == Intent::Requested;
    if asked && row.finalizer == Finalizer::Off {
        return Some((Phase::Releasing, Reason::UsageDeleted));
    }
    match by {
        By::Present | By::Leaving | By::Unknown => None,
        By::None | By::Missing => asked.then_some((Phase::Releasing, Reason::UsageDeleted)),
        By::KindRemoved => asked.then_some((Phase::Releasing, Reason::KindRemoved)),
        By::Gone => match row.resolve {
            Resolve::Always if !asked => Some((Phase::Idle, Reason::UserGone)),
            Resolve::Once | Resolve::Always => Some((Phase::Releasing, Reason::UserGone)),
        },
    }
}

/// finalizer → resolve → emit → mark → release owners → release what is not meant any more.
fn hold(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    let wanted = row.intent == Intent::None;
    if wanted && row.finalizer == Finalizer::Off {
        let effect = EffectKind::AddFinalizer;
        return Verdict::act(effect, row.phase, Reason::AddingFinalizer);
    }
    if seen.resolution == Resolution::Changed {
        return change(RecordChange::Resolve, row.phase, Reason::ResolvingReferences);
    }
    match (row.phase, is_protected(seen.of)) {
        (Phase::Protected, Some(false)) => {
            return Verdict::emit(EventKind::Exposed, Phase::Pending, lack(seen));
        }
        (Phase::Pending, Some(true)) => {
            return Verdict::emit(EventKind::Protected, Phase::Protected, Reason::InUse);
        }
        (
            Phase::Pending | Phase::Protected | Phase::Idle | Phase::Releasing | Phase::Released,
            None | Some(_),
        ) => {}
    }
    match seen.of {
        Of::Unrecorded => return Verdict::wait(row.phase, Requeue::Now, Reason::RecordingTarget),
        Of::Unmarked | Of::Outlived => {
            return Verdict::act(EffectKind::Mark, row.phase, Reason::Marking);
        }
        Of::Unresolved
        | Of::Absent
        | Of::KindRemoved
        | Of::Marked
        | Of::Allowed
        | Of::Proven
        | Of::Leaving
        | Of::Unknown => {}
    }
    if let Some(verdict) = yielding(row) {
        return verdict;
    }
    if seen.blocking == Blocking::Owners {
        return Verdict::act(EffectKind::Unblock, row.phase, Reason::UnblockingTargetOwners);
    }
    clear(row, seen, attempt).unwrap_or_else(|| wait(row, seen, attempt))
}

/// Whether all that is used is protected; nothing if that is unknown, or if only the mark has to be
/// written anew: its writer keeps it for the Usages that still hold.
const fn is_protected(of: Of) -> Option<bool> {
    match of {
        Of::Proven => Some(true),
        Of::Unknown | Of::Outlived => None,
        Of::Unresolved
        | Of::Absent
        | Of::KindRemoved
        | Of::Unrecorded
        | Of::Unmarked
        | Of::Marked
        | Of::Allowed
        | Of::Leaving => Some(false),
    }
}

/// What is missing for protection.
fn lack(seen: Facts) -> Reason {
    match seen.of {
        Of::Unresolved => Reason::NoMatchingObject,
        Of::Absent => Reason::TargetNotFound,
        Of::KindRemoved => Reason::KindRemoved,
        Of::Unrecorded => Reason::RecordingTarget,
        Of::Unmarked | Of::Outlived => Reason::Marking,
        Of::Marked => Reason::Probing,
        Of::Allowed => Reason::DeletionNotRefused,
        Of::Leaving => Reason::TargetTerminating,
        Of::Proven => Reason::InUse,
        Of::Unknown => seen.visibility.unknown_reason(),
    }
}

/// A deleted Usage that waits for its user releases its owners first: one of them may be
/// what its user waits for.
fn yielding(row: RowFacts) -> Option<Verdict> {
    let waits = row.intent == Intent::Requested && row.owners == Owners::Waiting;
    waits.then(|| Verdict::act(EffectKind::Yield, row.phase, Reason::UnblockingUsageOwners))
}

/// Releases what is not to be held: its mark first, then its recorded deletion.
fn clear(row: RowFacts, seen: Facts, attempt: Attempt) -> Option<Verdict> {
    if seen.excess == Excess::Marked {
        return Some(Verdict::act(EffectKind::Unmark, row.phase, Reason::Unmarking));
    }
    match attempt {
        Attempt::None | Attempt::Unknown => None,
        Attempt::Settled => {
            let reported = EventKind::AttemptSettled;
            let reported = Verdict::emit(reported, row.phase, Reason::DeletionAttemptSettled);
            Some(reported.change_record(RecordChange::Settle))
        }
        Attempt::HandOver => {
            Some(Verdict::act(EffectKind::HandOver, row.phase, Reason::HandingOverDeletion))
        }
        Attempt::Due => Some(change(RecordChange::Begin, row.phase, Reason::RecordingReplay)),
        Attempt::Begun => {
            Some(Verdict::act(EffectKind::Replay, row.phase, Reason::ReplayingDeletion))
        }
    }
}

/// Nothing is to be done: why, and until when.
fn wait(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    let rest = |rest, reason| Verdict::wait(row.phase, rest, reason);
    if is_incomplete(seen, attempt) {
        return rest(Requeue::Poll, seen.visibility.unknown_reason());
    }
    if row.intent == Intent::None {
        match seen.resolution {
            Resolution::Unknown => return rest(Requeue::Poll, seen.visibility.unknown_reason()),
            Resolution::Refused => return rest(Requeue::Poll, Reason::ReferencesInvalid),
            Resolution::Same | Resolution::Changed => {}
        }
    }
    match seen.of {
        Of::Unresolved | Of::Absent | Of::Leaving => rest(Requeue::OnChange, lack(seen)),
        Of::KindRemoved
        | Of::Unrecorded
        | Of::Unmarked
        | Of::Outlived
        | Of::Marked
        | Of::Allowed
        | Of::Unknown => rest(Requeue::Poll, lack(seen)),
        Of::Proven => match seen.by {
            By::None => rest(Requeue::OnChange, Reason::ProtectedForReason),
            By::Missing => rest(Requeue::OnChange, Reason::UserNotFound),
            By::Present => rest(Requeue::OnChange, Reason::InUse),
            By::Leaving => rest(Requeue::Poll, Reason::UserTerminating),
            By::Gone => rest(Requeue::Poll, Reason::UserGone),
            By::KindRemoved => rest(Requeue::Poll, Reason::KindRemoved),
            By::Unknown => rest(Requeue::Poll, seen.visibility.unknown_reason()),
        },
    }
}

/// The user is gone, and another one under the same reference takes its place.
fn idle(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    let asked = row.intent == Intent::Requested;
    if !asked && seen.resolution == Resolution::Changed {
        return change(RecordChange::Resolve, row.phase, Reason::ResolvingReferences);
    }
    match seen.by {
        By::Present | By::Leaving => {
            return Verdict::wait(Phase::Pending, Requeue::Now, Reason::UserRecreated);
        }
        By::None | By::Missing if !asked => {
            return Verdict::wait(Phase::Pending, Requeue::Now, Reason::UserRecreated);
        }
        By::None | By::Missing | By::Gone | By::KindRemoved => {
            if asked || row.resolve == Resolve::Once {
                let reason = if asked { Reason::UsageDeleted } else { Reason::UserGone };
                return Verdict::wait(Phase::Releasing, Requeue::Now, reason);
            }
        }
        By::Unknown => {}
    }
    clear(row, seen, attempt).unwrap_or_else(|| {
        let incomplete = seen.by == By::Unknown || is_incomplete(seen, attempt);
        let (rest, reason) = if incomplete {
            (Requeue::Poll, seen.visibility.unknown_reason())
        } else {
            (Requeue::OnChange, Reason::UserGone)
        };
        Verdict::wait(row.phase, rest, reason)
    })
}

fn is_incomplete(seen: Facts, attempt: Attempt) -> bool {
    seen.excess == Excess::Unknown || attempt == Attempt::Unknown
}

/// The use is over: there is no way back from here.
fn release(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    yielding(row).or_else(|| clear(row, seen, attempt)).unwrap_or_else(|| {
        if is_incomplete(seen, attempt) {
            Verdict::wait(row.phase, Requeue::Poll, seen.visibility.unknown_reason())
        } else {
            Verdict::emit(EventKind::Released, Phase::Released, Reason::Released)
        }
    })
}

/// Nothing is held any more: the Usage itself is deleted, unless a deletion was denied on its
/// account in the meantime.
fn go(row: RowFacts, seen: Facts, attempt: Attempt) -> Verdict {
    if seen.excess != Excess::None || attempt != Attempt::None {
        return Verdict::wait(Phase::Releasing, Requeue::Now, Reason::DeletionAttemptRecorded);
    }
    match (row.intent, row.finalizer) {
        (Intent::None, Finalizer::On | Finalizer::Off) => {
            Verdict::act(EffectKind::Retire, row.phase, Reason::DeletingUsage)
        }
        (Intent::Requested, Finalizer::On) => {
            Verdict::act(EffectKind::RemoveFinalizer, row.phase, Reason::RemovingFinalizer)
        }
        (Intent::Requested, Finalizer::Off) => {
            Verdict::wait(row.phase, Requeue::Never, Reason::Released)
        }
    }
}

/// A record change, then a requeue.
fn change(change: RecordChange, phase: Phase, reason: Reason) -> Verdict {
    Verdict::wait(phase, Requeue::Now, reason).change_record(change)
}
