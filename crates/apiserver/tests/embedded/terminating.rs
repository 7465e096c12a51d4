//! Creation during the deletion of a namespace or CRD.

use std::sync::Arc;
use std::time::Duration;

use kube_client::Client;
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio::task::JoinHandle;
use usher_apiserver::{ApiServer, Durability, DurabilityError, Loaded, Record};

use crate::limits::{DEFINITIONS, defined, definition};
use crate::webhooks::{configured, guard};
use crate::{call, hook};

/// Yields to the runtime, until every task waits for the commit.
const TURNS: usize = 1000;

/// Blocks commits while the mutex is locked.
struct Held(Arc<Mutex<()>>);

impl Durability for Held {
    fn load(&mut self) -> Result<Loaded, DurabilityError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, _batch: &[Record]) -> Result<(), DurabilityError> {
        drop(self.0.blocking_lock());
        Ok(())
    }

    fn compact(&mut self, _revision: u64) -> Result<(), DurabilityError> {
        Ok(())
    }
}

/// Sends a request, and returns when it waits for the commit.
async fn begin(client: &Client, method: &'static str, path: &str, body: Value) -> JoinHandle<u16> {
    let (client, path) = (client.clone(), path.to_owned());
    let body = (!body.is_null()).then_some(body);
    let asked = tokio::spawn(async move { call(&client, method, &path, body.as_ref()).await.0 });
    for _ in 0..TURNS {
        tokio::task::yield_now().await;
    }
    assert!(!asked.is_finished(), "{method} did not wait for the keeper");
    asked
}

// Requirement: AK-19
#[tokio::test]
async fn nothing_is_created_during_an_unpublished_deletion() {
    let hold = Arc::new(Mutex::new(()));
    let keeper = Box::new(Held(hold.clone()));
    let server = ApiServer::builder().durability(keeper).without_collector().build().await;
    let server = server.expect("a server");
    let client = server.client();
    defined(&client, &definition("deep.example", "wells", "Well")).await;
    let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    assert_eq!(call(&client, "POST", "/api/v1/namespaces", Some(&room)).await.0, 201);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let well = json!({"apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": "a"}});
    let definition = format!("{DEFINITIONS}/wells.deep.example");
    for (goes, place, object) in [
        ("/api/v1/namespaces/room", "/api/v1/namespaces/room/configmaps", map),
        (definition.as_str(), "/apis/deep.example/v1/namespaces/default/wells", well),
    ] {
        let kept_waiting = hold.lock().await;
        let deleted = begin(&client, "DELETE", goes, Value::Null).await;
        let made = begin(&client, "POST", place, object).await;
        drop(kept_waiting);
        assert_eq!(deleted.await.expect("a response"), 200, "{goes}");
        assert_eq!(made.await.expect("a response"), 403, "{place}");
    }
}

// Requirement: AK-29
#[tokio::test]
async fn objects_of_a_deleted_crd_are_retried_after_a_denial() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    defined(&client, &definition("deep.example", "wells", "Well")).await;
    let well = json!({"apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": "a"}});
    let wells = "/apis/deep.example/v1/namespaces/default/wells";
    assert_eq!(call(&client, "POST", wells, Some(&well)).await.0, 201);
    let hook = hook::start().await;
    let rules = json!([{
        "operations": ["DELETE"], "apiGroups": ["deep.example"], "apiVersions": ["v1"],
        "resources": ["wells"],
    }]);
    guard(&server, &configured(&hook, "denyfive", &json!({"rules": rules}))).await;
    let named = format!("{DEFINITIONS}/wells.deep.example");
    assert_eq!(call(&client, "DELETE", &named, None).await.0, 200);
    let gone = async {
        while call(&client, "GET", &named, None).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), gone).await.expect("the definition goes");
    assert_eq!(hook.asked.lock().expect("asked").len(), 6);
}
