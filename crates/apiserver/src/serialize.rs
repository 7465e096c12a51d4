//! Serialization of objects.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::group_version;

/// Serializes an object: built-in kinds start with `kind`, custom ones are sorted.
pub(crate) fn write_object(value: &Value) -> Bytes {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let Some(map) = value.as_object().filter(|map| starts_with_kind(map)) else {
        return Bytes::from(value.to_string());
    };
    let first = FIRST.iter().filter_map(|key| map.get_key_value(*key));
    let rest = map.iter().filter(|(key, _)| !FIRST.contains(&key.as_str()));
    let mut out = String::from("{");
    for (key, value) in first.chain(rest) {
        if out.len() > 1 {
            out.push(',');
        }
        out.push_str(&Value::from(key.as_str()).to_string());
        out.push(':');
        out.push_str(&value.to_string());
    }
    out.push('}');
    Bytes::from(out)
}

fn starts_with_kind(map: &Map<String, Value>) -> bool {
    let api_version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let (group, _) = group_version(api_version);
    group.is_empty() || group.ends_with(".k8s.io")
}
