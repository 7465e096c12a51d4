//! A server with its requests, and waiting for conditions.

use std::time::Duration;

use hyper::Request;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};
use usher_cluster::answer::Failure;
use usher_cluster::client::{Bounds, Client};

pub(crate) const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const WELLS: &str = "/apis/deep.example/v1/namespaces/default/wells";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const MERGE: &str = "application/merge-patch+json";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(crate) async fn server() -> ApiServer {
    ApiServer::builder().build().await.expect("a server")
}

/// The administrator.
pub(crate) fn admin(server: &ApiServer) -> Client {
    Client::over(server.client(), Bounds::default())
}

/// A user without a right.
pub(crate) fn user(server: &ApiServer, name: &str) -> Client {
    Client::over(server.client_as(User::with_groups(name, &[])), Bounds::default())
}

/// The administrator, to whom one path is answered with this body.
pub(crate) fn answering(server: &ApiServer, path: &'static str, body: &Value) -> Client {
    let (inner, body) = (server.client(), body.to_string());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (inner, body) = (inner.clone(), body.clone());
        async move {
            if request.uri().path() == path {
                return Ok(hyper::Response::new(Body::from(body.into_bytes())));
            }
            inner.send(request).await
        }
    });
    Client::over(kube_client::Client::new(service, "default"), Bounds::default())
}

/// A request of any kind; its media type is JSON unless another is given.
#[expect(clippy::unnecessary_wraps, reason = "as the library builds requests")]
pub(crate) fn request(
    (method, path): (&str, &str),
    media: &str,
    body: &Value,
) -> usher_cluster::client::Built {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let media = if media.is_empty() { "application/json" } else { media };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    Ok(request.body(text).expect("a request"))
}

pub(crate) async fn call(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value, Failure> {
    let media = if method == "PATCH" { MERGE } else { "" };
    let bytes = client.send(request((method, path), media, body)).await?;
    Ok(serde_json::from_slice(&bytes).expect("JSON"))
}

/// A request that has to succeed.
pub(crate) async fn done(server: &ApiServer, asked: (&str, &str), body: &Value) -> Value {
    let answer = call(&admin(server), asked, body).await;
    answer.unwrap_or_else(|failure| panic!("{asked:?}: {failure:?}"))
}

pub(crate) fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

pub(crate) fn well(name: &str) -> Value {
    json!({"apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": name}})
}

/// Defines `wells.deep.example` and waits until it is served.
pub(crate) async fn define(server: &ApiServer) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "wells.deep.example"},
        "spec": {
            "group": "deep.example",
            "scope": "Namespaced",
            "names": {"plural": "wells", "kind": "Well"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                },
            }}],
        },
    });
    done(server, ("POST", DEFINITIONS), &definition).await;
    let client = admin(server);
    until(async || call(&client, ("GET", WELLS), &Value::Null).await.is_ok()).await;
}

/// Deletes `wells.deep.example` and waits until it is gone.
pub(crate) async fn undefine(server: &ApiServer) {
    let path = format!("{DEFINITIONS}/wells.deep.example");
    done(server, ("DELETE", &path), &Value::Null).await;
    let client = admin(server);
    until(async || call(&client, ("GET", &path), &Value::Null).await.is_err()).await;
}

/// Gives a user rights on a resource everywhere.
pub(crate) async fn grant(server: &ApiServer, name: &str, (group, resource): (&str, &str)) {
    let verbs = ["get", "list", "watch", "create", "update", "patch", "delete"];
    let rules = json!([{"verbs": verbs, "apiGroups": [group], "resources": [resource]}]);
    let id = format!("{name}-{resource}");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": id}, "rules": rules,
    });
    done(server, ("POST", &format!("{RBAC}/clusterroles")), &role).await;
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
        "metadata": {"name": id},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": id},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": name}],
    });
    done(server, ("POST", &format!("{RBAC}/clusterrolebindings")), &binding).await;
}

/// Takes what [`grant`] gave.
pub(crate) async fn revoke(server: &ApiServer, name: &str, resource: &str) {
    for kind in ["clusterrolebindings", "clusterroles"] {
        let path = format!("{RBAC}/{kind}/{name}-{resource}");
        done(server, ("DELETE", &path), &Value::Null).await;
    }
}

/// How many requests of a verb for a resource were answered.
pub(crate) fn count(server: &ApiServer, verb: &str, resource: &str) -> u64 {
    let counters = server.counters();
    let meant = counters.iter().filter(|(key, _)| key.verb == verb && key.resource == resource);
    meant.map(|(_, count)| count).sum()
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let patience = Duration::from_mins(10);
    tokio::time::timeout(patience, waiting).await.expect("the condition in time");
}
