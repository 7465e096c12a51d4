//! Representations of objects: in a version, as a table, or as metadata.

use std::borrow::Cow;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Value, json};

use crate::http::negotiate::{Form, View};
use crate::http::{Answer, JSON, Query};
use crate::kinds::{Builtin, Resource, api_version};
use crate::serialize::write_object;
use crate::status::Refusal;
use crate::store::Entry;
use crate::{events, normalize, table};

/// The metadata of a list.
pub(crate) struct Page {
    pub(crate) revision: u64,
    /// The continue token.
    pub(crate) next: Option<String>,
    /// The number of remaining objects.
    pub(crate) remaining: Option<usize>,
}

/// A stored object in the version of the resource.
pub(crate) fn to_version<'a>(resource: &Resource, stored: &'a Value) -> Cow<'a, Value> {
    if is_as_stored(resource) {
        return Cow::Borrowed(stored);
    }
    if resource.custom().is_none() {
        return Cow::Owned(events::to_regarding(stored));
    }
    let mut value = stored.clone();
    value["apiVersion"] = json!(resource.api_version());
    normalize::complete(resource, &mut value);
    Cow::Owned(value)
}

/// The object of an entry in the version of the resource.
fn shown<'a>(resource: &Resource, entry: &'a Entry) -> Cow<'a, Value> {
    let stored = entry.value();
    if is_as_stored(resource) {
        return stored;
    }
    Cow::Owned(to_version(resource, &stored).into_owned())
}

/// Whether objects are read as they are stored.
fn is_as_stored(resource: &Resource) -> bool {
    match resource.custom() {
        Some(custom) => custom.plain,
        None => !resource.is_builtin(Builtin::RegardingEvent),
    }
}

/// Converts to the storage version.
pub(crate) fn to_stored(resource: &Resource, mut object: Value) -> Value {
    if let Some(custom) = resource.custom() {
        if custom.storage_version != resource.version {
            let stored = api_version(&resource.group, &custom.storage_version);
            object["apiVersion"] = json!(stored);
            if let Some(schema) = &custom.stored {
                normalize::prune_root(&mut object, schema);
            }
        }
        return object;
    }
    if resource.is_builtin(Builtin::RegardingEvent) {
        return events::to_core(&object);
    }
    object
}

/// A response with one object.
pub(crate) fn one(
    code: u16,
    resource: &Resource,
    stored: &Value,
    (form, query): (&Form, &Query),
) -> Result<Answer, Refusal> {
    let value = to_version(resource, stored);
    let shown = match form.view {
        View::Whole => value,
        View::Table => Cow::Owned(table::one(resource, &value, (form, query))?),
        View::Partial => Cow::Owned(partial(&value, &form.version)),
        View::PartialList => return Err(Refusal::bare("content is not a list")),
    };
    Ok(answer(code, &shown, form))
}

/// A response with one stored object; reuses its serialized JSON where possible.
pub(crate) fn entry(
    code: u16,
    resource: &Resource,
    entry: &Entry,
    (form, query): (&Form, &Query),
) -> Result<Answer, Refusal> {
    if is_as_stored(resource) && form.view == View::Whole && !form.yaml {
        return Ok(Answer::bytes(code, JSON, entry.json()));
    }
    one(code, resource, &entry.value(), (form, query))
}

/// A response with a list.
pub(crate) fn many(
    resource: &Resource,
    items: &[Arc<Entry>],
    page: &Page,
    (form, query): (&Form, &Query),
) -> Result<Answer, Refusal> {
    if form.view == View::Whole && !form.yaml {
        return Ok(Answer::bytes(200, JSON, plain_list(resource, items, page)));
    }
    let values = items.iter().map(|entry| shown(resource, entry));
    let shown = match form.view {
        View::Whole => {
            let bare = resource.custom().is_none();
            let item = |value: Cow<'_, Value>| {
                let value = value.into_owned();
                if bare { nameless(value) } else { value }
            };
            let list: Vec<Value> = values.map(item).collect();
            json!({
                "kind": resource.list_kind,
                "apiVersion": resource.api_version(),
                "metadata": list_meta(page, resource.custom().is_some()),
                "items": list,
            })
        }
        View::Table => table::many(resource, values, page, (form, query))?,
        View::PartialList => {
            let heads = items.iter().map(|entry| entry.metadata());
            let list: Vec<Value> = heads.map(|head| partial(&head, &form.version)).collect();
            // Go's nil slice.
            let list = if list.is_empty() { Value::Null } else { Value::Array(list) };
            json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": format!("meta.k8s.io/{}", form.version),
                "metadata": list_meta(page, false),
                "items": list,
            })
        }
        View::Partial => {
            let message = "you requested PartialObjectMetadata, but the requested object is a \
                           list (*unstructured.UnstructuredList)";
            return Err(Refusal::new(406, "NotAcceptable", message));
        }
    };
    Ok(answer(200, &shown, form))
}

/// The serialized object of a watch event.
pub(crate) fn event(
    resource: &Resource,
    entry: &Entry,
    (form, query): (&Form, &Query),
    first: bool,
) -> Bytes {
    match form.view {
        View::Whole if is_as_stored(resource) => entry.json(),
        View::Whole => write_object(&shown(resource, entry)),
        View::Partial | View::PartialList => {
            write_object(&partial(&entry.metadata(), &form.version))
        }
        View::Table => {
            let value = shown(resource, entry);
            write_object(&table::row_event(resource, &value, (form, query), first))
        }
    }
}

/// The object of a bookmark.
pub(crate) fn bookmark(object: Value, form: &Form) -> Value {
    match form.view {
        View::Whole => object,
        View::Partial | View::PartialList => partial(&object, &form.version),
        View::Table => table::bookmark(&object, form),
    }
}

/// Adds the fields that a built-in object never omits.
pub(crate) fn bare_builtin(resource: &Resource, object: &mut Value) {
    let Some(builtin) = resource.builtin() else { return };
    match builtin {
        Builtin::Namespace => {
            object["spec"] = json!({});
            object["status"] = json!({});
        }
        Builtin::Lease => object["spec"] = json!({}),
        Builtin::Service => {
            object["spec"] = json!({});
            object["status"] = json!({"loadBalancer": {}});
        }
        Builtin::ConfigMap
        | Builtin::Secret
        | Builtin::ServiceAccount
        | Builtin::Event
        | Builtin::RegardingEvent
        | Builtin::Role
        | Builtin::RoleBinding
        | Builtin::ClusterRole
        | Builtin::ClusterRoleBinding
        | Builtin::CustomResourceDefinition
        | Builtin::ValidatingAdmissionPolicy
        | Builtin::ValidatingAdmissionPolicyBinding
        | Builtin::ValidatingWebhookConfiguration
        | Builtin::ApiService
        | Builtin::Endpoints
        | Builtin::EndpointSlice
        | Builtin::Review(_) => {}
    }
}

/// `PartialObjectMetadata` of an object.
pub(crate) fn partial(value: &Value, version: &str) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": format!("meta.k8s.io/{version}"),
        "metadata": value.get("metadata").cloned().unwrap_or_else(|| json!({})),
    })
}

/// The metadata of a list; a custom one always has `continue`.
pub(crate) fn list_meta(page: &Page, custom: bool) -> Value {
    let mut metadata = json!({"resourceVersion": page.revision.to_string()});
    if let Some(next) = &page.next {
        metadata["continue"] = json!(next);
    } else if custom {
        metadata["continue"] = json!("");
    }
    if let Some(remaining) = page.remaining.filter(|_| page.next.is_some()) {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

/// Removes `apiVersion` and `kind`, as in lists of built-in objects.
fn nameless(mut value: Value) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    value
}

fn answer(code: u16, value: &Value, form: &Form) -> Answer {
    if form.yaml {
        let text = serde_saphyr::to_string(value).unwrap_or_default();
        return Answer::bytes(code, "application/yaml", Bytes::from(text));
    }
    Answer::json(code, value)
}

/// A list from the serialized JSON of its items.
fn plain_list(resource: &Resource, items: &[Arc<Entry>], page: &Page) -> Bytes {
    let custom = resource.custom();
    let metadata = list_meta(page, custom.is_some());
    let head = if custom.is_some() {
        format!("{{\"apiVersion\":{},\"items\":[", json!(resource.api_version()))
    } else {
        format!(
            "{{\"kind\":{},\"apiVersion\":{},\"metadata\":{metadata},\"items\":[",
            json!(resource.list_kind),
            json!(resource.api_version())
        )
    };
    // How the JSON of a built-in object begins, which a list leaves out.
    let named = format!(
        "{{\"kind\":{},\"apiVersion\":{},",
        json!(resource.kind),
        json!(resource.api_version())
    );
    let size = items.iter().map(|entry| entry.size() + 1).sum::<usize>();
    let mut out = Vec::with_capacity(head.len() + size + 128);
    out.extend_from_slice(head.as_bytes());
    for (index, entry) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        let json = entry.json();
        let rest = json.strip_prefix(named.as_bytes()).filter(|_| custom.is_none());
        match rest {
            _ if custom.is_some() && is_as_stored(resource) => out.extend_from_slice(&json),
            Some(rest) if is_as_stored(resource) => {
                out.push(b'{');
                out.extend_from_slice(rest);
            }
            Some(_) | None => {
                let shown = shown(resource, entry).into_owned();
                let shown = if custom.is_some() { shown } else { nameless(shown) };
                out.extend_from_slice(&write_object(&shown));
            }
        }
    }
    let tail = if custom.is_some() {
        format!("],\"kind\":{},\"metadata\":{metadata}}}", json!(resource.list_kind))
    } else {
        "]}".to_owned()
    };
    out.extend_from_slice(tail.as_bytes());
    Bytes::from(out)
}
