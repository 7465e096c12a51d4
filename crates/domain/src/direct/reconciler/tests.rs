use usher_kernel::{Decision, Lifecycle, NameState, Uid, Unknown, Wake};

use super::*;
use crate::direct::aggregate::History;
use crate::direct::fixture::{
    NOW, START, asked, binding, found, gone, identified, intended, leaving, name, object, record,
    resource, seen, snapshot,
};
use crate::direct::mark::{Mark, RequestId};
use crate::direct::observe::fold;
use crate::direct::operation::{Operation, Progress};
use crate::direct::recorded::{self, Recorded};
use crate::direct::snapshot::{self, ReadError, Snapshot};

const RECONCILER: Direct = Direct {
    interval: Duration::from_secs(30),
    slow: Duration::from_mins(5),
    request_bound: Duration::from_secs(10),
    keep: Duration::from_hours(1),
};

fn decide(record: &Record<Resource>, snapshot: &Snapshot) -> Decision<Direct> {
    RECONCILER.decide(record, &fold(&record.state, &record.name_ledger, snapshot), NOW)
}

fn known() -> Resource {
    resource(|it| it.identity = Some(identified("a")))
}

fn going() -> Resource {
    leaving(|it| it.identity = Some(identified("a")))
}

fn going_snapshot() -> Snapshot {
    Snapshot { object: Ok(Some(snapshot::Object { deleting: true, ..object() })), ..snapshot() }
}

fn stamped(state: recorded::IdentityState, snapshot: Snapshot) -> Snapshot {
    let stamp = Some(Recorded::new(binding(), state, identified("a")).to_text());
    Snapshot { object: Ok(Some(snapshot::Object { stamp, ..object() })), ..snapshot }
}

// Requirement: I-3
#[test]
fn the_identity_is_recorded_then_stamped_then_used() {
    let first = decide(&record(resource(|_| ()), []), &Snapshot { cloud: None, ..snapshot() });
    assert_eq!((first.effect.clone(), first.wake), (None, Wake::Now));
    assert_eq!(first.rows, [Row::intended(name(), "usher", NOW)]);
    assert_eq!(first.next.identity(), Some(&identified("a")));

    let recorded_row = record(first.next, first.rows);
    let second = decide(&recorded_row, &snapshot());
    let request = RequestId::of(&binding(), 1);
    let state = recorded::IdentityState::Intended { request };
    let recorded = Recorded::new(binding(), state.clone(), identified("a"));
    let object = recorded_row.state.object().clone();
    assert_eq!(second.effect, Some(Effect::Stamp { object, recorded }));

    let third = decide(&recorded_row, &stamped(state, snapshot()));
    let mark = Mark { owner: binding(), request };
    assert_eq!(third.effect, Some(Effect::Create { identified: identified("a"), mark }));
    assert_eq!(third.next.phase(), Phase::Creating);
}

// Requirement: I-2, I-31
#[test]
fn what_was_seen_is_deleted_at_its_uid_and_revision_without_its_parents() {
    let parentless = Snapshot { spec: None, configuration: None, ..going_snapshot() };
    let snapshot = Snapshot { cloud: Some(asked(Ok(Some(found("c-1"))))), ..parentless };
    let first = decide(&record(going(), [seen(name(), "c-1")]), &snapshot);
    assert_eq!((first.effect, first.wake), (None, Wake::Now), "on record first");
    assert_eq!(first.next.fields().asked_at, Some(NOW));
    let decision = decide(&record(first.next, [seen(name(), "c-1")]), &snapshot);
    let at = Precondition::of(&seen(name(), "c-1"), Some("7")).unwrap();
    assert_eq!(decision.effect, Some(Effect::Delete { identified: identified("a"), at }));
    assert_eq!(decision.wake, Wake::At(NOW.after(RECONCILER.interval)));
}

// Requirement: I-10
#[test]
fn the_finalizer_is_removed_in_a_later_step_than_the_end() {
    let asked_for = leaving(|it| {
        it.identity = Some(identified("a"));
        it.asked_at = Some(START);
    });
    let end = decide(&record(asked_for, [seen(name(), "c-1")]), &going_snapshot());
    assert_eq!((end.effect.clone(), end.event.clone()), (None, None));
    assert_eq!(end.next.fields().outcome, Some(Outcome::Deleted));
    assert_eq!(end.rows[0].state, NameState::Gone);
    let ended = record(end.next, end.rows);
    let release = decide(&ended, &going_snapshot());
    let object = ended.state.object().clone();
    let expected =
        Effect::RemoveFinalizer { object, ended: ended.state.ended(&ended.name_ledger).unwrap() };
    assert_eq!(release.effect, Some(expected));
    let reported = decide(&ended, &Snapshot { object: Ok(None), ..going_snapshot() });
    assert_eq!(reported.event, Some(Event::Deleted { outcome: Outcome::Deleted }));
    assert_eq!(reported.next.phase(), Phase::Deleted);
    assert_eq!(reported.next.fields().watch_until, Some(NOW.after(RECONCILER.keep)));
    assert_eq!(reported.wake, Wake::At(NOW.after(RECONCILER.slow)));
}

// Requirement: I-17
#[test]
fn an_end_by_policy_gives_the_rows_up_and_writes_what_is_known() {
    let policy = Some("abandon".to_owned());
    let object = Ok(Some(snapshot::Object { deleting: true, policy, ..object() }));
    let snapshot = Snapshot { object, cloud: Some(asked(Err(ReadError::Refused))), ..snapshot() };
    let decision = decide(&record(going(), [seen(name(), "c-1")]), &snapshot);
    assert_eq!(decision.next.fields().outcome, Some(Outcome::Abandoned));
    let states: Vec<_> = decision.rows.iter().map(|it| it.state).collect();
    assert_eq!(states, [NameState::Abandoned]);
    let orphan = decision.next.fields().orphan.clone().unwrap();
    assert_eq!(orphan.names(), ["kv:clouds/main/projects/a/features/f/memberships/m"]);
    assert_eq!(orphan.evidence().references, ["ns/parent"]);
    assert_eq!(orphan.owner(), &binding());
}

// Requirement: I-17
#[test]
fn a_stripped_finalizer_writes_an_orphan_record_and_nothing_else() {
    let free = snapshot::Object { deleting: true, finalizers: vec![], ..object() };
    let snapshot = Snapshot {
        object: Ok(Some(free)),
        cloud: Some(asked(Ok(Some(found("c-1"))))),
        ..snapshot()
    };
    let decision = decide(&record(known(), [seen(name(), "c-1")]), &snapshot);
    assert_eq!(decision.effect, None);
    assert_eq!(decision.event, Some(Event::Deleted { outcome: Outcome::OrphanReleased }));
    assert_eq!(decision.next.fields().orphan.as_ref().unwrap().names().len(), 1);
    assert!(Resource::hydrate(decision.next.fields().clone()).is_ok());
}

// Requirement: I-9
#[test]
fn the_in_flight_grace_counts_from_the_last_lease_that_was_not_given_back() {
    let tell = |may_act_until| {
        let snapshot = Snapshot { may_act_until, ..going_snapshot() };
        decide(&record(known(), [intended(name())]), &snapshot).next.fields().grace_until
    };
    assert_eq!(tell(None), None);
    assert_eq!(tell(Some(NOW)), Some(NOW.after(RECONCILER.request_bound)));
    assert_eq!(tell(Some(START)), None, "long past");
    let loud = leaving(|it| {
        it.identity = Some(identified("a"));
        it.grace_until = Some(NOW.after(Duration::from_secs(3)));
    });
    let decision = decide(&record(loud, [intended(name())]), &going_snapshot());
    assert_eq!(decision.wake, Wake::At(NOW.after(Duration::from_secs(3))));
    assert_eq!((decision.reason, decision.rows), (Reason::InFlightGrace, vec![]));
}

// Requirement: I-23
#[test]
fn a_retry_after_of_the_cloud_is_honoured_within_bounds() {
    let wake = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        let cloud = Some(asked(Err(ReadError::Throttled { retry_after })));
        decide(&record(going(), [seen(name(), "c-1")]), &Snapshot { cloud, ..going_snapshot() })
            .wake
    };
    assert_eq!(wake(None), Wake::At(NOW.after(RECONCILER.interval)));
    assert_eq!(wake(Some(1)), Wake::At(NOW.after(RECONCILER.interval)));
    assert_eq!(wake(Some(60)), Wake::At(NOW.after(Duration::from_mins(1))));
    assert_eq!(wake(Some(9_000)), Wake::At(NOW.after(RECONCILER.slow)));
}

// Requirement: I-21
#[test]
fn a_failed_create_is_tried_again_by_another_request() {
    let request = RequestId::of(&binding(), 1);
    let failed = Operation { name: "op-1".to_owned(), progress: Progress::Failed };
    let snapshot = Snapshot { operations: Ok(vec![failed]), ..snapshot() };
    let snapshot = stamped(recorded::IdentityState::Intended { request }, snapshot);
    let decision = decide(&record(known(), [intended(name())]), &snapshot);
    assert_eq!((decision.reason, decision.effect), (Reason::CreateFailed, None));
    assert_eq!(decision.next.fields().attempt, 2);
    assert_ne!(decision.next.mark().request, request);
    assert_eq!(decision.wake, Wake::At(NOW.after(RECONCILER.slow)));
}

// Requirement: I-22
#[test]
fn an_operation_that_runs_is_kept_in_the_row() {
    let running = Operation { name: "op-1".to_owned(), progress: Progress::Running };
    let request = RequestId::of(&binding(), 1);
    let snapshot = Snapshot { operations: Ok(vec![running]), ..snapshot() };
    let snapshot = stamped(recorded::IdentityState::Intended { request }, snapshot);
    let decision = decide(&record(known(), [intended(name())]), &snapshot);
    assert_eq!(decision.reason, Reason::WaitingForOperation);
    assert_eq!(decision.next.fields().operation.as_deref(), Some("op-1"));
}

// Requirement: I-15
#[test]
fn a_lost_record_is_taken_over_from_the_stamp_before_it_is_acted_upon() {
    let uid = Uid::new("c-1");
    let state = recorded::IdentityState::Seen { uid };
    let stamp = Some(Recorded::new(binding(), state, identified("a")).to_text());
    let object = snapshot::Object { deleting: true, stamp, ..object() };
    let snapshot = Snapshot {
        object: Ok(Some(object)),
        cloud: Some(asked(Ok(Some(found("c-1"))))),
        search: Some(Ok(vec![])),
        spec: None,
        ..snapshot()
    };
    let lost = leaving(|it| it.history = History::Lost);
    let found = decide(&record(lost, []), &snapshot);
    assert_eq!((found.reason, found.effect.clone()), (Reason::RecordingObservation, None));
    assert_eq!(found.next.identity(), Some(&identified("a")));
    assert_eq!(found.rows[0].state, NameState::Seen);
    let next = decide(&record(found.next, found.rows), &snapshot);
    assert_eq!(next.reason, Reason::DeletingObject);
}

// Requirement: I-24
#[test]
fn what_reappears_after_the_end_is_deleted() {
    let ended = leaving(|it| {
        it.identity = Some(identified("a"));
        it.phase = Phase::Deleted;
        it.outcome = Some(Outcome::Deleted);
        it.watch_until = Some(NOW.after(RECONCILER.interval));
    });
    let gone = record(ended, [gone(name(), "c-1")]);
    let absent = Snapshot { object: Ok(None), ..snapshot() };
    assert_eq!(decide(&gone, &absent).wake, Wake::At(NOW.after(RECONCILER.interval)));
    let back = Snapshot { cloud: Some(asked(Ok(Some(found("c-2"))))), ..absent };
    let decision = decide(&gone, &back);
    assert_eq!(decision.reason, Reason::DeletingLateCreation);
    assert!(matches!(decision.effect, Some(Effect::Delete { at, .. }) if at.uid().0 == "c-2"));
}

// Requirement: I-39
#[test]
fn an_object_that_reappears_is_released_or_reported() {
    let ended = || {
        leaving(|it| {
            it.identity = Some(identified("a"));
            it.phase = Phase::Deleted;
            it.outcome = Some(Outcome::Deleted);
        })
    };
    let over = record(ended(), [gone(name(), "c-1")]);
    let leaving = decide(&over, &going_snapshot());
    assert_eq!(leaving.reason, Reason::RemovingFinalizer);
    assert!(matches!(leaving.effect, Some(Effect::RemoveFinalizer { .. })));
    assert_eq!(leaving.wake, Wake::At(NOW.after(RECONCILER.interval)));
    let wanted = decide(&over, &snapshot());
    assert_eq!((wanted.reason, wanted.effect), (Reason::DeletionTimestampLost, None));
    assert_eq!(wanted.wake, Wake::OnChange);
    let unread = Snapshot { object: Err(Unknown::Unreachable), ..snapshot() };
    let unread = decide(&over, &unread);
    assert_eq!(
        (unread.reason, unread.wake),
        (Reason::ObjectUnreadable, Wake::At(NOW.after(RECONCILER.slow)))
    );
    let gone = decide(&over, &Snapshot { object: Ok(None), ..snapshot() });
    assert_eq!((gone.reason, gone.wake), (Reason::Gone, Wake::Never));
}

// Requirement: I-15
#[test]
fn what_carries_our_mark_is_found_although_the_spec_was_edited() {
    let lost = leaving(|it| it.history = History::Lost);
    let marked = Some(Ok(vec![(identified("a"), found("c-1"))]));
    let snapshot = Snapshot {
        spec: Some(Ok(identified("b"))),
        search: marked,
        cloud: None,
        ..going_snapshot()
    };
    let decision = decide(&record(lost, []), &snapshot);
    assert_eq!(decision.reason, Reason::RecordingObservation);
    assert_eq!(decision.next.identity(), Some(&identified("a")));
}

#[test]
fn a_resource_without_a_name_is_not_watched_after_its_end() {
    let unanswered = Snapshot { object: Ok(None), cloud: None, ..snapshot() };
    let decision = decide(&record(resource(|_| ()), []), &unanswered);
    let outcome = Outcome::AlreadyAbsent;
    assert_eq!(decision.event, Some(Event::Deleted { outcome }));
    assert_eq!((decision.next.fields().watch_until, decision.wake), (None, Wake::Now));
    let over = decide(&record(decision.next, []), &unanswered);
    assert_eq!((over.wake, over.reason), (Wake::Never, Reason::Gone));
    let blind = Snapshot { object: Err(Unknown::Forbidden), ..unanswered };
    assert_eq!(decide(&record(resource(|_| ()), []), &blind).reason, Reason::ObjectUnreadable);
}
