//! What happens next to a direct resource, and why.
//!
//! One pure, total function from facts to a verdict, in two arms: *converge* provisions the cloud
//! object, *tear down* tears it down. The transition table beside this crate repeats it, cell by
//! cell.
//!
//! **Invariants**
//! - Deletion is decided in the order own finalizer, hold, policy, identity, cloud. What
//!   is abandoned needs nothing else, and an identity on record needs no reference.
//! - No end and no destroying effect depends on a part that is unknown.
//! - Nothing is created before its identity is on record and on the object.
//! - What is foreign is never touched, and a copy never acts.

use usher_kernel::Requeue;

use super::facts::{
    Asked, Cloud, CloudPresence, Ended, Facts, GraceOver, Hold, Identity, Object, Operation,
    Policy, Refs, RowFacts, Search, Stamp,
};
use super::phase::Phase;
use super::proof::Outcome;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase == Phase::Deleted {
        return watch(row, seen);
    }
    match seen.object {
        Object::Unknown => Verdict::wait(row.phase, Requeue::Poll, Reason::ObjectUnreadable),
        Object::Free | Object::Gone => let_go(row, seen),
        Object::Leaving => tear_down(row, seen),
        Object::Unheld | Object::Held => converge(row, seen),
    }
}

/// The object is released: its end is reported, and what may be left is recorded.
fn let_go(row: RowFacts, seen: Facts) -> Verdict {
    let reported = |reason| Verdict::emit(EventKind::Deleted, Phase::Deleted, reason);
    if row.ended == Ended::Yes {
        return reported(Reason::Gone).requeue(Requeue::Watch);
    }
    let outcome = match row.identity {
        Identity::None => Outcome::AlreadyAbsent,
        // A request in flight, or an object that reappeared unseen, may exist after the release.
        Identity::Gone if settle(row, seen).is_some() || !is_absent(seen.cloud) => {
            Outcome::OrphanReleased
        }
        Identity::Gone => absent(row.asked),
        Identity::Foreign | Identity::BoundElsewhere => Outcome::NotOurs,
        Identity::Abandoned => Outcome::Abandoned,
        Identity::Lost
        | Identity::Found
        | Identity::Intended
        | Identity::Seen
        | Identity::Malformed => Outcome::OrphanReleased,
    };
    reported(ending(outcome)).change_record(RecordChange::End(outcome)).requeue(Requeue::Watch)
}

/// The teardown arm: there is no way back from here.
fn tear_down(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase != Phase::Deleting {
        return Verdict::emit(EventKind::Deleting, Phase::Deleting, Reason::DeletionRequested);
    }
    if row.ended == Ended::Yes {
        let reason = Reason::RemovingFinalizer;
        return Verdict::act(EffectKind::RemoveFinalizer, Phase::Deleting, reason);
    }
    if seen.hold == Hold::Another {
        return wait(Reason::HeldByFinalizer);
    }
    match seen.policy {
        Policy::Unreadable => return wait(Reason::DeletionPolicyInvalid),
        Policy::Abandon => return end(Outcome::Abandoned),
        Policy::Hold | Policy::Release => {}
    }
    match row.identity {
        Identity::None => end(Outcome::AlreadyAbsent),
        Identity::BoundElsewhere => end(Outcome::NotOurs),
        Identity::Abandoned => end(Outcome::Abandoned),
        Identity::Found => wait(Reason::RecordingObservation).requeue(Requeue::Now),
        Identity::Lost | Identity::Malformed => climb(row, seen),
        Identity::Intended | Identity::Seen | Identity::Gone | Identity::Foreign => {
            remove(row, seen)
        }
    }
}

/// Nothing is on record. What carries our mark is recorded by itself; else the spec may give its
/// identity, which is recorded and queried like any other.
fn climb(row: RowFacts, seen: Facts) -> Verdict {
    match seen.search {
        Search::Unknown => return wait(Reason::OwnershipSearchFailed),
        Search::One => return wait(Reason::RecordingObservation).requeue(Requeue::Now),
        Search::Several => return orphan(seen, Reason::OwnershipAmbiguous),
        Search::None => {}
    }
    match seen.refs {
        Refs::Agrees | Refs::Differs => wait(Reason::RecordingIdentity)
            .requeue(Requeue::Now)
            .change_record(RecordChange::Intend),
        // That a parent is not there was answered; that its child is not there was not.
        Refs::NotFound | Refs::Invalid if row.identity == Identity::Malformed => {
            orphan(seen, Reason::IdentityMalformed)
        }
        Refs::NotFound | Refs::Invalid => orphan(seen, Reason::Orphaned),
        Refs::Unasked
        | Refs::Terminating
        | Refs::NotReady
        | Refs::KindNotInstalled
        | Refs::Forbidden
        | Refs::Unavailable => wait(unresolved(seen.refs)),
    }
}

/// An identity is on record: the object under it is deleted, and its absence is observed.
fn remove(row: RowFacts, seen: Facts) -> Verdict {
    let Some(presence) = seen.cloud.presence() else {
        return unanswered(Phase::Deleting, seen.cloud);
    };
    match presence {
        CloudPresence::Ours | CloudPresence::Drifted | CloudPresence::Unrecorded => match seen
            .operation
        {
            Operation::Running => wait(Reason::WaitingForOperation),
            Operation::None | Operation::Failed | Operation::Unknown
                if row.identity != Identity::Seen =>
            {
                wait(Reason::RecordingObservation).requeue(Requeue::Now)
            }
            // Our request is recorded first, so that a later step that finds it gone knows the
            // cause.
            Operation::None | Operation::Failed | Operation::Unknown if row.asked == Asked::No => {
                wait(Reason::DeletingObject).requeue(Requeue::Now).change_record(RecordChange::Ask)
            }
            Operation::Failed => delete(Reason::DeleteFailed).requeue(Requeue::Slow),
            Operation::None | Operation::Unknown => delete(Reason::DeletingObject),
        },
        CloudPresence::Leaving => wait(Reason::WaitingForDeletion),
        CloudPresence::Nothing | CloudPresence::NoContainer | CloudPresence::Foreign => {
            settle(row, seen).unwrap_or_else(|| match row.identity {
                Identity::Gone => end(absent(row.asked)),
                Identity::Foreign => end(Outcome::NotOurs),
                Identity::None
                | Identity::Lost
                | Identity::Found
                | Identity::Intended
                | Identity::Seen
                | Identity::BoundElsewhere
                | Identity::Malformed
                | Identity::Abandoned => wait(Reason::NamesNotYetGone),
            })
        }
    }
}

/// Why absence does not count yet: a request of ours may still be in flight.
fn settle(row: RowFacts, seen: Facts) -> Option<Verdict> {
    match seen.operation {
        Operation::Running => return Some(wait(Reason::WaitingForOperation)),
        Operation::Unknown => return Some(wait(Reason::OperationStatusUnknown)),
        Operation::None | Operation::Failed => {}
    }
    match row.grace_over {
        GraceOver::No => Some(wait(Reason::InFlightGrace).requeue(Requeue::InFlightGrace)),
        GraceOver::Yes => None,
    }
}

/// The converge arm.
fn converge(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    // A deletion is never undone: a cluster without it was restored from a backup.
    if row.phase == Phase::Deleting || row.ended == Ended::Yes {
        return stay(Reason::DeletionTimestampLost).requeue(Requeue::OnChange);
    }
    if row.identity == Identity::BoundElsewhere {
        return stay(Reason::IdentityForeign).requeue(Requeue::OnChange);
    }
    if seen.object == Object::Unheld {
        return Verdict::act(EffectKind::AddFinalizer, row.phase, Reason::AddingFinalizer);
    }
    match row.identity {
        Identity::None => intend(row, seen, Reason::RecordingIdentity),
        Identity::Found => stay(Reason::RecordingObservation).requeue(Requeue::Now),
        Identity::Lost | Identity::Malformed => match (seen.search, row.identity) {
            (Search::Unknown, _) => stay(Reason::OwnershipSearchFailed),
            (Search::One, _) => stay(Reason::RecordingObservation).requeue(Requeue::Now),
            (Search::Several, _) => stay(Reason::OwnershipAmbiguous),
            // What a driver of the lost ledger sent may not be there yet.
            (Search::None, Identity::Lost) if row.grace_over == GraceOver::No => {
                stay(Reason::InFlightGrace).requeue(Requeue::InFlightGrace)
            }
            (Search::None, Identity::Lost) => intend(row, seen, Reason::RecordingIdentity),
            (Search::None, _) => stay(Reason::IdentityMalformed),
        },
        Identity::Abandoned => stay(ending(Outcome::Abandoned)).requeue(Requeue::OnChange),
        Identity::BoundElsewhere => stay(Reason::IdentityForeign).requeue(Requeue::OnChange),
        Identity::Intended | Identity::Seen | Identity::Gone if seen.stamp == Stamp::Stale => {
            Verdict::act(EffectKind::Stamp, row.phase, Reason::StampingIdentity)
        }
        // A resource has one identity, so that the result of an older request is always found.
        Identity::Intended | Identity::Seen | Identity::Gone | Identity::Foreign
            if seen.refs == Refs::Differs =>
        {
            stay(Reason::IdentityChanged)
        }
        Identity::Intended => create(row, seen),
        Identity::Seen => keep(row, seen),
        Identity::Gone => recreate(row, seen),
        Identity::Foreign => step_aside(row, seen),
    }
}

/// Records the identity that the spec resolves to.
fn intend(row: RowFacts, seen: Facts, reason: Reason) -> Verdict {
    if seen.refs.resolves() {
        Verdict::wait(Phase::Pending, Requeue::Now, reason).change_record(RecordChange::Intend)
    } else {
        Verdict::wait(row.phase, Requeue::Poll, unresolved(seen.refs))
    }
}

/// The identity is on record and on the object: now the cloud object may be created.
fn create(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    match seen.cloud.presence() {
        None => return unanswered(row.phase, seen.cloud),
        Some(CloudPresence::Nothing) => {}
        Some(CloudPresence::NoContainer) => return stay(Reason::ParentGone),
        Some(CloudPresence::Foreign) => return stay(Reason::NameTakenByAnother),
        Some(CloudPresence::Leaving) => return stay(Reason::DeletedByAnother),
        Some(CloudPresence::Ours | CloudPresence::Drifted | CloudPresence::Unrecorded) => {
            return stay(Reason::RecordingObservation).requeue(Requeue::Now);
        }
    }
    let creating = |requeue, reason| Verdict::wait(Phase::Creating, requeue, reason);
    match (seen.operation, seen.refs) {
        (Operation::Running, _) => creating(Requeue::Poll, Reason::WaitingForOperation),
        (Operation::Unknown, _) => stay(Reason::OperationStatusUnknown),
        (Operation::Failed, _) => {
            creating(Requeue::Slow, Reason::CreateFailed).change_record(RecordChange::Again)
        }
        (Operation::None, Refs::Agrees) => {
            Verdict::act(EffectKind::Create, Phase::Creating, Reason::Creating)
        }
        (Operation::None, refs) => stay(unresolved(refs)),
    }
}

/// The cloud object was seen: it is kept as declared.
fn keep(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    match seen.cloud.presence() {
        None => return unanswered(row.phase, seen.cloud),
        Some(CloudPresence::Ours | CloudPresence::Drifted) => {}
        Some(CloudPresence::Leaving) => return stay(Reason::DeletedByAnother),
        Some(
            CloudPresence::Unrecorded
            | CloudPresence::Nothing
            | CloudPresence::NoContainer
            | CloudPresence::Foreign,
        ) => {
            return stay(Reason::RecordingObservation).requeue(Requeue::Now);
        }
    }
    if !seen.refs.resolves() {
        return stay(unresolved(seen.refs));
    }
    let update = |reason| Verdict::act(EffectKind::Update, row.phase, reason);
    match (seen.operation, seen.cloud) {
        (Operation::Running, _) => stay(Reason::WaitingForOperation),
        (Operation::Failed, Cloud::Drifted) => update(Reason::UpdateFailed).requeue(Requeue::Slow),
        (Operation::None | Operation::Unknown, Cloud::Drifted) => update(Reason::CorrectingDrift),
        (Operation::None | Operation::Failed | Operation::Unknown, _) => {
            if row.phase == Phase::Ready {
                Verdict::wait(Phase::Ready, Requeue::OnChange, Reason::AsDeclared)
            } else {
                Verdict::emit(EventKind::Ready, Phase::Ready, Reason::AsDeclared)
                    .requeue(Requeue::OnChange)
            }
        }
    }
}

/// What was there is gone: it is made again, as a new one.
fn recreate(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    match seen.cloud.presence() {
        None => unanswered(row.phase, seen.cloud),
        Some(CloudPresence::Foreign) => stay(Reason::NameTakenByAnother),
        Some(CloudPresence::NoContainer) => stay(Reason::ParentGone),
        Some(CloudPresence::Nothing) => match seen.operation {
            Operation::Running => stay(Reason::WaitingForOperation),
            Operation::Unknown => stay(Reason::OperationStatusUnknown),
            Operation::None | Operation::Failed => intend(row, seen, Reason::Recreating),
        },
        Some(
            CloudPresence::Ours
            | CloudPresence::Drifted
            | CloudPresence::Unrecorded
            | CloudPresence::Leaving,
        ) => stay(Reason::RecordingObservation).requeue(Requeue::Now),
    }
}

/// The name is taken by a foreign object: only its deletion helps.
fn step_aside(row: RowFacts, seen: Facts) -> Verdict {
    match seen.cloud.presence() {
        None => unanswered(row.phase, seen.cloud),
        Some(_) => Verdict::wait(row.phase, Requeue::Poll, Reason::NameTakenByAnother),
    }
}

/// It ended: what a late request creates is deleted, for as long as one may arrive, and an object
/// that a restore re-creates is released.
fn watch(row: RowFacts, seen: Facts) -> Verdict {
    if row.identity == Identity::Seen {
        return take_back(seen);
    }
    let rest = |requeue, reason| Verdict::wait(Phase::Deleted, requeue, reason);
    match (seen.object, row.grace_over) {
        (Object::Leaving, _) if row.ended == Ended::Yes => {
            let reason = Reason::RemovingFinalizer;
            Verdict::act(EffectKind::RemoveFinalizer, Phase::Deleted, reason)
        }
        (Object::Unheld | Object::Held, GraceOver::No) => {
            rest(Requeue::Watch, Reason::DeletionTimestampLost)
        }
        // A late request may still create an object.
        (_, GraceOver::Yes) if seen.operation == Operation::Running => {
            rest(Requeue::Poll, Reason::WaitingForOperation)
        }
        (_, GraceOver::Yes) if seen.operation == Operation::Unknown => {
            rest(Requeue::Slow, Reason::OperationStatusUnknown)
        }
        (Object::Unheld | Object::Held, GraceOver::Yes) => {
            rest(Requeue::OnChange, Reason::DeletionTimestampLost)
        }
        // The wake-up may mean that it reappeared.
        (Object::Unknown, GraceOver::Yes) => rest(Requeue::Slow, Reason::ObjectUnreadable),
        (Object::Leaving | Object::Free | Object::Gone, GraceOver::Yes) => {
            rest(Requeue::Never, Reason::Gone)
        }
        (Object::Leaving | Object::Free | Object::Gone | Object::Unknown, GraceOver::No) => {
            match seen.cloud.presence() {
                None => unanswered(Phase::Deleted, seen.cloud),
                Some(_) => rest(Requeue::Watch, Reason::Gone),
            }
        }
    }
}

/// A late request created it again after the end.
fn take_back(seen: Facts) -> Verdict {
    let poll = |reason| Verdict::wait(Phase::Deleted, Requeue::Poll, reason);
    match seen.cloud.presence() {
        None => unanswered(Phase::Deleted, seen.cloud),
        Some(CloudPresence::Ours | CloudPresence::Drifted | CloudPresence::Unrecorded) => {
            Verdict::act(EffectKind::Delete, Phase::Deleted, Reason::DeletingLateCreation)
        }
        Some(CloudPresence::Leaving) => poll(Reason::WaitingForDeletion),
        Some(CloudPresence::Nothing | CloudPresence::NoContainer | CloudPresence::Foreign) => {
            poll(Reason::NamesNotYetGone)
        }
    }
}

/// The end is recorded first; the finalizer is removed in a later step.
fn end(outcome: Outcome) -> Verdict {
    Verdict::wait(Phase::Deleting, Requeue::Now, ending(outcome))
        .change_record(RecordChange::End(outcome))
}

/// Which cloud object it is cannot be said: the policy decides.
fn orphan(seen: Facts, why: Reason) -> Verdict {
    match seen.policy {
        Policy::Hold | Policy::Unreadable => wait(why),
        Policy::Release => end(Outcome::OrphanReleased),
        Policy::Abandon => end(Outcome::Abandoned),
    }
}

fn delete(reason: Reason) -> Verdict {
    Verdict::act(EffectKind::Delete, Phase::Deleting, reason)
}

fn wait(reason: Reason) -> Verdict {
    Verdict::wait(Phase::Deleting, Requeue::Poll, reason)
}

/// Whether the cloud says that no object of ours exists.
fn is_absent(cloud: Cloud) -> bool {
    matches!(cloud, Cloud::Absent | Cloud::ContainerGone | Cloud::Foreign)
}

fn absent(asked: Asked) -> Outcome {
    match asked {
        Asked::Yes => Outcome::Deleted,
        Asked::No => Outcome::AlreadyAbsent,
    }
}

fn ending(outcome: Outcome) -> Reason {
    match outcome {
        Outcome::Deleted => Reason::Deleted,
        Outcome::AlreadyAbsent => Reason::AlreadyAbsent,
        Outcome::Abandoned => Reason::Abandoned,
        Outcome::OrphanReleased => Reason::OrphanReleased,
        Outcome::NotOurs => Reason::OwnedByAnother,
    }
}

/// Requeues on an answer that does not count. Not queried counts as no answer.
fn unanswered(phase: Phase, cloud: Cloud) -> Verdict {
    let (requeue, reason) = match cloud {
        Cloud::Forbidden => (Requeue::Poll, Reason::CloudForbidden),
        Cloud::Throttled => (Requeue::Throttle, Reason::CloudThrottled),
        Cloud::Lagging => (Requeue::Poll, Reason::CloudLagging),
        Cloud::Vanished => (Requeue::Poll, Reason::MassDeletionGuardTripped),
        Cloud::Unasked
        | Cloud::Unavailable
        | Cloud::Absent
        | Cloud::ContainerGone
        | Cloud::Ours
        | Cloud::Drifted
        | Cloud::Unrecorded
        | Cloud::Leaving
        | Cloud::Foreign => (Requeue::Poll, Reason::CloudUnavailable),
    };
    Verdict::wait(phase, requeue, reason)
}

/// Why references do not resolve. Not queried counts as not read.
fn unresolved(refs: Refs) -> Reason {
    match refs {
        Refs::Invalid => Reason::ReferenceInvalid,
        Refs::NotFound => Reason::ReferenceNotFound,
        Refs::Terminating => Reason::ReferenceTerminating,
        Refs::NotReady => Reason::ReferenceNotReady,
        Refs::KindNotInstalled => Reason::ReferenceKindNotInstalled,
        Refs::Forbidden => Reason::ReferenceForbidden,
        Refs::Unasked | Refs::Agrees | Refs::Differs | Refs::Unavailable => {
            Reason::ReferenceUnavailable
        }
    }
}
