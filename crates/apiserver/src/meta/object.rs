//! Validation of `metadata`, in the order of the errors.

use super::field::{self, FieldError, Path};
use super::name::{self, NameRule};
use serde_json::{Map, Value};
use std::collections::{BTreeSet, HashSet};

const ANNOTATIONS_MAX: usize = 256 * 1024;
/// The maximum number of errors about several controllers: each prints every owner.
const CONTROLLERS_TOLD: usize = 8;
const STANDARD_FINALIZERS: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];

/// The metadata rules of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetaRules {
    /// Whether its objects are namespaced.
    pub namespaced: bool,
    /// The rule of its names.
    pub names: NameRule,
}

/// Validates the metadata of a new or replaced object, below `path`.
pub fn validate(meta: &Value, rules: MetaRules, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    identity(meta, rules, path, &mut errors);
    if let Some(labels) = meta.get("labels").and_then(Value::as_object) {
        errors.extend(validate_labels(labels, &path.child("labels")));
    }
    if let Some(annotations) = meta.get("annotations").and_then(Value::as_object) {
        errors.extend(validate_annotations(annotations, &path.child("annotations")));
    }
    errors.extend(owner_references(meta, &path.child("ownerReferences")));
    errors.extend(finalizers(meta, &path.child("finalizers")));
    errors
}

/// Refuses finalizers that have no domain and are no standard ones, as most built-in kinds do.
pub fn standard_finalizers(meta: &Value, path: &Path) -> Vec<FieldError> {
    let detail = "name is neither a standard finalizer name nor is it fully qualified";
    let path = path.child("finalizers");
    let unqualified = texts(meta, "finalizers")
        .enumerate()
        .filter(|(_, name)| !name.contains('/') && !STANDARD_FINALIZERS.contains(name));
    unqualified
        .map(|(index, name)| FieldError::invalid_text(&path.index(index), name, detail))
        .collect()
}

/// Validates immutable and new metadata fields of an update.
pub fn validate_update(new: &Value, old: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !text(old, "deletionTimestamp").is_empty() {
        errors.extend(added_finalizers(new, old, &path.child("finalizers")));
    }
    let generation = |meta: &Value| meta.get("generation").and_then(Value::as_i64).unwrap_or(0);
    if generation(new) < generation(old) {
        let at = path.child("generation");
        let value = Value::from(generation(new));
        errors.push(FieldError::invalid(&at, &value, "must not be decremented"));
    }
    for fixed in ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", GRACE] {
        let before = old.get(fixed).filter(|value| !value.is_null());
        let after = new.get(fixed).filter(|value| !value.is_null());
        if before != after {
            let value = after.cloned().unwrap_or_else(|| absent(fixed));
            errors.push(FieldError::invalid(&path.child(fixed), &value, "field is immutable"));
        }
    }
    if let Some(labels) = new.get("labels").and_then(Value::as_object) {
        errors.extend(validate_labels(labels, &path.child("labels")));
    }
    if let Some(annotations) = new.get("annotations").and_then(Value::as_object) {
        errors.extend(validate_annotations(annotations, &path.child("annotations")));
    }
    errors.extend(owner_references(new, &path.child("ownerReferences")));
    errors
}

/// Validates the keys and values of labels.
pub fn validate_labels(labels: &Map<String, Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in labels {
        let value = value.as_str().unwrap_or_default();
        for wrong in name::qualified(key) {
            errors.push(FieldError::invalid_text(path, key, wrong));
        }
        for wrong in name::label_value(value) {
            errors.push(FieldError::invalid_text(path, value, wrong));
        }
    }
    errors
}

/// Validates the keys and total size of annotations.
pub fn validate_annotations(annotations: &Map<String, Value>, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in annotations {
        for wrong in name::qualified(&key.to_lowercase()) {
            errors.push(FieldError::invalid_text(path, key, wrong));
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(path, ANNOTATIONS_MAX));
    }
    errors
}

/// Removes duplicate owner references; returns their uids.
pub fn deduplicate_owners(meta: &mut Value) -> Vec<String> {
    let Some(owners) = meta.get_mut("ownerReferences").and_then(Value::as_array_mut) else {
        return Vec::new();
    };
    let mut seen = HashSet::with_capacity(owners.len());
    let mut given = HashSet::new();
    let mut doubled = Vec::new();
    owners.retain(|owner| {
        let new = seen.insert(owner.clone());
        let uid = text(owner, "uid");
        if !new && given.insert(uid.to_owned()) {
            doubled.push(uid.to_owned());
        }
        new
    });
    doubled
}

/// Warnings about unqualified finalizers of custom resources that the old metadata lack.
pub fn finalizer_warnings(meta: &Value, old: &Value, path: &Path) -> Vec<String> {
    let before: BTreeSet<&str> = texts(old, "finalizers").collect();
    let now: BTreeSet<&str> = texts(meta, "finalizers").collect();
    now.difference(&before)
        .filter(|name| {
            !name.is_empty() && !name.contains('/') && !STANDARD_FINALIZERS.contains(name)
        })
        .map(|name| {
            format!(
                "{}: {}: prefer a domain-qualified finalizer name to avoid accidental conflicts \
                 with other finalizer writers",
                path.child("finalizers"),
                field::quoted(name)
            )
        })
        .collect()
}

const GRACE: &str = "deletionGracePeriodSeconds";

/// The value printed for a removed field: an empty string, or null.
fn absent(field: &str) -> Value {
    match field {
        "name" | "namespace" | "uid" => Value::from(""),
        _ => Value::Null,
    }
}

fn identity(meta: &Value, rules: MetaRules, path: &Path, errors: &mut Vec<FieldError>) {
    let generate = text(meta, "generateName");
    if !generate.is_empty() {
        for wrong in name::check(rules.names, generate, true) {
            errors.push(FieldError::invalid_text(&path.child("generateName"), generate, wrong));
        }
    }
    let own = text(meta, "name");
    if own.is_empty() {
        let detail = "name or generateName is required";
        errors.push(FieldError::required(&path.child("name"), detail));
    } else {
        for wrong in name::check(rules.names, own, false) {
            errors.push(FieldError::invalid_text(&path.child("name"), own, wrong));
        }
    }
    let namespace = text(meta, "namespace");
    let at = path.child("namespace");
    match (rules.namespaced, namespace.is_empty()) {
        (true, true) => errors.push(FieldError::required(&at, "")),
        (true, false) => {
            for wrong in name::label(namespace) {
                errors.push(FieldError::invalid_text(&at, namespace, wrong));
            }
        }
        (false, false) => errors.push(FieldError::forbidden(&at, "not allowed on this type")),
        (false, true) => {}
    }
    if let Some(generation) = meta.get("generation").filter(|value| value.as_i64() < Some(0))
        && generation.is_number()
    {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path.child("generation"), generation, detail));
    }
}

fn owner_references(meta: &Value, path: &Path) -> Vec<FieldError> {
    let Some(owners) = meta.get("ownerReferences").and_then(Value::as_array) else {
        return Vec::new();
    };
    let mut errors = Vec::new();
    let mut controller: Option<&Value> = None;
    let mut others = 0;
    for owner in owners {
        owner_reference(owner, path, &mut errors);
        if owner.get("controller").and_then(Value::as_bool) != Some(true) {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(owner);
            continue;
        };
        others += 1;
        if others > CONTROLLERS_TOLD {
            continue;
        }
        let all: Vec<String> = owners.iter().map(shown_owner).collect();
        let detail = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for \
             {}/{} and {}/{}",
            text(first, "kind"),
            text(first, "name"),
            text(owner, "kind"),
            text(owner, "name")
        );
        let shown = Some(format!("[{}]", all.join(",")));
        errors.push(FieldError::made(field::Cause::Invalid, path, shown, detail));
    }
    errors
}

fn owner_reference(owner: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let version = text(owner, "apiVersion");
    if version.rsplit('/').next().unwrap_or_default().is_empty() {
        let at = path.child("apiVersion");
        errors.push(FieldError::invalid_text(&at, version, "version must not be empty"));
    }
    for needed in ["kind", "name", "uid"] {
        if text(owner, needed).is_empty() {
            errors.push(FieldError::invalid_text(&path.child(needed), "", "must not be empty"));
        }
    }
    if version == "v1" && text(owner, "kind") == "Event" {
        let detail = "/v1, Kind=Event is disallowed from being an owner";
        let shown = Some(shown_owner(owner));
        errors.push(FieldError::made(field::Cause::Invalid, path, shown, detail));
    }
}

/// An owner reference as JSON, in the order of its Go struct.
fn shown_owner(owner: &Value) -> String {
    let mut parts = Vec::new();
    for needed in ["apiVersion", "kind", "name", "uid"] {
        parts.push(format!("\"{needed}\":{}", Value::from(text(owner, needed))));
    }
    for optional in ["controller", "blockOwnerDeletion"] {
        if let Some(value) = owner.get(optional).filter(|value| value.is_boolean()) {
            parts.push(format!("\"{optional}\":{value}"));
        }
    }
    format!("{{{}}}", parts.join(","))
}

fn finalizers(meta: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let all: Vec<&str> = texts(meta, "finalizers").collect();
    for name in &all {
        for wrong in name::qualified(name) {
            errors.push(FieldError::invalid_text(path, name, wrong));
        }
    }
    if all.contains(&"orphan") && all.contains(&"foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        errors.push(FieldError::invalid(path, &Value::from(all.clone()), detail));
    }
    errors
}

fn added_finalizers(new: &Value, old: &Value, path: &Path) -> Option<FieldError> {
    let before: Vec<&str> = texts(old, "finalizers").collect();
    let added: Vec<String> =
        texts(new, "finalizers").filter(|name| !before.contains(name)).map(field::quoted).collect();
    if added.is_empty() {
        return None;
    }
    let detail = format!(
        "no new finalizers can be added if the object is being deleted, found new finalizers \
         []string{{{}}}",
        added.join(", ")
    );
    Some(FieldError::forbidden(path, detail))
}

fn text<'a>(object: &'a Value, field: &str) -> &'a str {
    object.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn texts<'a>(object: &'a Value, field: &str) -> impl Iterator<Item = &'a str> {
    object.get(field).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn duplicate_owners_are_reported_once_and_removed() {
        let owner = |uid: &str, name: &str| json!({"uid": uid, "name": name});
        let (a, b) = (owner("1", "a"), owner("1", "b"));
        let mut meta = json!({"ownerReferences": [a, b, a, a, b]});
        assert_eq!(deduplicate_owners(&mut meta), ["1"]);
        assert_eq!(meta, json!({"ownerReferences": [a, b]}));
    }

    #[test]
    fn errors_about_many_controllers_are_limited() {
        let owner = |index: usize| {
            let name = index.to_string();
            json!({
                "apiVersion": "v1", "kind": "Pod", "name": name, "uid": name, "controller": true,
            })
        };
        let errors = |count| {
            let owners: Vec<Value> = (0..count).map(owner).collect();
            owner_references(&json!({"ownerReferences": owners}), &Path::new("owners")).len()
        };
        assert_eq!([1, 3, 1000].map(errors), [0, 2, CONTROLLERS_TOLD]);
    }
}
