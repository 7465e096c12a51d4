//! The selectors of lists and watches.

use serde_json::Value;

use crate::http::Query;
use crate::kinds::{Builtin, Resource};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Refusal;
use crate::store::Entry;

/// A label selector and a field selector.
#[derive(Debug, Clone)]
pub(crate) struct Selection {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Selection {
    pub(crate) fn read(query: &Query, resource: &Resource) -> Result<Self, Refusal> {
        let labels = LabelSelector::parse(query.get("labelSelector").unwrap_or_default())
            .map_err(|malformed| Refusal::bad_request(malformed.0))?;
        let fields = FieldSelector::parse(query.get("fieldSelector").unwrap_or_default())
            .map_err(|malformed| Refusal::bad_request(malformed.0))?;
        for requirement in fields.requirements() {
            if !supported(resource, &requirement.field) {
                let message = unsupported(resource, &requirement.field);
                return Err(Refusal::bad_request(message));
            }
        }
        let fields = if resource.is_builtin(Builtin::RegardingEvent) {
            fields.renamed(|field| regarding(field).unwrap_or_else(|| field.to_owned()))
        } else {
            fields
        };
        Ok(Self { labels, fields })
    }

    /// Whether it matches everything.
    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether it matches a stored object, of which it reads no more than it needs.
    pub(crate) fn matches(&self, entry: &Entry) -> bool {
        if self.is_empty() {
            return true;
        }
        let of_head = |field: &str| field.starts_with("metadata.");
        let is_head = self.fields.requirements().iter().all(|term| of_head(&term.field));
        let object = if is_head { entry.head() } else { entry.value() };
        self.matches_value(&object)
    }

    fn matches_value(&self, object: &Value) -> bool {
        let labels = object.pointer("/metadata/labels").and_then(Value::as_object);
        self.labels.matches(labels) && self.fields.matches(|field| value_of(object, field))
    }
}

fn unsupported(resource: &Resource, field: &str) -> String {
    match resource.builtin() {
        None => format!("field label not supported: {field}"),
        Some(Builtin::Event | Builtin::RegardingEvent | Builtin::Secret | Builtin::Namespace) => {
            format!("field label not supported: {field}")
        }
        Some(_) => format!(
            "\"{field}\" is not a known field selector: only \"metadata.name\", \
             \"metadata.namespace\""
        ),
    }
}

fn supported(resource: &Resource, field: &str) -> bool {
    if field == "metadata.name" {
        return true;
    }
    if field == "metadata.namespace" {
        return resource.namespaced || resource.builtin().is_some();
    }
    if let Some(custom) = resource.custom() {
        return custom.selectable.iter().any(|path| path == field);
    }
    match resource.builtin() {
        Some(Builtin::Namespace) => field == "status.phase",
        Some(Builtin::Secret) => field == "type",
        Some(Builtin::Event) => EVENT_FIELDS.contains(&field),
        Some(Builtin::RegardingEvent) => regarding(field).is_some(),
        Some(_) | None => false,
    }
}

const EVENT_FIELDS: [&str; 11] = [
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "source",
    "type",
];

/// The field of `v1` for a selectable one of `events.k8s.io/v1`: the objects are the same.
fn regarding(field: &str) -> Option<String> {
    let core = match field.strip_prefix("regarding.") {
        Some(rest) => format!("involvedObject.{rest}"),
        None if field == "reportingController" => "reportingComponent".to_owned(),
        None if matches!(field, "reason" | "type") => field.to_owned(),
        None => return None,
    };
    EVENT_FIELDS.contains(&core.as_str()).then_some(core)
}

/// The value of a field; empty if absent.
fn value_of(object: &Value, field: &str) -> String {
    if field == "source" {
        let source = object.pointer("/source/component").and_then(Value::as_str);
        let source = source.filter(|source| !source.is_empty());
        return source.map_or_else(|| value_of(object, "reportingComponent"), str::to_owned);
    }
    let pointer = format!("/{}", field.replace('.', "/"));
    match object.pointer(&pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}
