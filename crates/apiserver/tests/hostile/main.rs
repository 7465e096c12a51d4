//! Malformed and oversized requests.

#![expect(clippy::expect_used, reason = "tests fail by panicking")]

#[path = "../rig/paused.rs"]
mod paused;
mod refused;

use std::collections::HashSet;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use paused::run_paused;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/hostile.example/v1/namespaces/default/things";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// A request in its parts.
#[derive(Debug, Clone)]
struct Hostile {
    method: &'static str,
    path: String,
    query: String,
    media: &'static str,
    accept: &'static str,
    body: Vec<u8>,
}

impl Hostile {
    fn to(method: &'static str, path: &str, media: &'static str, body: impl Into<Vec<u8>>) -> Self {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let (path, query) = (path.to_owned(), query.to_owned());
        Self { method, path, query, media, accept: "application/json", body: body.into() }
    }

    /// Status and body; `None` if it is not a valid HTTP request.
    async fn send(&self, client: &Client) -> Option<(u16, Vec<u8>)> {
        let request = hyper::Request::builder()
            .method(self.method)
            .uri(format!("{}?{}", self.path, self.query))
            .header("content-type", self.media)
            .header("accept", self.accept)
            .body(Body::from(self.body.clone()))
            .ok()?;
        let answer = client.send(request).await.ok()?;
        let status = answer.status().as_u16();
        let mut bytes = Vec::new();
        let mut body = answer.into_body();
        let watches = self.query.contains("watch") && status == 200;
        while let Some(Ok(frame)) = body.frame().await {
            bytes.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data));
            if watches {
                break;
            }
        }
        Some((status, bytes))
    }
}

fn requests() -> impl Strategy<Value = Hostile> {
    let method =
        prop::sample::select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "TRACE"]);
    let media = prop::sample::select(vec![
        "application/json",
        "application/yaml",
        "application/json-patch+json",
        "application/merge-patch+json",
        "application/strategic-merge-patch+json",
        "application/apply-patch+yaml",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ]);
    let accept = prop::sample::select(vec![
        "application/json",
        "application/yaml",
        "application/json;as=Table;g=meta.k8s.io;v=v1",
        "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
        "application/json;as=;;=;q=x",
        "",
    ]);
    (method, paths(), queries(), media, accept, bodies()).prop_map(
        |(method, path, query, media, accept, body)| Hostile {
            method,
            path,
            query,
            media,
            accept,
            body,
        },
    )
}

fn paths() -> impl Strategy<Value = String> {
    let part = prop_oneof![
        6 => prop::sample::select(vec![
            "api", "apis", "v1", "namespaces", "default", "configmaps", "a", "status", "scale",
            "finalize", "events", "events.k8s.io", "openapi", "v3", "secrets", "leases",
            "coordination.k8s.io", "apiextensions.k8s.io", "customresourcedefinitions",
        ])
        .prop_map(str::to_owned),
        1 => "[a-zA-Z0-9.%~/_-]{0,6}",
    ];
    let free = prop::collection::vec(part, 0..8).prop_map(|parts| format!("/{}", parts.join("/")));
    let thing = prop::sample::select(vec!["", "/a", "/a", "/a/status", "/a/scale"])
        .prop_map(|rest| format!("{THINGS}{rest}"));
    prop_oneof![2 => free, 2 => Just(MAPS.to_owned()), 3 => Just(format!("{MAPS}/a")), 5 => thing]
}

fn queries() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "labelSelector",
        "fieldSelector",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "watch",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "force",
        "timeoutSeconds",
        "fieldManager",
        "fieldValidation",
        "dryRun",
        "propagationPolicy",
        "pretty",
        "gracePeriodSeconds",
        "orphanDependents",
        "includeObject",
    ]);
    let value = prop_oneof![
        2 => "[a-z0-9=!,()%+.-]{0,12}",
        1 => Just("true".to_owned()),
        1 => Just("All".to_owned()),
        1 => Just("99999999999999999999".to_owned()),
        1 => Just("-1".to_owned()),
    ];
    let pair = (name, value).prop_map(|(name, value)| format!("{name}={value}"));
    // Only a bounded watch ends by itself.
    prop::collection::vec(pair, 0..4)
        .prop_map(|pairs| format!("{}&timeoutSeconds=1", pairs.join("&")))
}

fn keys() -> impl Strategy<Value = String> {
    prop::sample::select(vec![
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "managedFields",
        "fieldsV1",
        "data",
        "k",
        "generateName",
        "deletionTimestamp",
        "op",
        "path",
        "from",
        "value",
        "immutable",
        "propagationPolicy",
        "preconditions",
        "$patch",
        "spec",
        "items",
        "size",
        "tags",
        "replicas",
        "status",
    ])
    .prop_map(str::to_owned)
}

fn bodies() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z0-9./ -]{0,8}".prop_map(Value::from),
        prop::sample::select(vec![
            "v1",
            "ConfigMap",
            "a",
            "default",
            "add",
            "copy",
            "/data",
            "/metadata",
            "hostile.example/v1",
            "Thing",
            "/spec/size",
            "/spec/tags/-"
        ])
        .prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(keys(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    let map = value.clone().prop_map(|extra| {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"},
        });
        overlaid(map, extra)
    });
    let thing = value.clone().prop_map(|spec| {
        let mut thing = thing();
        thing["spec"] = overlaid(thing["spec"].take(), spec);
        thing
    });
    prop_oneof![
        3 => value.prop_map(|value| value.to_string().into_bytes()),
        3 => prop_oneof![map, thing].prop_map(|value| value.to_string().into_bytes()),
        1 => noise(),
        1 => noise().prop_map(|rest| [b"k8s\0", &rest[..]].concat()),
    ]
}

fn noise() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..40)
}

/// An object with the fields of another one.
fn overlaid(mut object: Value, extra: Value) -> Value {
    if let (Value::Object(object), Value::Object(extra)) = (&mut object, extra) {
        object.extend(extra);
    }
    object
}

fn thing() -> Value {
    json!({
        "apiVersion": "hostile.example/v1", "kind": "Thing", "metadata": {"name": "a"},
        "spec": {"size": 1, "tags": ["x"]},
    })
}

/// Creates a CRD with a limit, a default, a set, a rule, and both subresources.
async fn define(client: &Client) {
    let spec = json!({
        "type": "object",
        "x-kubernetes-validations": [{"rule": "!has(self.tags) || size(self.tags) <= self.size"}],
        "properties": {
            "size": {"type": "integer", "minimum": 0, "default": 3},
            "tags": {
                "type": "array", "maxItems": 9, "x-kubernetes-list-type": "set",
                "items": {"type": "string", "maxLength": 9},
            },
        },
    });
    let status = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let properties = json!({"spec": spec, "status": status});
    let scale = json!({"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.hostile.example"},
        "spec": {
            "group": "hostile.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": scale},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
            }],
        },
    });
    let made = Hostile::to("POST", DEFINITIONS, "application/json", definition.to_string());
    assert_eq!(made.send(client).await.expect("a response").0, 201);
    let first = Hostile::to("POST", THINGS, "application/json", thing().to_string());
    while first.send(client).await.expect("a response").0 != 201 {
        tokio::task::yield_now().await;
    }
}

/// Whether a stored thing is valid.
fn is_thing(item: &Value) -> bool {
    let Some(spec) = item.get("spec") else { return true };
    let tags: Vec<&Value> = spec["tags"].as_array().into_iter().flatten().collect();
    let once: HashSet<String> = tags.iter().map(ToString::to_string).collect();
    spec["size"].as_u64().is_some_and(|size| tags.len() as u64 <= size)
        && once.len() == tags.len()
        && tags.iter().all(|tag| tag.is_string())
        && spec.as_object().is_some_and(|spec| spec.keys().all(|k| k == "size" || k == "tags"))
}

async fn items(client: &Client, path: &str) -> Vec<Value> {
    let list = Hostile::to("GET", path, "", "").send(client).await.expect("a list");
    let mut list: Value = serde_json::from_slice(&list.1).expect("JSON");
    list["items"].as_array_mut().map(std::mem::take).expect("items")
}

/// Sends the requests to one server; returns what is wrong with the responses.
fn wrongs(requests: &[Hostile]) -> Vec<String> {
    run_paused(async {
        let server = ApiServer::builder().build().await.expect("a server");
        let client = server.client();
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        let first = Hostile::to("POST", MAPS, "application/json", map.to_string());
        assert_eq!(first.send(&client).await.expect("a response").0, 201);
        define(&client).await;
        let mut wrong = Vec::new();
        for request in requests {
            let Some((code, bytes)) = request.send(&client).await else { continue };
            let status: Option<Value> = serde_json::from_slice(&bytes).ok();
            let is_json = request.accept != "application/yaml" && request.method != "HEAD";
            if let Some(status) = status.filter(|_| code >= 400 && is_json)
                && (status["kind"] != "Status" || status["code"] != code)
            {
                wrong.push(format!("{code} has a Status of {status}"));
            }
        }
        for item in items(&client, MAPS).await.into_iter().chain(items(&client, THINGS).await) {
            let metadata = &item["metadata"];
            let texts = ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"];
            let data = item["data"].as_object().into_iter().flatten();
            if texts.iter().any(|key| metadata[key].as_str().is_none_or(str::is_empty))
                || data.into_iter().any(|(_, value)| !value.is_string())
                || item["kind"] == "Thing" && !is_thing(&item)
            {
                wrong.push(format!("{item} is kept"));
            }
        }
        wrong
    })
}

proptest! {
    // Requirement: AS-15
    #[test]
    fn no_request_panics_or_stores_invalid_objects(
        requests in prop::collection::vec(requests(), 1..12),
    ) {
        prop_assert_eq!(wrongs(&requests), Vec::<String>::new());
    }
}

// Requirement: AK-25
#[tokio::test]
async fn oversized_requests_are_refused_without_effect() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"},
    });
    let made = Hostile::to("POST", MAPS, "application/json", map.to_string()).send(&client).await;
    let (code, made) = made.expect("a response");
    assert_eq!(code, 201);
    let named = format!("{MAPS}/a");
    let big = json!({"data": {"k": "x".repeat(3 * 1024 * 1024)}}).to_string();
    let step = json!({"op": "add", "path": "/data/k", "value": "w"});
    let steps = Value::from(vec![step; 10_001]).to_string();
    let nested = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let merge = "application/merge-patch+json";
    let select = |selector: &str| format!("{MAPS}?labelSelector={selector}");
    let asked = [
        (Hostile::to("PATCH", &named, merge, big), 413),
        (Hostile::to("PATCH", &named, "application/json-patch+json", steps), 413),
        (Hostile::to("PATCH", &named, merge, nested.clone()), 400),
        (Hostile::to("POST", MAPS, "application/json", nested.clone()), 400),
        (Hostile::to("POST", MAPS, "application/yaml", nested), 400),
        (Hostile::to("DELETE", &select("a%20in%20((((("), "", ""), 400),
        (Hostile::to("DELETE", &select(&"!".repeat(5000)), "", ""), 400),
        (Hostile::to("GET", &select(&"a,".repeat(3000)), "", ""), 400),
        (Hostile::to("GET", &format!("{MAPS}?fieldSelector=data.k=v"), "", ""), 400),
    ];
    for (request, wanted) in asked {
        let (code, response) = request.send(&client).await.expect("a response");
        let response: Value = serde_json::from_slice(&response).expect("a status");
        let shown = (&request.method, &request.path, &response["message"]);
        assert_eq!((code, &response["code"]), (wanted, &json!(wanted)), "{shown:?}");
    }
    let now = Hostile::to("GET", &named, "", "").send(&client).await.expect("a response");
    assert_eq!(now, (200, made));
}
