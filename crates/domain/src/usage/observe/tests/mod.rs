mod attempt;
mod user;

use std::collections::BTreeMap;

use usher_kernel::Timestamp;

use super::*;
use crate::usage::aggregate::{Resolved, Spec};
use crate::usage::attempt::{Outcome, Propagation};
use crate::usage::facts::{self, By, Resolve};
use crate::usage::fixture::{
    NOW, START, attempt, key, object, reference, row, rows, selecting, snapshot, usage, usage_key,
};
use crate::usage::phase::Phase;
use crate::usage::replay::next;
use crate::usage::selector::Candidate;

fn seen(usage: &Usage, rows: Vec<Row>, snapshot: &Snapshot) -> Observed {
    fold(usage, &NameLedger::new(rows), snapshot)
}

/// The facts of a changed Usage and a changed snapshot.
fn facts(bend: impl FnOnce(&mut Usage), turn: impl FnOnce(&mut Snapshot)) -> Facts {
    let mut snapshot = snapshot();
    turn(&mut snapshot);
    seen(&usage(bend), rows(), &snapshot).facts
}

/// What becomes of the next recorded deletion.
fn fate(seen: &Observed) -> facts::Attempt {
    next(&seen.denied).map_or(facts::Attempt::None, |(_, it)| it.attempt)
}

const STEADY: Facts = Facts {
    visibility: Visibility::Complete,
    resolution: Resolution::Same,
    of: Of::Proven,
    by: By::Present,
    blocking: Blocking::None,
    excess: Excess::None,
};

fn stand(snapshot: &mut Snapshot, name: &str, found: Reading<Found>) {
    snapshot.objects.insert(key(name), found);
}

fn leaving(uid: &str, mark: Option<&str>) -> Found {
    match object(uid, mark) {
        Found::Present(it) => Found::Present(Object { deleting: true, ..it }),
        found @ (Found::Absent | Found::KindRemoved) => found,
    }
}

fn spec(usage: &mut Usage) -> &mut Spec {
    usage.spec.as_mut().unwrap()
}

fn holder(number: usize, object: &str) -> Other {
    Other {
        usage: usage_key(&format!("o{number}")),
        uid: Uid::new(format!("o-{number}")),
        holds: [key(object)].into(),
        attempts: BTreeMap::new(),
    }
}

fn releasing(usage: &mut Usage) {
    usage.status.phase = Phase::Releasing;
}

#[test]
fn a_world_in_which_all_is_well_is_seen_so() {
    assert_eq!(facts(|_| {}, |_| {}), STEADY);
}

#[test]
fn every_state_of_a_used_object_is_distinguished() {
    let of = |found: Reading<Found>| facts(|_| {}, |it| stand(it, "db", found)).of;
    assert_eq!(of(Ok(Found::Absent)), Of::Absent);
    assert_eq!(of(Ok(Found::KindRemoved)), Of::KindRemoved);
    assert_eq!(of(Ok(leaving("db-1", Some("u-1")))), Of::Leaving);
    assert_eq!(of(Ok(object("db-2", Some("u-1")))), Of::Unrecorded, "another uid");
    assert_eq!(of(Ok(object("db-1", None))), Of::Unmarked);
    assert_eq!(of(Ok(object("db-1", Some("true")))), Of::Outlived, "no Usage holds by that mark");
    assert_eq!(of(Err(Unknown::Forbidden)), Of::Unknown);
    let unresolved = facts(|it| it.status.of = Some(empty()), |_| {});
    assert_eq!((unresolved.resolution, unresolved.of), (Resolution::Changed, Of::Unresolved));
}

fn empty() -> Resolved {
    Resolved { from: reference("db"), found: vec![] }
}

// Requirement: G-5
#[test]
fn protection_is_proven_by_a_refusal_and_by_nothing_else() {
    let of = |probe: Option<Reading<Probe>>| {
        let turn =
            |it: &mut Snapshot| it.probes = probe.into_iter().map(|it| (key("db"), it)).collect();
        facts(|it| it.status.proven.clear(), turn).of
    };
    assert_eq!(of(None), Of::Marked);
    assert_eq!(of(Some(Err(Unknown::Unreachable))), Of::Marked);
    assert_eq!(of(Some(Ok(Probe::Allowed))), Of::Allowed);
    assert_eq!(of(Some(Ok(Probe::Refused))), Of::Proven);
}

#[test]
fn a_proof_is_kept_while_unknown_and_lost_with_the_mark() {
    let proven = |found: Reading<Found>| {
        let mut snapshot = snapshot();
        stand(&mut snapshot, "db", found);
        seen(&usage(|_| {}), rows(), &snapshot).proven
    };
    let kept = BTreeSet::from([Uid::new("db-1")]);
    assert_eq!(proven(Err(Unknown::Unreachable)), kept);
    assert_eq!(proven(Ok(object("db-1", Some("other")))), kept, "the mark outlived its Usage");
    assert_eq!(proven(Ok(object("db-1", None))), BTreeSet::new());
    assert_eq!(proven(Ok(object("db-2", Some("u-1")))), BTreeSet::new());
    assert_eq!(proven(Ok(Found::Absent)), BTreeSet::new());
}

#[test]
fn the_mark_of_another_usage_counts_while_it_holds() {
    let of = |others: Reading<Vec<Other>>| {
        let turn = |it: &mut Snapshot| {
            stand(it, "db", Ok(object("db-1", Some("o-1"))));
            it.others = others;
        };
        facts(|_| {}, turn).of
    };
    assert_eq!(of(Ok(vec![holder(1, "db")])), Of::Proven);
    assert_eq!(of(Ok(vec![holder(1, "else")])), Of::Outlived);
    assert_eq!(of(Ok(vec![holder(2, "db")])), Of::Outlived, "it wrote another mark");
    assert_eq!(of(Err(Unknown::Unreachable)), Of::Unknown);
    let own = facts(|_| {}, |it| it.others = Err(Unknown::Unreachable)).of;
    assert_eq!(own, Of::Proven, "our own mark needs no other Usage");
}

#[test]
fn of_several_objects_the_one_that_needs_something_comes_first() {
    let two = |it: &mut Usage| {
        it.status.of = Some(Resolved { from: reference("db"), found: vec![key("db"), key("db2")] });
    };
    let mut snapshot = snapshot();
    stand(&mut snapshot, "db2", Ok(object("db2-1", None)));
    let mut rows = rows();
    rows.push(row(Role::Mark, "db2", NameState::Seen, Some("db2-1")));
    let seen = seen(&usage(two), rows, &snapshot);
    assert_eq!(seen.facts.of, Of::Unmarked);
    assert_eq!(seen.unmarked, Some((key("db2"), Uid::new("db2-1"))));
    assert_eq!(seen.proven, [Uid::new("db-1")].into());
}

// Requirement: G-27
#[test]
fn behind_the_guard_absence_is_no_answer_and_in_another_world_nothing_is() {
    let gone = |it: &mut Snapshot| {
        stand(it, "app", Ok(Found::Absent));
        stand(it, "db", Ok(Found::KindRemoved));
    };
    let guarded = facts(
        |_| {},
        |it| {
            gone(it);
            it.guard_tripped = true;
        },
    );
    let unknown = Facts { of: Of::Unknown, by: By::Unknown, ..STEADY };
    assert_eq!(guarded, Facts { visibility: Visibility::GuardTripped, ..unknown });
    let rebuilt = facts(|_| {}, |it| it.authority = Authority::Replaced);
    assert_eq!(rebuilt, Facts { visibility: Visibility::ClusterReplaced, ..unknown });
}

// Requirement: G-27
#[test]
fn behind_the_guard_another_object_under_a_recorded_name_is_no_answer() {
    let turn = |it: &mut Snapshot| {
        stand(it, "app", Ok(object("app-2", None)));
        stand(it, "db", Ok(object("db-2", None)));
        it.guard_tripped = true;
    };
    let held =
        Facts { visibility: Visibility::GuardTripped, of: Of::Unknown, by: By::Unknown, ..STEADY };
    assert_eq!(facts(|_| {}, turn), held);
    assert_eq!(facts(|it| spec(it).resolve = Resolve::Always, turn), held);
    let over = |it: &mut Usage| {
        releasing(it);
        it.status.attempts = vec![attempt("db-1")];
    };
    let mut first = snapshot();
    turn(&mut first);
    let guarded = seen(&usage(over), rows(), &first);
    assert_eq!((guarded.facts.excess, fate(&guarded)), (Excess::Unknown, facts::Attempt::Unknown));
    let unseen = seen(&usage(|_| {}), vec![], &first).facts;
    assert_eq!((unseen.of, unseen.by), (Of::Unrecorded, By::Present), "nothing is missed of it");
}

// Requirement: G-27
#[test]
fn behind_the_guard_what_a_list_does_not_show_is_no_answer() {
    let selects = |it: &mut Usage| {
        spec(it).of = selecting("a");
        spec(it).resolve = Resolve::Always;
        it.status.of = Some(Resolved { from: selecting("a"), found: vec![key("db")] });
    };
    let guarded = facts(selects, |it| it.guard_tripped = true);
    let expected =
        Facts { visibility: Visibility::GuardTripped, resolution: Resolution::Unknown, ..STEADY };
    assert_eq!(guarded, expected);
    let named = facts(|_| {}, |it| it.guard_tripped = true);
    assert_eq!(named, Facts { visibility: Visibility::GuardTripped, ..STEADY });
    let over = |it: &mut Usage| {
        releasing(it);
        it.status.attempts = vec![attempt("db-1")];
    };
    let unlisted = seen(&usage(over), rows(), &Snapshot { guard_tripped: true, ..snapshot() });
    let unknown = (Excess::Unknown, facts::Attempt::Unknown);
    assert_eq!((unlisted.facts.excess, fate(&unlisted)), unknown);
}

#[test]
fn the_worst_unknown_reason_is_named() {
    let blind = |turn: fn(&mut Snapshot)| facts(|_| {}, turn).visibility;
    assert_eq!(blind(|it| it.others = Err(Unknown::Unreachable)), Visibility::Unreachable);
    assert_eq!(blind(|it| it.of_candidates = Err(Unknown::Forbidden)), Visibility::Forbidden);
    assert_eq!(blind(|it| it.by_candidates = Err(Unknown::Forbidden)), Visibility::Forbidden);
    assert_eq!(blind(|it| it.consents = Err(Unknown::Unreachable)), Visibility::Unreachable);
    assert_eq!(blind(|it| it.circle = Err(Unknown::Unreachable)), Visibility::Unreachable);
    let both = |it: &mut Snapshot| {
        stand(it, "app", Err(Unknown::Unreachable));
        it.probes.insert(key("db"), Err(Unknown::Forbidden));
    };
    assert_eq!(blind(both), Visibility::Forbidden);
    assert_eq!(blind(|it| _ = it.objects.remove(&key("app"))), Visibility::Complete, "not queried");
}

// Requirement: G-9
#[test]
fn an_edited_reference_makes_its_old_objects_excess_once_recorded() {
    let edited = |it: &mut Usage| spec(it).of = reference("new");
    let changed = seen(&usage(edited), rows(), &snapshot());
    assert_eq!(changed.facts.resolution, Resolution::Changed);
    assert_eq!(changed.facts.excess, Excess::None, "the record still says that it is held");
    assert_eq!(changed.meant.unwrap().of.found, [key("new")]);
    let recorded = |it: &mut Usage| {
        edited(it);
        it.status.of = Some(Resolved { from: reference("new"), found: vec![key("new")] });
    };
    let after = seen(&usage(recorded), rows(), &snapshot());
    assert_eq!(after.facts.excess, Excess::Marked);
    assert_eq!(after.excess, Some((key("db"), Uid::new("db-1"), "u-1".to_owned())));
}

#[test]
fn a_usage_being_deleted_resolves_nothing_but_yields_in_a_cycle() {
    let leaving = usage(|it| it.deleting = true);
    let mut snapshot = snapshot();
    snapshot.circle = Ok(Some("a → b → a".to_owned()));
    let gives_way = seen(&leaving, rows(), &snapshot);
    assert_eq!(gives_way.facts.resolution, Resolution::Changed);
    assert_eq!(gives_way.meant.unwrap().of, empty());
    snapshot.circle = Err(Unknown::Unreachable);
    assert_eq!(seen(&leaving, rows(), &snapshot).facts.resolution, Resolution::Same);
    let edited = |it: &mut Usage| {
        it.deleting = true;
        spec(it).of = reference("new");
    };
    assert_eq!(facts(edited, |_| {}).resolution, Resolution::Same);
    let unread = |it: &mut Usage| {
        it.deleting = true;
        it.spec = Err(Refusal::PurposeMissing);
    };
    assert_eq!(facts(unread, |_| {}), STEADY);
}

#[test]
fn what_cannot_be_resolved_is_refused_or_unknown_and_changes_nothing() {
    let unread = seen(&usage(|it| it.spec = Err(Refusal::PurposeMissing)), rows(), &snapshot());
    assert_eq!(unread.refusal, Some(Refusal::PurposeMissing));
    assert_eq!((unread.facts.resolution, unread.meant), (Resolution::Refused, None));
    let itself = seen(&usage(|it| spec(it).by = Some(reference("db"))), rows(), &snapshot());
    assert_eq!(itself.refusal.unwrap().code(), "usage_uses_itself");
    for turn in [
        (|it: &mut Snapshot| it.of_candidates = Err(Unknown::Unreachable)) as fn(&mut Snapshot),
        |it| it.by_candidates = Err(Unknown::Unreachable),
        |it| it.consents = Err(Unknown::Unreachable),
        |it| it.circle = Err(Unknown::Unreachable),
    ] {
        let edited = |it: &mut Usage| spec(it).of = reference("new");
        assert_eq!(facts(edited, turn).resolution, Resolution::Unknown);
    }
}

// Requirement: G-16
#[test]
fn consent_is_needed_for_new_objects_and_not_for_held_ones() {
    let mut snapshot = snapshot();
    snapshot.consents = Ok(false);
    let edited = seen(&usage(|it| spec(it).of = reference("new")), rows(), &snapshot);
    let refusal = Refusal::ConsentMissing("ns".to_owned());
    assert_eq!(edited.refusal, Some(refusal));
    assert_eq!(seen(&usage(|_| {}), rows(), &snapshot).facts, STEADY);
}

#[test]
fn a_usage_that_would_close_a_circle_means_nothing() {
    let turn = |it: &mut Snapshot| it.circle = Ok(Some("a → b → a".to_owned()));
    let mut snapshot = snapshot();
    turn(&mut snapshot);
    let first = seen(&usage(|_| {}), rows(), &snapshot);
    assert_eq!(first.facts.resolution, Resolution::Changed);
    assert_eq!(first.meant.unwrap().of.found, []);
    let after = seen(&usage(|it| it.status.of = Some(empty())), rows(), &snapshot);
    assert_eq!(after.refusal.unwrap().code(), "usage_circle");
    assert_eq!((after.facts.resolution, after.facts.of), (Resolution::Refused, Of::Unresolved));
}

#[test]
fn a_selector_is_resolved_from_what_was_listed() {
    let selects = |it: &mut Usage| spec(it).of = selecting("a");
    let candidate = Candidate {
        name: "db".to_owned(),
        created_at: Timestamp::from_millis(1),
        labels: [("app".to_owned(), "a".to_owned())].into(),
        controller: None,
        deleting: false,
    };
    let mut snapshot = snapshot();
    snapshot.of_candidates = Ok(vec![candidate]);
    let meant = seen(&usage(selects), rows(), &snapshot).meant.unwrap();
    assert_eq!(meant.of, Resolved { from: selecting("a"), found: vec![key("db")] });
}

// Requirement: G-25
#[test]
fn a_held_object_with_a_requested_deletion_blocks_no_owner() {
    let blocks = |uid: &str| match object(uid, Some("u-1")) {
        Found::Present(it) => Found::Present(Object { blocks: true, ..it }),
        found @ (Found::Absent | Found::KindRemoved) => found,
    };
    let blocking = |bend: fn(&mut Usage), uid: &str| {
        let mut snapshot = snapshot();
        stand(&mut snapshot, "db", Ok(blocks(uid)));
        seen(&usage(bend), rows(), &snapshot).blocking
    };
    let asked = |it: &mut Usage| it.status.attempts = vec![attempt("db-1")];
    assert_eq!(blocking(asked, "db-1"), Some((key("db"), Uid::new("db-1"))));
    assert_eq!(blocking(|_| {}, "db-1"), None, "no deletion was requested");
    assert_eq!(blocking(asked, "db-2"), None, "another object");
    let over = |it: &mut Usage| {
        it.status.attempts = vec![attempt("db-1")];
        releasing(it);
    };
    assert_eq!(blocking(over, "db-1"), None, "it is not held");
}

// Requirement: G-6
#[test]
fn a_mark_is_taken_off_only_where_no_other_usage_holds() {
    let excess = |turn: fn(&mut Snapshot)| {
        let mut snapshot = snapshot();
        turn(&mut snapshot);
        let seen = seen(&usage(releasing), rows(), &snapshot);
        let mark = seen.sightings.iter().find(|it| Role::Mark.key(&it.name).is_some()).cloned();
        (seen.facts.excess, mark.unwrap().answer)
    };
    let settled = Answer::Absent { settled: true };
    let ours = Answer::Present { uid: Uid::new("db-1"), ours: true };
    assert_eq!(excess(|_| {}), (Excess::Marked, ours.clone()));
    assert_eq!(excess(|it| it.others = Ok(vec![holder(1, "else")])), (Excess::Marked, ours));
    assert_eq!(excess(|it| it.others = Ok(vec![holder(1, "db")])), (Excess::None, settled.clone()));
    let unmarked = |it: &mut Snapshot| stand(it, "db", Ok(object("db-1", None)));
    assert_eq!(excess(unmarked), (Excess::None, settled.clone()));
    let another = |it: &mut Snapshot| stand(it, "db", Ok(object("db-2", Some("u-1"))));
    assert_eq!(excess(another), (Excess::None, settled.clone()));
    assert_eq!(excess(|it| stand(it, "db", Ok(Found::Absent))), (Excess::None, settled));
    let blind = Answer::Unknown(Unknown::Unreachable);
    let others = |it: &mut Snapshot| it.others = Err(Unknown::Unreachable);
    assert_eq!(excess(others), (Excess::Unknown, blind.clone()));
    let unseen = |it: &mut Snapshot| stand(it, "db", Err(Unknown::Unreachable));
    assert_eq!(excess(unseen), (Excess::Unknown, blind));
}

#[test]
fn what_was_only_intended_was_never_marked() {
    let rows = vec![row(Role::Mark, "db", NameState::Intended, None)];
    let seen = seen(&usage(releasing), rows, &snapshot());
    assert_eq!(seen.facts.excess, Excess::None);
    assert_eq!(seen.sightings[0].answer, Answer::Absent { settled: true });
}
