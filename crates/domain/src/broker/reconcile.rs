//! What happens next to a resource, and why.
//!
//! One pure, total function from facts to a verdict, in two arms: *converge* provisions the
//! resource, *tear down* tears it down. The transition table beside this crate repeats it, cell by
//! cell.
//!
//! **Invariants**
//! - Intent to delete wins over every phase; `Deleted` and `Failed` are sticky.
//! - The node is deregistered before its substrate is deleted; the anchor is deleted last.
//! - No destroying effect and no crossing depends on a part that is unknown.
//! - Phase names decide nothing but stickiness.

use usher_kernel::{Requeue, Visibility};

use super::facts::{
    Anchor, Composed, Config, Facts, Finalization, Gate, GenerationState, Intent, Node, Protection,
    RowFacts, Token, Xr,
};
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, RecordChange, Verdict};
use crate::blueprint::MeshRole;

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase == Phase::Deleted {
        return Verdict::wait(Phase::Deleted, Requeue::Never, Reason::Gone);
    }
    if row.intent == Intent::Requested || row.phase.is_leaving() {
        return tear_down(row, seen);
    }
    if row.phase == Phase::Failed {
        return Verdict::wait(Phase::Failed, Requeue::OnChange, Reason::ProvisioningFailed);
    }
    match row.generation_state {
        GenerationState::Leaving => replace(row, seen),
        GenerationState::Fresh | GenerationState::Live => converge(row, seen),
    }
}

/// The teardown arm: there is no way back from here.
fn tear_down(row: RowFacts, seen: Facts) -> Verdict {
    let stay = if row.phase.is_leaving() { row.phase } else { Phase::Deregistering };
    match next_teardown_step(row, seen) {
        TeardownStep::DrainNode => {
            Verdict::act(EffectKind::DeregisterNode, Phase::Deregistering, Reason::DrainingNode)
        }
        TeardownStep::HoldForNode(reason) => Verdict::wait(stay, Requeue::Poll, reason),
        TeardownStep::Do(effect, reason) => Verdict::act(effect, Phase::Deprovisioning, reason),
        TeardownStep::Hold(rest, reason) => Verdict::wait(Phase::Deprovisioning, rest, reason),
        TeardownStep::Done => {
            Verdict::emit(EventKind::Deleted, Phase::Deleted, Reason::Gone).requeue(Requeue::Never)
        }
    }
}

/// Tears the old generation down, then begins the next one. All of it happens in `Pending`.
fn replace(row: RowFacts, seen: Facts) -> Verdict {
    match next_teardown_step(row, seen) {
        TeardownStep::DrainNode => {
            Verdict::act(EffectKind::DeregisterNode, Phase::Pending, Reason::DrainingNode)
        }
        TeardownStep::HoldForNode(reason) => Verdict::wait(Phase::Pending, Requeue::Poll, reason),
        TeardownStep::Do(effect, reason) => Verdict::act(effect, Phase::Pending, reason),
        TeardownStep::Hold(rest, reason) => Verdict::wait(Phase::Pending, rest, reason),
        TeardownStep::Done => {
            Verdict::wait(Phase::Pending, Requeue::Now, Reason::GenerationReplaced)
                .change_record(RecordChange::Next)
        }
    }
}

/// The next step of a teardown, by command or by replacement.
enum TeardownStep {
    DrainNode,
    HoldForNode(Reason),
    Do(EffectKind, Reason),
    Hold(Requeue, Reason),
    Done,
}

/// node → protection → substrate → composed gone → anchor → done.
fn next_teardown_step(row: RowFacts, seen: Facts) -> TeardownStep {
    match seen.node {
        Node::Unknown => return TeardownStep::HoldForNode(Reason::NodeStateUnknown),
        Node::Live | Node::Lost => return TeardownStep::DrainNode,
        Node::None | Node::Left => {}
    }
    if seen.visibility == Visibility::ClusterReplaced {
        return TeardownStep::Hold(Requeue::Poll, Reason::ClusterReplaced);
    }
    match seen.xr {
        Xr::Unknown => unknown(seen.visibility),
        Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed | Xr::Replaced => {
            delete_substrate(seen)
        }
        Xr::Deleting => TeardownStep::Hold(Requeue::Poll, Reason::WaitingForDeletion),
        Xr::Absent | Xr::Foreign => after_substrate(row, seen),
    }
}

/// The XR is unguarded and what it composed is in the ledger before its deletion is requested.
fn delete_substrate(seen: Facts) -> TeardownStep {
    match seen.protection {
        Protection::Unknown => return unknown(seen.visibility),
        Protection::Ours => {
            return TeardownStep::Do(EffectKind::ReleaseProtection, Reason::ReleasingProtection);
        }
        Protection::Another => return TeardownStep::Hold(Requeue::Poll, Reason::InUse),
        Protection::None => {}
    }
    match seen.composed {
        Composed::Unknown => unknown(seen.visibility),
        Composed::Unrecorded => {
            TeardownStep::Hold(Requeue::Now, Reason::RecordingComposedResources)
        }
        Composed::None | Composed::Present | Composed::KindRemoved => {
            TeardownStep::Do(EffectKind::DeleteSubstrate, Reason::DeletingSubstrate)
        }
    }
}

fn after_substrate(row: RowFacts, seen: Facts) -> TeardownStep {
    match seen.composed {
        Composed::Unknown => return unknown(seen.visibility),
        Composed::Unrecorded | Composed::Present => {
            return TeardownStep::Hold(Requeue::Poll, Reason::WaitingForComposedResources);
        }
        Composed::KindRemoved => return TeardownStep::Hold(Requeue::Poll, Reason::KindRemoved),
        Composed::None => {}
    }
    if row.finalization == Finalization::InFlight {
        return TeardownStep::Hold(Requeue::InFlightGrace, Reason::InFlightGrace);
    }
    match seen.anchor {
        Anchor::Unknown => unknown(seen.visibility),
        // One that is being deleted is held by our finalizer: the same verb releases it.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            TeardownStep::Do(EffectKind::DeleteAnchor, Reason::DeletingAnchor)
        }
        Anchor::Absent | Anchor::Foreign => match row.finalization {
            Finalization::Settled => TeardownStep::Done,
            Finalization::Open | Finalization::InFlight => {
                TeardownStep::Hold(Requeue::Poll, Reason::NamesNotYetGone)
            }
        },
    }
}

/// The converge arm.
fn converge(row: RowFacts, seen: Facts) -> Verdict {
    if seen.visibility == Visibility::ClusterReplaced {
        return Verdict::wait(row.phase, Requeue::Poll, Reason::ClusterReplaced);
    }
    match seen.xr {
        Xr::Failed => Verdict::emit(EventKind::Failed, Phase::Failed, Reason::ProvisioningFailed)
            .change_record(RecordChange::To(GenerationState::Live))
            .requeue(Requeue::OnChange),
        Xr::Unknown => Verdict::wait(row.phase, Requeue::Poll, seen.visibility.unknown_reason()),
        Xr::Absent => match row.generation_state {
            GenerationState::Fresh => begin(row, seen),
            GenerationState::Live | GenerationState::Leaving => {
                lose(row, seen, Reason::SubstrateLost)
            }
        },
        Xr::Foreign => match row.generation_state {
            GenerationState::Fresh => {
                Verdict::wait(Phase::Pending, Requeue::Poll, Reason::NameTakenByAnother)
            }
            GenerationState::Live | GenerationState::Leaving => {
                lose(row, seen, Reason::SubstrateReplaced)
            }
        },
        Xr::Replaced => lose(row, seen, Reason::SubstrateReplaced),
        Xr::Deleting => Verdict::wait(row.phase, Requeue::Poll, Reason::SubstrateTerminating)
            .change_record(RecordChange::To(GenerationState::Live)),
        Xr::Converging if row.phase == Phase::Ready => {
            Verdict::wait(Phase::Ready, Requeue::OnChange, Reason::Degraded)
                .change_record(RecordChange::To(GenerationState::Live))
        }
        Xr::Converging => keep(row, seen, Phase::Provisioning, Reason::WaitingForSubstrate),
        Xr::Ready | Xr::Drifted => enrol(row, seen),
    }
}

/// Nothing of this generation was ever seen. A node that registered all the same used up the
/// generation's token on a substrate that was never seen.
fn begin(row: RowFacts, seen: Facts) -> Verdict {
    match seen.node {
        Node::None => create(row, seen),
        Node::Unknown => Verdict::wait(Phase::Pending, Requeue::Poll, Reason::NodeStateUnknown),
        Node::Live | Node::Lost | Node::Left => lose(row, seen, Reason::SubstrateLost),
    }
}

/// gate → anchor → token → Apply.
fn create(row: RowFacts, seen: Facts) -> Verdict {
    let pending = |rest, reason| Verdict::wait(Phase::Pending, rest, reason);
    match seen.gate {
        Gate::NotReady => return pending(Requeue::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return pending(Requeue::Poll, seen.visibility.unknown_reason()),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => return pending(Requeue::Poll, seen.visibility.unknown_reason()),
        Anchor::Absent => {
            let reason = Reason::CreatingAnchor;
            return Verdict::act(EffectKind::CreateAnchor, Phase::Pending, reason);
        }
        Anchor::Unrecorded => return pending(Requeue::Now, Reason::RecordingAnchor),
        Anchor::Leaving => {
            let reason = Reason::DeletingAnchor;
            return Verdict::act(EffectKind::DeleteAnchor, Phase::Pending, reason);
        }
        Anchor::Foreign => return pending(Requeue::Poll, Reason::AnchorNameTakenByAnother),
        Anchor::Ours => {}
    }
    match (row.role, seen.token) {
        (MeshRole::Standalone, _) => apply(seen, Phase::Pending, Reason::CreatingSubstrate),
        (MeshRole::Node, Token::None) => {
            Verdict::act(EffectKind::IssueToken, Phase::Pending, Reason::IssuingToken)
                .requeue(Requeue::Now)
        }
        (MeshRole::Node, token) => {
            apply(seen, Phase::Pending, unless_spent(token, Reason::CreatingSubstrate))
        }
    }
}

/// Keeps the manifests applied onto an XR that exists.
fn keep(row: RowFacts, seen: Facts, phase: Phase, reason: Reason) -> Verdict {
    let hold = |rest, reason| Verdict::wait(phase, rest, reason);
    if row.generation_state == GenerationState::Fresh {
        return hold(Requeue::Now, Reason::RecordingSubstrate)
            .change_record(RecordChange::To(GenerationState::Live));
    }
    match seen.gate {
        Gate::NotReady => return hold(Requeue::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return hold(Requeue::Poll, seen.visibility.unknown_reason()),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => return hold(Requeue::Poll, seen.visibility.unknown_reason()),
        Anchor::Absent | Anchor::Foreign => return hold(Requeue::Poll, Reason::AnchorLost),
        Anchor::Unrecorded => return hold(Requeue::Now, Reason::RecordingAnchor),
        // Held by our finalizer, an anchor being deleted still owns the objects under it.
        Anchor::Ours | Anchor::Leaving => {}
    }
    apply(seen, phase, reason)
}

fn apply(seen: Facts, phase: Phase, reason: Reason) -> Verdict {
    match seen.config {
        Config::Waiting => Verdict::wait(phase, Requeue::Poll, Reason::WaitingForProviderConfig),
        Config::Ready => Verdict::act(EffectKind::Apply, phase, reason),
    }
}

/// A token that can no longer be redeemed changes the reason for waiting and nothing else.
fn unless_spent(token: Token, reason: Reason) -> Reason {
    match token {
        Token::None | Token::Issued => reason,
        Token::Expired => Reason::TokenExpired,
        Token::Revoked => Reason::TokenRevoked,
    }
}

/// The substrate is up: now its node has to register.
fn enrol(row: RowFacts, seen: Facts) -> Verdict {
    if row.role == MeshRole::Standalone {
        return ready(row, seen);
    }
    match (seen.node, row.phase) {
        (Node::Live, _) => ready(row, seen),
        (Node::Unknown, phase) => Verdict::wait(phase, Requeue::Poll, Reason::NodeStateUnknown)
            .change_record(RecordChange::To(GenerationState::Live)),
        (Node::None | Node::Lost | Node::Left, Phase::Ready) => {
            Verdict::wait(Phase::Ready, Requeue::OnChange, Reason::NodeLost)
                .change_record(RecordChange::To(GenerationState::Live))
        }
        (Node::None, _) => {
            let reason = unless_spent(seen.token, Reason::WaitingForNode);
            keep(row, seen, Phase::Enrolling, reason)
        }
        (Node::Lost, _) => keep(row, seen, Phase::Enrolling, Reason::NodeLost),
        (Node::Left, _) => keep(row, seen, Phase::Enrolling, Reason::NodeRemoved),
    }
}

fn ready(row: RowFacts, seen: Facts) -> Verdict {
    let drifted = seen.xr == Xr::Drifted;
    if row.phase == Phase::Ready && drifted {
        return keep(row, seen, Phase::Ready, Reason::CorrectingDrift);
    }
    let verdict = if row.phase == Phase::Ready {
        Verdict::wait(Phase::Ready, Requeue::OnChange, Reason::AsDeclared)
    } else {
        Verdict::emit(EventKind::Ready, Phase::Ready, Reason::AsDeclared)
    };
    verdict.change_record(RecordChange::To(GenerationState::Live)).requeue(if drifted {
        Requeue::Now
    } else {
        Requeue::OnChange
    })
}

/// The substrate is gone or was replaced: its generation is torn down, unless the mass-deletion
/// guard is tripped.
fn lose(row: RowFacts, seen: Facts, reason: Reason) -> Verdict {
    if seen.visibility == Visibility::GuardTripped {
        return Verdict::wait(row.phase, Requeue::Poll, Reason::MassDeletionGuardTripped);
    }
    Verdict::wait(Phase::Pending, Requeue::Now, reason)
        .change_record(RecordChange::To(GenerationState::Leaving))
}

fn unknown(visibility: Visibility) -> TeardownStep {
    TeardownStep::Hold(Requeue::Poll, visibility.unknown_reason())
}
