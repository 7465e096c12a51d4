//! Invalid requests are refused with their error code and status, and change nothing.

use serde_json::{Value, json};
use usher_domain::object::id::ResourceId;
use usher_domain::object::key::ServerKey;
use usher_domain::object::name;
use usher_kernel::Generation;

use crate::rest::NEVER_LOST;
use crate::test_server::TestServer;

/// A method and a path, a body, and the expected response.
type Case = ((&'static str, String), Value, (u16, &'static str));

/// Row counts of every table that a request could write.
async fn kept(server: &TestServer) -> Vec<i64> {
    let mut counts = Vec::new();
    for table in [
        "resources",
        "records",
        "names",
        "tokens",
        "peers",
        "events",
        "audit",
        "idempotency_keys",
        "projects",
        "placements",
        "credentials",
        "assignments",
        "clouds",
        "blueprints",
        "blueprint_versions",
        "provider_configs",
        "tenancy_resources",
        "operator_tokens",
    ] {
        counts.push(server.number(&format!("SELECT count(*) FROM {table}")).await);
    }
    counts.push(server.number("SELECT count(*) FROM tokens WHERE consumed_at IS NOT NULL").await);
    counts.push(server.number("SELECT sum(version) FROM records").await);
    counts
}

async fn refused(server: &TestServer, cases: Vec<Case>) {
    for ((method, path), body, (status, code)) in cases {
        let before = kept(server).await;
        let body = Some(&body).filter(|it| !it.is_null());
        let answered = server.ask(method, &path, body).await;
        let Some((found, problem)) = answered else { panic!("{method} {path} has no answer") };
        assert_eq!((found, problem["code"].as_str().unwrap_or("")), (status, code), "{problem}");
        assert_eq!(kept(server).await, before, "{method} {path} {code}");
    }
}

fn declaration(name: &str, change: (&str, Value)) -> Value {
    let mut body = json!({
        "name": name, "project": "demo", "blueprint": "local-node", "credential": "local",
        "parameters": {},
    });
    body[change.0] = change.1;
    body
}

/// A server with one resource that waits for its node, and no other work.
async fn waiting() -> (TestServer, String) {
    let settings = [
        "local.agent=external",
        "broker.reconcile_interval=1h",
        "mesh.drain_grace=20m",
        NEVER_LOST,
    ];
    let mut server = TestServer::up(&settings).await;
    let id = server.provision("taken").await;
    server.until_reason(&id, "WaitingForNode").await;
    (server, id)
}

/// Assigns the credential to a project: one operator requests, another approves.
async fn granted(server: &mut TestServer, project: &str) {
    let second = json!({ "name": "second", "role": "admin" });
    let second = server.insist("POST", "/v1/operator-tokens", Some(&second)).await;
    let second = second["text"].as_str().unwrap().to_owned();
    let path = format!("/v1/projects/{project}/assignments");
    server.insist("POST", &path, Some(&json!({ "credential": "local" }))).await;
    let path = format!("{path}/local/approve");
    let (status, answer) = server.ask_as(&second, ("POST", &path), None).await.unwrap();
    assert_eq!(status, 200, "{answer}");
}

/// Red by: a declaration that is half accepted.
// Requirement: HC-25
#[tokio::test]
async fn a_declaration_that_names_a_missing_or_foreign_object_is_refused() {
    let (mut server, _) = waiting().await;
    let project = json!({ "slug": "bare", "name": "Bare" });
    server.insist("POST", "/v1/projects", Some(&project)).await;
    let placed = json!({ "slug": "placed", "name": "Placed" });
    server.insist("POST", "/v1/projects", Some(&placed)).await;
    let world = json!({ "world": "local" });
    server.insist("PUT", "/v1/projects/placed/placement", Some(&world)).await;
    granted(&mut server, "bare").await;
    let post = || ("POST", "/v1/resources".to_owned());
    let cases: Vec<Case> = vec![
        (post(), declaration("a", ("project", json!("nowhere"))), (404, "project_not_found")),
        (post(), declaration("b", ("blueprint", json!("none"))), (404, "blueprint_not_found")),
        (post(), declaration("c", ("version", json!("9.9.9"))), (404, "blueprint_not_found")),
        (post(), declaration("d", ("credential", json!("none"))), (404, "credential_not_found")),
        (post(), declaration("e", ("project", json!("placed"))), (403, "credential_not_assigned")),
        (post(), declaration("f", ("project", json!("bare"))), (404, "assignment_not_found")),
        (
            post(),
            declaration("g", ("parameters", json!({ "readyAfterMs": "soon" }))),
            (422, "parameter_values_invalid"),
        ),
        (
            post(),
            declaration("h", ("parameters", json!({ "unknown": 1 }))),
            (422, "parameter_values_invalid"),
        ),
        (post(), declaration("taken", ("version", json!("1.0.0"))), (409, "name_in_use")),
        (post(), json!({ "name": "i" }), (400, "body_invalid")),
        (post(), declaration("j", ("more", json!(1))), (400, "body_invalid")),
        (
            ("DELETE", "/v1/resources/019a0000-0000-7000-8000-000000000000".to_owned()),
            Value::Null,
            (404, "provisioned_resource_not_found"),
        ),
        (
            ("DELETE", "/v1/resources/nothing".to_owned()),
            Value::Null,
            (404, "provisioned_resource_not_found"),
        ),
    ];
    refused(&server, cases).await;
}

/// A request with these headers and this body, as bytes on the wire.
fn raw(headers: &str, body: &str) -> String {
    format!(
        "POST /v1/resources HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

/// Red by: a body that is read before its caller is authenticated, or a key that is used twice.
// Requirement: HC-25
#[tokio::test]
async fn unauthenticated_too_large_and_key_reusing_requests_are_refused() {
    let (server, _) = waiting().await;
    let token = std::fs::read_to_string(server.data().join("admin.token")).unwrap();
    let own = format!("authorization: Bearer {}\r\n", token.trim());
    let json = "content-type: application/json\r\n";
    let good = declaration("keyed", ("parameters", json!({}))).to_string();
    let other = declaration("other", ("parameters", json!({}))).to_string();
    let key = "idempotency-key: one\r\n";
    let (status, _) =
        server.send(raw(&format!("{own}{json}{key}"), &good).as_bytes()).await.unwrap();
    assert_eq!(status, 202);
    let id = server.ask("GET", "/v1/resources?name=keyed", None).await.unwrap().1;
    let id = id["items"][0]["id"].as_str().unwrap().to_owned();
    until_at_rest(&server, &id).await;
    let large = "x".repeat(1024 * 1024 + 1);
    let cases = [
        (format!("{own}{json}{key}"), other.as_str(), (409, "idempotency_key_reused")),
        (format!("{own}{json}"), large.as_str(), (413, "body_too_large")),
        (format!("{own}{json}"), "{not json", (400, "body_invalid")),
        (format!("{own}{json}"), "[]", (400, "body_invalid")),
        (format!("{own}content-type: text/plain\r\n"), &good, (415, "content_type_unsupported")),
        (json.to_owned(), &other, (401, "unauthenticated")),
        (format!("authorization: Bearer wrong\r\n{json}"), &other, (401, "unauthenticated")),
        (format!("authorization: Basic YTpi\r\n{json}"), &other, (401, "unauthenticated")),
    ];
    for (headers, body, (status, code)) in cases {
        let before = kept(&server).await;
        let (found, text) = server.send(raw(&headers, body).as_bytes()).await.unwrap();
        let problem: Value = serde_json::from_str(&text).unwrap_or_default();
        assert_eq!((found, problem["code"].as_str().unwrap_or("")), (status, code), "{text}");
        assert_eq!(kept(&server).await, before, "{code}");
    }
    let before = kept(&server).await;
    let again = server.send(raw(&format!("{own}{json}{key}"), &good).as_bytes()).await.unwrap();
    let again: Value = serde_json::from_str(&again.1).unwrap();
    assert_eq!(again["id"], id.as_str(), "the same request is answered as the first time");
    assert_eq!(kept(&server).await, before);
}

async fn until_at_rest(server: &TestServer, id: &str) {
    let begun = std::time::Instant::now();
    loop {
        let it = server.ask("GET", &format!("/v1/resources/{id}"), None).await.unwrap().1;
        if it["reason"] == "WaitingForNode" {
            return;
        }
        assert!(begun.elapsed() < crate::test_server::TIMEOUT, "{it}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// The key of a server, from its file.
fn key(server: &TestServer) -> ServerKey {
    let text = std::fs::read_to_string(server.data().join("server.key")).unwrap();
    let digit = |at: usize| u8::from_str_radix(&text.trim()[at * 2..at * 2 + 2], 16).unwrap();
    ServerKey::new(std::array::from_fn(digit)).unwrap()
}

/// Red by: a token that is accepted twice, for another resource, or after it expired.
// Requirement: HC-25
#[tokio::test]
async fn expired_reused_and_foreign_tokens_are_refused() {
    let (mut server, id) = waiting().await;
    let other = server.provision("other").await;
    server.until_reason(&other, "WaitingForNode").await;
    let key = key(&server);
    let resource: ResourceId = id.parse().unwrap();
    let text = |generation| key.derive(name::token(resource, generation), generation);
    let text = text(Generation::FIRST).expose().to_owned();
    let project = server.insist("GET", "/v1/projects/demo", None).await["id"].clone();
    let nowhere = json!("019a0000-0000-7000-8000-000000000000");
    let public_key = "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=";
    let body = |nonce: &str, change: (&str, Value)| {
        let mut body = json!({
            "project_id": project, "resource_id": id, "bootstrap_token": text, "nonce": nonce,
            "public_key": public_key, "agent_version": "test",
        });
        body[change.0] = change.1;
        body
    };
    let post = || ("POST", "/v1/register".to_owned());
    let forged = format!("{}AA", &text[..text.len() - 2]);
    let as_is = ("agent_version", json!("test"));
    let (first, second) = ("nonce-nonce-nonce-1", "nonce-nonce-nonce-2");
    let cases: Vec<Case> = vec![
        (post(), body(first, ("bootstrap_token", json!("ubt_x"))), (401, "token_length")),
        (post(), body(first, ("bootstrap_token", json!(forged))), (401, "token_unknown")),
        (post(), body(first, ("project_id", nowhere)), (403, "project_mismatch")),
        (post(), body(first, ("resource_id", json!(other))), (401, "token_unknown")),
        (post(), body(first, ("public_key", json!("x"))), (422, "public_key_encoding")),
        (post(), body("x", as_is.clone()), (422, "nonce_invalid")),
    ];
    refused(&server, cases).await;
    let expired = "UPDATE tokens SET issued_at = issued_at - 172800000000";
    server.execute(expired).await;
    refused(&server, vec![(post(), body(first, as_is.clone()), (401, "token_expired"))]).await;
    server.execute("UPDATE tokens SET issued_at = issued_at + 172800000000").await;
    let node = server.insist("POST", "/v1/register", Some(&body(first, as_is.clone()))).await;
    server.until_phase(&id, "Ready").await;
    let other_key = json!("CAgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAg=");
    let cases: Vec<Case> = vec![
        (post(), body(second, as_is.clone()), (409, "token_consumed")),
        (post(), body(first, ("public_key", other_key)), (409, "nonce_collision")),
    ];
    refused(&server, cases).await;
    let again = server.insist("POST", "/v1/register", Some(&body(first, as_is.clone()))).await;
    assert_eq!(again, node, "the same request is answered as the first time");
    server.deprovision(&id).await;
    server.until_reason(&id, "DrainingNode").await;
    let left: Vec<Case> = vec![(post(), body(second, as_is), (409, "resource_leaving"))];
    refused(&server, left).await;
}
