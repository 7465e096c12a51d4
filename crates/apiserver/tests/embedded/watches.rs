//! Watches during concurrent writes.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};

use crate::call;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITERS: usize = 8;
const WRITES: usize = 20;
const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
}

/// An open watch of config maps.
async fn begun(client: &Client, query: &str) -> Body {
    let uri = format!("{MAPS}?watch=true&{query}");
    let request = hyper::Request::get(uri).body(Body::empty()).expect("a request");
    client.send(request).await.expect("a stream").into_body()
}

/// The events of a watch after a revision, up to `most`.
async fn watched(client: &Client, after: u64, most: usize) -> Vec<Value> {
    events(begun(client, &format!("resourceVersion={after}")).await, most).await
}

async fn events(mut body: Body, most: usize) -> Vec<Value> {
    let mut bytes = Vec::new();
    let mut events = Vec::new();
    while events.len() < most {
        let Some(Ok(frame)) = body.frame().await else { break };
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |chunk| chunk));
        let whole = bytes.split_inclusive(|byte| *byte == b'\n').filter(|l| l.ends_with(b"\n"));
        events = whole.map(|line| serde_json::from_slice(line).expect("an event")).collect();
    }
    events
}

/// Every writer creates and patches a map; returns the revisions.
async fn write(server: &ApiServer) -> Vec<u64> {
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let client = server.client();
        tasks.push(tokio::spawn(async move {
            let body = json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": format!("m{writer}")},
            });
            let mut given = vec![version(&call(&client, "POST", MAPS, Some(&body)).await.1)];
            let path = format!("{MAPS}/m{writer}");
            for turn in 1..WRITES {
                let change = json!({"data": {"turn": turn.to_string()}});
                given.push(version(&call(&client, "PATCH", &path, Some(&change)).await.1));
            }
            given
        }));
    }
    let mut given = Vec::new();
    for task in tasks {
        given.extend(task.await.expect("a writer"));
    }
    given.sort_unstable();
    given
}

// Requirement: AK-5
#[tokio::test]
async fn every_write_is_delivered_once_and_in_order() {
    let folder = tempfile::tempdir().expect("a folder");
    let server = ApiServer::builder().file(folder.path().join("f")).build().await;
    let server = server.expect("a server");
    let client = server.client();
    let start = version(&call(&client, "GET", MAPS, None).await.1);
    let (events, given) = tokio::join!(watched(&client, start, WRITERS * WRITES), write(&server));
    let revisions: Vec<u64> = events.iter().map(|event| version(&event["object"])).collect();
    assert_eq!(revisions, given);
    let middle = given[given.len() / 2];
    let rest = watched(&client, middle, WRITERS * WRITES - given.len() / 2 - 1).await;
    let rest: Vec<u64> = rest.iter().map(|event| version(&event["object"])).collect();
    assert_eq!(rest, given[given.len() / 2 + 1..]);
}

// Requirement: AK-8
#[tokio::test]
async fn concurrent_patches_of_one_object_all_apply() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}});
    call(&client, "POST", MAPS, Some(&body)).await;
    let mut tasks = Vec::new();
    for writer in 0..WRITERS {
        let client = server.client();
        tasks.push(tokio::spawn(async move {
            let patch = json!({"data": {format!("k{writer}"): "v"}});
            call(&client, "PATCH", &format!("{MAPS}/one"), Some(&patch)).await.0
        }));
    }
    for task in tasks {
        assert_eq!(task.await.expect("a writer"), 200);
    }
    let (_, object) = call(&client, "GET", &format!("{MAPS}/one"), None).await;
    assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(WRITERS));
}

// Requirement: AK-5
#[tokio::test]
async fn an_interrupted_watch_resumes_from_its_revision() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let start = version(&call(&client, "GET", MAPS, None).await.1);
    let given = write(&server).await;
    server.set_faults(|asked| match asked.verb.as_str() {
        "watch" => Fault::EndWatchAfter(7),
        _ => Fault::None,
    });
    let mut revisions = Vec::new();
    let mut after = start;
    while revisions.len() < given.len() {
        let events = watched(&client, after, given.len() - revisions.len()).await;
        assert!(!events.is_empty() && events.len() <= 7, "{}", events.len());
        revisions.extend(events.iter().map(|event| version(&event["object"])));
        after = *revisions.last().expect("an event");
    }
    assert_eq!(revisions, given);
}

// Requirement: AK-6
#[tokio::test]
async fn a_watch_of_a_compacted_revision_gets_410() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let start = version(&call(&client, "GET", MAPS, None).await.1);
    write(&server).await;
    server.forget_history();
    let events = watched(&client, start, 1).await;
    assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(410)));
}

// Requirement: AK-26
#[tokio::test(start_paused = true)]
async fn bookmarks_come_every_minute_and_before_the_end() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let start = version(&call(&client, "GET", MAPS, None).await.1);
    let query = format!("resourceVersion={start}&allowWatchBookmarks=true&timeoutSeconds=90");
    let marks = tokio::spawn(events(begun(&client, &query).await, usize::MAX));
    let mut given = Vec::new();
    for (name, then) in [("a", 70), ("b", 60)] {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}});
        given.push(version(&call(&client, "POST", SECRETS, Some(&secret)).await.1));
        tokio::time::sleep(Duration::from_secs(then)).await;
    }
    let marks = marks.await.expect("an end");
    let revisions: Vec<u64> = marks.iter().map(|mark| version(&mark["object"])).collect();
    assert!(marks.iter().all(|mark| mark["type"] == "BOOKMARK"), "{marks:?}");
    assert_eq!(revisions, given);
}

// Requirement: AK-27
#[tokio::test]
async fn a_watch_behind_the_ring_ends_without_skipping() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let start = version(&call(&client, "GET", MAPS, None).await.1);
    let body = begun(&client, &format!("resourceVersion={start}")).await;
    write(&server).await;
    server.forget_history();
    assert_eq!(events(body, usize::MAX).await, Vec::<Value>::new());
}

// Requirement: AK-28
#[tokio::test(start_paused = true)]
async fn a_read_of_a_future_revision_waits() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let made = version(&call(&client, "POST", MAPS, Some(&map)).await.1);
    let ahead = |path: &str| format!("{path}?resourceVersion={}", made + 1);
    for path in [ahead(MAPS), ahead(&format!("{MAPS}/a"))] {
        let (code, revisions) = call(&client, "GET", &path, None).await;
        let cause = &revisions["details"]["causes"][0]["reason"];
        assert_eq!((code, cause), (504, &json!("ResourceVersionTooLarge")), "{path}");
    }
    let (path, other) = (ahead(&format!("{MAPS}/a")), client.clone());
    let read = tokio::spawn(async move { call(&other, "GET", &path, None).await });
    tokio::task::yield_now().await;
    let change = json!({"data": {"k": "v"}});
    let (_, changed) = call(&client, "PATCH", &format!("{MAPS}/a"), Some(&change)).await;
    assert_eq!(read.await.expect("a revisions"), (200, changed));
}
