//! `kubectl delete`.

use serde_json::{Value, json};

use crate::{Kubectl, call, thing};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/kubectl.example/v1/namespaces/default/things";

/// Creates a thing with a non-blocking dependent.
async fn family(kubectl: &Kubectl, name: &str) {
    let path = kubectl.write("thing.json", &thing(name, &json!({"size": 1})));
    kubectl.does(&["create", "-f", &path]);
    let uid = kubectl.shows(&format!("thing/{name}"))["metadata"]["uid"].clone();
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": format!("{name}-map"), "ownerReferences": [{
            "apiVersion": "kubectl.example/v1",
            "kind": "Thing",
            "name": name,
            "uid": uid,
            "blockOwnerDeletion": true,
        }]},
    });
    assert_eq!(call(&kubectl.client(), "POST", MAPS, Some(&map)).await.0, 201);
}

/// Sets the finalizers of an object.
async fn hold(kubectl: &Kubectl, path: &str, finalizers: Value) {
    let change = json!({"metadata": {"finalizers": finalizers}});
    assert_eq!(call(&kubectl.client(), "PATCH", path, Some(&change)).await.0, 200);
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn delete_cascades_in_background_foreground_or_orphans() {
    let Some(kubectl) = Kubectl::start().await else { return };
    for name in ["back", "fore", "orphan"] {
        family(&kubectl, name).await;
    }
    let delete = |name: &str, how: &str| {
        let said = kubectl.does(&["delete", "thing", name, how, "--timeout=60s"]);
        assert_eq!(said, format!("thing.kubectl.example \"{name}\" deleted\n"));
    };
    delete("back", "--cascade=background");
    kubectl.does(&["wait", "--for=delete", "cm/back-map", "--timeout=60s"]);

    let map = format!("{MAPS}/fore-map");
    hold(&kubectl, &map, json!(["kubectl.example/held"])).await;
    let no_wait = ["delete", "thing", "fore", "--cascade=foreground", "--wait=false"];
    kubectl.does(&no_wait);
    let waits = kubectl.ends(&["wait", "--for=delete", "thing/fore", "--timeout=1s"]);
    assert!(!waits.well && waits.err.contains("timed out"), "{waits:?}");
    let finalizers = kubectl.shows("thing/fore")["metadata"]["finalizers"].clone();
    assert_eq!(finalizers, json!(["foregroundDeletion"]));
    hold(&kubectl, &map, Value::Null).await;
    kubectl.does(&["wait", "--for=delete", "thing/fore", "--timeout=60s"]);
    assert_eq!(call(&kubectl.client(), "GET", &map, None).await.0, 404);

    delete("orphan", "--cascade=orphan");
    assert_eq!(kubectl.shows("cm/orphan-map")["metadata"]["ownerReferences"], Value::Null);
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_wait_sees_a_deletion() {
    let Some(kubectl) = Kubectl::start().await else { return };
    family(&kubectl, "one").await;
    let path = format!("{THINGS}/one");
    hold(&kubectl, &path, json!(["kubectl.example/held"])).await;
    kubectl.does(&["delete", "thing", "one", "--wait=false"]);
    let waiting = kubectl.command(&["wait", "--for=delete", "thing/one", "--timeout=60s"]).spawn();
    let waiting = waiting.expect("kubectl");
    hold(&kubectl, &path, Value::Null).await;
    let ended = waiting.wait_with_output().expect("its end");
    assert!(ended.status.success(), "{ended:?}");
}

// Requirement: AK-13
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_is_deleted_with_its_content() {
    let Some(kubectl) = Kubectl::start().await else { return };
    assert_eq!(kubectl.does(&["create", "namespace", "room"]), "namespace/room created\n");
    let literal = ["create", "configmap", "map", "-n", "room", "--from-literal=a=1"];
    assert_eq!(kubectl.does(&literal), "configmap/map created\n");
    let secret = ["create", "secret", "generic", "key", "-n", "room", "--from-literal=a=1"];
    assert_eq!(kubectl.does(&secret), "secret/key created\n");
    let path = kubectl.write("thing.json", &thing("one", &json!({"size": 1})));
    kubectl.does(&["create", "-n", "room", "-f", &path]);
    let said = kubectl.does(&["delete", "namespace", "room", "--timeout=60s"]);
    assert_eq!(said, "namespace \"room\" deleted\n");
    let none = kubectl.does(&["get", "things,cm,secrets", "-A", "-o", "name"]);
    assert_eq!(none, "");
    let protected = kubectl.ends(&["delete", "namespace", "default"]);
    assert!(!protected.well && protected.err.contains("Forbidden"), "{protected:?}");
}
