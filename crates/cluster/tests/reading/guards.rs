//! The pin, and the record of pin and mass-deletion guard in the cluster.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::client::Client;
use usher_cluster::guard::ConfigMapRecords;
use usher_cluster::pin;
use usher_domain::object::authority::{Authority, Pin, WorldRecord, WorldRecords};
use usher_kernel::{Timestamp, Trouble, Uid};

use crate::rig::{MAPS, admin, call, count, done, map, server, user};

const SYSTEM: &str = "/api/v1/namespaces/usher-system";
const RECORD: &str = "/api/v1/namespaces/usher-system/configmaps/usher-guard-w";

/// A server with our namespace.
async fn prepared() -> ApiServer {
    let server = server().await;
    let space = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "usher-system"},
    });
    done(&server, ("POST", "/api/v1/namespaces"), &space).await;
    server
}

/// Records with a clock that moves by a second each time.
fn records(client: Client) -> ConfigMapRecords {
    let clock = Arc::new(AtomicI64::new(0));
    let tick = move || Timestamp::from_millis(1_000 * clock.fetch_add(1, Ordering::SeqCst));
    ConfigMapRecords::new(client, tick, || 7)
}

fn pin(identity: &str, revision: u64) -> Pin {
    Pin { identity: Uid::new(identity), revision }
}

fn pinned(identity: &str, revision: u64) -> WorldRecord {
    WorldRecord { pin: pin(identity, revision), tripped_at: None, reset_at: None }
}

/// The Events in our namespace: reason and message.
async fn events(server: &ApiServer) -> Vec<(String, String)> {
    let list = done(server, ("GET", &format!("{SYSTEM}/events")), &Value::Null).await;
    let text = |it: &Value| it.as_str().expect("a text").to_owned();
    let events = list["items"].as_array().expect("items").iter();
    events.map(|it| (text(&it["reason"]), text(&it["message"]))).collect()
}

async fn annotate(server: &ApiServer, name: &str, note: &str) {
    let annotations = json!({"metadata": {"annotations": {name: note}}});
    done(server, ("PATCH", RECORD), &annotations).await;
}

// Requirement: KA-8
#[tokio::test]
async fn a_cluster_is_known_by_its_first_namespace_and_its_revision() {
    let one = server().await;
    let first = pin::ask(&admin(&one)).await.expect("a pin");
    let space = done(&one, ("GET", "/api/v1/namespaces/kube-system"), &Value::Null).await;
    assert_eq!(space["metadata"]["uid"], first.identity.to_string());
    let made = done(&one, ("POST", MAPS), &map("a")).await;
    let later = pin::ask(&admin(&one)).await.expect("a pin");
    assert_eq!(made["metadata"]["resourceVersion"], later.revision.to_string());
    assert_eq!(first.judge(&later), Authority::Pinned);
    assert_eq!(later.judge(&first), Authority::Replaced, "it forgot");
    let other = server().await;
    let other = pin::ask(&admin(&other)).await.expect("a pin");
    assert_eq!(first.judge(&other), Authority::Replaced, "it was rebuilt");
    assert!(pin::ask(&user(&one, "ann")).await.is_err(), "no right, no pin");
}

// Requirement: KA-9
#[tokio::test]
async fn the_first_answer_pins_and_only_the_same_cluster_raises_the_revision() {
    let server = prepared().await;
    let records = records(admin(&server));
    assert_eq!(records.read("w").await, Ok(None));
    assert_eq!(records.trip("w").await, Ok(false), "nothing is pinned");
    assert_eq!(records.pin("w", pin("a", 5)).await, Ok(pinned("a", 5)));
    for (answered, kept) in [(pin("b", 9), 5), (pin("a", 4), 5), (pin("a", 7), 7)] {
        assert_eq!(records.pin("w", answered).await, Ok(pinned("a", kept)));
        assert_eq!(records.read("w").await, Ok(Some(pinned("a", kept))));
    }
    let writes = count(&server, "update", "configmaps");
    assert_eq!(records.pin("w", pin("a", 7)).await, Ok(pinned("a", 7)));
    assert_eq!(count(&server, "update", "configmaps"), writes, "what is known is not written");
    assert_eq!(records.read("v").await, Ok(None), "clusters are recorded apart");
    assert_eq!(records.present("w").await, Ok(7));
}

/// Red by: a write that does not compare the version.
// Requirement: KA-9
#[tokio::test]
async fn writers_at_once_lose_nothing() {
    let server = prepared().await;
    let all: Vec<Arc<ConfigMapRecords>> =
        (0..4).map(|_| Arc::new(records(admin(&server)))).collect();
    let pins = all.iter().map(|it| it.pin("w", pin("a", 1)));
    for record in futures_util::future::join_all(pins).await {
        assert_eq!(record, Ok(pinned("a", 1)));
    }
    let trips = futures_util::future::join_all(all.iter().map(|it| it.trip("w")));
    let raises =
        futures_util::future::join_all((2..6).zip(&all).map(|(n, it)| it.pin("w", pin("a", n))));
    let (trips, raises) = tokio::join!(trips, raises);
    let first = trips.iter().filter(|it| **it == Ok(true)).count();
    let is_expected = raises.iter().all(|it| matches!(it, Ok(_) | Err(Trouble::Conflict)));
    assert!(first <= 1 && is_expected, "{trips:?} {raises:?}");
    all[0].pin("w", pin("a", 9)).await.expect("a record");
    let record = all[0].read("w").await.expect("a record").expect("one");
    assert_eq!((record.pin, record.tripped_at.is_some()), (pin("a", 9), first == 1));
}

// Requirement: KA-10
#[tokio::test]
async fn a_guard_is_reset_by_an_annotation_that_leaves_an_event() {
    let server = prepared().await;
    let records = records(admin(&server));
    records.pin("w", pin("a", 5)).await.expect("a record");
    assert_eq!(records.trip("w").await, Ok(true));
    assert_eq!(records.trip("w").await, Ok(false), "it is tripped once");
    let tripped = records.read("w").await.expect("a record").expect("one");
    assert!(tripped.tripped_at.is_some() && tripped.reset_at.is_none(), "{tripped:?}");
    records.pin("w", pin("a", 6)).await.expect("a record");
    assert_eq!(records.read("w").await.expect("one").expect("one").tripped_at, tripped.tripped_at);
    annotate(&server, "usher.dev/reset-guard", "ann: planned").await;
    let open = records.read("w").await.expect("a record").expect("one");
    assert_eq!((open.pin.clone(), open.tripped_at), (pin("a", 6), None));
    assert!(open.reset_at > tripped.tripped_at, "{open:?}");
    assert_eq!(records.read("w").await, Ok(Some(open)), "once");
    let wanted = ("GuardReset".to_owned(), "mass-deletion guard reset: ann: planned".to_owned());
    assert_eq!(events(&server).await, [wanted]);
    let object = done(&server, ("GET", RECORD), &Value::Null).await;
    assert_eq!(object["metadata"]["annotations"]["usher.dev/reset-guard"], Value::Null);
}

// Requirement: KA-10
#[tokio::test]
async fn a_pin_is_reset_to_the_cluster_that_answers() {
    let server = prepared().await;
    let records = records(admin(&server));
    records.pin("w", pin("a", 900_000)).await.expect("a record");
    records.trip("w").await.expect("a record");
    annotate(&server, "usher.dev/reset-pin", "restored").await;
    let reset = records.read("w").await.expect("a record").expect("one");
    let answered = pin::ask(&admin(&server)).await.expect("a pin");
    assert_eq!(reset.pin.judge(&answered), Authority::Pinned);
    assert!(reset.tripped_at.is_some(), "the guard is another question");
    let all = events(&server).await;
    assert_eq!((all.len(), all[0].0.as_str()), (1, "PinReset"));
    let message = format!("accepted the cluster {}: restored", answered.identity);
    assert_eq!(all[0].1, message);
}

/// Red by: a reset whose Event may be missing.
// Requirement: KA-10
#[tokio::test]
async fn a_reset_without_its_event_is_not_carried_out() {
    let server = prepared().await;
    let records = records(admin(&server));
    records.pin("w", pin("a", 5)).await.expect("a record");
    records.trip("w").await.expect("a record");
    annotate(&server, "usher.dev/reset-guard", "x").await;
    server.set_faults(|asked| match asked.resource.as_str() {
        "events" => Fault::Refuse(503),
        _ => Fault::None,
    });
    assert!(matches!(records.read("w").await, Err(Trouble::Unavailable { .. })));
    server.set_faults(|asked| match (asked.verb.as_str(), asked.resource.as_str()) {
        ("update", "configmaps") => Fault::LoseAnswer(504),
        _ => Fault::None,
    });
    assert!(matches!(records.read("w").await, Err(Trouble::Unavailable { .. })));
    server.clear_faults();
    let open = records.read("w").await.expect("a record").expect("one");
    assert_eq!((open.tripped_at, events(&server).await.len()), (None, 1));
}

/// Red by: a restored cluster whose identity and revision are believed.
// Requirement: KA-17
#[tokio::test]
async fn a_cluster_that_lost_writes_of_ours_trips_its_guard() {
    let server = prepared().await;
    let records = records(admin(&server));
    records.pin("w", pin("a", 5)).await.expect("a record");
    let older = done(&server, ("GET", RECORD), &Value::Null).await["data"].clone();
    records.pin("w", pin("a", 6)).await.expect("a record");
    let reads = AtomicI64::new(0);
    server.set_faults(move |asked| match asked.verb.as_str() {
        "get" if reads.fetch_add(1, Ordering::SeqCst) == 0 => Fault::ReadBehind(1),
        _ => Fault::None,
    });
    let lagged = records.read("w").await;
    assert_eq!(lagged, Ok(Some(pinned("a", 6))), "a read that lags trips nothing");
    server.clear_faults();
    assert_eq!(records.read("w").await, Ok(Some(pinned("a", 6))));
    done(&server, ("PATCH", RECORD), &json!({"data": older})).await;
    let tripped = records.read("w").await.expect("a record").expect("one");
    assert_eq!((tripped.pin.clone(), tripped.tripped_at.is_some()), (pin("a", 5), true));
    assert_eq!(records.read("w").await, Ok(Some(tripped)), "it is tripped once");
    annotate(&server, "usher.dev/reset-guard", "restored on purpose").await;
    let open = records.read("w").await.expect("a record").expect("one");
    assert_eq!(open.tripped_at, None);
    assert_eq!(records.read("w").await, Ok(Some(open.clone())), "nor after its reset");
    done(&server, ("DELETE", RECORD), &Value::Null).await;
    let tripped = records.read("w").await.expect("a record").expect("one");
    assert_eq!((tripped.pin, tripped.tripped_at.is_some()), (open.pin, true), "it is gone");
}

/// Red by: a write that counts on from what was lost, or an annotation that was restored with it.
// Requirement: KA-17
#[tokio::test]
async fn a_write_after_a_loss_does_not_hide_it() {
    let server = prepared().await;
    let records = records(admin(&server));
    records.pin("w", pin("a", 5)).await.expect("a record");
    let older = done(&server, ("GET", RECORD), &Value::Null).await["data"].clone();
    records.pin("w", pin("a", 6)).await.expect("a record");
    let annotations = json!({"usher.dev/reset-guard": "of an earlier loss"});
    let restored = json!({"data": older, "metadata": {"annotations": annotations}});
    done(&server, ("PATCH", RECORD), &restored).await;
    let raised = records.pin("w", pin("a", 7)).await.expect("a record");
    assert_eq!((raised.pin.revision, raised.tripped_at.is_some()), (7, true));
    assert_eq!(records.read("w").await, Ok(Some(raised.clone())), "nothing asks for its reset");
    assert_eq!(events(&server).await, []);
    done(&server, ("DELETE", RECORD), &Value::Null).await;
    let made = records.pin("w", pin("a", 8)).await.expect("a record");
    assert_eq!((made.pin.revision, made.tripped_at), (8, raised.tripped_at));
}

// Requirement: KA-9
#[tokio::test]
async fn a_record_that_cannot_be_read_or_written_is_trouble() {
    let server = prepared().await;
    let ours = records(admin(&server));
    let ann = records(user(&server, "ann"));
    assert!(matches!(ann.read("w").await, Err(Trouble::Rejected { .. })));
    assert!(matches!(ann.pin("w", pin("a", 1)).await, Err(Trouble::Rejected { .. })));
    ours.pin("w", pin("a", 1)).await.expect("a record");
    server.set_faults(|asked| match asked.verb.as_str() {
        "update" | "get" => Fault::Refuse(503),
        _ => Fault::None,
    });
    assert!(matches!(ours.read("w").await, Err(Trouble::Unavailable { .. })));
    assert!(matches!(ours.trip("w").await, Err(Trouble::Unavailable { .. })));
    server.clear_faults();
    for data in [json!({"identity": ""}), json!({"identity": "a", "revision": "x"})] {
        done(&server, ("PATCH", RECORD), &json!({"data": data})).await;
        let what = "ConfigMap usher-system/usher-guard-w".to_owned();
        assert_eq!(ours.read("w").await, Err(Trouble::Corrupt { what }));
    }
    let none = server_without_namespace().await;
    let blocked = records(admin(&none)).pin("w", pin("a", 1)).await;
    assert!(matches!(blocked, Err(Trouble::Blocked { .. })), "{blocked:?}");
    assert!(call(&admin(&none), ("GET", SYSTEM), &Value::Null).await.is_err());
}

async fn server_without_namespace() -> ApiServer {
    server().await
}
