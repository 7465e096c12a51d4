//! One pass between a scripted world and a scripted ledger, both of which write a diary.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::id::{Generation, Uid, Version};
use crate::identity::{Answer, Name, NameLedger, NameState, Row, Sighting};
use crate::lifecycle::Record;

const NOW: Timestamp = Timestamp::from_millis(1);

/// A lamp: it is lit by an effect, and burning is an event.
struct Lamp;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Dark,
    Asked,
    Lit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Light;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Burns;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Lighting,
    Burning,
}

impl Lifecycle for Lamp {
    type State = State;
    type Observed = bool;
    type Effect = Light;
    type Event = Burns;
    type Reason = Why;

    fn decide(&self, record: &Record<State>, burns: &bool, now: Timestamp) -> Decision<Self> {
        let answer = if *burns {
            Answer::Present { uid: Uid::new("flame"), ours: true }
        } else {
            Answer::Absent { settled: false }
        };
        let sighting = Sighting { plural: None, name: flame(), answer, by: "eye".into(), at: now };
        let rows = record.name_ledger.absorb(&[sighting]);
        let lit = record.state == State::Lit;
        let (next, reason) =
            if *burns { (State::Lit, Why::Burning) } else { (State::Asked, Why::Lighting) };
        Decision {
            next,
            rows,
            effect: (!burns).then_some(Light),
            event: (*burns && !lit).then_some(Burns),
            wake: if *burns { Wake::OnChange } else { Wake::Now },
            reason,
        }
    }
}

fn flame() -> Name {
    Name {
        kind: "Flame".into(),
        place: String::new(),
        name: "f".into(),
        generation: Generation::FIRST,
    }
}

/// What happened, in order.
type Diary = Rc<RefCell<Vec<String>>>;

/// The outside: whether it burns, and what it refuses.
struct Room {
    diary: Diary,
    burns: Cell<bool>,
    /// How often each verb is done: a verb that cannot be repeated is found out by two.
    times: u32,
    unreachable: Option<Trouble>,
    refuses: Option<Trouble>,
}

impl World<Lamp> for Room {
    async fn observe(&self, record: &Record<State>) -> Result<bool, Trouble> {
        self.diary.borrow_mut().push(format!("observe {:?}", record.state));
        self.unreachable.clone().map_or(Ok(self.burns.get()), Err)
    }

    async fn apply(&self, record: &Record<State>, effect: &Light) -> Result<(), Trouble> {
        for _ in 0..self.times {
            self.diary.borrow_mut().push(format!("apply {effect:?} to {:?}", record.state));
            if let Some(trouble) = &self.refuses {
                return Err(trouble.clone());
            }
            self.burns.set(true);
        }
        Ok(())
    }
}

/// The inside: one record, and what it refuses.
struct Shelf {
    diary: Diary,
    record: RefCell<Record<State>>,
    gone: bool,
    shown: RefCell<Option<Condition<Why>>>,
    unreadable: Option<Trouble>,
    refuses: Option<Trouble>,
}

impl Ledger<Lamp> for Shelf {
    async fn load(&self) -> Result<Option<Record<State>>, Trouble> {
        self.diary.borrow_mut().push("load".into());
        let record = (!self.gone).then(|| self.record.borrow().clone());
        self.unreadable.clone().map_or(Ok(record), Err)
    }

    fn condition(&self) -> Option<Condition<Why>> {
        self.shown.borrow().clone()
    }

    async fn report(&self, condition: &Condition<Why>) -> Result<(), Trouble> {
        let Condition { reason, trouble } = condition;
        self.diary.borrow_mut().push(format!("report {reason:?} {trouble:?}"));
        *self.shown.borrow_mut() = Some(condition.clone());
        Ok(())
    }

    async fn commit(&self, version: Version, decision: &Decision<Lamp>) -> Result<(), Trouble> {
        let rows: Vec<_> = decision.rows.iter().map(|row| row.state.as_str()).collect();
        let reported = decision.event.map_or("nothing", |Burns| "Burns");
        let line =
            format!("commit {} {:?} rows {rows:?} emitting {reported}", version.0, decision.next);
        self.diary.borrow_mut().push(line);
        if let Some(trouble) = &self.refuses {
            return Err(trouble.clone());
        }
        let mut record = self.record.borrow_mut();
        record.version = version.next();
        record.state = decision.next;
        record.name_ledger = record.name_ledger.with(&decision.rows);
        let reason = Some(decision.reason);
        *self.shown.borrow_mut() = Some(Condition { reason, trouble: None });
        Ok(())
    }
}

struct Scene {
    diary: Diary,
    room: Room,
    shelf: Shelf,
}

/// A lamp whose name is recorded, seen burning if it is lit.
fn scene(state: State, burns: bool) -> Scene {
    let mut row = Row::intended(flame(), "usher", NOW);
    if state == State::Lit {
        row.state = NameState::Seen;
        row.uid = Some(Uid::new("flame"));
    }
    let record = Record { version: Version(7), state, name_ledger: NameLedger::new([row]) };
    let reason = if burns { Why::Burning } else { Why::Lighting };
    let diary = Diary::default();
    let room = Room {
        diary: diary.clone(),
        burns: Cell::new(burns),
        times: 1,
        unreachable: None,
        refuses: None,
    };
    let shelf = Shelf {
        diary: diary.clone(),
        record: RefCell::new(record),
        gone: false,
        shown: RefCell::new(Some(Condition { reason: Some(reason), trouble: None })),
        unreadable: None,
        refuses: None,
    };
    Scene { diary, room, shelf }
}

impl Scene {
    /// Runs one pass; nothing here ever has to wait.
    fn pass(&self) -> Result<Option<Report<Why>>, Stopped> {
        let mut pass = pin!(step(&Lamp, &self.room, &self.shelf, NOW));
        match pass.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => panic!("a scripted pass does not wait"),
        }
    }

    fn step(&self) -> Result<Report<Why>, Stopped> {
        self.pass().map(|it| it.expect("the record is there"))
    }

    fn diary(&self) -> Vec<String> {
        self.diary.borrow().clone()
    }
}

fn down(what: &str) -> Trouble {
    Trouble::unavailable(what)
}

// Requirement: K-4
#[test]
fn a_pass_loads_observes_applies_and_commits_in_this_order() {
    let scene = scene(State::Dark, false);
    let report = Report { reason: Why::Lighting, wake: Wake::Now, acted: true, committed: true };
    assert_eq!(scene.step(), Ok(report));
    let diary =
        ["load", "observe Dark", "apply Light to Dark", "commit 7 Asked rows [] emitting nothing"];
    assert_eq!(scene.diary(), diary);
}

// Requirement: K-10
#[test]
fn what_an_effect_made_is_learned_by_the_next_pass() {
    let scene = scene(State::Dark, false);
    scene.step().unwrap();
    let report =
        Report { reason: Why::Burning, wake: Wake::OnChange, acted: false, committed: true };
    assert_eq!(scene.step(), Ok(report));
    let second = ["load", "observe Asked", "commit 8 Lit rows [\"seen\"] emitting Burns"];
    assert_eq!(scene.diary()[4..], second);
}

// Requirement: K-5
#[test]
fn an_unchanged_state_is_not_written() {
    let scene = scene(State::Lit, true);
    let report =
        Report { reason: Why::Burning, wake: Wake::OnChange, acted: false, committed: false };
    assert_eq!(scene.step(), Ok(report));
    assert_eq!(scene.diary(), ["load", "observe Lit"]);
}

// Requirement: K-5
#[test]
fn an_effect_that_changes_no_row_is_done_without_a_write() {
    let scene = scene(State::Asked, false);
    let report = Report { reason: Why::Lighting, wake: Wake::Now, acted: true, committed: false };
    assert_eq!(scene.step(), Ok(report));
    assert_eq!(scene.diary(), ["load", "observe Asked", "apply Light to Asked"]);
}

// Requirement: K-5
#[test]
fn identity_rows_alone_are_written() {
    let scene = scene(State::Lit, true);
    scene.shelf.record.borrow_mut().name_ledger = NameLedger::default();
    assert!(scene.step().unwrap().committed);
    let diary = ["load", "observe Lit", "commit 7 Lit rows [\"seen\"] emitting nothing"];
    assert_eq!(scene.diary(), diary);
}

// Requirement: K-5, V-8
#[test]
fn an_event_alone_is_written() {
    let mut decision = Lamp.decide(&scene(State::Lit, true).shelf.record.borrow(), &true, NOW);
    assert!(!changes::<Lamp>(&State::Lit, &decision), "nothing moved");
    decision.event = Some(Burns);
    assert!(changes::<Lamp>(&State::Lit, &decision), "something is emitted");
}

// Requirement: K-7
#[test]
fn a_record_that_cannot_be_read_is_not_observed() {
    let mut scene = scene(State::Dark, false);
    scene.shelf.unreadable = Some(Trouble::Corrupt { what: "row".into() });
    let trouble = Trouble::Corrupt { what: "row".into() };
    assert_eq!(scene.step(), Err(Stopped { stage: Stage::Load, trouble }));
    assert_eq!(scene.diary(), ["load"]);
}

// Requirement: K-6
#[test]
fn an_observation_that_failed_as_a_whole_decides_nothing() {
    let mut scene = scene(State::Dark, false);
    scene.room.unreachable = Some(down("world"));
    let stopped = Stopped { stage: Stage::Observe, trouble: down("world") };
    assert_eq!(scene.step(), Err(stopped));
    assert_eq!(scene.diary()[..2], ["load", "observe Dark"]);
    assert!(scene.diary()[2..].iter().all(|it| it.starts_with("report")));
}

// Requirement: K-8, T-25
#[test]
fn a_failed_effect_commits_its_transition_and_is_reported() {
    let mut scene = scene(State::Dark, false);
    scene.room.refuses = Some(Trouble::Rejected { what: "matches".into() });
    let trouble = Trouble::Rejected { what: "matches".into() };
    assert_eq!(scene.step(), Err(Stopped { stage: Stage::Apply, trouble }));
    assert_eq!(scene.diary()[3], "commit 7 Asked rows [] emitting nothing");
    assert_eq!(scene.diary()[4], "report Some(Lighting) Some(\"refused by matches\")");
    assert_eq!(scene.shelf.record.borrow().state, State::Asked, "the phase names what is stuck");
}

// Requirement: K-8
#[test]
fn a_failed_effect_without_a_crossing_writes_its_trouble_once() {
    let mut scene = scene(State::Asked, false);
    scene.room.refuses = Some(down("matches"));
    let stopped = Stopped { stage: Stage::Apply, trouble: down("matches") };
    let pass = ["load", "observe Asked", "apply Light to Asked"];
    assert_eq!(scene.step(), Err(stopped.clone()));
    assert_eq!(scene.diary()[..3], pass);
    assert_eq!(scene.diary()[3..], ["report Some(Lighting) Some(\"cannot reach matches\")"]);
    assert_eq!(scene.step(), Err(stopped));
    assert_eq!(scene.diary()[4..], pass, "what is shown is not written again");
}

// Requirement: K-20
/// Red by: conditions that stay as they were because no state changed.
#[test]
fn a_reason_reaches_the_ledger_although_the_state_is_unchanged() {
    let scene = scene(State::Lit, true);
    let reason = Some(Why::Lighting);
    *scene.shelf.shown.borrow_mut() = Some(Condition { reason, trouble: Some("old".into()) });
    assert!(!scene.step().unwrap().committed, "a condition is no state");
    assert_eq!(scene.diary(), ["load", "observe Lit", "report Some(Burning) None"]);
    scene.step().unwrap();
    assert_eq!(scene.diary()[3..], ["load", "observe Lit"], "the second pass writes nothing");
}

// Requirement: K-20
#[test]
fn a_reason_is_not_reported_while_the_next_pass_is_due_at_once() {
    let scene = scene(State::Asked, false);
    *scene.shelf.shown.borrow_mut() = None;
    assert_eq!(scene.step().unwrap().wake, Wake::Now);
    assert_eq!(scene.diary(), ["load", "observe Asked", "apply Light to Asked"]);
}

// Requirement: K-20
// Requirement: K-9
#[test]
fn a_snapshot_that_failed_as_a_whole_is_reported_under_the_last_reason() {
    let mut scene = scene(State::Lit, true);
    scene.room.unreachable = Some(down("world"));
    scene.step().unwrap_err();
    let reported = "report Some(Burning) Some(\"cannot reach world\")";
    assert_eq!(scene.diary(), ["load", "observe Lit", reported]);
    scene.step().unwrap_err();
    assert_eq!(scene.diary()[3..], ["load", "observe Lit"]);
}

// Requirement: K-19
/// Red by: a record that is gone and is requeued again and again.
#[test]
fn a_record_that_is_gone_ends_the_pass() {
    let mut scene = scene(State::Lit, true);
    scene.shelf.gone = true;
    assert_eq!(scene.pass(), Ok(None));
    assert_eq!(scene.diary(), ["load"], "nothing is observed and nothing is written");
}

#[test]
fn a_conflict_is_returned_and_nothing_is_kept() {
    let mut scene = scene(State::Asked, true);
    scene.shelf.refuses = Some(Trouble::Conflict);
    let stopped = Stopped { stage: Stage::Commit, trouble: Trouble::Conflict };
    assert_eq!(scene.step(), Err(stopped));
    let record = scene.shelf.record.borrow();
    assert_eq!((record.version, record.state), (Version(7), State::Asked));
}

/// Red by: a verb that may still arrive, hidden behind a row that moved.
// Requirement: K-9
#[test]
fn a_failed_effect_is_reported_before_a_conflict() {
    let mut scene = scene(State::Dark, false);
    scene.room.refuses = Some(down("matches"));
    scene.shelf.refuses = Some(Trouble::Conflict);
    let stopped = Stopped { stage: Stage::Apply, trouble: down("matches") };
    assert_eq!(scene.step(), Err(stopped), "the newer lease holder has requeued the item");
}

/// Runs until nothing moves, each verb done so many times, each stage broken once if requested.
fn settle(times: u32, broken: bool) -> Record<State> {
    let mut scene = scene(State::Dark, false);
    scene.room.times = times;
    if broken {
        scene.room.unreachable = Some(down("world"));
        scene.step().unwrap_err();
        scene.room.unreachable = None;
        scene.room.refuses = Some(down("matches"));
        scene.step().unwrap_err();
        scene.room.refuses = None;
        scene.shelf.refuses = Some(Trouble::Conflict);
        let _ = scene.step();
        scene.shelf.refuses = None;
    }
    for _ in 0..8 {
        if !scene.step().unwrap().committed && scene.room.burns.get() {
            break;
        }
    }
    let Record { state, name_ledger, .. } = scene.shelf.record.borrow().clone();
    Record { version: Version(0), state, name_ledger }
}

// Requirement: K-11
#[test]
fn repeated_effects_and_failed_passes_end_as_an_undisturbed_run() {
    let smooth = settle(1, false);
    assert_eq!(smooth.state, State::Lit);
    for (times, broken) in [(2, false), (1, true), (2, true)] {
        assert_eq!(settle(times, broken), smooth, "{times} times, broken: {broken}");
    }
}

// Requirement: K-12
#[test]
fn a_stop_names_its_stage_and_its_cause() {
    let stages = [Stage::Load, Stage::Observe, Stage::Apply, Stage::Commit];
    let words = stages.map(|stage| stage.to_string());
    assert_eq!(words, ["load", "observe", "apply", "commit"]);
    let stopped = Stopped { stage: Stage::Apply, trouble: down("cluster") };
    assert_eq!(stopped.to_string(), "stopped at apply");
    let cause = std::error::Error::source(&stopped).map(ToString::to_string);
    assert_eq!(cause.as_deref(), Some("cannot reach cluster"));
}
