//! Injected faults.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kube_client::Client;
use serde_json::{Value, json};
use tokio::time::Instant;
use usher_apiserver::{ApiServer, COLLECTOR, Fault, RequestKind};

use crate::call;
use crate::limits::{defined, definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WELLS: &str = "/apis/deep.example/v1/namespaces/default/wells";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

async fn code(client: &Client, method: &str, path: &str, body: Option<&Value>) -> u16 {
    call(client, method, path, body).await.0
}

/// Waits longer than every back-off of the collector.
async fn quiet() {
    tokio::time::sleep(Duration::from_hours(1)).await;
}

/// Creates a map and its dependent.
async fn owner(client: &Client, name: &str, owned: (&str, Value)) {
    let (_, made) = call(client, "POST", MAPS, Some(&map(name))).await;
    let (path, mut object) = owned;
    object["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "name": name,
        "uid": made["metadata"]["uid"],
        "blockOwnerDeletion": true,
    }]);
    assert_eq!(code(client, "POST", path, Some(&object)).await, 201);
}

// Requirement: AK-10
#[tokio::test(start_paused = true)]
async fn a_delayed_request_is_executed_after_the_delay() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let wait = Duration::from_secs(7);
    server.set_faults(move |asked| match asked.verb.as_str() {
        "create" => Fault::Delay(wait),
        _ => Fault::None,
    });
    let started = Instant::now();
    let (body, other) = (map("a"), server.client());
    let made = tokio::spawn(async move { code(&other, "POST", MAPS, Some(&body)).await });
    tokio::time::sleep(wait / 2).await;
    assert_eq!(code(&client, "GET", &format!("{MAPS}/a"), None).await, 404);
    assert_eq!(made.await.expect("a response"), 201);
    assert!(started.elapsed() >= wait);
}

// Requirement: AK-10
#[tokio::test]
async fn a_refused_write_has_no_effect() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let asked: Arc<Mutex<Vec<RequestKind>>> = Arc::default();
    let theirs = asked.clone();
    server.set_faults(move |asked| {
        theirs.lock().expect("questions").push(asked.clone());
        if asked.verb == "update" { Fault::Refuse(429) } else { Fault::None }
    });
    let (_, mut made) = call(&client, "POST", MAPS, Some(&map("a"))).await;
    made["data"] = json!({"k": "v"});
    let named = format!("{MAPS}/a");
    let (refused, response) = call(&client, "PUT", &named, Some(&made)).await;
    assert_eq!(
        (refused, &response["kind"], &response["code"]),
        (429, &json!("Status"), &json!(429))
    );
    assert_eq!(call(&client, "GET", &named, None).await.1["data"], Value::Null);
    let wanted = RequestKind {
        user: "admin".to_owned(),
        verb: "update".to_owned(),
        resource: "configmaps".to_owned(),
        subresource: String::new(),
        namespace: "default".to_owned(),
        name: "a".to_owned(),
    };
    assert!(asked.lock().expect("questions").contains(&wanted));
}

// Requirement: AK-10
#[tokio::test]
async fn a_write_without_a_response_is_committed() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    server.set_faults(|asked| match asked.verb.as_str() {
        "create" => Fault::NeverAnswer,
        _ => Fault::None,
    });
    let (body, other) = (map("a"), server.client());
    let made = tokio::spawn(async move { code(&other, "POST", MAPS, Some(&body)).await });
    while code(&client, "GET", &format!("{MAPS}/a"), None).await != 200 {
        tokio::task::yield_now().await;
    }
    assert!(!made.is_finished());
    server.shutdown().await;
    assert_eq!(made.await.expect("an end"), 503);
}

// Requirement: AK-10
#[tokio::test]
async fn stale_reads_show_an_older_revision() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    for name in ["a", "b"] {
        assert_eq!(code(&client, "POST", MAPS, Some(&map(name))).await, 201);
    }
    let named = format!("{MAPS}/a");
    let change = json!({"data": {"k": "v"}});
    assert_eq!(code(&client, "PATCH", &named, Some(&change)).await, 200);
    let (_, newest) = call(&client, "GET", MAPS, None).await;
    server.set_faults(|asked| match asked.verb.as_str() {
        "get" | "list" => Fault::ReadBehind(2),
        _ => Fault::None,
    });
    assert_eq!(call(&client, "GET", &named, None).await.1["data"], Value::Null);
    assert_eq!(code(&client, "GET", &format!("{MAPS}/b"), None).await, 404);
    let (_, list) = call(&client, "GET", MAPS, None).await;
    let shown: Vec<&Value> =
        list["items"].as_array().expect("items").iter().map(|i| &i["metadata"]["name"]).collect();
    assert_eq!(shown, [&json!("a")]);
    let version = |list: &Value| -> u64 {
        list["metadata"]["resourceVersion"].as_str().expect("one").parse().expect("a number")
    };
    assert_eq!(version(&list) + 2, version(&newest));
    server.clear_faults();
    assert_eq!(call(&client, "GET", MAPS, None).await.1, newest);
}

// Requirement: AK-23
#[tokio::test(start_paused = true)]
async fn the_collector_ignores_a_kind_it_may_not_watch() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    defined(&client, &definition("deep.example", "wells", "Well")).await;
    server.set_faults(|asked| {
        let hidden = asked.resource == "wells.deep.example" && asked.user == COLLECTOR;
        if hidden { Fault::Refuse(503) } else { Fault::None }
    });
    let well = json!({"apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": "w"}});
    owner(&client, "a", (WELLS, well)).await;
    owner(&client, "b", (MAPS, map("seen"))).await;
    for name in ["a", "b"] {
        assert_eq!(code(&client, "DELETE", &format!("{MAPS}/{name}"), None).await, 200);
    }
    quiet().await;
    assert_eq!(code(&client, "GET", &format!("{MAPS}/seen"), None).await, 404);
    assert_eq!(code(&client, "GET", &format!("{WELLS}/w"), None).await, 200);
    server.clear_faults();
    quiet().await;
    assert_eq!(code(&client, "GET", &format!("{WELLS}/w"), None).await, 404);
}

// Requirement: AK-23
#[tokio::test(start_paused = true)]
async fn a_refused_collector_backs_off_and_retries() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let tries: Arc<Mutex<Vec<Instant>>> = Arc::default();
    let theirs = tries.clone();
    server.set_faults(move |asked| {
        if asked.user != COLLECTOR || asked.verb != "delete" {
            return Fault::None;
        }
        theirs.lock().expect("tries").push(Instant::now());
        Fault::Refuse(500)
    });
    owner(&client, "a", (MAPS, map("owned"))).await;
    assert_eq!(code(&client, "DELETE", &format!("{MAPS}/a"), None).await, 200);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let moments = tries.lock().expect("tries").clone();
    let waits: Vec<u128> =
        moments.windows(2).map(|pair| (pair[1] - pair[0]).as_millis()).take(6).collect();
    assert!(waits.len() == 6 && waits.windows(2).all(|pair| pair[1] > pair[0]), "{waits:?}");
    assert_eq!(code(&client, "GET", &format!("{MAPS}/owned"), None).await, 200);
    server.clear_faults();
    quiet().await;
    assert_eq!(code(&client, "GET", &format!("{MAPS}/owned"), None).await, 404);
}

// Requirement: AK-23
#[tokio::test(start_paused = true)]
async fn the_collector_retries_after_a_lost_response() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let lost = AtomicUsize::new(0);
    server.set_faults(move |asked| {
        let first = asked.user == COLLECTOR
            && asked.verb == "patch"
            && lost.fetch_add(1, Ordering::SeqCst) == 0;
        if first { Fault::LoseAnswer(504) } else { Fault::None }
    });
    owner(&client, "a", (MAPS, map("left"))).await;
    let options = json!({"propagationPolicy": "Orphan"});
    assert_eq!(code(&client, "DELETE", &format!("{MAPS}/a"), Some(&options)).await, 200);
    quiet().await;
    assert_eq!(code(&client, "GET", &format!("{MAPS}/a"), None).await, 404);
    let (_, left) = call(&client, "GET", &format!("{MAPS}/left"), None).await;
    assert_eq!(left["metadata"]["ownerReferences"], Value::Null);
}
