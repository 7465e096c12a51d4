use usher_kernel::Uid;

use super::*;
use crate::direct::aggregate::History;
use crate::direct::fixture::{
    NOW, asked, binding, foreign, found, gone, identified, intended, leaving, look, name, object,
    record, resource, seen,
};
use crate::direct::look;
use crate::direct::mark::{Binding, Mark, RequestId};
use crate::direct::operation;
use crate::direct::recorded::{self, Recorded};
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

/// The fact and the standings that one answer makes of one row.
fn told(it: &Resource, row: Row, look: &Look) -> (Cloud, Vec<Standing>) {
    let book = Book::new([row]);
    let folded = fold(it, &book, look);
    let rows = folded.absorbed(&book).1;
    (folded.facts.cloud, rows.iter().map(|row| row.standing).collect())
}

fn answering(found: look::Heard<Option<Found>>) -> Look {
    Look { cloud: Some(asked(found)), ..look() }
}

fn anothers(uid: &str) -> Found {
    Found { mark: None, ..found(uid) }
}

// Requirement: I-8
#[test]
fn an_answer_that_does_not_count_changes_no_row() {
    let refused = |container| Look {
        cloud: Some(look::Asked { container, ..asked(Err(Silence::Refused)) }),
        ..look()
    };
    let lagging = |found| Look { authority: Authority::Replaced, ..answering(found) };
    let throttled = Silence::Throttled { retry_after: Some(Duration::from_secs(9)) };
    let cases = [
        (refused(None), Cloud::Forbidden),
        (refused(Some(Container::Standing)), Cloud::Forbidden),
        (refused(Some(Container::Unknown)), Cloud::Forbidden),
        (
            Look { authority: Authority::Replaced, ..refused(Some(Container::Gone)) },
            Cloud::Forbidden,
        ),
        (answering(Err(throttled)), Cloud::Throttled),
        (answering(Err(Silence::Unavailable)), Cloud::Unavailable),
        (lagging(Ok(None)), Cloud::Lagging),
        (lagging(Ok(Some(found("c-9")))), Cloud::Lagging),
        (Look { rail_tripped: true, ..look() }, Cloud::Vanished),
        (Look { rail_tripped: true, ..answering(Ok(Some(anothers("x")))) }, Cloud::Vanished),
        (Look { cloud: None, ..look() }, Cloud::Unasked),
    ];
    for (look, cloud) in cases {
        for it in [recorded(), on_its_way_out()] {
            assert_eq!(told(&it, seen(name(), "c-1"), &look), (cloud, vec![]), "{look:?}");
        }
    }
    let waiting = fold(&recorded(), &Book::default(), &answering(Err(throttled)));
    assert_eq!(waiting.retry_after, Some(Duration::from_secs(9)));
}

// Requirement: I-8
#[test]
fn a_refusal_is_absence_when_the_container_is_proven_gone() {
    let container = Some(Container::Gone);
    let cloud = Some(look::Asked { container, ..asked(Err(Silence::Refused)) });
    let look = Look { cloud, ..look() };
    let expected = (Cloud::ContainerGone, vec![Standing::Gone]);
    assert_eq!(told(&on_its_way_out(), seen(name(), "c-1"), &look), expected);
    let held = Look { rail_tripped: true, ..look };
    assert_eq!(told(&on_its_way_out(), seen(name(), "c-1"), &held), (Cloud::Forbidden, vec![]));
}

// Requirement: I-13
#[test]
fn what_stands_is_ours_by_record_or_by_mark() {
    let copied = Binding { object: Uid::new("uid-2"), ..binding() };
    let of_another = Mark { request: RequestId::of(&copied, 1), owner: copied };
    let unsent = Mark { owner: binding(), request: RequestId::of(&binding(), 9) };
    let marked = |mark| Found { mark: Some(mark), ..found("c-1") };
    let drifted = Found { drifted: true, ..found("c-1") };
    let going = Found { leaving: true, ..found("c-1") };
    let stood = || seen(name(), "c-1");
    let cases = [
        (intended(name()), found("c-1"), Cloud::Unrecorded, vec![Standing::Seen], "by mark"),
        (intended(name()), anothers("c-1"), Cloud::Foreign, vec![Standing::Foreign], "no mark"),
        (intended(name()), marked(of_another), Cloud::Foreign, vec![Standing::Foreign], "another"),
        (intended(name()), marked(unsent), Cloud::Foreign, vec![Standing::Foreign], "never sent"),
        (stood(), found("c-1"), Cloud::Ours, vec![], "on record"),
        (stood(), anothers("c-1"), Cloud::Ours, vec![], "on record, its mark taken off"),
        (stood(), drifted, Cloud::Drifted, vec![], "not as declared"),
        (stood(), going, Cloud::Leaving, vec![], "on its way out"),
        (stood(), anothers("x"), Cloud::Foreign, vec![Standing::Gone], "another took its place"),
        (
            stood(),
            found("c-2"),
            Cloud::Unrecorded,
            vec![Standing::Gone, Standing::Seen],
            "ours again, another uid",
        ),
        (gone(name(), "c-1"), found("c-2"), Cloud::Unrecorded, vec![Standing::Seen], "came back"),
        (foreign(name()), anothers("x"), Cloud::Foreign, vec![], "still another owner's"),
    ];
    for (row, object, cloud, rows, why) in cases {
        let look = answering(Ok(Some(object)));
        assert_eq!(told(&recorded(), row, &look), (cloud, rows), "{why}");
    }
}

// Requirement: I-9
#[test]
fn absence_ends_an_intended_name_only_when_nothing_of_ours_is_on_its_way() {
    let running = |progress| {
        let operation = operation::Operation { name: "op".to_owned(), progress };
        Look { operations: Ok(vec![operation]), ..look() }
    };
    let loud = leaving(|it| {
        it.identity = Some(identified("a"));
        it.quiet_until = Some(NOW.after(Duration::from_secs(1)));
    });
    let silent = Look { operations: Err(Silence::Unavailable), ..look() };
    let cases = [
        (recorded(), look(), vec![], "it is wanted"),
        (loud, look(), vec![], "a driver may be heard"),
        (on_its_way_out(), running(Progress::Running), vec![], "an operation runs"),
        (on_its_way_out(), silent, vec![], "the operations are not known"),
        (on_its_way_out(), running(Progress::Failed), vec![Standing::Gone], "it failed"),
        (on_its_way_out(), running(Progress::Done), vec![Standing::Gone], "it ended"),
        (on_its_way_out(), look(), vec![Standing::Gone], "nothing is on its way"),
    ];
    for (it, look, rows, why) in cases {
        assert_eq!(told(&it, intended(name()), &look), (Cloud::Absent, rows), "{why}");
    }
    let freed = told(&recorded(), foreign(name()), &look());
    assert_eq!(freed, (Cloud::Absent, vec![Standing::Intended]), "the name is free again");
}

#[test]
fn behind_the_rail_nothing_that_leaves_is_absent() {
    let railed = Look { rail_tripped: true, ..look() };
    for row in [intended(name()), seen(name(), "c-1"), gone(name(), "c-1")] {
        let standing = row.standing;
        let heard = told(&on_its_way_out(), row, &railed);
        assert_eq!(heard, (Cloud::Vanished, vec![]), "{standing:?}");
    }
    let wanted = told(&recorded(), intended(name()), &railed);
    assert_eq!(wanted, (Cloud::Absent, vec![]), "what was never seen may be made");
}

// Requirement: I-14
#[test]
fn the_record_wins_over_the_spec() {
    let elsewhere = Look {
        spec: Some(Ok(identified("b"))),
        cloud: Some(look::Asked { identified: identified("b"), ..asked(Ok(None)) }),
        ..look()
    };
    let folded = fold(&on_its_way_out(), &Book::new([seen(name(), "c-1")]), &elsewhere);
    assert_eq!((folded.facts.refs, folded.facts.cloud), (Refs::Differs, Cloud::Unasked));
    assert_eq!(folded.sightings, []);
}

// Requirement: I-38
#[test]
fn the_object_is_ours_to_act_on_only_with_its_uid_and_our_finalizer() {
    let of = |object| fold(&recorded(), &Book::default(), &Look { object, ..look() }).facts.object;
    let bare = look::Object { finalizers: vec![], ..object() };
    assert_eq!(of(Ok(Some(object()))), Object::Held);
    assert_eq!(of(Ok(Some(bare.clone()))), Object::Unheld);
    assert_eq!(of(Ok(Some(look::Object { deleting: true, ..object() }))), Object::Leaving);
    assert_eq!(of(Ok(Some(look::Object { deleting: true, ..bare }))), Object::Free);
    assert_eq!(of(Ok(Some(look::Object { uid: Uid::new("uid-2"), ..object() }))), Object::Gone);
    assert_eq!(of(Ok(None)), Object::Gone);
    assert_eq!(of(Err(Unknown::Unreachable)), Object::Unknown);
    let rebuilt = Look { object: Ok(None), cluster: Authority::Replaced, ..look() };
    let forgotten = fold(&recorded(), &Book::default(), &rebuilt).facts.object;
    assert_eq!(forgotten, Object::Unknown, "a rebuilt cluster forgets everything");
    let behind_the_rail = |object| {
        let look = Look { object: Ok(object), cluster_rail_tripped: true, ..look() };
        fold(&recorded(), &Book::default(), &look).facts.object
    };
    let another = look::Object { uid: Uid::new("uid-2"), ..object() };
    assert_eq!(behind_the_rail(None), Object::Unknown, "too many vanished at once");
    assert_eq!(behind_the_rail(Some(another)), Object::Unknown);
    assert_eq!(behind_the_rail(Some(object())), Object::Held, "what is there is there");
}

#[test]
fn a_hold_is_known_by_its_name_and_a_policy_by_its_word() {
    let facts = |finalizer: &str, policy: Option<&str>| {
        let finalizers = vec![FINALIZER_DIRECT.to_owned(), finalizer.to_owned()];
        let policy = policy.map(str::to_owned);
        let object = Ok(Some(look::Object { finalizers, policy, ..object() }));
        let folded = fold(&recorded(), &Book::default(), &Look { object, ..look() });
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
    let successor = look::Object {
        uid: Uid::new("uid-2"),
        finalizers: vec!["a.b/hold".to_owned()],
        policy: Some("abandon".to_owned()),
        stamp: Some(stamp("uid-1", recorded::Standing::Gone)),
        ..object()
    };
    let look = Look { object: Ok(Some(successor)), ..look() };
    let folded = fold(&recorded(), &Book::new([gone(name(), "c-1")]), &look);
    assert_eq!((folded.facts.hold, folded.facts.policy), (Hold::None, PolicyFact::Hold));
    assert_eq!(folded.facts.stamp, Stamp::Stale);
    assert_eq!(folded.evidence, Evidence::default());
    let lost = fold(&lost(), &Book::default(), &look);
    assert_eq!((lost.found, lost.adopted), (None, vec![]));
}

// Requirement: I-20
#[test]
fn configuration_counts_only_while_the_object_is_wanted() {
    let missing = Look { configuration: Some(Err(Unresolved::NotFound)), ..look() };
    let refs = |look: &Look| fold(&recorded(), &Book::default(), look).facts.refs;
    assert_eq!(refs(&missing), Refs::NotFound);
    let going = Ok(Some(look::Object { deleting: true, ..object() }));
    assert_eq!(refs(&Look { object: going, ..missing }), Refs::Agrees);
    assert_eq!(refs(&Look { spec: None, ..look() }), Refs::Unasked);
    for why in Unresolved::ALL {
        let told = refs(&Look { spec: Some(Err(*why)), ..look() });
        assert_eq!(told.as_str(), why.as_str());
    }
}

fn stamp(owner: &str, standing: recorded::Standing) -> String {
    let owner = Binding { object: Uid::new(owner), ..binding() };
    Recorded::new(owner, standing, identified("a")).to_text()
}

// Requirement: I-15
#[test]
fn a_stamp_counts_as_a_name_where_the_ledger_names_nothing() {
    let request = RequestId::of(&binding(), 1);
    let uid = Uid::new("c-1");
    let standings = [
        recorded::Standing::Intended { request },
        recorded::Standing::Seen { uid },
        recorded::Standing::Gone,
    ];
    for standing in standings {
        let stamp = Some(stamp("uid-1", standing));
        for status in [false, true] {
            let object = if status {
                look::Object { status: stamp.clone(), ..object() }
            } else {
                look::Object { stamp: stamp.clone(), ..object() }
            };
            let search = Some(Ok(vec![]));
            let look = Look { object: Ok(Some(object)), cloud: None, search, ..look() };
            let folded = fold(&lost(), &Book::default(), &look);
            let rows = folded.absorbed(&Book::default()).1;
            let told: Vec<_> = rows.iter().map(|it| (it.standing, it.uid.clone())).collect();
            assert_eq!(told, [(Standing::Intended, None)], "an edited stamp proves nothing");
            assert_eq!(folded.found, Some(identified("a")));
            let book = Book::new([seen(name(), "c-7")]);
            assert_eq!(fold(&recorded(), &book, &look).adopted, [], "the ledger knows better");
        }
    }
}

// Requirement: I-37
#[test]
fn a_forged_stamp_makes_nothing_ours() {
    let stamp = Some(stamp("uid-1", recorded::Standing::Seen { uid: Uid::new("c-1") }));
    let forged = look::Object { deleting: true, stamp, ..object() };
    let standing = Some(asked(Ok(Some(anothers("c-1")))));
    let search = Some(Ok(vec![]));
    let look = Look { object: Ok(Some(forged)), cloud: standing, search, ..look() };
    let folded = fold(&lost(), &Book::default(), &look);
    let rows = folded.absorbed(&Book::default()).1;
    assert_eq!(folded.facts.cloud, Cloud::Foreign);
    assert_eq!(rows.iter().map(|it| it.standing).collect::<Vec<_>>(), [Standing::Foreign]);
    let marked = Some(Ok(vec![(identified("b"), found("c-7"))]));
    let found = fold(&lost(), &Book::default(), &Look { search: marked, ..look.clone() });
    assert_eq!((found.found, found.adopted), (Some(identified("b")), vec![]), "a mark is proof");
    for search in [None, Some(Err(Silence::Unavailable))] {
        let unknown = fold(&lost(), &Book::default(), &Look { search, ..look.clone() });
        assert_eq!((unknown.facts.search, unknown.found), (Search::Unknown, None));
    }
    let witnessed = leaving(|_| ());
    let folded = fold(&witnessed, &Book::default(), &look);
    assert_eq!(folded.unrecorded, Identity::BoundElsewhere, "who sent nothing stamped nothing");
    assert_eq!((folded.found.clone(), folded.adopted.clone()), (None, vec![]));
}

// Requirement: I-37
#[test]
fn a_stamp_with_the_credential_of_another_is_not_read() {
    let stamp = Some(stamp("uid-1", recorded::Standing::Gone));
    let object = Ok(Some(look::Object { stamp, ..object() }));
    let credential = KvCoordinates::new("kv", "clouds/other").unwrap();
    let folded = fold(&lost(), &Book::default(), &Look { object, credential, ..look() });
    assert_eq!(folded.unrecorded, Identity::Malformed);
    assert_eq!((folded.found.clone(), folded.adopted.clone()), (None, vec![]));
}

// Requirement: I-5
#[test]
fn a_stamp_of_another_object_or_none_at_all_has_its_own_verdict() {
    let unrecorded = |it: &Resource, stamp: Option<String>, status: Option<String>| {
        let object = Ok(Some(look::Object { stamp, status, ..object() }));
        fold(it, &Book::default(), &Look { object, ..look() }).unrecorded
    };
    let own = || Some(stamp("uid-1", recorded::Standing::Gone));
    let copied = || Some(stamp("uid-2", recorded::Standing::Gone));
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
fn one_object_with_our_mark_comes_on_record_and_several_do_not() {
    let search = |found: Vec<Found>| {
        let marked = found.into_iter().zip(["a", "b"]).map(|(it, at)| (identified(at), it));
        Look { search: Some(Ok(marked.collect())), cloud: None, ..look() }
    };
    let folded = |look: &Look| {
        let folded = fold(&lost(), &Book::default(), look);
        (folded.facts.search, folded.absorbed(&Book::default()).1.len(), folded.found)
    };
    let one = search(vec![anothers("x"), found("c-1")]);
    assert_eq!(folded(&one), (Search::One, 1, Some(identified("b"))));
    assert_eq!(folded(&search(vec![anothers("x")])), (Search::None, 0, None));
    let both = search(vec![found("c-1"), found("c-2")]);
    assert_eq!(folded(&both), (Search::Several, 0, None));
    let replica = Look { authority: Authority::Replaced, ..one.clone() };
    assert_eq!(folded(&replica), (Search::Unknown, 0, None));
    let vanished = Look { rail_tripped: true, ..one.clone() };
    assert_eq!(folded(&vanished), (Search::Unknown, 0, None));
    let silent = Look { search: Some(Err(Silence::Unavailable)), ..look() };
    assert_eq!(folded(&Look { cloud: None, ..silent }), (Search::Unknown, 0, None));
    let known = fold(&on_its_way_out(), &Book::new([seen(name(), "c-1")]), &one);
    assert_eq!(known.facts.search, Search::None, "who is on record needs no search");
}

#[test]
fn an_answer_counts_only_for_what_is_on_record() {
    for answer in [Ok(Some(found("c-1"))), Ok(Some(anothers("x"))), Ok(None)] {
        let folded = fold(&lost(), &Book::default(), &answering(answer));
        assert_eq!((folded.found, folded.facts.cloud), (None, Cloud::Unasked));
        assert_eq!(folded.sightings, []);
    }
}

// Requirement: I-15
#[test]
fn what_a_look_finds_is_told_from_what_was_on_record() {
    let identity = |it: Resource, rows: Vec<Row>, look: &Look| {
        let record = record(it, rows);
        fold(&record.state, &record.book, look).row(&record, NOW).identity
    };
    let uid = Uid::new("c-1");
    let stamp = Some(stamp("uid-1", recorded::Standing::Seen { uid }));
    let search = Some(Ok(vec![]));
    let stamped = Look { object: Ok(Some(look::Object { stamp, ..object() })), search, ..look() };
    assert_eq!(identity(lost(), vec![], &stamped), Identity::Found, "by its stamp");
    let marked = Look { search: Some(Ok(vec![(identified("a"), found("c-1"))])), ..look() };
    assert_eq!(identity(lost(), vec![], &marked), Identity::Found, "by its mark");
    let seen = vec![seen(name(), "c-1")];
    let there = answering(Ok(Some(found("c-1"))));
    assert_eq!(identity(on_its_way_out(), seen, &there), Identity::Seen, "on record");
    assert_eq!(identity(lost(), vec![], &look()), Identity::Lost, "not found");
}

// Requirement: I-22
#[test]
fn a_failed_operation_counts_until_its_request_is_given_up() {
    let failed = operation::Operation { name: "op-1".to_owned(), progress: Progress::Failed };
    let look = Look { operations: Ok(vec![failed]), ..look() };
    let spent = |name: &str| {
        let it = resource(|it| {
            it.identity = Some(identified("a"));
            it.spent = Some(name.to_owned());
        });
        fold(&it, &Book::default(), &look).facts.operation
    };
    assert_eq!(fold(&recorded(), &Book::default(), &look).facts.operation, Operation::Failed);
    assert_eq!(spent("op-1"), Operation::None);
    assert_eq!(spent("op-0"), Operation::Failed, "a new one failed, too");
}

// Requirement: I-22
#[test]
fn a_replica_that_shows_no_operation_proves_nothing() {
    let operation = |look: &Look| fold(&recorded(), &Book::default(), look).facts.operation;
    let lagging = Look { authority: Authority::Replaced, ..look() };
    assert_eq!(operation(&look()), Operation::None);
    assert_eq!(operation(&lagging), Operation::Unknown);
    let running = operation::Operation { name: "op".to_owned(), progress: Progress::Running };
    let shown = Look { operations: Ok(vec![running]), ..lagging };
    assert_eq!(operation(&shown), Operation::Running, "what it shows did run");
    assert_eq!(fold(&recorded(), &Book::default(), &shown).operation.as_deref(), Some("op"));
}

#[test]
fn the_stamp_is_current_when_the_object_carries_what_this_look_leaves_on_record() {
    let stamped = |standing, status: bool| {
        let text = Some(stamp("uid-1", standing));
        let object = if status {
            look::Object { status: text, ..object() }
        } else {
            look::Object { stamp: text, ..object() }
        };
        Look { object: Ok(Some(object)), ..answering(Ok(Some(found("c-1")))) }
    };
    let uid = Uid::new("c-1");
    let at = |row: Row, look: &Look| fold(&recorded(), &Book::new([row]), look).facts.stamp;
    let seen_stamp = stamped(recorded::Standing::Seen { uid: uid.clone() }, false);
    assert_eq!(at(seen(name(), "c-1"), &seen_stamp), Stamp::Current);
    assert_eq!(at(intended(name()), &seen_stamp), Stamp::Current, "seen by this very look");
    let request = RequestId::of(&binding(), 1);
    let old = stamped(recorded::Standing::Intended { request }, false);
    assert_eq!(at(intended(name()), &old), Stamp::Stale, "it moved on");
    let only_status = stamped(recorded::Standing::Seen { uid }, true);
    assert_eq!(at(seen(name(), "c-1"), &only_status), Stamp::Stale, "restores drop a status");
}
