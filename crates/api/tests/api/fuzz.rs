//! Requests made from the committed document, sound and unsound: never a 500, never a panic.

use axum::body::Body;
use axum::http::{Request, header};
use http_body_util::BodyExt as _;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Map, Value, json};
use usher_api::codes;
use usher_api::ports::Failure;

use crate::bed::Bed;
use crate::fake::{NODE_SECRET, first, node};

/// How many requests one run makes.
const CASES: u32 = 3_000;

const DIGITS: [u8; 16] = *b"0123456789ABCDEF";

fn document() -> Value {
    serde_json::to_value(usher_api::openapi::document()).unwrap()
}

/// Texts that are good somewhere, and texts that are good nowhere.
fn text() -> impl Strategy<Value = String> {
    let good = ["demo", "local", "local-node", "web-1", "1.0.0", "admin", "viewer", "operator"];
    let odd = [
        "",
        " ",
        "..",
        "../..",
        "%00",
        "\0",
        "\u{202e}",
        "ubt_x",
        "null",
        "1.0.1",
        "-1",
        "0",
        "2026-01-01T00:00:00Z",
        "cloud-init-user-data",
        "node",
        "'; DROP TABLE x; --",
    ];
    prop_oneof![
        4 => proptest::sample::select(good.to_vec()).prop_map(str::to_owned),
        2 => proptest::sample::select(odd.to_vec()).prop_map(str::to_owned),
        2 => Just(first().to_string()),
        1 => Just(node().to_string()),
        1 => any::<String>(),
        1 => "[a-z0-9-]{1,80}",
    ]
}

fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..4)
                .prop_map(|it| Value::from(it.into_iter().collect::<Map<_, _>>())),
        ]
    })
    .boxed()
}

/// A value that fits a schema, mostly.
fn fitting(document: &Value, schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    if depth == 0 {
        return anything();
    }
    if let Some(pointer) = schema["$ref"].as_str() {
        let target = document.pointer(pointer.trim_start_matches('#')).unwrap().clone();
        return fitting(document, &target, depth - 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or("object").to_owned(),
        Value::String(kind) => kind.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    };
    let sound = match kind.as_str() {
        "string" => text().prop_map(Value::from).boxed(),
        "integer" => any::<i64>().prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "array" => prop::collection::vec(fitting(document, &schema["items"], depth - 1), 0..3)
            .prop_map(Value::from)
            .boxed(),
        "object" if schema["properties"].is_object() => object(document, schema, depth),
        _ => anything(),
    };
    prop_oneof![9 => sound, 1 => anything()].boxed()
}

fn object(document: &Value, schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let properties = schema["properties"].as_object().unwrap();
    let fields: Vec<_> = properties
        .iter()
        .map(|(name, schema)| {
            let value = fitting(document, schema, depth - 1);
            (Just(name.clone()), prop::option::weighted(0.95, value))
        })
        .collect();
    fields
        .prop_map(|fields| {
            let given = fields.into_iter().filter_map(|(name, value)| Some((name, value?)));
            Value::from(given.collect::<Map<_, _>>())
        })
        .boxed()
}

/// A request for an operation of the document.
fn asked(document: &Value, route: &usher_api::Route) -> BoxedStrategy<Request<Vec<u8>>> {
    let method = route.method.clone();
    let operation = &document["paths"][route.path][method.as_str().to_lowercase()];
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let body = if body.is_null() {
        Just(None).boxed()
    } else {
        let sound = fitting(document, body, 6).prop_map(|it| it.to_string().into_bytes());
        prop_oneof![19 => sound, 1 => any::<Vec<u8>>()].prop_map(Some).boxed()
    };
    let queries = operation["parameters"].as_array().into_iter().flatten();
    let queries: Vec<_> = queries
        .filter(|it| it["in"] == "query")
        .map(|it| {
            let name = it["name"].as_str().unwrap().to_owned();
            prop::option::weighted(0.3, (Just(name), text()))
        })
        .collect();
    let path = route.path;
    let pieces = prop::collection::vec(text(), path.matches('{').count());
    let bearer = prop_oneof![
        6 => Just("admin-canary"),
        2 => Just("operator-canary"),
        2 => Just(NODE_SECRET),
        1 => Just("wrong"),
    ];
    let extra = (bearer, any::<bool>(), prop::option::weighted(0.2, "[ -~]{0,40}"));
    (pieces, queries, body, extra)
        .prop_map(move |(pieces, queries, body, (bearer, streams, key))| {
            let mut uri = String::new();
            let mut pieces = pieces.iter();
            for part in path.split('/').skip(1) {
                uri.push('/');
                if part.starts_with('{') {
                    uri.push_str(&encoded(pieces.next().map_or("x", String::as_str)));
                } else {
                    uri.push_str(part);
                }
            }
            let given: Vec<_> = queries.into_iter().flatten().collect();
            let query: Vec<_> =
                given.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
            let uri = format!("{uri}?{}", query.join("&"));
            let mut it = Request::builder()
                .method(method.clone())
                .uri(uri)
                .header(header::AUTHORIZATION, format!("Bearer {bearer}"))
                .header(header::CONTENT_TYPE, "application/json");
            // A stream lasts, so it is asked for without its beginning only by pages.
            if streams && !path.ends_with("/events") {
                it = it.header(header::ACCEPT, "text/event-stream");
            }
            if let Some(key) = key {
                it = it.header(usher_api::IDEMPOTENCY_KEY, key);
            }
            it.body(body.unwrap_or_default()).unwrap()
        })
        .boxed()
}

fn encoded(text: &str) -> String {
    let text = if text.is_empty() { "x" } else { text };
    text.bytes()
        .flat_map(|b| [b'%', DIGITS[usize::from(b >> 4)], DIGITS[usize::from(b & 15)]])
        .map(char::from)
        .collect()
}

/// Red by: a parser that panics, a failure without a closed code.
#[test]
fn requests_from_the_document_are_never_a_bug() {
    let document = document();
    let routes = usher_api::routes();
    let each: Vec<_> = routes.iter().map(|it| asked(&document, it)).collect();
    let some = proptest::strategy::Union::new(each);
    let rng = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let config = Config { cases: CASES, failure_persistence: None, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, rng);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bed = Bed::new();
    let statuses = std::cell::RefCell::new(std::collections::BTreeMap::new());
    runner
        .run(&(some, prop::bool::weighted(0.1)), |(request, down)| {
            let what = "the database".to_owned();
            bed.fake.fail(down.then_some(Failure::Unavailable { what }));
            let shown = format!("{} {}", request.method(), request.uri());
            let response = runtime.block_on(bed.open(request.map(Body::from)));
            let status = response.status().as_u16();
            *statuses.borrow_mut().entry(status).or_insert(0) += 1;
            prop_assert!(status != 500, "{}", shown);
            if status >= 400 {
                let body = runtime.block_on(response.into_body().collect()).unwrap().to_bytes();
                let problem: Value = serde_json::from_slice(&body).unwrap_or(json!({}));
                let code = problem["code"].as_str().unwrap_or("");
                prop_assert_eq!(codes::status(code), Some(status), "{} {}", shown, problem);
            }
            Ok(())
        })
        .unwrap();
    let statuses = statuses.into_inner();
    for reached in [200, 201, 202, 400, 401, 404, 409, 422, 503] {
        assert!(statuses.contains_key(&reached), "{reached} was never reached: {statuses:?}");
    }
}
