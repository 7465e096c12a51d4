//! Validating webhooks.

use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::call;
use crate::hook::{self, Hook};

const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A configuration of one webhook with a mode and additional fields.
pub(crate) fn configured(hook: &Hook, mode: &str, extra: &Value) -> Value {
    let mut webhook = json!({
        "name": "hook.guard.example",
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "clientConfig": {"url": format!("{}/{mode}", hook.url), "caBundle": hook.authority},
        "rules": [{
            "operations": ["CREATE"],
            "apiGroups": ["", "rbac.authorization.k8s.io"],
            "apiVersions": ["v1"],
            "resources": ["configmaps", "clusterroles"],
        }],
    });
    let fields = webhook.as_object_mut().expect("an object");
    fields.extend(extra.as_object().expect("an object").clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"},
        "webhooks": [webhook],
    })
}

pub(crate) async fn guard(server: &ApiServer, configuration: &Value) {
    let (code, response) = call(&server.client(), "POST", HOOKS, Some(configuration)).await;
    assert_eq!(code, 201, "{response}");
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

// Requirement: AK-30
#[tokio::test]
async fn a_webhook_sees_selected_namespaces_and_cluster_objects() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let hook = hook::start().await;
    let selector = json!({"namespaceSelector": {"matchLabels": {"guarded": "yes"}}});
    guard(&server, &configured(&hook, "deny", &selector)).await;
    let labels = json!({"guarded": "yes"});
    let room = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room", "labels": labels},
    });
    assert_eq!(call(&client, "POST", "/api/v1/namespaces", Some(&room)).await.0, 201);
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
        "metadata": {"name": "role"},
    });
    let roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
    for (path, object, wanted) in [
        (MAPS, map("a"), 201),
        ("/api/v1/namespaces/room/configmaps", map("a"), 403),
        (roles, role, 403),
    ] {
        assert_eq!(call(&client, "POST", path, Some(&object)).await.0, wanted, "{path}");
    }
    let asked = hook.asked.lock().expect("asked").len();
    assert_eq!(asked, 2);
}

// Requirement: AK-30
#[tokio::test]
async fn a_failed_match_condition_denies_unless_ignored() {
    for (policy, wanted) in [("Fail", 403), ("Ignore", 201)] {
        let server = ApiServer::builder().build().await.expect("a server");
        let hook = hook::start().await;
        let conditions = json!([{"name": "sized", "expression": "object.data.size == '1'"}]);
        let more = json!({"matchConditions": conditions, "failurePolicy": policy});
        guard(&server, &configured(&hook, "deny", &more)).await;
        let (code, response) = call(&server.client(), "POST", MAPS, Some(&map("a"))).await;
        assert_eq!(code, wanted, "{response}");
        assert!(hook.asked.lock().expect("asked").is_empty(), "{policy}");
    }
}

// Requirement: AK-30
#[tokio::test]
async fn an_invalid_match_condition_is_refused() {
    let server = ApiServer::builder().build().await.expect("a server");
    let hook = hook::start().await;
    let conditions = json!([{"name": "", "expression": "object.."}]);
    let configuration = configured(&hook, "allow", &json!({"matchConditions": conditions}));
    let (code, response) = call(&server.client(), "POST", HOOKS, Some(&configuration)).await;
    let causes = response["details"]["causes"].as_array().into_iter().flatten();
    let causes: Vec<(&Value, &Value)> =
        causes.map(|cause| (&cause["reason"], &cause["field"])).collect();
    let at = |field: &str| json!(format!("webhooks[0].matchConditions[0].{field}"));
    let wanted = [
        (&json!("FieldValueRequired"), &at("name")),
        (&json!("FieldValueInvalid"), &at("expression")),
    ];
    assert_eq!((code, causes.as_slice()), (422, wanted.as_slice()), "{response}");
}

// Requirement: AK-30
#[tokio::test]
async fn a_webhook_with_another_ca_is_not_trusted() {
    let server = ApiServer::builder().build().await.expect("a server");
    let (hook, other) = (hook::start().await, hook::start().await);
    let client = json!({"url": format!("{}/allow", hook.url), "caBundle": other.authority});
    let more = json!({"clientConfig": client});
    guard(&server, &configured(&hook, "allow", &more)).await;
    let (code, response) = call(&server.client(), "POST", MAPS, Some(&map("a"))).await;
    assert_eq!((code, &response["reason"]), (500, &json!("InternalError")), "{response}");
    assert!(hook.asked.lock().expect("asked").is_empty());
}
