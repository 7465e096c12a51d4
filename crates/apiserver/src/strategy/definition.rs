//! CRDs.

use serde_json::{Value, json};

use crate::core::text;
use crate::meta::field::{FieldError, Path};
use crate::meta::name;
use crate::schema::definition;

pub(super) fn default(object: &mut Value) {
    let kind = text(object, "/spec/names/kind").to_owned();
    if let Some(names) = object.pointer_mut("/spec/names").and_then(Value::as_object_mut) {
        names.entry("singular").or_insert_with(|| json!(kind.to_lowercase()));
        names.entry("listKind").or_insert_with(|| json!(format!("{kind}List")));
    }
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        spec.entry("conversion").or_insert_with(|| json!({"strategy": "None"}));
        spec.remove("preserveUnknownFields");
    }
}

/// Sets the initial status and the stored versions.
pub(super) fn default_status(object: &mut Value, new: bool) {
    let storage = storage_versions(object).first().map(|name| (*name).to_owned());
    if new {
        object["status"] = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": null,
        });
    }
    let Some(storage) = storage else { return };
    let stored = &mut object["status"]["storedVersions"];
    match stored.as_array_mut() {
        Some(list) if !list.contains(&json!(storage)) => list.push(json!(storage)),
        Some(_) => {}
        None => *stored = json!([storage]),
    }
}

pub(super) fn warnings(value: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    for version in value.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten() {
        if let Some(schema) = version.pointer("/schema/openAPIV3Schema") {
            warnings.extend(definition::warnings(schema));
        }
    }
    warnings
}

pub(super) fn validate(value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let (group, plural) = (text(value, "/spec/group"), text(value, "/spec/names/plural"));
    let own = text(value, "/metadata/name");
    if own != format!("{plural}.{group}") {
        let why = "must be spec.names.plural+\".\"+spec.group";
        errors.push(FieldError::invalid_text(&Path::new("metadata.name"), own, why));
    }
    let at = spec.child("group");
    if group.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let wrong = name::subdomain(group);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid_text(&at, group, why)));
        if !group.contains('.') {
            let why = "should be a domain with at least one dot";
            errors.push(FieldError::invalid_text(&at, group, why));
        }
    }
    let scope = text(value, "/spec/scope");
    if !matches!(scope, "Cluster" | "Namespaced") {
        let supported = ["Cluster", "Namespaced"].map(str::to_owned);
        let at = spec.child("scope");
        errors.push(FieldError::not_supported(&at, &json!(scope), &supported));
    }
    versions(value, &spec, &mut errors);
    names(value, &spec.child("names"), &mut errors);
    stored(value, &mut errors);
    if let Some(old) = old.filter(|old| crate::kinds::custom::has_condition(old, "Established")) {
        immutable(value, old, &mut errors);
    }
    errors
}

fn storage_versions(value: &Value) -> Vec<&str> {
    let versions = value.pointer("/spec/versions").and_then(Value::as_array);
    versions
        .into_iter()
        .flatten()
        .filter(|version| version["storage"].as_bool().unwrap_or_default())
        .map(|version| text(version, "/name"))
        .collect()
}

fn versions(value: &Value, spec: &Path, errors: &mut Vec<FieldError>) {
    let path = spec.child("versions");
    let versions = value.pointer("/spec/versions").and_then(Value::as_array);
    let versions: &[Value] = versions.map_or(&[], Vec::as_slice);
    if storage_versions(value).len() != 1 {
        let shown: Vec<String> = versions.iter().map(internal).collect();
        let shown = format!("[{}]", shown.join(","));
        let why = "must have exactly one version marked as storage version";
        let cause = crate::meta::field::Cause::Invalid;
        errors.push(FieldError::made(cause, &path, Some(shown), why));
    }
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        let name = text(version, "/name");
        for why in name::label_1035(name) {
            errors.push(FieldError::invalid_text(&at.child("name"), name, why));
        }
        let at = at.child("schema").child("openAPIV3Schema");
        let shared = spec.child("validation").child("openAPIV3Schema");
        let given = if versions.len() == 1 { &shared } else { &at };
        match version.pointer("/schema/openAPIV3Schema") {
            None => errors.push(FieldError::required(&at, "")),
            Some(schema) => errors.extend(definition::check(schema, given)),
        }
    }
}

/// A version in the format of Go's internal type, which appears in a message.
fn internal(version: &Value) -> String {
    format!(
        "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":null,\
         \"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\
         \"SelectableFields\":null}}",
        version["name"],
        version["served"].as_bool().unwrap_or_default(),
        version["storage"].as_bool().unwrap_or_default(),
        version["deprecated"].as_bool().unwrap_or_default(),
    )
}

fn names(value: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let names = value.pointer("/spec/names").unwrap_or(&Value::Null);
    for field in ["plural", "singular"] {
        let given = text(names, &format!("/{field}"));
        let at = path.child(field);
        for why in name::label_1035(given) {
            errors.push(FieldError::invalid_text(&at, given, why));
        }
    }
    for field in ["kind", "listKind"] {
        let given = text(names, &format!("/{field}"));
        let at = path.child(field);
        for why in name::label_1035(&given.to_lowercase()) {
            let why = format!("may have mixed case, but should otherwise match: {why}");
            errors.push(FieldError::invalid_text(&at, given, why));
        }
    }
    for field in ["shortNames", "categories"] {
        let list = names[field].as_array().into_iter().flatten();
        for (index, given) in list.enumerate() {
            let given = given.as_str().unwrap_or_default();
            for why in name::label_1035(given) {
                let at = path.child(field).index(index);
                errors.push(FieldError::invalid_text(&at, given, why));
            }
        }
    }
    if text(names, "/kind") == text(names, "/listKind") {
        let at = path.child("listKind");
        let given = text(names, "/listKind");
        errors.push(FieldError::invalid_text(&at, given, "kind and listKind may not be the same"));
    }
}

fn stored(value: &Value, errors: &mut Vec<FieldError>) {
    let path = Path::new("status.storedVersions");
    let stored = value.pointer("/status/storedVersions").unwrap_or(&Value::Null);
    let list = stored.as_array().map_or(&[][..], Vec::as_slice);
    if list.is_empty() {
        let why = "must have at least one stored version";
        errors.push(FieldError::invalid(&path, stored, why));
        return;
    }
    if let Some(missing) = storage_versions(value).last()
        && !list.contains(&json!(missing))
    {
        let why = format!("must have the storage version {missing}");
        errors.push(FieldError::invalid(&path, stored, why));
    }
    let versions = value.pointer("/spec/versions").and_then(Value::as_array);
    let is_there =
        |name: &str| versions.into_iter().flatten().any(|version| text(version, "/name") == name);
    for (index, name) in list.iter().enumerate() {
        let name = name.as_str().unwrap_or_default();
        if !is_there(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid_text(&path.index(index), name, why));
        }
    }
}

fn immutable(value: &Value, old: &Value, errors: &mut Vec<FieldError>) {
    for (pointer, field) in [("/spec/scope", "spec.scope"), ("/spec/names/kind", "spec.names.kind")]
    {
        if text(value, pointer) != text(old, pointer) {
            let given = text(value, pointer);
            errors.push(FieldError::invalid_text(&Path::new(field), given, "field is immutable"));
        }
    }
}
