//! Validation of CRD schemas.

use super::rules::Rules;
use super::{JsonType, Schema, default, format, prune};
use crate::meta::field::{FieldError, Path};
use serde_json::{Map, Value};

const STRUCTURAL: &str = "must be empty to be structural";
const JUNCTORS: [&str; 3] = ["allOf", "anyOf", "oneOf"];
/// Keywords that are not allowed inside `allOf` and the like, because they do not only validate.
const ONLY_OUTSIDE: [&str; 11] = [
    "type",
    "description",
    "title",
    "default",
    "nullable",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
];

/// Validates the schema of a version, below `path`.
pub fn check(schema: &Value, path: &Path) -> Vec<FieldError> {
    let mut errors = Vec::new();
    root(schema, path, &mut errors);
    node(schema, path, Place::Root, &mut errors);
    if errors.is_empty() {
        defaults(schema, path, &mut errors);
        rules(schema, path, true, &mut errors);
    }
    errors
}

/// Warnings about unknown formats.
pub fn warnings(schema: &Value) -> Vec<String> {
    let mut found = Vec::new();
    unknown_formats(schema, &mut found);
    found
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Root,
    Field,
    Item,
}

fn root(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    match text(schema, "type") {
        "" | "object" => {}
        other => {
            let at = path.child("type");
            errors.push(FieldError::invalid_text(&at, other, "must be object at the root"));
        }
    }
    let meta = schema.get("properties").and_then(|fields| fields.get("metadata"));
    let restricted = meta.and_then(Value::as_object).is_some_and(|meta| {
        let fields = meta.get("properties").and_then(Value::as_object);
        let names = fields
            .is_none_or(|all| all.keys().all(|name| name == "name" || name == "generateName"));
        let others =
            meta.keys().any(|key| !["type", "properties", "description"].contains(&key.as_str()));
        !names || others
    });
    if restricted {
        let detail = "must not specify anything other than name and generateName, but metadata is \
                      implicitly specified";
        errors.push(FieldError::forbidden(&path.child("properties").key("metadata"), detail));
    }
}

fn node(schema: &Value, path: &Path, place: Place, errors: &mut Vec<FieldError>) {
    let Some(fields) = schema.as_object() else { return };
    check_kind(schema, path, place, errors);
    forbidden(fields, path, errors);
    check_list(schema, path, errors);
    if let Some(pattern) = schema.get("pattern").and_then(Value::as_str)
        && let Err(error) = super::pattern(pattern)
    {
        let at = path.child("pattern");
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid_text(&at, pattern, detail));
    }
    for (name, child) in named(schema, "properties") {
        let at = path.child("properties").key(name);
        if place == Place::Root && name == "metadata" {
            continue;
        }
        node(child, &at, Place::Field, errors);
    }
    if let Some(child) = schema.get("additionalProperties").filter(|child| child.is_object()) {
        node(child, &path.child("additionalProperties"), Place::Field, errors);
    }
    if let Some(child) = schema.get("items").filter(|child| child.is_object()) {
        node(child, &path.child("items"), Place::Item, errors);
    }
    let lenient = flag(schema, "x-kubernetes-int-or-string");
    for junctor in JUNCTORS {
        let branches = schema.get(junctor).and_then(Value::as_array).into_iter().flatten();
        for (index, branch) in branches.enumerate() {
            joined(branch, &path.child(junctor).index(index), lenient, errors);
        }
    }
    if let Some(branch) = schema.get("not") {
        joined(branch, &path.child("not"), false, errors);
    }
}

fn check_kind(schema: &Value, path: &Path, place: Place, errors: &mut Vec<FieldError>) {
    let at = path.child("type");
    let kind = text(schema, "type");
    let int_or_string = flag(schema, "x-kubernetes-int-or-string");
    if !kind.is_empty() {
        if JsonType::of(kind).is_none() {
            let known = ["array", "boolean", "integer", "number", "object", "string"];
            let known: Vec<String> = known.into_iter().map(str::to_owned).collect();
            errors.push(FieldError::not_supported(&at, &Value::from(kind), &known));
        }
        if int_or_string {
            let detail = "must be empty if x-kubernetes-int-or-string is true";
            errors.push(FieldError::forbidden(&at, detail));
        }
        return;
    }
    if int_or_string
        || (flag(schema, "x-kubernetes-preserve-unknown-fields") && place != Place::Root)
    {
        return;
    }
    let detail = match place {
        Place::Root => "must not be empty at the root",
        Place::Field => "must not be empty for specified object fields",
        Place::Item => "must not be empty for specified array items",
    };
    errors.push(FieldError::required(&at, detail));
}

fn forbidden(fields: &Map<String, Value>, path: &Path, errors: &mut Vec<FieldError>) {
    for unsupported in ["$ref", "definitions", "dependencies", "patternProperties", "id"] {
        if fields.contains_key(unsupported) {
            let detail = format!("{unsupported} is not supported");
            errors.push(FieldError::forbidden(&path.child(unsupported), detail));
        }
    }
    if fields.get("uniqueItems") == Some(&Value::Bool(true)) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes \
                      quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
    if fields.get("additionalProperties") == Some(&Value::Bool(false)) {
        let detail = "additionalProperties cannot be set to false";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    let both = ["properties", "additionalProperties"];
    if both.iter().all(|name| fields.get(*name).is_some_and(|value| !value.is_null())) {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), detail));
    }
    if fields.get("items").is_some_and(Value::is_array) {
        let detail = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(&path.child("items"), detail));
    }
    let array = fields.get("type").and_then(Value::as_str) == Some("array");
    if array && !fields.contains_key("items") {
        errors.push(FieldError::required(&path.child("items"), "must be specified"));
    }
}

fn check_list(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let kind = text(schema, "x-kubernetes-list-type");
    let keys: Vec<&str> = schema
        .get("x-kubernetes-list-map-keys")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let at = path.child("x-kubernetes-list-map-keys");
    match kind {
        "map" if keys.is_empty() => {
            let detail = "must not be empty if x-kubernetes-list-type is map";
            errors.push(FieldError::required(&at, detail));
        }
        "map" => map_keys(schema, &keys, path, errors),
        "" | "atomic" | "set" if !keys.is_empty() => {
            let detail = "must be empty if x-kubernetes-list-type is not map";
            errors.push(FieldError::forbidden(&at, detail));
        }
        "set" => set_items(schema, &path.child("items"), errors),
        "" | "atomic" => {}
        other => {
            let known = ["atomic", "map", "set"].map(str::to_owned);
            let at = path.child("x-kubernetes-list-type");
            errors.push(FieldError::not_supported(&at, &Value::from(other), &known));
        }
    }
    match text(schema, "x-kubernetes-map-type") {
        "" | "atomic" | "granular" => {}
        other => {
            let known = ["atomic", "granular"].map(str::to_owned);
            let at = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(&at, &Value::from(other), &known));
        }
    }
}

/// The items of a set are atomic: scalars are, lists by default, and maps if they say so.
fn set_items(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let items = schema.get("items").unwrap_or(&Value::Null);
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let shown = items.get("x-kubernetes-list-type").unwrap_or(&Value::Null);
    match text(items, "type") {
        "array" if !matches!(text(items, "x-kubernetes-list-type"), "" | "atomic") => {
            errors.push(FieldError::invalid(&path.child("x-kubernetes-list-type"), shown, detail));
        }
        "object" if text(items, "x-kubernetes-map-type") != "atomic" => {
            errors.push(FieldError::invalid(&path.child("x-kubernetes-map-type"), shown, detail));
        }
        _ => {}
    }
}

fn map_keys(schema: &Value, keys: &[&str], path: &Path, errors: &mut Vec<FieldError>) {
    let items = schema.get("items").cloned().unwrap_or_default();
    let required = items.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    for (index, key) in keys.iter().enumerate() {
        let Some(field) = items.get("properties").and_then(|fields| fields.get(key)) else {
            let at = path.child("x-kubernetes-list-map-keys").index(index);
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid_text(&at, key, detail));
            continue;
        };
        if field.get("default").is_none() && !required.contains(&Value::from(*key)) {
            let at = path.child("items").child("properties").key(key).child("default");
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a \
                          default or be a required property";
            errors.push(FieldError::required(&at, detail));
        }
    }
}

/// Validates a schema inside a junctor: only validation keywords are allowed.
fn joined(schema: &Value, path: &Path, lenient: bool, errors: &mut Vec<FieldError>) {
    for (name, child) in named(schema, "properties") {
        joined(child, &path.child("properties").key(name), false, errors);
    }
    if let Some(child) = schema.get("items").filter(|child| child.is_object()) {
        joined(child, &path.child("items"), false, errors);
    }
    for junctor in JUNCTORS {
        let branches = schema.get(junctor).and_then(Value::as_array).into_iter().flatten();
        for (index, branch) in branches.enumerate() {
            joined(branch, &path.child(junctor).index(index), lenient, errors);
        }
    }
    if schema.get("additionalProperties").is_some_and(|child| !child.is_null()) {
        errors.push(FieldError::forbidden(&path.child("additionalProperties"), STRUCTURAL));
    }
    for name in ONLY_OUTSIDE {
        let said = schema.get(name).is_some_and(|value| match value {
            Value::Null => false,
            Value::Bool(value) => *value,
            Value::String(value) => !value.is_empty(),
            Value::Number(_) | Value::Array(_) | Value::Object(_) => true,
        });
        if said && !(lenient && name == "type") {
            errors.push(FieldError::forbidden(&path.child(name), STRUCTURAL));
        }
    }
}

fn defaults(schema: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if let Some(value) = schema.get("default").filter(|value| !value.is_null())
        && let Ok(mut known) = Schema::parse(schema)
    {
        known.embedded = flag(schema, "x-kubernetes-embedded-resource");
        let at = path.child("default");
        let mut pruned = value.clone();
        if !prune(&mut pruned, &known).is_empty() {
            let detail = "must be a valid value without unknown fields";
            errors.push(FieldError::invalid(&at, value, detail));
        }
        default::fill(&mut pruned, &known);
        for mut error in known.validate(&pruned, None) {
            error.field = match error.field.as_str() {
                "<nil>" => at.to_string(),
                below => at.child(below).to_string(),
            };
            errors.push(error);
        }
    }
    each_child(schema, path, &mut |child, at| defaults(child, at, errors));
}

fn rules(schema: &Value, path: &Path, root: bool, errors: &mut Vec<FieldError>) {
    let at = path.child("x-kubernetes-validations");
    for (index, why) in Rules::compile(schema, root).iter().flat_map(Rules::unreadable) {
        let rule = schema.get("x-kubernetes-validations").and_then(|all| all.get(index));
        let rule = rule.and_then(|rule| rule.get("rule")).cloned().unwrap_or_default();
        let at = at.index(index).child("rule");
        errors.push(FieldError::invalid(&at, &rule, format!("compilation failed: {why}")));
    }
    each_child(schema, path, &mut |child, at| rules(child, at, false, errors));
}

fn each_child(schema: &Value, path: &Path, visit: &mut dyn FnMut(&Value, &Path)) {
    for (name, child) in named(schema, "properties") {
        visit(child, &path.child("properties").key(name));
    }
    for inner in ["additionalProperties", "items"] {
        if let Some(child) = schema.get(inner).filter(|child| child.is_object()) {
            visit(child, &path.child(inner));
        }
    }
}

fn unknown_formats(schema: &Value, found: &mut Vec<String>) {
    let name = text(schema, "format");
    let warning = format!("unrecognized format \"{name}\"");
    if !name.is_empty() && !format::KNOWN.contains(&name) && !found.contains(&warning) {
        found.push(warning);
    }
    each_child(schema, &Path::default(), &mut |child, _| unknown_formats(child, found));
}

fn named<'a>(schema: &'a Value, field: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    schema.get(field).and_then(Value::as_object).into_iter().flatten()
}

fn text<'a>(schema: &'a Value, field: &str) -> &'a str {
    schema.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Value, field: &str) -> bool {
    schema.get(field).and_then(Value::as_bool).unwrap_or(false)
}
