//! Requests, output and exit codes of the commands.

use serde_json::{Value, json};

use crate::server::{Server, usher};

const ID: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
const OTHER: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

fn resource(id: &str, project: &str, phase: &str, reason: &str) -> Value {
    json!({
        "id": id, "name": "web-1", "project": project, "project_id": OTHER, "phase": phase,
        "reason": reason, "generation": 1, "version": 1, "blueprint": "local-node",
        "blueprint_version": "1.0.0", "credential": "local", "parameters": {}, "world": "local",
        "namespace": "ns", "tenancy": ID, "created_at": "2026-01-01T00:00:00.000000Z",
        "updated_at": "2026-01-01T00:00:00.000000Z",
        "phase_since": "2026-01-01T00:00:00.000000Z", "deletion_requested_at": null,
        "outcome": null,
    })
}

fn list(items: &[Value]) -> Value {
    json!({"items": items, "next_cursor": null})
}

fn problem(code: &str, detail: &str) -> Value {
    json!({"type": "t", "title": "t", "status": 0, "code": code, "detail": detail})
}

fn named(name: &str) -> String {
    format!("GET /v1/resources?deleted=true&name={name}")
}

const DECLARE: &str = "provision web-1 --project demo --blueprint local-node --credential local";

// Requirement: D-11
#[tokio::test]
async fn a_declaration_prints_the_id_and_can_be_repeated_safely() {
    let server = Server::start().await;
    server.on("POST /v1/resources", 202, &resource(ID, "demo", "Pending", ""));
    let left = server.usher(DECLARE).await;
    assert_eq!((left.code, left.said.as_str()), (Some(0), format!("{ID}\n").as_str()));
    let asked = server.asked();
    assert_eq!(asked.len(), 1);
    assert_eq!(asked[0].bearer, "Bearer admin-canary");
    assert!(asked[0].key);
    let body = json!({"name": "web-1", "project": "demo", "blueprint": "local-node",
        "version": null, "credential": "local", "parameters": {}});
    assert_eq!(asked[0].body, body);
}

/// Red by: a lost answer that becomes a second declaration.
// Requirement: HC-23
#[tokio::test]
async fn a_lost_response_is_retried_with_the_same_idempotency_key() {
    let server = Server::start().await;
    server.on("POST /v1/resources", 503, &problem("unavailable", "cannot answer now")).on(
        "POST /v1/resources",
        200,
        &resource(ID, "demo", "Pending", ""),
    );
    assert_eq!(server.usher(DECLARE).await.code, Some(0));
    assert_eq!(server.asked().len(), 2);
    assert!(server.asked().iter().all(|it| it.key));
}

// Requirement: HC-23
#[tokio::test]
async fn parameters_have_the_types_of_their_blueprint() {
    let server = Server::start().await;
    let version = |number: &str, kind: &str| {
        json!({"id": ID, "blueprint": ID, "version": number, "strategy": "helm-values",
            "parameters": [{"name": "count", "type": kind}], "role": "node",
            "providers": ["local"], "published_at": "2026-01-01T00:00:00Z"})
    };
    let versions = list(&[version("1.0.0", "string"), version("2.0.0", "integer")]);
    server.on("GET /v1/blueprints/local-node/versions", 200, &versions).on(
        "POST /v1/resources",
        202,
        &resource(ID, "demo", "Pending", ""),
    );
    let sent = async |typed: String| {
        assert_eq!(server.usher(&typed).await.code, Some(0));
        server.asked().last().unwrap().body.clone()
    };
    let newest = sent(format!("{DECLARE} --set count=7")).await;
    assert_eq!(newest["parameters"], json!({"count": 7}));
    let older = DECLARE.replace("local-node", "local-node@1.0.0");
    let older = sent(format!("{older} --set count=7")).await;
    assert_eq!(
        (&older["parameters"], &older["version"]),
        (&json!({"count": "7"}), &json!("1.0.0"))
    );
}

// Requirement: HC-21
#[tokio::test]
async fn waiting_prints_each_phase_change_once() {
    let server = Server::start().await;
    let one = format!("GET /v1/resources/{ID}");
    server.on("POST /v1/resources", 202, &resource(ID, "demo", "Pending", ""));
    for (phase, reason) in [
        ("Provisioning", "WaitingForSubstrate"),
        ("Provisioning", "WaitingForSubstrate"),
        ("Enrolling", "WaitingForNode"),
        ("Ready", "AsDeclared"),
    ] {
        server.on(&one, 200, &resource(ID, "demo", phase, reason));
    }
    let left = server.usher(&format!("{DECLARE} --wait")).await;
    assert_eq!((left.code, left.said.as_str()), (Some(0), format!("{ID}\n").as_str()));
    let shown: Vec<&str> =
        left.complained.lines().map(|line| line.split_once("web-1  ").unwrap().1).collect();
    let expected = [
        "Pending",
        "Provisioning  WaitingForSubstrate",
        "Enrolling  WaitingForNode",
        "Ready  AsDeclared",
    ];
    assert_eq!(shown, expected, "plain lines, and no line twice");
}

/// Red by: a read that no event triggered.
// Requirement: HC-21
#[tokio::test]
async fn waiting_reads_again_when_an_event_arrives() {
    let server = Server::start().await;
    let (one, stream) = (format!("GET /v1/resources/{ID}"), "id: 1\ndata: {}\n\n".to_owned());
    server
        .on("POST /v1/resources", 202, &resource(ID, "demo", "Pending", ""))
        .says(&format!("GET /v1/events?resource={ID}"), 200, stream)
        .on(&one, 200, &resource(ID, "demo", "Pending", ""))
        .on(&one, 200, &resource(ID, "demo", "Ready", "AsDeclared"));
    let begun = std::time::Instant::now();
    assert_eq!(server.usher(&format!("{DECLARE} --wait")).await.code, Some(0));
    let lines: Vec<String> = server.asked().into_iter().map(|it| it.line).collect();
    let expected = ["POST /v1/resources", &format!("GET /v1/events?resource={ID}"), &one, &one];
    assert_eq!(lines, expected, "after {:?}", begun.elapsed());
}

// Requirement: HC-20
#[tokio::test]
async fn a_failed_resource_is_exit_code_1_and_a_timeout_5() {
    let server = Server::start().await;
    let failed = resource(ID, "demo", "Failed", "ProvisioningFailed");
    server.on("POST /v1/resources", 202, &failed);
    let left = server.usher(&format!("{DECLARE} --wait")).await;
    assert_eq!(left.code, Some(1));
    assert!(left.complained.contains(&format!("usher why {ID}")), "{left:?}");
    let slow = Server::start().await;
    let pending = resource(ID, "demo", "Pending", "WaitingForSubstrate");
    slow.on("POST /v1/resources", 202, &pending);
    slow.on(&format!("GET /v1/resources/{ID}"), 200, &pending);
    let left = slow.usher(&format!("{DECLARE} --wait --timeout 0")).await;
    assert_eq!(left.code, Some(5));
    assert!(left.complained.contains("WaitingForSubstrate"), "{left:?}");
}

/// Red by: a restart of the server that ends the wait.
// Requirement: HC-21
#[tokio::test]
async fn waiting_survives_a_server_that_is_unavailable_for_a_while() {
    let server = Server::start().await;
    let one = format!("GET /v1/resources/{ID}");
    let leaving = resource(ID, "demo", "Deregistering", "DrainingNode");
    server
        .on(&named("web-1"), 200, &list(&[resource(ID, "demo", "Ready", "AsDeclared")]))
        .on(&format!("DELETE /v1/resources/{ID}"), 202, &leaving)
        .on(&one, 503, &problem("unavailable", "cannot answer now"))
        .on(&one, 200, &resource(ID, "demo", "Deprovisioning", "WaitingForDeletion"))
        .on(&one, 200, &resource(ID, "demo", "Deleted", "Gone"));
    let left = server.usher("deprovision web-1 --wait").await;
    assert_eq!((left.code, left.said.as_str()), (Some(0), "web-1 is Deleted\n"));
    assert_eq!(left.complained.lines().count(), 3, "{left:?}");
}

// Requirement: HC-19
#[tokio::test]
async fn an_ambiguous_name_is_exit_code_2_with_the_candidates() {
    let server = Server::start().await;
    let both = [resource(ID, "demo", "Ready", ""), resource(OTHER, "other", "Failed", "")];
    server.on(&named("web-1"), 200, &list(&both));
    let left = server.usher("deprovision web-1").await;
    assert_eq!(left.code, Some(2));
    for candidate in [ID, OTHER, "demo", "other"] {
        assert!(left.complained.contains(candidate), "{left:?}");
    }
    assert_eq!(server.asked().len(), 1, "no deletion was requested");
}

// Requirement: HC-19
#[tokio::test]
async fn a_name_resolves_to_the_undeleted_resource_and_an_id_is_exact() {
    let server = Server::start().await;
    let both = [resource(ID, "demo", "Deleted", ""), resource(OTHER, "other", "Ready", "")];
    server
        .on(&named("web-1"), 200, &list(&both))
        .on(&format!("{}&project=demo", named("web-1")), 200, &list(&both[..1]))
        .on(&named("unknown"), 200, &list(&[]))
        .on(&format!("GET /v1/resources/{ID}"), 200, &both[0]);
    let found = async |typed: &str| server.usher(typed).await.json()["id"].clone();
    assert_eq!(found("get resources web-1 -o json").await, OTHER);
    assert_eq!(found("get resources web-1 --project demo -o json").await, ID);
    assert_eq!(found(&format!("get resources {ID} -o json")).await, ID);
    let folder = server.folder();
    let variables = [("USHER_DATA_DIR", folder.to_str().unwrap()), ("USHER_PROJECT", "demo")];
    assert_eq!(usher("get resources web-1 -o json", &variables).await.json()["id"], ID);
    assert_eq!(server.usher("why unknown").await.code, Some(4));
}

// Requirement: HC-22
#[tokio::test]
async fn listings_are_tables_for_people_and_whole_as_json() {
    let server = Server::start().await;
    let first =
        json!({"items": [{"id": ID, "slug": "demo", "name": "Demo"}], "next_cursor": "c 1"});
    let second = list(&[json!({"id": OTHER, "slug": "other", "name": "Other"})]);
    server
        .on("GET /v1/projects?limit=500", 200, &first)
        .on("GET /v1/projects?limit=500&after=c%201", 200, &second)
        .on("GET /v1/projects?limit=1", 200, &first);
    let left = server.usher("get projects").await;
    let table = format!("SLUG   NAME   ID\ndemo   Demo   {ID}\nother  Other  {OTHER}\n");
    assert_eq!((left.code, left.said), (Some(0), table));
    let json = server.usher("get projects -o json").await.json();
    assert_eq!(json["items"].as_array().unwrap().len(), 2);
    assert_eq!(json["next_cursor"], Value::Null);
    let page = server.usher("get projects -o json --limit 1").await.json();
    assert_eq!(page, first, "a page has the cursor of the next one");
}

/// Red by: a refusal without its code, or another exit code.
// Requirement: HC-20
#[tokio::test]
async fn refusals_print_their_error_code_and_have_their_exit_code() {
    for (status, code, exit) in [
        (409, "name_in_use", 3),
        (422, "parameter_values_invalid", 3),
        (401, "unauthenticated", 3),
        (403, "forbidden", 3),
        (404, "blueprint_not_found", 4),
        (500, "internal", 1),
    ] {
        let server = Server::start().await;
        server.on("POST /v1/resources", status, &problem(code, "cannot do it"));
        let left = server.usher(DECLARE).await;
        assert_eq!(left.code, Some(exit), "{code}");
        assert_eq!(left.said, "");
        assert_eq!(left.complained, format!("usher: cannot do it ({code})\n"));
    }
}

// Requirement: HC-18
#[tokio::test]
async fn an_unreachable_server_is_exit_code_5_with_advice() {
    let empty = tempfile::tempdir().unwrap();
    let folder = empty.path().to_str().unwrap();
    let left = usher("get projects", &[("USHER_DATA_DIR", folder)]).await;
    assert_eq!(left.code, Some(5));
    assert!(left.complained.contains("usher up"), "{left:?}");
    let variables = [("USHER_URL", "http://127.0.0.1:1"), ("USHER_TOKEN", "canary")];
    let left = usher("get projects", &variables).await;
    assert_eq!(left.code, Some(5));
    assert!(!left.complained.contains("canary"), "{left:?}");
    let left = usher("get projects", &[("USHER_URL", "nonsense"), ("USHER_TOKEN", "t")]).await;
    assert_eq!(left.code, Some(2));
}

// Requirement: HC-18
#[tokio::test]
async fn url_and_token_of_the_environment_override_the_data_directory() {
    let (named, other) = (Server::start().await, Server::start().await);
    named.on("GET /v1/projects?limit=500", 200, &list(&[]));
    let folder = other.folder();
    let variables = [
        ("USHER_URL", named.url.as_str()),
        ("USHER_TOKEN", "mine"),
        ("USHER_DATA_DIR", folder.to_str().unwrap()),
    ];
    assert_eq!(usher("get projects", &variables).await.code, Some(0));
    assert_eq!(named.asked()[0].bearer, "Bearer mine");
    assert!(other.asked().is_empty());
    other.on("GET /v1/projects?limit=500", 200, &list(&[]));
    let typed = format!("get projects --data-dir {}", folder.display());
    let nowhere = [("USHER_DATA_DIR", "/nowhere")];
    assert_eq!(usher(&typed, &nowhere).await.code, Some(0), "the flag wins");
}

// Requirement: D-11
#[tokio::test]
async fn commands_about_a_resource_use_its_id() {
    let server = Server::start().await;
    let it = resource(ID, "demo", "Ready", "AsDeclared");
    server.on(&named("web-1"), 200, &list(std::slice::from_ref(&it)));
    for verb in ["retry", "replace", "abandon"] {
        server.on(&format!("POST /v1/resources/{ID}/{verb}"), 202, &it);
    }
    server.on("POST /v1/guards/local/reset", 200, &json!({"world": "local"}));
    server.on("POST /v1/orphans/reap", 200, &list(&[]));
    let lines = async |typed: &str| {
        let before = server.asked().len();
        let left = server.usher(typed).await;
        assert_eq!(left.code, Some(0), "{typed}: {left:?}");
        server.asked()[before..].iter().map(|it| it.line.clone()).next_back().unwrap()
    };
    assert_eq!(lines("retry web-1").await, format!("POST /v1/resources/{ID}/retry"));
    assert_eq!(lines("retry web-1 --replace").await, format!("POST /v1/resources/{ID}/replace"));
    assert_eq!(lines("retry --reset-guard local").await, "POST /v1/guards/local/reset");
    let given_up = lines("abandon web-1 --reason gone").await;
    assert_eq!(given_up, format!("POST /v1/resources/{ID}/abandon"));
    assert_eq!(server.asked().last().unwrap().body, json!({"reason": "gone"}));
    assert_eq!(lines("orphans --reap").await, "POST /v1/orphans/reap");
    for wrong in ["retry", "retry web-1 --reset-guard local", "abandon web-1", "retry --replace"] {
        assert_eq!(server.usher(wrong).await.code, Some(2), "{wrong}");
    }
}

// Requirement: HC-24
#[tokio::test]
async fn tenancy_objects_are_created_and_deleted() {
    let server = Server::start().await;
    let made = json!({"id": ID, "state": "approved", "phase": "Terminating", "text": "uot_x"});
    let cases = [
        ("project create demo", "POST /v1/projects", json!({"slug": "demo", "name": null})),
        ("project delete demo", "DELETE /v1/projects/demo", Value::Null),
        (
            "placement create demo --world local",
            "PUT /v1/projects/demo/placement",
            json!({"world": "local"}),
        ),
        ("placement terminate demo", "DELETE /v1/projects/demo/placement", Value::Null),
        (
            "cloud create c --provider local --endpoint url=x",
            "POST /v1/clouds",
            json!({"name": "c", "provider": "local", "endpoint": {"url": "x"}}),
        ),
        (
            "credential create k --cloud c --mount kv --path a/b",
            "POST /v1/credentials",
            json!({"name": "k", "cloud": "c", "mount": "kv", "path": "a/b", "expires_at": null}),
        ),
        ("credential revoke k", "POST /v1/credentials/k/revoke", Value::Null),
        (
            "credential request k --project demo",
            "POST /v1/projects/demo/assignments",
            json!({"credential": "k"}),
        ),
        (
            "credential approve k --project demo",
            "POST /v1/projects/demo/assignments/k/approve",
            Value::Null,
        ),
        (
            "credential unassign k --project demo",
            "DELETE /v1/projects/demo/assignments/k",
            Value::Null,
        ),
        (
            "label set --project demo team=a",
            "PUT /v1/projects/demo/labels",
            json!({"labels": {"team": "a"}}),
        ),
        (
            "label define team --propagatable",
            "PUT /v1/label-definitions",
            json!({"key": "team", "propagatable": true}),
        ),
        ("blueprint delete b@1", "DELETE /v1/blueprints/b/versions/1", Value::Null),
        (
            "token create ann --role viewer",
            "POST /v1/operator-tokens",
            json!({"name": "ann", "role": "viewer", "project": null, "expires_at": null}),
        ),
        ("token revoke x", "DELETE /v1/operator-tokens/x", Value::Null),
    ];
    for (typed, line, body) in cases {
        server.on(line, 200, &made);
        let left = server.usher(typed).await;
        assert_eq!(left.code, Some(0), "{typed}: {left:?}");
        let asked = server.asked().last().unwrap().clone();
        assert_eq!((asked.line.as_str(), asked.body), (line, body), "{typed}");
    }
}

// Requirement: X-10, HC-24
#[tokio::test]
async fn an_import_publishes_every_bundle_of_a_directory() {
    let server = Server::start().await;
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        let bundle = folder.path().join(name);
        std::fs::create_dir(&bundle).unwrap();
        let write = |file: &str, text: &str| std::fs::write(bundle.join(file), text).unwrap();
        write("blueprint.yaml", &format!("blueprint: {name}\nversion: '1'\n"));
        write("xrd.yaml", "kind: XRD");
        write("composition.yaml", "kind: Composition");
    }
    let done = |name: &str, outcome: &str| {
        json!({"blueprint": name, "version": "1", "outcome": outcome, "id": null,
            "findings": [{"fatal": true, "at": "xrd", "text": "cannot be"}]})
    };
    let line = "POST /v1/blueprints/import";
    server.on(line, 200, &list(&[done("a", "published")]));
    server.on(line, 200, &list(&[done("b", "refused")]));
    let left = server.usher(&format!("blueprint import {}", folder.path().display())).await;
    assert_eq!(left.code, Some(3));
    assert!(left.said.contains("b@1: error: xrd: cannot be"), "{left:?}");
    let names: Vec<_> =
        server.asked().iter().map(|it| it.body["bundles"][0]["blueprint"].clone()).collect();
    assert_eq!(names, ["a", "b"]);
}

// Requirement: HC-24
#[tokio::test]
async fn completions_are_printed_without_a_server() {
    for shell in ["bash", "zsh", "fish"] {
        let left = usher(&format!("completions {shell}"), &[]).await;
        assert_eq!(left.code, Some(0));
        assert!(left.said.contains("deprovision"), "{shell}");
    }
}
