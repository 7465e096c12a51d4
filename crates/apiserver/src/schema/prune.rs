//! Pruning of unknown fields.

use super::{Additional, Schema};
use serde_json::Value;

/// Removes unknown fields; returns their paths, sorted.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut unknown = Vec::new();
    walk(object, schema, "", &mut unknown);
    unknown.sort();
    unknown
}

fn walk(value: &mut Value, schema: &Schema, at: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, child| {
                if schema.embedded && matches!(name.as_str(), "apiVersion" | "kind" | "metadata") {
                    return true;
                }
                let path = joined(at, name);
                if let Some(known) = schema.field(name) {
                    walk(child, known, &path, unknown);
                    return true;
                }
                let kept = schema.preserve_unknown || matches!(schema.additional, Additional::Any);
                if !kept {
                    unknown.push(path);
                }
                kept
            });
        }
        Value::Array(items) => {
            for (index, item) in items.iter_mut().enumerate() {
                let path = format!("{at}[{index}]");
                match &schema.items {
                    Some(known) => walk(item, known, &path, unknown),
                    None if schema.preserve_unknown => {}
                    None => walk(item, &Schema::default(), &path, unknown),
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

pub(super) fn joined(at: &str, name: &str) -> String {
    if at.is_empty() { name.to_owned() } else { format!("{at}.{name}") }
}
