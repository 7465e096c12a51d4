//! What happens next to a ProviderConfig, and why.

use super::facts::{Facts, Object, Phase, Reason, Rest, RowFacts, Users, VerbKind, Verdict};
use crate::broker::facts::{Anchor, Closing, Gate, Sight};

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    match (row.phase, row.users) {
        (Phase::Pending | Phase::Ready, Users::None) => {
            Verdict::rest(Phase::Leaving, Rest::Now, Reason::NoUsers)
        }
        (Phase::Pending | Phase::Ready, Users::Some) => converge(row, seen),
        (Phase::Leaving | Phase::Gone, _) => leave(row, seen),
    }
}

fn converge(row: RowFacts, seen: Facts) -> Verdict {
    if seen.sight == Sight::ClusterReplaced {
        return Verdict::rest(row.phase, Rest::Poll, Reason::ClusterReplaced);
    }
    let pending = |rest, reason| Verdict::rest(Phase::Pending, rest, reason);
    match seen.object {
        Object::Unknown => Verdict::rest(row.phase, Rest::Poll, sightless(seen.sight)),
        Object::Foreign => pending(Rest::Poll, Reason::NameTaken),
        Object::Deleting => pending(Rest::Poll, Reason::LeavingUnasked),
        Object::Unrecorded => pending(Rest::Now, Reason::Recording),
        Object::Present => Verdict::rest(Phase::Ready, Rest::OnChange, Reason::Steady),
        Object::Drifted => keep(row, seen),
        Object::Absent if row.phase == Phase::Ready && seen.sight == Sight::RailTripped => {
            Verdict::rest(Phase::Ready, Rest::Poll, Reason::RailTripped)
        }
        Object::Absent => create(seen),
    }
}

/// gate → anchor → Apply.
fn create(seen: Facts) -> Verdict {
    let pending = |rest, reason| Verdict::rest(Phase::Pending, rest, reason);
    match seen.gate {
        Gate::NotReady => return pending(Rest::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return pending(Rest::Poll, sightless(seen.sight)),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => pending(Rest::Poll, sightless(seen.sight)),
        Anchor::Absent => {
            Verdict::doing(VerbKind::CreateAnchor, Phase::Pending, Reason::CreatingAnchor)
        }
        Anchor::Unrecorded => pending(Rest::Now, Reason::Recording),
        Anchor::Leaving => {
            Verdict::doing(VerbKind::DeleteAnchor, Phase::Pending, Reason::DeletingAnchor)
        }
        Anchor::Foreign => pending(Rest::Poll, Reason::AnchorNameTaken),
        Anchor::Ours => Verdict::doing(VerbKind::Apply, Phase::Pending, Reason::Creating),
    }
}

/// Writes again what drifted or is missing. Whoever could refer to it still can; a ProviderConfig
/// that never was complete is not Ready before it is.
fn keep(row: RowFacts, seen: Facts) -> Verdict {
    let hold = |rest, reason| Verdict::rest(row.phase, rest, reason);
    match seen.gate {
        Gate::NotReady => return hold(Rest::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return hold(Rest::Poll, sightless(seen.sight)),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => hold(Rest::Poll, sightless(seen.sight)),
        Anchor::Absent | Anchor::Foreign => hold(Rest::Poll, Reason::AnchorLost),
        Anchor::Unrecorded => hold(Rest::Now, Reason::Recording),
        // Held by our finalizer, a leaving anchor still owns what stands under it.
        Anchor::Ours | Anchor::Leaving => {
            Verdict::doing(VerbKind::Apply, row.phase, Reason::Correcting)
        }
    }
}

/// objects → quiet → anchor → gone. What comes back after that is shown out again.
fn leave(row: RowFacts, seen: Facts) -> Verdict {
    let hold = |reason| Verdict::rest(row.phase, Rest::Poll, reason);
    if seen.sight == Sight::ClusterReplaced {
        return hold(Reason::ClusterReplaced);
    }
    match seen.object {
        Object::Unknown => return hold(sightless(seen.sight)),
        Object::Present | Object::Drifted | Object::Unrecorded => {
            return Verdict::doing(VerbKind::Delete, row.phase, Reason::Deleting);
        }
        Object::Deleting => return hold(Reason::WaitingToGo),
        Object::Absent | Object::Foreign => {}
    }
    if row.closing == Closing::Quiet {
        return Verdict::rest(row.phase, Rest::Quiet, Reason::QuietTime);
    }
    match seen.anchor {
        Anchor::Unknown => return hold(sightless(seen.sight)),
        // One that is on its way out is held by our finalizer: the same verb lets it go.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            return Verdict::doing(VerbKind::DeleteAnchor, row.phase, Reason::DeletingAnchor);
        }
        Anchor::Absent | Anchor::Foreign => {}
    }
    match (row.closing, row.users) {
        (Closing::Quiet | Closing::Open, _) => hold(Reason::UnsettledRows),
        (Closing::Settled, Users::None) => Verdict::rest(Phase::Gone, Rest::OnChange, Reason::Gone),
        (Closing::Settled, Users::Some) => Verdict {
            next_generation: true,
            ..Verdict::rest(Phase::Pending, Rest::Now, Reason::GenerationReplaced)
        },
    }
}

fn sightless(sight: Sight) -> Reason {
    match sight {
        Sight::Clear | Sight::Unreachable => Reason::Unreachable,
        Sight::Forbidden => Reason::Forbidden,
        Sight::RailTripped => Reason::RailTripped,
        Sight::ClusterReplaced => Reason::ClusterReplaced,
    }
}
