//! Roles and their bindings.

use serde_json::{Value, json};

use crate::core::{has_entries, text};
use crate::meta::field::{FieldError, Path};
use crate::meta::name;
use crate::selector::LabelSelector;

const GROUP: &str = "rbac.authorization.k8s.io";

pub(super) fn default_binding(object: &mut Value) {
    if text(object, "/roleRef/apiGroup").is_empty() && object["roleRef"].is_object() {
        object["roleRef"]["apiGroup"] = json!(GROUP);
    }
    for subject in object["subjects"].as_array_mut().into_iter().flatten() {
        let group = match subject["kind"].as_str().unwrap_or_default() {
            "User" | "Group" => GROUP,
            _ => continue,
        };
        if subject["apiGroup"].as_str().unwrap_or_default().is_empty() {
            subject["apiGroup"] = json!(group);
        }
    }
}

/// Validates a role; one of a namespace has no paths.
pub(super) fn validate_role(value: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let rules = value["rules"].as_array().into_iter().flatten();
    for (index, rule) in rules.enumerate() {
        validate_rule(rule, &Path::new("rules").index(index), namespaced, &mut errors);
    }
    let selectors = Path::new("aggregationRule.clusterRoleSelectors");
    if !namespaced && value["aggregationRule"].is_object() {
        if !has_entries(value, "/aggregationRule/clusterRoleSelectors") {
            let why = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(FieldError::required(&selectors, why));
        }
        let given = value.pointer("/aggregationRule/clusterRoleSelectors");
        let given = given.and_then(Value::as_array).into_iter().flatten();
        for (index, selector) in given.enumerate() {
            if LabelSelector::from_structured(selector).is_err() {
                let at = selectors.index(index);
                errors.push(FieldError::invalid(&at, selector, "invalid label selector."));
            }
        }
    }
    errors
}

fn validate_rule(rule: &Value, path: &Path, namespaced: bool, errors: &mut Vec<FieldError>) {
    let given = |field: &str| rule[field].as_array().is_some_and(|list| !list.is_empty());
    if !given("verbs") {
        let why = "verbs must contain at least one value";
        errors.push(FieldError::required(&path.child("verbs"), why));
    }
    if given("nonResourceURLs") {
        let at = path.child("nonResourceURLs");
        if namespaced {
            let why = "namespaced rules cannot apply to non-resource URLs";
            errors.push(FieldError::invalid(&at, &rule["nonResourceURLs"], why));
        }
        if ["apiGroups", "resources", "resourceNames"].into_iter().any(given) {
            let why = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(FieldError::invalid(&at, &rule["nonResourceURLs"], why));
        }
        return;
    }
    for (field, one) in [("apiGroups", "api group"), ("resources", "resource")] {
        if !given(field) {
            let why = format!("resource rules must supply at least one {one}");
            errors.push(FieldError::required(&path.child(field), why));
        }
    }
}

/// Validates a binding; its role cannot change.
pub(super) fn validate_binding(
    value: &Value,
    old: Option<&Value>,
    namespaced: bool,
) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let path = Path::new("roleRef");
    let group = text(value, "/roleRef/apiGroup");
    if group != GROUP {
        let known = [GROUP.to_owned()];
        errors.push(FieldError::not_supported(&path.child("apiGroup"), &json!(group), &known));
    }
    let kind = text(value, "/roleRef/kind");
    let kinds: &[&str] = if namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    if !kinds.contains(&kind) {
        let known: Vec<String> = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        errors.push(FieldError::not_supported(&path.child("kind"), &json!(kind), &known));
    }
    let role = text(value, "/roleRef/name");
    if role.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    for why in name::path_segment(role, false) {
        errors.push(FieldError::invalid_text(&path.child("name"), role, why));
    }
    let subjects = value["subjects"].as_array().into_iter().flatten();
    for (index, subject) in subjects.enumerate() {
        validate_subject(subject, &Path::new("subjects").index(index), namespaced, &mut errors);
    }
    if old.is_some_and(|old| old["roleRef"] != value["roleRef"]) {
        errors.push(FieldError::invalid(&path, &value["roleRef"], "cannot change roleRef"));
    }
    errors
}

fn validate_subject(subject: &Value, path: &Path, namespaced: bool, errors: &mut Vec<FieldError>) {
    let given = |field: &str| subject[field].as_str().unwrap_or_default();
    let (own, group) = (given("name"), given("apiGroup"));
    if own.is_empty() {
        errors.push(FieldError::required(&path.child("name"), ""));
    }
    let mut of_group = |known: &str| {
        if group != known {
            let known = [known.to_owned()];
            errors.push(FieldError::not_supported(&path.child("apiGroup"), &json!(group), &known));
        }
    };
    match given("kind") {
        "ServiceAccount" => {
            of_group("");
            if !own.is_empty() {
                for why in name::subdomain(own) {
                    errors.push(FieldError::invalid_text(&path.child("name"), own, why));
                }
            }
            if !namespaced && given("namespace").is_empty() {
                errors.push(FieldError::required(&path.child("namespace"), ""));
            }
        }
        "User" | "Group" => of_group(GROUP),
        other => {
            let known = ["ServiceAccount", "User", "Group"].map(str::to_owned);
            errors.push(FieldError::not_supported(&path.child("kind"), &json!(other), &known));
        }
    }
}
