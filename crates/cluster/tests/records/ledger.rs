//! What a ledger does in a cluster that other ledgers cannot do, and what it costs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::{Method, Request};
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::Fault;
use usher_cluster::client::{Bounds, Client};
use usher_cluster::records::Of;
use usher_kernel::{
    Decision, Generation, Ledger as _, Name, NameState, Record, Row, Timestamp, Trouble, Version,
    Wake, World, step,
};
use usher_sim::contract::ledger::{Burns, Lamp, Phase, Reason, State, TestLedger as _};

use crate::lamp::LampCodec;
use crate::rig::{TestRecords, call, count, of, records};
use crate::shapes::{commit, lit};

const RECORDS: &str = "records.records.usher.dev";

/// A room in which the lamp burns.
struct Room;

impl World<Lamp> for Room {
    async fn observe(&self, _: &Record<State>) -> Result<bool, Trouble> {
        Ok(true)
    }

    async fn apply(&self, _: &Record<State>, (): &()) -> Result<(), Trouble> {
        Ok(())
    }
}

// Requirement: KR-6
#[tokio::test]
async fn a_step_reads_once_writes_once_and_then_nothing() {
    let test = TestRecords::new().await;
    let server = test.embedded();
    let ledger = test.ledger(1);
    let report = sent(step(&Lamp, &Room, &ledger, test.term(1).now())).await;
    let report = report.expect("it is finished").expect("it is there");
    assert_eq!(
        (report.reason, report.wake, report.committed),
        (Reason::Burning, Wake::OnChange, true)
    );
    assert_eq!(ledger.event().map(|it| it.number), Some(1));
    let object = test.object().await;
    let data: Value =
        serde_json::from_str(object["spec"]["data"].as_str().expect("data")).expect("JSON");
    assert_eq!(data["event"], json!({"number": 1, "event": "Burns"}));
    let asked = || {
        let verbs = ["get", "list", "create", "patch", "update", "delete"];
        verbs.map(|verb| count(server, verb, RECORDS))
    };
    let before = asked();
    assert_eq!(&before[2..], [1, 0, 0, 0]);
    let idle = step(&Lamp, &Room, &test.ledger(1), test.term(1).now()).await;
    let idle = idle.expect("it is finished").expect("it is there");
    assert!(!idle.committed && idle.reason == Reason::Burning);
    let mut expected = before;
    expected[0] += 1;
    assert_eq!(asked(), expected, "one read and no write");
}

// Requirement: KR-6
#[tokio::test]
async fn the_last_event_stays_in_the_record_and_is_counted() {
    let test = TestRecords::new().await;
    for number in 1..=3 {
        let ledger = test.ledger(1);
        let seen = ledger.load().await.expect("it answers").expect("it is there");
        let decided = Decision { event: Some(Burns), ..lit(&number.to_string()) };
        ledger.commit(seen.version, &decided).await.expect("nothing stands against it");
        commit(&test, "without an event").await;
        let again = test.ledger(1);
        again.load().await.expect("it answers");
        assert_eq!(again.event().map(|it| it.number), Some(number));
    }
}

/// A step as a runner takes it: on any thread.
fn sent<T: Send>(step: T) -> T {
    step
}

/// What a commit came to, in short.
fn outcome(committed: &Result<(), Trouble>) -> &'static str {
    match committed {
        Ok(()) => "done",
        Err(Trouble::Conflict) => "conflict",
        Err(Trouble::Unavailable { after: None, .. }) => "unavailable",
        Err(Trouble::Unavailable { after: Some(_), .. }) => "unavailable for a time",
        Err(Trouble::Blocked { .. }) => "blocked",
        Err(Trouble::Rejected { .. }) => "rejected",
        Err(Trouble::Corrupt { .. }) => "corrupt",
    }
}

/// Red by: a refused request that is read after, or a lost one that is not.
// Requirement: KR-6
#[tokio::test]
async fn each_answer_to_a_commit_has_its_outcome_and_its_reads() {
    let busy = Fault::RetryAfter { code: 429, seconds: 7 };
    let cases = [
        (Fault::Refuse(403), ["rejected", "rejected"], 0),
        (Fault::Refuse(409), ["blocked", "conflict"], 0),
        (busy, ["unavailable for a time", "unavailable for a time"], 0),
        (Fault::Refuse(500), ["unavailable", "unavailable"], 1),
        (Fault::Refuse(504), ["unavailable", "unavailable"], 1),
        (Fault::LoseAnswer(504), ["done", "done"], 1),
    ];
    for (fault, expected, reads) in cases {
        let test = TestRecords::new().await;
        let server = test.embedded();
        for (verb, expected) in ["create", "patch"].into_iter().zip(expected) {
            if verb == "patch" {
                commit(&test, "a").await;
            }
            let ledger = test.ledger(1);
            let seen = ledger.load().await.expect("it answers").expect("it is there");
            let (before, injected) = (count(server, "get", RECORDS), fault.clone());
            server.set_faults(
                move |asked| {
                    if asked.verb == verb { injected.clone() } else { Fault::None }
                },
            );
            let committed = ledger.commit(seen.version, &lit(verb)).await;
            server.clear_faults();
            assert_eq!(outcome(&committed), expected, "{verb} with {fault:?}: {committed:?}");
            assert_eq!(count(server, "get", RECORDS) - before, reads, "{verb} with {fault:?}");
        }
    }
}

/// A client through which the first write of a record is lost, and this is written in its place.
fn overtaken(test: &TestRecords, instead: Value) -> Client {
    let (admin, path, is_first) =
        (test.admin.clone(), test.path(), Arc::new(AtomicBool::new(true)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (admin, path) = (admin.clone(), path.clone());
        let (is_first, instead) = (Arc::clone(&is_first), instead.clone());
        async move {
            if request.method() != Method::PATCH || !is_first.swap(false, Ordering::SeqCst) {
                return admin.kube().send(request).await.map_err(tower::BoxError::from);
            }
            call(&admin, ("PATCH", &path), &instead).await.expect("another write");
            Err("the connection was closed".into())
        }
    });
    Client::over(kube_client::Client::new(service, "default"), Bounds::default())
}

/// Red by: a lost answer that is believed because something was written.
// Requirement: KR-6
#[tokio::test]
async fn a_lost_request_that_another_writer_overtook_is_a_conflict() {
    let test = TestRecords::new().await;
    commit(&test, "a").await;
    let client = overtaken(&test, json!({"spec": {"reason": "Other"}}));
    let slow = records(client, &test.namespace).await;
    let ledger = slow.ledger(of("u1"), test.term(1), LampCodec { has_object: true });
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    let late = ledger.commit(seen.version, &lit("b")).await;
    assert_eq!(late, Err(Trouble::Conflict));
    assert_eq!(test.object().await["spec"]["reason"], "Other");
}

/// Red by: a record that is compared without its epoch.
// Requirement: KR-6
#[tokio::test]
async fn the_same_write_of_a_newer_term_is_not_taken_for_ones_own() {
    let test = TestRecords::new().await;
    commit(&test, "a").await;
    let data =
        test.object().await["spec"]["data"].as_str().expect("data").replace("\"a\"", "\"b\"");
    let client = overtaken(&test, json!({"spec": {"epoch": 2, "data": data}}));
    let slow = records(client, &test.namespace).await;
    let ledger = slow.ledger(of("u1"), test.term(1), LampCodec { has_object: true });
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    assert_eq!(ledger.commit(seen.version, &lit("b")).await, Err(Trouble::Conflict));
    let newer = test.ledger(2).load().await.expect("it answers").expect("it is there");
    assert_eq!(newer.state.note, "b");
}

// Requirement: KR-4
#[tokio::test]
async fn another_object_of_the_same_name_has_another_record() {
    let test = TestRecords::new().await;
    commit(&test, "a").await;
    let other = test.ledger_of(of("u2"), 1);
    let seen = other.load().await.expect("it answers").expect("it is there");
    assert_eq!(seen.state.phase, Phase::Dark);
    other.commit(seen.version, &lit("b")).await.expect("nothing stands against it");
    let first = test.ledger(1).load().await.expect("it answers").expect("it is there");
    assert_eq!(first.state.note, "a");
    let all = test.records.list().await.expect("a list");
    let names: Vec<&str> = all.iter().map(|it| it.name.as_str()).collect();
    assert_eq!(names, ["lamp-u1", "lamp-u2"]);
    assert_eq!((&all[0].of, all[0].epoch, all[0].phase.as_str()), (&of("u1"), 1, "Lit"));
}

/// Red by: a record that is read by its name alone.
// Requirement: KR-4
#[tokio::test]
async fn a_record_under_the_name_of_another_is_not_read() {
    let test = TestRecords::new().await;
    let foreign = json!({
        "apiVersion": "records.usher.dev/v1alpha1", "kind": "Record",
        "metadata": {"name": "lamp-u1"},
        "spec": {"of": {"kind": "Lamp", "name": "lamp", "uid": "u9"}, "epoch": 1, "data": "{}"},
    });
    test.done(("POST", &test.collection()), &foreign).await;
    let ledger = test.ledger(1);
    let Err(Trouble::Corrupt { what }) = ledger.load().await else { panic!("it is another's") };
    assert!(what.contains("usher-system/lamp-u1") && what.contains("uid u9"), "{what}");
    assert_eq!(ledger.commit(Version(0), &lit("a")).await, Err(Trouble::Conflict));
}

// Requirement: KR-4
#[tokio::test]
async fn a_list_has_all_pages() {
    let test = TestRecords::new().await;
    for number in 0..501 {
        let ledger = test.ledger_of(of(&format!("n{number}")), 1);
        let seen = ledger.load().await.expect("it answers").expect("it is there");
        ledger.commit(seen.version, &lit("a")).await.expect("nothing stands against it");
    }
    assert_eq!(test.records.list().await.expect("a list").len(), 501);
    assert_eq!(count(test.embedded(), "list", RECORDS), 501 + 2, "one per absence, and two pages");
}

// Requirement: KR-6
#[tokio::test]
async fn a_record_whose_kind_is_not_installed_is_not_absent() {
    let test = TestRecords::new().await;
    let path = format!("{}/{RECORDS}", crate::rig::DEFINITIONS);
    test.done(("DELETE", &path), &Value::Null).await;
    while call(&test.admin, ("GET", &test.collection()), &Value::Null).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let unknown = test.ledger(1).load().await;
    assert!(matches!(unknown, Err(Trouble::Unavailable { .. })), "{unknown:?}");
    assert!(matches!(test.records.list().await, Err(Trouble::Unavailable { .. })));
}

/// Red by: a first commit that replaces what it did not read.
// Requirement: KR-6
#[tokio::test]
async fn a_record_that_a_lagging_read_hid_is_not_replaced() {
    let test = TestRecords::new().await;
    let other = records(test.admin.clone(), &test.namespace).await;
    let codec = || LampCodec { has_object: true };
    let first = other.ledger(of("u1"), test.term(1), codec());
    let seen = first.load().await.expect("it answers").expect("it is there");
    first.commit(seen.version, &lit("first")).await.expect("nothing stands against it");
    test.embedded().set_faults(|asked| match asked.verb.as_str() {
        "get" | "list" => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    let ledger = test.ledger(1);
    let seen = ledger.load().await.expect("a stale answer").expect("the object is there");
    assert_eq!(seen.version, Version(0));
    assert_eq!(ledger.commit(seen.version, &lit("second")).await, Err(Trouble::Conflict));
    test.embedded().clear_faults();
    assert_eq!(test.ledger(1).load().await.expect("it answers").expect("one").state.note, "first");
    assert_eq!(test.writes(), 1);
}

/// Red by: a name ledger that is written without being compacted.
// Requirement: KR-5
#[tokio::test]
async fn ten_thousand_incarnations_fit_into_a_record() {
    let test = TestRecords::new().await;
    let name = Name {
        kind: "Moth".to_owned(),
        place: String::new(),
        name: "moth".to_owned(),
        generation: Generation::FIRST,
    };
    for batch in 0..100_u32 {
        let ledger = test.ledger(1);
        let seen = ledger.load().await.expect("it answers").expect("it is there");
        let gone = |number: u32| Row {
            incarnation: 100 * batch + number,
            state: NameState::Gone,
            ..Row::intended(name.clone(), "eye", Timestamp::from_millis(batch.into()))
        };
        let decided = Decision { rows: (0..100).map(gone).collect(), ..lit("a") };
        ledger.commit(seen.version, &decided).await.expect("it fits");
    }
    let object = test.object().await;
    let size = object["spec"]["data"].as_str().expect("data").len();
    assert!(size < 8 * 1024, "{size}");
}

// Requirement: KR-5
#[tokio::test]
async fn a_definition_without_a_field_of_ours_refuses_the_write() {
    let test = TestRecords::new().await;
    let path = format!("{}/{RECORDS}", crate::rig::DEFINITIONS);
    let mut definition = test.done(("GET", &path), &Value::Null).await;
    let spec = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties";
    let fields = definition.pointer_mut(spec).and_then(Value::as_object_mut).expect("fields");
    fields.remove("trouble");
    test.done(("PUT", &path), &definition).await;
    let ledger = test.ledger(1);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    let refused = ledger.commit(seen.version, &lit("a")).await;
    assert!(matches!(refused, Err(Trouble::Rejected { .. })), "it is not pruned: {refused:?}");
}

// Requirement: KR-4
#[test]
fn an_object_is_called_by_kind_name_and_uid() {
    assert_eq!(of("u1").to_string(), "Lamp.light.example default/lamp with uid u1");
    let node = Of { group: String::new(), namespace: String::new(), ..of("u2") };
    assert_eq!(node.to_string(), "Lamp lamp with uid u2");
}
