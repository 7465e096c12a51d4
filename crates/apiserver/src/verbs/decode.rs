//! Decodes request bodies.

use serde_json::Value;
use serde_saphyr::{DuplicateKeyPolicy, Error, Options};

use super::RequestContext;
use super::json::{self, Parsed};
use super::options::FieldValidation;
use crate::core::text;
use crate::http::Call;
use crate::kinds::{Resource, builtin, group_version};
use crate::meta::field::{FieldError, Path};
use crate::patch::go_type;
use crate::schema::{DEPTH_MAX, is_deeper};
use crate::status::Refusal;
use crate::{clock, normalize, protobuf};

const BODIES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
/// The format that Go clients prefer for built-in kinds.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";
const YAML: &str = "application/yaml";
const SUMMARY: usize = 30;

/// Parses a body as JSON, YAML, or for some built-in kinds protobuf.
pub(crate) fn body(call: &Call, resource: &Resource) -> Result<Parsed, Refusal> {
    let parsed = match call.content_type.as_str() {
        "" | "application/json" => json::parse(&call.body),
        YAML => yaml(&call.body),
        PROTOBUF if protobuf::is_known(&resource.group, &resource.kind) => {
            let read = protobuf::read(&call.body, (&resource.group, &resource.kind));
            let value = read.map_err(|why| Refusal::bad_request(why.to_string()))?;
            return Ok(Parsed { value, duplicates: Vec::new() });
        }
        _ => return Err(Refusal::unsupported_media(BODIES)),
    };
    let parsed = parsed.map_err(|why| {
        let why = format!("couldn't get version/kind; json parse error: {why}");
        unrecognized(resource, &why, &call.body)
    })?;
    if parsed.value.is_object() {
        return Ok(parsed);
    }
    let why = match go_type(&parsed.value) {
        "null" => "Object 'Kind' is missing in 'null'".to_owned(),
        _ => json::no_object(&parsed.value),
    };
    Err(unrecognized(resource, &why, &call.body))
}

/// Parses YAML or JSON.
pub(crate) fn yaml(bytes: &[u8]) -> Result<Parsed, String> {
    if let Ok(parsed) = json::parse(bytes) {
        return Ok(parsed);
    }
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    let mut options = Options::default();
    options.duplicate_keys = DuplicateKeyPolicy::LastWins;
    let value: Value =
        serde_saphyr::from_str_with_options(text, options).map_err(|error| error.to_string())?;
    if is_deeper(&value, DEPTH_MAX) {
        return Err("exceeded max depth".to_owned());
    }
    Ok(Parsed { value, duplicates: Vec::new() })
}

/// What Kubernetes says of the first key that a document in YAML gives twice; `duplicates` are
/// those of a document in JSON.
pub(crate) fn yaml_duplicate(bytes: &[u8], duplicates: &[String]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    if duplicates.is_empty() && json::parse(bytes).is_ok() {
        return None;
    }
    let strict = serde_saphyr::from_str_with_options::<Value>(text, Options::default());
    let mut error = strict.err()?;
    while let Error::WithSnippet { error: inner, .. } = error {
        error = *inner;
    }
    let Error::DuplicateMappingKey { key, location } = error else { return None };
    let (line, key) = (location.line(), key.unwrap_or_default());
    Some(format!("yaml: unmarshal errors:\n  line {line}: key {key:?} already set in map"))
}

/// Decodes an object to create or replace.
pub(crate) fn object(ctx: &mut RequestContext<'_>, call: &Call) -> Result<Value, Refusal> {
    let parsed = body(call, ctx.resource)?;
    let mut value = parsed.value;
    identify(ctx.resource, &mut value, &call.body)?;
    let (kind, version) = named(&value);
    let handled =
        format!("{kind} in version \"{version}\" cannot be handled as a {}", ctx.resource.kind);
    let unknown = normalize::normalize(ctx.resource, &mut value)
        .map_err(|why| Refusal::bad_request(format!("{handled}: {why}")))?;
    let doubled = match call.content_type.as_str() {
        YAML if ctx.options.validation == FieldValidation::Strict => {
            yaml_duplicate(&call.body, &parsed.duplicates)
        }
        _ => None,
    };
    if let Some(strict) = doubled.or_else(|| complain(ctx, parsed.duplicates, unknown)) {
        let message = format!("{handled}: strict decoding error: {strict}");
        return Err(Refusal::bad_request(message));
    }
    kind_matches(ctx.resource, &value)?;
    Ok(value)
}

/// Warns of unknown and duplicate fields; returns the error in strict mode.
pub(crate) fn complain(
    ctx: &mut RequestContext<'_>,
    doubled: Vec<String>,
    unknown: Vec<String>,
) -> Option<String> {
    let doubled = doubled.into_iter().map(|path| format!("duplicate field \"{path}\""));
    let unknown = unknown.into_iter().map(|path| format!("unknown field \"{path}\""));
    let complaints: Vec<String> = doubled.chain(unknown).collect();
    match ctx.options.validation {
        FieldValidation::Ignore => None,
        FieldValidation::Warn => {
            ctx.warn(complaints);
            None
        }
        FieldValidation::Strict if complaints.is_empty() => None,
        FieldValidation::Strict => Some(complaints.join(", ")),
    }
}

/// Refuses an object of another kind than its path.
pub(crate) fn kind_matches(resource: &Resource, value: &Value) -> Result<(), Refusal> {
    let kind = text(value, "/kind");
    if resource.custom().is_none() || kind == resource.kind {
        return Ok(());
    }
    let why = format!("must be {}", resource.kind);
    let errors = [FieldError::invalid_text(&Path::new("kind"), kind, why)];
    let name = text(value, "/metadata/name");
    Err(Refusal::invalid_kind(&resource.group, kind, name, &errors))
}

/// Completes or validates `apiVersion` and `kind`.
fn identify(resource: &Resource, value: &mut Value, raw: &[u8]) -> Result<(), Refusal> {
    let (kind, version) = named(value);
    let expected = resource.api_version();
    if resource.custom().is_some() {
        let missing = if kind.is_empty() {
            Some("Kind")
        } else if version.is_empty() {
            Some("apiVersion")
        } else {
            None
        };
        if let Some(missing) = missing {
            let shown = String::from_utf8_lossy(raw);
            let why = format!("Object '{missing}' is missing in '{shown}'");
            return Err(unrecognized(resource, &why, raw));
        }
        let given = text(value, "/apiVersion");
        if given != expected {
            return Err(wrong_version(given, &expected));
        }
        return Ok(());
    }
    if let Some(map) = value.as_object_mut() {
        map.entry("kind").or_insert_with(|| Value::from(resource.kind.as_str()));
        map.entry("apiVersion").or_insert_with(|| Value::from(expected.as_str()));
    }
    let given = text(value, "/apiVersion");
    if kind.is_empty() || kind == resource.kind && given == expected {
        return Ok(());
    }
    let served = builtin::all();
    let known = |found: &Resource| found.api_version() == given && found.kind == kind;
    if !served.iter().any(|found| known(found)) {
        return Err(Refusal::bad_request(format!(
            "{kind} in version \"{given}\" cannot be handled as a {}: no kind \"{kind}\" is \
             registered for version \"{given}\" in scheme \"pkg/api/legacyscheme/scheme.go:30\"",
            resource.kind
        )));
    }
    if kind == resource.kind {
        return Err(wrong_version(given, &expected));
    }
    let internal = if resource.group.is_empty() { "core" } else { &resource.group };
    let internal = internal.split('.').next().unwrap_or_default();
    Err(Refusal::bad_request(format!(
        "{kind} in version \"{version}\" cannot be handled as a {}: converting ({version}.{kind}) \
         to ({internal}.{}): unknown conversion",
        resource.kind, resource.kind
    )))
}

fn wrong_version(given: &str, expected: &str) -> Refusal {
    Refusal::bad_request(format!(
        "the API version in the data ({given}) does not match the expected API version ({expected})"
    ))
}

fn named(value: &Value) -> (String, String) {
    let (_, version) = group_version(text(value, "/apiVersion"));
    (text(value, "/kind").to_owned(), version.to_owned())
}

fn unrecognized(resource: &Resource, why: &str, raw: &[u8]) -> Refusal {
    let kind = &resource.kind;
    Refusal::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {why} ({})",
        summary(raw)
    ))
}

/// The start of a body, as printed in messages.
fn summary(raw: &[u8]) -> String {
    let cut = raw.get(..SUMMARY.min(raw.len())).unwrap_or_default();
    let more = if raw.len() > SUMMARY { " ..." } else { "" };
    match raw.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(cut)),
        Some(_) => {
            format!("{}{more}", clock::hex(cut))
        }
    }
}
