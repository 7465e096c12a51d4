//! `kubectl apply`, `label` and `patch`.

use serde_json::{Value, json};

use crate::{Kubectl, thing};

const MAP: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"},
    "data": {"kept": "1", "dropped": "2"}}"#;

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn apply_creates_changes_and_removes_fields() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let map = |text: &str| kubectl.write("map.json", text);
    let apply = |path: String| kubectl.does(&["apply", "-f", &path]);
    assert_eq!(apply(map(MAP)), "configmap/map created\n");
    assert_eq!(apply(map(MAP)), "configmap/map unchanged\n");
    let less = MAP.replace(r#", "dropped": "2""#, "");
    assert_eq!(apply(map(&less)), "configmap/map configured\n");
    assert_eq!(kubectl.shows("cm/map")["data"], json!({"kept": "1"}));
    let given = |spec: Value| kubectl.write("thing.json", &thing("one", &spec));
    assert_eq!(
        apply(given(json!({"size": 1, "note": "a"}))),
        "thing.kubectl.example/one created\n"
    );
    assert_eq!(apply(given(json!({"size": 2}))), "thing.kubectl.example/one configured\n");
    assert_eq!(kubectl.shows("thing/one")["spec"], json!({"size": 2}));
    let wrong = kubectl.ends(&["apply", "-f", &given(json!({"size": -1}))]);
    assert!(!wrong.well && wrong.err.contains("greater than or equal to 0"), "{wrong:?}");
    let unknown = kubectl.ends(&["apply", "-f", &given(json!({"sise": 1}))]);
    assert!(!unknown.well && unknown.err.contains("unknown field \"spec.sise\""), "{unknown:?}");
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_removes_dropped_fields() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let apply = |spec: Value| {
        let path = kubectl.write("thing.json", &thing("one", &spec));
        kubectl.does(&["apply", "--server-side", "-f", &path])
    };
    let said = "thing.kubectl.example/one serverside-applied\n";
    assert_eq!(apply(json!({"size": 1, "note": "a", "tags": ["x", "y"]})), said);
    assert_eq!(apply(json!({"size": 1, "tags": ["y"]})), said);
    let object = kubectl.shows("thing/one");
    assert_eq!(object["spec"], json!({"size": 1, "tags": ["y"]}));
    let version = object["metadata"]["resourceVersion"].clone();
    assert_eq!(apply(json!({"size": 1, "tags": ["y"]})), said);
    assert_eq!(kubectl.shows("thing/one")["metadata"]["resourceVersion"], version);
    let path = kubectl.write("thing.json", &thing("one", &json!({"size": 9})));
    let other = ["apply", "--server-side", "--field-manager=other", "-f", &path];
    let refused = kubectl.ends(&other);
    assert!(!refused.well && refused.err.contains("conflict with \"kubectl\""), "{refused:?}");
    let forced = [&other[..], &["--force-conflicts"]].concat();
    assert_eq!(kubectl.does(&forced), said);
    assert_eq!(kubectl.shows("thing/one")["spec"], json!({"size": 9, "tags": ["y"]}));
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn label_and_patch_change_objects() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let path = kubectl.write("thing.json", &thing("one", &json!({"size": 1, "note": "a"})));
    kubectl.does(&["create", "-f", &path]);
    assert_eq!(kubectl.does(&["label", "thing", "one", "room=hall"]), said("labeled"));
    let labels = |object: Value| object["metadata"]["labels"].clone();
    assert_eq!(labels(kubectl.shows("thing/one")), json!({"room": "hall"}));
    let refused = kubectl.ends(&["label", "thing", "one", "room=attic"]);
    assert!(!refused.well && refused.err.contains("already has a value"), "{refused:?}");
    assert_eq!(kubectl.does(&["label", "thing", "one", "room-"]), said("unlabeled"));
    let patched = |kind: &str, text: &str| {
        kubectl.does(&["patch", "thing", "one", "--type", kind, "-p", text])
    };
    assert_eq!(patched("merge", r#"{"spec": {"size": 2, "note": null}}"#), said("patched"));
    let steps = r#"[{"op": "test", "path": "/spec/size", "value": 2},
        {"op": "add", "path": "/spec/tags", "value": ["x"]}]"#;
    assert_eq!(patched("json", steps), said("patched"));
    assert_eq!(patched("json", "[]"), said("patched (no change)"));
    assert_eq!(kubectl.shows("thing/one")["spec"], json!({"size": 2, "tags": ["x"]}));
    let status = ["patch", "thing", "one", "--subresource=status", "--type=merge", "-p"];
    kubectl.does(&[&status[..], &[r#"{"status": {"seen": 1}}"#]].concat());
    assert_eq!(kubectl.shows("thing/one")["status"], json!({"seen": 1}));
    kubectl.does(&["apply", "-f", &kubectl.write("map.json", MAP_FOR_PATCH)]);
    kubectl.does(&["patch", "cm", "map", "-p", r#"{"data": {"a": "2", "b": null}}"#]);
    assert_eq!(kubectl.shows("cm/map")["data"], json!({"a": "2"}));
}

const MAP_FOR_PATCH: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "map"}, "data": {"a": "1", "b": "1"}}"#;

fn said(word: &str) -> String {
    format!("thing.kubectl.example/one {word}\n")
}

const LIST: &str = r#"{"apiVersion": "v1", "kind": "List", "items": [
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}, "data": {"a": "1"}},
    {"apiVersion": "kubectl.example/v1", "kind": "Thing", "metadata": {"name": "one"},
        "spec": {"size": 1}}]}"#;

// Requirement: AK-52
#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_validated_and_applied() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let list = |text: &str| kubectl.write("list.json", text);
    let said = "configmap/map created\nthing.kubectl.example/one created\n";
    assert_eq!(kubectl.does(&["apply", "-f", &list(LIST)]), said);
    let wrong = LIST.replace("size", "sise");
    let refused = kubectl.ends(&["apply", "-f", &list(&wrong)]);
    assert!(!refused.well && refused.err.contains("unknown field \"sise\""), "{refused:?}");
}

// Requirement: AK-49
#[tokio::test(flavor = "multi_thread")]
async fn server_side_apply_follows_client_side_apply_without_conflict() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.does(&["apply", "-f", &kubectl.write("map.json", MAP)]);
    let changed = MAP.replace(r#""kept": "1""#, r#""kept": "3""#);
    let path = kubectl.write("map.json", &changed);
    let said = kubectl.does(&["apply", "--server-side", "-f", &path]);
    assert_eq!(said, "configmap/map serverside-applied\n");
    let object = kubectl.shows("cm/map");
    assert_eq!(object["data"]["kept"], "3");
    assert_eq!(kubectl.does(&["apply", "--server-side", "-f", &path]), said);
}
