//! The `OpenAPI` v2 document of all kinds, with which `kubectl` validates lists.

use serde_json::{Map, Value, json};

use super::{META, metadata, protobuf, schema, schema_name};
use crate::http::Answer;
use crate::kinds::Kinds;

const MEDIA: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
/// The same as clients ask for it.
const ASKED: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";

/// What a closed schema keeps.
const STRICT: [&str; 6] = [
    "required",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
    "x-kubernetes-patch-strategy",
    "x-kubernetes-patch-merge-key",
];

/// The document, in protobuf for clients that prefer it.
pub(crate) fn document(kinds: &Kinds, accept: &str) -> Answer {
    let document = written(kinds);
    let first = accept.split(',').next().unwrap_or_default();
    if first.split(';').next().is_some_and(|media| [ASKED, MEDIA].contains(&media.trim())) {
        return Answer::bytes(200, MEDIA, protobuf::document(&document).into());
    }
    Answer::json(200, &document)
}

fn written(kinds: &Kinds) -> Value {
    let mut definitions = Map::new();
    definitions.insert(META.to_owned(), simple(&metadata()));
    for resource in kinds.all() {
        definitions.insert(schema_name(resource), simple(&schema(resource)));
    }
    json!({
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": {},
        "definitions": definitions,
    })
}

/// A schema with what v2 knows: where that says less than v3, everything is allowed.
fn simple(schema: &Value) -> Value {
    let mut simple = Map::new();
    keep(&mut simple, schema, &["description", "x-kubernetes-group-version-kind"]);
    if let Some(reference) = reference(schema) {
        simple.insert("$ref".to_owned(), json!(reference));
        return Value::Object(simple);
    }
    let says = |name: &str| schema[name].as_bool().unwrap_or_default();
    if says("nullable") || says("x-kubernetes-int-or-string") {
        return Value::Object(simple);
    }
    keep(&mut simple, schema, &["type", "format"]);
    if says("x-kubernetes-preserve-unknown-fields") || says("x-kubernetes-embedded-resource") {
        return Value::Object(simple);
    }
    keep(&mut simple, schema, &STRICT);
    if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
        simple.insert("items".to_owned(), self::simple(items));
    }
    if let Some(entry) = schema.get("additionalProperties") {
        let entry = if entry.is_object() { self::simple(entry) } else { entry.clone() };
        simple.insert("additionalProperties".to_owned(), entry);
    }
    let properties = schema.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
        let fields = properties.iter().map(|(name, field)| (name.clone(), self::simple(field)));
        simple.insert("properties".to_owned(), Value::Object(fields.collect()));
    }
    Value::Object(simple)
}

fn keep(simple: &mut Map<String, Value>, schema: &Value, names: &[&str]) {
    for name in names {
        if let Some(value) = schema.get(*name) {
            simple.insert((*name).to_owned(), value.clone());
        }
    }
}

/// What a schema refers to, alone or as its only part.
fn reference(schema: &Value) -> Option<String> {
    let whole = schema.get("$ref").or_else(|| match schema["allOf"].as_array()?.as_slice() {
        [only] => only.get("$ref"),
        _ => None,
    });
    Some(whole?.as_str()?.replace("#/components/schemas/", "#/definitions/"))
}
