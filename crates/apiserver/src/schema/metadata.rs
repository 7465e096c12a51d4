//! Coerces the metadata of an object and of embedded objects.

use super::prune::joined;
use super::{Schema, prune};
use crate::meta::field::{FieldError, Path};
use crate::meta::object;
use crate::patch::go_type;
use serde_json::Value;

/// The type of a metadata field.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Time,
    Texts,
    TextMap,
    Owners,
    Managers,
}

const FIELDS: [(&str, Kind); 16] = [
    ("name", Kind::Text),
    ("generateName", Kind::Text),
    ("namespace", Kind::Text),
    ("selfLink", Kind::Text),
    ("uid", Kind::Text),
    ("resourceVersion", Kind::Text),
    ("generation", Kind::Number),
    ("creationTimestamp", Kind::Time),
    ("deletionTimestamp", Kind::Time),
    ("deletionGracePeriodSeconds", Kind::Number),
    ("labels", Kind::TextMap),
    ("annotations", Kind::TextMap),
    ("ownerReferences", Kind::Owners),
    ("finalizers", Kind::Texts),
    ("managedFields", Kind::Managers),
    ("clusterName", Kind::Text),
];

const OWNER: [(&str, bool); 6] = [
    ("apiVersion", false),
    ("kind", false),
    ("name", false),
    ("uid", false),
    ("controller", true),
    ("blockOwnerDeletion", true),
];

/// Coerces the metadata of an object and of embedded objects: removes unknown fields and empty
/// values. Returns the sorted paths of unknown fields, or the error that follows "cannot be handled
/// as".
pub fn coerce(object: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    let mut unknown = Vec::new();
    if let Some(meta) = object.get_mut("metadata") {
        shape(meta, "metadata", &mut unknown)?;
    }
    embedded(object, schema, "", &mut unknown);
    unknown.sort();
    Ok(unknown)
}

/// Validates embedded objects: they need `apiVersion`, `kind` and valid metadata.
pub(super) fn check_embedded(
    value: &Value,
    schema: &Schema,
    path: &Path,
    root: bool,
    errors: &mut Vec<FieldError>,
) {
    match value {
        Value::Object(fields) => {
            if schema.embedded && !root {
                whole(value, path, errors);
            }
            for (name, child) in fields {
                if let Some(known) = schema.field(name) {
                    check_embedded(child, known, &path.child(name), false, errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(known) = &schema.items else { return };
            for (index, item) in items.iter().enumerate() {
                check_embedded(item, known, &path.index(index), false, errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn whole(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for needed in ["apiVersion", "kind"] {
        let found = value.get(needed);
        match found {
            Some(Value::String(text)) if !text.is_empty() => {}
            None | Some(Value::Null | Value::String(_)) => {
                errors.push(FieldError::required(&path.child(needed), ""));
            }
            Some(other) => {
                let at = path.child(needed);
                let found = go_type(other);
                let detail = format!("{at} in body must be of type string: \"{found}\"");
                errors.push(FieldError::type_invalid(&at, found, detail));
            }
        }
    }
    let at = path.child("metadata");
    let Some(meta) = value.get("metadata") else { return };
    let mut copy = meta.clone();
    if let Err(why) = shape(&mut copy, at.as_str(), &mut Vec::new()) {
        errors.push(FieldError::invalid(&at, meta, why));
        return;
    }
    if let Some(labels) = meta.get("labels").and_then(Value::as_object) {
        errors.extend(object::validate_labels(labels, &at.child("labels")));
    }
    if let Some(annotations) = meta.get("annotations").and_then(Value::as_object) {
        errors.extend(object::validate_annotations(annotations, &at.child("annotations")));
    }
}

fn embedded(value: &mut Value, schema: &Schema, at: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            if schema.embedded
                && !at.is_empty()
                && let Some(meta) = fields.get_mut("metadata")
            {
                // Invalid metadata stays as it is, and validation reports it.
                let mut shaped = meta.clone();
                if shape(&mut shaped, &joined(at, "metadata"), unknown).is_ok() {
                    *meta = shaped;
                }
            }
            for (name, child) in fields.iter_mut() {
                if let Some(known) = schema.field(name) {
                    embedded(child, known, &joined(at, name), unknown);
                }
            }
        }
        Value::Array(items) => {
            let Some(known) = &schema.items else { return };
            for (index, item) in items.iter_mut().enumerate() {
                embedded(item, known, &format!("{at}[{index}]"), unknown);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

fn shape(meta: &mut Value, at: &str, unknown: &mut Vec<String>) -> Result<(), String> {
    let Value::Object(fields) = meta else {
        if meta.is_null() {
            return Ok(());
        }
        return Err(mismatch(meta, "", "v1.ObjectMeta"));
    };
    for (name, kind) in FIELDS {
        if let Some(value) = fields.get_mut(name) {
            typed(value, name, kind)?;
        }
    }
    fields.retain(|name, value| {
        let known = FIELDS.iter().any(|(field, _)| field == name) && name != "clusterName";
        if !known {
            unknown.push(joined(at, name));
        }
        known && !is_empty(name, value)
    });
    if let Some(Value::Array(owners)) = fields.get_mut("ownerReferences") {
        for (index, owner) in owners.iter_mut().enumerate() {
            let Value::Object(owner) = owner else { continue };
            owner.retain(|name, value| {
                let known = OWNER.iter().any(|(field, _)| field == name);
                if !known {
                    unknown.push(format!("{at}.ownerReferences[{index}].{name}"));
                }
                known && !value.is_null()
            });
        }
    }
    Ok(())
}

/// Whether a value is empty and omitted.
fn is_empty(name: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Number(number) => name == "generation" && number.as_i64() == Some(0),
        Value::Bool(_) => false,
    }
}

fn typed(value: &mut Value, name: &str, kind: Kind) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    match kind {
        Kind::Text if value.is_string() => Ok(()),
        Kind::Text => Err(mismatch(value, name, "string")),
        Kind::Number if value.as_i64().is_some() => Ok(()),
        Kind::Number => Err(mismatch(value, name, "int64")),
        Kind::Time => time(value),
        Kind::Texts => {
            let Value::Array(items) = value else { return Err(mismatch(value, name, "[]string")) };
            all(items.iter(), Value::is_string, name, "string")
        }
        Kind::TextMap => {
            let Value::Object(fields) = value else {
                return Err(mismatch(value, name, "map[string]string"));
            };
            all(fields.values(), Value::is_string, name, "string")
        }
        Kind::Owners => owners(value, name),
        Kind::Managers => {
            let Value::Array(items) = value else {
                return Err(mismatch(value, name, "[]v1.ManagedFieldsEntry"));
            };
            all(items.iter(), Value::is_object, name, "v1.ManagedFieldsEntry")
        }
    }
}

fn all<'a>(
    mut values: impl Iterator<Item = &'a Value>,
    fits: fn(&Value) -> bool,
    name: &str,
    expected: &str,
) -> Result<(), String> {
    match values.find(|value| !fits(value)) {
        Some(other) => Err(mismatch(other, name, expected)),
        None => Ok(()),
    }
}

fn owners(value: &Value, name: &str) -> Result<(), String> {
    let Value::Array(items) = value else {
        return Err(mismatch(value, name, "[]v1.OwnerReference"));
    };
    for item in items {
        let Value::Object(fields) = item else {
            return Err(mismatch(item, name, "v1.OwnerReference"));
        };
        for (field, flag) in OWNER {
            match (fields.get(field), flag) {
                (None | Some(Value::Null), _)
                | (Some(Value::Bool(_)), true)
                | (Some(Value::String(_)), false) => {}
                (Some(other), _) => {
                    let expected = if flag { "bool" } else { "string" };
                    return Err(mismatch(other, &format!("{name}.{field}"), expected));
                }
            }
        }
    }
    Ok(())
}

fn time(value: &Value) -> Result<(), String> {
    let text = value.as_str().ok_or_else(|| {
        format!("json: cannot unmarshal {} into Go value of type string", go_type(value))
    })?;
    if text.is_empty() || text.parse::<jiff::Timestamp>().is_ok() {
        return Ok(());
    }
    Err(format!(
        "parsing time \"{text}\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"{text}\" as \
         \"2006\""
    ))
}

fn mismatch(value: &Value, field: &str, expected: &str) -> String {
    let found = go_type(value);
    if field.is_empty() {
        return format!("json: cannot unmarshal {found} into Go value of type {expected}");
    }
    format!(
        "json: cannot unmarshal {found} into Go struct field ObjectMeta.{field} of type {expected}"
    )
}

/// Coerces the metadata, prunes, drops nulls and sets defaults, in this order. Returns the unknown
/// fields.
pub fn normalize(object: &mut Value, schema: &Schema) -> Result<Vec<String>, String> {
    let mut unknown = coerce(object, schema)?;
    unknown.extend(prune(object, schema));
    unknown.sort();
    super::default::drop_nulls(object, schema);
    super::default::fill(object, schema);
    Ok(unknown)
}
