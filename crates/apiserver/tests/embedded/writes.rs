//! Writes that a real server refuses, and what it records of them.

use http_body_util::BodyExt as _;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::call;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const KEY: &str = "kubectl.kubernetes.io/last-applied-configuration";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

async fn server() -> ApiServer {
    ApiServer::builder().build().await.expect("a server")
}

/// Applies a configuration; returns status and body.
async fn apply(server: &ApiServer, path: &str, text: &str) -> (u16, Value) {
    let request = hyper::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(Body::from(text.as_bytes().to_vec()))
        .expect("a request");
    let response = server.client().send(request).await.expect("a response");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

/// The fields of the causes of a refusal.
fn causes(answer: &Value) -> Vec<(&str, &str)> {
    let causes = answer["details"]["causes"].as_array().into_iter().flatten();
    causes
        .map(|cause| {
            (
                cause["field"].as_str().unwrap_or_default(),
                cause["reason"].as_str().unwrap_or_default(),
            )
        })
        .collect()
}

// Requirement: AK-44
#[tokio::test]
async fn a_put_with_the_uid_of_a_deleted_object_does_not_recreate_it() {
    let server = server().await;
    let client = server.client();
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
    });
    let (code, made) = call(&client, "POST", LEASES, Some(&lease)).await;
    assert_eq!(code, 201, "{made}");
    let path = format!("{LEASES}/a");
    assert_eq!(call(&client, "DELETE", &path, None).await.0, 200);
    let (code, answer) = call(&client, "PUT", &path, Some(&made)).await;
    let message = answer["message"].as_str().unwrap_or_default();
    let why = "Precondition failed: UID in precondition: ";
    assert!(code == 409 && message.contains(why), "{answer}");
    assert_eq!(call(&client, "GET", &path, None).await.0, 404);
    assert_eq!(call(&client, "PUT", &path, Some(&lease)).await.0, 201, "without a uid it is made");
}

// Requirement: AK-44
#[tokio::test]
async fn a_put_without_a_name_is_refused() {
    let server = server().await;
    let client = server.client();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(call(&client, "POST", MAPS, Some(&map)).await.0, 201);
    let unnamed = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let (code, answer) = call(&client, "PUT", &format!("{MAPS}/a"), Some(&unnamed)).await;
    let message = "the name of the object (a based on URL) was undeterminable: name must be \
                   provided";
    assert_eq!((code, &answer["message"]), (400, &json!(message)), "{answer}");
}

fn definition(versions: &[(&str, bool)], tags: &Value) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|(name, storage)| {
            json!({
                "name": name, "served": true, "storage": storage,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"tags": tags}}},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.writes.example"},
        "spec": {
            "group": "writes.example", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": versions,
        },
    })
}

// Requirement: AK-45
#[tokio::test]
async fn a_stored_version_cannot_be_dropped_from_a_definition() {
    let server = server().await;
    let client = server.client();
    let tags = json!({"type": "string"});
    let first = definition(&[("v1", true)], &tags);
    assert_eq!(call(&client, "POST", DEFINITIONS, Some(&first)).await.0, 201);
    let path = format!("{DEFINITIONS}/things.writes.example");
    let both = json!({"spec": definition(&[("v1", false), ("v2", true)], &tags)["spec"]});
    assert_eq!(call(&client, "PATCH", &path, Some(&both)).await.0, 200);
    let only = json!({"spec": definition(&[("v2", true)], &tags)["spec"]});
    let (code, answer) = call(&client, "PATCH", &path, Some(&only)).await;
    let wanted = vec![("status.storedVersions[0]", "FieldValueInvalid")];
    assert_eq!((code, causes(&answer)), (422, wanted), "{answer}");
    let why = "v1 was previously a storage version, and must remain in spec.versions";
    assert!(answer["message"].as_str().unwrap_or_default().contains(why), "{answer}");
}

// Requirement: AK-45
#[tokio::test]
async fn a_set_of_items_that_are_not_atomic_is_refused() {
    let at = "spec.validation.openAPIV3Schema.properties[tags].items";
    for (items, field) in [
        (json!({"type": "object"}), Some("x-kubernetes-map-type")),
        (
            json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
            Some("x-kubernetes-list-type"),
        ),
        (json!({"type": "object", "x-kubernetes-map-type": "atomic"}), None),
        (json!({"type": "array", "items": {"type": "string"}}), None),
        (json!({"type": "string"}), None),
    ] {
        let server = server().await;
        let tags = json!({"type": "array", "x-kubernetes-list-type": "set", "items": items});
        let given = definition(&[("v1", true)], &tags);
        let (code, answer) = call(&server.client(), "POST", DEFINITIONS, Some(&given)).await;
        let Some(field) = field else {
            assert_eq!(code, 201, "{items}: {answer}");
            continue;
        };
        let at = format!("{at}.{field}");
        assert_eq!(code, 422, "{items}: {answer}");
        assert_eq!(causes(&answer), vec![(at.as_str(), "FieldValueInvalid")]);
        let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
        assert!(answer["message"].as_str().unwrap_or_default().contains(why), "{answer}");
    }
}

// Requirement: AK-46
#[tokio::test]
async fn invalid_roles_are_refused() {
    let server = server().await;
    let client = server.client();
    let role = |kind: &str, rule: &Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "r"}, "rules": [rule],
        })
    };
    let required = "FieldValueRequired";
    let invalid = "FieldValueInvalid";
    let paths = json!({"verbs": ["get"], "nonResourceURLs": ["/a"]});
    let mixed = json!({"verbs": ["get"], "nonResourceURLs": ["/a"], "resources": ["pods"]});
    let url = ("rules[0].nonResourceURLs", invalid);
    let cases = [
        (
            "Role",
            json!({"apiGroups": [""], "resources": ["pods"]}),
            vec![("rules[0].verbs", required)],
        ),
        (
            "Role",
            json!({"verbs": ["get"]}),
            vec![("rules[0].apiGroups", required), ("rules[0].resources", required)],
        ),
        ("Role", paths.clone(), vec![url]),
        ("ClusterRole", mixed, vec![url]),
        ("ClusterRole", paths, vec![]),
    ];
    for (kind, rule, wanted) in cases {
        let path = match kind {
            "Role" => format!("{RBAC}/namespaces/default/roles"),
            _ => format!("{RBAC}/clusterroles"),
        };
        let (code, answer) = call(&client, "POST", &path, Some(&role(kind, &rule))).await;
        let fine = if wanted.is_empty() { 201 } else { 422 };
        assert_eq!((code, causes(&answer)), (fine, wanted), "{rule}: {answer}");
    }
}

// Requirement: AK-46
#[tokio::test]
async fn invalid_bindings_are_refused() {
    let server = server().await;
    let client = server.client();
    let binding = |kind: &str, role: &Value, subject: &Value| {
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
            "metadata": {"name": "b"}, "roleRef": role, "subjects": [subject],
        })
    };
    let role = json!({"kind": "Role", "name": "r"});
    let user = json!({"kind": "User", "name": "ann"});
    let (required, unsupported) = ("FieldValueRequired", "FieldValueNotSupported");
    for (kind, role, subject, wanted) in [
        ("ClusterRoleBinding", &role, &user, vec![("roleRef.kind", unsupported)]),
        (
            "RoleBinding",
            &json!({"kind": "Rolle", "name": "r"}),
            &user,
            vec![("roleRef.kind", unsupported)],
        ),
        (
            "RoleBinding",
            &json!({"kind": "Role", "name": ""}),
            &user,
            vec![("roleRef.name", required)],
        ),
        (
            "RoleBinding",
            &role,
            &json!({"kind": "Robot", "name": "x"}),
            vec![("subjects[0].kind", unsupported)],
        ),
        ("RoleBinding", &role, &json!({"kind": "User"}), vec![("subjects[0].name", required)]),
        (
            "ClusterRoleBinding",
            &json!({"kind": "ClusterRole", "name": "r"}),
            &json!({"kind": "ServiceAccount", "name": "x"}),
            vec![("subjects[0].namespace", required)],
        ),
        ("RoleBinding", &role, &user, vec![]),
    ] {
        let path = match kind {
            "RoleBinding" => format!("{RBAC}/namespaces/default/rolebindings"),
            _ => format!("{RBAC}/clusterrolebindings"),
        };
        let given = binding(kind, role, subject);
        let (code, answer) = call(&client, "POST", &path, Some(&given)).await;
        let fine = if wanted.is_empty() { 201 } else { 422 };
        assert_eq!((code, causes(&answer)), (fine, wanted), "{given}: {answer}");
    }
}

// Requirement: AK-47
#[tokio::test]
async fn events_are_selected_by_the_fields_of_their_api() {
    let server = server().await;
    let client = server.client();
    let events = "/apis/events.k8s.io/v1/namespaces/default/events";
    for (name, kind) in [("a", "ConfigMap"), ("b", "Secret")] {
        let event = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": name},
            "regarding": {"kind": kind, "name": "x", "namespace": "default"},
            "eventTime": "2026-01-01T00:00:00.000000Z", "type": "Normal", "reason": "Made",
            "action": "Make", "reportingController": "c.example/x", "reportingInstance": "i",
        });
        let (code, answer) = call(&client, "POST", events, Some(&event)).await;
        assert_eq!(code, 201, "{answer}");
    }
    let listed = |path: String| {
        let client = client.clone();
        async move {
            let (code, list) = call(&client, "GET", &path, None).await;
            let items = list["items"].as_array().into_iter().flatten();
            let names: Vec<String> =
                items.map(|item| item["metadata"]["name"].to_string()).collect();
            (code, names)
        }
    };
    let by = |field: &str| listed(format!("{events}?fieldSelector={field}"));
    assert_eq!(by("regarding.kind=Secret").await, (200, vec!["\"b\"".to_owned()]));
    assert_eq!(by("reportingController=c.example/x").await.1.len(), 2);
    assert_eq!(by("involvedObject.kind=Secret").await.0, 400);
    let core = "/api/v1/namespaces/default/events";
    let by_core = |field: &str| listed(format!("{core}?fieldSelector={field}"));
    assert_eq!(by_core("involvedObject.kind=Secret").await, (200, vec!["\"b\"".to_owned()]));
    assert_eq!(by_core("regarding.kind=Secret").await.0, 400);
}

// Requirement: AK-48
#[tokio::test]
async fn an_apply_in_yaml_may_give_a_key_twice_unless_it_is_strict() {
    let server = server().await;
    let text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  x: \"1\"\n  x: \"2\"\n";
    let path = |how: &str| format!("{MAPS}/a?fieldManager=m&fieldValidation={how}");
    let (code, answer) = apply(&server, &path("Strict"), text).await;
    let message = "error strict decoding patch: error converting YAML to JSON: yaml: unmarshal \
                   errors:\n  line 6: key \"x\" already set in map";
    assert_eq!((code, &answer["message"]), (400, &json!(message)), "{answer}");
    let (code, answer) = apply(&server, &path("Warn"), text).await;
    assert_eq!((code, &answer["data"]), (201, &json!({"x": "2"})), "{answer}");
}

// Requirement: AK-48
#[tokio::test]
async fn managed_fields_have_the_time_of_the_last_change() {
    let server = server().await;
    let client = server.client();
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"x": "1"},
    });
    let (_, made) = call(&client, "POST", MAPS, Some(&map)).await;
    let time = |object: &Value| object["metadata"]["managedFields"][0]["time"].clone();
    let path = format!("{MAPS}/a");
    let mut backdated = made.clone();
    backdated["metadata"]["managedFields"][0]["time"] = json!("2020-01-01T00:00:00Z");
    backdated["data"]["y"] = json!("1");
    let (_, before) = call(&client, "PUT", &path, Some(&backdated)).await;
    assert_ne!(time(&before), json!("2020-01-01T00:00:00Z"), "a new field: {before}");
    // The recorded time has seconds, so a change is made until it is another one.
    let advanced = async {
        for round in 2.. {
            let change = json!({"data": {"x": round.to_string()}});
            let (_, after) = call(&client, "PATCH", &path, Some(&change)).await;
            if time(&after) != time(&before) {
                let (_, same) = call(&client, "PATCH", &path, Some(&change)).await;
                return (after, same);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        unreachable!("an endless loop")
    };
    let patience = std::time::Duration::from_mins(1);
    let (after, same) = tokio::time::timeout(patience, advanced).await.expect("a new time");
    assert_eq!(after, same, "a patch that changes nothing keeps the time");
}

// Requirement: AK-49
#[tokio::test]
async fn kubectl_takes_over_what_its_client_side_apply_has_written() {
    let server = server().await;
    let client = server.client();
    let last = |value: &str| {
        let config = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "namespace": "default"}, "data": {"x": value},
        });
        format!("{config}\n")
    };
    let mut map: Value = serde_json::from_str(&last("1")).expect("JSON");
    map["metadata"]["annotations"] = json!({KEY: last("1")});
    let path = format!("{MAPS}?fieldManager=kubectl-client-side-apply");
    assert_eq!(call(&client, "POST", &path, Some(&map)).await.0, 201);
    let path = |manager: &str| format!("{MAPS}/a?fieldManager={manager}");
    let (code, answer) = apply(&server, &path("other"), &last("2")).await;
    assert_eq!((code, &answer["reason"]), (409, &json!("Conflict")), "{answer}");
    let (code, answer) = apply(&server, &path("kubectl"), &last("2")).await;
    assert_eq!((code, &answer["data"]), (200, &json!({"x": "2"})), "{answer}");
    assert_eq!(answer["metadata"]["annotations"][KEY], json!(last("2")));
    let change = json!({"data": {"x": "9"}});
    let path_of_other = format!("{MAPS}/a?fieldManager=hand");
    assert_eq!(call(&client, "PATCH", &path_of_other, Some(&change)).await.0, 200);
    let (code, answer) = apply(&server, &path("kubectl"), &last("3")).await;
    let message = "Apply failed with 1 conflict: conflict with \"hand\" using v1: .data.x";
    assert_eq!((code, &answer["message"]), (409, &json!(message)), "{answer}");
}
