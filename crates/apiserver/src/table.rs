//! Objects as `Table` rows.

use std::borrow::Cow;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::core;
use crate::http::Query;
use crate::http::negotiate::Form;
use crate::jsonpath::{self, JsonPath};
use crate::kinds::custom::Column;
use crate::kinds::{Builtin, Origin, Resource};
use crate::status::Refusal;
use crate::view::{self, Page};

const AGE: &str = "CreationTimestamp is a timestamp representing the server time when this object \
                   was created.";

/// What a row has besides its cells.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// One object as a table.
pub(crate) fn one(
    resource: &Resource,
    value: &Value,
    (form, query): (&Form, &Query),
) -> Result<Value, Refusal> {
    let include = include(query)?;
    let rows = [row(resource, value, form, include)];
    let metadata = json!({"resourceVersion": core::text(value, "/metadata/resourceVersion")});
    Ok(table(form, &metadata, &columns(resource), &rows))
}

/// Several objects as a table.
pub(crate) fn many<'a>(
    resource: &Resource,
    values: impl Iterator<Item = Cow<'a, Value>>,
    page: &Page,
    (form, query): (&Form, &Query),
) -> Result<Value, Refusal> {
    let include = include(query)?;
    let rows: Vec<Value> = values.map(|value| row(resource, &value, form, include)).collect();
    Ok(table(form, &view::list_meta(page, false), &columns(resource), &rows))
}

/// The table of a watch event; only the first has columns.
pub(crate) fn row_event(
    resource: &Resource,
    value: &Value,
    (form, query): (&Form, &Query),
    first: bool,
) -> Value {
    let include = include(query).unwrap_or(Include::Metadata);
    let columns = if first { columns(resource) } else { Value::Null };
    let metadata = json!({"resourceVersion": core::text(value, "/metadata/resourceVersion")});
    table(form, &metadata, &columns, &[row(resource, value, form, include)])
}

/// A bookmark: a table with a row that has no cells.
pub(crate) fn bookmark(object: &Value, form: &Form) -> Value {
    let metadata = json!({"resourceVersion": core::text(object, "/metadata/resourceVersion")});
    let row = json!({"cells": null, "object": view::partial(object, &form.version)});
    table(form, &metadata, &Value::Null, &[row])
}

fn include(query: &Query) -> Result<Include, Refusal> {
    match query.get("includeObject") {
        None | Some("Metadata") => Ok(Include::Metadata),
        Some("Object") => Ok(Include::Object),
        Some("None") => Ok(Include::Nothing),
        Some(other) => Err(Refusal::bad_request(format!(
            "Unable to convert to Table as requested: includeObject: Invalid value: \"{other}\": \
             must be 'Metadata', 'Object', 'None', or empty"
        ))),
    }
}

fn table(form: &Form, metadata: &Value, columns: &Value, rows: &[Value]) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": format!("meta.k8s.io/{}", form.version),
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows,
    })
}

fn row(resource: &Resource, value: &Value, form: &Form, include: Include) -> Value {
    let object = match include {
        Include::Nothing => Value::Null,
        Include::Metadata => view::partial(value, &form.version),
        Include::Object => value.clone(),
    };
    json!({"cells": cells(resource, value), "object": object})
}

fn columns(resource: &Resource) -> Value {
    let name = column(("Name", "string", "name"), "The name is unique among its kind.", 0);
    let rest: Vec<Value> = match &resource.origin {
        Origin::Custom(custom) => custom.columns.iter().map(custom_column).collect(),
        Origin::Builtin(builtin) => builtin_columns(*builtin)
            .iter()
            .map(|(name, kind)| column((name, kind, ""), AGE, 0))
            .chain(wide_columns(*builtin).iter().map(|name| column((name, "string", ""), AGE, 1)))
            .collect(),
    };
    Value::Array(std::iter::once(name).chain(rest).collect())
}

fn custom_column(column: &Column) -> Value {
    let description = if column.description.is_empty() {
        format!("Custom resource definition column (in JSONPath format): {}", column.path)
    } else {
        column.description.clone()
    };
    let described = (column.name.as_str(), column.kind.as_str(), column.format.as_str());
    self::column(described, &description, column.priority)
}

fn column((name, kind, format): (&str, &str, &str), description: &str, priority: i64) -> Value {
    json!({
        "name": name,
        "type": kind,
        "format": format,
        "description": description,
        "priority": priority,
    })
}

fn cells(resource: &Resource, value: &Value) -> Vec<Value> {
    let name = value.pointer("/metadata/name").cloned().unwrap_or_default();
    let rest: Vec<Value> = match &resource.origin {
        Origin::Custom(custom) => {
            custom.columns.iter().map(|column| custom_cell(column, value)).collect()
        }
        Origin::Builtin(builtin) => {
            let mut cells = builtin_cells(*builtin, value);
            cells.extend(wide_cells(*builtin, value));
            cells
        }
    };
    std::iter::once(name).chain(rest).collect()
}

fn custom_cell(column: &Column, value: &Value) -> Value {
    let path = JsonPath::parse(&column.path).ok();
    let found = path.as_ref().and_then(|path| path.first(value));
    jsonpath::table::cell(&column.kind, found, Timestamp::now())
}

fn builtin_columns(builtin: Builtin) -> &'static [(&'static str, &'static str)] {
    match builtin {
        Builtin::ConfigMap => &[("Data", "string"), ("Age", "string")],
        Builtin::Secret => &[("Type", "string"), ("Data", "string"), ("Age", "string")],
        Builtin::Namespace => &[("Status", "string"), ("Age", "string")],
        Builtin::ServiceAccount => &[("Age", "string")],
        Builtin::Lease => &[("Holder", "string"), ("Age", "string")],
        Builtin::Event | Builtin::RegardingEvent => &[
            ("Last Seen", "string"),
            ("Type", "string"),
            ("Reason", "string"),
            ("Object", "string"),
            ("Message", "string"),
        ],
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => {
            &[("Role", "string"), ("Age", "string")]
        }
        Builtin::ValidatingAdmissionPolicy => {
            &[("Validations", "integer"), ("ParamKind", "string"), ("Age", "string")]
        }
        Builtin::ValidatingAdmissionPolicyBinding => {
            &[("PolicyName", "string"), ("ParamRef", "string"), ("Age", "string")]
        }
        Builtin::ValidatingWebhookConfiguration => &[("Webhooks", "integer"), ("Age", "string")],
        Builtin::Endpoints => &[("Endpoints", "string"), ("Age", "string")],
        Builtin::EndpointSlice => {
            &[("AddressType", "string"), ("Endpoints", "string"), ("Age", "string")]
        }
        Builtin::Service => &[
            ("Type", "string"),
            ("Cluster-IP", "string"),
            ("External-IP", "string"),
            ("Port(s)", "string"),
            ("Age", "string"),
        ],
        Builtin::Role
        | Builtin::ClusterRole
        | Builtin::CustomResourceDefinition
        | Builtin::ApiService
        | Builtin::Review(_) => &[("Created At", "date")],
    }
}

/// The columns that are shown on demand only.
fn wide_columns(builtin: Builtin) -> &'static [&'static str] {
    if matches!(builtin, Builtin::RoleBinding | Builtin::ClusterRoleBinding) {
        return &["Users", "Groups", "ServiceAccounts"];
    }
    &[]
}

fn wide_cells(builtin: Builtin, value: &Value) -> Vec<Value> {
    if wide_columns(builtin).is_empty() {
        return Vec::new();
    }
    let of = |kind: &str| {
        let subjects = value["subjects"].as_array().into_iter().flatten();
        let of_kind = subjects.filter(|subject| core::text(subject, "/kind") == kind);
        let names = of_kind.map(|subject| match core::text(subject, "/namespace") {
            "" => core::text(subject, "/name").to_owned(),
            space => format!("{space}/{}", core::text(subject, "/name")),
        });
        json!(names.collect::<Vec<_>>().join(", "))
    };
    vec![of("User"), of("Group"), of("ServiceAccount")]
}

/// The addresses of endpoints, by the name of their field if they are objects.
fn addresses(value: &Value, pointer: &str, field: &str) -> String {
    let parts = value.pointer(pointer).and_then(Value::as_array).into_iter().flatten();
    let all = parts.flat_map(|part| part["addresses"].as_array().into_iter().flatten());
    let shown = |it: &Value| it.as_str().or(it[field].as_str()).map(str::to_owned);
    let all: Vec<String> = all.filter_map(shown).collect();
    if all.is_empty() { "<none>".to_owned() } else { all.join(",") }
}

fn builtin_cells(builtin: Builtin, value: &Value) -> Vec<Value> {
    let created = core::text(value, "/metadata/creationTimestamp");
    let age = age(created).map_or_else(|| json!("<unknown>"), |age| json!(age));
    let size = |pointer: &str| match value.pointer(pointer) {
        Some(Value::Object(map)) => map.len(),
        Some(Value::Array(list)) => list.len(),
        Some(_) | None => 0,
    };
    let text = |pointer: &str| json!(core::text(value, pointer));
    match builtin {
        Builtin::ConfigMap => vec![json!(size("/data") + size("/binaryData")), age],
        Builtin::Secret => vec![text("/type"), json!(size("/data")), age],
        Builtin::Namespace => vec![text("/status/phase"), age],
        Builtin::ServiceAccount => vec![age],
        Builtin::Lease => vec![text("/spec/holderIdentity"), age],
        Builtin::Event => event_cells(value, "involvedObject", "message"),
        Builtin::RegardingEvent => event_cells(value, "regarding", "note"),
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => {
            let kind = core::text(value, "/roleRef/kind");
            let name = core::text(value, "/roleRef/name");
            vec![json!(format!("{kind}/{name}")), age]
        }
        Builtin::ValidatingAdmissionPolicy => {
            let version = core::text(value, "/spec/paramKind/apiVersion");
            let kind = core::text(value, "/spec/paramKind/kind");
            let of = if kind.is_empty() { "<unset>".into() } else { format!("{version}/{kind}") };
            vec![json!(size("/spec/validations")), json!(of), age]
        }
        Builtin::ValidatingAdmissionPolicyBinding => {
            let named = match core::text(value, "/spec/paramRef/name") {
                "" if value.pointer("/spec/paramRef").is_none() => "<unset>".to_owned(),
                "" => "*".to_owned(),
                name => match core::text(value, "/spec/paramRef/namespace") {
                    "" => name.to_owned(),
                    space => format!("{space}/{name}"),
                },
            };
            vec![text("/spec/policyName"), json!(named), age]
        }
        Builtin::ValidatingWebhookConfiguration => vec![json!(size("/webhooks")), age],
        Builtin::Endpoints => vec![json!(addresses(value, "/subsets", "ip")), age],
        Builtin::EndpointSlice => {
            vec![text("/addressType"), json!(addresses(value, "/endpoints", "")), age]
        }
        Builtin::Service => {
            let ports = value.pointer("/spec/ports").and_then(Value::as_array);
            let ports = ports.into_iter().flatten();
            let ports: Vec<String> = ports
                .map(|port| format!("{}/{}", port["port"], core::text(port, "/protocol")))
                .collect();
            let ports = json!(ports.join(","));
            vec![text("/spec/type"), text("/spec/clusterIP"), json!("<none>"), ports, age]
        }
        Builtin::Role
        | Builtin::ClusterRole
        | Builtin::CustomResourceDefinition
        | Builtin::ApiService
        | Builtin::Review(_) => vec![json!(created)],
    }
}

fn event_cells(value: &Value, object: &str, message: &str) -> Vec<Value> {
    let text = |pointer: String| core::text(value, &pointer).to_owned();
    let seen = ["lastTimestamp", "deprecatedLastTimestamp", "eventTime"]
        .into_iter()
        .map(|field| text(format!("/{field}")))
        .find(|time| !time.is_empty());
    let seen = seen.as_deref().and_then(age).unwrap_or_else(|| "<unknown>".to_owned());
    let kind = text(format!("/{object}/kind")).to_lowercase();
    let name = text(format!("/{object}/name"));
    vec![
        json!(seen),
        json!(text("/type".to_owned())),
        json!(text("/reason".to_owned())),
        json!(format!("{kind}/{name}")),
        json!(text(format!("/{message}")).trim()),
    ]
}

/// The age of a time.
fn age(time: &str) -> Option<String> {
    let then: Timestamp = time.parse().ok()?;
    Some(jsonpath::table::age(then, Timestamp::now()))
}
