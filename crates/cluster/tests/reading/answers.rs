//! The table of answers, row by row, with what the server really answers.

use std::time::Duration;

use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};
use usher_cluster::answer::{Failure, ReadFailure, Refusal, Row, Write, WriteFailure};
use usher_cluster::client::Client;
use usher_kernel::{Trouble, Unknown};

use crate::rig::{MAPS, MERGE, WELLS, admin, call, define, done, map, request, server, user, well};

const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const WRITES: [Write; 6] =
    [Write::Create, Write::OwnRecord, Write::OwnObject, Write::Change, Write::Delete, Write::Probe];
const UNREACHABLE: ReadFailure = ReadFailure::Unknown(Unknown::Unreachable);

/// What an answer is to each write, in short.
fn written(failure: &Failure) -> [&'static str; 6] {
    WRITES.map(|write| match failure.write(write) {
        WriteFailure::Done => "done",
        WriteFailure::Ended => "ended",
        WriteFailure::Taken => "taken",
        WriteFailure::ProbeRefused => "refused",
        WriteFailure::Trouble(Trouble::Conflict) => "conflict",
        WriteFailure::Trouble(Trouble::Unavailable { .. }) => "unavailable",
        WriteFailure::Trouble(Trouble::Blocked { .. }) => "blocked",
        WriteFailure::Trouble(Trouble::Rejected { .. }) => "rejected",
        WriteFailure::Trouble(Trouble::Corrupt { .. }) => "corrupt",
    })
}

async fn failed(client: &Client, asked: (&str, &str), body: &Value) -> Failure {
    call(client, asked, body).await.expect_err("a failure")
}

async fn patch(server: &ApiServer, path: &str, media: &str, body: &Value) -> Failure {
    admin(server).send(request(("PATCH", path), media, body)).await.expect_err("a failure")
}

/// The text in which a trouble is shown.
fn text(failure: &Failure) -> String {
    let WriteFailure::Trouble(trouble) = failure.write(Write::Change) else {
        panic!("{failure:?}")
    };
    trouble.to_string()
}

// Requirement: KA-3
#[tokio::test]
async fn an_object_that_is_absent_is_told_from_a_path_that_is() {
    let server = server().await;
    let client = admin(&server);
    let object = failed(&client, ("GET", &format!("{MAPS}/a")), &Value::Null).await;
    assert_eq!((object.row(), object.read()), (Row::ObjectAbsent, ReadFailure::ObjectAbsent));
    let wanted = ["blocked", "ended", "ended", "blocked", "done", "done"];
    assert_eq!(written(&object), wanted);
    let elsewhere = "/api/v1/namespaces/none/configmaps";
    let namespace = failed(&client, ("POST", elsewhere), &map("a")).await;
    assert_eq!(written(&namespace)[0], "blocked", "the namespace is not there");
    for path in [WELLS, "/apis/deep.example/v1/wells/a", "/apis/apps/v1/nothing", "/none"] {
        let path = failed(&client, ("GET", path), &Value::Null).await;
        assert_eq!((path.row(), path.read()), (Row::PathAbsent, ReadFailure::PathAbsent));
        assert_eq!(written(&path), ["unavailable"; 6], "not even a deletion is done");
    }
}

// Requirement: KA-3
#[tokio::test]
async fn a_missing_right_is_forbidden_and_rejected() {
    let server = server().await;
    let ann = user(&server, "ann");
    let failure = failed(&ann, ("GET", MAPS), &Value::Null).await;
    assert_eq!(failure.row(), Row::NoRight);
    assert_eq!(failure.read(), ReadFailure::Unknown(Unknown::Forbidden));
    assert_eq!(written(&failure), ["rejected"; 6]);
    assert!(text(&failure).contains("User \"ann\" cannot list resource"), "{}", text(&failure));
    let token = hyper::Request::get(MAPS).header("authorization", "Bearer wrong");
    let unknown = ann.send(Ok(token.body(Vec::new()).expect("a request"))).await;
    assert_eq!(unknown.expect_err("no such token").row(), Row::NoRight);
}

// Requirement: KA-3
#[tokio::test]
async fn a_creation_in_a_terminating_namespace_is_blocked() {
    let server = server().await;
    let spaces = "/api/v1/namespaces";
    let room = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    done(&server, ("POST", spaces), &room).await;
    let inside = format!("{spaces}/room/configmaps");
    let mut held = map("held");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    done(&server, ("POST", &inside), &held).await;
    done(&server, ("DELETE", &format!("{spaces}/room")), &Value::Null).await;
    let failure = failed(&admin(&server), ("POST", &inside), &map("a")).await;
    assert_eq!(failure.row(), Row::NamespaceTerminating, "{failure:?}");
    assert_eq!(written(&failure)[0], "blocked");
    assert_eq!(failure.read(), UNREACHABLE);
}

// Requirement: KA-3
#[tokio::test]
async fn a_taken_name_is_told_from_a_conflict() {
    let server = server().await;
    let client = admin(&server);
    let first = done(&server, ("POST", MAPS), &map("a")).await;
    let taken = failed(&client, ("POST", MAPS), &map("a")).await;
    assert_eq!((taken.row(), written(&taken)[0]), (Row::Exists, "taken"));
    let named = format!("{MAPS}/a");
    done(&server, ("PATCH", &named), &json!({"data": {"k": "v"}})).await;
    let conflict = failed(&client, ("PUT", &named), &first).await;
    assert_eq!((conflict.row(), conflict.read()), (Row::Conflict, UNREACHABLE));
    let wanted = ["blocked", "conflict", "blocked", "blocked", "blocked", "blocked"];
    assert_eq!(written(&conflict), wanted, "only our own record conflicts");
    let options = json!({"preconditions": {"uid": "00000000-0000-4000-8000-000000000001"}});
    let other = failed(&client, ("DELETE", &named), &options).await;
    assert_eq!(written(&other)[4], "blocked", "another object has the name");
}

// Requirement: KA-3
#[tokio::test]
async fn a_precondition_of_a_patch_that_fails_is_blocked() {
    let server = server().await;
    define(&server).await;
    done(&server, ("POST", WELLS), &well("a")).await;
    let named = format!("{WELLS}/a");
    let other = "00000000-0000-4000-8000-000000000001";
    let mut body = well("a");
    body["metadata"]["uid"] = json!(other);
    let applied = format!("{named}?fieldManager=usher-broker&force=true");
    let tested = json!([{"op": "test", "path": "/metadata/uid", "value": other}]);
    let misfit = json!([{"op": "remove", "path": "/metadata/labels/none"}]);
    let cases = [
        patch(&server, &applied, APPLY, &body).await,
        patch(&server, &named, MERGE, &json!({"metadata": {"uid": other}})).await,
        patch(&server, &named, JSON_PATCH, &tested).await,
        patch(&server, &named, JSON_PATCH, &misfit).await,
    ];
    for failure in cases {
        assert_eq!(failure.row(), Row::Precondition, "{failure:?}");
        assert_eq!((written(&failure)[3], failure.read()), ("blocked", UNREACHABLE));
    }
    body["metadata"]["name"] = json!("b");
    let absent = applied.replace("wells/a", "wells/b");
    let absent = patch(&server, &absent, APPLY, &body).await;
    assert_eq!((absent.row(), written(&absent)[3]), (Row::Conflict, "blocked"));
}

// Requirement: KA-3, KA-4
#[tokio::test]
async fn an_invalid_object_is_rejected_and_its_values_are_not_repeated() {
    let server = server().await;
    let client = admin(&server);
    let mut invalid = map("a");
    invalid["metadata"]["labels"] = json!({"k": "a secret value!"});
    let wrong = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": "a secret value!"});
    let large = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"k": "a secret value!".repeat(300_000)},
    });
    for (body, code) in [(invalid, 422), (wrong, 400), (large, 413)] {
        let failure = failed(&client, ("POST", MAPS), &body).await;
        let Failure::Refused(Refusal { code: answered, .. }) = &failure else { panic!() };
        assert_eq!((*answered, failure.row()), (code, Row::Invalid), "{}", text(&failure));
        assert_eq!((written(&failure), failure.read()), (["rejected"; 6], UNREACHABLE));
        assert!(!text(&failure).contains("secret"), "{}", text(&failure));
    }
}

// Requirement: KA-3
#[tokio::test]
async fn a_refusal_that_passes_is_unavailable_and_says_when() {
    let server = server().await;
    let client = admin(&server);
    for code in [429, 500, 502, 503, 504] {
        server.set_faults(move |asked| match asked.resource.as_str() {
            "configmaps" => Fault::Refuse(code),
            _ => Fault::None,
        });
        let failure = failed(&client, ("POST", MAPS), &map("a")).await;
        assert_eq!(failure.row(), Row::Unavailable { after: None }, "{code}");
        assert_eq!((written(&failure), failure.read()), (["unavailable"; 6], UNREACHABLE));
    }
    server.clear_faults();
    let ahead = format!("{MAPS}?resourceVersion=999999999");
    let late = failed(&client, ("GET", &ahead), &Value::Null).await;
    let after = Some(Duration::from_secs(1));
    assert_eq!(late.row(), Row::Unavailable { after }, "{late:?}");
    let trouble = Trouble::Unavailable { what: "the cluster: 504 Timeout".into(), after };
    assert_eq!(late.trouble(), trouble);
    let lost = Failure::NoAnswer("connection reset".to_owned());
    assert_eq!((written(&lost), lost.read()), (["unavailable"; 6], UNREACHABLE));
}

// Requirement: KA-3
#[tokio::test]
async fn a_webhook_that_cannot_be_called_makes_a_write_unavailable() {
    let server = server().await;
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hook = json!({
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "guard"},
        "webhooks": [{
            "name": "hook.guard.example",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {"url": "https://127.0.0.1:1/x"},
            "rules": [{
                "operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"],
            }],
        }],
    });
    done(&server, ("POST", hooks), &hook).await;
    let failure = failed(&admin(&server), ("POST", MAPS), &map("a")).await;
    let Failure::Refused(Refusal { code: 500, status: Some(status), .. }) = &failure else {
        panic!("{failure:?}")
    };
    assert!(status.message.contains("failed calling webhook"), "{status}");
    assert_eq!(written(&failure)[0], "unavailable");
}

// Requirement: KA-3
#[tokio::test]
async fn errors_of_the_typed_interface_are_in_the_same_rows() {
    use k8s_openapi::api::core::v1::ConfigMap;
    use kube_client::Api;
    let server = server().await;
    let api: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let row = |error: kube_client::Error| Failure::from(error).row();
    assert_eq!(row(api.get("a").await.expect_err("absent")), Row::ObjectAbsent);
    let none = kube_client::core::ApiResource::from_gvk_with_plural(
        &kube_client::core::GroupVersionKind::gvk("deep.example", "v1", "Well"),
        "wells",
    );
    let none: Api<kube_client::core::DynamicObject> =
        Api::namespaced_with(server.client(), "default", &none);
    assert_eq!(row(none.get("a").await.expect_err("no path")), Row::PathAbsent);
    server.set_faults(|_| Fault::Refuse(429));
    let busy = row(api.get("a").await.expect_err("busy"));
    assert_eq!(busy, Row::Unavailable { after: None });
}
