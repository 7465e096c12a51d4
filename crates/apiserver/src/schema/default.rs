//! Nulls and defaults.

use super::{Additional, Schema};
use serde_json::Value;

/// Removes nulls that are not allowed and have no default.
pub fn drop_nulls(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => fields.retain(|name, child| {
            let Some(known) = schema.field(name) else { return true };
            if child.is_null() {
                return known.nullable || known.default.is_some();
            }
            drop_nulls(child, known);
            true
        }),
        Value::Array(items) => {
            if let Some(known) = &schema.items {
                for item in items {
                    drop_nulls(item, known);
                }
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Sets the defaults of fields that are missing, or null where null is not allowed.
pub fn fill(value: &mut Value, schema: &Schema) {
    match value {
        Value::Object(fields) => {
            for (name, known) in &schema.properties {
                let Some(default) = &known.default else { continue };
                if fields.get(name).is_none_or(|found| found.is_null() && !known.nullable) {
                    fields.insert(name.clone(), default.clone());
                }
            }
            for (name, child) in fields.iter_mut() {
                let known = match (schema.properties.get(name), &schema.additional) {
                    (Some(known), _) => known,
                    (None, Additional::Schema(known)) => {
                        stand_in(child, known);
                        known
                    }
                    (None, Additional::None | Additional::Any) => continue,
                };
                fill(child, known);
            }
        }
        Value::Array(items) => {
            let Some(known) = &schema.items else { return };
            for item in items {
                stand_in(item, known);
                fill(item, known);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn stand_in(value: &mut Value, schema: &Schema) {
    if let (true, false, Some(default)) = (value.is_null(), schema.nullable, &schema.default) {
        *value = default.clone();
    }
}
