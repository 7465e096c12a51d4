use usher_kernel::Uid;

use super::*;
use crate::direct::aggregate::History;
use crate::direct::fixture::{
    NOW, asked, binding, foreign, found, gone, identified, intended, leaving, name, object, record,
    resource, seen, snapshot,
};
use crate::direct::mark::{Binding, Mark, RequestId};
use crate::direct::operation;
use crate::direct::recorded::{self, Recorded};
use crate::direct::snapshot;
use crate::object::kv::KvCoordinates;

fn recorded() -> Resource {
    resource(|it| it.identity = Some(identified("a")))
}

fn on_its_way_out() -> Resource {
    leaving(|it| it.identity = Some(identified("a")))
}

fn lost() -> Resource {
    leaving(|it| it.history = History::Lost)
}

/// The fact and the name states that one answer makes of one row.
fn folded(it: &Resource, row: Row, snapshot: &Snapshot) -> (Cloud, Vec<NameState>) {
    let name_ledger = NameLedger::new([row]);
    let folded = fold(it, &name_ledger, snapshot);
    let rows = folded.absorbed(&name_ledger).1;
    (folded.facts.cloud, rows.iter().map(|row| row.state).collect())
}

fn answering(found: snapshot::Reading<Option<Found>>) -> Snapshot {
    Snapshot { cloud: Some(asked(found)), ..snapshot() }
}

fn anothers(uid: &str) -> Found {
    Found { mark: None, ..found(uid) }
}

// Requirement: I-8
#[test]
fn an_answer_that_does_not_count_changes_no_row() {
    let refused = |container| Snapshot {
        cloud: Some(snapshot::CloudReading { container, ..asked(Err(ReadError::Refused)) }),
        ..snapshot()
    };
    let lagging = |found| Snapshot { authority: Authority::Replaced, ..answering(found) };
    let throttled = ReadError::Throttled { retry_after: Some(Duration::from_secs(9)) };
    let cases = [
        (refused(None), Cloud::Forbidden),
        (refused(Some(Container::NameState)), Cloud::Forbidden),
        (refused(Some(Container::Unknown)), Cloud::Forbidden),
        (
            Snapshot { authority: Authority::Replaced, ..refused(Some(Container::Gone)) },
            Cloud::Forbidden,
        ),
        (answering(Err(throttled)), Cloud::Throttled),
        (answering(Err(ReadError::Unavailable)), Cloud::Unavailable),
        (lagging(Ok(None)), Cloud::Lagging),
        (lagging(Ok(Some(found("c-9")))), Cloud::Lagging),
        (Snapshot { guard_tripped: true, ..snapshot() }, Cloud::Vanished),
        (Snapshot { guard_tripped: true, ..answering(Ok(Some(anothers("x")))) }, Cloud::Vanished),
        (Snapshot { cloud: None, ..snapshot() }, Cloud::Unasked),
    ];
    for (snapshot, cloud) in cases {
        for it in [recorded(), on_its_way_out()] {
            assert_eq!(
                folded(&it, seen(name(), "c-1"), &snapshot),
                (cloud, vec![]),
                "{snapshot:?}"
            );
        }
    }
    let waiting = fold(&recorded(), &NameLedger::default(), &answering(Err(throttled)));
    assert_eq!(waiting.retry_after, Some(Duration::from_secs(9)));
}

// Requirement: I-8
#[test]
fn a_refusal_is_absence_when_the_container_is_proven_gone() {
    let container = Some(Container::Gone);
    let cloud = Some(snapshot::CloudReading { container, ..asked(Err(ReadError::Refused)) });
    let snapshot = Snapshot { cloud, ..snapshot() };
    let expected = (Cloud::ContainerGone, vec![NameState::Gone]);
    assert_eq!(folded(&on_its_way_out(), seen(name(), "c-1"), &snapshot), expected);
    let held = Snapshot { guard_tripped: true, ..snapshot };
    assert_eq!(folded(&on_its_way_out(), seen(name(), "c-1"), &held), (Cloud::Forbidden, vec![]));
}

// Requirement: I-13
#[test]
fn an_object_is_ours_by_record_or_by_mark() {
    let copied = Binding { object: Uid::new("uid-2"), ..binding() };
    let of_another = Mark { request: RequestId::of(&copied, 1), owner: copied };
    let unsent = Mark { owner: binding(), request: RequestId::of(&binding(), 9) };
    let marked = |mark| Found { mark: Some(mark), ..found("c-1") };
    let drifted = Found { drifted: true, ..found("c-1") };
    let going = Found { leaving: true, ..found("c-1") };
    let stood = || seen(name(), "c-1");
    let cases = [
        (intended(name()), found("c-1"), Cloud::Unrecorded, vec![NameState::Seen], "by mark"),
        (intended(name()), anothers("c-1"), Cloud::Foreign, vec![NameState::Foreign], "no mark"),
        (intended(name()), marked(of_another), Cloud::Foreign, vec![NameState::Foreign], "another"),
        (intended(name()), marked(unsent), Cloud::Foreign, vec![NameState::Foreign], "never sent"),
        (stood(), found("c-1"), Cloud::Ours, vec![], "on record"),
        (stood(), anothers("c-1"), Cloud::Ours, vec![], "on record, its mark taken off"),
        (stood(), drifted, Cloud::Drifted, vec![], "not as declared"),
        (stood(), going, Cloud::Leaving, vec![], "being deleted"),
        (stood(), anothers("x"), Cloud::Foreign, vec![NameState::Gone], "another took its place"),
        (
            stood(),
            found("c-2"),
            Cloud::Unrecorded,
            vec![NameState::Gone, NameState::Seen],
            "ours again, another uid",
        ),
        (gone(name(), "c-1"), found("c-2"), Cloud::Unrecorded, vec![NameState::Seen], "reappeared"),
        (foreign(name()), anothers("x"), Cloud::Foreign, vec![], "still another owner's"),
    ];
    for (row, object, cloud, rows, why) in cases {
        let snapshot = answering(Ok(Some(object)));
        assert_eq!(folded(&recorded(), row, &snapshot), (cloud, rows), "{why}");
    }
}

// Requirement: I-9
#[test]
fn absence_ends_an_intended_name_only_with_nothing_in_flight() {
    let running = |progress| {
        let operation = operation::Operation { name: "op".to_owned(), progress };
        Snapshot { operations: Ok(vec![operation]), ..snapshot() }
    };
    let loud = leaving(|it| {
        it.identity = Some(identified("a"));
        it.grace_until = Some(NOW.after(Duration::from_secs(1)));
    });
    let silent = Snapshot { operations: Err(ReadError::Unavailable), ..snapshot() };
    let cases = [
        (recorded(), snapshot(), vec![], "it is to exist"),
        (loud, snapshot(), vec![], "a request may be in flight"),
        (on_its_way_out(), running(Progress::Running), vec![], "an operation runs"),
        (on_its_way_out(), silent, vec![], "the operations are not known"),
        (on_its_way_out(), running(Progress::Failed), vec![NameState::Gone], "it failed"),
        (on_its_way_out(), running(Progress::Done), vec![NameState::Gone], "it ended"),
        (on_its_way_out(), snapshot(), vec![NameState::Gone], "nothing is in flight"),
    ];
    for (it, snapshot, rows, why) in cases {
        assert_eq!(folded(&it, intended(name()), &snapshot), (Cloud::Absent, rows), "{why}");
    }
    let freed = folded(&recorded(), foreign(name()), &snapshot());
    assert_eq!(freed, (Cloud::Absent, vec![NameState::Intended]), "the name is free again");
}

#[test]
fn behind_the_guard_nothing_in_teardown_is_absent() {
    let guarded = Snapshot { guard_tripped: true, ..snapshot() };
    for row in [intended(name()), seen(name(), "c-1"), gone(name(), "c-1")] {
        let state = row.state;
        let reading = folded(&on_its_way_out(), row, &guarded);
        assert_eq!(reading, (Cloud::Vanished, vec![]), "{state:?}");
    }
    let wanted = folded(&recorded(), intended(name()), &guarded);
    assert_eq!(wanted, (Cloud::Absent, vec![]), "what was never seen may be made");
}

// Requirement: I-14
#[test]
fn the_record_wins_over_the_spec() {
    let elsewhere = Snapshot {
        spec: Some(Ok(identified("b"))),
        cloud: Some(snapshot::CloudReading { identified: identified("b"), ..asked(Ok(None)) }),
        ..snapshot()
    };
    let folded = fold(&on_its_way_out(), &NameLedger::new([seen(name(), "c-1")]), &elsewhere);
    assert_eq!((folded.facts.refs, folded.facts.cloud), (Refs::Differs, Cloud::Unasked));
    assert_eq!(folded.sightings, []);
}

// Requirement: I-38
#[test]
fn the_object_is_ours_to_act_on_only_with_its_uid_and_our_finalizer() {
    let of = |object| {
        fold(&recorded(), &NameLedger::default(), &Snapshot { object, ..snapshot() }).facts.object
    };
    let bare = snapshot::Object { finalizers: vec![], ..object() };
    assert_eq!(of(Ok(Some(object()))), Object::Held);
    assert_eq!(of(Ok(Some(bare.clone()))), Object::Unheld);
    assert_eq!(of(Ok(Some(snapshot::Object { deleting: true, ..object() }))), Object::Leaving);
    assert_eq!(of(Ok(Some(snapshot::Object { deleting: true, ..bare }))), Object::Free);
    assert_eq!(of(Ok(Some(snapshot::Object { uid: Uid::new("uid-2"), ..object() }))), Object::Gone);
    assert_eq!(of(Ok(None)), Object::Gone);
    assert_eq!(of(Err(Unknown::Unreachable)), Object::Unknown);
    let rebuilt = Snapshot { object: Ok(None), cluster: Authority::Replaced, ..snapshot() };
    let forgotten = fold(&recorded(), &NameLedger::default(), &rebuilt).facts.object;
    assert_eq!(forgotten, Object::Unknown, "a rebuilt cluster has no records");
    let behind_the_guard = |object| {
        let snapshot = Snapshot { object: Ok(object), cluster_guard_tripped: true, ..snapshot() };
        fold(&recorded(), &NameLedger::default(), &snapshot).facts.object
    };
    let another = snapshot::Object { uid: Uid::new("uid-2"), ..object() };
    assert_eq!(behind_the_guard(None), Object::Unknown, "too many vanished at once");
    assert_eq!(behind_the_guard(Some(another)), Object::Unknown);
    assert_eq!(behind_the_guard(Some(object())), Object::Held, "what is there is there");
}

#[test]
fn a_hold_is_known_by_its_name_and_a_policy_by_its_word() {
    let facts = |finalizer: &str, policy: Option<&str>| {
        let finalizers = vec![FINALIZER_DIRECT.to_owned(), finalizer.to_owned()];
        let policy = policy.map(str::to_owned);
        let object = Ok(Some(snapshot::Object { finalizers, policy, ..object() }));
        let folded = fold(&recorded(), &NameLedger::default(), &Snapshot { object, ..snapshot() });
        (folded.facts.hold, folded.facts.policy)
    };
    assert_eq!(facts("example.org/hold", None), (Hold::Another, PolicyFact::Hold));
    assert_eq!(facts("usher.dev/usage", Some("hold")), (Hold::None, PolicyFact::Hold));
    assert_eq!(facts("example.org/usage", Some("abandon")), (Hold::None, PolicyFact::Abandon));
    let release = Some("release-with-record");
    assert_eq!(facts("foregroundDeletion", release), (Hold::None, PolicyFact::Release));
    assert_eq!(facts("hold", Some("Abandon")), (Hold::None, PolicyFact::Unreadable));
}

// Requirement: I-40
#[test]
fn another_object_of_the_name_says_nothing_about_this_one() {
    let successor = snapshot::Object {
        uid: Uid::new("uid-2"),
        finalizers: vec!["a.b/hold".to_owned()],
        policy: Some("abandon".to_owned()),
        stamp: Some(stamp("uid-1", recorded::IdentityState::Gone)),
        ..object()
    };
    let snapshot = Snapshot { object: Ok(Some(successor)), ..snapshot() };
    let folded = fold(&recorded(), &NameLedger::new([gone(name(), "c-1")]), &snapshot);
    assert_eq!((folded.facts.hold, folded.facts.policy), (Hold::None, PolicyFact::Hold));
    assert_eq!(folded.facts.stamp, Stamp::Stale);
    assert_eq!(folded.evidence, Evidence::default());
    let lost = fold(&lost(), &NameLedger::default(), &snapshot);
    assert_eq!((lost.found, lost.adopted), (None, vec![]));
}

// Requirement: I-20
#[test]
fn configuration_counts_only_while_the_object_is_to_exist() {
    let missing = Snapshot { configuration: Some(Err(Unresolved::NotFound)), ..snapshot() };
    let refs = |snapshot: &Snapshot| fold(&recorded(), &NameLedger::default(), snapshot).facts.refs;
    assert_eq!(refs(&missing), Refs::NotFound);
    let going = Ok(Some(snapshot::Object { deleting: true, ..object() }));
    assert_eq!(refs(&Snapshot { object: going, ..missing }), Refs::Agrees);
    assert_eq!(refs(&Snapshot { spec: None, ..snapshot() }), Refs::Unasked);
    for why in Unresolved::ALL {
        let found = refs(&Snapshot { spec: Some(Err(*why)), ..snapshot() });
        assert_eq!(found.as_str(), why.as_str());
    }
}

fn stamp(owner: &str, state: recorded::IdentityState) -> String {
    let owner = Binding { object: Uid::new(owner), ..binding() };
    Recorded::new(owner, state, identified("a")).to_text()
}

// Requirement: I-15
#[test]
fn a_stamp_counts_as_a_name_where_the_ledger_names_nothing() {
    let request = RequestId::of(&binding(), 1);
    let uid = Uid::new("c-1");
    let states = [
        recorded::IdentityState::Intended { request },
        recorded::IdentityState::Seen { uid },
        recorded::IdentityState::Gone,
    ];
    for state in states {
        let stamp = Some(stamp("uid-1", state));
        for status in [false, true] {
            let object = if status {
                snapshot::Object { status: stamp.clone(), ..object() }
            } else {
                snapshot::Object { stamp: stamp.clone(), ..object() }
            };
            let search = Some(Ok(vec![]));
            let snapshot = Snapshot { object: Ok(Some(object)), cloud: None, search, ..snapshot() };
            let folded = fold(&lost(), &NameLedger::default(), &snapshot);
            let rows = folded.absorbed(&NameLedger::default()).1;
            let found: Vec<_> = rows.iter().map(|it| (it.state, it.uid.clone())).collect();
            assert_eq!(found, [(NameState::Intended, None)], "an edited stamp proves nothing");
            assert_eq!(folded.found, Some(identified("a")));
            let name_ledger = NameLedger::new([seen(name(), "c-7")]);
            assert_eq!(
                fold(&recorded(), &name_ledger, &snapshot).adopted,
                [],
                "the ledger knows better"
            );
        }
    }
}

// Requirement: I-37
#[test]
fn a_forged_stamp_makes_nothing_ours() {
    let stamp = Some(stamp("uid-1", recorded::IdentityState::Seen { uid: Uid::new("c-1") }));
    let forged = snapshot::Object { deleting: true, stamp, ..object() };
    let state = Some(asked(Ok(Some(anothers("c-1")))));
    let search = Some(Ok(vec![]));
    let snapshot = Snapshot { object: Ok(Some(forged)), cloud: state, search, ..snapshot() };
    let folded = fold(&lost(), &NameLedger::default(), &snapshot);
    let rows = folded.absorbed(&NameLedger::default()).1;
    assert_eq!(folded.facts.cloud, Cloud::Foreign);
    assert_eq!(rows.iter().map(|it| it.state).collect::<Vec<_>>(), [NameState::Foreign]);
    let marked = Some(Ok(vec![(identified("b"), found("c-7"))]));
    let found =
        fold(&lost(), &NameLedger::default(), &Snapshot { search: marked, ..snapshot.clone() });
    assert_eq!((found.found, found.adopted), (Some(identified("b")), vec![]), "a mark is proof");
    for search in [None, Some(Err(ReadError::Unavailable))] {
        let unknown =
            fold(&lost(), &NameLedger::default(), &Snapshot { search, ..snapshot.clone() });
        assert_eq!((unknown.facts.search, unknown.found), (Search::Unknown, None));
    }
    let witnessed = leaving(|_| ());
    let folded = fold(&witnessed, &NameLedger::default(), &snapshot);
    assert_eq!(folded.unrecorded, Identity::BoundElsewhere, "without a request there is no stamp");
    assert_eq!((folded.found.clone(), folded.adopted.clone()), (None, vec![]));
}

// Requirement: I-37
#[test]
fn a_stamp_with_the_credential_of_another_is_not_read() {
    let stamp = Some(stamp("uid-1", recorded::IdentityState::Gone));
    let object = Ok(Some(snapshot::Object { stamp, ..object() }));
    let credential = KvCoordinates::new("kv", "clouds/other").unwrap();
    let folded =
        fold(&lost(), &NameLedger::default(), &Snapshot { object, credential, ..snapshot() });
    assert_eq!(folded.unrecorded, Identity::Malformed);
    assert_eq!((folded.found.clone(), folded.adopted.clone()), (None, vec![]));
}

// Requirement: I-5
#[test]
fn a_stamp_of_another_object_or_none_at_all_has_its_own_verdict() {
    let unrecorded = |it: &Resource, stamp: Option<String>, status: Option<String>| {
        let object = Ok(Some(snapshot::Object { stamp, status, ..object() }));
        fold(it, &NameLedger::default(), &Snapshot { object, ..snapshot() }).unrecorded
    };
    let own = || Some(stamp("uid-1", recorded::IdentityState::Gone));
    let copied = || Some(stamp("uid-2", recorded::IdentityState::Gone));
    let broken = || Some("{".to_owned());
    let witnessed = resource(|_| ());
    assert_eq!(unrecorded(&witnessed, None, None), Identity::None);
    assert_eq!(unrecorded(&witnessed, own(), None), Identity::BoundElsewhere);
    assert_eq!(unrecorded(&lost(), None, None), Identity::Lost);
    assert_eq!(unrecorded(&witnessed, copied(), None), Identity::BoundElsewhere);
    assert_eq!(unrecorded(&lost(), copied(), broken()), Identity::BoundElsewhere);
    assert_eq!(unrecorded(&lost(), broken(), None), Identity::Malformed);
    assert_eq!(unrecorded(&lost(), broken(), own()), Identity::Lost, "one of the two is read");
}

// Requirement: I-15
#[test]
fn one_object_with_our_mark_is_recorded_and_several_are_not() {
    let search = |found: Vec<Found>| {
        let marked = found.into_iter().zip(["a", "b"]).map(|(it, at)| (identified(at), it));
        Snapshot { search: Some(Ok(marked.collect())), cloud: None, ..snapshot() }
    };
    let folded = |snapshot: &Snapshot| {
        let folded = fold(&lost(), &NameLedger::default(), snapshot);
        (folded.facts.search, folded.absorbed(&NameLedger::default()).1.len(), folded.found)
    };
    let one = search(vec![anothers("x"), found("c-1")]);
    assert_eq!(folded(&one), (Search::One, 1, Some(identified("b"))));
    assert_eq!(folded(&search(vec![anothers("x")])), (Search::None, 0, None));
    let both = search(vec![found("c-1"), found("c-2")]);
    assert_eq!(folded(&both), (Search::Several, 0, None));
    let replica = Snapshot { authority: Authority::Replaced, ..one.clone() };
    assert_eq!(folded(&replica), (Search::Unknown, 0, None));
    let vanished = Snapshot { guard_tripped: true, ..one.clone() };
    assert_eq!(folded(&vanished), (Search::Unknown, 0, None));
    let silent = Snapshot { search: Some(Err(ReadError::Unavailable)), ..snapshot() };
    assert_eq!(folded(&Snapshot { cloud: None, ..silent }), (Search::Unknown, 0, None));
    let known = fold(&on_its_way_out(), &NameLedger::new([seen(name(), "c-1")]), &one);
    assert_eq!(known.facts.search, Search::None, "a recorded identity needs no search");
}

#[test]
fn an_answer_counts_only_for_what_is_on_record() {
    for answer in [Ok(Some(found("c-1"))), Ok(Some(anothers("x"))), Ok(None)] {
        let folded = fold(&lost(), &NameLedger::default(), &answering(answer));
        assert_eq!((folded.found, folded.facts.cloud), (None, Cloud::Unasked));
        assert_eq!(folded.sightings, []);
    }
}

// Requirement: I-15
#[test]
fn what_a_snapshot_finds_differs_from_what_was_recorded() {
    let identity = |it: Resource, rows: Vec<Row>, snapshot: &Snapshot| {
        let record = record(it, rows);
        fold(&record.state, &record.name_ledger, snapshot).row(&record, NOW).identity
    };
    let uid = Uid::new("c-1");
    let stamp = Some(stamp("uid-1", recorded::IdentityState::Seen { uid }));
    let search = Some(Ok(vec![]));
    let stamped =
        Snapshot { object: Ok(Some(snapshot::Object { stamp, ..object() })), search, ..snapshot() };
    assert_eq!(identity(lost(), vec![], &stamped), Identity::Found, "by its stamp");
    let marked = Snapshot { search: Some(Ok(vec![(identified("a"), found("c-1"))])), ..snapshot() };
    assert_eq!(identity(lost(), vec![], &marked), Identity::Found, "by its mark");
    let seen = vec![seen(name(), "c-1")];
    let there = answering(Ok(Some(found("c-1"))));
    assert_eq!(identity(on_its_way_out(), seen, &there), Identity::Seen, "on record");
    assert_eq!(identity(lost(), vec![], &snapshot()), Identity::Lost, "not found");
}

// Requirement: I-22
#[test]
fn a_failed_operation_counts_until_its_request_is_abandoned() {
    let failed = operation::Operation { name: "op-1".to_owned(), progress: Progress::Failed };
    let snapshot = Snapshot { operations: Ok(vec![failed]), ..snapshot() };
    let spent = |name: &str| {
        let it = resource(|it| {
            it.identity = Some(identified("a"));
            it.spent = Some(name.to_owned());
        });
        fold(&it, &NameLedger::default(), &snapshot).facts.operation
    };
    assert_eq!(
        fold(&recorded(), &NameLedger::default(), &snapshot).facts.operation,
        Operation::Failed
    );
    assert_eq!(spent("op-1"), Operation::None);
    assert_eq!(spent("op-0"), Operation::Failed, "a new one failed, too");
}

// Requirement: I-22
#[test]
fn a_replica_that_shows_no_operation_proves_nothing() {
    let operation =
        |snapshot: &Snapshot| fold(&recorded(), &NameLedger::default(), snapshot).facts.operation;
    let lagging = Snapshot { authority: Authority::Replaced, ..snapshot() };
    assert_eq!(operation(&snapshot()), Operation::None);
    assert_eq!(operation(&lagging), Operation::Unknown);
    let running = operation::Operation { name: "op".to_owned(), progress: Progress::Running };
    let shown = Snapshot { operations: Ok(vec![running]), ..lagging };
    assert_eq!(operation(&shown), Operation::Running, "what it shows did run");
    assert_eq!(fold(&recorded(), &NameLedger::default(), &shown).operation.as_deref(), Some("op"));
}

#[test]
fn the_stamp_is_current_when_it_equals_the_record_of_this_snapshot() {
    let stamped = |state, status: bool| {
        let text = Some(stamp("uid-1", state));
        let object = if status {
            snapshot::Object { status: text, ..object() }
        } else {
            snapshot::Object { stamp: text, ..object() }
        };
        Snapshot { object: Ok(Some(object)), ..answering(Ok(Some(found("c-1")))) }
    };
    let uid = Uid::new("c-1");
    let at = |row: Row, snapshot: &Snapshot| {
        fold(&recorded(), &NameLedger::new([row]), snapshot).facts.stamp
    };
    let seen_stamp = stamped(recorded::IdentityState::Seen { uid: uid.clone() }, false);
    assert_eq!(at(seen(name(), "c-1"), &seen_stamp), Stamp::Current);
    assert_eq!(at(intended(name()), &seen_stamp), Stamp::Current, "seen in this very snapshot");
    let request = RequestId::of(&binding(), 1);
    let old = stamped(recorded::IdentityState::Intended { request }, false);
    assert_eq!(at(intended(name()), &old), Stamp::Stale, "it moved on");
    let only_status = stamped(recorded::IdentityState::Seen { uid }, true);
    assert_eq!(at(seen(name(), "c-1"), &only_status), Stamp::Stale, "restores drop a status");
}
