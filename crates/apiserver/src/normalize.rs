//! Pruning, defaulting and type checks of request bodies.

use std::collections::HashMap;
use std::sync::OnceLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use crate::kinds::{Builtin, Origin, Resource, builtin};
use crate::patch::go_type;
use crate::schema::{Schema, default, metadata, prune};
use crate::strategy;

/// The schema of a resource.
pub(crate) fn schema(resource: &Resource) -> &Schema {
    match &resource.origin {
        Origin::Custom(custom) => &custom.schema,
        Origin::Builtin(kind) => builtin_schema(*kind),
    }
}

/// As [`normalize`], for the result of an apply, in which an emptied map is null and stays so.
pub(crate) fn normalize_applied(
    resource: &Resource,
    value: &mut Value,
) -> Result<Vec<String>, String> {
    let Some(custom) = resource.custom() else { return normalize(resource, value) };
    let mut unknown = metadata::coerce(value, &custom.schema)?;
    unknown.extend(prune_root(value, &custom.schema));
    default::fill(value, &custom.schema);
    unknown.sort();
    Ok(unknown)
}

/// How Kubernetes decodes a built-in object; its errors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Decoder {
    /// From JSON.
    Json,
    /// From the maps that a strategic patch has made.
    Maps,
}

/// Prunes unknown fields and sets defaults. Returns the unknown fields, or an error with Go's
/// message.
pub(crate) fn normalize(resource: &Resource, value: &mut Value) -> Result<Vec<String>, String> {
    normalize_as(resource, value, Decoder::Json)
}

/// As [`normalize`], with the errors of a decoder.
pub(crate) fn normalize_as(
    resource: &Resource,
    value: &mut Value,
    decoder: Decoder,
) -> Result<Vec<String>, String> {
    if let Some(kind) = resource.builtin() {
        typed(value, kind.schema(), (&resource.kind, ""))
            .map_err(|mistake| mistake.in_words(decoder))?;
        clear_managers(value);
    }
    let schema = schema(resource);
    let mut unknown = metadata::coerce(value, schema).map_err(|why| match decoder {
        Decoder::Json => why,
        Decoder::Maps => restated(why),
    })?;
    match &resource.origin {
        Origin::Custom(_) => {
            unknown.extend(prune_root(value, schema));
            default::drop_nulls(value, schema);
            default::fill(value, schema);
        }
        Origin::Builtin(kind) => {
            unknown.extend(prune_root(value, schema));
            drop_nulls(value);
            omit_empty(*kind, value);
            strategy::default_early(*kind, value);
        }
    }
    unknown.sort();
    Ok(unknown)
}

/// An empty list of managers removes those of a built-in object, as one empty manager does.
fn clear_managers(object: &mut Value) {
    let managers = object.pointer_mut("/metadata/managedFields").and_then(Value::as_array_mut);
    if let Some(managers) = managers.filter(|managers| managers.is_empty()) {
        managers.push(Value::Object(Map::new()));
    }
}

/// Sets the defaults of a stored object on a read.
pub(crate) fn complete(resource: &Resource, value: &mut Value) {
    if let Some(custom) = resource.custom() {
        prune_root(value, &custom.schema);
        default::fill(value, &custom.schema);
    }
}

/// Prunes an object but for `apiVersion`, `kind` and `metadata`.
pub(crate) fn prune_root(value: &mut Value, schema: &Schema) -> Vec<String> {
    const KEPT: [&str; 3] = ["apiVersion", "kind", "metadata"];
    let Some(map) = value.as_object_mut() else { return Vec::new() };
    let kept: Vec<(String, Value)> = KEPT.iter().filter_map(|key| map.remove_entry(*key)).collect();
    let unknown = prune(value, schema);
    if let Some(map) = value.as_object_mut() {
        map.extend(kept);
    }
    unknown
}

fn builtin_schema(kind: Builtin) -> &'static Schema {
    static SCHEMAS: OnceLock<HashMap<String, Schema>> = OnceLock::new();
    static EMPTY: OnceLock<Schema> = OnceLock::new();
    let schemas = SCHEMAS.get_or_init(|| {
        let kinds = builtin::all().into_iter().chain([builtin::token_request()]);
        let kinds = kinds.filter_map(|resource| resource.builtin());
        kinds
            .map(|kind| (format!("{kind:?}"), Schema::parse(kind.schema()).unwrap_or_default()))
            .collect()
    });
    let found = schemas.get(&format!("{kind:?}"));
    found.unwrap_or_else(|| EMPTY.get_or_init(Schema::default))
}

/// Why a value cannot be decoded.
enum Mistake {
    /// It has another type than the Go struct at this path.
    Mismatch { found: Value, at: (String, String), wanted: String },
    /// It is a string that is not in the format.
    Written(String),
}

impl Mistake {
    fn in_words(self, decoder: Decoder) -> String {
        match (self, decoder) {
            (Self::Written(why), Decoder::Json) => why,
            (Self::Written(why), Decoder::Maps) => format!("error decoding from json: {why}"),
            (Self::Mismatch { found, at: (kind, path), wanted }, Decoder::Json) => {
                let found = if wanted.starts_with("int") && found.is_number() {
                    format!("number {found}")
                } else {
                    go_type(&found).to_owned()
                };
                mismatch(&found, (&kind, &path), &wanted)
            }
            (Self::Mismatch { found, wanted, .. }, Decoder::Maps) => {
                let kind = match found {
                    Value::Null => "invalid",
                    Value::Bool(_) => "bool",
                    Value::Number(number) if number.is_f64() => "float64",
                    Value::Number(_) => "int64",
                    Value::String(_) => "string",
                    Value::Array(_) => "slice",
                    Value::Object(_) => "map",
                };
                unrestorable(kind, &wanted)
            }
        }
    }
}

/// An error of metadata that were no JSON: its sentence names both types.
fn restated(why: String) -> String {
    let types = why.strip_prefix("json: cannot unmarshal ").and_then(|rest| {
        let (found, rest) = rest.split_once(" into Go ")?;
        Some((found, rest.rsplit_once(" of type ")?.1))
    });
    let Some((found, wanted)) = types else { return why };
    let kind = match found {
        "array" => "slice",
        "object" => "map",
        "number" => "int64",
        other => other,
    };
    unrestorable(kind, wanted)
}

/// Why a value of a kind is not restored as a Go type.
fn unrestorable(kind: &str, wanted: &str) -> String {
    match (wanted, kind) {
        (map, _) if map.starts_with("map[") => format!("cannot restore map from {kind}"),
        (slice, _) if slice.starts_with("[]") => format!("cannot restore slice from {kind}"),
        (object, _) if object.contains('.') => format!("cannot restore struct from: {kind}"),
        ("string", "int64") | ("int32" | "int64", "float64") => {
            format!("cannot convert {kind} to {wanted}")
        }
        _ => format!("unrecognized type: {wanted}"),
    }
}

/// Checks the types of a value; `at` is the Go struct and the path of the field.
fn typed(value: &Value, schema: &Value, at: (&str, &str)) -> Result<(), Mistake> {
    if value.is_null() || schema.get("x-kubernetes-preserve-unknown-fields").is_some() {
        return Ok(());
    }
    let wanted = schema["type"].as_str().unwrap_or_default();
    let fits = match wanted {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => true,
    };
    if !fits {
        let at = (at.0.to_owned(), at.1.to_owned());
        return Err(Mistake::Mismatch { found: value.clone(), at, wanted: go_name(schema) });
    }
    let format = schema["format"].as_str().unwrap_or_default();
    if let Some(text) = value.as_str() {
        return written(text, format).map_err(Mistake::Written);
    }
    match value {
        Value::Object(map) => typed_map(map, schema, at),
        Value::Array(list) => list.iter().try_for_each(|item| typed(item, &schema["items"], at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
    }
}

fn typed_map(map: &Map<String, Value>, schema: &Value, at: (&str, &str)) -> Result<(), Mistake> {
    for (key, value) in map {
        let path = if at.1.is_empty() { key.clone() } else { format!("{}.{key}", at.1) };
        if let Some(known) = schema["properties"].get(key) {
            typed(value, known, (at.0, &path))?;
        } else if let Some(entry) = schema.get("additionalProperties") {
            typed(value, entry, at)?;
        }
    }
    Ok(())
}

/// Checks a string against its format.
fn written(text: &str, format: &str) -> Result<(), String> {
    let layout = match format {
        "byte" => {
            return match STANDARD.decode(text) {
                Ok(_) => Ok(()),
                Err(error) => Err(base64_error(text, &error)),
            };
        }
        "date-time" => "2006-01-02T15:04:05Z07:00",
        "micro-time" => "2006-01-02T15:04:05.000000Z07:00",
        _ => return Ok(()),
    };
    let whole = text.parse::<jiff::Timestamp>().is_ok();
    let fraction = text.get(19..20) == Some(".");
    if whole && (fraction || format != "micro-time") {
        return Ok(());
    }
    let (rest, part) =
        if whole { (text.get(19..).unwrap_or_default(), ".000000") } else { (text, "2006") };
    Err(format!("parsing time \"{text}\" as \"{layout}\": cannot parse \"{rest}\" as \"{part}\""))
}

fn base64_error(text: &str, error: &base64::DecodeError) -> String {
    let at = match error {
        base64::DecodeError::InvalidByte(at, _)
        | base64::DecodeError::InvalidLastSymbol { offset: at, .. } => *at,
        base64::DecodeError::InvalidLength(_) | base64::DecodeError::InvalidPadding => {
            text.len() / 4 * 4
        }
    };
    format!("illegal base64 data at input byte {at}")
}

fn mismatch(found: &str, (kind, path): (&str, &str), wanted: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field {kind}.{path} of type {wanted}")
}

/// The Go type of a schema.
fn go_name(schema: &Value) -> String {
    let format = schema["format"].as_str().unwrap_or_default();
    match schema["type"].as_str().unwrap_or_default() {
        "string" if format == "byte" => "[]uint8".to_owned(),
        "string" if format == "date-time" => "v1.Time".to_owned(),
        "boolean" => "bool".to_owned(),
        "integer" if format == "int32" => "int32".to_owned(),
        "integer" => "int64".to_owned(),
        "array" => format!("[]{}", go_name(&schema["items"])),
        "object" => match schema.get("additionalProperties") {
            Some(entry) => format!("map[string]{}", go_name(entry)),
            None => "v1.Object".to_owned(),
        },
        other => other.to_owned(),
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(list) => list.iter_mut().for_each(drop_nulls),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Omits the empty fields that Go's types omit.
fn omit_empty(kind: Builtin, value: &mut Value) {
    let Some(map) = value.as_object_mut() else { return };
    let kept: &[&str] = match kind {
        Builtin::Namespace
        | Builtin::Lease
        | Builtin::CustomResourceDefinition
        | Builtin::ValidatingAdmissionPolicy
        | Builtin::ValidatingAdmissionPolicyBinding
        | Builtin::ApiService
        | Builtin::Service
        | Builtin::Review(_) => &["spec", "status", "metadata"],
        Builtin::Event | Builtin::RegardingEvent => &["metadata", "involvedObject", "source"],
        Builtin::ConfigMap
        | Builtin::Secret
        | Builtin::ServiceAccount
        | Builtin::Endpoints
        | Builtin::EndpointSlice
        | Builtin::Role
        | Builtin::RoleBinding
        | Builtin::ClusterRole
        | Builtin::ClusterRoleBinding
        | Builtin::ValidatingWebhookConfiguration => &["metadata"],
    };
    map.retain(|key, value| kept.contains(&key.as_str()) || !is_empty(value));
    if kind == Builtin::Namespace {
        for part in ["spec", "status"] {
            if let Some(part) = map.get_mut(part).and_then(Value::as_object_mut) {
                part.retain(|_, value| !is_empty(value));
            }
        }
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
