//! `ValidatingAdmissionPolicy` and its binding.

use kube_cel::cel::Program;
use serde_json::{Value, json};

use super::hooks::{supported, validate_rule};
use crate::core::{has_entries, text};
use crate::meta::field::{FieldError, Path};
use crate::selector::LabelSelector;

/// What Kubernetes binds, and this server does not.
const UNSUPPORTED: [&str; 1] = ["authorizer"];
const REASONS: [&str; 4] = ["Forbidden", "Invalid", "RequestEntityTooLarge", "Unauthorized"];

pub(super) fn default_policy(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").filter(|spec| spec.is_object()) else { return };
    if spec["failurePolicy"].is_null() {
        spec["failurePolicy"] = json!("Fail");
    }
    default_match(&mut spec["matchConstraints"]);
}

pub(super) fn default_binding(object: &mut Value) {
    if let Some(spec) = object.get_mut("spec").filter(|spec| spec["matchResources"].is_object()) {
        default_match(&mut spec["matchResources"]);
    }
}

fn default_match(constraints: &mut Value) {
    let Some(map) = constraints.as_object_mut() else { return };
    let defaults = [
        ("matchPolicy", json!("Equivalent")),
        ("namespaceSelector", json!({})),
        ("objectSelector", json!({})),
    ];
    for (key, value) in defaults {
        map.entry(key).or_insert(value);
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let rules = map.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten();
        for rule in rules.filter(|rule| rule["scope"].is_null()) {
            rule["scope"] = json!("*");
        }
    }
}

pub(super) fn validate_policy(value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&value["spec"], Path::new("spec"));
    let constraints = path.child("matchConstraints");
    if spec["matchConstraints"].is_null() {
        errors.push(FieldError::required(&constraints, ""));
    } else {
        validate_match(&spec["matchConstraints"], &constraints, &mut errors);
        if !has_entries(spec, "/matchConstraints/resourceRules") {
            errors.push(FieldError::required(&constraints.child("resourceRules"), ""));
        }
    }
    supported(spec, &path, ("failurePolicy", &["Fail", "Ignore"]), &mut errors);
    let kind = path.child("paramKind");
    let has_params = spec["paramKind"].is_object();
    for field in ["apiVersion", "kind"] {
        if has_params && text(&spec["paramKind"], &format!("/{field}")).is_empty() {
            errors.push(FieldError::required(&kind.child(field), ""));
        }
    }
    let expressions = Expressions { has_params };
    for list in ["matchConditions", "variables"] {
        for (at, item) in items(spec, &path, list) {
            if text(item, "/name").is_empty() {
                errors.push(FieldError::required(&at.child("name"), ""));
            }
            expressions.check(item, (&at, "expression"), &mut errors);
        }
    }
    if !has_entries(spec, "/validations") && !has_entries(spec, "/auditAnnotations") {
        let why = "validations or auditAnnotations must contain at least one item";
        errors.push(FieldError::required(&path.child("validations"), why));
    }
    for (at, item) in items(spec, &path, "validations") {
        expressions.check(item, (&at, "expression"), &mut errors);
        if !item["messageExpression"].is_null() {
            expressions.check(item, (&at, "messageExpression"), &mut errors);
        }
        if !item["reason"].is_null() {
            supported(item, &at, ("reason", &REASONS), &mut errors);
        }
    }
    for (at, item) in items(spec, &path, "auditAnnotations") {
        expressions.check(item, (&at, "valueExpression"), &mut errors);
    }
    errors
}

fn items<'a>(
    spec: &'a Value,
    path: &Path,
    list: &str,
) -> impl Iterator<Item = (Path, &'a Value)> + use<'a> {
    let path = path.child(list);
    let found = spec[list].as_array().into_iter().flatten().enumerate();
    found.map(move |(index, item)| (path.index(index), item))
}

/// The expressions of a policy.
struct Expressions {
    has_params: bool,
}

impl Expressions {
    fn check(&self, item: &Value, (path, field): (&Path, &str), errors: &mut Vec<FieldError>) {
        let at = path.child(field);
        let expression = item[field].as_str().unwrap_or_default();
        if expression.trim().is_empty() {
            errors.push(FieldError::required(&at, format!("{field} is not specified")));
            return;
        }
        let why = match Program::compile(expression) {
            Err(error) => format!("compilation failed: {error}"),
            Ok(program) => {
                let used = program.references();
                let unsupported = UNSUPPORTED.into_iter().find(|name| used.has_variable(name));
                match unsupported {
                    Some(name) => format!("this server has no variable '{name}'"),
                    None if used.has_variable("params") && !self.has_params => {
                        "compilation failed: undeclared reference to 'params'".to_owned()
                    }
                    None => return,
                }
            }
        };
        errors.push(FieldError::invalid_text(&at, expression, why));
    }
}

pub(super) fn validate_binding(value: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let (spec, path) = (&value["spec"], Path::new("spec"));
    if text(spec, "/policyName").is_empty() {
        errors.push(FieldError::required(&path.child("policyName"), ""));
    }
    if spec["paramRef"].is_object() {
        validate_param(&spec["paramRef"], &path.child("paramRef"), &mut errors);
    }
    if spec["matchResources"].is_object() {
        validate_match(&spec["matchResources"], &path.child("matchResources"), &mut errors);
    }
    let at = path.child("validationActions");
    if !has_entries(spec, "/validationActions") {
        errors.push(FieldError::required(&at, ""));
    }
    let known = ["Audit", "Deny", "Warn"];
    let actions = spec["validationActions"].as_array().into_iter().flatten();
    let actions: Vec<&Value> = actions.collect();
    for (index, action) in actions.iter().enumerate() {
        if !known.contains(&action.as_str().unwrap_or_default()) {
            let known = known.map(str::to_owned);
            errors.push(FieldError::not_supported(&at.index(index), action, &known));
        }
    }
    if actions.contains(&&json!("Deny")) && actions.contains(&&json!("Warn")) {
        let why = "must not contain both Deny and Warn (repeating the same validation failure \
                   information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(&at, &spec["validationActions"], why));
    }
    errors
}

fn validate_param(reference: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    let (name, selector) = (text(reference, "/name"), &reference["selector"]);
    if name.is_empty() == selector.is_null() {
        let why = "one of name or selector must be specified";
        errors.push(FieldError::required(path, why));
    }
    if LabelSelector::from_structured(selector).is_err() && !selector.is_null() {
        let at = path.child("selector");
        errors.push(FieldError::invalid(&at, selector, "invalid label selector."));
    }
    supported(reference, path, ("parameterNotFoundAction", &["Allow", "Deny"]), errors);
}

fn validate_match(constraints: &Value, path: &Path, errors: &mut Vec<FieldError>) {
    for field in ["namespaceSelector", "objectSelector"] {
        let selector = &constraints[field];
        if LabelSelector::from_structured(selector).is_err() {
            let at = path.child(field);
            errors.push(FieldError::invalid(&at, selector, "invalid label selector."));
        }
    }
    for field in ["resourceRules", "excludeResourceRules"] {
        let rules = constraints[field].as_array().into_iter().flatten();
        for (index, rule) in rules.enumerate() {
            validate_rule(rule, &path.child(field).index(index), errors);
        }
    }
    supported(constraints, path, ("matchPolicy", &["Equivalent", "Exact"]), errors);
}
