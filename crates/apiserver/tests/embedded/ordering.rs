//! In which order a write is checked, and what a dry run returns: seen on a real server.

use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};

use crate::differences::{ask, patch, post, send_as, server};
use crate::validation::{SIZED, sized};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
const GADGETS: &str = "/apis/differ.example/v1/namespaces/default/gadgets";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

fn map(metadata: impl Into<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata.into()})
}

/// Gives a user rights to config maps, and those to finalizers of gadgets if wanted.
async fn allow(server: &ApiServer, verbs: &[&str], finalizers: bool) -> User {
    let mut rules = vec![json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"]})];
    if finalizers {
        rules.push(json!({"verbs": ["update"], "apiGroups": ["differ.example"],
                          "resources": ["gadgets/finalizers"]}));
    }
    let group = "rbac.authorization.k8s.io";
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "ClusterRole",
                      "metadata": {"name": "some"}, "rules": rules});
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "ClusterRoleBinding",
        "metadata": {"name": "some"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "some"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "some"}],
    });
    assert_eq!(post(server, &format!("{RBAC}/clusterroles"), &role).await.0, 201);
    assert_eq!(post(server, &format!("{RBAC}/clusterrolebindings"), &binding).await.0, 201);
    User::with_groups("some", &["system:authenticated"])
}

fn owner(kind: &str, uid: u8, blocks: bool) -> Value {
    json!({"apiVersion": "differ.example/v1", "kind": kind, "name": "g",
           "uid": format!("00000000-0000-4000-8000-0000000000{uid:02}"),
           "blockOwnerDeletion": blocks})
}

// Requirement: AK-90
#[tokio::test]
async fn owners_are_set_with_the_rights_to_delete_and_to_update_the_owners_finalizers() {
    let server = server().await;
    let user = allow(&server, &["create", "patch"], false).await;
    let client = server.client_as(user);
    let create = async |name: &str, owner: Value| {
        let body = map(json!({"name": name, "ownerReferences": [owner]}));
        send_as(&client, ("POST", &format!("{MAPS}?dryRun=All")), (JSON, JSON), &body).await
    };
    assert_eq!(create("a", owner("Gadget", 1, false)).await.0, 201);
    let (code, answer, _) = create("a", owner("Gadget", 1, true)).await;
    let message = "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion if an \
        ownerReference refers to a resource you can't set finalizers on: , <nil>";
    assert_eq!((code, answer["message"].as_str()), (403, Some(message)));
    let (code, answer, _) = create("a", owner("Nothing", 1, true)).await;
    let message = "configmaps \"a\" is forbidden: cannot set blockOwnerDeletion in this case \
        because cannot find RESTMapping for APIVersion differ.example/v1 Kind Nothing: no matches \
        for kind \"Nothing\" in version \"differ.example/v1\"";
    assert_eq!((code, answer["message"].as_str()), (403, Some(message)));
    assert_eq!(post(&server, MAPS, &map(json!({"name": "b"}))).await.0, 201);
    let change = json!({"metadata": {"ownerReferences": [owner("Gadget", 1, false)]}});
    let path = format!("{MAPS}/b");
    let (code, answer, _) = send_as(&client, ("PATCH", &path), (MERGE, JSON), &change).await;
    let message = "configmaps \"b\" is forbidden: cannot set an ownerRef on a resource you can't \
        delete: , <nil>";
    assert_eq!((code, answer["message"].as_str()), (403, Some(message)));
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(send_as(&client, ("PATCH", &path), (MERGE, JSON), &label).await.0, 200);
}

// Requirement: AK-90
#[tokio::test]
async fn a_user_with_both_rights_sets_owners_that_block() {
    let server = server().await;
    let user = allow(&server, &["create", "patch", "delete"], true).await;
    let client = server.client_as(user);
    assert_eq!(post(&server, MAPS, &map(json!({"name": "b"}))).await.0, 201);
    let change = json!({"metadata": {"ownerReferences": [owner("Gadget", 1, true)]}});
    let path = format!("{MAPS}/b?dryRun=All");
    assert_eq!(send_as(&client, ("PATCH", &path), (MERGE, JSON), &change).await.0, 200);
}

/// Red by: a right in the namespace of the object that counts for an owner in no namespace.
// Requirement: AK-90
#[tokio::test]
async fn a_right_in_a_namespace_blocks_no_owner_of_the_cluster() {
    let server = server().await;
    let group = "rbac.authorization.k8s.io";
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let role = json!({"apiVersion": format!("{group}/v1"), "kind": "Role",
                      "metadata": {"name": "all"}, "rules": all});
    let binding = json!({
        "apiVersion": format!("{group}/v1"), "kind": "RoleBinding", "metadata": {"name": "all"},
        "roleRef": {"apiGroup": group, "kind": "Role", "name": "all"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "tenant"}],
    });
    for (kind, body) in [("roles", &role), ("rolebindings", &binding)] {
        assert_eq!(post(&server, &format!("{RBAC}/namespaces/default/{kind}"), body).await.0, 201);
    }
    let client = server.client_as(User::with_groups("tenant", &["system:authenticated"]));
    let owned = |kind: &str| {
        map(json!({"name": "a", "ownerReferences": [{
            "apiVersion": format!("{group}/v1"), "kind": kind, "name": "all",
            "uid": "00000000-0000-4000-8000-000000000001", "blockOwnerDeletion": true,
        }]}))
    };
    for (kind, expected) in [("Role", 201), ("ClusterRole", 403)] {
        let sent = ("POST", &*format!("{MAPS}?dryRun=All"));
        assert_eq!(send_as(&client, sent, (JSON, JSON), &owned(kind)).await.0, expected, "{kind}");
    }
}

// Requirement: AK-91
#[tokio::test]
async fn what_creates_is_validated_before_the_right_to_create_and_the_revision() {
    let server = server().await;
    let user = allow(&server, &["patch"], false).await;
    let client = server.client_as(user);
    let path = format!("{MAPS}/a?fieldManager=m");
    let mut broken = map(json!({"name": "a"}));
    broken["data"] = json!({"bad key!": "1"});
    let apply =
        async |body: &Value| send_as(&client, ("PATCH", &path), (APPLY, JSON), body).await.0;
    assert_eq!(apply(&broken).await, 422);
    assert_eq!(apply(&map(json!({"name": "a"}))).await, 403);
    broken["metadata"]["resourceVersion"] = json!("7");
    assert_eq!(post(&server, MAPS, &broken).await.0, 422);
    let versioned = map(json!({"name": "a", "resourceVersion": "7"}));
    let (code, answer) = post(&server, MAPS, &versioned).await;
    let message = "resourceVersion should not be set on objects to be created";
    assert_eq!((code, answer["message"].as_str()), (500, Some(message)));
    let unparsable = map(json!({"name": "a", "resourceVersion": "x"}));
    assert_eq!(post(&server, MAPS, &unparsable).await.0, 201);
}

// Requirement: AK-91
#[tokio::test]
async fn a_dry_run_that_creates_returns_the_revision_it_was_given() {
    let server = server().await;
    let versioned = map(json!({"name": "a", "resourceVersion": "7"}));
    let (code, answer) = post(&server, &format!("{MAPS}?dryRun=All"), &versioned).await;
    assert_eq!((code, &answer["metadata"]["resourceVersion"]), (201, &json!("7")));
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                       "metadata": {"name": "l", "resourceVersion": "7"}});
    let path = format!("{LEASES}/l?dryRun=All");
    let (code, answer, _) = ask(&server, ("PUT", &path), (JSON, JSON), &lease).await;
    assert_eq!((code, &answer["metadata"]["resourceVersion"]), (201, &json!("7")));
}

// Requirement: AK-91
#[tokio::test]
async fn only_new_finalizers_are_warned_of() {
    let server = server().await;
    let gadget = json!({"apiVersion": "differ.example/v1", "kind": "Gadget",
                        "metadata": {"name": "g", "finalizers": ["noslash"]}});
    let warnings = async |method: &str, path: &str, media: &str, body: &Value| {
        ask(&server, (method, path), (media, JSON), body).await.2
    };
    assert_eq!(warnings("POST", GADGETS, JSON, &gadget).await, 1);
    let path = format!("{GADGETS}/g");
    let label = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(warnings("PATCH", &path, MERGE, &label).await, 0);
    let more = json!({"metadata": {"finalizers": ["noslash", "other"]}});
    assert_eq!(warnings("PATCH", &path, MERGE, &more).await, 1);
}

// Requirement: AK-88
#[tokio::test]
async fn a_strategic_patch_that_cannot_be_decoded_says_what_cannot_be_restored() {
    let server = server().await;
    assert_eq!(post(&server, MAPS, &map(json!({"name": "m"}))).await.0, 201);
    let path = format!("{MAPS}/m");
    for (change, shown, why) in [
        (
            json!({"metadata": {"finalizers": "x"}}),
            "map[metadata:map[finalizers:x]]",
            "cannot restore slice from string",
        ),
        (
            json!({"metadata": {"labels": ["x"]}}),
            "map[metadata:map[labels:[x]]]",
            "cannot restore map from slice",
        ),
        (
            json!({"metadata": {"labels": {"a": 1}}}),
            "map[metadata:map[labels:map[a:1]]]",
            "cannot convert int64 to string",
        ),
        (
            json!({"binaryData": {"$patch": "replace", "k": "s"}}),
            "map[binaryData:map[k:s]]",
            "error decoding from json: illegal base64 data at input byte 0",
        ),
    ] {
        let (code, answer) = patch(&server, &path, STRATEGIC, &change).await;
        let message = format!(" \"\" is invalid: patch: Invalid value: \"{shown}\": {why}");
        assert_eq!((code, answer["message"].as_str()), (422, Some(message.as_str())));
    }
    let (_, answer, _) = ask(&server, ("PATCH", &path), (STRATEGIC, JSON), &json!([1])).await;
    let message = "json: cannot unmarshal array into Go value of type map[string]interface {}";
    assert_eq!(answer["message"], message);
}

// Requirement: AK-83
#[tokio::test]
async fn duplicates_that_go_are_owned_by_none_and_conflicts_are_sorted_by_owner() {
    let server = server().await;
    let mut held = map(json!({"name": "m", "labels": {"l": "a"}, "finalizers": ["e.x/b"]}));
    let path = format!("{MAPS}/m");
    let apply = async |manager: &str, body: &Value| {
        let path = format!("{path}?fieldManager={manager}");
        patch(&server, &path, APPLY, body).await
    };
    assert_eq!(apply("m1", &held).await.0, 201);
    let doubled = json!({"metadata": {"finalizers": ["e.x/b", "e.x/b"]}});
    assert_eq!(patch(&server, &path, MERGE, &doubled).await.0, 200);
    let gone = json!({"metadata": {"finalizers": null}, "data": {"k": "1"}});
    let (_, object) = patch(&server, &format!("{path}?fieldManager=m1"), MERGE, &gone).await;
    let text = object["metadata"]["managedFields"].to_string();
    assert!(!text.contains("f:finalizers"), "{text}");
    held["data"] = json!({"k": "2"});
    held["metadata"] = json!({"name": "m", "labels": {"l": "b"}});
    let (code, answer) = apply("m2", &held).await;
    let message = "Apply failed with 2 conflicts: conflicts with \"m1\":\n- .metadata.labels.l\n\
        conflicts with \"m1\" using v1:\n- .data.k";
    assert_eq!((code, answer["message"].as_str()), (409, Some(message)));
}

// Requirement: AK-83
#[tokio::test]
async fn a_status_beside_a_mistyped_spec_is_written_without_managers() {
    let server = sized().await;
    let mut thing = json!({"apiVersion": "sized.example/v1", "kind": "Thing",
                           "metadata": {"name": "t"}, "spec": {"size": 1}});
    assert_eq!(post(&server, SIZED, &thing).await.0, 201);
    thing["spec"]["size"] = json!("big");
    thing["status"] = json!({"seen": 1});
    let path = format!("{SIZED}/t/status");
    let (code, answer) = patch(&server, &path, MERGE, &thing).await;
    assert_eq!((code, &answer["metadata"]["managedFields"]), (200, &Value::Null));
}

// Requirement: AK-91
#[tokio::test]
async fn a_put_of_another_kind_where_nothing_is_finds_nothing() {
    let server = server().await;
    let other = json!({"apiVersion": "differ.example/v1", "kind": "Other",
                       "metadata": {"name": "g"}});
    let put = async || ask(&server, ("PUT", &format!("{GADGETS}/g")), (JSON, JSON), &other).await.0;
    assert_eq!(put().await, 404);
    let mut gadget = other.clone();
    gadget["kind"] = json!("Gadget");
    assert_eq!(post(&server, GADGETS, &gadget).await.0, 201);
    assert_eq!(put().await, 422);
}

// Requirement: AK-91
#[tokio::test]
async fn an_apply_is_typed_before_its_name_is_compared() {
    let server = server().await;
    let mut body = map(json!({"name": "other"}));
    let path = format!("{MAPS}/m?fieldManager=m");
    assert_eq!(patch(&server, &path, APPLY, &body).await.0, 400);
    body["data"] = json!({"k": 1});
    assert_eq!(patch(&server, &path, APPLY, &body).await.0, 500);
}

// Requirement: AK-88
#[tokio::test]
async fn a_strategic_patch_merges_the_secrets_of_an_account_by_name() {
    let server = server().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"},
                         "secrets": [{"name": "a"}], "imagePullSecrets": [{"name": "a"}]});
    assert_eq!(post(&server, accounts, &account).await.0, 201);
    let change = json!({"secrets": [{"name": "b"}], "imagePullSecrets": [{"name": "b"}]});
    let (_, answer) = patch(&server, &format!("{accounts}/s"), STRATEGIC, &change).await;
    assert_eq!(answer["secrets"], json!([{"name": "b"}, {"name": "a"}]));
    assert_eq!(answer["imagePullSecrets"], json!([{"name": "b"}]));
}

// Requirement: AK-83
#[tokio::test]
async fn fields_before_the_first_apply_are_those_that_it_could_change() {
    let server = sized().await;
    let mut thing = json!({"apiVersion": "sized.example/v1", "kind": "Thing",
                           "metadata": {"name": "t"}, "spec": {"size": 1}});
    for part in ["", "/status"] {
        let path = format!("{SIZED}/t");
        assert_eq!(post(&server, SIZED, &thing).await.0, 201);
        let forget = json!({"metadata": {"managedFields": [{}]}});
        assert_eq!(patch(&server, &path, MERGE, &forget).await.0, 200);
        let seen = json!({"status": {"seen": 1}});
        assert_eq!(patch(&server, &format!("{path}/status"), MERGE, &seen).await.0, 200);
        let apply = format!("{path}{part}?fieldManager=m");
        let (_, object) = patch(&server, &apply, APPLY, &thing).await;
        let entries = object["metadata"]["managedFields"].as_array().into_iter().flatten();
        let mut before = entries.filter(|entry| entry["manager"] == "before-first-apply");
        let before = before.next().expect("an entry");
        let fields = before["fieldsV1"].as_object().expect("fields");
        let expected = if part.is_empty() { "f:spec" } else { "f:status" };
        assert!(fields.len() == 1 && fields.contains_key(expected), "{object}");
        ask(&server, ("DELETE", &path), (JSON, JSON), &Value::Null).await;
        thing["status"] = json!({"selector": "a=b"});
    }
}

// Requirement: AK-90
#[tokio::test]
async fn a_refused_list_names_what_its_selectors_select_if_both_can_be_read() {
    let server = server().await;
    let client = server.client_as(User::with_groups("some", &["system:authenticated"]));
    for (query, name) in [
        ("fieldSelector=metadata.name%3Dx", " \"x\""),
        ("fieldSelector=metadata.name%3Dx,metadata.namespace%3Dy", " \"x\""),
        ("fieldSelector=metadata.name!%3Dx", ""),
        ("fieldSelector=metadata.name%3Dx&labelSelector=l%20in", ""),
    ] {
        let path = format!("{MAPS}?{query}");
        let (_, answer, _) = send_as(&client, ("GET", &path), (JSON, JSON), &Value::Null).await;
        let start = format!("configmaps{name} is forbidden: ");
        assert!(answer["message"].as_str().is_some_and(|it| it.starts_with(&start)), "{answer}");
    }
}

// Requirement: AK-93
#[tokio::test]
async fn dependents_go_when_their_owner_begins_to_wait_although_it_stays() {
    let server = server().await;
    let (_, owner) = post(&server, MAPS, &map(json!({"name": "o", "finalizers": ["e.x/a"]}))).await;
    let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o",
                           "uid": owner["metadata"]["uid"], "blockOwnerDeletion": false});
    let dependent = json!({"name": "d", "finalizers": ["e.x/a"], "ownerReferences": [reference]});
    assert_eq!(post(&server, MAPS, &map(dependent)).await.0, 201);
    let options = json!({"propagationPolicy": "Foreground"});
    let path = format!("{MAPS}/o");
    assert_eq!(ask(&server, ("DELETE", &path), (JSON, JSON), &options).await.0, 200);
    let get = async |name: &str| {
        let path = format!("{MAPS}/{name}");
        ask(&server, ("GET", &path), (JSON, JSON), &Value::Null).await.1
    };
    let goes = async {
        while get("d").await["metadata"]["deletionTimestamp"].is_null() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), goes).await.expect("a deletion");
    assert_eq!(get("o").await["metadata"]["name"], "o");
}

// Requirement: AK-91
#[tokio::test]
async fn a_deleted_account_is_returned_with_the_revision_of_its_deletion() {
    let server = server().await;
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "s"}});
    let (_, made) = post(&server, accounts, &account).await;
    let path = format!("{accounts}/s");
    let delete = async |query: &str| {
        let path = format!("{path}{query}");
        ask(&server, ("DELETE", &path), (JSON, JSON), &Value::Null).await.1
    };
    let revision = |object: &Value| {
        let text = object["metadata"]["resourceVersion"].as_str().expect("a revision");
        text.parse::<u64>().expect("a number")
    };
    assert_eq!(revision(&delete("?dryRun=All").await), revision(&made));
    assert!(revision(&delete("").await) > revision(&made));
}
