//! The `OpenAPI` v2 document in protobuf. Field numbers are those of `openapi.v2` of gnostic.

use serde_json::Value;

/// A `Document`.
pub(super) fn document(document: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    text(&mut out, 1, &document["swagger"]);
    let mut info = Vec::new();
    text(&mut info, 1, &document["info"]["title"]);
    text(&mut info, 2, &document["info"]["version"]);
    bytes(&mut out, 2, &info);
    bytes(&mut out, 8, &[]);
    bytes(&mut out, 9, &named_schemas(&document["definitions"]));
    out
}

/// `Definitions` or `Properties`.
fn named_schemas(schemas: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in schemas.as_object().into_iter().flatten() {
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &schema(value));
        bytes(&mut out, 1, &entry);
    }
    out
}

/// A `Schema`.
fn schema(value: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, field) in [(1, "$ref"), (2, "format"), (4, "description")] {
        text(&mut out, number, &value[field]);
    }
    for required in value["required"].as_array().into_iter().flatten() {
        text(&mut out, 19, required);
    }
    match &value["additionalProperties"] {
        Value::Object(_) => {
            let mut item = Vec::new();
            bytes(&mut item, 1, &schema(&value["additionalProperties"]));
            bytes(&mut out, 21, &item);
        }
        Value::Bool(allowed) => bytes(&mut out, 21, &[2 << 3, u8::from(*allowed)]),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {}
    }
    if value["type"].is_string() {
        let mut item = Vec::new();
        text(&mut item, 1, &value["type"]);
        bytes(&mut out, 22, &item);
    }
    if value["items"].is_object() {
        let mut item = Vec::new();
        bytes(&mut item, 1, &schema(&value["items"]));
        bytes(&mut out, 23, &item);
    }
    if value["properties"].is_object() {
        bytes(&mut out, 25, &named_schemas(&value["properties"]));
    }
    let fields = value.as_object().into_iter().flatten();
    for (name, extension) in fields.filter(|(name, _)| name.starts_with("x-")) {
        // The extension is YAML, of which JSON is a part.
        let mut any = Vec::new();
        bytes(&mut any, 2, extension.to_string().as_bytes());
        let mut entry = Vec::new();
        bytes(&mut entry, 1, name.as_bytes());
        bytes(&mut entry, 2, &any);
        bytes(&mut out, 31, &entry);
    }
    out
}

fn text(out: &mut Vec<u8>, number: u32, value: &Value) {
    if let Some(text) = value.as_str() {
        bytes(out, number, text.as_bytes());
    }
}

/// A length-delimited field.
fn bytes(out: &mut Vec<u8>, number: u32, inside: &[u8]) {
    varint(out, u64::from(number << 3 | 2));
    varint(out, inside.len() as u64);
    out.extend_from_slice(inside);
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    loop {
        let [low, ..] = number.to_le_bytes();
        number >>= 7;
        if number == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}
