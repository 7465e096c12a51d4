use usher_kernel::{Decision, Lifecycle, Standing, Uid, Unknown, Wake};

use super::*;
use crate::direct::aggregate::History;
use crate::direct::fixture::{
    NOW, START, asked, binding, found, gone, identified, intended, leaving, look, name, object,
    record, resource, seen,
};
use crate::direct::look::{self, Look, Silence};
use crate::direct::mark::{Mark, RequestId};
use crate::direct::observe::fold;
use crate::direct::operation::{Operation, Progress};
use crate::direct::recorded::{self, Recorded};

const LIFE: Direct = Direct {
    interval: Duration::from_secs(30),
    slow: Duration::from_mins(5),
    request_bound: Duration::from_secs(10),
    keep: Duration::from_hours(1),
};

fn decide(record: &Record<Resource>, look: &Look) -> Decision<Direct> {
    LIFE.decide(record, &fold(&record.state, &record.book, look), NOW)
}

fn known() -> Resource {
    resource(|it| it.identity = Some(identified("a")))
}

fn going() -> Resource {
    leaving(|it| it.identity = Some(identified("a")))
}

fn going_look() -> Look {
    Look { object: Ok(Some(look::Object { deleting: true, ..object() })), ..look() }
}

fn stamped(standing: recorded::Standing, look: Look) -> Look {
    let stamp = Some(Recorded::new(binding(), standing, identified("a")).to_text());
    Look { object: Ok(Some(look::Object { stamp, ..object() })), ..look }
}

// Requirement: I-3
#[test]
fn the_identity_is_recorded_then_stamped_then_used() {
    let first = decide(&record(resource(|_| ()), []), &Look { cloud: None, ..look() });
    assert_eq!((first.effect.clone(), first.wake), (None, Wake::Now));
    assert_eq!(first.rows, [Row::intended(name(), "usher", NOW)]);
    assert_eq!(first.next.identity(), Some(&identified("a")));

    let recorded_row = record(first.next, first.rows);
    let second = decide(&recorded_row, &look());
    let request = RequestId::of(&binding(), 1);
    let standing = recorded::Standing::Intended { request };
    let recorded = Recorded::new(binding(), standing.clone(), identified("a"));
    let object = recorded_row.state.object().clone();
    assert_eq!(second.effect, Some(Effect::Stamp { object, recorded }));

    let third = decide(&recorded_row, &stamped(standing, look()));
    let mark = Mark { owner: binding(), request };
    assert_eq!(third.effect, Some(Effect::Create { identified: identified("a"), mark }));
    assert_eq!(third.next.phase(), Phase::Creating);
}

// Requirement: I-2, I-31
#[test]
fn what_was_seen_is_deleted_at_its_uid_and_revision_without_its_parents() {
    let parentless = Look { spec: None, configuration: None, ..going_look() };
    let look = Look { cloud: Some(asked(Ok(Some(found("c-1"))))), ..parentless };
    let first = decide(&record(going(), [seen(name(), "c-1")]), &look);
    assert_eq!((first.effect, first.wake), (None, Wake::Now), "on record first");
    assert_eq!(first.next.fields().asked_at, Some(NOW));
    let decision = decide(&record(first.next, [seen(name(), "c-1")]), &look);
    let at = Precondition::of(&seen(name(), "c-1"), Some("7")).unwrap();
    assert_eq!(decision.effect, Some(Effect::Delete { identified: identified("a"), at }));
    assert_eq!(decision.wake, Wake::At(NOW.after(LIFE.interval)));
}

// Requirement: I-10
#[test]
fn the_finalizer_goes_in_a_later_step_than_the_end() {
    let asked_for = leaving(|it| {
        it.identity = Some(identified("a"));
        it.asked_at = Some(START);
    });
    let end = decide(&record(asked_for, [seen(name(), "c-1")]), &going_look());
    assert_eq!((end.effect.clone(), end.event.clone()), (None, None));
    assert_eq!(end.next.fields().outcome, Some(Outcome::Deleted));
    assert_eq!(end.rows[0].standing, Standing::Gone);
    let ended = record(end.next, end.rows);
    let release = decide(&ended, &going_look());
    let object = ended.state.object().clone();
    let expected =
        Effect::RemoveFinalizer { object, ended: ended.state.ended(&ended.book).unwrap() };
    assert_eq!(release.effect, Some(expected));
    let told = decide(&ended, &Look { object: Ok(None), ..going_look() });
    assert_eq!(told.event, Some(Event::Deleted { outcome: Outcome::Deleted }));
    assert_eq!(told.next.phase(), Phase::Deleted);
    assert_eq!(told.next.fields().watch_until, Some(NOW.after(LIFE.keep)));
    assert_eq!(told.wake, Wake::At(NOW.after(LIFE.slow)));
}

// Requirement: I-17
#[test]
fn an_end_by_policy_gives_the_rows_up_and_writes_what_is_known() {
    let policy = Some("abandon".to_owned());
    let object = Ok(Some(look::Object { deleting: true, policy, ..object() }));
    let look = Look { object, cloud: Some(asked(Err(Silence::Refused))), ..look() };
    let decision = decide(&record(going(), [seen(name(), "c-1")]), &look);
    assert_eq!(decision.next.fields().outcome, Some(Outcome::Abandoned));
    let standings: Vec<_> = decision.rows.iter().map(|it| it.standing).collect();
    assert_eq!(standings, [Standing::Abandoned]);
    let orphan = decision.next.fields().orphan.clone().unwrap();
    assert_eq!(orphan.names(), ["kv:clouds/main/projects/a/features/f/memberships/m"]);
    assert_eq!(orphan.evidence().references, ["ns/parent"]);
    assert_eq!(orphan.owner(), &binding());
}

// Requirement: I-17
#[test]
fn a_stripped_finalizer_leaves_an_orphan_record_and_touches_nothing() {
    let free = look::Object { deleting: true, finalizers: vec![], ..object() };
    let look =
        Look { object: Ok(Some(free)), cloud: Some(asked(Ok(Some(found("c-1"))))), ..look() };
    let decision = decide(&record(known(), [seen(name(), "c-1")]), &look);
    assert_eq!(decision.effect, None);
    assert_eq!(decision.event, Some(Event::Deleted { outcome: Outcome::OrphanReleased }));
    assert_eq!(decision.next.fields().orphan.as_ref().unwrap().names().len(), 1);
    assert!(Resource::hydrate(decision.next.fields().clone()).is_ok());
}

// Requirement: I-9
#[test]
fn the_quiet_time_counts_from_the_last_lease_that_was_not_given_back() {
    let tell = |heard_until| {
        let look = Look { heard_until, ..going_look() };
        decide(&record(known(), [intended(name())]), &look).next.fields().quiet_until
    };
    assert_eq!(tell(None), None);
    assert_eq!(tell(Some(NOW)), Some(NOW.after(LIFE.request_bound)));
    assert_eq!(tell(Some(START)), None, "long past");
    let loud = leaving(|it| {
        it.identity = Some(identified("a"));
        it.quiet_until = Some(NOW.after(Duration::from_secs(3)));
    });
    let decision = decide(&record(loud, [intended(name())]), &going_look());
    assert_eq!(decision.wake, Wake::At(NOW.after(Duration::from_secs(3))));
    assert_eq!((decision.reason, decision.rows), (Reason::InFlightGrace, vec![]));
}

// Requirement: I-23
#[test]
fn a_cloud_that_asks_us_to_wait_is_waited_for_within_bounds() {
    let wake = |seconds: Option<u64>| {
        let retry_after = seconds.map(Duration::from_secs);
        let cloud = Some(asked(Err(Silence::Throttled { retry_after })));
        decide(&record(going(), [seen(name(), "c-1")]), &Look { cloud, ..going_look() }).wake
    };
    assert_eq!(wake(None), Wake::At(NOW.after(LIFE.interval)));
    assert_eq!(wake(Some(1)), Wake::At(NOW.after(LIFE.interval)));
    assert_eq!(wake(Some(60)), Wake::At(NOW.after(Duration::from_mins(1))));
    assert_eq!(wake(Some(9_000)), Wake::At(NOW.after(LIFE.slow)));
}

// Requirement: I-21
#[test]
fn a_failed_create_is_tried_again_by_another_request() {
    let request = RequestId::of(&binding(), 1);
    let failed = Operation { name: "op-1".to_owned(), progress: Progress::Failed };
    let look = Look { operations: Ok(vec![failed]), ..look() };
    let look = stamped(recorded::Standing::Intended { request }, look);
    let decision = decide(&record(known(), [intended(name())]), &look);
    assert_eq!((decision.reason, decision.effect), (Reason::CreateFailed, None));
    assert_eq!(decision.next.fields().attempt, 2);
    assert_ne!(decision.next.mark().request, request);
    assert_eq!(decision.wake, Wake::At(NOW.after(LIFE.slow)));
}

// Requirement: I-22
#[test]
fn an_operation_that_runs_is_kept_in_the_row() {
    let running = Operation { name: "op-1".to_owned(), progress: Progress::Running };
    let request = RequestId::of(&binding(), 1);
    let look = Look { operations: Ok(vec![running]), ..look() };
    let look = stamped(recorded::Standing::Intended { request }, look);
    let decision = decide(&record(known(), [intended(name())]), &look);
    assert_eq!(decision.reason, Reason::WaitingForOperation);
    assert_eq!(decision.next.fields().operation.as_deref(), Some("op-1"));
}

// Requirement: I-15
#[test]
fn a_lost_record_is_taken_over_from_the_stamp_before_it_is_acted_upon() {
    let uid = Uid::new("c-1");
    let standing = recorded::Standing::Seen { uid };
    let stamp = Some(Recorded::new(binding(), standing, identified("a")).to_text());
    let object = look::Object { deleting: true, stamp, ..object() };
    let look = Look {
        object: Ok(Some(object)),
        cloud: Some(asked(Ok(Some(found("c-1"))))),
        search: Some(Ok(vec![])),
        spec: None,
        ..look()
    };
    let lost = leaving(|it| it.history = History::Lost);
    let found = decide(&record(lost, []), &look);
    assert_eq!((found.reason, found.effect.clone()), (Reason::RecordingObservation, None));
    assert_eq!(found.next.identity(), Some(&identified("a")));
    assert_eq!(found.rows[0].standing, Standing::Seen);
    let next = decide(&record(found.next, found.rows), &look);
    assert_eq!(next.reason, Reason::DeletingObject);
}

// Requirement: I-24
#[test]
fn what_comes_back_after_the_end_is_taken_away() {
    let ended = leaving(|it| {
        it.identity = Some(identified("a"));
        it.phase = Phase::Deleted;
        it.outcome = Some(Outcome::Deleted);
        it.watch_until = Some(NOW.after(LIFE.interval));
    });
    let gone = record(ended, [gone(name(), "c-1")]);
    let absent = Look { object: Ok(None), ..look() };
    assert_eq!(decide(&gone, &absent).wake, Wake::At(NOW.after(LIFE.interval)));
    let back = Look { cloud: Some(asked(Ok(Some(found("c-2"))))), ..absent };
    let decision = decide(&gone, &back);
    assert_eq!(decision.reason, Reason::DeletingLateCreation);
    assert!(matches!(decision.effect, Some(Effect::Delete { at, .. }) if at.uid().0 == "c-2"));
}

// Requirement: I-39
#[test]
fn an_object_that_comes_back_after_its_end_is_let_go_or_told() {
    let ended = || {
        leaving(|it| {
            it.identity = Some(identified("a"));
            it.phase = Phase::Deleted;
            it.outcome = Some(Outcome::Deleted);
        })
    };
    let over = record(ended(), [gone(name(), "c-1")]);
    let leaving = decide(&over, &going_look());
    assert_eq!(leaving.reason, Reason::RemovingFinalizer);
    assert!(matches!(leaving.effect, Some(Effect::RemoveFinalizer { .. })));
    assert_eq!(leaving.wake, Wake::At(NOW.after(LIFE.interval)));
    let wanted = decide(&over, &look());
    assert_eq!((wanted.reason, wanted.effect), (Reason::DeletionTimestampLost, None));
    assert_eq!(wanted.wake, Wake::OnChange);
    let unread = Look { object: Err(Unknown::Unreachable), ..look() };
    let unread = decide(&over, &unread);
    assert_eq!(
        (unread.reason, unread.wake),
        (Reason::ObjectUnreadable, Wake::At(NOW.after(LIFE.slow)))
    );
    let gone = decide(&over, &Look { object: Ok(None), ..look() });
    assert_eq!((gone.reason, gone.wake), (Reason::Gone, Wake::Never));
}

// Requirement: I-15
#[test]
fn what_carries_our_mark_is_found_although_the_spec_was_edited() {
    let lost = leaving(|it| it.history = History::Lost);
    let marked = Some(Ok(vec![(identified("a"), found("c-1"))]));
    let look =
        Look { spec: Some(Ok(identified("b"))), search: marked, cloud: None, ..going_look() };
    let decision = decide(&record(lost, []), &look);
    assert_eq!(decision.reason, Reason::RecordingObservation);
    assert_eq!(decision.next.identity(), Some(&identified("a")));
}

#[test]
fn a_life_without_a_name_is_not_watched_after_its_end() {
    let unheard = Look { object: Ok(None), cloud: None, ..look() };
    let decision = decide(&record(resource(|_| ()), []), &unheard);
    let outcome = Outcome::AlreadyAbsent;
    assert_eq!(decision.event, Some(Event::Deleted { outcome }));
    assert_eq!((decision.next.fields().watch_until, decision.wake), (None, Wake::Now));
    let over = decide(&record(decision.next, []), &unheard);
    assert_eq!((over.wake, over.reason), (Wake::Never, Reason::Gone));
    let blind = Look { object: Err(Unknown::Forbidden), ..unheard };
    assert_eq!(decide(&record(resource(|_| ()), []), &blind).reason, Reason::ObjectUnreadable);
}
