//! The objects, as the test sets their goals and judges what was done.

use std::path::Path;
use std::time::Duration;

use hyper::Request;
use serde_json::{Value, json};
use usher_cluster::answer::Failure;
use usher_cluster::client::{Access, Bounds, Client};

use crate::processes::Actor;

pub(crate) const SPACE: &str = "work";
pub(crate) const MAPS: &str = "/api/v1/namespaces/work/configmaps";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/work/leases/usher";

/// Requests of the test, which are repeated until they succeed: the server is restarted.
pub(crate) struct TestCluster {
    client: Client,
}

impl TestCluster {
    pub(crate) async fn connect(kubeconfig: &Path) -> Self {
        let access = Access::Kubeconfig { file: kubeconfig.to_owned(), context: None };
        let client = Client::connect(&access, Bounds::default()).await.expect("a client");
        Self { client }
    }

    pub(crate) async fn prepare(&self, objects: usize) {
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}});
        self.done(("POST", "/api/v1/namespaces"), &space).await;
        for number in 0..objects {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("m{number}")}, "data": {"goal": "1"},
            });
            self.done(("POST", MAPS), &map).await;
        }
    }

    pub(crate) async fn set_goals(&self, objects: usize, goal: usize) {
        for number in 0..objects {
            let patch = json!({"data": {"goal": goal.to_string()}});
            self.done(("PATCH", &format!("{MAPS}/m{number}")), &patch).await;
        }
    }

    /// Waits until each object has this goal; the highest epoch in their histories.
    pub(crate) async fn converged(&self, objects: usize, goal: usize) -> u64 {
        let goal = goal.to_string();
        until(async || {
            let items = self.maps().await;
            let is_done = |it: &&Value| it["data"]["done"] == goal && it["data"]["goal"] == goal;
            items.iter().filter(is_done).count() == objects
        })
        .await;
        self.check(objects).await;
        let items = self.maps().await;
        items.iter().flat_map(history).max().unwrap_or_default()
    }

    /// Fails if an object was written in an older term after a newer one; how many writes there
    /// were.
    pub(crate) async fn check(&self, objects: usize) -> usize {
        let items = self.maps().await;
        assert_eq!(items.len(), objects);
        let histories: Vec<Vec<u64>> = items.iter().map(history).collect();
        for (item, history) in items.iter().zip(&histories) {
            let name = &item["metadata"]["name"];
            assert!(history.is_sorted(), "{name} was written by an overtaken process: {history:?}");
        }
        histories.iter().map(Vec::len).sum()
    }

    /// Waits until one of these processes holds the Lease; which.
    pub(crate) async fn holder(&self, actors: &[Actor; 2]) -> usize {
        let holder = std::cell::Cell::new(None);
        until(async || {
            let name = self.holder_name().await;
            holder.set(actors.iter().position(|it| it.name == name));
            holder.get().is_some()
        })
        .await;
        holder.get().unwrap_or_default()
    }

    pub(crate) async fn held_by(&self, actor: &Actor) {
        until(async || self.holder_name().await == actor.name).await;
    }

    async fn holder_name(&self) -> String {
        let lease = call(&self.client, ("GET", LEASE), &Value::Null).await;
        let holder =
            lease.ok().and_then(|it| it["spec"]["holderIdentity"].as_str().map(str::to_owned));
        holder.unwrap_or_default()
    }

    async fn maps(&self) -> Vec<Value> {
        let list = self.done(("GET", MAPS), &Value::Null).await;
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.into_iter().filter(|it| it["data"]["goal"].is_string()).collect()
    }

    async fn done(&self, asked: (&str, &str), body: &Value) -> Value {
        let answer = std::cell::Cell::new(Value::Null);
        until(async || match call(&self.client, asked, body).await {
            Ok(value) => {
                answer.set(value);
                true
            }
            Err(Failure::NoAnswer(_)) => false,
            Err(Failure::Refused(refusal)) => {
                assert!(refusal.code >= 500, "{asked:?}: {refusal:?}");
                false
            }
        })
        .await;
        answer.take()
    }
}

pub(crate) async fn call(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value, Failure> {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    client.object(Ok(request.body(text).expect("a request"))).await
}

fn history(map: &Value) -> Vec<u64> {
    let history = map["data"]["history"].as_str().unwrap_or_default();
    history.split_whitespace().map(|it| it.parse().expect("an epoch")).collect()
}

/// Waits until a condition holds.
async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let patience = Duration::from_mins(5);
    tokio::time::timeout(patience, waiting).await.expect("the condition in time");
}
