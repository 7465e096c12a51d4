//! `kubectl get`, `describe` and `explain`.

use std::io::{BufRead as _, BufReader};

use serde_json::json;

use crate::{Kubectl, rows, thing};

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn get_prints_columns_and_wide_columns() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let path = kubectl.write("thing.json", &thing("one", &json!({"size": 7, "note": "loud"})));
    kubectl.does(&["create", "-f", &path]);
    assert_eq!(rows(&kubectl.does(&["get", "th"])), [["NAME", "SIZE"], ["one", "7"]]);
    let wide = kubectl.does(&["get", "things", "-o", "wide"]);
    assert_eq!(rows(&wide), [["NAME", "SIZE", "NOTE"], ["one", "7", "loud"]]);
    let everywhere = kubectl.does(&["get", "th", "-A"]);
    assert_eq!(rows(&everywhere)[1], ["default", "one", "7"]);
    let described = kubectl.does(&["describe", "thing", "one"]);
    assert!(described.contains("Size:  7") && described.contains("Events:"), "{described}");
    let none = kubectl.ends(&["get", "thing", "two"]);
    let message = "Error from server (NotFound): things.kubectl.example \"two\" not found\n";
    assert_eq!((none.well, none.err.as_str()), (false, message));
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn get_watch_prints_changes() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let path = kubectl.write("thing.json", &thing("one", &json!({"size": 1})));
    kubectl.does(&["create", "-f", &path]);
    let watch = ["get", "things", "-w", "--output-watch-events"];
    let mut child = kubectl.command(&watch).spawn().expect("kubectl");
    let mut lines = BufReader::new(child.stdout.take().expect("its words")).lines();
    let mut next = || {
        let line = lines.next().expect("a line").expect("words");
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([next(), next()], ["EVENT NAME SIZE", "ADDED one 1"]);
    kubectl.does(&["patch", "thing", "one", "--type=merge", "-p", r#"{"spec": {"size": 2}}"#]);
    assert_eq!(next(), "MODIFIED one 2");
    kubectl.does(&["delete", "thing", "one"]);
    assert_eq!(next(), "DELETED one 2");
    child.kill().expect("killed");
    child.wait().expect("its end");
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn explain_prints_kinds_and_fields() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let explained = kubectl.does(&["explain", "thing.spec"]);
    for wanted in ["What the thing should be.", "size\t<integer>", "How large it is."] {
        assert!(explained.contains(wanted), "{wanted}: {explained}");
    }
    let built_in = kubectl.does(&["explain", "configmap"]);
    assert!(built_in.contains("VERSION:    v1") && built_in.contains("metadata"), "{built_in}");
    let unknown = kubectl.ends(&["explain", "thing.spec.colour"]);
    assert!(!unknown.well && unknown.err.contains("does not exist"), "{unknown:?}");
    let resources = kubectl.does(&["api-resources", "--api-group=kubectl.example"]);
    assert_eq!(rows(&resources)[1], ["things", "th", "kubectl.example/v1", "true", "Thing"]);
}
