use usher_kernel::{Decision, Lifecycle, NameState, Uid, Unknown, Wake};

use super::*;
use crate::usage::aggregate::OwnerReference;
use crate::usage::attempt::{Attempt, Outcome, Propagation};
use crate::usage::facts::Resolve;
use crate::usage::fixture::{
    NOW, attempt, key, object, record, reference, row, rows, snapshot, usage, usage_key,
};
use crate::usage::observe::fold;
use crate::usage::snapshot::{Found, Other, Probe, Snapshot};

fn decide(usage: Usage, rows: Vec<Row>, snapshot: &Snapshot) -> Decision<UsageReconciler> {
    let record = record(usage, rows);
    let seen = fold(&record.state, &record.name_ledger, snapshot);
    UsageReconciler::default().decide(&record, &seen, NOW)
}

fn bent(turn: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = snapshot();
    turn(&mut snapshot);
    snapshot
}

fn later() -> Wake {
    Wake::At(NOW.after(Duration::from_secs(30)))
}

// Requirement: G-22
#[test]
fn an_idle_usage_does_and_writes_nothing() {
    let it = decide(usage(|_| {}), rows(), &snapshot());
    assert_eq!((&it.next, it.rows.len()), (&usage(|_| {}), 0));
    assert_eq!(
        (it.effect, it.event, it.wake, it.reason),
        (None, None, Wake::OnChange, Reason::InUse)
    );
}

#[test]
fn an_incomplete_snapshot_is_requeued() {
    let missing = |it: &mut Usage| {
        it.deleting = true;
        let found = vec![key("app"), key("b")];
        it.status.by = Some(Resolved { from: reference("app"), found });
    };
    let blind = bent(|it| _ = it.objects.insert(key("b"), Err(Unknown::Forbidden)));
    let it = decide(usage(missing), rows(), &blind);
    assert_eq!((it.wake, it.reason), (later(), Reason::InUse));
}

#[test]
fn names_are_recorded_before_anything_is_marked() {
    let fresh = usage(|it| it.status = Status::default());
    let it = decide(fresh, vec![], &snapshot());
    assert_eq!((it.effect, it.wake, it.reason), (None, Wake::Now, Reason::ResolvingReferences));
    assert_eq!(it.next.targets(), [key("db")]);
    let names: Vec<_> = it.rows.iter().map(|it| (it.name.clone(), it.state)).collect();
    let expected = [Role::Mark.name(&key("db")), Role::User.name(&key("app"))];
    assert_eq!(names, expected.map(|it| (it, NameState::Intended)));
}

#[test]
fn a_released_name_is_recorded_anew() {
    let edited = usage(|it| it.status.of = None);
    let gone = row(Role::Mark, "db", NameState::Gone, Some("db-1"));
    let it = decide(edited, vec![gone], &snapshot());
    let mark = it.rows.iter().find(|it| it.name == Role::Mark.name(&key("db"))).unwrap();
    assert_eq!((mark.incarnation, mark.state, &mark.uid), (2, NameState::Intended, &None));
}

// Requirement: G-24
#[test]
fn the_uid_is_on_record_before_the_object_is_marked() {
    let pending = || {
        usage(|it| {
            it.status.phase = Phase::Pending;
            it.status.proven.clear();
        })
    };
    let unmarked = bent(|it| _ = it.objects.insert(key("db"), Ok(object("db-1", None))));
    let intended = vec![row(Role::Mark, "db", NameState::Intended, None)];
    let first = decide(pending(), intended, &unmarked);
    assert_eq!(
        (first.effect, first.wake, first.reason),
        (None, Wake::Now, Reason::RecordingTarget)
    );
    assert_eq!(first.rows[0].uid, Some(Uid::new("db-1")));
    let second = decide(pending(), rows(), &unmarked);
    let (object, uid) = (key("db"), Uid::new("db-1"));
    let mark = Effect::Mark { object, uid, mark: "u-1".to_owned() };
    assert_eq!((second.effect, second.wake), (Some(mark), later()));
}

// Requirement: G-5
#[test]
fn protection_is_emitted_with_its_proof() {
    let pending = usage(|it| {
        it.status.phase = Phase::Pending;
        it.status.proven.clear();
    });
    let refused = bent(|it| _ = it.probes.insert(key("db"), Ok(Probe::Refused)));
    let it = decide(pending, rows(), &refused);
    assert_eq!(it.event, Some(Event::Protected));
    assert_eq!(it.next, usage(|_| {}));
}

#[test]
fn a_verb_on_the_usage_is_never_done_beside_a_commit() {
    let unheld = || usage(|it| it.finalizer = false);
    let plain = decide(unheld(), rows(), &snapshot());
    assert_eq!((plain.effect, plain.next), (Some(Effect::AddFinalizer), unheld()));
    let unrecorded = vec![row(Role::Mark, "db", NameState::Seen, Some("db-1"))];
    let it = decide(unheld(), unrecorded, &snapshot());
    assert_eq!((it.effect, it.wake), (None, Wake::Now), "the user is recorded first");
    assert_eq!(it.rows[0].name, Role::User.name(&key("app")));
}

// Requirement: G-10
#[test]
fn a_usage_waiting_in_teardown_releases_its_owners() {
    let owned = usage(|it| {
        it.deleting = true;
        let uid = Uid::new("app-1");
        it.owners = vec![OwnerReference { uid, controller: true, blocks: true }];
    });
    assert_eq!(decide(owned, rows(), &snapshot()).effect, Some(Effect::Yield));
}

// Requirement: G-4
#[test]
fn a_use_ends_with_the_uid_and_the_usage_is_deleted_last() {
    let gone = bent(|it| _ = it.objects.insert(key("app"), Ok(Found::Absent)));
    let ended = decide(usage(|_| {}), rows(), &gone);
    assert_eq!((ended.effect, ended.next.status.phase), (None, Phase::Releasing));
    let user_gone = || {
        let mut rows = rows();
        rows[1].state = NameState::Gone;
        rows
    };
    let releasing = || usage(|it| it.status.phase = Phase::Releasing);
    let released = decide(releasing(), user_gone(), &gone);
    let (object, uid) = (key("db"), Uid::new("db-1"));
    let unmark = Effect::Unmark { object, uid, mark: "u-1".to_owned() };
    assert_eq!(released.effect, Some(unmark));
    let unmarked = bent(|it| _ = it.objects.insert(key("db"), Ok(bare())));
    let reported = decide(releasing(), user_gone(), &unmarked);
    assert_eq!(
        (reported.event, reported.next.status.phase),
        (Some(Event::Released), Phase::Released)
    );
    let mark = reported.rows.iter().find(|it| it.name == Role::Mark.name(&key("db"))).unwrap();
    assert_eq!(mark.state, NameState::Gone);
    let over = |deleting| {
        usage(|it| {
            it.status.phase = Phase::Released;
            it.status.proven.clear();
            it.deleting = deleting;
        })
    };
    let settled = || {
        let mut rows = user_gone();
        rows[0].state = NameState::Gone;
        rows
    };
    let snapshot = bent(|it| it.objects = [(key("app"), Ok(Found::Absent))].into());
    assert_eq!(decide(over(false), settled(), &snapshot).effect, Some(Effect::Retire));
    assert_eq!(decide(over(true), settled(), &snapshot).effect, Some(Effect::RemoveFinalizer));
}

fn bare() -> Found {
    object("db-1", None)
}

// Requirement: G-4
#[test]
fn another_user_takes_the_place_of_the_one_that_is_gone_only_with_always() {
    let returned = bent(|it| _ = it.objects.insert(key("app"), Ok(object("app-2", None))));
    let once = decide(usage(|_| {}), rows(), &returned);
    assert_eq!(once.next.status.phase, Phase::Releasing);
    let always = usage(|it| {
        if let Ok(spec) = &mut it.spec {
            spec.resolve = Resolve::Always;
        }
    });
    let it = decide(always, rows(), &returned);
    assert_eq!((it.next.status.phase, it.reason), (Phase::Protected, Reason::InUse));
    let users: Vec<_> = it.rows.iter().map(|it| (it.state, it.uid.clone())).collect();
    let uid = |text| Some(Uid::new(text));
    assert_eq!(users, [(NameState::Gone, uid("app-1")), (NameState::Seen, uid("app-2"))]);
}

/// A Usage that is over, with this deletion on record.
fn over_with(attempt: Attempt) -> Usage {
    usage(|it| {
        it.status.phase = Phase::Releasing;
        it.status.proven.clear();
        it.status.attempts = vec![attempt];
    })
}

fn settled() -> Vec<Row> {
    let mut rows = rows();
    rows[0].state = NameState::Gone;
    rows
}

// Requirement: G-7
#[test]
fn a_replay_is_recorded_before_it_is_sent_and_emitted_after() {
    let recorded = Attempt { propagation: Propagation::Foreground, ..attempt("db-1") };
    let unmarked = bent(|it| _ = it.objects.insert(key("db"), Ok(bare())));
    let first = decide(over_with(recorded.clone()), settled(), &unmarked);
    let begun = Attempt { progress: Progress::Begun, ..recorded };
    assert_eq!((first.effect, first.wake), (None, Wake::Now));
    assert_eq!(first.next, over_with(begun.clone()));
    let second = decide(over_with(begun.clone()), settled(), &unmarked);
    let replay = Effect::Replay {
        object: key("db"),
        uid: Uid::new("db-1"),
        propagation: Propagation::Foreground,
        revision: None,
    };
    assert_eq!(second.effect, Some(replay));
    assert_eq!(second.next, over_with(begun.clone()));
    let gone = bent(|it| _ = it.objects.insert(key("db"), Ok(Found::Absent)));
    let third = decide(over_with(begun), settled(), &gone);
    let (object, uid, outcome) = (key("db"), Uid::new("db-1"), Outcome::Deleted);
    assert_eq!(third.event, Some(Event::AttemptSettled { object, uid, outcome }));
    assert_eq!(third.next.status.attempts, []);
}

// Requirement: G-7
#[test]
fn a_deletion_is_handed_over_as_it_was_recorded() {
    let begun = Attempt { progress: Progress::Begun, ..attempt("db-1") };
    let held = bent(|it| {
        let other = usage(|it| (it.key, it.uid) = (usage_key("o"), Uid::new("o-1")));
        it.others = Ok(vec![Other::of(&other)]);
    });
    let it = decide(over_with(begun), settled(), &held);
    let (to, uid) = (usage_key("o"), Uid::new("o-1"));
    assert_eq!(it.effect, Some(Effect::HandOver { to, uid, attempt: attempt("db-1") }));
}
