//! What happens next to a direct resource, and why.
//!
//! One pure, total function from facts to a verdict, in two arms: *converge* brings the cloud
//! object in, *tear down* shows it out. The transition table beside this crate says the same by
//! hand, cell by cell.
//!
//! **Invariants**
//! - Deletion is decided in the order own finalizer, hold, policy, identity, cloud. Whoever
//!   abandons needs nothing else, and an identity on record needs no reference.
//! - No end and no destroying effect depends on a part that is unknown.
//! - Nothing is created before its identity is on record and on the object.
//! - What is somebody else's is never touched, and a copy never acts.

use super::facts::{
    Asked, Cloud, Ended, Facts, Hold, Identity, Object, Operation, Policy, Quiet, Refs, RowFacts,
    Search, Stamp,
};
use super::phase::Phase;
use super::proof::Outcome;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, Rest, Turn, Verdict};

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase == Phase::Deleted {
        return watch(row, seen);
    }
    match seen.object {
        Object::Unknown => Verdict::rest(row.phase, Rest::Poll, Reason::ObjectUnknown),
        Object::Free | Object::Gone => let_go(row),
        Object::Leaving => tear_down(row, seen),
        Object::Unheld | Object::Held => converge(row, seen),
    }
}

/// The object is out of our hands: its end is told, and what may be left is on record.
fn let_go(row: RowFacts) -> Verdict {
    let told = |reason| Verdict::telling(EventKind::Deleted, Phase::Deleted, reason);
    if row.ended == Ended::Yes {
        return told(Reason::Gone).resting(Rest::Watch);
    }
    let outcome = match row.identity {
        Identity::None => Outcome::AlreadyAbsent,
        Identity::Gone => absent(row.asked),
        Identity::Foreign | Identity::BoundElsewhere => Outcome::NotOurs,
        Identity::Abandoned => Outcome::Abandoned,
        Identity::Lost | Identity::Intended | Identity::Seen | Identity::Malformed => {
            Outcome::OrphanReleased
        }
    };
    told(ending(outcome)).turning(Turn::End(outcome)).resting(Rest::Watch)
}

/// The teardown arm: there is no way back from here.
fn tear_down(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase != Phase::Deleting {
        return Verdict::telling(EventKind::Deleting, Phase::Deleting, Reason::DeletionSeen);
    }
    if row.ended == Ended::Yes {
        let reason = Reason::RemovingFinalizer;
        return Verdict::doing(EffectKind::RemoveFinalizer, Phase::Deleting, reason);
    }
    if seen.hold == Hold::Somebody {
        return wait(Reason::Held);
    }
    match seen.policy {
        Policy::Unreadable => return wait(Reason::PolicyUnreadable),
        Policy::Abandon => return end(Outcome::Abandoned),
        Policy::Hold | Policy::Release => {}
    }
    match row.identity {
        Identity::None => end(Outcome::AlreadyAbsent),
        Identity::BoundElsewhere => end(Outcome::NotOurs),
        Identity::Abandoned => end(Outcome::Abandoned),
        Identity::Lost | Identity::Malformed => climb(row, seen),
        Identity::Intended | Identity::Seen | Identity::Gone | Identity::Foreign => {
            remove(row, seen)
        }
    }
}

/// Nothing is on record: the search by our mark, and then the spec, may say what it was.
fn climb(row: RowFacts, seen: Facts) -> Verdict {
    match seen.search {
        Search::Unknown => return wait(Reason::SearchUnknown),
        Search::One => return wait(Reason::Recording).resting(Rest::Now),
        Search::Several => return orphan(seen, Reason::OwnershipAmbiguous),
        Search::None => {}
    }
    let why = match row.identity {
        Identity::Malformed => Reason::IdentityMalformed,
        Identity::None
        | Identity::Lost
        | Identity::Intended
        | Identity::Seen
        | Identity::Gone
        | Identity::Foreign
        | Identity::BoundElsewhere
        | Identity::Abandoned => Reason::Orphaned,
    };
    match seen.refs {
        // That a parent is not there was answered; that its child is not there was not.
        Refs::NotFound | Refs::Invalid => return orphan(seen, why),
        Refs::Agrees | Refs::Differs => {}
        Refs::Unasked
        | Refs::Terminating
        | Refs::NotReady
        | Refs::KindNotInstalled
        | Refs::Forbidden
        | Refs::Unavailable => return wait(unresolved(seen.refs)),
    }
    match seen.cloud {
        Cloud::Absent | Cloud::ContainerGone => {
            settle(row, seen).unwrap_or_else(|| end(Outcome::AlreadyAbsent))
        }
        Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded | Cloud::Leaving => {
            wait(Reason::Recording).resting(Rest::Now)
        }
        Cloud::Foreign => orphan(seen, why),
        Cloud::Unasked
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished => blind(Phase::Deleting, seen.cloud),
    }
}

/// An identity is on record: what stands under it goes, and is seen to be gone.
fn remove(row: RowFacts, seen: Facts) -> Verdict {
    match seen.cloud {
        Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded => match (row.identity, seen.operation) {
            (_, Operation::Running) => wait(Reason::WaitingForOperation),
            (Identity::Seen, Operation::Failed) => delete(Reason::DeleteFailed).resting(Rest::Slow),
            (Identity::Seen, Operation::None | Operation::Unknown) => {
                delete(Reason::DeletingObject)
            }
            (_, Operation::None | Operation::Failed | Operation::Unknown) => {
                wait(Reason::Recording).resting(Rest::Now)
            }
        },
        Cloud::Leaving => wait(Reason::WaitingForDeletion),
        Cloud::Absent | Cloud::ContainerGone | Cloud::Foreign => {
            settle(row, seen).unwrap_or_else(|| match row.identity {
                Identity::Gone => end(absent(row.asked)),
                Identity::Foreign => end(Outcome::NotOurs),
                Identity::None
                | Identity::Lost
                | Identity::Intended
                | Identity::Seen
                | Identity::BoundElsewhere
                | Identity::Malformed
                | Identity::Abandoned => wait(Reason::UnsettledRows),
            })
        }
        Cloud::Unasked
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished => blind(Phase::Deleting, seen.cloud),
    }
}

/// Why absence does not count yet: something of ours may still be on its way.
fn settle(row: RowFacts, seen: Facts) -> Option<Verdict> {
    match seen.operation {
        Operation::Running => return Some(wait(Reason::WaitingForOperation)),
        Operation::Unknown => return Some(wait(Reason::OperationUnknown)),
        Operation::None | Operation::Failed => {}
    }
    match row.quiet {
        Quiet::No => Some(wait(Reason::QuietTime).resting(Rest::Quiet)),
        Quiet::Yes => None,
    }
}

/// The converge arm.
fn converge(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::rest(row.phase, Rest::Poll, reason);
    // A deletion is never taken back: a cluster that forgot it was restored.
    if row.phase == Phase::Deleting || row.ended == Ended::Yes {
        return stay(Reason::DeletionForgotten).resting(Rest::OnChange);
    }
    if row.identity == Identity::BoundElsewhere {
        return stay(Reason::IdentityForeign).resting(Rest::OnChange);
    }
    if seen.object == Object::Unheld {
        return Verdict::doing(EffectKind::AddFinalizer, row.phase, Reason::AddingFinalizer);
    }
    match row.identity {
        Identity::None => intend(row, seen, Reason::RecordingIdentity),
        Identity::Lost | Identity::Malformed => match (seen.search, row.identity) {
            (Search::Unknown, _) => stay(Reason::SearchUnknown),
            (Search::One, _) => stay(Reason::Recording).resting(Rest::Now),
            (Search::Several, _) => stay(Reason::OwnershipAmbiguous),
            (Search::None, Identity::Lost) => intend(row, seen, Reason::RecordingIdentity),
            (Search::None, _) => stay(Reason::IdentityMalformed),
        },
        Identity::Abandoned => stay(ending(Outcome::Abandoned)).resting(Rest::OnChange),
        Identity::BoundElsewhere => stay(Reason::IdentityForeign).resting(Rest::OnChange),
        Identity::Intended | Identity::Seen | Identity::Gone if seen.stamp == Stamp::Stale => {
            Verdict::doing(EffectKind::Stamp, row.phase, Reason::Stamping)
        }
        Identity::Intended => create(row, seen),
        Identity::Seen => keep(row, seen),
        Identity::Gone => recreate(row, seen),
        Identity::Foreign => step_aside(row, seen),
    }
}

/// Records the identity that the spec stands for.
fn intend(row: RowFacts, seen: Facts, reason: Reason) -> Verdict {
    match seen.refs {
        Refs::Agrees | Refs::Differs => {
            Verdict::rest(Phase::Pending, Rest::Now, reason).turning(Turn::Intend)
        }
        Refs::Unasked
        | Refs::Invalid
        | Refs::NotFound
        | Refs::Terminating
        | Refs::NotReady
        | Refs::KindNotInstalled
        | Refs::Forbidden
        | Refs::Unavailable => Verdict::rest(row.phase, Rest::Poll, unresolved(seen.refs)),
    }
}

/// The identity is on record and on the object: now the cloud object may be created.
fn create(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::rest(row.phase, Rest::Poll, reason);
    if seen.refs == Refs::Differs {
        return stay(Reason::IdentityChanged);
    }
    match seen.cloud {
        Cloud::Absent => {}
        Cloud::ContainerGone => return stay(Reason::ContainerGone),
        Cloud::Foreign => return stay(Reason::NameTaken),
        Cloud::Leaving => return stay(Reason::LeavingUnasked),
        Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded => {
            return stay(Reason::Recording).resting(Rest::Now);
        }
        Cloud::Unasked
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished => return blind(row.phase, seen.cloud),
    }
    let creating = |rest, reason| Verdict::rest(Phase::Creating, rest, reason);
    match (seen.operation, seen.refs) {
        (Operation::Running, _) => creating(Rest::Poll, Reason::WaitingForOperation),
        (Operation::Unknown, _) => stay(Reason::OperationUnknown),
        (Operation::Failed, _) => creating(Rest::Slow, Reason::CreateFailed).turning(Turn::Again),
        (Operation::None, Refs::Agrees) => {
            Verdict::doing(EffectKind::Create, Phase::Creating, Reason::Creating)
        }
        (Operation::None, refs) => stay(unresolved(refs)),
    }
}

/// The cloud object was seen: it is kept as declared.
fn keep(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::rest(row.phase, Rest::Poll, reason);
    match seen.cloud {
        Cloud::Ours | Cloud::Drifted => {}
        Cloud::Leaving => return stay(Reason::LeavingUnasked),
        Cloud::Unrecorded | Cloud::Absent | Cloud::ContainerGone | Cloud::Foreign => {
            return stay(Reason::Recording).resting(Rest::Now);
        }
        Cloud::Unasked
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished => return blind(row.phase, seen.cloud),
    }
    match seen.refs {
        Refs::Agrees => {}
        Refs::Differs => return stay(Reason::IdentityChanged),
        Refs::Unasked
        | Refs::Invalid
        | Refs::NotFound
        | Refs::Terminating
        | Refs::NotReady
        | Refs::KindNotInstalled
        | Refs::Forbidden
        | Refs::Unavailable => return stay(unresolved(seen.refs)),
    }
    let update = |reason| Verdict::doing(EffectKind::Update, row.phase, reason);
    match (seen.operation, seen.cloud) {
        (Operation::Running, _) => stay(Reason::WaitingForOperation),
        (Operation::Failed, Cloud::Drifted) => update(Reason::UpdateFailed).resting(Rest::Slow),
        (Operation::None | Operation::Unknown, Cloud::Drifted) => update(Reason::Correcting),
        (Operation::None | Operation::Failed | Operation::Unknown, _) => {
            if row.phase == Phase::Ready {
                Verdict::rest(Phase::Ready, Rest::OnChange, Reason::Steady)
            } else {
                Verdict::telling(EventKind::Ready, Phase::Ready, Reason::Steady)
                    .resting(Rest::OnChange)
            }
        }
    }
}

/// What was there is gone: it is made again, as a new one.
fn recreate(row: RowFacts, seen: Facts) -> Verdict {
    let stay = |reason| Verdict::rest(row.phase, Rest::Poll, reason);
    match (seen.cloud, seen.refs) {
        (Cloud::Foreign | Cloud::ContainerGone, Refs::Differs) => {
            intend(row, seen, Reason::Recreating)
        }
        (Cloud::Foreign, _) => stay(Reason::NameTaken),
        (Cloud::ContainerGone, _) => stay(Reason::ContainerGone),
        (Cloud::Absent, _) => match seen.operation {
            Operation::Running => stay(Reason::WaitingForOperation),
            Operation::Unknown => stay(Reason::OperationUnknown),
            Operation::None | Operation::Failed => intend(row, seen, Reason::Recreating),
        },
        (Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded | Cloud::Leaving, _) => {
            stay(Reason::Recording).resting(Rest::Now)
        }
        (
            Cloud::Unasked
            | Cloud::Forbidden
            | Cloud::Throttled
            | Cloud::Unavailable
            | Cloud::Lagging
            | Cloud::Vanished,
            _,
        ) => blind(row.phase, seen.cloud),
    }
}

/// The name is somebody else's: only another spec, or their leaving, helps.
fn step_aside(row: RowFacts, seen: Facts) -> Verdict {
    match (seen.refs, seen.cloud) {
        (Refs::Differs, _) => intend(row, seen, Reason::RecordingIdentity),
        (
            _,
            Cloud::Unasked
            | Cloud::Forbidden
            | Cloud::Throttled
            | Cloud::Unavailable
            | Cloud::Lagging
            | Cloud::Vanished,
        ) => blind(row.phase, seen.cloud),
        (
            _,
            Cloud::Absent
            | Cloud::ContainerGone
            | Cloud::Ours
            | Cloud::Drifted
            | Cloud::Unrecorded
            | Cloud::Leaving
            | Cloud::Foreign,
        ) => Verdict::rest(row.phase, Rest::Poll, Reason::NameTaken),
    }
}

/// It ended: what a late driver brings back is taken away, for as long as one may be heard.
fn watch(row: RowFacts, seen: Facts) -> Verdict {
    let back = row.identity == Identity::Seen;
    let poll = |reason| Verdict::rest(Phase::Deleted, Rest::Poll, reason);
    match seen.cloud {
        Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded if back => {
            Verdict::doing(EffectKind::Delete, Phase::Deleted, Reason::RemovingLate)
        }
        Cloud::Leaving if back => poll(Reason::WaitingForDeletion),
        Cloud::Absent | Cloud::ContainerGone | Cloud::Foreign if back => {
            poll(Reason::UnsettledRows)
        }
        Cloud::Unasked
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished
            if back || row.quiet == Quiet::No =>
        {
            blind(Phase::Deleted, seen.cloud)
        }
        Cloud::Unasked
        | Cloud::Absent
        | Cloud::ContainerGone
        | Cloud::Ours
        | Cloud::Drifted
        | Cloud::Unrecorded
        | Cloud::Leaving
        | Cloud::Foreign
        | Cloud::Forbidden
        | Cloud::Throttled
        | Cloud::Unavailable
        | Cloud::Lagging
        | Cloud::Vanished => {
            let rest = if row.quiet == Quiet::Yes { Rest::Never } else { Rest::Watch };
            Verdict::rest(Phase::Deleted, rest, Reason::Gone)
        }
    }
}

/// The end is recorded first; the finalizer goes in a later step.
fn end(outcome: Outcome) -> Verdict {
    Verdict::rest(Phase::Deleting, Rest::Now, ending(outcome)).turning(Turn::End(outcome))
}

/// Nobody can say which cloud object it is: the policy decides.
fn orphan(seen: Facts, why: Reason) -> Verdict {
    match seen.policy {
        Policy::Hold | Policy::Unreadable => wait(why),
        Policy::Release => end(Outcome::OrphanReleased),
        Policy::Abandon => end(Outcome::Abandoned),
    }
}

fn delete(reason: Reason) -> Verdict {
    Verdict::doing(EffectKind::Delete, Phase::Deleting, reason)
}

fn wait(reason: Reason) -> Verdict {
    Verdict::rest(Phase::Deleting, Rest::Poll, reason)
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
        Outcome::NotOurs => Reason::NotOurs,
    }
}

/// Rests on an answer that does not count. Nobody asked counts as no answer.
fn blind(phase: Phase, cloud: Cloud) -> Verdict {
    let (rest, reason) = match cloud {
        Cloud::Forbidden => (Rest::Poll, Reason::CloudForbidden),
        Cloud::Throttled => (Rest::Throttle, Reason::CloudThrottled),
        Cloud::Lagging => (Rest::Poll, Reason::CloudLagging),
        Cloud::Vanished => (Rest::Poll, Reason::RailTripped),
        Cloud::Unasked
        | Cloud::Unavailable
        | Cloud::Absent
        | Cloud::ContainerGone
        | Cloud::Ours
        | Cloud::Drifted
        | Cloud::Unrecorded
        | Cloud::Leaving
        | Cloud::Foreign => (Rest::Poll, Reason::CloudUnavailable),
    };
    Verdict::rest(phase, rest, reason)
}

/// Why references do not resolve. Nobody asked counts as not read.
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
