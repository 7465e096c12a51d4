//! Injected faults of watches, subresources and the collector's knowledge of kinds.

use std::time::Duration;

use http_body_util::BodyExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube_client::api::{Patch, PatchParams};
use kube_client::client::Body;
use kube_client::{Api, Client};
use serde_json::{Value, json};
use tokio::time::Instant;
use usher_apiserver::{ApiServer, Fault};

use crate::call;
use crate::limits::{defined, definition};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WELLS: &str = "/apis/deep.example/v1/namespaces/default/wells";
/// The interval of a real server.
const INTERVAL: Duration = Duration::from_secs(30);

async fn make_map(client: &Client, name: &str) -> Value {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (code, made) = call(client, "POST", MAPS, Some(&map)).await;
    assert_eq!(code, 201, "{made}");
    made
}

async fn make_well(client: &Client, name: &str, owners: Value) {
    let well = json!({
        "apiVersion": "deep.example/v1",
        "kind": "Well",
        "metadata": {"name": name, "ownerReferences": owners},
    });
    let (code, made) = call(client, "POST", WELLS, Some(&well)).await;
    assert_eq!(code, 201, "{made}");
}

async fn delete_in_foreground(client: &Client, path: &str) {
    let options = json!({"propagationPolicy": "Foreground"});
    assert_eq!(call(client, "DELETE", path, Some(&options)).await.0, 200);
}

async fn code(client: &Client, path: &str) -> u16 {
    call(client, "GET", path, None).await.0
}

/// A watch of maps from the newest revision.
async fn watch(client: &Client) -> Body {
    let (_, list) = call(client, "GET", MAPS, None).await;
    let revision = list["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    let uri = format!("{MAPS}?watch=true&resourceVersion={revision}");
    let request = hyper::Request::get(uri).body(Body::empty()).expect("a request");
    client.send(request).await.expect("a stream").into_body()
}

/// The next chunk of a watch as text.
async fn chunk(body: &mut Body) -> String {
    let frame = body.frame().await.expect("a frame").expect("no error");
    let bytes = frame.into_data().expect("data");
    String::from_utf8(bytes.to_vec()).expect("Unicode")
}

// Requirement: AK-60
#[tokio::test]
async fn a_refusal_says_when_to_try_again() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.set_faults(|request| match request.verb.as_str() {
        "list" => Fault::RetryAfter { code: 429, seconds: 7 },
        _ => Fault::None,
    });
    let request = hyper::Request::get(MAPS).body(Body::empty()).expect("a request");
    let response = server.client().send(request).await.expect("a response");
    assert_eq!(response.status(), 429);
    assert_eq!(response.headers()["retry-after"], "7");
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    let status: Value = serde_json::from_slice(&bytes).expect("JSON");
    let said = (&status["reason"], &status["details"]["retryAfterSeconds"]);
    assert_eq!(said, (&json!("TooManyRequests"), &json!(7)), "{status}");
}

// Requirement: AK-60
#[tokio::test]
async fn a_subresource_is_refused_alone() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.set_faults(|request| match request.subresource.as_str() {
        "status" => Fault::Refuse(503),
        _ => Fault::None,
    });
    let api: Api<Namespace> = Api::all(server.client());
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let params = PatchParams::default();
    api.patch("default", &params, &label).await.expect("a patch of the object");
    let refused = api.patch_status("default", &params, &label).await.expect_err("a refusal");
    let kube_client::Error::Api(status) = refused else { panic!("{refused}") };
    assert_eq!((status.code, status.reason.as_str()), (503, "ServiceUnavailable"));
}

// Requirement: AK-61
#[tokio::test(start_paused = true)]
async fn delayed_events_are_late_each_by_the_delay() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    server.set_faults(|request| match request.verb.as_str() {
        "watch" => Fault::DelayEvents(Duration::from_secs(10)),
        _ => Fault::None,
    });
    let mut body = watch(&client).await;
    let started = Instant::now();
    let other = server.client();
    let writes = async {
        make_map(&other, "a").await;
        tokio::time::sleep(Duration::from_secs(3)).await;
        make_map(&other, "b").await;
    };
    let reads = async {
        let mut seen = Vec::new();
        for _ in 0..2 {
            let event: Value = serde_json::from_str(&chunk(&mut body).await).expect("an event");
            seen.push((event["object"]["metadata"]["name"].clone(), started.elapsed().as_secs()));
        }
        seen
    };
    let ((), seen) = tokio::join!(writes, reads);
    assert_eq!(seen, [(json!("a"), 10), (json!("b"), 13)]);
}

// Requirement: AK-61
#[tokio::test]
async fn a_broken_watch_ends_in_the_middle_of_an_event() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    server.set_faults(|request| match request.verb.as_str() {
        "watch" => Fault::BreakWatchAfter(1),
        _ => Fault::None,
    });
    let mut body = watch(&client).await;
    make_map(&client, "a").await;
    let whole = chunk(&mut body).await;
    assert!(whole.ends_with("}\n"), "{whole}");
    make_map(&client, "b").await;
    let half = chunk(&mut body).await;
    assert!(half.starts_with("{\"type\":\"ADDED\"") && !half.ends_with('\n'), "{half}");
    assert!(serde_json::from_str::<Value>(&half).is_err());
    assert!(body.frame().await.expect("an end").is_err(), "the connection broke");
}

// Requirement: AK-62
#[tokio::test(start_paused = true)]
async fn the_collector_learns_of_new_kinds_at_its_interval() {
    let builder = ApiServer::builder().discovery_interval(INTERVAL);
    let server = builder.build().await.expect("a server");
    let client = server.client();
    defined(&client, &definition("deep.example", "wells", "Well")).await;
    let owner = make_map(&client, "owner").await;
    let uid = owner["metadata"]["uid"].clone();
    let owners = json!([{
        "apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid,
        "blockOwnerDeletion": true,
    }]);
    make_well(&client, "dependent", owners).await;
    make_well(&client, "leaving", json!([])).await;
    delete_in_foreground(&client, &format!("{MAPS}/owner")).await;
    delete_in_foreground(&client, &format!("{WELLS}/leaving")).await;
    tokio::time::sleep(INTERVAL / 2).await;
    assert_eq!(code(&client, &format!("{MAPS}/owner")).await, 404, "it waits for no dependent");
    assert_eq!(code(&client, &format!("{WELLS}/dependent")).await, 200);
    assert_eq!(code(&client, &format!("{WELLS}/leaving")).await, 200, "it keeps its finalizer");
    tokio::time::sleep(INTERVAL).await;
    assert_eq!(code(&client, &format!("{WELLS}/dependent")).await, 404);
    assert_eq!(code(&client, &format!("{WELLS}/leaving")).await, 404);
}
