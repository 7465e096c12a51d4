//! Limits and refused requests.

use std::time::Duration;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, RequestKey};

use crate::call;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

pub(crate) fn definition(group: &str, plural: &str, kind: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                },
            }}],
        },
    })
}

/// Creates a CRD and waits for its `NamesAccepted` condition; returns the reason.
pub(crate) async fn defined(client: &Client, definition: &Value) -> String {
    let (code, made) = call(client, "POST", DEFINITIONS, Some(definition)).await;
    assert_eq!(code, 201, "{made}");
    let uri = format!("{DEFINITIONS}?watch=true");
    let request = hyper::Request::get(uri).body(Body::empty()).expect("a request");
    let mut body = client.send(request).await.expect("a stream").into_body();
    let mut bytes = Vec::new();
    loop {
        let frame = body.frame().await.expect("a frame").expect("no error");
        bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |chunk| chunk));
        for line in bytes.split_inclusive(|byte| *byte == b'\n').filter(|l| l.ends_with(b"\n")) {
            let event: Value = serde_json::from_slice(line).expect("an event");
            let object = &event["object"];
            let conditions = object["status"]["conditions"].as_array();
            let judged = conditions.into_iter().flatten().find(|c| c["type"] == "NamesAccepted");
            if object["metadata"]["name"] == definition["metadata"]["name"]
                && let Some(judged) = judged
            {
                return judged["reason"].as_str().expect("a reason").to_owned();
            }
        }
    }
}

// Requirement: AK-14
#[tokio::test]
async fn objects_that_are_too_deep_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cluster");
    let server = ApiServer::builder().file(&path).build().await.expect("a server");
    let client = server.client();
    let reason = defined(&client, &definition("deep.example", "wells", "Well")).await;
    assert_eq!(reason, "NoConflicts");
    let wells = "/apis/deep.example/v1/namespaces/default/wells";
    let well = |name: &str, levels: usize| {
        let spec = (0..levels).fold(json!({}), |inner, _| json!({"a": inner}));
        let metadata = json!({"name": name});
        json!({"apiVersion": "deep.example/v1", "kind": "Well", "metadata": metadata, "spec": spec})
    };
    assert_eq!(call(&client, "POST", wells, Some(&well("a", 85))).await.0, 201);
    let (code, response) = call(&client, "POST", wells, Some(&well("b", 120))).await;
    assert_eq!((code, &response["reason"]), (400, &json!("BadRequest")), "{response}");
    let named = format!("{wells}/a");
    let (code, response) = call(&client, "PATCH", &named, Some(&well("a", 120))).await;
    assert_eq!((code, &response["reason"]), (400, &json!("BadRequest")), "{response}");
    server.shutdown().await;
    let server = ApiServer::builder().file(&path).build().await.expect("a server");
    assert_eq!(call(&server.client(), "GET", &named, None).await.0, 200);
}

// Requirement: AK-15
#[tokio::test]
async fn delete_options_must_be_an_object() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(call(&client, "POST", MAPS, Some(&body)).await.0, 201);
    for options in [json!([]), json!("x"), json!(1), json!(true)] {
        for path in [format!("{MAPS}/a"), MAPS.to_owned()] {
            let (code, response) = call(&client, "DELETE", &path, Some(&options)).await;
            assert_eq!((code, &response["reason"]), (400, &json!("BadRequest")), "{options}");
        }
    }
    assert_eq!(call(&client, "GET", &format!("{MAPS}/a"), None).await.0, 200);
}

// Requirement: AK-15
#[tokio::test]
async fn a_watch_with_a_huge_timeout_is_served() {
    let server = ApiServer::builder().build().await.expect("a server");
    let uri = format!("{MAPS}?watch=true&timeoutSeconds={}", i64::MAX);
    let request = hyper::Request::get(uri).body(Body::empty()).expect("a request");
    let answer = server.client().send(request).await.expect("a response");
    assert_eq!(answer.status().as_u16(), 200);
}

// Requirement: AK-15
#[tokio::test]
async fn unknown_resources_share_one_counter() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    for path in ["/api/v1/wells", "/apis/deep.example/v1/wells", "/apis/apps/v9/x"] {
        assert_eq!(call(&client, "GET", path, None).await.0, 404);
    }
    let unknown = RequestKey { verb: "list".to_owned(), resource: String::new(), code: 404 };
    let counts: Vec<(RequestKey, u64)> = server.counters().into_iter().collect();
    assert_eq!(counts, [(unknown, 3)]);
}

// Requirement: AK-18
#[tokio::test]
async fn a_crd_cannot_take_the_names_of_a_built_in_resource() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let group = "coordination.k8s.io";
    let path = defined(&client, &definition(group, "leases", "Thing")).await;
    let kind = defined(&client, &definition(group, "things", "Lease")).await;
    assert_eq!((path.as_str(), kind.as_str()), ("PluralConflict", "ListKindConflict"));
    let (_, listed) = call(&client, "GET", "/apis/coordination.k8s.io/v1", None).await;
    let resources = listed["resources"].as_array().expect("resources").iter();
    let names: Vec<(&Value, &Value)> =
        resources.map(|found| (&found["name"], &found["kind"])).collect();
    assert_eq!(names, [(&json!("leases"), &json!("Lease"))]);
}

// Requirement: AK-18
#[tokio::test(start_paused = true)]
async fn deleting_a_crd_deletes_objects_of_unserved_versions() {
    let quiet = || tokio::time::sleep(Duration::from_hours(1));
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let mut wells = definition("deep.example", "wells", "Well");
    let mut second = wells["spec"]["versions"][0].clone();
    (second["name"], second["storage"]) = (json!("v2"), json!(false));
    wells["spec"]["versions"].as_array_mut().expect("versions").push(second);
    defined(&client, &wells).await;
    let path = "/apis/deep.example/v1/namespaces/default/wells";
    let well = json!({
        "apiVersion": "deep.example/v1", "kind": "Well", "metadata": {"name": "a"},
    });
    assert_eq!(call(&client, "POST", path, Some(&well)).await.0, 201);
    let named = format!("{DEFINITIONS}/wells.deep.example");
    let mut unserved = wells["spec"]["versions"].clone();
    for version in unserved.as_array_mut().expect("versions") {
        version["served"] = json!(false);
    }
    let change = json!({"spec": {"versions": unserved}});
    assert_eq!(call(&client, "PATCH", &named, Some(&change)).await.0, 200);
    quiet().await;
    assert_eq!(call(&client, "DELETE", &named, None).await.0, 200);
    quiet().await;
    assert_eq!(call(&client, "GET", &named, None).await.0, 404);
    defined(&client, &wells).await;
    let (_, left) = call(&client, "GET", path, None).await;
    assert_eq!(left["items"], json!([]));
}
