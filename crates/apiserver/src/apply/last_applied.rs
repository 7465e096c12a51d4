//! The annotation of client-side apply.
//!
//! `kubectl apply --server-side` takes over the fields that `kubectl apply` has written before, if
//! they still have the values that the annotation remembers.

use std::collections::HashSet;

use serde_json::Value;

use super::set::written;
use super::typed::{compare, field_set, violations};
use super::view::View;

/// The only manager that takes fields over.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The fields of the last configuration whose values have not changed since, as printed in
/// conflicts.
pub(super) fn fields(live: &Value, api_version: &str, view: &View) -> HashSet<String> {
    let config: Option<Value> = annotation(live).and_then(|text| serde_json::from_str(text).ok());
    let config = config.filter(|config| {
        config["apiVersion"].as_str() == Some(api_version) && violations(config, view).is_empty()
    });
    let Some(config) = config else { return HashSet::new() };
    let changes = compare(&config, live, view);
    let own = field_set(&config, view);
    let own = own.difference(&changes.modified).difference(&changes.added);
    own.difference(&changes.removed).paths().iter().map(|path| written(path)).collect()
}

/// Writes the configuration into the annotation, if the object has one.
pub(super) fn renew(object: &mut Value, config: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut config = config.clone();
    let given = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    if let Some(given) = given {
        given.remove(ANNOTATION);
    }
    let text = format!("{config}\n");
    let kept = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut);
    let Some(kept) = kept else { return };
    kept.insert(ANNOTATION.to_owned(), Value::from(text));
    let length = |value: &Value| value.as_str().map_or(0, str::len);
    if kept.iter().map(|(key, value)| key.len() + length(value)).sum::<usize>() > ANNOTATIONS_MAX {
        kept.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let text = object.pointer("/metadata/annotations")?.get(ANNOTATION)?.as_str()?;
    Some(text).filter(|text| !text.is_empty())
}
