//! The users of held objects.

use super::*;

// Requirement: G-3
#[test]
fn a_user_is_one_uid() {
    let by = |found: Reading<Found>| facts(|_| {}, |it| stand(it, "app", found)).by;
    assert_eq!(by(Ok(leaving("app-1", None))), By::Leaving, "a timestamp releases nothing");
    assert_eq!(by(Ok(Found::Absent)), By::Gone);
    assert_eq!(by(Ok(object("app-2", None))), By::Gone, "another object under the name");
    assert_eq!(by(Ok(Found::KindRemoved)), By::KindRemoved);
    assert_eq!(by(Err(Unknown::Unreachable)), By::Unknown);
    let always =
        |found| facts(|it| spec(it).resolve = Resolve::Always, |it| stand(it, "app", Ok(found))).by;
    assert_eq!(always(object("app-2", None)), By::Present, "it takes the place");
    assert_eq!(always(Found::Absent), By::Gone);
}

#[test]
fn a_user_that_was_never_seen_is_missing_and_not_gone() {
    let by = |state, uid, found: Found| {
        let rows = vec![row(Role::User, "app", state, uid)];
        let mut snapshot = snapshot();
        stand(&mut snapshot, "app", Ok(found));
        let seen = seen(&usage(|_| {}), rows, &snapshot);
        (seen.facts.by, seen.sightings.last().map(|it| it.answer.clone()))
    };
    let absent = Some(Answer::Absent { settled: false });
    assert_eq!(by(NameState::Intended, None, Found::Absent), (By::Missing, absent));
    let here = |ours| Some(Answer::Present { uid: Uid::new("app-1"), ours });
    let found = object("app-1", None);
    assert_eq!(by(NameState::Intended, None, found.clone()), (By::Present, here(true)));
    assert_eq!(by(NameState::Gone, Some("app-1"), found), (By::Gone, here(false)));
    let gone = by(NameState::Gone, Some("app-1"), Found::KindRemoved);
    assert_eq!(gone.0, By::Gone, "it was gone before its kind");
}

#[test]
fn a_selected_user_existed_and_is_gone_if_it_is_absent() {
    let by = |found: Found| {
        let rows = vec![row(Role::User, "app", NameState::Intended, None)];
        let mut snapshot = snapshot();
        stand(&mut snapshot, "app", Ok(found));
        let selected = usage(|it| {
            let (from, found) = (selecting("app"), vec![key("app")]);
            it.status.by = Some(Resolved { from, found });
        });
        seen(&selected, rows, &snapshot).facts.by
    };
    assert_eq!(by(Found::Absent), By::Gone);
    assert_eq!(by(object("app-1", None)), By::Present);
    assert_eq!(by(Found::KindRemoved), By::KindRemoved);
}

#[test]
fn a_usage_being_deleted_takes_no_new_user() {
    let by = |state, uid| {
        let rows = vec![row(Role::User, "app", state, uid)];
        let mut snapshot = snapshot();
        stand(&mut snapshot, "app", Ok(object("app-1", None)));
        let seen = seen(&usage(|it| it.deleting = true), rows, &snapshot);
        let recorded = seen.sightings.iter().any(|it| it.name == Role::User.name(&key("app")));
        (seen.facts.by, recorded)
    };
    assert_eq!(by(NameState::Intended, None), (By::Missing, false));
    assert_eq!(
        by(NameState::Seen, Some("app-1")),
        (By::Present, true),
        "a user that was seen is awaited"
    );
}

#[test]
fn without_a_user_there_is_only_the_reason() {
    let reasoned = |it: &mut Usage| {
        it.status.by = None;
        spec(it).by = None;
    };
    assert_eq!(facts(reasoned, |_| {}).by, By::None);
    assert_eq!(facts(|it| it.status.by = None, |_| {}).by, By::Missing, "not resolved yet");
}

#[test]
fn of_several_users_the_one_that_is_most_alive_counts() {
    let two = |it: &mut Usage| {
        it.status.by = Some(Resolved { from: reference("app"), found: vec![key("app"), key("b")] });
    };
    let by = |found: Reading<Found>| facts(two, |it| stand(it, "b", found)).by;
    assert_eq!(by(Ok(Found::Absent)), By::Present);
    let both = |one: Reading<Found>, other: Reading<Found>| {
        let turn = |it: &mut Snapshot| {
            stand(it, "app", one);
            stand(it, "b", other);
        };
        facts(two, turn).by
    };
    assert_eq!(both(Ok(Found::Absent), Err(Unknown::Unreachable)), By::Unknown);
    assert_eq!(both(Ok(Found::Absent), Ok(leaving("b-1", None))), By::Leaving);
    assert_eq!(both(Ok(Found::Absent), Ok(Found::Absent)), By::Missing, "one was never seen");
}
