//! The API of agents.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use usher_domain::object::key::ServerKey;
use usher_domain::object::name;
use usher_kernel::Generation;

use crate::fake::{NODE_SECRET, demo, first, node};
use crate::test_api::{Answered, TestApi, refused};

fn token() -> String {
    let key = ServerKey::new([7; 32]).unwrap();
    key.derive(name::token(first(), Generation::FIRST), Generation::FIRST).expose().to_owned()
}

fn registration() -> Value {
    json!({
        "project_id": demo().to_string(),
        "resource_id": first().to_string(),
        "bootstrap_token": token(),
        "nonce": "0123456789abcdef",
        "public_key": "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE=",
        "agent_version": "0.1.0",
        "weather": "what is not known is ignored",
    })
}

async fn call(api: &TestApi, id: &str, verb: &str, secret: Option<&str>, body: Value) -> Answered {
    let mut it = Request::post(format!("/v1/nodes/{id}/{verb}"))
        .header(header::CONTENT_TYPE, "application/json");
    if let Some(secret) = secret {
        it = it.header(header::AUTHORIZATION, format!("Bearer {secret}"));
    }
    api.send(it.body(Body::from(body.to_string())).unwrap()).await
}

fn beat(draining: bool) -> Value {
    json!({"acknowledged": 4, "in_flight": 0, "draining": draining, "agent_version": "0.1.0"})
}

// Requirement: HC-14
#[tokio::test]
async fn a_node_enrols_without_a_bearer_token_and_gets_its_secret() {
    let api = TestApi::new();
    let answered = api.ask("anonymous", "POST", "/v1/register", Some(registration())).await;
    assert_eq!(answered.status, 200);
    let expected = json!({
        "node_id": node().to_string(), "node_secret": NODE_SECRET, "heartbeat_ms": 10_000,
    });
    assert_eq!(answered.json(), expected);
}

/// Red by: a refusal that repeats the token it was given.
// Requirement: HC-9
#[tokio::test]
async fn an_invalid_registration_is_refused_without_repeating_its_token() {
    let api = TestApi::new();
    let token = token();
    let with = |field: &str, value: Value| {
        let mut body = registration();
        body[field] = value;
        body
    };
    let half = &token[..60];
    let foreign = "01890a5d-ac96-774b-bcce-b30209ffffff";
    let cases = [
        (with("project_id", foreign.into()), 403, "project_mismatch"),
        (with("project_id", "demo".into()), 403, "project_mismatch"),
        (with("resource_id", "x".into()), 403, "project_mismatch"),
        (with("bootstrap_token", half.into()), 401, "token_length"),
        (with("bootstrap_token", token.replace("ubt_", "xxx_").into()), 401, "token_prefix"),
        (with("bootstrap_token", json!([token])), 400, "body_invalid"),
        (with("nonce", token.clone().into()), 422, "nonce_invalid"),
        (with("public_key", "short".into()), 422, "public_key_encoding"),
    ];
    for (body, status, code) in cases {
        let answered = api.ask("anonymous", "POST", "/v1/register", Some(body)).await;
        assert_eq!(answered.refusal(), refused(status, code));
        if code != "nonce_invalid" {
            assert!(!answered.text.contains(&token[45..]), "{}", answered.text);
        }
    }
}

// Requirement: HC-14
#[tokio::test]
async fn a_node_calls_with_its_own_secret() {
    let api = TestApi::new();
    let id = node().to_string();
    let good = call(&api, &id, "heartbeat", Some(NODE_SECRET), beat(false)).await;
    assert_eq!((good.status, good.json()), (200, json!({"snapshot": 4, "drain": null})));
    let drained = call(&api, &id, "heartbeat", Some(NODE_SECRET), beat(true)).await;
    assert_eq!(drained.json()["drain"], json!({"grace_ms": 30_000}));
    let missing = call(&api, &id, "heartbeat", None, beat(false)).await;
    assert_eq!(missing.refusal(), refused(401, "unauthenticated"));
    let wrong = call(&api, &id, "heartbeat", Some("wrong"), beat(false)).await;
    assert_eq!(wrong.refusal(), refused(401, "unauthenticated"));
    let left = call(&api, &id, "leave", Some(NODE_SECRET), json!({"in_flight": 0})).await;
    assert_eq!(left.status, 204);
}

/// Red by: another code, after which an agent would retry.
// Requirement: HC-14
#[tokio::test]
async fn an_unknown_node_is_refused_as_revoked() {
    let api = TestApi::new();
    for id in ["01890a5d-ac96-774b-bcce-b30209ffffff", "nonsense"] {
        for verb in ["heartbeat", "leave"] {
            let answered = call(&api, id, verb, Some(NODE_SECRET), beat(false)).await;
            assert_eq!(answered.refusal(), refused(401, "key_revoked"), "{id} {verb}");
        }
    }
}

// Requirement: HC-14
#[tokio::test]
async fn a_node_streams_messages_and_resumes_after_the_last() {
    let api = TestApi::new();
    let listen = async |last: Option<&str>| {
        let mut it = Request::get(format!("/v1/nodes/{}/events", node()))
            .header(header::AUTHORIZATION, format!("Bearer {NODE_SECRET}"));
        if let Some(last) = last {
            it = it.header("last-event-id", last);
        }
        api.send(it.body(Body::empty()).unwrap()).await.text
    };
    let mesh = "id: 1\ndata: {\"type\":\"mesh\",\"snapshot\":1}\n\n";
    let drain = "id: 2\ndata: {\"type\":\"drain\",\"grace_ms\":30000}\n\n";
    assert_eq!(listen(None).await, format!(":\n\n{mesh}{drain}"));
    assert_eq!(listen(Some("1")).await, format!(":\n\n{drain}"));
}
