//! The ProviderConfig: its facts, its answer, and the files of its rules.

use usher_domain::broker::facts::{Anchor, Finalization, Gate};
use usher_domain::broker::provider_config::{
    Facts, Object, Phase, Reason, RecordChange, RowFacts, Users, VerbKind, Verdict, rules,
};
use usher_kernel::{Requeue, Visibility};

use crate::law_cases::{self, Case};
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// One cell: the input of the rules.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    row: RowFacts,
    seen: Facts,
}

/// Any cell.
const START: Cell = Cell {
    row: RowFacts { phase: Phase::Pending, users: Users::None, finalization: Finalization::Open },
    seen: Facts {
        visibility: Visibility::Complete,
        gate: Gate::Ready,
        anchor: Anchor::Absent,
        object: Object::Absent,
    },
};

/// The word that ends a generation.
const NEXT: &str = "next";

/// The ProviderConfig's machine.
pub(crate) fn machine() -> Machine<Cell> {
    Machine::new("provider_config", START, |cell| evaluate(*cell))
        .fact(Origin::Row, "phase", words!(Phase), |c, v| c.row.phase = Phase::ALL[v])
        .fact(Origin::Row, "users", words!(Users), |c, v| c.row.users = Users::ALL[v])
        .fact(Origin::Row, "finalization", words!(Finalization), |c, v| {
            c.row.finalization = Finalization::ALL[v];
        })
        .fact(Origin::Seen, "visibility", words!(Visibility), |c, v| {
            c.seen.visibility = Visibility::ALL[v];
        })
        .fact(Origin::Seen, "gate", words!(Gate), |c, v| c.seen.gate = Gate::ALL[v])
        .fact(Origin::Seen, "anchor", words!(Anchor), |c, v| c.seen.anchor = Anchor::ALL[v])
        .fact(Origin::Seen, "object", words!(Object), |c, v| c.seen.object = Object::ALL[v])
        .field("effect", words!(VerbKind), Absent::Nothing)
        .following("phase", "phase", words!(Phase), Absent::Refused)
        .field("change", vec![NEXT], Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

fn evaluate(cell: Cell) -> Evaluation {
    let incomplete = cell.seen.visibility.is_incomplete();
    let verdict = rules(cell.row, cell.seen).with_snapshot(incomplete);
    Evaluation { outcome: outcome(verdict), broken: broken(cell, verdict) }
}

/// The fields in the order of [`machine`].
fn outcome(verdict: Verdict) -> Outcome {
    let said = Outcome::default()
        .with(1, verdict.phase as usize)
        .with(3, verdict.requeue as usize)
        .with(4, verdict.reason as usize);
    let said = verdict.effect.map_or(said, |verb| said.with(0, verb as usize));
    if verdict.change.is_some() { said.with(2, 0) } else { said }
}

const COMMITTED: &str =
    "nothing is deleted before the row is Leaving, unless its deletion began outside";
const STICKY: &str = "Leaving ends only in a new generation, with all rows settled";
const REBUILT: &str = "in a rebuilt cluster nothing is done";
const UNKNOWN: &str = "nothing is done to an unknown object";
const IN_FLIGHT: &str =
    "in teardown the anchor stays until the grace is over and every object is gone";
const COMPLETE: &str = "only what is complete becomes Ready";
const TIMED: &str = "an incomplete snapshot is never waited on without a timer";

/// The laws, in the order in which [`broken`] checks them.
const LAWS: [&str; 7] = [COMMITTED, STICKY, REBUILT, UNKNOWN, IN_FLIGHT, COMPLETE, TIMED];

/// The first law that a verdict breaks.
fn broken(cell: Cell, verdict: Verdict) -> Option<&'static str> {
    let leaving = |phase| matches!(phase, Phase::Leaving | Phase::Gone);
    let lets_go = verdict.effect == Some(VerbKind::DeleteAnchor);
    let stays = cell.seen.anchor != Anchor::Leaving;
    let deletes = verdict.effect == Some(VerbKind::Delete) || (lets_go && stays);
    let becomes_ready = cell.row.phase != Phase::Ready && verdict.phase == Phase::Ready;
    let nothing = matches!(cell.seen.object, Object::Absent | Object::Foreign);
    let returns = leaving(cell.row.phase) && !leaving(verdict.phase);
    let settled = cell.row.finalization == Finalization::Settled;
    let holds = [
        !deletes || leaving(cell.row.phase),
        returns == verdict.change.is_some() && (!returns || settled),
        verdict.effect.is_none() || cell.seen.visibility != Visibility::ClusterReplaced,
        verdict.effect.is_none() || cell.seen.object != Object::Unknown,
        !lets_go
            || !leaving(cell.row.phase)
            || (cell.row.finalization != Finalization::InFlight && nothing),
        !becomes_ready || cell.seen.object == Object::Present,
        verdict.requeue != Requeue::OnChange || !cell.seen.visibility.is_incomplete(),
    ];
    holds.iter().position(|holds| !holds).map(|law| LAWS[law])
}

/// Breaks each law, in a cell where nothing else is wrong, and demands that it is reported.
pub(crate) fn check() -> Result<String, String> {
    law_cases::check("provider_config", &LAWS, &cases(), |cell, verdict| broken(*cell, *verdict))
}

/// Each law, and a cell and a verdict that break it and no earlier one.
fn cases() -> Vec<Case<Cell, Verdict>> {
    let with = |verb| Verdict { effect: Some(verb), ..hold(Phase::Pending) };
    let row =
        |phase, finalization| Cell { row: RowFacts { phase, finalization, ..START.row }, ..START };
    let seen =
        |visibility, object| Cell { seen: Facts { visibility, object, ..START.seen }, ..START };
    let let_go = Verdict { effect: Some(VerbKind::DeleteAnchor), ..hold(Phase::Leaving) };
    let present = Facts { object: Object::Present, ..START.seen };
    let next = hold(Phase::Pending).change_record(RecordChange::NextGeneration);
    let idle = Verdict { requeue: Requeue::OnChange, ..hold(Phase::Pending) };
    vec![
        (COMMITTED, START, with(VerbKind::Delete)),
        (COMMITTED, START, with(VerbKind::DeleteAnchor)),
        (STICKY, row(Phase::Leaving, Finalization::Settled), hold(Phase::Pending)),
        (STICKY, row(Phase::Gone, Finalization::Open), next),
        (STICKY, START, next),
        (REBUILT, seen(Visibility::ClusterReplaced, Object::Absent), with(VerbKind::Apply)),
        (UNKNOWN, seen(Visibility::Complete, Object::Unknown), with(VerbKind::CreateAnchor)),
        (IN_FLIGHT, row(Phase::Leaving, Finalization::InFlight), let_go),
        (IN_FLIGHT, Cell { seen: present, ..row(Phase::Leaving, Finalization::Open) }, let_go),
        (TIMED, seen(Visibility::Forbidden, Object::Absent), idle),
        (COMPLETE, START, hold(Phase::Ready)),
        (COMPLETE, seen(Visibility::Complete, Object::Drifted), hold(Phase::Ready)),
    ]
}

fn hold(phase: Phase) -> Verdict {
    Verdict::wait(phase, Requeue::Poll, Reason::AsDeclared)
}
