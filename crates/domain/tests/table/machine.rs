//! The machine: its facts, its answer, its laws, and which function holds its rules.

use usher_domain::fleet::facts::{
    Bound, CommandState, Facts, Hold, Pace, Reported, Restriction, RowFacts, Want,
};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::reason::Reason;
use usher_domain::fleet::reconcile::rules;
use usher_domain::fleet::verdict::{BindingChange, EffectKind, EventKind, RecordChange, Verdict};
use usher_kernel::Requeue;

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
    row: RowFacts {
        phase: Phase::Idle,
        want: Want::Unbound,
        command: CommandState::None,
        pace: Pace::InTime,
        hold: Hold::Free,
    },
    seen: Facts { restriction: Restriction::None, report: Reported::Idle, binding: Bound::None },
};

/// The table's shape and the rules behind it.
pub(crate) fn machine() -> Machine<Cell> {
    Machine::new("machine", START, |cell| evaluate(*cell))
        .fact(Origin::Row, "phase", words!(Phase), |c, v| c.row.phase = Phase::ALL[v])
        .fact(Origin::Row, "want", words!(Want), |c, v| c.row.want = Want::ALL[v])
        .fact(Origin::Row, "command", words!(CommandState), |c, v| {
            c.row.command = CommandState::ALL[v];
        })
        .fact(Origin::Row, "pace", words!(Pace), |c, v| c.row.pace = Pace::ALL[v])
        .fact(Origin::Row, "hold", words!(Hold), |c, v| c.row.hold = Hold::ALL[v])
        .fact(Origin::Seen, "restriction", words!(Restriction), |c, v| {
            c.seen.restriction = Restriction::ALL[v];
        })
        .fact(Origin::Seen, "report", words!(Reported), |c, v| c.seen.report = Reported::ALL[v])
        .fact(Origin::Seen, "binding", words!(Bound), |c, v| c.seen.binding = Bound::ALL[v])
        .field("effect", words!(EffectKind), Absent::Nothing)
        .following("phase", "phase", words!(Phase), Absent::Refused)
        .following("command", "command", words!(CommandState), Absent::Refused)
        .field("binding", turns(), Absent::Nothing)
        .field("event", words!(EventKind), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

/// The words for what becomes of a binding; that it is kept is not said.
fn turns() -> Vec<&'static str> {
    BindingChange::ALL.iter().skip(1).map(|turn| turn.as_str()).collect()
}

fn evaluate(cell: Cell) -> Evaluation {
    let verdict = rules(cell.row, cell.seen);
    Evaluation { outcome: outcome(cell.row, verdict), broken: broken(cell, verdict) }
}

/// The fields in the order of [`machine`].
fn outcome(row: RowFacts, verdict: Verdict) -> Outcome {
    let RecordChange { command, binding } = change(row, verdict);
    let said = Outcome::default()
        .with(1, verdict.phase as usize)
        .with(2, command as usize)
        .with(5, verdict.requeue as usize)
        .with(6, verdict.reason as usize);
    let said = verdict.effect.map_or(said, |effect| said.with(0, effect as usize));
    let binding = (binding as usize).checked_sub(1);
    let said = binding.map_or(said, |binding| said.with(3, binding));
    verdict.event.map_or(said, |event| said.with(4, event as usize))
}

/// The change of command and binding; without a change they stay as they are.
fn change(row: RowFacts, verdict: Verdict) -> RecordChange {
    verdict.change.unwrap_or(RecordChange { command: row.command, binding: BindingChange::Kept })
}

const EVENT_ALONE: &str = "a verdict with an event has no effect";
const RECORDED: &str = "only a recorded command is sent, and it is then recorded as sent";
const CLEARED: &str = "a binding is cleared only on arrival in an unbound phase";
const KEPT: &str = "no bound machine becomes unbound but by clearing or taking back";
const EMITTED: &str = "an event is emitted exactly when the phase or the dispute changes";
const GONE: &str = "only an answer about this very machine, that nothing holds, ends it";
const SILENT: &str = "an answer that does not count changes nothing";
const DISPUTED: &str = "no command is recorded while the provider names another cluster";
const PAUSED: &str = "nothing new is begun while paused";
const HELD: &str =
    "a failed machine that a resource holds is not given back before the resource says so";
const WANTED: &str = "a bound machine is drained only if it is not declared for its cluster";
const EDGES: &str = "a transition is an edge of the reference, or its reason names the deviation";
const NEVER: &str =
    "the requeue is Never exactly in Gone, and passing phases do not wait for a change";

/// The laws, in the order in which [`broken`] checks them.
const LAWS: [&str; 13] = [
    EVENT_ALONE,
    RECORDED,
    CLEARED,
    KEPT,
    EMITTED,
    GONE,
    SILENT,
    DISPUTED,
    PAUSED,
    HELD,
    WANTED,
    EDGES,
    NEVER,
];

/// The first law that a verdict breaks.
fn broken(cell: Cell, verdict: Verdict) -> Option<&'static str> {
    let Cell { row, seen } = cell;
    let RecordChange { command, binding } = change(row, verdict);
    let moves = verdict.phase != row.phase;
    let leaves = row.phase.is_bound() && moves && !verdict.phase.is_bound();
    let unreported = matches!(
        seen.report,
        Reported::Unknown | Reported::Stale | Reported::Missing | Reported::Malformed
    ) || seen.restriction == Restriction::Superseded;
    let changes = moves || verdict.effect.is_some() || command != row.command;
    let begins = command == CommandState::Recorded && moves;
    let has_event = verdict.event.is_some();
    let disputed = matches!(verdict.event, Some(EventKind::Disputed | EventKind::Settled));
    let records = row.command != CommandState::Recorded && command == CommandState::Recorded;
    let commands = verdict.effect.is_some() || records;
    let ends = verdict.phase == Phase::Gone;
    let holds = [
        !has_event || verdict.effect.is_none(),
        verdict.effect.is_none()
            || row.command == CommandState::Recorded && command == CommandState::Sent,
        binding != BindingChange::Cleared || moves && !verdict.phase.is_bound(),
        !leaves
            || verdict.phase == Phase::Failed
            || matches!(binding, BindingChange::Cleared | BindingChange::TakenBack),
        has_event == (moves || disputed) && (!disputed || !moves),
        !ends || !moves || seen.report == Reported::Absent && seen.restriction == Restriction::None,
        !unreported || !changes || row.phase == Phase::Gone,
        verdict.reason != Reason::BindingDisputed || !commands,
        seen.restriction != Restriction::Paused || !begins,
        row.phase != Phase::Failed
            || row.hold != Hold::Held
            || row.want == Want::Release
            || !records,
        !(commands && verdict.phase == Phase::Draining && seen.report == Reported::Configured)
            || row.want != Want::Bind,
        !moves || row.phase.leads_to(verdict.phase) || leaves_the_reference(verdict.reason),
        (verdict.requeue == Requeue::Never) == ends
            && (verdict.requeue != Requeue::OnChange || !verdict.phase.is_passing()),
    ];
    holds.iter().position(|holds| !holds).map(|law| LAWS[law])
}

/// The reasons of transitions that the reference does not know.
const fn leaves_the_reference(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::CommandWithdrawn
            | Reason::HostLost
            | Reason::UnexpectedTransition
            | Reason::ProviderReportedFailure
            | Reason::Recovered
            | Reason::Gone
    )
}

/// Breaks each law in a cell where nothing else is wrong, and expects that law to be reported.
pub(crate) fn check() -> Result<String, String> {
    law_cases::check("machine", &LAWS, &cases(), |cell, verdict| broken(*cell, *verdict))
}

/// Each law, and a cell and a verdict that break it and no earlier one.
fn cases() -> Vec<Case<Cell, Verdict>> {
    let row = |phase, command| Cell { row: RowFacts { phase, command, ..START.row }, ..START };
    let with = |cell: Cell, report| Cell { seen: Facts { report, ..cell.seen }, ..cell };
    let draining = row(Phase::Draining, CommandState::Recorded);
    let configured = with(row(Phase::Configured, CommandState::None), Reported::Configured);
    let with_command = |verdict: Verdict, command| {
        verdict.change_record(RecordChange { command, binding: BindingChange::Kept })
    };
    let drain = Verdict { effect: Some(EffectKind::Drain), ..hold(Phase::Draining) };
    let sent = with_command(drain, CommandState::Sent);
    let moved = |phase| Verdict { event: Some(EventKind::Moved), ..hold(phase) };
    let clears = RecordChange { command: CommandState::None, binding: BindingChange::Cleared };
    let cleared = |verdict: Verdict| verdict.change_record(clears);
    let ended =
        Verdict { event: Some(EventKind::Gone), requeue: Requeue::Never, ..hold(Phase::Gone) };
    let begun = with_command(moved(Phase::Draining), CommandState::Recorded);
    let paused = Facts { restriction: Restriction::Paused, ..configured.seen };
    let failed = Cell { row: RowFacts { hold: Hold::Held, ..START.row }, ..START };
    let failed = Cell { row: RowFacts { phase: Phase::Failed, ..failed.row }, ..failed };
    let wanted = Cell { row: RowFacts { want: Want::Bind, ..configured.row }, ..configured };
    vec![
        (EVENT_ALONE, draining, Verdict { event: Some(EventKind::Moved), ..sent }),
        (RECORDED, row(Phase::Draining, CommandState::None), sent),
        (RECORDED, draining, with_command(sent, CommandState::Recorded)),
        (CLEARED, with(draining, Reported::Draining), cleared(hold(Phase::Draining))),
        (CLEARED, configured, cleared(moved(Phase::Draining))),
        (KEPT, configured, moved(Phase::Idle)),
        (EMITTED, configured, hold(Phase::Draining)),
        (EMITTED, configured, moved(Phase::Configured)),
        (GONE, with(START, Reported::Missing), ended),
        (
            GONE,
            Cell {
                seen: Facts {
                    restriction: Restriction::GuardTripped,
                    report: Reported::Absent,
                    ..START.seen
                },
                ..START
            },
            ended,
        ),
        (SILENT, with(START, Reported::Stale), moved(Phase::Speculative)),
        (SILENT, with(START, Reported::Unknown), moved(Phase::Failed)),
        (DISPUTED, configured, Verdict { reason: Reason::BindingDisputed, ..begun }),
        (PAUSED, Cell { seen: paused, ..configured }, begun),
        (HELD, failed, with_command(hold(Phase::Failed), CommandState::Recorded)),
        (WANTED, wanted, begun),
        (EDGES, START, moved(Phase::Creating)),
        (NEVER, START, Verdict { requeue: Requeue::Never, ..hold(Phase::Idle) }),
        (
            NEVER,
            row(Phase::Draining, CommandState::None),
            Verdict { requeue: Requeue::OnChange, ..hold(Phase::Draining) },
        ),
    ]
}

fn hold(phase: Phase) -> Verdict {
    let change = RecordChange { command: CommandState::None, binding: BindingChange::Kept };
    Verdict::wait(phase, Requeue::Poll, Reason::AsDeclared).change_record(change)
}
