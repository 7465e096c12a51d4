//! What happens next to a resource, and why.
//!
//! One pure, total function from facts to a verdict, in two arms: *converge* brings the resource
//! in, *tear down* shows it out. The transition table beside this crate says the same by hand,
//! cell by cell.
//!
//! **Invariants**
//! - Intent to delete wins over every phase; `Deleted` and `Failed` are sticky.
//! - The node leaves before its substrate is asked to go; the anchor goes last.
//! - No destroying effect and no crossing depends on a part that is unknown.
//! - The phase names steer nothing but stickiness.

use super::facts::{
    Anchor, Closing, Composed, Config, Facts, Gate, Intent, Node, Protection, RowFacts, Sight,
    Tenure, Token, Xr,
};
use super::phase::Phase;
use super::reason::Reason;
use super::verdict::{EffectKind, EventKind, Rest, Turn, Verdict};
use crate::blueprint::MeshRole;

/// The verdict for one cell of the table.
pub fn rules(row: RowFacts, seen: Facts) -> Verdict {
    if row.phase == Phase::Deleted {
        return Verdict::rest(Phase::Deleted, Rest::Never, Reason::Gone);
    }
    if row.intent == Intent::Requested || row.phase.is_leaving() {
        return tear_down(row, seen);
    }
    if row.phase == Phase::Failed {
        return Verdict::rest(Phase::Failed, Rest::OnChange, Reason::ProvisioningFailed);
    }
    match row.tenure {
        Tenure::Leaving => replace(row, seen),
        Tenure::Fresh | Tenure::Live => converge(row, seen),
    }
}

/// The teardown arm: there is no way back from here.
fn tear_down(row: RowFacts, seen: Facts) -> Verdict {
    let stay = if row.phase.is_leaving() { row.phase } else { Phase::Deregistering };
    match way_out(row, seen) {
        Way::DrainNode => {
            Verdict::doing(EffectKind::DeregisterNode, Phase::Deregistering, Reason::DrainingNode)
        }
        Way::HoldForNode(reason) => Verdict::rest(stay, Rest::Poll, reason),
        Way::Do(effect, reason) => Verdict::doing(effect, Phase::Deprovisioning, reason),
        Way::Hold(rest, reason) => Verdict::rest(Phase::Deprovisioning, rest, reason),
        Way::Out => {
            Verdict::telling(EventKind::Deleted, Phase::Deleted, Reason::Gone).resting(Rest::Never)
        }
    }
}

/// Shows the old generation out, then begins the next one. All of it happens in `Pending`.
fn replace(row: RowFacts, seen: Facts) -> Verdict {
    match way_out(row, seen) {
        Way::DrainNode => {
            Verdict::doing(EffectKind::DeregisterNode, Phase::Pending, Reason::DrainingNode)
        }
        Way::HoldForNode(reason) => Verdict::rest(Phase::Pending, Rest::Poll, reason),
        Way::Do(effect, reason) => Verdict::doing(effect, Phase::Pending, reason),
        Way::Hold(rest, reason) => Verdict::rest(Phase::Pending, rest, reason),
        Way::Out => {
            Verdict::rest(Phase::Pending, Rest::Now, Reason::GenerationReplaced).turning(Turn::Next)
        }
    }
}

/// The next step on the way out, whoever asked for it.
enum Way {
    DrainNode,
    HoldForNode(Reason),
    Do(EffectKind, Reason),
    Hold(Rest, Reason),
    Out,
}

/// node → protection → substrate → composed gone → anchor → out.
fn way_out(row: RowFacts, seen: Facts) -> Way {
    match seen.node {
        Node::Unknown => return Way::HoldForNode(Reason::NodeUnknown),
        Node::Live | Node::Lost => return Way::DrainNode,
        Node::None | Node::Left => {}
    }
    if seen.sight == Sight::ClusterReplaced {
        return Way::Hold(Rest::Poll, Reason::ClusterReplaced);
    }
    match seen.xr {
        Xr::Unknown => blind(seen.sight),
        Xr::Converging | Xr::Ready | Xr::Drifted | Xr::Failed | Xr::Replaced => {
            delete_substrate(seen)
        }
        Xr::Deleting => Way::Hold(Rest::Poll, Reason::WaitingForDeletion),
        Xr::Absent | Xr::Foreign => after_substrate(row, seen),
    }
}

/// Nobody guards the XR, and what it composed is in the ledger, before it is asked to go.
fn delete_substrate(seen: Facts) -> Way {
    match seen.protection {
        Protection::Unknown => return blind(seen.sight),
        Protection::Ours => {
            return Way::Do(EffectKind::ReleaseProtection, Reason::ReleasingProtection);
        }
        Protection::Somebody => return Way::Hold(Rest::Poll, Reason::InUse),
        Protection::None => {}
    }
    match seen.composed {
        Composed::Unknown => blind(seen.sight),
        Composed::Unrecorded => Way::Hold(Rest::Now, Reason::RecordingComposed),
        Composed::None | Composed::Present | Composed::KindRemoved => {
            Way::Do(EffectKind::DeleteSubstrate, Reason::DeletingSubstrate)
        }
    }
}

fn after_substrate(row: RowFacts, seen: Facts) -> Way {
    match seen.composed {
        Composed::Unknown => return blind(seen.sight),
        Composed::Unrecorded | Composed::Present => {
            return Way::Hold(Rest::Poll, Reason::WaitingForComposed);
        }
        Composed::KindRemoved => return Way::Hold(Rest::Poll, Reason::KindRemoved),
        Composed::None => {}
    }
    if row.closing == Closing::Quiet {
        return Way::Hold(Rest::Quiet, Reason::QuietTime);
    }
    match seen.anchor {
        Anchor::Unknown => blind(seen.sight),
        // One that is on its way out is held by our finalizer: the same verb lets it go.
        Anchor::Ours | Anchor::Unrecorded | Anchor::Leaving => {
            Way::Do(EffectKind::DeleteAnchor, Reason::DeletingAnchor)
        }
        Anchor::Absent | Anchor::Foreign => match row.closing {
            Closing::Settled => Way::Out,
            Closing::Open | Closing::Quiet => Way::Hold(Rest::Poll, Reason::UnsettledRows),
        },
    }
}

/// The converge arm.
fn converge(row: RowFacts, seen: Facts) -> Verdict {
    if seen.sight == Sight::ClusterReplaced {
        return Verdict::rest(row.phase, Rest::Poll, Reason::ClusterReplaced);
    }
    match seen.xr {
        Xr::Failed => {
            Verdict::telling(EventKind::Failed, Phase::Failed, Reason::ProvisioningFailed)
                .turning(Turn::To(Tenure::Live))
        }
        Xr::Unknown => Verdict::rest(row.phase, Rest::Poll, sightless(seen.sight)),
        Xr::Absent => match row.tenure {
            Tenure::Fresh => begin(row, seen),
            Tenure::Live | Tenure::Leaving => lose(row, seen, Reason::SubstrateLost),
        },
        Xr::Foreign => match row.tenure {
            Tenure::Fresh => Verdict::rest(Phase::Pending, Rest::Poll, Reason::NameTaken),
            Tenure::Live | Tenure::Leaving => lose(row, seen, Reason::SubstrateReplaced),
        },
        Xr::Replaced => lose(row, seen, Reason::SubstrateReplaced),
        Xr::Deleting => Verdict::rest(row.phase, Rest::Poll, Reason::SubstrateLeaving)
            .turning(Turn::To(Tenure::Live)),
        Xr::Converging if row.phase == Phase::Ready => {
            Verdict::rest(Phase::Ready, Rest::OnChange, Reason::Degraded)
                .turning(Turn::To(Tenure::Live))
        }
        Xr::Converging => keep(row, seen, Phase::Provisioning, Reason::WaitingForSubstrate),
        Xr::Ready | Xr::Drifted => enrol(row, seen),
    }
}

/// Nothing of this generation was ever seen. A node that registered all the same used up the
/// generation's token on a substrate that nobody saw.
fn begin(row: RowFacts, seen: Facts) -> Verdict {
    match seen.node {
        Node::None => create(row, seen),
        Node::Unknown => Verdict::rest(Phase::Pending, Rest::Poll, Reason::NodeUnknown),
        Node::Live | Node::Lost | Node::Left => lose(row, seen, Reason::SubstrateLost),
    }
}

/// gate → anchor → token → Apply.
fn create(row: RowFacts, seen: Facts) -> Verdict {
    let pending = |rest, reason| Verdict::rest(Phase::Pending, rest, reason);
    match seen.gate {
        Gate::NotReady => return pending(Rest::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return pending(Rest::Poll, sightless(seen.sight)),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => return pending(Rest::Poll, sightless(seen.sight)),
        Anchor::Absent => {
            let reason = Reason::CreatingAnchor;
            return Verdict::doing(EffectKind::CreateAnchor, Phase::Pending, reason);
        }
        Anchor::Unrecorded => return pending(Rest::Now, Reason::RecordingAnchor),
        Anchor::Leaving => {
            let reason = Reason::DeletingAnchor;
            return Verdict::doing(EffectKind::DeleteAnchor, Phase::Pending, reason);
        }
        Anchor::Foreign => return pending(Rest::Poll, Reason::AnchorNameTaken),
        Anchor::Ours => {}
    }
    match (row.role, seen.token) {
        (MeshRole::Standalone, _) => apply(seen, Phase::Pending, Reason::CreatingSubstrate),
        (MeshRole::Node, Token::None) => {
            Verdict::doing(EffectKind::IssueToken, Phase::Pending, Reason::IssuingToken)
                .resting(Rest::Now)
        }
        (MeshRole::Node, token) => {
            apply(seen, Phase::Pending, unless_spent(token, Reason::CreatingSubstrate))
        }
    }
}

/// Keeps the manifests applied onto an XR that exists.
fn keep(row: RowFacts, seen: Facts, phase: Phase, reason: Reason) -> Verdict {
    let hold = |rest, reason| Verdict::rest(phase, rest, reason);
    if row.tenure == Tenure::Fresh {
        return hold(Rest::Now, Reason::RecordingSubstrate).turning(Turn::To(Tenure::Live));
    }
    match seen.gate {
        Gate::NotReady => return hold(Rest::Poll, Reason::NamespaceNotReady),
        Gate::Unknown => return hold(Rest::Poll, sightless(seen.sight)),
        Gate::Ready => {}
    }
    match seen.anchor {
        Anchor::Unknown => return hold(Rest::Poll, sightless(seen.sight)),
        Anchor::Absent | Anchor::Foreign => return hold(Rest::Poll, Reason::AnchorLost),
        Anchor::Unrecorded => return hold(Rest::Now, Reason::RecordingAnchor),
        // Held by our finalizer, a leaving anchor still owns what stands under it.
        Anchor::Ours | Anchor::Leaving => {}
    }
    apply(seen, phase, reason)
}

fn apply(seen: Facts, phase: Phase, reason: Reason) -> Verdict {
    match seen.config {
        Config::Waiting => Verdict::rest(phase, Rest::Poll, Reason::WaitingForProviderConfig),
        Config::Ready => Verdict::doing(EffectKind::Apply, phase, reason),
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
        (Node::Unknown, phase) => {
            Verdict::rest(phase, Rest::Poll, Reason::NodeUnknown).turning(Turn::To(Tenure::Live))
        }
        (Node::None | Node::Lost | Node::Left, Phase::Ready) => {
            Verdict::rest(Phase::Ready, Rest::OnChange, Reason::NodeLost)
                .turning(Turn::To(Tenure::Live))
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
        return keep(row, seen, Phase::Ready, Reason::Correcting);
    }
    let verdict = if row.phase == Phase::Ready {
        Verdict::rest(Phase::Ready, Rest::OnChange, Reason::Steady)
    } else {
        Verdict::telling(EventKind::Ready, Phase::Ready, Reason::Steady)
    };
    verdict.turning(Turn::To(Tenure::Live)).resting(if drifted {
        Rest::Now
    } else {
        Rest::OnChange
    })
}

/// The substrate is gone or another took its place: its generation is shown out, unless too much
/// vanished at once to be believed.
fn lose(row: RowFacts, seen: Facts, reason: Reason) -> Verdict {
    if seen.sight == Sight::RailTripped {
        return Verdict::rest(row.phase, Rest::Poll, Reason::RailTripped);
    }
    Verdict::rest(Phase::Pending, Rest::Now, reason).turning(Turn::To(Tenure::Leaving))
}

fn blind(sight: Sight) -> Way {
    Way::Hold(Rest::Poll, sightless(sight))
}

/// Why a part is unknown. A look that calls itself clear and misses a part did not reach it.
fn sightless(sight: Sight) -> Reason {
    match sight {
        Sight::Clear | Sight::Unreachable => Reason::Unreachable,
        Sight::Forbidden => Reason::Forbidden,
        Sight::RailTripped => Reason::RailTripped,
        Sight::ClusterReplaced => Reason::ClusterReplaced,
    }
}
