//! Merge patch (RFC 7396): objects are laid over objects, null takes away, the rest replaces.

use super::{Refusal, go_type, read};
use serde_json::{Map, Value};

/// Reads a merge patch: it must be an object, as a whole document cannot be replaced.
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

/// Lays the patch over the document.
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
