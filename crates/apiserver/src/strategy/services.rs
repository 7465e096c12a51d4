//! Services and their endpoints, as far as webhooks are reached by them.

use serde_json::{Value, json};

use crate::core::{has_entries, text};
use crate::meta::field::{FieldError, Path};

const TYPES: [&str; 4] = ["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];

pub(super) fn default(object: &mut Value, new: bool) {
    let address = cluster_ip(object);
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    spec.entry("type").or_insert_with(|| json!("ClusterIP"));
    spec.entry("sessionAffinity").or_insert_with(|| json!("None"));
    let external = spec.get("type").and_then(Value::as_str) == Some("ExternalName");
    if !external {
        spec.entry("internalTrafficPolicy").or_insert_with(|| json!("Cluster"));
        spec.entry("ipFamilies").or_insert_with(|| json!(["IPv4"]));
        spec.entry("ipFamilyPolicy").or_insert_with(|| json!("SingleStack"));
        let given = spec.entry("clusterIP").or_insert_with(|| json!(address)).clone();
        spec.entry("clusterIPs").or_insert_with(|| json!([given]));
    }
    for port in spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
        let number = port["port"].clone();
        let Some(port) = port.as_object_mut() else { continue };
        port.entry("protocol").or_insert_with(|| json!("TCP"));
        port.entry("targetPort").or_insert(number);
    }
    if new {
        object["status"] = json!({"loadBalancer": {}});
    }
}

/// An address that belongs to the name: nothing listens on it, so that two services may share one.
fn cluster_ip(object: &Value) -> String {
    let named = [text(object, "/metadata/namespace"), text(object, "/metadata/name")].join("/");
    let sum = named
        .bytes()
        .fold(0x811c_9dc5_u32, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let [_, second, third, fourth] = sum.to_be_bytes();
    format!("10.{}.{third}.{}", 96 + second % 16, fourth.max(1))
}

pub(super) fn validate(value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&value["spec"], Path::new("spec"));
    let kind = text(spec, "/type");
    if !TYPES.contains(&kind) {
        let known = TYPES.map(str::to_owned);
        errors.push(FieldError::not_supported(&path.child("type"), &json!(kind), &known));
    }
    let portless = kind == "ExternalName" || text(spec, "/clusterIP") == "None";
    if !portless && !has_entries(spec, "/ports") {
        errors.push(FieldError::required(&path.child("ports"), ""));
    }
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    for (index, port) in ports.iter().enumerate() {
        let at = path.child("ports").index(index);
        let number = port["port"].as_i64().unwrap_or_default();
        if !(1..=65_535).contains(&number) {
            let why = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(&at.child("port"), &json!(number), why));
        }
        if ports.len() > 1 && text(port, "/name").is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        }
    }
    let address = |value: &Value| value.pointer("/spec/clusterIP").cloned();
    if old.is_some_and(|old| address(old) != address(value)) && kind == "ClusterIP" {
        let at = path.child("clusterIPs").index(0);
        let given = address(value).unwrap_or_default();
        errors.push(FieldError::invalid(&at, &given, "may not change once set"));
    }
    errors
}

/// Validates an `EndpointSlice`.
pub(super) fn validate_slice(value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (kind, at) = (text(value, "/addressType"), Path::new("addressType"));
    let known = ["FQDN", "IPv4", "IPv6"];
    if kind.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !known.contains(&kind) {
        errors.push(FieldError::not_supported(&at, &json!(kind), &known.map(str::to_owned)));
    }
    if old.is_some_and(|old| text(old, "/addressType") != kind) {
        errors.push(FieldError::invalid_text(&at, kind, "field is immutable"));
    }
    let endpoints = value["endpoints"].as_array().into_iter().flatten();
    for (index, endpoint) in endpoints.enumerate() {
        if !has_entries(endpoint, "/addresses") {
            let at = Path::new("endpoints").index(index).child("addresses");
            errors.push(FieldError::required(&at, "must contain at least 1 address"));
        }
    }
    errors
}
