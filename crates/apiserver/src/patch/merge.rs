//! Merge patch (RFC 7396).

use super::{Refusal, go_type, read};
use serde_json::{Map, Value};

/// Parses a merge patch, which must be an object.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    let patch = read(body).map_err(Refusal::Undecodable)?;
    if patch.is_object() {
        return Ok(patch);
    }
    Err(Refusal::Undecodable(format!(
        "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
        go_type(&patch)
    )))
}

/// Applies the patch to the document.
pub fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *document = patch.clone();
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Value::Object(target) = document else { return };
    for (name, value) in fields {
        if value.is_null() {
            target.remove(name);
        } else {
            apply(target.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}
