//! What holds of every answer of the broker's rules, whatever its table says.

use usher_domain::broker::facts::{
    Anchor, Composed, Facts, Finalization, Intent, Node, Protection, Xr,
};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::reason::Reason;
use usher_domain::broker::verdict::{EffectKind, EventKind, Verdict};
use usher_kernel::{Requeue, Visibility};

use crate::broker::{Cell, START};
use crate::law_cases::{self, Case};

const EVENT_ALONE: &str = "a verdict with an event has no effect";
const NODE_FIRST: &str = "the substrate is not deleted before its node is known to have left";
const UNGUARDED: &str = "the substrate is not deleted while a Usage may guard it";
const RECORDED: &str = "the substrate is not deleted before what it composed is recorded";
const EMITTED: &str = "an event is emitted exactly when the phase becomes Ready, Failed or Deleted";
const NOTHING_LEFT: &str = "Deleted needs every part known to be gone and every row settled";
const INTENT_WINS: &str = "where deletion was requested, the phase is one of teardown";
const NEVER: &str = "the requeue is Never exactly in Deleted";
const ON_CHANGE: &str = "only Ready and Failed wait without a timer";
const TIMED: &str = "an incomplete snapshot is never requeued without a timer";
const REBUILT: &str = "in a rebuilt cluster the only effect is to deregister the node";

/// The laws, in the order in which [`broken`] checks them.
const LAWS: [&str; 11] = [
    EVENT_ALONE,
    NODE_FIRST,
    UNGUARDED,
    RECORDED,
    EMITTED,
    NOTHING_LEFT,
    INTENT_WINS,
    NEVER,
    ON_CHANGE,
    TIMED,
    REBUILT,
];

/// The first law that a verdict breaks.
pub(crate) fn broken(cell: &Cell, verdict: Verdict) -> Option<&'static str> {
    let deletes = verdict.effect == Some(EffectKind::DeleteSubstrate);
    let holds = [
        verdict.event.is_none() || verdict.effect.is_none(),
        !deletes || matches!(cell.seen.node, Node::None | Node::Left),
        !deletes || cell.seen.protection == Protection::None,
        !deletes || is_recorded(cell.seen.composed),
        verdict.event == transition(cell.row.phase, verdict.phase),
        !ends(cell, verdict) || is_gone(cell),
        cell.row.intent == Intent::None || verdict.phase.is_leaving(),
        (verdict.requeue == Requeue::Never) == (verdict.phase == Phase::Deleted),
        verdict.requeue != Requeue::OnChange || is_resting(verdict.phase),
        verdict.requeue != Requeue::OnChange || !cell.seen.visibility.is_incomplete(),
        cell.seen.visibility != Visibility::ClusterReplaced || is_harmless(verdict.effect),
    ];
    holds.iter().position(|holds| !holds).map(|law| LAWS[law])
}

fn is_recorded(composed: Composed) -> bool {
    matches!(composed, Composed::None | Composed::Present | Composed::KindRemoved)
}

fn transition(from: Phase, to: Phase) -> Option<EventKind> {
    if from == to {
        return None;
    }
    match to {
        Phase::Ready => Some(EventKind::Ready),
        Phase::Failed => Some(EventKind::Failed),
        Phase::Deleted => Some(EventKind::Deleted),
        Phase::Pending
        | Phase::Provisioning
        | Phase::Enrolling
        | Phase::Deregistering
        | Phase::Deprovisioning => None,
    }
}

fn ends(cell: &Cell, verdict: Verdict) -> bool {
    verdict.phase == Phase::Deleted && cell.row.phase != Phase::Deleted
}

fn is_gone(cell: &Cell) -> bool {
    cell.row.finalization == Finalization::Settled
        && matches!(cell.seen.node, Node::None | Node::Left)
        && matches!(cell.seen.xr, Xr::Absent | Xr::Foreign)
        && cell.seen.composed == Composed::None
        && matches!(cell.seen.anchor, Anchor::Absent | Anchor::Foreign)
}

fn is_resting(phase: Phase) -> bool {
    matches!(phase, Phase::Ready | Phase::Failed)
}

fn is_harmless(effect: Option<EffectKind>) -> bool {
    matches!(effect, None | Some(EffectKind::DeregisterNode))
}

/// Breaks each law in a cell where nothing else is wrong, and expects that law to be reported.
pub(crate) fn check() -> Result<String, String> {
    law_cases::check("broker", &LAWS, &cases(), |cell, verdict| broken(cell, *verdict))
}

/// Each law, and a cell and a verdict that break it and no earlier one.
fn cases() -> Vec<Case<Cell, Verdict>> {
    let leaving = with_seen(|seen| seen.xr = Xr::Ready);
    let delete = Verdict { effect: Some(EffectKind::DeleteSubstrate), ..hold(leaving.row.phase) };
    let end = Verdict {
        event: Some(EventKind::Deleted),
        requeue: Requeue::Never,
        ..hold(Phase::Deleted)
    };
    let with_effect = Verdict { effect: Some(EffectKind::DeleteAnchor), ..end };
    let without_event = Verdict { event: None, ..end };
    let apply = Verdict { effect: Some(EffectKind::Apply), ..hold(leaving.row.phase) };
    let mut unreachable = START;
    unreachable.row.phase = Phase::Failed;
    unreachable.seen.visibility = Visibility::Unreachable;
    let mut cases = vec![
        (EVENT_ALONE, leaving, with_effect),
        (UNGUARDED, with_seen(|seen| seen.protection = Protection::Ours), delete),
        (UNGUARDED, with_seen(|seen| seen.protection = Protection::Another), delete),
        (UNGUARDED, with_seen(|seen| seen.protection = Protection::Unknown), delete),
        (RECORDED, with_seen(|seen| seen.composed = Composed::Unrecorded), delete),
        (RECORDED, with_seen(|seen| seen.composed = Composed::Unknown), delete),
        (EMITTED, gone(|_| ()), without_event),
        (EMITTED, leaving, Verdict { event: Some(EventKind::Failed), ..hold(leaving.row.phase) }),
        (NOTHING_LEFT, gone(|cell| cell.row.finalization = Finalization::InFlight), end),
        (NOTHING_LEFT, gone(|cell| cell.row.finalization = Finalization::Open), end),
        (NOTHING_LEFT, gone(|cell| cell.seen.xr = Xr::Deleting), end),
        (NOTHING_LEFT, gone(|cell| cell.seen.composed = Composed::KindRemoved), end),
        (NOTHING_LEFT, gone(|cell| cell.seen.anchor = Anchor::Unknown), end),
        (INTENT_WINS, leaving, hold(Phase::Pending)),
        (NEVER, gone(|_| ()), Verdict { requeue: Requeue::Poll, ..end }),
        (NEVER, leaving, Verdict { requeue: Requeue::Never, ..hold(leaving.row.phase) }),
        (ON_CHANGE, leaving, Verdict { requeue: Requeue::OnChange, ..hold(leaving.row.phase) }),
        (TIMED, unreachable, Verdict::wait(Phase::Failed, Requeue::OnChange, Reason::Gone)),
        (REBUILT, with_seen(|seen| seen.visibility = Visibility::ClusterReplaced), apply),
    ];
    for node in [Node::Live, Node::Lost, Node::Unknown] {
        cases.push((NODE_FIRST, with_seen(|seen| seen.node = node), delete));
        cases.push((NOTHING_LEFT, gone(|cell| cell.seen.node = node), end));
    }
    cases
}

/// A row in teardown, and what is observed of it.
fn with_seen(bend: impl FnOnce(&mut Facts)) -> Cell {
    gone(|cell| bend(&mut cell.seen))
}

/// A row of which nothing is left.
fn gone(bend: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = START;
    cell.row.phase = Phase::Deprovisioning;
    cell.row.intent = Intent::Requested;
    cell.row.finalization = Finalization::Settled;
    bend(&mut cell);
    cell
}

fn hold(phase: Phase) -> Verdict {
    Verdict::wait(phase, Requeue::Poll, Reason::Gone)
}
