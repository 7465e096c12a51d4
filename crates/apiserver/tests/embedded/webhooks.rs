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

/// The requests that a webhook was sent, without what differs from run to run.
async fn asked_by(deeds: impl AsyncFn(&ApiServer)) -> Vec<Value> {
    let server = ApiServer::builder().build().await.expect("a server");
    let hook = hook::start().await;
    let rules = json!({"rules": [{
        "operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"],
    }]});
    guard(&server, &configured(&hook, "allow", &rules)).await;
    deeds(&server).await;
    let asked = hook.asked.lock().expect("asked");
    asked.iter().map(|(_, review)| review["request"].clone()).collect()
}

async fn apply(server: &ApiServer, name: &str) -> u16 {
    let path = format!("{MAPS}/{name}?fieldManager=m&force=true");
    let body = map(name).to_string().into_bytes();
    let request = hyper::Request::patch(path)
        .header("content-type", "application/apply-patch+yaml")
        .body(kube_client::client::Body::from(body))
        .expect("a request");
    server.client().send(request).await.expect("a response").status().as_u16()
}

// Requirement: AK-50
#[tokio::test]
async fn reviews_have_the_options_of_their_operation() {
    let asked = asked_by(async |server| {
        assert_eq!(apply(server, "a").await, 201);
        let client = server.client();
        let change = json!({"metadata": {"labels": {"a": "b"}}});
        let path = format!("{MAPS}/a?fieldManager=m");
        assert_eq!(call(&client, "PATCH", &path, Some(&change)).await.0, 200);
        assert_eq!(apply(server, "a").await, 200);
    })
    .await;
    let options: Vec<(&Value, &Value)> =
        asked.iter().map(|request| (&request["operation"], &request["options"])).collect();
    let of =
        |kind: &str| json!({"kind": kind, "apiVersion": "meta.k8s.io/v1", "fieldManager": "m"});
    let (create, update) = (of("CreateOptions"), of("UpdateOptions"));
    let wanted =
        [(&json!("CREATE"), &create), (&json!("UPDATE"), &update), (&json!("UPDATE"), &update)];
    assert_eq!(options, wanted);
}

// Requirement: AK-50
#[tokio::test]
async fn a_review_of_a_generated_name_has_the_object_as_it_is_stored() {
    let stored = std::sync::Mutex::new(Value::Null);
    let asked = asked_by(async |server| {
        let made = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a-"},
        });
        let (code, object) = call(&server.client(), "POST", MAPS, Some(&made)).await;
        assert_eq!(code, 201);
        *stored.lock().expect("an object") = object;
    })
    .await;
    let mut stored = stored.into_inner().expect("an object");
    stored["metadata"].as_object_mut().expect("metadata").remove("resourceVersion");
    assert_eq!(asked[0]["object"], stored);
    assert_eq!(asked[0]["name"], stored["metadata"]["name"]);
}

// Requirement: AK-50
#[tokio::test]
async fn the_content_of_a_namespace_is_deleted_as_a_collection() {
    let asked = asked_by(async |server| {
        let client = server.client();
        let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
        assert_eq!(call(&client, "POST", "/api/v1/namespaces", Some(&room)).await.0, 201);
        let maps = "/api/v1/namespaces/room/configmaps";
        assert_eq!(call(&client, "POST", maps, Some(&map("a"))).await.0, 201);
        let path = "/api/v1/namespaces/room";
        assert_eq!(call(&client, "DELETE", path, None).await.0, 200);
        let gone = async {
            while call(&client, "GET", path, None).await.0 == 200 {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let patience = std::time::Duration::from_mins(1);
        tokio::time::timeout(patience, gone).await.expect("a deletion in time");
    })
    .await;
    let deletion = asked.iter().find(|request| request["operation"] == "DELETE");
    let deletion = deletion.expect("a deletion");
    assert_eq!((deletion.get("name"), &deletion["namespace"]), (None, &json!("room")));
}

// Requirement: AK-51
#[tokio::test]
async fn a_namespace_names_the_resources_whose_deletion_failed() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    assert_eq!(call(&client, "POST", "/api/v1/namespaces", Some(&room)).await.0, 201);
    let maps = "/api/v1/namespaces/room/configmaps";
    for name in ["a", "b"] {
        assert_eq!(call(&client, "POST", maps, Some(&map(name))).await.0, 201);
    }
    let hook = hook::start().await;
    let rules = json!({"rules": [{
        "operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }]});
    guard(&server, &configured(&hook, "deny", &rules)).await;
    assert_eq!(call(&client, "DELETE", "/api/v1/namespaces/room", None).await.0, 200);
    let conditions = async {
        loop {
            let (_, space) = call(&client, "GET", "/api/v1/namespaces/room", None).await;
            if let Some(list) = space["status"]["conditions"].as_array() {
                return list.clone();
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let patience = std::time::Duration::from_mins(1);
    let conditions = tokio::time::timeout(patience, conditions).await.expect("conditions");
    let of = |kind: &str| {
        let found = conditions.iter().find(|condition| condition["type"] == kind);
        let found = found.expect("a condition");
        (found["status"].clone(), found["reason"].clone(), found["message"].clone())
    };
    let (status, reason, message) = of("NamespaceDeletionContentFailure");
    assert_eq!((status, reason), (json!("True"), json!("ContentDeletionFailed")));
    let start = "Failed to delete all resource types, 1 remaining: admission webhook";
    assert!(message.as_str().unwrap_or_default().starts_with(start), "{message}");
    let wanted = ("False", "ContentRemoved", "All content successfully removed");
    let wanted = (json!(wanted.0), json!(wanted.1), json!(wanted.2));
    assert_eq!(of("NamespaceContentRemaining"), wanted);
}

/// A configuration of a webhook that is given by its service.
fn by_service(hook: &Hook) -> Value {
    let mut configuration = configured(hook, "deny", &json!({}));
    let reference = json!({"namespace": "room", "name": "guard", "path": "/deny", "port": 8443});
    let webhook = &mut configuration["webhooks"][0];
    webhook["clientConfig"] = json!({"service": reference, "caBundle": hook.authority});
    webhook["rules"] = json!([{
        "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
        "resources": ["configmaps"],
    }]);
    configuration
}

/// An `Endpoints` object and an `EndpointSlice` that lead to a port of this machine.
fn endpoints(port: u16) -> [Value; 2] {
    let plain = json!({
        "apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "guard"},
        "subsets": [{"addresses": [{"ip": "127.0.0.1"}], "ports": [
            {"name": "other", "port": 1}, {"name": "hooks", "port": port},
        ]}],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "guard-1", "labels": {"kubernetes.io/service-name": "guard"}},
        "endpoints": [
            {"addresses": ["127.0.0.9"], "conditions": {"ready": false}},
            {"addresses": ["127.0.0.1"]},
        ],
        "ports": [{"name": "hooks", "port": port}],
    });
    [plain, slice]
}

// Requirement: AK-72
#[tokio::test]
async fn a_webhook_is_reached_by_its_service() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    let hook = hook::start().await;
    guard(&server, &by_service(&hook)).await;
    let create = async |path: &str, object: Value| {
        let (code, answer) = call(&client, "POST", path, Some(&object)).await;
        assert_eq!(code, 201, "{answer}");
    };
    let refused = async || {
        let (_, status) = call(&client, "POST", MAPS, Some(&map("a"))).await;
        status["message"].as_str().expect("a message").to_owned()
    };
    let failed = "Internal error occurred: failed calling webhook \"hook.guard.example\": failed \
                  to call webhook: ";
    assert_eq!(refused().await, format!("{failed}service \"guard\" not found"));
    let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    create("/api/v1/namespaces", room).await;
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "guard"},
        "spec": {"ports": [{"name": "hooks", "port": 8443}, {"name": "other", "port": 80}]},
    });
    create("/api/v1/namespaces/room/services", service).await;
    assert_eq!(refused().await, format!("{failed}no endpoints available for service \"guard\""));
    let port = hook.url.rsplit(':').next().expect("a port").parse().expect("a number");
    let denied = "admission webhook \"hook.guard.example\" denied the request: still in use by \
                  corpus/other";
    let [plain, slice] = endpoints(port);
    create("/api/v1/namespaces/room/endpoints", plain).await;
    assert_eq!(refused().await, denied);
    let path = "/api/v1/namespaces/room/endpoints/guard";
    assert_eq!(call(&client, "DELETE", path, None).await.0, 200);
    create("/apis/discovery.k8s.io/v1/namespaces/room/endpointslices", slice).await;
    assert_eq!(refused().await, denied);
    let path = "/api/v1/namespaces/room/services/guard";
    let (_, service) = call(&client, "GET", path, None).await;
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 8443, "{service}");
    let moved = json!({"spec": {"ports": [{"name": "hooks", "port": 443}]}});
    assert_eq!(call(&client, "PATCH", path, Some(&moved)).await.0, 200);
    let wanted = format!("{failed}no service port 8443 found for service \"guard\"");
    assert_eq!(refused().await, wanted);
}
