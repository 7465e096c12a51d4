//! Expiry of events.

use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use redb::{Database, ReadableTable as _, TableDefinition};
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::call;

const EVENTS: &str = "/api/v1/namespaces/default/events";

/// Which timestamps of an event are moved back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Writes {
    First,
    All,
}

fn event(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {"kind": "ConfigMap", "name": "a", "namespace": "default"},
        "reason": "Tried",
        "type": "Normal",
    })
}

async fn names(server: &ApiServer) -> Vec<String> {
    let (_, list) = call(&server.client(), "GET", EVENTS, None).await;
    let items = list["items"].as_array().expect("items").iter();
    items.map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
}

async fn create(server: &ApiServer, name: &str) {
    assert_eq!(call(&server.client(), "POST", EVENTS, Some(&event(name))).await.0, 201);
}

// Requirement: AK-24
#[tokio::test(start_paused = true)]
async fn events_expire_an_hour_after_their_last_write() {
    let half = Duration::from_mins(31);
    let server = ApiServer::builder().build().await.expect("a server");
    create(&server, "a").await;
    create(&server, "b").await;
    tokio::time::sleep(half).await;
    let change = json!({"count": 2});
    let path = format!("{EVENTS}/b");
    assert_eq!(call(&server.client(), "PATCH", &path, Some(&change)).await.0, 200);
    tokio::time::sleep(half).await;
    assert_eq!(names(&server).await, ["b"]);
    tokio::time::sleep(half).await;
    assert_eq!(names(&server).await, [""; 0]);
}

/// Moves the timestamps of a stored event back.
fn age(file: &Path, name: &str, writes: Writes, by: Duration) {
    const LOG: TableDefinition<u64, (&str, &str, Option<&[u8]>)> = TableDefinition::new("log");
    let then = json!((Timestamp::now() - by).to_string());
    let database = Database::open(file).expect("a closed file");
    let transaction = database.begin_write().expect("a transaction");
    {
        let mut log = transaction.open_table(LOG).expect("a log");
        let key = format!("default/{name}");
        let rows = log.iter().expect("a read").map(|row| row.expect("a row"));
        let written = rows.filter_map(|(revision, row)| {
            let (table, at, new) = row.value();
            let meant = table == "events" && at == key;
            meant.then(|| (revision.value(), new.expect("an event").to_vec()))
        });
        let (revision, found) = written.last().expect("a write");
        let mut event: Value = serde_json::from_slice(&found).expect("JSON");
        event["metadata"]["creationTimestamp"] = then.clone();
        if writes == Writes::All {
            for entry in event["metadata"]["managedFields"].as_array_mut().expect("managers") {
                entry["time"] = then.clone();
            }
        }
        let event = serde_json::to_vec(&event).expect("JSON");
        log.insert(revision, ("events", key.as_str(), Some(event.as_slice()))).expect("a write");
    }
    transaction.commit().expect("a commit");
}

// Requirement: AK-24
#[tokio::test]
async fn events_expire_after_a_restart_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cluster");
    let builder = || ApiServer::builder().file(&path);
    let server = builder().build().await.expect("a server");
    for name in ["a", "b", "c"] {
        create(&server, name).await;
    }
    server.shutdown().await;
    let hours = Duration::from_hours;
    age(&path, "a", Writes::First, hours(2));
    age(&path, "b", Writes::All, hours(2));
    let server = builder().event_ttl(hours(3)).build().await.expect("a server");
    assert_eq!(names(&server).await, ["a", "b", "c"]);
    server.shutdown().await;
    let server = builder().event_ttl(hours(1)).build().await.expect("a server");
    let gone = async {
        while names(&server).await.iter().any(|name| name == "b") {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone).await.expect("b is forgotten");
    assert_eq!(names(&server).await, ["a", "c"]);
}
