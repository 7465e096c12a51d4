//! Custom resources, one per CRD version.

use std::cmp::Reverse;
use std::sync::Arc;

use serde_json::Value;

use super::{Origin, Resource};
use crate::apply::View;
use crate::schema::Schema;

/// One version of a CRD.
#[derive(Debug)]
pub(crate) struct Custom {
    /// The uid of the CRD: a new CRD of the same name is another one.
    pub(crate) uid: String,
    /// The schema as written in the CRD.
    pub(crate) written: Value,
    /// The compiled schema.
    pub(crate) schema: Schema,
    /// How objects are merged.
    pub(crate) view: View,
    /// The schema of the storage version, if that is another one.
    pub(crate) stored: Option<Schema>,
    /// Whether reading needs no pruning or defaulting.
    pub(crate) plain: bool,
    /// Whether `/status` is served.
    pub(crate) status: bool,
    /// The paths of `/scale`, if it is served.
    pub(crate) scale: Option<Scale>,
    /// The columns of a table.
    pub(crate) columns: Vec<Column>,
    /// The selectable fields, without the leading dot.
    pub(crate) selectable: Vec<String>,
    /// The storage version.
    pub(crate) storage_version: String,
    /// The deprecation warning.
    pub(crate) deprecation: Option<String>,
    /// Whether the CRD is being deleted.
    pub(crate) terminating: bool,
}

/// The paths of `/scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scale {
    pub(crate) spec: String,
    pub(crate) status: String,
    pub(crate) selector: Option<String>,
}

/// One column of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) format: String,
    pub(crate) description: String,
    pub(crate) priority: i64,
    pub(crate) path: String,
}

/// The served resources of an established CRD.
pub(crate) fn resources(definition: &Value) -> Vec<Arc<Resource>> {
    if !has_condition(definition, "Established") {
        return Vec::new();
    }
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let mut served: Vec<&Value> = versions
        .into_iter()
        .flatten()
        .filter(|version| version["served"].as_bool().unwrap_or_default())
        .collect();
    served.sort_by_cached_key(|version| priority(text(version, "/name")));
    served.into_iter().map(|version| Arc::new(resource(definition, version))).collect()
}

/// The storage version of an established CRD, even if it is not served.
pub(crate) fn stored(definition: &Value) -> Option<Arc<Resource>> {
    if !has_condition(definition, "Established") {
        return None;
    }
    let mut versions = definition.pointer("/spec/versions")?.as_array()?.iter();
    let version = versions.find(|version| version["storage"].as_bool().unwrap_or_default())?;
    Some(Arc::new(resource(definition, version)))
}

/// Whether a condition of the CRD is true.
pub(crate) fn has_condition(definition: &Value, wanted: &str) -> bool {
    let conditions = definition.pointer("/status/conditions").and_then(Value::as_array);
    conditions.into_iter().flatten().any(|condition| {
        condition["type"].as_str() == Some(wanted) && condition["status"].as_str() == Some("True")
    })
}

/// The order of versions: stable before beta before alpha, newer before older, others last by name.
pub(crate) fn priority(version: &str) -> (Reverse<u8>, Reverse<u64>, Reverse<u64>, String) {
    let parsed = version.strip_prefix('v').and_then(|rest| {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (major, rest) = rest.split_at(digits);
        let major: u64 = major.parse().ok()?;
        let stage = |word: &str, rank: u8| {
            rest.strip_prefix(word).and_then(|minor| Some((rank, major, minor.parse().ok()?)))
        };
        if rest.is_empty() {
            return Some((3, major, 0));
        }
        stage("beta", 2).or_else(|| stage("alpha", 1))
    });
    match parsed {
        Some((rank, major, minor)) => {
            (Reverse(rank), Reverse(major), Reverse(minor), String::new())
        }
        None => (Reverse(0), Reverse(0), Reverse(0), version.to_owned()),
    }
}

fn resource(definition: &Value, version: &Value) -> Resource {
    let names = definition.pointer("/status/acceptedNames").unwrap_or(&Value::Null);
    let group = text(definition, "/spec/group").to_owned();
    let plural = text(names, "/plural").to_owned();
    Resource {
        version: text(version, "/name").to_owned(),
        singular: text(names, "/singular").to_owned(),
        kind: text(names, "/kind").to_owned(),
        list_kind: text(names, "/listKind").to_owned(),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: text(definition, "/spec/scope") == "Namespaced",
        table: Arc::from(format!("{plural}.{group}")),
        origin: Origin::Custom(Arc::new(custom(definition, version))),
        group,
        plural,
    }
}

fn custom(definition: &Value, version: &Value) -> Custom {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let storage = versions
        .into_iter()
        .flatten()
        .find(|version| version["storage"].as_bool().unwrap_or_default())
        .map_or("", |version| text(version, "/name"));
    let written = version.pointer("/schema/openAPIV3Schema").cloned().unwrap_or_default();
    let schema = Schema::parse(&written).unwrap_or_default();
    let stored = versions
        .into_iter()
        .flatten()
        .find(|other| text(other, "/name") == storage && text(version, "/name") != storage)
        .and_then(|other| other.pointer("/schema/openAPIV3Schema"))
        .and_then(|schema| Schema::parse(schema).ok());
    let scale = version.pointer("/subresources/scale").map(|scale| Scale {
        spec: text(scale, "/specReplicasPath").to_owned(),
        status: text(scale, "/statusReplicasPath").to_owned(),
        selector: scale["labelSelectorPath"].as_str().map(str::to_owned),
    });
    let paths = version["selectableFields"].as_array();
    let selectable = paths
        .into_iter()
        .flatten()
        .map(|field| text(field, "/jsonPath").trim_start_matches('.').to_owned())
        .collect();
    let group = text(definition, "/spec/group");
    let name = text(version, "/name");
    let kind = text(definition, "/spec/names/kind");
    let deprecation = version["deprecated"].as_bool().unwrap_or_default().then(|| {
        version["deprecationWarning"].as_str().map_or_else(
            || format!("{group}/{name} {kind} is deprecated{}", newer(definition, name, kind)),
            str::to_owned,
        )
    });
    Custom {
        uid: text(definition, "/metadata/uid").to_owned(),
        view: View::of(&schema),
        schema,
        stored,
        plain: !has_default(&written) && versions.map_or(0, Vec::len) == 1,
        written,
        status: version.pointer("/subresources/status").is_some(),
        scale,
        columns: columns(version),
        selectable,
        storage_version: storage.to_owned(),
        deprecation,
        terminating: definition.pointer("/metadata/deletionTimestamp").is_some(),
    }
}

/// Whether a schema contains a default.
fn has_default(schema: &Value) -> bool {
    match schema {
        Value::Object(map) => map.contains_key("default") || map.values().any(has_default),
        Value::Array(list) => list.iter().any(has_default),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The deprecation warning, which recommends the newest stable version.
fn newer(definition: &Value, deprecated: &str, kind: &str) -> String {
    let versions = definition.pointer("/spec/versions").and_then(Value::as_array);
    let best = versions
        .into_iter()
        .flatten()
        .filter(|version| {
            version["served"].as_bool().unwrap_or_default()
                && !version["deprecated"].as_bool().unwrap_or_default()
        })
        .map(|version| text(version, "/name"))
        .filter(|name| priority(name) < priority(deprecated))
        .min_by_key(|name| priority(name));
    best.map_or_else(String::new, |best| {
        format!("; use {}/{best} {kind}", text(definition, "/spec/group"))
    })
}

fn columns(version: &Value) -> Vec<Column> {
    let age = || Column {
        name: "Age".to_owned(),
        kind: "date".to_owned(),
        format: String::new(),
        description: String::new(),
        priority: 0,
        path: ".metadata.creationTimestamp".to_owned(),
    };
    match version["additionalPrinterColumns"].as_array() {
        Some(columns) if !columns.is_empty() => columns
            .iter()
            .map(|column| Column {
                name: text(column, "/name").to_owned(),
                kind: text(column, "/type").to_owned(),
                format: text(column, "/format").to_owned(),
                description: text(column, "/description").to_owned(),
                priority: column["priority"].as_i64().unwrap_or_default(),
                path: text(column, "/jsonPath").to_owned(),
            })
            .collect(),
        Some(_) | None => vec![age()],
    }
}

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn texts(value: &Value) -> Vec<String> {
    let list = value.as_array().into_iter().flatten();
    list.filter_map(Value::as_str).map(str::to_owned).collect()
}
