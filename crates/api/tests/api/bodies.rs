//! Request bodies: declarations, idempotency keys, invalid bodies.

use axum::body::Body;
use axum::http::{Request, header};
use serde_json::{Value, json};
use usher_api::{BODY_MAX, IDEMPOTENCY_KEY};

use crate::fake::first;
use crate::test_api::{Answered, TestApi, refused, request};

fn declaration(name: &str) -> Value {
    json!({"name": name, "project": "demo", "blueprint": "local-node", "credential": "local"})
}

async fn declare(api: &TestApi, who: &str, key: Option<&str>, body: Value) -> Answered {
    let mut asked = request(who, "POST", "/v1/resources", Some(body));
    if let Some(key) = key {
        asked.headers_mut().insert(IDEMPOTENCY_KEY, key.parse().unwrap());
    }
    api.send(asked).await
}

async fn raw(api: &TestApi, kind: Option<&str>, body: impl Into<Body>) -> Answered {
    let mut asked =
        Request::post("/v1/projects").header(header::AUTHORIZATION, "Bearer admin-canary");
    if let Some(kind) = kind {
        asked = asked.header(header::CONTENT_TYPE, kind);
    }
    api.send(asked.body(body.into()).unwrap()).await
}

#[tokio::test]
async fn a_declaration_is_answered_with_the_resource() {
    let api = TestApi::new();
    let answered = declare(&api, "operator", None, declaration("web-2")).await;
    assert_eq!(answered.status, 202);
    let it = answered.json();
    assert_eq!(it["name"], "web-2");
    assert_eq!(it["project"], "demo");
    assert_eq!(it["phase"], "Pending");
    assert_eq!(it["created_at"], "1970-01-01T00:00:01.000000Z");
    let read = api.get(&format!("/v1/resources/{}", it["id"].as_str().unwrap())).await;
    assert_eq!((read.status, read.json()), (200, it));
}

// Requirement: D-10, HC-10
#[tokio::test]
async fn a_repeated_key_returns_the_first_answer_and_refuses_other_requests() {
    let api = TestApi::new();
    let made = declare(&api, "operator", Some("k-1"), declaration("web-2")).await;
    let again = declare(&api, "operator", Some("k-1"), declaration("web-2")).await;
    assert_eq!((made.status, again.status), (202, 200));
    assert_eq!(made.json(), again.json());
    let spelled = r#"{"credential":"local","blueprint":"local-node","project":"demo",
        "name":"web-2","parameters":{}}"#;
    let mut asked = request("operator", "POST", "/v1/resources", Some(json!({})));
    asked.headers_mut().insert(IDEMPOTENCY_KEY, "k-1".parse().unwrap());
    *asked.body_mut() = Body::from(spelled);
    assert_eq!(api.send(asked).await.status, 200, "the same request in another spelling");
    let other = declare(&api, "operator", Some("k-1"), declaration("web-3")).await;
    assert_eq!(other.refusal(), refused(409, "idempotency_key_reused"));
    let else_ = declare(&api, "admin", Some("k-1"), declaration("web-3")).await;
    assert_eq!(else_.status, 202, "another caller has other keys");
    assert_eq!(api.fake.state().resources.len(), 3);
}

// Requirement: HC-10
#[tokio::test]
async fn an_invalid_key_is_refused_and_nothing_is_stored() {
    let api = TestApi::new();
    for key in ["", "a b", &"k".repeat(256)] {
        let answered = declare(&api, "operator", Some(key), declaration("web-2")).await;
        assert_eq!(answered.refusal(), refused(400, "idempotency_key_invalid"), "{key:?}");
    }
    let mut doubled = request("operator", "POST", "/v1/resources", Some(declaration("web-2")));
    doubled.headers_mut().append(IDEMPOTENCY_KEY, "a".parse().unwrap());
    doubled.headers_mut().append(IDEMPOTENCY_KEY, "b".parse().unwrap());
    assert_eq!(api.send(doubled).await.refusal(), refused(400, "idempotency_key_invalid"));
    assert_eq!(api.fake.state().resources.len(), 1);
}

#[tokio::test]
async fn a_declaration_refers_to_existing_objects() {
    let api = TestApi::new();
    let with = |field: &str, value: &str| {
        let mut body = declaration("web-2");
        body[field] = value.into();
        body
    };
    let cases = [
        (with("project", "nowhere"), 404, "project_not_found"),
        (with("blueprint", "nothing"), 404, "blueprint_not_found"),
        (with("blueprint", "No Slug"), 404, "blueprint_not_found"),
        (with("credential", "No Slug"), 404, "credential_not_found"),
        (with("name", "web-1"), 409, "name_in_use"),
        (with("name", ""), 422, "invalid_input"),
    ];
    for (body, status, code) in cases {
        let answered = declare(&api, "operator", None, body.clone()).await;
        assert_eq!(answered.refusal(), refused(status, code), "{body}");
    }
    assert_eq!(api.fake.state().resources.len(), 1, "nothing was kept");
}

// Requirement: HC-8
#[tokio::test]
async fn a_body_of_one_mebibyte_is_read_and_one_byte_more_is_not() {
    let api = TestApi::new();
    let sized = |size: usize| {
        let (head, tail) = (r#"{"slug":"big"}"#, "");
        format!("{head}{}{tail}", " ".repeat(size - head.len()))
    };
    let json = Some("application/json");
    assert_eq!(raw(&api, json, sized(BODY_MAX)).await.status, 201);
    let answered = raw(&api, json, sized(BODY_MAX + 1)).await;
    assert_eq!(answered.refusal(), refused(413, "body_too_large"));
    assert_eq!(BODY_MAX, 1024 * 1024);
}

// Requirement: HC-8
#[tokio::test]
async fn an_invalid_body_is_refused_with_the_cause() {
    let api = TestApi::new();
    let json = Some("application/json; charset=utf-8");
    let cases = [
        ("", "EOF"),
        ("{", "EOF"),
        ("slug", "expected"),
        (r#" ["a", "b"]"#, "a list, not an object"),
        ("{}", "missing field `slug`"),
        (r#"{"slug":"a","colour":"red"}"#, "unknown field `colour`"),
        (r#"{"slug":7}"#, "expected a string"),
        (r#"{"slug":"a","slug":"b"}"#, "duplicate field `slug`"),
        ("\u{feff}{}", "expected value"),
    ];
    for (body, why) in cases {
        let answered = raw(&api, json, body).await;
        assert_eq!(answered.refusal(), refused(400, "body_invalid"), "{body}");
        let detail = answered.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains(why), "{body}: {detail}");
    }
    let bytes = raw(&api, json, vec![0xff, 0xfe]).await;
    assert_eq!(bytes.refusal(), refused(400, "body_invalid"));
    for kind in [None, Some("text/plain"), Some("application/xml"), Some("")] {
        let answered = raw(&api, kind, r#"{"slug":"a"}"#).await;
        assert_eq!(answered.refusal(), refused(415, "content_type_unsupported"), "{kind:?}");
    }
    assert_eq!(api.fake.state().projects.len(), 2, "nothing was kept");
}

/// Red by: a field that is ignored although a client sends it.
// Requirement: HC-8
#[tokio::test]
async fn every_body_refuses_unknown_fields() {
    let api = TestApi::new();
    let document = serde_json::to_value(usher_api::openapi::document()).unwrap();
    let mut seen = 0;
    for route in usher_api::routes() {
        let path = crate::rights::filled(route.path);
        let method = route.method.as_str().to_lowercase();
        let takes = &document["paths"][route.path][&method]["requestBody"];
        if takes.is_null()
            || route.right == usher_api::Right::Public
            || route.right == usher_api::Right::Node
        {
            continue;
        }
        let body = json!({"unknown_field": 1});
        let answered = api.ask("admin", route.method.as_str(), &path, Some(body)).await;
        assert_eq!(answered.refusal(), refused(400, "body_invalid"), "{path}");
        assert!(answered.text.contains("unknown field `unknown_field`"), "{path}");
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}

// Requirement: HC-8
#[tokio::test]
async fn invalid_values_are_refused_before_a_port_is_called() {
    let api = TestApi::new();
    let cases = [
        ("/v1/projects", json!({"slug": "No Slug"}), "project_slug"),
        ("/v1/projects", json!({"slug": "a", "name": " a"}), "project_name"),
        ("/v1/clouds", json!({"name": "A", "provider": "local"}), "slug_invalid"),
        ("/v1/clouds", json!({"name": "a", "provider": "moon"}), "provider_unknown"),
        (
            "/v1/credentials",
            json!({"name": "a", "cloud": "local", "mount": "..", "path": "a"}),
            "kv_mount",
        ),
        (
            "/v1/credentials",
            json!({"name": "a", "cloud": "local", "mount": "kv", "path": "a//b"}),
            "kv_path",
        ),
        ("/v1/operator-tokens", json!({"name": "a", "role": "operator"}), "grant_project_missing"),
        (
            "/v1/operator-tokens",
            json!({"name": "a", "role": "admin", "project": "demo"}),
            "grant_project_superfluous",
        ),
        (
            "/v1/blueprints",
            json!({"blueprint": "a", "version": "1", "xrd": {}, "composition": {},
                "strategy": "pigeon", "providers": []}),
            "injection_strategy_unknown",
        ),
        (
            "/v1/blueprints",
            json!({"blueprint": "a", "version": "a b", "xrd": {}, "composition": {},
                "strategy": "helm-values", "providers": []}),
            "invalid_input",
        ),
        (
            "/v1/blueprints",
            json!({"blueprint": "a", "version": "1", "xrd": {}, "composition": {},
                "parameters": [{"name": "a", "type": "string"}, {"name": "a", "type": "string"}],
                "strategy": "helm-values", "providers": []}),
            "schema_parameter_duplicate",
        ),
    ];
    for (path, body, code) in cases {
        let answered = api.ask("admin", "POST", path, Some(body.clone())).await;
        assert_eq!(answered.refusal(), refused(422, code), "{path} {body}");
    }
    let times = json!({"name": "a", "role": "viewer", "expires_at": "tomorrow"});
    let answered = api.ask("admin", "POST", "/v1/operator-tokens", Some(times)).await;
    assert_eq!(answered.refusal(), refused(400, "body_invalid"));
    let labels = json!({"labels": {"a b": "c"}});
    let answered = api.ask("admin", "PUT", "/v1/labels", Some(labels)).await;
    assert_eq!(answered.refusal(), refused(422, "label_key_name"));
    let many: serde_json::Map<_, _> =
        (0..65).map(|n| (format!("k{n}"), Value::from("v"))).collect();
    let answered = api.ask("admin", "PUT", "/v1/labels", Some(json!({"labels": many}))).await;
    assert_eq!(answered.refusal(), refused(422, "labels_too_many"));
}

// Requirement: HC-9
#[tokio::test]
async fn the_text_of_a_token_is_returned_once_and_never_listed() {
    let api = TestApi::new();
    let body = json!({"name": "ann", "role": "operator", "project": "demo"});
    let made = api.ask("admin", "POST", "/v1/operator-tokens", Some(body)).await;
    assert_eq!(made.status, 201);
    let text = made.json()["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("uot_"));
    let listed = api.get("/v1/operator-tokens").await;
    assert!(!listed.text.contains("uot_") && !listed.text.contains("hash"), "{}", listed.text);
}

#[tokio::test]
async fn abandoning_needs_a_reason() {
    let api = TestApi::new();
    let path = format!("/v1/resources/{}/abandon", first());
    let empty = api.ask("admin", "POST", &path, Some(json!({"reason": " "}))).await;
    assert_eq!(empty.refusal(), refused(422, "reason_required"));
    let given = api.ask("admin", "POST", &path, Some(json!({"reason": "the cloud is gone"}))).await;
    assert_eq!(given.status, 202);
}

/// A body as the listener ends it at its deadline.
struct LateBody;

impl futures_core::Stream for LateBody {
    type Item = Result<&'static str, usher_listen::BodyTimeout>;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        std::task::Poll::Ready(Some(Err(usher_listen::BodyTimeout)))
    }
}

// Requirement: CN-1
#[tokio::test]
async fn a_late_body_is_answered_with_408() {
    let api = TestApi::new();
    let request = Request::post("/v1/register").body(Body::from_stream(LateBody)).unwrap();
    assert_eq!(api.send(request).await.refusal(), refused(408, "body_timeout"));
}
