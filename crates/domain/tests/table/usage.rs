//! A Usage: its facts, its answer, its laws, and which function holds its rules.

use usher_domain::usage::facts::{
    Attempt, Blocking, By, Excess, Facts, Finalizer, Intent, Of, Owners, Resolution, Resolve,
    RowFacts,
};
use usher_domain::usage::phase::Phase;
use usher_domain::usage::reason::Reason;
use usher_domain::usage::reconcile::rules;
use usher_domain::usage::verdict::{EffectKind, EventKind, RecordChange, Verdict};
use usher_kernel::{Requeue, Visibility};

use crate::law_cases::{self, Case};
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome, words};

/// One cell: the input of the rules.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    row: RowFacts,
    seen: Facts,
    attempt: Attempt,
}

/// Any cell.
const START: Cell = Cell {
    row: RowFacts {
        phase: Phase::Pending,
        intent: Intent::None,
        finalizer: Finalizer::On,
        resolve: Resolve::Once,
        owners: Owners::Free,
    },
    seen: Facts {
        visibility: Visibility::Complete,
        resolution: Resolution::Same,
        of: Of::Proven,
        by: By::Present,
        blocking: Blocking::None,
        excess: Excess::None,
    },
    attempt: Attempt::None,
};

/// The machine of a Usage.
pub(crate) fn machine() -> Machine<Cell> {
    Machine::new("usage", START, |cell| evaluate(*cell))
        .fact(Origin::Row, "phase", words!(Phase), |c, v| c.row.phase = Phase::ALL[v])
        .fact(Origin::Row, "intent", words!(Intent), |c, v| c.row.intent = Intent::ALL[v])
        .fact(Origin::Row, "finalizer", words!(Finalizer), |c, v| {
            c.row.finalizer = Finalizer::ALL[v];
        })
        .fact(Origin::Row, "resolve", words!(Resolve), |c, v| c.row.resolve = Resolve::ALL[v])
        .fact(Origin::Row, "owners", words!(Owners), |c, v| c.row.owners = Owners::ALL[v])
        .fact(Origin::Seen, "visibility", words!(Visibility), |c, v| {
            c.seen.visibility = Visibility::ALL[v];
        })
        .fact(Origin::Seen, "resolution", words!(Resolution), |c, v| {
            c.seen.resolution = Resolution::ALL[v];
        })
        .fact(Origin::Seen, "of", words!(Of), |c, v| c.seen.of = Of::ALL[v])
        .fact(Origin::Seen, "by", words!(By), |c, v| c.seen.by = By::ALL[v])
        .fact(Origin::Seen, "blocking", words!(Blocking), |c, v| {
            c.seen.blocking = Blocking::ALL[v];
        })
        .fact(Origin::Seen, "excess", words!(Excess), |c, v| c.seen.excess = Excess::ALL[v])
        .fact(Origin::Seen, "attempt", words!(Attempt), |c, v| c.attempt = Attempt::ALL[v])
        .field("effect", words!(EffectKind), Absent::Nothing)
        .following("phase", "phase", words!(Phase), Absent::Refused)
        .field("change", words!(RecordChange), Absent::Nothing)
        .field("event", words!(EventKind), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

fn evaluate(cell: Cell) -> Evaluation {
    let incomplete = cell.seen.visibility.is_incomplete();
    let verdict = rules(cell.row, cell.seen, cell.attempt).with_snapshot(incomplete);
    Evaluation { outcome: outcome(verdict), broken: broken(cell, verdict) }
}

/// The fields in the order of [`machine`].
fn outcome(verdict: Verdict) -> Outcome {
    let said = Outcome::default()
        .with(1, verdict.phase as usize)
        .with(4, verdict.requeue as usize)
        .with(5, verdict.reason as usize);
    let said = verdict.effect.map_or(said, |it| said.with(0, it as usize));
    let said = verdict.change.map_or(said, |it| said.with(2, it as usize));
    verdict.event.map_or(said, |it| said.with(3, it as usize))
}

const EVENT_ALONE: &str = "a verdict with an event or a change has no effect";
const REBUILT: &str = "in a rebuilt cluster nothing is done";
const USER_FIRST: &str = "nothing is released while its user exists or is unknown";
const STICKY: &str = "a use that ended does not start again";
const RELEASED_ALONE: &str = "a use ends in a verdict that does nothing else";
const PROVEN: &str = "protection is announced exactly when a deletion was seen to be refused";
const HELD_FIRST: &str = "nothing is marked before the finalizer is on and the uid is recorded";
const LAST: &str = "the finalizer is removed when nothing is held and no deletion is open";
const UNKNOWN: &str = "nothing ends on an unknown answer";
const NEVER: &str = "the requeue is Never only for a Usage without our finalizer";

/// The laws, in the order in which [`broken`] checks them.
const LAWS: [&str; 10] = [
    EVENT_ALONE,
    REBUILT,
    USER_FIRST,
    STICKY,
    RELEASED_ALONE,
    PROVEN,
    HELD_FIRST,
    LAST,
    UNKNOWN,
    NEVER,
];

/// The first law that a verdict breaks.
fn broken(cell: Cell, verdict: Verdict) -> Option<&'static str> {
    let (row, seen) = (cell.row, cell.seen);
    let over = |phase| matches!(phase, Phase::Releasing | Phase::Released);
    let ends = row.phase.holds() && !verdict.phase.holds();
    let used = matches!(seen.by, By::Present | By::Leaving | By::Unknown);
    let held_by_us = row.finalizer == Finalizer::On || row.intent == Intent::None;
    let clear = seen.excess == Excess::None && cell.attempt == Attempt::None;
    let lets_go = matches!(verdict.effect, Some(EffectKind::RemoveFinalizer | EffectKind::Retire));
    let crossed = row.phase == Phase::Pending && verdict.phase == Phase::Protected;
    let marks = verdict.effect == Some(EffectKind::Mark);
    let recorded = matches!(seen.of, Of::Unmarked | Of::Outlived);
    let holds = [
        verdict.effect.is_none() || (verdict.event.is_none() && verdict.change.is_none()),
        verdict.effect.is_none() || seen.visibility != Visibility::ClusterReplaced,
        !ends || !used || !held_by_us,
        !over(row.phase) || over(verdict.phase),
        !ends || (verdict.effect.is_none() && verdict.event.is_none()),
        (verdict.event == Some(EventKind::Protected)) == crossed
            && (!crossed || seen.of == Of::Proven),
        !marks || (row.finalizer == Finalizer::On && recorded),
        !lets_go || (row.phase == Phase::Released && clear),
        verdict.phase != Phase::Released || row.phase == Phase::Released || clear,
        verdict.requeue != Requeue::Never
            || (row.finalizer == Finalizer::Off && row.intent == Intent::Requested),
    ];
    holds.iter().position(|holds| !holds).map(|law| LAWS[law])
}

/// Breaks each law in a cell where nothing else is wrong, and expects that law to be reported.
pub(crate) fn check() -> Result<String, String> {
    law_cases::check("usage", &LAWS, &cases(), |cell, verdict| broken(*cell, *verdict))
}

/// Each law, and a cell and a verdict that break it and no earlier one.
fn cases() -> Vec<Case<Cell, Verdict>> {
    let hold = |phase| Verdict {
        effect: None,
        phase,
        change: None,
        event: None,
        requeue: Requeue::Poll,
        reason: Reason::InUse,
    };
    let with = |phase, effect| Verdict { effect: Some(effect), ..hold(phase) };
    let emit = |phase, event| Verdict { event: Some(event), ..hold(phase) };
    let row = |phase| Cell { row: RowFacts { phase, ..START.row }, ..START };
    let by = |by| Cell { seen: Facts { by, ..START.seen }, ..START };
    let of = |of| Cell { seen: Facts { of, ..START.seen }, ..START };
    let rebuilt = Facts { visibility: Visibility::ClusterReplaced, ..START.seen };
    let unmarked = of(Of::Unmarked);
    let off = RowFacts { finalizer: Finalizer::Off, ..START.row };
    let both = with(Phase::Pending, EffectKind::Replay).change_record(RecordChange::Begin);
    let exposed =
        Verdict { event: Some(EventKind::Exposed), ..with(Phase::Pending, EffectKind::Mark) };
    let unknown = Cell { attempt: Attempt::Unknown, ..row(Phase::Releasing) };
    let marked = Facts { excess: Excess::Marked, ..START.seen };
    vec![
        (EVENT_ALONE, START, both),
        (EVENT_ALONE, START, exposed),
        (REBUILT, Cell { seen: rebuilt, ..START }, with(Phase::Pending, EffectKind::Yield)),
        (USER_FIRST, START, hold(Phase::Releasing)),
        (USER_FIRST, by(By::Leaving), hold(Phase::Releasing)),
        (USER_FIRST, by(By::Unknown), hold(Phase::Idle)),
        (STICKY, row(Phase::Releasing), hold(Phase::Pending)),
        (STICKY, row(Phase::Released), hold(Phase::Idle)),
        (RELEASED_ALONE, by(By::Gone), with(Phase::Releasing, EffectKind::Unmark)),
        (RELEASED_ALONE, by(By::Gone), emit(Phase::Releasing, EventKind::Released)),
        (PROVEN, START, hold(Phase::Protected)),
        (PROVEN, of(Of::Marked), emit(Phase::Protected, EventKind::Protected)),
        (PROVEN, row(Phase::Protected), emit(Phase::Protected, EventKind::Protected)),
        (HELD_FIRST, Cell { row: off, ..unmarked }, with(Phase::Pending, EffectKind::Mark)),
        (HELD_FIRST, of(Of::Unrecorded), with(Phase::Pending, EffectKind::Mark)),
        (LAST, row(Phase::Releasing), with(Phase::Releasing, EffectKind::RemoveFinalizer)),
        (
            LAST,
            Cell { seen: marked, ..row(Phase::Released) },
            with(Phase::Released, EffectKind::RemoveFinalizer),
        ),
        (
            LAST,
            Cell { attempt: Attempt::Unknown, ..row(Phase::Released) },
            with(Phase::Released, EffectKind::Retire),
        ),
        (UNKNOWN, unknown, emit(Phase::Released, EventKind::Released)),
        (NEVER, START, Verdict { requeue: Requeue::Never, ..hold(Phase::Pending) }),
    ]
}
