//! `ValidatingAdmissionPolicy` and its bindings.

use std::sync::{Arc, Mutex};

use http_body_util::BodyExt as _;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::call;
use crate::limits::{defined, definition};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates an object; status and answer.
async fn create(server: &ApiServer, path: &str, object: &Value) -> (u16, Value) {
    call(&server.client(), "POST", path, Some(object)).await
}

fn policy(name: &str, rest: &Value) -> Value {
    let rules = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["configmaps"],
    }]);
    let mut spec = json!({"matchConstraints": {"resourceRules": rules}});
    spec.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": spec,
    })
}

fn binding(name: &str, of: &str, actions: &[&str], rest: &Value) -> Value {
    let mut spec = json!({"policyName": of, "validationActions": actions});
    spec.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name},
        "spec": spec,
    })
}

/// A server with a policy and a binding.
async fn server_with(rest: &Value, actions: &[&str], bound: &Value) -> ApiServer {
    let server = ApiServer::builder().build().await.expect("a server");
    enforce(&server, rest, actions, bound).await;
    server
}

async fn enforce(server: &ApiServer, rest: &Value, actions: &[&str], bound: &Value) {
    let path = format!("{ADMISSION}/validatingadmissionpolicies");
    let (code, answer) = create(server, &path, &policy("p", rest)).await;
    assert_eq!(code, 201, "{answer}");
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let (code, answer) = create(server, &path, &binding("b", "p", actions, bound)).await;
    assert_eq!(code, 201, "{answer}");
}

fn map(name: &str, data: &Value) -> Value {
    let metadata = json!({"name": name, "labels": {"app": name}});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
}

fn denied(name: &str, why: &str) -> Value {
    json!(format!(
        "configmaps \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied \
         request: {why}"
    ))
}

// Requirement: AK-70
#[tokio::test]
async fn a_policy_denies_with_its_message_reason_and_code() {
    let rules = json!({
        "variables": [
            {"name": "size", "expression": "has(object.data) ? size(object.data) : 0"},
            {"name": "broken", "expression": "object.data.none"},
        ],
        "validations": [
            {"expression": "variables.size < 3", "message": " too many ", "reason": "Forbidden"},
            {"expression": "!has(object.data) || !('bad' in object.data)",
             "messageExpression": "'bad is ' + object.data.bad"},
            {"expression": "object.metadata.name != 'c'"},
            {"expression": "object.metadata.name != 'd' || variables.broken == 'x'"},
        ],
    });
    let server = server_with(&rules, &["Deny"], &json!({})).await;
    let cases = [
        ("a", json!({"a": "", "b": "", "c": ""}), 403, "Forbidden", "too many"),
        ("b", json!({"bad": "here"}), 422, "Invalid", "bad is here"),
        ("c", json!({}), 422, "Invalid", "failed expression: object.metadata.name != 'c'"),
    ];
    for (name, data, wanted, reason, why) in cases {
        let (code, status) = create(&server, MAPS, &map(name, &data)).await;
        let message = denied(name, why);
        assert_eq!((code, &status["message"]), (wanted, &message));
        assert_eq!(status["reason"], reason);
        let cause = status["details"]["causes"][0]["message"].as_str().expect("a cause");
        assert!(message.as_str().expect("a text").ends_with(cause), "{status}");
    }
    let (_, status) = create(&server, MAPS, &map("d", &json!({}))).await;
    let message = status["message"].as_str().expect("a message");
    assert!(message.contains("composited variable \"broken\" fails to evaluate: "), "{message}");
    assert_eq!(create(&server, MAPS, &map("e", &json!({"a": ""}))).await.0, 201);
    let change = json!({"data": {"b": "", "c": ""}});
    let path = format!("{MAPS}/e");
    assert_eq!(call(&server.client(), "PATCH", &path, Some(&change)).await.0, 403);
    assert_eq!(call(&server.client(), "DELETE", &path, None).await.0, 200, "not constrained");
}

// Requirement: AK-70
#[tokio::test]
async fn a_policy_sees_the_request_the_old_object_and_the_namespace() {
    let rules = json!({
        "matchConditions": [
            {"name": "changes", "expression": "request.operation == 'UPDATE'"},
        ],
        "validations": [
            {"expression": "object.data.k == oldObject.data.k", "message": "k is fixed"},
            {"expression": "request.userInfo.username == 'admin' && !has(request.object)"},
            {"expression": "namespaceObject.metadata.name == request.namespace"},
        ],
    });
    let server = server_with(&rules, &["Deny"], &json!({})).await;
    assert_eq!(create(&server, MAPS, &map("a", &json!({"k": "1"}))).await.0, 201);
    let path = format!("{MAPS}/a");
    let change = async |data: Value| {
        call(&server.client(), "PATCH", &path, Some(&json!({"data": data}))).await
    };
    assert_eq!(change(json!({"l": "1"})).await.0, 200);
    let (code, status) = change(json!({"k": "2"})).await;
    assert_eq!((code, &status["message"]), (422, &denied("a", "k is fixed")));
}

/// Red by: a policy for everything that answers `kubectl auth can-i`.
// Requirement: AK-70
#[tokio::test]
async fn a_policy_for_everything_judges_no_review() {
    let everything = json!([{
        "apiGroups": ["*"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"],
    }]);
    let rules = json!({
        "matchConstraints": {"resourceRules": everything},
        "validations": [{"expression": "false"}],
    });
    let server = server_with(&rules, &["Deny"], &json!({})).await;
    assert_eq!(create(&server, MAPS, &map("a", &json!({}))).await.0, 422);
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let review = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "configmaps"}},
    });
    let (code, answer) = create(&server, reviews, &review).await;
    assert_eq!((code, &answer["status"]["allowed"]), (201, &json!(true)), "{answer}");
}

// Requirement: AK-70
#[tokio::test]
async fn selectors_and_excluded_rules_limit_a_binding() {
    let excluded = json!([{
        "apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"],
        "resources": ["configmaps"], "resourceNames": ["exempt"],
    }]);
    let bound = json!({"matchResources": {
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
        "objectSelector": {"matchExpressions": [
            {"key": "app", "operator": "NotIn", "values": ["free"]},
        ]},
        "excludeResourceRules": excluded,
    }});
    let rules = json!({"validations": [{"expression": "false"}]});
    let server = server_with(&rules, &["Deny"], &bound).await;
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    for (path, name, wanted) in
        [(MAPS, "a", 422), (MAPS, "free", 201), (MAPS, "exempt", 201), (elsewhere, "a", 201)]
    {
        assert_eq!(create(&server, path, &map(name, &json!({}))).await.0, wanted, "{path} {name}");
    }
}

// Requirement: AK-70
#[tokio::test]
async fn parameters_come_from_config_maps_and_custom_resources() {
    let server = ApiServer::builder().build().await.expect("a server");
    defined(&server.client(), &definition("limits.example", "caps", "Cap")).await;
    let rules = json!({
        "paramKind": {"apiVersion": "limits.example/v1", "kind": "Cap"},
        "matchConditions": [{"name": "no-params", "expression": "request.name != 'caps'"}],
        "validations": [{
            "expression": "params != null && size(object.data) <= params.max",
            "messageExpression": "'at most ' + string(params.max)",
        }],
    });
    let reference = json!({"paramRef": {
        "selector": {"matchLabels": {"on": "yes"}}, "parameterNotFoundAction": "Deny",
    }});
    enforce(&server, &rules, &["Deny"], &reference).await;
    let two = json!({"a": "", "b": ""});
    let (code, status) = create(&server, MAPS, &map("a", &two)).await;
    let missing = "failed to configure binding: no params found for policy binding with `Deny` \
                   parameterNotFoundAction";
    assert_eq!((code, &status["message"]), (422, &denied("a", missing)));
    let caps = "/apis/limits.example/v1/namespaces/default/caps";
    let cap = |name: &str, max: u64| {
        json!({
            "apiVersion": "limits.example/v1", "kind": "Cap", "max": max,
            "metadata": {"name": name, "labels": {"on": "yes"}},
        })
    };
    assert_eq!(create(&server, caps, &cap("wide", 2)).await.0, 201);
    assert_eq!(create(&server, MAPS, &map("a", &two)).await.0, 201);
    assert_eq!(create(&server, caps, &cap("narrow", 1)).await.0, 201);
    let (code, status) = create(&server, MAPS, &map("b", &two)).await;
    assert_eq!((code, &status["message"]), (422, &denied("b", "at most 1")), "each counts");
}

// Requirement: AK-70
#[tokio::test]
async fn a_failed_evaluation_denies_unless_it_is_ignored() {
    for (failure, wanted) in [("Fail", 422), ("Ignore", 201)] {
        let rules = json!({
            "failurePolicy": failure,
            "validations": [{"expression": "object.data.none == 'x'"}],
        });
        let server = server_with(&rules, &["Deny"], &json!({})).await;
        let (code, status) = create(&server, MAPS, &map("a", &json!({}))).await;
        assert_eq!(code, wanted, "{status}");
        if code == 422 {
            let message = status["message"].as_str().expect("a message");
            let why = "expression 'object.data.none == 'x'' resulted in error: ";
            assert!(message.contains(why), "{message}");
        }
    }
}

// Requirement: AK-70
#[tokio::test]
async fn a_binding_that_warns_or_audits_admits() {
    let lines: Arc<Mutex<Vec<Value>>> = Arc::default();
    let kept = lines.clone();
    let audit = move |line: &str| {
        kept.lock().expect("lines").push(serde_json::from_str(line).expect("JSON"));
    };
    let server = ApiServer::builder().audit(audit).build().await.expect("a server");
    let rules = json!({"validations": [{"expression": "false", "message": "never"}]});
    enforce(&server, &rules, &["Warn", "Audit"], &json!({})).await;
    let body = Body::from(map("a", &json!({})).to_string().into_bytes());
    let request = hyper::Request::post(MAPS).header("content-type", "application/json");
    let response = server.client().send(request.body(body).expect("a request")).await;
    let response = response.expect("a response");
    assert_eq!(response.status(), 201);
    let warning = response.headers()["warning"].to_str().expect("a text").to_owned();
    let wanted = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': \
                  never\"";
    assert_eq!(warning, wanted);
    drop(response.into_body().collect().await);
    let lines = lines.lock().expect("lines").clone();
    let found: Vec<&Value> = lines.iter().filter(|line| line["policy"] == "p").collect();
    assert_eq!((found.len(), &found[0]["message"]), (1, &json!("never")));
}

// Requirement: AK-71
#[tokio::test]
async fn policies_and_bindings_that_make_no_sense_are_refused() {
    let server = ApiServer::builder().build().await.expect("a server");
    let policies = format!("{ADMISSION}/validatingadmissionpolicies");
    let says = |expression: &str| json!({"validations": [{"expression": expression}]});
    let cases = [
        (says("authorizer.path('/x').check('get').allowed()"), "this server has no variable"),
        (says("params.max > 1"), "undeclared reference to 'params'"),
        (says("1 +"), "compilation failed"),
        (says(""), "spec.validations[0].expression: Required value"),
        (json!({"matchConstraints": null}), "spec.matchConstraints: Required value"),
        (json!({}), "validations or auditAnnotations must contain at least one item"),
        (
            json!({"validations": [{"expression": "true", "reason": "Gone"}]}),
            "spec.validations[0].reason: Unsupported value: \"Gone\"",
        ),
    ];
    for (rest, wanted) in cases {
        let (code, status) = create(&server, &policies, &policy("p", &rest)).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(wanted), "{rest}: {status}");
    }
    let bindings = format!("{ADMISSION}/validatingadmissionpolicybindings");
    let cases = [
        (&["Deny", "Warn"][..], json!({}), "must not contain both Deny and Warn"),
        (&[], json!({}), "spec.validationActions: Required value"),
        (&["Shout"], json!({}), "Unsupported value: \"Shout\""),
        (&["Deny"], json!({"paramRef": {"parameterNotFoundAction": "Deny"}}), "one of name or"),
    ];
    for (actions, rest, wanted) in cases {
        let (code, status) = create(&server, &bindings, &binding("b", "p", actions, &rest)).await;
        let message = status["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(wanted), "{rest}: {status}");
    }
}
