//! The committed document is the one generated from the routes.

use std::path::Path;

use serde_json::Value;

use crate::test_api::TestApi;

fn committed() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    std::fs::read_to_string(path).unwrap()
}

// Requirement: HC-15
#[test]
fn the_committed_document_is_the_one_the_routes_make() {
    let same = committed() == usher_api::openapi::text();
    assert!(same, "docs/openapi.json is old: run `cargo xtask generate`");
}

// Requirement: HC-15
#[tokio::test]
async fn the_document_is_public_and_names_every_route() {
    let api = TestApi::new();
    let served = api.ask("anonymous", "GET", "/openapi.json", None).await;
    assert_eq!((served.status, &served.text), (200, &committed()));
    let document: Value = served.json();
    assert!(document["openapi"].as_str().unwrap().starts_with("3."));
    for route in usher_api::routes() {
        let method = route.method.as_str().to_lowercase();
        let operation = &document["paths"][route.path][&method];
        assert_eq!(operation["summary"], route.summary, "{} {}", route.method, route.path);
        assert!(operation["responses"]["default"].is_object(), "{}", route.path);
    }
}

/// Red by: a schema that refers to one that does not exist.
// Requirement: HC-15
#[test]
fn every_reference_in_the_document_leads_somewhere() {
    let document: Value = serde_json::from_str(&committed()).unwrap();
    let mut seen = 0;
    let mut open = vec![&document];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                if let Some(Value::String(text)) = map.get("$ref") {
                    let pointer = text.strip_prefix('#').unwrap();
                    assert!(document.pointer(pointer).is_some(), "{text}");
                    seen += 1;
                }
                open.extend(map.values());
            }
            Value::Array(items) => open.extend(items),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    assert!(seen > 50, "{seen}");
}
