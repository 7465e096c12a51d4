//! The custom resource of the measurements.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::caller::Caller;

pub(crate) const THINGS: &str = "/apis/bench.example/v1/namespaces/default/things";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// The path of the objects of a namespace.
pub(crate) fn path(namespace: &str) -> String {
    format!("/apis/bench.example/v1/namespaces/{namespace}/things")
}

/// An object of about 1 kB.
pub(crate) fn large(name: &str, size: usize) -> Bytes {
    object(name, size, &"x".repeat(600))
}

/// A small object.
pub(crate) fn small(name: &str, size: usize) -> Bytes {
    object(name, size, "a small object")
}

fn object(name: &str, size: usize, note: &str) -> Bytes {
    let object = json!({
        "apiVersion": "bench.example/v1",
        "kind": "Thing",
        "metadata": {"name": name, "labels": {"app": "bench", "tier": "one"}},
        "spec": {"size": size, "note": note, "tags": ["a", "b", "c"]},
    });
    Bytes::from(object.to_string())
}

/// Creates the CRD and waits until it is served.
pub(crate) async fn define(caller: &mut Caller) {
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.bench.example"},
        "spec": {
            "group": "bench.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer", "minimum": 0},
                        "note": {"type": "string"},
                        "tags": {"type": "array", "items": {"type": "string"}},
                    }},
                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
                }}},
            }],
        },
    });
    let body = Bytes::from(Value::to_string(&definition));
    let made = caller.call("POST", DEFINITIONS, body).await;
    assert_eq!(made.0, 201, "{}", String::from_utf8_lossy(&made.1));
    // A server that lists the kind may still refuse to create objects of it.
    let first = format!("{THINGS}/first");
    while caller.call("POST", THINGS, small("first", 0)).await.0 != 201 {
        tokio::task::yield_now().await;
    }
    assert_eq!(caller.call("DELETE", &first, Bytes::new()).await.0, 200);
}
