use std::time::Duration;

use usher_kernel::Requeue;

use super::*;
use crate::direct::facts::Identity as Fact;
use crate::direct::fixture::{
    NOW, START, binding, fields, foreign, gone, identified, intended, leaving, name, resource, seen,
};
use crate::direct::orphan::Evidence;
use crate::direct::reason::Reason;

fn verdict(phase: Phase, change: Option<RecordChange>) -> Verdict {
    let (effect, event) = (None, None);
    Verdict { effect, phase, change, event, requeue: Requeue::Poll, reason: Reason::AsDeclared }
}

fn with_identity() -> Resource {
    resource(|it| it.identity = Some(identified("a")))
}

fn orphan(outcome: Outcome) -> OrphanRecord {
    let whose = (&fields().object, binding(), "kind");
    OrphanRecord::new(whose, outcome, &NameLedger::default(), Evidence::default(), NOW)
}

#[test]
fn a_row_that_breaks_an_invariant_is_refused_by_its_field() {
    type Bend = fn(&mut Fields);
    let cases: [(&str, Bend); 17] = [
        ("namespace", |it| it.object.namespace = "a.b".to_owned()),
        ("name", |it| it.object.name = String::new()),
        ("uid", |it| it.object.uid = Uid::new("")),
        ("installation", |it| it.installation = InstallationId::from_uuid(uuid::Uuid::nil())),
        ("kind", |it| it.kind = String::new()),
        ("generation", |it| it.generation = Generation(0)),
        ("attempt", |it| it.attempt = 0),
        ("created_at", |it| it.created_at = Timestamp::ZERO),
        ("updated_at", |it| it.updated_at = Timestamp::from_millis(1)),
        ("phase_since", |it| it.phase_since = Timestamp::from_millis(1)),
        ("deletion_seen_at", |it| it.phase = Phase::Deleting),
        ("deletion_seen_at", |it| it.deletion_seen_at = Some(START)),
        ("asked_at", |it| it.asked_at = Some(START)),
        ("outcome", |it| it.outcome = Some(Outcome::Deleted)),
        ("outcome", |it| {
            it.phase = Phase::Deleted;
            it.deletion_seen_at = Some(START);
        }),
        ("orphan", |it| {
            it.phase = Phase::Deleting;
            it.deletion_seen_at = Some(START);
            it.outcome = Some(Outcome::Abandoned);
        }),
        ("orphan", |it| it.orphan = Some(orphan(Outcome::Abandoned))),
    ];
    for (what, bend) in cases {
        let mut fields = fields();
        bend(&mut fields);
        let refusal = Resource::hydrate(fields).unwrap_err();
        assert_eq!(refusal, Refusal::InvalidInput(what.to_owned()));
        assert!(!refusal.to_string().ends_with("must be valid"), "{refusal}");
    }
}

// Requirement: I-10
#[test]
fn an_end_by_absence_is_proved_by_the_ledger() {
    let ended = |outcome, history, rows: Vec<Row>| {
        let it = leaving(|it| {
            it.outcome = Some(outcome);
            it.history = history;
        });
        it.ended(&NameLedger::new(rows)).map(|it| it.outcome())
    };
    let (deleted, absent) = (Outcome::Deleted, Outcome::AlreadyAbsent);
    let cases = [
        (deleted, History::Witnessed, vec![gone(name(), "c-1")], Some(deleted)),
        (deleted, History::Witnessed, vec![seen(name(), "c-1")], None),
        (deleted, History::Witnessed, vec![], None),
        (absent, History::Lost, vec![gone(name(), "c-1")], Some(absent)),
        (absent, History::Lost, vec![], None),
        (absent, History::Witnessed, vec![], Some(absent)),
        (absent, History::Witnessed, vec![intended(name())], None),
    ];
    for (outcome, history, rows, expected) in cases {
        assert_eq!(ended(outcome, history, rows.clone()), expected, "{history:?} {rows:?}");
    }
}

// Requirement: I-13
#[test]
fn a_mark_is_ours_by_object_installation_and_a_request_that_was_sent() {
    let it = resource(|it| it.attempt = 2);
    let mark = |attempt| Mark { owner: binding(), request: RequestId::of(&binding(), attempt) };
    assert_eq!(it.mark(), mark(2));
    assert!(it.owns(&mark(1)) && it.owns(&mark(2)));
    assert!(!it.owns(&mark(3)), "that was not sent by us");
    let copied = Binding { object: Uid::new("uid-2"), ..binding() };
    let request = RequestId::of(&copied, 1);
    assert!(!it.owns(&Mark { owner: copied, request }), "another object's");
    let lost = resource(|it| it.history = History::Lost);
    assert!(lost.owns(&mark(3)), "a lost ledger does not say what was sent");
}

#[test]
fn the_record_follows_the_row_of_the_current_name() {
    let it = with_identity();
    let kept = |row: Row| it.recorded(&NameLedger::new([row])).map(|it| it.state().clone());
    let request = RequestId::of(&binding(), 1);
    assert_eq!(kept(intended(name())), Some(recorded::IdentityState::Intended { request }));
    let uid = Uid::new("c");
    assert_eq!(kept(seen(name(), "c")), Some(recorded::IdentityState::Seen { uid }));
    assert_eq!(kept(gone(name(), "c")), Some(recorded::IdentityState::Gone));
    assert_eq!(kept(foreign(name())), None);
    assert_eq!(resource(|_| ()).recorded(&NameLedger::new([intended(name())])), None);
    let next = resource(|it| {
        it.identity = Some(identified("a"));
        it.generation = Generation(2);
    });
    assert_eq!(next.current(&NameLedger::new([gone(name(), "c")])), None, "of another generation");
}

#[test]
fn every_name_state_has_its_fact() {
    let it = with_identity();
    let identity = |rows: Vec<Row>| it.facts(&NameLedger::new(rows), Fact::Lost, NOW).identity;
    let abandoned = Row { state: NameState::Abandoned, ..seen(name(), "c") };
    assert_eq!(identity(vec![]), Fact::Lost);
    assert_eq!(identity(vec![intended(name())]), Fact::Intended);
    assert_eq!(identity(vec![seen(name(), "c")]), Fact::Seen);
    assert_eq!(identity(vec![gone(name(), "c")]), Fact::Gone);
    assert_eq!(identity(vec![foreign(name())]), Fact::Foreign);
    assert_eq!(identity(vec![abandoned]), Fact::Abandoned);
}

#[test]
fn the_grace_ends_with_requests_in_flight_or_with_the_watch() {
    let grace_over =
        |it: &Resource, now| it.facts(&NameLedger::default(), Fact::None, now).grace_over;
    let it = leaving(|it| it.grace_until = Some(NOW));
    let before = Timestamp::from_micros(NOW.as_micros() - 1);
    assert_eq!((grace_over(&it, before), grace_over(&it, NOW)), (GraceOver::No, GraceOver::Yes));
    let ended = leaving(|it| {
        it.phase = Phase::Deleted;
        it.outcome = Some(Outcome::Deleted);
        it.grace_until = Some(NOW.after(Duration::from_secs(9)));
        it.watch_until = Some(NOW);
    });
    assert_eq!(
        (grace_over(&ended, before), grace_over(&ended, NOW)),
        (GraceOver::No, GraceOver::Yes)
    );
    assert_eq!(grace_over(&leaving(|_| ()), before), GraceOver::Yes);
}

#[test]
fn a_first_identity_keeps_the_generation_and_another_one_begins_the_next() {
    let turned = |identity| Turned { intended: Some(identity), ..Turned::default() };
    let intend = verdict(Phase::Pending, Some(RecordChange::Intend));
    let first = resource(|_| ()).turned(intend, turned(identified("a")), NOW);
    assert_eq!(first.identity(), Some(&identified("a")));
    assert_eq!((first.fields().generation, first.fields().attempt), (Generation(1), 1));
    let next = first.turned(intend, turned(identified("b")), NOW);
    assert_eq!(next.identity(), Some(&identified("b")));
    assert_eq!((next.fields().generation, next.fields().attempt), (Generation(2), 2));
    let again = verdict(Phase::Creating, Some(RecordChange::Again));
    let again = first.turned(again, Turned::default(), NOW);
    assert_eq!((again.fields().generation, again.fields().attempt), (Generation(1), 2));
    assert_eq!(again.identity(), first.identity());
}

#[test]
fn an_operation_is_kept_until_the_next_request() {
    let turned = |name: Option<&str>| Turned {
        operation: name.map(str::to_owned),
        intended: Some(identified("a")),
        ..Turned::default()
    };
    let keep = verdict(Phase::Creating, None);
    let running = with_identity().turned(keep, turned(Some("op-1")), NOW);
    assert_eq!(running.fields().operation.as_deref(), Some("op-1"));
    let kept = running.turned(keep, turned(None), NOW);
    assert_eq!(kept.fields().operation.as_deref(), Some("op-1"));
    for change in [RecordChange::Again, RecordChange::Intend] {
        let next =
            running.turned(verdict(Phase::Creating, Some(change)), turned(Some("op-1")), NOW);
        assert_eq!(next.fields().operation, None);
        assert_eq!(next.fields().spent.as_deref(), Some("op-1"), "its answer was read");
    }
}

#[test]
fn deletion_is_seen_once_and_its_in_flight_grace_is_never_shortened() {
    let later = NOW.after(Duration::from_secs(1));
    let turned = |grace_until| Turned { grace_until, ..Turned::default() };
    let deleting = verdict(Phase::Deleting, None);
    let it = resource(|it| it.grace_until = Some(later));
    let seen = it.turned(deleting, turned(Some(NOW)), NOW);
    assert_eq!(seen.fields().deletion_seen_at, Some(NOW));
    assert_eq!(seen.fields().grace_until, Some(later));
    let again = seen.turned(deleting, turned(Some(later.after(Duration::from_secs(9)))), later);
    assert_eq!(again, seen, "nothing moved, not even the time");
}

#[test]
fn an_end_is_kept_with_its_proof() {
    let it = leaving(|_| ());
    let record = orphan(Outcome::OrphanReleased);
    let turned = Turned {
        ended: Some(Ended::recorded(&record)),
        orphan: Some(record.clone()),
        ..Turned::default()
    };
    let next = it.turned(
        verdict(Phase::Deleting, Some(RecordChange::End(Outcome::OrphanReleased))),
        turned,
        NOW,
    );
    assert_eq!(next.ended(&NameLedger::default()).unwrap().outcome(), Outcome::OrphanReleased);
    assert_eq!(next.fields().orphan, Some(record));
    assert!(Resource::hydrate(next.fields().clone()).is_ok());
}

#[test]
fn a_clock_that_jumped_back_takes_no_time_back() {
    let it = resource(|it| it.updated_at = NOW);
    let next = it.turned(verdict(Phase::Creating, None), Turned::default(), START);
    assert_eq!((next.fields().updated_at, next.fields().phase_since), (NOW, NOW));
    let same = it.turned(verdict(Phase::Pending, None), Turned::default(), NOW);
    assert_eq!(same, it);
}
