//! Requests made from the committed document. The tests of the whole server send the same ones.

use axum::http::{Request, header};
use proptest::prelude::*;
use serde_json::{Map, Value};

const DIGITS: [u8; 16] = *b"0123456789ABCDEF";

fn document() -> Value {
    serde_json::to_value(usher_api::openapi::document()).unwrap()
}

/// What a request is made from beside the document.
#[derive(Clone)]
pub(crate) struct Words {
    /// Texts that mean something to the server under test.
    pub(crate) known: Vec<String>,
    /// The callers, and how often each calls.
    pub(crate) bearers: Vec<(u32, String)>,
}

/// Texts that are valid in some field, and texts that are valid in none.
fn text(words: &Words) -> BoxedStrategy<String> {
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
        3 => proptest::sample::select(words.known.clone()),
        1 => any::<String>(),
        1 => "[a-z0-9-]{1,80}",
    ]
    .boxed()
}

fn anything(words: &Words) -> BoxedStrategy<Value> {
    let text = text(words);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..4)
                .prop_map(|it| Value::from(it.into_iter().collect::<Map<_, _>>())),
        ]
    })
    .boxed()
}

/// A value that fits a schema, mostly.
fn fitting(words: &Words, document: &Value, schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    if depth == 0 {
        return anything(words);
    }
    if let Some(pointer) = schema["$ref"].as_str() {
        let target = document.pointer(pointer.trim_start_matches('#')).unwrap().clone();
        return fitting(words, document, &target, depth - 1);
    }
    let kind = match &schema["type"] {
        Value::Array(kinds) => kinds[0].as_str().unwrap_or("object").to_owned(),
        Value::String(kind) => kind.clone(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => String::new(),
    };
    let sound = match kind.as_str() {
        "string" => text(words).prop_map(Value::from).boxed(),
        "integer" => any::<i64>().prop_map(Value::from).boxed(),
        "boolean" => any::<bool>().prop_map(Value::from).boxed(),
        "array" => {
            prop::collection::vec(fitting(words, document, &schema["items"], depth - 1), 0..3)
                .prop_map(Value::from)
                .boxed()
        }
        "object" if schema["properties"].is_object() => object(words, document, schema, depth),
        _ => anything(words),
    };
    prop_oneof![9 => sound, 1 => anything(words)].boxed()
}

fn object(words: &Words, document: &Value, schema: &Value, depth: u32) -> BoxedStrategy<Value> {
    let properties = schema["properties"].as_object().unwrap();
    let fields: Vec<_> = properties
        .iter()
        .map(|(name, schema)| {
            let value = fitting(words, document, schema, depth - 1);
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

/// A request for some operation of the document, valid or invalid.
pub(crate) fn requests(words: &Words) -> impl Strategy<Value = Request<Vec<u8>>> {
    let document = document();
    let routes = usher_api::routes();
    proptest::strategy::Union::new(routes.iter().map(|it| requests_of(words, &document, it)))
}

/// A request for an operation of the document.
fn requests_of(
    words: &Words,
    document: &Value,
    route: &usher_api::Route,
) -> BoxedStrategy<Request<Vec<u8>>> {
    let method = route.method.clone();
    let operation = &document["paths"][route.path][method.as_str().to_lowercase()];
    let body = &operation["requestBody"]["content"]["application/json"]["schema"];
    let body = if body.is_null() {
        Just(None).boxed()
    } else {
        let sound = fitting(words, document, body, 6).prop_map(|it| it.to_string().into_bytes());
        prop_oneof![19 => sound, 1 => any::<Vec<u8>>()].prop_map(Some).boxed()
    };
    let queries = operation["parameters"].as_array().into_iter().flatten();
    let queries: Vec<_> = queries
        .filter(|it| it["in"] == "query")
        .map(|it| {
            let name = it["name"].as_str().unwrap().to_owned();
            prop::option::weighted(0.3, (Just(name), text(words)))
        })
        .collect();
    let path = route.path;
    let pieces = prop::collection::vec(text(words), path.matches('{').count());
    let bearers = words.bearers.iter().map(|(often, it)| (*often, Just(it.clone())));
    let bearer = proptest::strategy::Union::new_weighted(bearers.collect());
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
            // A stream does not end, so it is only requested as pages.
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
