//! Which errors a refusal lists, how often and in which order: seen on a real server.

use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::ApiServer;

use crate::differences::{ask, causes, fields, patch, post, server};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const SIZED: &str = "/apis/sized.example/v1/namespaces/default/things";

/// Creates an object and changes its metadata in a bad way; returns the fields of the errors.
async fn refused(server: &ApiServer, (path, body): (&str, &Value), metadata: &Value) -> String {
    let mut body = body.clone();
    body["metadata"] = json!({"name": "bad"});
    let code = post(server, path, &body).await.0;
    assert!(code == 201 || code == 409, "{path}: {code}");
    let change = json!({"metadata": metadata});
    let (code, answer) = patch(server, &format!("{path}/bad"), MERGE, &change).await;
    assert_eq!(code, 422, "{answer}");
    fields(&answer).join(" ").replace("metadata.", "")
}

// Requirement: AK-84
#[tokio::test]
async fn errors_of_metadata_are_repeated_by_the_rules_of_the_kind() {
    let server = server().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let slices = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    let of = |version: &str, kind: &str| json!({"apiVersion": version, "kind": kind});
    let mut slice = of("discovery.k8s.io/v1", "EndpointSlice");
    slice["addressType"] = json!("IPv4");
    slice["endpoints"] = json!([]);
    let first = "labels finalizers uid labels";
    let cases = [
        (
            "/api/v1/namespaces/default/configmaps",
            of("v1", "ConfigMap"),
            "uid labels finalizers[1] labels finalizers finalizers[1]",
        ),
        (
            "/api/v1/namespaces/default/serviceaccounts",
            of("v1", "ServiceAccount"),
            "uid labels finalizers[1] labels finalizers finalizers[1]",
        ),
        (
            rbac,
            of("rbac.authorization.k8s.io/v1", "Role"),
            "labels finalizers finalizers[1] uid labels finalizers[1]",
        ),
        (slices, slice, "labels finalizers finalizers[1]"),
        (
            hooks,
            of("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"),
            "labels finalizers",
        ),
        (
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            of("coordination.k8s.io/v1", "Lease"),
            "uid labels",
        ),
        (
            "/apis/differ.example/v1/namespaces/default/gadgets",
            of("differ.example/v1", "Gadget"),
            "uid labels",
        ),
    ];
    for (path, body, again) in cases {
        let bad = json!({"labels": {"bad key!": "a"}, "uid": "x", "finalizers": ["a b/c", "nos"]});
        let found = refused(&server, (path, &body), &bad).await;
        assert_eq!(found, format!("{first} {again}"), "{path}");
    }
    // No domain is needed where only the rules of all kinds look.
    let lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/bad";
    let held = json!({"metadata": {"finalizers": ["nos"]}});
    assert_eq!(patch(&server, lease, MERGE, &held).await.0, 200);
}

/// A server with a CRD that has a scale and a status.
pub(crate) async fn sized() -> ApiServer {
    let server = server().await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.sized.example"},
        "spec": {
            "group": "sized.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": {"status": {}, "scale": {
                    "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.seen",
                    "labelSelectorPath": ".status.selector",
                }},
                "schema": {"openAPIV3Schema": {"type": "object",
                    "x-kubernetes-validations": [{"rule": "self.spec.size < 9"}], "properties": {
                    "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
                    "status": {"type": "object", "properties": {
                        "seen": {"type": "integer"}, "selector": {"type": "string"},
                    }},
                }}},
            }],
        },
    });
    assert_eq!(post(&server, DEFINITIONS, &definition).await.0, 201);
    let ready = async {
        while ask(&server, ("GET", SIZED), (JSON, JSON), &Value::Null).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), ready).await.expect("the kind is served");
    server
}

// Requirement: AK-87
#[tokio::test]
async fn what_a_scale_stands_for_is_a_count_and_a_selector() {
    let server = sized().await;
    let thing = |spec: Value| {
        json!({"apiVersion": "sized.example/v1", "kind": "Thing", "metadata": {"name": "t"},
               "spec": spec})
    };
    let accessor = |path: &str, what: &str| format!("{path} accessor error: {what}");
    for (spec, shown, why) in [
        (json!({"size": -1}), "-1", "should be a non-negative integer".to_owned()),
        (
            json!({"size": 1_i64 << 40}),
            "1099511627776",
            "should be less than or equal to 2147483647".to_owned(),
        ),
        (
            json!({"size": "big"}),
            "0",
            accessor(".spec.size", "big is of the type string, expected int64"),
        ),
        (
            json!("x"),
            "0",
            accessor(".spec.size", "x is of the type string, expected map[string]interface{}"),
        ),
    ] {
        let (code, answer) = post(&server, SIZED, &thing(spec)).await;
        assert_eq!(code, 422);
        let wanted = (".spec.size".to_owned(), format!("Invalid value: {shown}: {why}"));
        assert!(causes(&answer).contains(&wanted), "{answer}");
    }
    assert_eq!(post(&server, SIZED, &thing(json!({"size": 1}))).await.0, 201);
    let path = format!("{SIZED}/t/status");
    let change = json!({"status": {"seen": -1, "selector": 7}});
    let (code, answer) = patch(&server, &path, MERGE, &change).await;
    assert_eq!(code, 422);
    let of = |field: &str, message: &str| (field.to_owned(), message.to_owned());
    let selector = accessor(".status.selector", "7 is of the type int64, expected string");
    assert_eq!(
        causes(&answer)[..3],
        [
            of(
                "status.selector",
                "Invalid value: \"integer\": selector in body must be of type string: \"integer\""
            ),
            of(".status.seen", "Invalid value: -1: should be a non-negative integer"),
            of(".status.selector", &format!("Invalid value: \"\": {selector}")),
        ]
    );
    let (_, answer) = patch(&server, &path, MERGE, &json!({"status": "x"})).await;
    let message = "Invalid value: \"string\":  in body must be of type object: \"string\"";
    assert_eq!(causes(&answer)[0], of("status", message));
}

// Requirement: AK-87
#[tokio::test]
async fn rules_are_not_evaluated_on_an_object_without_a_name() {
    let server = sized().await;
    let nameless = json!({"apiVersion": "sized.example/v1", "kind": "Thing",
                          "metadata": null, "spec": {"size": 9}});
    let (code, answer) = post(&server, SIZED, &nameless).await;
    assert_eq!((code, fields(&answer)), (422, vec!["metadata.name", "<nil>"]), "{answer}");
}

// Requirement: AK-89
#[tokio::test]
async fn an_apply_of_another_type_is_refused_before_it_conflicts() {
    let server = sized().await;
    let applied = |spec: Value| {
        json!({"apiVersion": "sized.example/v1", "kind": "Thing", "metadata": {"name": "t"},
               "spec": spec})
    };
    assert_eq!(post(&server, SIZED, &applied(json!({"size": 1}))).await.0, 201);
    let path = format!("{SIZED}/t?fieldManager=m");
    let (code, answer) = patch(&server, &path, APPLY, &applied(json!({"size": "big"}))).await;
    let message = "failed to create typed patch object (/t; sized.example/v1, Kind=Thing): \
        .spec.size: expected numeric (int or float), got string";
    assert_eq!((code, answer["message"].as_str()), (500, Some(message)));
    let maps = "/api/v1/namespaces/default/configmaps/m?fieldManager=m";
    for (change, why) in [
        (
            json!({"data": {"k": 7}}),
            ".data.k: expected string, got &value.valueUnstructured{Value:7}",
        ),
        (json!({"immutable": "no"}), ".immutable: expected boolean, got &{no}"),
    ] {
        let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
        map.as_object_mut().expect("an object").extend(change.as_object().expect("one").clone());
        let (code, answer) = patch(&server, maps, APPLY, &map).await;
        let message =
            format!("failed to create typed patch object (/m; /v1, Kind=ConfigMap): {why}");
        assert_eq!((code, answer["message"].as_str()), (500, Some(message.as_str())));
    }
}

// Requirement: AK-88
#[tokio::test]
async fn a_strategic_patch_puts_its_items_first_unless_it_says_the_order() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    assert_eq!(post(&server, maps, &body).await.0, 201);
    let path = format!("{maps}/m");
    for (change, expected) in [
        (json!({"finalizers": ["e.x/a"]}), json!(["e.x/a"])),
        (json!({"finalizers": ["e.x/b"]}), json!(["e.x/b", "e.x/a"])),
        (
            json!({"finalizers": ["e.x/c"], "$setElementOrder/finalizers": ["e.x/a", "e.x/c"]}),
            json!(["e.x/b", "e.x/a", "e.x/c"]),
        ),
        (
            json!({"$setElementOrder/finalizers": ["e.x/c", "e.x/b"]}),
            json!(["e.x/a", "e.x/c", "e.x/b"]),
        ),
        (json!({"$deleteFromPrimitiveList/finalizers": ["e.x/b"]}), json!(["e.x/a", "e.x/c"])),
    ] {
        let (_, answer) = patch(&server, &path, STRATEGIC, &json!({"metadata": change})).await;
        assert_eq!(answer["metadata"]["finalizers"], expected, "{answer}");
    }
    let odd = json!({"finalizers": ["e.x/z"], "$setElementOrder/finalizers": ["e.x/c"]});
    let (code, answer) = patch(&server, &path, STRATEGIC, &json!({"metadata": odd})).await;
    let message = "The order in patch list:\n[e.x/z]\n doesn't match \
        $setElementOrder/finalizers list:\n[e.x/c]\n";
    assert_eq!((code, answer["message"].as_str()), (500, Some(message)));
}

// Requirement: AK-82
#[tokio::test]
async fn a_list_at_a_revision_with_a_limit_is_the_list_of_that_revision() {
    let server = server().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let get = async |query: String| {
        let path = format!("{maps}?{query}");
        ask(&server, ("GET", &path), (JSON, JSON), &Value::Null).await.1
    };
    let before = get(String::new()).await;
    let revision = before["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned();
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    assert_eq!(post(&server, maps, &body).await.0, 201);
    let count = |list: Value| list["items"].as_array().expect("items").len();
    assert_eq!(count(get(format!("resourceVersion={revision}")).await), 1);
    assert_eq!(count(get(format!("resourceVersion={revision}&limit=5")).await), 0);
    assert_eq!(count(get("resourceVersion=0&limit=5".to_owned()).await), 1);
}

/// The managers of an object: manager, operation, subresource and fields of the spec.
async fn managers(server: &ApiServer, path: &str) -> Vec<(String, String, String)> {
    let (_, object, _) = ask(server, ("GET", path), (JSON, JSON), &Value::Null).await;
    let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let fields = |entry: &Value| entry["fieldsV1"]["f:spec"].to_string();
    entries.map(|it| (text(&it["manager"]), text(&it["subresource"]), fields(it))).collect()
}

// Requirement: AK-83
#[tokio::test]
async fn a_scale_is_managed_only_if_the_field_was_and_is_not_zero() {
    let server = sized().await;
    let thing = json!({"apiVersion": "sized.example/v1", "kind": "Thing",
                       "metadata": {"name": "t"}, "spec": {"size": 1}});
    let path = format!("{SIZED}/t");
    let scale = async |manager: &str, count: i64| {
        let path = format!("{path}/scale?fieldManager={manager}");
        let (code, _) = patch(&server, &path, MERGE, &json!({"spec": {"replicas": count}})).await;
        assert_eq!(code, 200);
        managers(&server, &format!("{SIZED}/t")).await
    };
    let entry = |manager: &str, part: &str, fields: Value| {
        (manager.to_owned(), part.to_owned(), fields.to_string())
    };
    assert_eq!(post(&server, &format!("{SIZED}?fieldManager=m1"), &thing).await.0, 201);
    let (own, rest) = (json!({"f:size": {}}), json!({}));
    assert_eq!(scale("m2", 1).await, [entry("m1", "", own.clone()), entry("m1", "", rest.clone())]);
    assert_eq!(scale("m3", 2).await, [entry("m1", "", rest.clone())], "of entries the last counts");
    let applied = format!("{path}?fieldManager=m4&force=true");
    assert_eq!(patch(&server, &applied, APPLY, &thing).await.0, 200);
    let scaled = [entry("m5", "scale", own), entry("m1", "", rest.clone())];
    assert_eq!(scale("m5", 3).await, scaled);
    assert_eq!(scale("m5", 3).await, scaled);
    assert_eq!(scale("m6", 0).await, [entry("m1", "", rest.clone())]);
    assert_eq!(scale("m6", 4).await, [entry("m1", "", rest)]);
}

// Requirement: AK-83
#[tokio::test]
async fn an_empty_list_of_managers_clears_those_of_built_in_objects() {
    let server = sized().await;
    let maps = "/api/v1/namespaces/default/configmaps";
    let mut map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"},
                         "data": {"k": "1"}});
    let (_, made) = post(&server, maps, &map).await;
    assert!(made["metadata"]["managedFields"].is_array());
    map["metadata"]["managedFields"] = json!([]);
    map["data"]["k"] = json!("2");
    let (code, put, _) = ask(&server, ("PUT", &format!("{maps}/m")), (JSON, JSON), &map).await;
    assert_eq!((code, &put["metadata"]["managedFields"]), (200, &Value::Null));
}
