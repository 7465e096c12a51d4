//! What happens next to a ProviderConfig, and why.

use usher_kernel::{Requeue, Visibility};

use super::facts::{Facts, Object, Phase, RecordChange, RowFacts, Users, VerbKind, Verdict};
use super::reason::Reason;
use crate::broker::facts::{Anchor, Finalization, Gate};

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    match (row.phase, row.users) {
        (Phase::Pending | Phase::Ready, Users::None) => {
            Verdict::wait(Phase::Leaving, Requeue::Now, Reason::NoUsers)
        }
        (Phase::Pending | Phase::Ready, Users::Some) => converge(row, seen),
        (Phase::Leaving | Phase::Gone, _) => leave(row, seen),
    }
}

fn converge(row: RowFacts, seen: Facts) -> Verdict {
    if seen.visibility == Visibility::ClusterReplaced {
        return Verdict::wait(row.phase, Requeue::Poll, Reason::ClusterReplaced);
    }
    let pending = |rest, reason| Verdict::wait(Phase::Pending, rest, reason);
    match seen.object {
        Object::Unknown => {
            Verdict::wait(row.phase, Requeue::Poll, seen.visibility.unknown_reason())
        }
        Object::Foreign => pending(Requeue::Poll, Reason::NameTakenByAnother),
        Object::Deleting => pending(Requeue::Poll, Reason::DeletedByAnother),
        Object::Unrecorded => pending(Requeue::Now, Reason::RecordingIdentity),
        Object::Present => Verdict::wait(Phase::Ready, Requeue::OnChange, Reason::AsDeclared),
        Object::Drifted => keep(row, seen),
        Object::Absent
            if row.phase == Phase::Ready && seen.visibility == Visibility::GuardTripped =>
        {
            Verdict::wait(Phase::Ready, Requeue::Poll, Reason::MassDeletionGuardTripped)
        }
        Object::Absent => create(seen),
    }
}

/// gate → anchor → Apply.
fn create(seen: Facts) -> Verdict {
    let pending = |rest, reason| Verdict::wait(Phase::Pending, rest, reason);
    match seen.gate {
        Gate::NotReady => return pending(Requeue::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return pending(Requeue::Poll, seen.visibility.unknown_reason()),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => pending(Requeue::Poll, seen.visibility.unknown_reason()),
        Anchor::Absent => {
            Verdict::act(VerbKind::CreateAnchor, Phase::Pending, Reason::CreatingAnchor)
        }
        Anchor::Unrecorded => pending(Requeue::Now, Reason::RecordingIdentity),
        Anchor::Leaving => {
            Verdict::act(VerbKind::DeleteAnchor, Phase::Pending, Reason::DeletingAnchor)
        }
        Anchor::Foreign => pending(Requeue::Poll, Reason::AnchorNameTakenByAnother),
        Anchor::Ours => Verdict::act(VerbKind::Apply, Phase::Pending, Reason::Creating),
    }
}

/// Writes again what drifted or is missing. Resources that could refer to it still can; a
/// ProviderConfig that never was complete is not Ready before it is.
fn keep(row: RowFacts, seen: Facts) -> Verdict {
    let hold = |rest, reason| Verdict::wait(row.phase, rest, reason);
    match seen.gate {
        Gate::NotReady => return hold(Requeue::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return hold(Requeue::Poll, seen.visibility.unknown_reason()),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => hold(Requeue::Poll, seen.visibility.unknown_reason()),
        Anchor::Absent | Anchor::Foreign => hold(Requeue::Poll, Reason::AnchorLost),
        Anchor::Unrecorded => hold(Requeue::Now, Reason::RecordingIdentity),
        // Held by our finalizer, an anchor being deleted still owns the objects under it.
        Anchor::Ours | Anchor::Leaving => {
            Verdict::act(VerbKind::Apply, row.phase, Reason::CorrectingDrift)
        }
    }
}

/// objects → in-flight grace → anchor → gone. What reappears after that is torn down again.
fn leave(row: RowFacts, seen: Facts) -> Verdict {
    let hold = |reason| Verdict::wait(row.phase, Requeue::Poll, reason);
    if seen.visibility == Visibility::ClusterReplaced {
        return hold(Reason::ClusterReplaced);
    }
    match seen.object {
        Object::Unknown => return hold(seen.visibility.unknown_reason()),
        Object::Present | Object::Drifted | Object::Unrecorded => {
            return Verdict::act(VerbKind::Delete, row.phase, Reason::Deleting);
        }
        Object::Deleting => return hold(Reason::WaitingForDeletion),
        Object::Absent | Object::Foreign => {}
    }
    if row.finalization == Finalization::InFlight {
        return Verdict::wait(row.phase, Requeue::InFlightGrace, Reason::InFlightGrace);
    }
    match seen.anchor {
        Anchor::Unknown => return hold(seen.visibility.unknown_reason()),
        // One that is being deleted is held by our finalizer: the same verb releases it.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            return Verdict::act(VerbKind::DeleteAnchor, row.phase, Reason::DeletingAnchor);
        }
        Anchor::Absent | Anchor::Foreign => {}
    }
    match (row.finalization, row.users) {
        (Finalization::InFlight | Finalization::Open, _) => hold(Reason::NamesNotYetGone),
        (Finalization::Settled, Users::None) => {
            Verdict::wait(Phase::Gone, Requeue::OnChange, Reason::Gone)
        }
        (Finalization::Settled, Users::Some) => {
            Verdict::wait(Phase::Pending, Requeue::Now, Reason::GenerationReplaced)
                .change_record(RecordChange::NextGeneration)
        }
    }
}
