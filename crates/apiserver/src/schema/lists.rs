//! Duplicate items in sets and keyed lists.

use super::{Counterparts, ListType, Schema};
use crate::meta::field::{FieldError, Path};
use serde_json::{Map, Value};
use std::collections::HashSet;

/// Finds duplicate items below a value; unchanged values are tolerated.
pub(super) fn doubled(
    value: &Value,
    old: Option<&Value>,
    schema: &Schema,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if old == Some(value) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                if let Some(known) = schema.field(name) {
                    let before = old.and_then(|old| old.get(name));
                    doubled(child, before, known, &path.child(name), errors);
                }
            }
        }
        Value::Array(items) => {
            repeated(items, &schema.list, path, errors);
            let Some(known) = &schema.items else { return };
            let before = old.and_then(Value::as_array).map(Vec::as_slice);
            let others = Counterparts::new(&schema.list, before);
            for (index, item) in items.iter().enumerate() {
                let before = others.of(item);
                doubled(item, before, known, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn repeated(items: &[Value], list: &ListType, path: &Path, errors: &mut Vec<FieldError>) {
    let identity = |item: &Value| match list {
        ListType::Atomic => None,
        ListType::Set => Some(item.clone()),
        ListType::Map(keys) => {
            let fields = item.as_object()?;
            let known = keys.iter().filter_map(|key| Some((key.clone(), fields.get(key)?.clone())));
            Some(Value::Object(known.collect::<Map<_, _>>()))
        }
    };
    let mut seen = HashSet::new();
    for (index, item) in items.iter().enumerate() {
        let Some(identity) = identity(item) else { continue };
        if !seen.insert(identity.to_string()) {
            errors.push(FieldError::duplicate(&path.index(index), &identity));
        }
    }
}
