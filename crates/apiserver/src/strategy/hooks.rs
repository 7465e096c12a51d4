//! `ValidatingWebhookConfiguration`.

use kube_cel::cel::Program;
use serde_json::{Value, json};

use crate::core::text;
use crate::meta::field::{FieldError, Path};
use crate::meta::name;

pub(super) fn default(object: &mut Value) {
    for hook in object["webhooks"].as_array_mut().into_iter().flatten() {
        let Some(hook) = hook.as_object_mut() else { continue };
        for (key, value) in [
            ("failurePolicy", json!("Fail")),
            ("matchPolicy", json!("Equivalent")),
            ("namespaceSelector", json!({})),
            ("objectSelector", json!({})),
            ("timeoutSeconds", json!(10)),
        ] {
            hook.entry(key).or_insert(value);
        }
        let rules = hook.get_mut("rules").and_then(Value::as_array_mut).into_iter().flatten();
        for rule in rules {
            if rule["scope"].is_null() {
                rule["scope"] = json!("*");
            }
        }
        let service = hook.get_mut("clientConfig").and_then(|client| client.get_mut("service"));
        if let Some(service) = service.filter(|service| service["port"].is_null()) {
            service["port"] = json!(443);
        }
    }
}

pub(super) fn validate(value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("webhooks");
    for (index, hook) in value["webhooks"].as_array().into_iter().flatten().enumerate() {
        validate_hook(hook, &path.index(index), &mut errors);
    }
    errors
}

fn validate_hook(hook: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let own = text(hook, "/name");
    let at = path.child("name");
    if own.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let wrong = name::subdomain(own);
        errors.extend(wrong.into_iter().map(|why| FieldError::invalid_text(&at, own, why)));
        if own.split('.').count() < 3 {
            let why = "should be a domain with at least three segments separated by dots";
            errors.push(FieldError::invalid_text(&at, own, why));
        }
    }
    let rules = hook["rules"].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        validate_rule(rule, &path.child("rules").index(index), errors);
    }
    supported(hook, path, ("failurePolicy", &["Fail", "Ignore"]), errors);
    supported(hook, path, ("matchPolicy", &["Equivalent", "Exact"]), errors);
    let effects: &[&str] = &["None", "NoneOnDryRun"];
    if hook["sideEffects"].is_null() {
        let detail = "must specify one of \"None\", \"NoneOnDryRun\"";
        errors.push(FieldError::required(&path.child("sideEffects"), detail));
    } else {
        supported(hook, path, ("sideEffects", effects), errors);
    }
    let seconds = hook["timeoutSeconds"].as_i64();
    if let Some(seconds) = seconds.filter(|seconds| !(1..=30).contains(seconds)) {
        let why = "the timeout value must be between 1 and 30 seconds";
        let at = path.child("timeoutSeconds");
        errors.push(FieldError::invalid(&at, &json!(seconds), why));
    }
    let conditions = hook["matchConditions"].as_array().into_iter().flatten();
    for (index, condition) in conditions.enumerate() {
        validate_condition(condition, &path.child("matchConditions").index(index), errors);
    }
    validate_client(&hook["clientConfig"], &path.child("clientConfig"), errors);
}

fn validate_client(client: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let url = text(client, "/url");
    if url.is_empty() == client["service"].is_null() {
        let why = "exactly one of url or service is required";
        errors.push(FieldError::required(path, why));
        return;
    }
    if url.is_empty() {
        return;
    }
    let scheme = url.split("://").next().unwrap_or_default();
    if scheme != "https" {
        let why = "'https' is the only allowed URL scheme; desired format: https://host[/path]";
        errors.push(FieldError::invalid_text(&path.child("url"), scheme, why));
    }
}

fn validate_condition(condition: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    if text(condition, "/name").is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let expression = text(condition, "/expression");
    if let Err(error) = Program::compile(expression) {
        let why = format!("compilation failed: {error}");
        errors.push(FieldError::invalid_text(&path.child("expression"), expression, why));
    }
}

pub(super) fn validate_rule(rule: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    const OPERATIONS: [&str; 5] = ["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    for field in ["operations", "apiGroups", "apiVersions", "resources"] {
        let missing = rule[field].as_array().is_none_or(Vec::is_empty);
        if missing {
            errors.push(FieldError::required(&path.child(field), ""));
        }
    }
    let operations = rule["operations"].as_array().into_iter().flatten();
    for (index, operation) in operations.enumerate() {
        if !OPERATIONS.contains(&operation.as_str().unwrap_or_default()) {
            let at = path.child("operations").index(index);
            let list = OPERATIONS.map(str::to_owned);
            errors.push(FieldError::not_supported(&at, operation, &list));
        }
    }
}

pub(super) fn supported(
    hook: &Value,
    path: &Path,
    (field, allowed): (&str, &[&str]),
    errors: &mut Vec<FieldError>,
) {
    let given = &hook[field];
    if !allowed.contains(&given.as_str().unwrap_or_default()) {
        let list: Vec<String> = allowed.iter().map(|text| (*text).to_owned()).collect();
        errors.push(FieldError::not_supported(&path.child(field), given, &list));
    }
}
