//! Answers that differed from those of a real server when both were sent random requests.

use http_body_util::BodyExt as _;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const GADGETS: &str = "/apis/differ.example/v1/namespaces/default/gadgets";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const APPLY: &str = "application/apply-patch+yaml";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const JSON: &str = "application/json";
const META: &str = "v=v1;g=meta.k8s.io";

/// A server with a CRD that keeps every field of a spec.
pub(crate) async fn server() -> ApiServer {
    let server = ApiServer::builder().build().await.expect("a server");
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.differ.example"},
        "spec": {
            "group": "differ.example",
            "scope": "Namespaced",
            "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                }}}},
            }],
        },
    });
    assert_eq!(ask(&server, ("POST", DEFINITIONS), (JSON, JSON), &definition).await.0, 201);
    while ask(&server, ("GET", GADGETS), (JSON, JSON), &Value::Null).await.0 != 200 {
        tokio::task::yield_now().await;
    }
    server
}

/// Sends a request; returns status, body and warnings.
pub(crate) async fn ask(
    server: &ApiServer,
    (method, path): (&str, &str),
    (media, accept): (&str, &str),
    body: &Value,
) -> (u16, Value, usize) {
    send_as(&server.client(), (method, path), (media, accept), body).await
}

/// Sends a request of a user.
pub(crate) async fn send_as(
    client: &kube_client::Client,
    (method, path): (&str, &str),
    (media, accept): (&str, &str),
    body: &Value,
) -> (u16, Value, usize) {
    let text = if body.is_null() { String::new() } else { body.to_string() };
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .header("accept", accept)
        .header("user-agent", "differ/1")
        .body(Body::from(text.into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("a response");
    let (code, warnings) =
        (response.status().as_u16(), response.headers().get_all("warning").iter().count());
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default(), warnings)
}

pub(crate) async fn post(server: &ApiServer, path: &str, body: &Value) -> (u16, Value) {
    let (code, answer, _) = ask(server, ("POST", path), (JSON, JSON), body).await;
    (code, answer)
}

pub(crate) async fn patch(
    server: &ApiServer,
    path: &str,
    media: &str,
    body: &Value,
) -> (u16, Value) {
    let (code, answer, _) = ask(server, ("PATCH", path), (media, JSON), body).await;
    (code, answer)
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn gadget(spec: &Value) -> Value {
    json!({
        "apiVersion": "differ.example/v1", "kind": "Gadget", "metadata": {"name": "g"},
        "spec": spec,
    })
}

/// The fields of the causes of a refusal.
pub(crate) fn fields(answer: &Value) -> Vec<&str> {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    causes.map(|cause| cause["field"].as_str().unwrap_or_default()).collect()
}

/// The fields and messages of the causes of a refusal.
pub(crate) fn causes(answer: &Value) -> Vec<(String, String)> {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    causes.map(|cause| (text(&cause["field"]), text(&cause["message"]))).collect()
}

// Requirement: AK-82
#[tokio::test]
async fn an_empty_list_of_metadata_has_null_items_and_accounts_have_no_column_of_secrets() {
    let server = server().await;
    let partial = format!("{JSON};as=PartialObjectMetadataList;{META}");
    let path = format!("{MAPS}?labelSelector=none");
    let (code, list, _) = ask(&server, ("GET", &path), (JSON, &partial), &Value::Null).await;
    assert_eq!((code, &list["items"]), (200, &Value::Null));
    let table = format!("{JSON};as=Table;{META}");
    let (_, table, _) = ask(&server, ("GET", ACCOUNTS), (JSON, &table), &Value::Null).await;
    let columns = table["columnDefinitions"].as_array().expect("columns");
    let names: Vec<&Value> = columns.iter().map(|column| &column["name"]).collect();
    assert_eq!(names, ["Name", "Age"]);
}

// Requirement: AK-82
#[tokio::test]
async fn a_page_ends_with_a_token_although_nothing_of_the_rest_matches() {
    let server = server().await;
    for name in ["a", "b"] {
        let mut body = map(name);
        body["metadata"]["labels"] = json!({"only": name});
        assert_eq!(post(&server, MAPS, &body).await.0, 201);
    }
    let page = |limit: usize| format!("{MAPS}?labelSelector=only%3Da&limit={limit}");
    let get = async |path: String| ask(&server, ("GET", &path), (JSON, JSON), &Value::Null).await.1;
    let (first, whole) = (get(page(1)).await, get(page(2)).await);
    assert!(first["metadata"]["continue"].is_string(), "{first}");
    assert!(whole["metadata"]["continue"].is_null(), "{whole}");
}

// Requirement: AK-83
#[tokio::test]
async fn managers_own_references_of_accounts_whole_and_lose_the_fields_of_a_map_with_it() {
    let server = server().await;
    let account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"},
        "secrets": [{"name": "one"}], "imagePullSecrets": [{"name": "two"}],
    });
    let (_, made) = post(&server, ACCOUNTS, &account).await;
    let owned = &made["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned["f:secrets"], json!({".": {}, "k:{\"name\":\"one\"}": {}}));
    assert_eq!(owned["f:imagePullSecrets"], json!({}));
    assert_eq!(post(&server, GADGETS, &gadget(&json!({"r": {"q": 1}}))).await.0, 201);
    let path = format!("{GADGETS}/g");
    let (_, changed) = patch(&server, &path, MERGE, &json!({"spec": {"r": true}})).await;
    let owned = &changed["metadata"]["managedFields"][0]["fieldsV1"];
    assert_eq!(owned["f:spec"], json!({".": {}, "f:r": {}}));
}

// Requirement: AK-83
#[tokio::test]
async fn conflicts_name_the_fields_of_a_level_before_those_below() {
    let server = server().await;
    assert_eq!(post(&server, GADGETS, &gadget(&json!({"a": {"q": 1}, "b": 1}))).await.0, 201);
    let path = format!("{GADGETS}/g?fieldManager=m");
    let other = gadget(&json!({"a": {"q": 2}, "b": 2}));
    let (code, answer) = patch(&server, &path, APPLY, &other).await;
    assert_eq!((code, fields(&answer)), (409, vec![".spec.b", ".spec.a.q"]));
}

// Requirement: AK-84
#[tokio::test]
async fn secrets_name_the_changed_type_first_and_finalizers_are_checked_twice() {
    let server = server().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "YQ=="},
    });
    assert_eq!(post(&server, SECRETS, &secret).await.0, 201);
    let path = format!("{SECRETS}/s");
    let typed = json!({"type": "kubernetes.io/basic-auth"});
    let (code, answer) = patch(&server, &path, MERGE, &typed).await;
    assert_eq!((code, fields(&answer)), (422, vec!["type", "data[username]", "data[password]"]));
    let odd = json!({"metadata": {"finalizers": ["noslash"]}});
    let (code, answer) = patch(&server, &path, MERGE, &odd).await;
    assert_eq!((code, fields(&answer)), (422, vec!["metadata.finalizers[0]"; 2]));
}

// Requirement: AK-85
#[tokio::test]
async fn an_apply_of_another_form_is_an_internal_error_that_names_the_object() {
    let server = server().await;
    let mut broken = map("a");
    broken["binaryData"] = json!({"k": "not base64"});
    let path = format!("{MAPS}/a?fieldManager=m");
    let (code, answer) = patch(&server, &path, APPLY, &broken).await;
    let message = "failed to convert new object (/a; /v1, Kind=ConfigMap) to proper version: \
        unable to convert unstructured object to /v1, Kind=ConfigMap: error decoding from json: \
        illegal base64 data at input byte 3";
    assert_eq!((code, &answer["message"]), (500, &json!(message)));
    let path = format!("{GADGETS}/g?fieldManager=m");
    for (spec, shown) in [(json!(true), "true"), (json!([1, "a"]), "[1 a]")] {
        let (code, answer) = patch(&server, &path, APPLY, &gadget(&spec)).await;
        let message = format!(
            "failed to create typed patch object (/g; differ.example/v1, Kind=Gadget): .spec: \
             expected map, got &{{{shown}}}"
        );
        assert_eq!((code, &answer["message"]), (500, &json!(message)));
    }
}

// Requirement: AK-85
#[tokio::test]
async fn a_patch_that_takes_the_name_away_or_has_unknown_fields_is_refused() {
    let server = server().await;
    assert_eq!(post(&server, GADGETS, &gadget(&json!({}))).await.0, 201);
    let bare = json!({"metadata": null});
    let (code, answer) = patch(&server, &format!("{GADGETS}/g"), MERGE, &bare).await;
    let message =
        "the name of the object (g based on URL) was undeterminable: name must be provided";
    assert_eq!((code, &answer["message"]), (400, &json!(message)));
    assert_eq!(post(&server, MAPS, &map("a")).await.0, 201);
    let path = format!("{MAPS}/a?fieldValidation=Strict");
    let odd = json!({"dat": {"k": "2"}, "data": null});
    let (code, answer) = patch(&server, &path, STRATEGIC, &odd).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert_eq!(code, 422);
    assert!(message.contains("Invalid value: \"map[dat:map[k:2] data:<nil>]\""), "{message}");
}

// Requirement: AK-85
#[tokio::test]
async fn a_body_of_an_unknown_kind_or_of_another_name_is_refused_as_such() {
    let server = server().await;
    let odd = json!({"apiVersion": "v9", "kind": "ConfigMap", "metadata": {"name": "a"}});
    let (code, answer) = post(&server, MAPS, &odd).await;
    let message = answer["message"].as_str().unwrap_or_default();
    assert_eq!(code, 400);
    assert!(
        message.contains("no kind \"ConfigMap\" is registered for version \"v9\""),
        "{message}"
    );
    let mut stray = gadget(&json!({}));
    stray["stray"] = json!(1);
    let put = ("PUT", format!("{GADGETS}/other"));
    let (code, _, warnings) = ask(&server, (put.0, &put.1), (JSON, JSON), &stray).await;
    assert_eq!(
        (code, warnings),
        (400, 1),
        "the unknown field is named before the name is compared"
    );
}
