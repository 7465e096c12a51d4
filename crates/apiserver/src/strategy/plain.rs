//! Kinds with few rules.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::core::text;
use crate::meta::field::{Cause, FieldError, Path};

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or \
                          '.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for \
                          validation is '[-._a-zA-Z0-9]+')";
const DATA_MAX: usize = 1024 * 1024;
const FROZEN: &str = "field is immutable when `immutable` is set";
const NAME_LABEL: &str = "kubernetes.io/metadata.name";

pub(super) fn default_namespace(object: &mut Value, new: bool) {
    if new {
        object["spec"] = json!({"finalizers": ["kubernetes"]});
        object["status"] = json!({"phase": "Active"});
    }
    label_namespace(object);
}

/// Sets the `kubernetes.io/metadata.name` label.
pub(super) fn label_namespace(object: &mut Value) {
    let name = text(object, "/metadata/name").to_owned();
    if !name.is_empty() {
        if !object["metadata"]["labels"].is_object() {
            object["metadata"]["labels"] = json!({});
        }
        object["metadata"]["labels"][NAME_LABEL] = json!(name);
    }
}

pub(super) fn default_secret(object: &mut Value) {
    let Some(map) = object.as_object_mut() else { return };
    if let Some(Value::Object(texts)) = map.remove("stringData") {
        let data = map.entry("data").or_insert_with(|| json!({}));
        for (key, value) in texts {
            data[key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
        }
    }
    if map.get("type").and_then(Value::as_str).is_none_or(str::is_empty) {
        map.insert("type".to_owned(), json!("Opaque"));
    }
}

/// The errors of changed fields that may not change.
pub(super) fn changes_of_config_map(value: &Value, old: &Value) -> Vec<FieldError> {
    frozen(value, old, &["data", "binaryData"])
}

/// The errors of changed fields that may not change.
pub(super) fn changes_of_secret(value: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let kind = text(value, "/type");
    if text(old, "/type") != kind {
        errors.push(FieldError::invalid_text(&Path::new("type"), kind, "field is immutable"));
    }
    errors.extend(frozen(value, old, &["data"]));
    errors
}

pub(super) fn validate_config_map(value: &Value) -> Vec<FieldError> {
    let mut errors = keys(value, &["data", "binaryData"]);
    let doubled = value["data"].as_object().into_iter().flatten();
    for (key, _) in doubled.filter(|(key, _)| value["binaryData"].get(key).is_some()) {
        let path = Path::new("data").key(key);
        errors.push(FieldError::invalid_text(&path, key, "duplicate of key present in binaryData"));
    }
    if size(value) > DATA_MAX {
        let error = FieldError::too_long(&Path::new("[]"), DATA_MAX);
        errors.push(error);
    }
    errors
}

pub(super) fn validate_secret(value: &Value) -> Vec<FieldError> {
    let mut errors = keys(value, &["data"]);
    if size(value) > DATA_MAX {
        errors.push(FieldError::too_long(&Path::new("data"), DATA_MAX));
    }
    let needed: &[&str] = match text(value, "/type") {
        "kubernetes.io/tls" => &["tls.crt", "tls.key"],
        "kubernetes.io/ssh-auth" => &["ssh-privatekey"],
        "kubernetes.io/dockerconfigjson" => &[".dockerconfigjson"],
        "kubernetes.io/dockercfg" => &[".dockercfg"],
        // One of the two is enough.
        "kubernetes.io/basic-auth"
            if value["data"].get("username").or(value["data"].get("password")).is_none() =>
        {
            &["username", "password"]
        }
        _ => &[],
    };
    for key in needed.iter().filter(|key| value["data"].get(**key).is_none()) {
        errors.push(FieldError::required(&Path::new("data").key(key), ""));
    }
    errors
}

pub(super) fn validate_event(value: &Value, strict: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let about = text(value, "/involvedObject/namespace");
    let own = text(value, "/metadata/namespace");
    let elsewhere = if about.is_empty() { own != "default" } else { about != own };
    if elsewhere && !(strict && about == own) {
        let path = Path::new("involvedObject.namespace");
        errors.push(FieldError::invalid_text(&path, about, "does not match event.namespace"));
    }
    if !strict {
        return errors;
    }
    if text(value, "/eventTime").is_empty() {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = text(value, "/type");
    if !matches!(kind, "Normal" | "Warning") {
        let why = format!("has invalid value: {kind}");
        errors.push(FieldError::invalid_text(&Path::new("type"), kind, why));
    }
    errors
}

pub(super) fn validate_lease(value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = Path::new("spec");
    let seconds = value.pointer("/spec/leaseDurationSeconds").and_then(Value::as_i64);
    if let Some(seconds) = seconds.filter(|seconds| *seconds <= 0) {
        let path = spec.child("leaseDurationSeconds");
        errors.push(FieldError::invalid(&path, &json!(seconds), "must be greater than 0"));
    }
    let turns = value.pointer("/spec/leaseTransitions").and_then(Value::as_i64);
    if let Some(turns) = turns.filter(|turns| *turns < 0) {
        let path = spec.child("leaseTransitions");
        let why = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(&path, &json!(turns), why));
    }
    errors
}

fn keys(value: &Value, fields: &[&str]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in fields {
        for key in value[*field].as_object().into_iter().flat_map(|map| map.keys()) {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            if key.is_empty() || !key.bytes().all(plain) {
                let path = Path::new(*field).key(key);
                errors.push(FieldError::invalid_text(&path, key, CONFIG_KEY));
            }
        }
    }
    errors
}

/// The errors of changed immutable fields.
fn frozen(value: &Value, old: &Value, fields: &[&str]) -> Vec<FieldError> {
    if old["immutable"].as_bool() != Some(true) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    if value["immutable"].as_bool() != Some(true) {
        errors.push(FieldError::forbidden(&Path::new("immutable"), FROZEN));
    }
    for field in fields.iter().filter(|field| old[**field] != value[**field]) {
        errors.push(FieldError::made(Cause::Forbidden, &Path::new(*field), None, FROZEN));
    }
    errors
}

fn size(value: &Value) -> usize {
    let texts = |field: &str, binary: bool| {
        let entries = value[field].as_object().into_iter().flatten();
        entries
            .filter_map(|(_, value)| value.as_str())
            .map(|text| if binary { text.len() / 4 * 3 } else { text.len() })
            .sum::<usize>()
    };
    let binary = value["kind"].as_str() == Some("Secret");
    texts("data", binary) + texts("binaryData", true)
}
