//! CEL rules (`x-kubernetes-validations`).
//!
//! The evaluator crate correlates list items by index. Each node with rules is therefore compiled
//! alone, and the walk here correlates old and new items by key.

use super::{Additional, Counterparts, Schema};
use crate::meta::field::{Cause, FieldError, Path, shown};
use kube_cel::{CompiledSchema, compile_schema, validate_compiled};
use serde_json::{Map, Value};

const RULES: &str = "x-kubernetes-validations";

/// The rules of one node.
#[derive(Debug)]
pub(super) struct Rules {
    compiled: CompiledSchema,
    declared: Vec<Rule>,
    root: bool,
}

#[derive(Debug)]
struct Rule {
    text: String,
    reason: Option<String>,
    field_path: Option<String>,
    transition: bool,
}

impl Rules {
    /// Compiles the rules of a node, if it has any.
    pub(super) fn compile(schema: &Value, root: bool) -> Option<Self> {
        let declared = schema.get(RULES)?.as_array()?;
        if declared.is_empty() {
            return None;
        }
        let text = |rule: &Value, name: &str| rule.get(name)?.as_str().map(str::to_owned);
        let rules = declared
            .iter()
            .map(|rule| {
                let body = text(rule, "rule").unwrap_or_default();
                Rule {
                    transition: body.contains("oldSelf"),
                    text: body,
                    reason: text(rule, "reason"),
                    field_path: text(rule, "fieldPath"),
                }
            })
            .collect();
        Some(Self { compiled: compile_schema(&alone(schema, root)), declared: rules, root })
    }

    /// The compile errors: the index of the rule and the message.
    pub(super) fn unreadable(&self) -> Vec<(usize, String)> {
        let results = self.compiled.validations.iter().enumerate();
        results.filter_map(|(at, result)| Some((at, result.as_ref().err()?.to_string()))).collect()
    }

    fn evaluate(
        &self,
        (value, old): (&Value, Option<&Value>),
        path: &Path,
        errors: &mut Vec<FieldError>,
    ) {
        let (seen, seen_old) = (self.view(value), old.map(|old| self.view(old)));
        let outcome = validate_compiled(&self.compiled, &seen, seen_old.as_ref());
        let Err(failures) = outcome else { return };
        let mut remaining = self.declared.iter();
        for failure in failures.as_slice() {
            let Some(rule) = remaining.find(|rule| rule.text == failure.rule) else { continue };
            if !rule.transition && old == Some(value) {
                continue;
            }
            errors.push(rule.error(value, path, &failure.message));
        }
    }

    /// The value as rules see it: at the root without metadata but the name.
    fn view(&self, value: &Value) -> Value {
        let mut seen = value.clone();
        if self.root
            && let Some(Value::Object(meta)) = seen.get_mut("metadata")
        {
            meta.retain(|name, _| name == "name" || name == "generateName");
        }
        seen
    }
}

impl Rule {
    fn error(&self, value: &Value, path: &Path, message: &str) -> FieldError {
        let path = match &self.field_path {
            Some(below) => descend(path, below),
            None => path.clone(),
        };
        let cause = match self.reason.as_deref() {
            Some("FieldValueForbidden") => Cause::Forbidden,
            Some("FieldValueRequired") => Cause::Required,
            Some("FieldValueDuplicate") => Cause::Duplicate,
            Some(_) | None => Cause::Invalid,
        };
        let visible = !value.is_object() && !value.is_array();
        let value = match cause {
            Cause::Invalid | Cause::Duplicate if visible => Some(shown(value)),
            Cause::Invalid
            | Cause::Duplicate
            | Cause::Required
            | Cause::TypeInvalid
            | Cause::NotSupported
            | Cause::Forbidden
            | Cause::TooLong
            | Cause::TooMany => None,
        };
        FieldError::made(cause, &path, value, message)
    }
}

/// Evaluates every rule of an otherwise valid object.
pub(super) fn evaluate(
    object: &Value,
    old: Option<&Value>,
    schema: &Schema,
    errors: &mut Vec<FieldError>,
) {
    walk((object, old), schema, &Path::default(), errors);
}

fn walk(
    (value, old): (&Value, Option<&Value>),
    schema: &Schema,
    path: &Path,
    errors: &mut Vec<FieldError>,
) {
    if !schema.has_rules || value.is_null() {
        return;
    }
    if let Some(rules) = &schema.rules {
        rules.evaluate((value, old), path, errors);
    }
    match value {
        Value::Object(fields) => {
            for (name, child) in fields {
                let Some(known) = schema.field(name) else { continue };
                let at = match &schema.additional {
                    Additional::Schema(_) if !schema.properties.contains_key(name) => {
                        path.key(name)
                    }
                    Additional::Schema(_) | Additional::None | Additional::Any => path.child(name),
                };
                let before = old.and_then(|old| old.get(name)).filter(|old| !old.is_null());
                walk((child, before), known, &at, errors);
            }
        }
        Value::Array(items) => {
            let Some(known) = &schema.items else { return };
            let before = old.and_then(Value::as_array).map(Vec::as_slice);
            let others = Counterparts::new(&schema.list, before);
            for (index, item) in items.iter().enumerate() {
                let before = others.of(item);
                walk((item, before), known, &path.index(index), errors);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// The schema of a node for the evaluator, without the rules below it.
fn alone(schema: &Value, root: bool) -> Value {
    let mut made = without_rules(schema);
    let Value::Object(fields) = &mut made else { return made };
    if let Some(rules) = schema.get(RULES) {
        fields.insert(RULES.to_owned(), rules.clone());
    }
    if root || schema.get("x-kubernetes-embedded-resource") == Some(&Value::Bool(true)) {
        let known = fields.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(known) = known {
            let text = serde_json::json!({"type": "string"});
            known.insert("apiVersion".to_owned(), text.clone());
            known.insert("kind".to_owned(), text.clone());
            let names = serde_json::json!({"name": text, "generateName": text});
            let meta = serde_json::json!({"type": "object", "properties": names});
            known.insert("metadata".to_owned(), meta);
        }
    }
    made
}

fn without_rules(schema: &Value) -> Value {
    match schema {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, value)| match name.as_str() {
                RULES => false,
                "default" => declared_field(value),
                _ => true,
            });
            Value::Object(kept.map(|(name, value)| (name.clone(), without_rules(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_rules).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

/// Whether the value of `default` is the schema of a field of that name.
fn declared_field(value: &Value) -> bool {
    value.get("type").is_some_and(Value::is_string)
}

/// The path of a rule's `fieldPath`: `.a.b` and `['c']`.
fn descend(path: &Path, below: &str) -> Path {
    let mut path = path.clone();
    let mut rest = below;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix("['") {
            let end = inner.find("']").unwrap_or(inner.len());
            path = path.key(inner.get(..end).unwrap_or_default());
            rest = inner.get(end + 2..).unwrap_or_default();
            continue;
        }
        let name = rest.strip_prefix('.').unwrap_or(rest);
        let end = name.find(['.', '[']).unwrap_or(name.len());
        if end == 0 {
            return path;
        }
        path = path.child(name.get(..end).unwrap_or_default());
        rest = name.get(end..).unwrap_or_default();
    }
    path
}
