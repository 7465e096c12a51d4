//! The direct resource: its facts, its answer, its laws, and which function holds its rules.

use usher_domain::direct::facts::{
    Asked, Cloud, Ended, Facts, GraceOver, Hold, Identity, Object, Operation, Policy, Refs,
    RowFacts, Search, Stamp,
};
use usher_domain::direct::phase::Phase;
use usher_domain::direct::proof::Outcome;
use usher_domain::direct::reason::Reason;
use usher_domain::direct::reconcile::rules;
use usher_domain::direct::verdict::{EffectKind, EventKind, RecordChange, Verdict};
use usher_kernel::Requeue;

use crate::law_cases::{self, Case};
use crate::shape::{Absent, Evaluation, Machine, Origin, Outcome as Said, words};

/// One cell: the input of the rules.
#[derive(Clone, Copy)]
pub(crate) struct Cell {
    row: RowFacts,
    seen: Facts,
}

/// Any cell.
const START: Cell = Cell {
    row: RowFacts {
        phase: Phase::Pending,
        identity: Identity::None,
        grace_over: GraceOver::Yes,
        asked: Asked::No,
        ended: Ended::No,
    },
    seen: Facts {
        object: Object::Held,
        hold: Hold::None,
        policy: Policy::Hold,
        refs: Refs::Agrees,
        search: Search::None,
        stamp: Stamp::Current,
        operation: Operation::None,
        cloud: Cloud::Absent,
    },
};

/// The direct resource's machine.
pub(crate) fn machine() -> Machine<Cell> {
    Machine::new("direct", START, |cell| evaluate(*cell))
        .fact(Origin::Row, "phase", words!(Phase), |c, v| c.row.phase = Phase::ALL[v])
        .fact(Origin::Row, "identity", words!(Identity), |c, v| {
            c.row.identity = Identity::ALL[v];
        })
        .fact(Origin::Row, "grace_over", words!(GraceOver), |c, v| {
            c.row.grace_over = GraceOver::ALL[v];
        })
        .fact(Origin::Row, "asked", words!(Asked), |c, v| c.row.asked = Asked::ALL[v])
        .fact(Origin::Row, "ended", words!(Ended), |c, v| c.row.ended = Ended::ALL[v])
        .fact(Origin::Seen, "object", words!(Object), |c, v| c.seen.object = Object::ALL[v])
        .fact(Origin::Seen, "hold", words!(Hold), |c, v| c.seen.hold = Hold::ALL[v])
        .fact(Origin::Seen, "policy", words!(Policy), |c, v| c.seen.policy = Policy::ALL[v])
        .fact(Origin::Seen, "refs", words!(Refs), |c, v| c.seen.refs = Refs::ALL[v])
        .fact(Origin::Seen, "search", words!(Search), |c, v| c.seen.search = Search::ALL[v])
        .fact(Origin::Seen, "stamp", words!(Stamp), |c, v| c.seen.stamp = Stamp::ALL[v])
        .fact(Origin::Seen, "operation", words!(Operation), |c, v| {
            c.seen.operation = Operation::ALL[v];
        })
        .fact(Origin::Seen, "cloud", words!(Cloud), |c, v| c.seen.cloud = Cloud::ALL[v])
        .field("effect", words!(EffectKind), Absent::Nothing)
        .following("phase", "phase", words!(Phase), Absent::Refused)
        .field("event", words!(EventKind), Absent::Nothing)
        .field("change", RecordChange::WORDS.to_vec(), Absent::Nothing)
        .field("requeue", words!(Requeue), Absent::Refused)
        .field("reason", words!(Reason), Absent::Refused)
}

fn evaluate(cell: Cell) -> Evaluation {
    let incomplete = cell.seen.visibility().is_incomplete();
    let verdict = rules(cell.row, cell.seen).with_snapshot(incomplete);
    Evaluation { outcome: outcome(verdict), broken: broken(cell, verdict) }
}

/// The fields in the order of [`machine`].
fn outcome(verdict: Verdict) -> Said {
    let said = Said::default()
        .with(1, verdict.phase as usize)
        .with(4, verdict.requeue as usize)
        .with(5, verdict.reason as usize);
    let said = verdict.effect.map_or(said, |it| said.with(0, it as usize));
    let said = verdict.event.map_or(said, |it| said.with(2, it as usize));
    verdict.change.map_or(said, |it| said.with(3, it.index()))
}

const EVENT_ALONE: &str = "a verdict with an event has no effect";
const EMITTED: &str =
    "an event is emitted exactly when the phase becomes Ready, Deleting or Deleted";
const NO_WAY_BACK: &str = "Deleting is followed only by Deleted, and Deleted by nothing";
const RELEASE: &str = "the finalizer is removed only when the end is recorded";
const ABSENCE: &str = "an end by absence needs an answer, or a ledger without any request sent";
const ORPHAN: &str = "an orphan is left by policy only, or when our finalizer is off the object";
const DELETES: &str =
    "only what was seen, is ours and is in teardown is deleted, once that is recorded";
const UNGUARDED: &str = "nothing is done to an object that is held or whose policy is unreadable";
const ABANDONED: &str = "an abandoned resource touches nothing and waits for nothing";
const COPY: &str = "a copy and an abandoned resource never act on the cloud";
const AHEAD: &str = "nothing is created before its identity is in the record and on the object";
const PARENTLESS: &str = "a reference never blocks the teardown of a recorded identity";
const SETTLED: &str = "nothing ends by absence while a request of ours may be in flight";
const NEVER: &str = "the requeue is Never only in Deleted";
const TIMED: &str = "an incomplete snapshot is never requeued without a timer";
const OPERATION: &str = "nothing ends for good while an operation is unknown";

/// The laws, in the order in which [`broken`] checks them.
const LAWS: [&str; 16] = [
    EVENT_ALONE,
    EMITTED,
    NO_WAY_BACK,
    RELEASE,
    ABSENCE,
    ORPHAN,
    DELETES,
    UNGUARDED,
    ABANDONED,
    COPY,
    AHEAD,
    PARENTLESS,
    SETTLED,
    NEVER,
    TIMED,
    OPERATION,
];

/// The first law that a verdict breaks.
fn broken(cell: Cell, verdict: Verdict) -> Option<&'static str> {
    let Cell { row, seen } = cell;
    let does = |kind| verdict.effect == Some(kind);
    let ends = |outcome| verdict.change == Some(RecordChange::End(outcome));
    let by_absence = ends(Outcome::Deleted) || ends(Outcome::AlreadyAbsent);
    let leaving = row.phase == Phase::Deleting && seen.object == Object::Leaving;
    let out_of_hands = matches!(seen.object, Object::Free | Object::Gone);
    let open = leaving && row.ended == Ended::No;
    let acts = does(EffectKind::Create) || does(EffectKind::Update) || does(EffectKind::Delete);
    let holds = [
        verdict.event.is_none() || verdict.effect.is_none(),
        verdict.event == transition(row.phase, verdict.phase),
        is_forward(row.phase, verdict.phase),
        !does(EffectKind::RemoveFinalizer) || row.ended == Ended::Yes,
        !by_absence || is_answered(row),
        !ends(Outcome::OrphanReleased) || out_of_hands || seen.policy == Policy::Release,
        !does(EffectKind::Delete) || is_deletable(cell),
        !open || !is_guarded(seen) || (verdict.effect.is_none() && verdict.change.is_none()),
        !open || !abandons(seen) || ends(Outcome::Abandoned),
        !acts || !matches!(row.identity, Identity::BoundElsewhere | Identity::Abandoned),
        !does(EffectKind::Create) || is_ahead(cell),
        !open || !is_recorded(row.identity) || !is_about_references(verdict.reason),
        !by_absence || is_settled(cell),
        verdict.requeue != Requeue::Never || verdict.phase == Phase::Deleted,
        verdict.requeue != Requeue::OnChange || !seen.visibility().is_incomplete(),
        verdict.requeue != Requeue::Never || seen.operation != Operation::Unknown,
    ];
    holds.iter().position(|holds| !holds).map(|law| LAWS[law])
}

fn transition(from: Phase, to: Phase) -> Option<EventKind> {
    match to {
        Phase::Ready if from != to => Some(EventKind::Ready),
        Phase::Deleting if from != to => Some(EventKind::Deleting),
        Phase::Deleted if from != to => Some(EventKind::Deleted),
        Phase::Pending | Phase::Creating | Phase::Ready | Phase::Deleting | Phase::Deleted => None,
    }
}

fn is_forward(from: Phase, to: Phase) -> bool {
    match from {
        Phase::Deleted => to == Phase::Deleted,
        Phase::Deleting => matches!(to, Phase::Deleting | Phase::Deleted),
        Phase::Pending | Phase::Creating | Phase::Ready => true,
    }
}

fn is_answered(row: RowFacts) -> bool {
    match row.identity {
        Identity::None | Identity::Gone => true,
        Identity::Lost
        | Identity::Found
        | Identity::Malformed
        | Identity::Intended
        | Identity::Seen
        | Identity::Foreign
        | Identity::BoundElsewhere
        | Identity::Abandoned => false,
    }
}

fn is_deletable(Cell { row, seen }: Cell) -> bool {
    let ours = matches!(seen.cloud, Cloud::Ours | Cloud::Drifted | Cloud::Unrecorded);
    let leaving = row.phase == Phase::Deleted || seen.object == Object::Leaving;
    let asked = row.phase == Phase::Deleted || row.asked == Asked::Yes;
    row.identity == Identity::Seen && ours && leaving && asked
}

fn is_guarded(seen: Facts) -> bool {
    seen.hold == Hold::Another || seen.policy == Policy::Unreadable
}

fn abandons(seen: Facts) -> bool {
    seen.hold == Hold::None && seen.policy == Policy::Abandon
}

fn is_ahead(Cell { row, seen }: Cell) -> bool {
    let recorded = row.identity == Identity::Intended && seen.stamp == Stamp::Current;
    recorded && seen.cloud == Cloud::Absent && seen.object == Object::Held
}

fn is_recorded(identity: Identity) -> bool {
    matches!(identity, Identity::Intended | Identity::Seen | Identity::Gone | Identity::Foreign)
}

fn is_about_references(reason: Reason) -> bool {
    matches!(
        reason,
        Reason::ReferenceInvalid
            | Reason::ReferenceNotFound
            | Reason::ReferenceTerminating
            | Reason::ReferenceNotReady
            | Reason::ReferenceKindNotInstalled
            | Reason::ReferenceForbidden
            | Reason::ReferenceUnavailable
            | Reason::Orphaned
    )
}

fn is_settled(Cell { row, seen }: Cell) -> bool {
    let still = matches!(seen.operation, Operation::None | Operation::Failed);
    row.identity == Identity::None || (still && row.grace_over == GraceOver::Yes)
}

/// Breaks each law in a cell where nothing else is wrong, and expects that law to be reported.
pub(crate) fn check() -> Result<String, String> {
    law_cases::check("direct", &LAWS, &cases(), |cell, verdict| broken(*cell, *verdict))
}

/// Each law, and a cell and a verdict that break it and no earlier one.
fn cases() -> Vec<Case<Cell, Verdict>> {
    let stay = hold(Phase::Deleting);
    let gone = leaving(|_| ());
    let with_effect = Verdict {
        event: Some(EventKind::Deleted),
        effect: Some(EffectKind::Stamp),
        ..hold(Phase::Deleted)
    };
    let create = Verdict { effect: Some(EffectKind::Create), ..hold(Phase::Pending) };
    let update = Verdict { effect: Some(EffectKind::Update), ..hold(Phase::Pending) };
    let intended = Cell { row: RowFacts { identity: Identity::Intended, ..START.row }, ..START };
    let unstamped = Cell { seen: Facts { stamp: Stamp::Stale, ..START.seen }, ..intended };
    let copy = RowFacts { identity: Identity::BoundElsewhere, ..START.row };
    let unknown = leaving(|it| it.seen.operation = Operation::Unknown);
    let mut over = unknown;
    over.row.phase = Phase::Deleted;
    let mut cases = vec![
        (EVENT_ALONE, gone, with_effect),
        (EMITTED, START, hold(Phase::Ready)),
        (EMITTED, gone, Verdict { event: Some(EventKind::Deleting), ..stay }),
        (NO_WAY_BACK, gone, hold(Phase::Pending)),
        (RELEASE, gone, act(EffectKind::RemoveFinalizer)),
        (DELETES, gone, act(EffectKind::Delete)),
        (ABANDONED, leaving(|it| it.seen.policy = Policy::Abandon), stay),
        (COPY, Cell { row: copy, ..START }, update),
        (AHEAD, START, create),
        (AHEAD, unstamped, create),
        (PARENTLESS, gone, Verdict { reason: Reason::ReferenceNotFound, ..stay }),
        (NEVER, gone, Verdict { requeue: Requeue::Never, ..stay }),
        (TIMED, unknown, Verdict { requeue: Requeue::OnChange, ..stay }),
        (OPERATION, over, Verdict { requeue: Requeue::Never, ..hold(Phase::Deleted) }),
    ];
    cases.extend(ends());
    cases
}

/// The laws about ends and what must not be touched.
fn ends() -> Vec<(&'static str, Cell, Verdict)> {
    let ending = |outcome| hold(Phase::Deleting).change_record(RecordChange::End(outcome));
    let lost = leaving(|it| it.row.identity = Identity::Lost);
    let held_by_another = leaving(|it| {
        it.row.identity = Identity::Seen;
        it.row.asked = Asked::Yes;
        it.seen.cloud = Cloud::Foreign;
    });
    let unasked = leaving(|it| {
        it.row.identity = Identity::Seen;
        it.seen.cloud = Cloud::Ours;
    });
    let running = leaving(|it| it.seen.operation = Operation::Running);
    let unreadable = leaving(|it| it.seen.policy = Policy::Unreadable);
    vec![
        (ABSENCE, leaving(|it| it.row.identity = Identity::Seen), ending(Outcome::Deleted)),
        (ABSENCE, leaving(|it| it.row.identity = Identity::Intended), ending(Outcome::Deleted)),
        (ABSENCE, lost, ending(Outcome::AlreadyAbsent)),
        (ORPHAN, lost, ending(Outcome::OrphanReleased)),
        (DELETES, held_by_another, act(EffectKind::Delete)),
        (DELETES, unasked, act(EffectKind::Delete)),
        (UNGUARDED, leaving(|it| it.seen.hold = Hold::Another), ending(Outcome::Abandoned)),
        (UNGUARDED, unreadable, act(EffectKind::Stamp)),
        (SETTLED, running, ending(Outcome::Deleted)),
        (SETTLED, leaving(|it| it.row.grace_over = GraceOver::No), ending(Outcome::Deleted)),
    ]
}

/// A row in teardown whose cloud object is gone.
fn leaving(bend: impl FnOnce(&mut Cell)) -> Cell {
    let mut cell = START;
    cell.row.phase = Phase::Deleting;
    cell.row.identity = Identity::Gone;
    cell.seen.object = Object::Leaving;
    bend(&mut cell);
    cell
}

fn act(effect: EffectKind) -> Verdict {
    Verdict { effect: Some(effect), ..hold(Phase::Deleting) }
}

fn hold(phase: Phase) -> Verdict {
    Verdict::wait(phase, Requeue::Poll, Reason::HeldByFinalizer)
}
