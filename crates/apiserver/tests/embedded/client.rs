//! In-process clients.

use std::sync::{Arc, Mutex};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use usher_apiserver::{ApiServer, Fault, RequestKey};

use crate::call;

fn config_map(name: &str, value: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"key": value}}))
        .expect("a config map")
}

#[tokio::test]
async fn a_typed_client_creates_applies_lists_and_deletes() {
    let server = ApiServer::builder().build().await.expect("a server");
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let made = api.create(&PostParams::default(), &config_map("a", "1")).await.expect("made");
    let applied = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a"},
        "data": {"other": "2"},
    });
    let params = PatchParams::apply("second");
    let applied = api.patch("a", &params, &Patch::Apply(&applied)).await.expect("applied");
    assert_eq!(applied.metadata.uid, made.metadata.uid);
    let data: Vec<(String, String)> = applied.data.unwrap_or_default().into_iter().collect();
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    assert_eq!(data, [pair("key", "1"), pair("other", "2")]);
    let conflict = api.create(&PostParams::default(), &config_map("a", "1")).await;
    let message = conflict.expect_err("it is there").to_string();
    assert!(message.contains("AlreadyExists"), "{message}");
    api.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(api.list(&ListParams::default()).await.expect("a list").items.len(), 0);
    server.shutdown().await;
}

// Requirement: AK-10
#[tokio::test]
async fn a_request_with_a_lost_response_was_executed() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.set_faults(|asked| match asked.verb.as_str() {
        "create" => Fault::LoseAnswer(500),
        "delete" => Fault::Refuse(503),
        _ => Fault::None,
    });
    let client = server.client();
    let path = "/api/v1/namespaces/default/configmaps";
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(call(&client, "POST", path, Some(&body)).await.0, 500);
    let named = format!("{path}/a");
    assert_eq!(call(&client, "GET", &named, None).await.0, 200);
    assert_eq!(call(&client, "DELETE", &named, None).await.0, 503);
    server.clear_faults();
    assert_eq!(call(&client, "DELETE", &named, None).await.0, 200);
    let key = |verb: &str, code| RequestKey {
        verb: verb.to_owned(),
        resource: "configmaps".to_owned(),
        code,
    };
    let counts = server.counters();
    let counts = [("create", 500), ("get", 200), ("delete", 503), ("delete", 200)]
        .map(|(verb, code)| counts.get(&key(verb, code)).copied());
    assert_eq!(counts, [Some(1); 4]);
}

// Requirement: AK-10
#[tokio::test]
async fn every_request_has_one_audit_line() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let theirs = lines.clone();
    let server = ApiServer::builder()
        .audit(move |line| theirs.lock().expect("lines").push(line.to_owned()))
        .build()
        .await
        .expect("a server");
    let client = server.client();
    call(&client, "GET", "/api/v1/namespaces/default", None).await;
    call(&client, "DELETE", "/api/v1/namespaces/default/configmaps/a", None).await;
    let request = hyper::Request::get("/api/v1/namespaces").header("authorization", "Bearer wrong");
    let request = request.body(kube_client::client::Body::empty()).expect("a request");
    client.send(request).await.expect("a response");
    let audited = lines.lock().expect("lines").clone();
    let audited: Vec<serde_json::Value> = audited
        .iter()
        .map(|line| {
            let mut line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let latency = line.as_object_mut().expect("an object").remove("micros");
            assert!(latency.expect("a latency").is_u64());
            line
        })
        .collect();
    let line = |user: &str, verb: &str, object: (&str, &str, &str), path: &str, code: u16| {
        json!({
            "user": user,
            "verb": verb,
            "resource": object.0,
            "namespace": object.1,
            "name": object.2,
            "path": path,
            "code": code,
        })
    };
    let map = "/api/v1/namespaces/default/configmaps/a";
    let wanted = [
        line("admin", "get", ("namespaces", "", "default"), "/api/v1/namespaces/default", 200),
        line("admin", "delete", ("configmaps", "default", "a"), map, 404),
        line("", "list", ("namespaces", "", ""), "/api/v1/namespaces", 401),
    ];
    assert_eq!(audited, wanted);
}

// Requirement: AK-11
#[tokio::test]
async fn objects_and_revisions_survive_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cluster");
    let server = ApiServer::builder().file(&path).build().await.expect("a server");
    let client = server.client();
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (_, made) = call(&client, "POST", maps, Some(&body)).await;
    server.shutdown().await;
    assert_eq!(call(&client, "GET", &format!("{maps}/a"), None).await.0, 200);
    let server = ApiServer::builder().file(&path).build().await.expect("a server");
    let client = server.client();
    let (code, found) = call(&client, "GET", &format!("{maps}/a"), None).await;
    assert_eq!((code, &found), (200, &made));
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    let (_, later) = call(&client, "POST", maps, Some(&other)).await;
    let version = |value: &serde_json::Value| -> u64 {
        value["metadata"]["resourceVersion"].as_str().expect("a version").parse().expect("a number")
    };
    assert!(version(&later) > version(&made));
}
