//! Protobuf request bodies of `kubectl` and Go clients for some built-in kinds.
//!
//! A body is four magic bytes and an envelope with the kind and the object. Tables map the fields
//! of the object; unknown ones are refused. Responses are JSON, which every such client accepts.

mod messages;
mod reviews;
mod wire;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use messages::{Field, Form};
use wire::{Fields, Payload};

const MAGIC: &[u8] = b"k8s\0";

/// Why a body cannot be decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unreadable {
    /// The magic bytes are missing.
    #[error(
        "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
    )]
    NotMarked,
    /// The body is truncated, or a field has the wrong wire type.
    #[error("unexpected EOF")]
    Broken,
    /// An unknown field: dropping it would lose data.
    #[error("field {0} of a protobuf message is not known here, send JSON")]
    Unknown(u64),
}

/// Whether protobuf is supported for a kind.
pub(crate) fn is_known(group: &str, kind: &str) -> bool {
    messages::of(group, kind).is_some()
}

/// Decodes an object; one of another kind has only `apiVersion` and `kind`.
pub(crate) fn read(bytes: &[u8], (group, kind): (&str, &str)) -> Result<Value, Unreadable> {
    let envelope = bytes.strip_prefix(MAGIC).ok_or(Unreadable::NotMarked)?;
    let envelope = message(envelope, &messages::ENVELOPE)?;
    let named = &envelope["typeMeta"];
    let given = |key: &str| named.get(key).and_then(Value::as_str).unwrap_or_default();
    let mut object = Map::new();
    if let Some(fields) = messages::of(group, kind).filter(|_| given("kind") == kind) {
        let raw = envelope["raw"].as_str().unwrap_or_default();
        let raw = STANDARD.decode(raw).map_err(|_| Unreadable::Broken)?;
        if let Value::Object(read) = message(&raw, fields)? {
            object = read;
        }
    }
    for key in ["apiVersion", "kind"] {
        if !given(key).is_empty() {
            object.insert(key.to_owned(), json!(given(key)));
        }
    }
    Ok(Value::Object(object))
}

/// A message as a JSON object. Go writes empty fields; JSON omits them.
fn message(bytes: &[u8], fields: &[Field]) -> Result<Value, Unreadable> {
    let mut object = Map::new();
    for found in Fields::of(bytes) {
        let (number, payload) = found?;
        let field = fields.iter().find(|field| field.number == number);
        let field = field.ok_or(Unreadable::Unknown(number))?;
        put(&mut object, field, payload)?;
    }
    Ok(Value::Object(object))
}

fn put(
    object: &mut Map<String, Value>,
    field: &Field,
    payload: Payload<'_>,
) -> Result<(), Unreadable> {
    let name = || field.name.to_owned();
    match field.form {
        Form::List(form) => {
            let item = value(payload, *form)?.unwrap_or_default();
            if let Some(list) = object.entry(name()).or_insert_with(|| json!([])).as_array_mut() {
                list.push(item);
            }
        }
        Form::Map(form) => {
            let entry = message(payload.bytes()?, &messages::entry(*form))?;
            let key = entry["key"].as_str().unwrap_or_default().to_owned();
            let item = entry.get("value").cloned().unwrap_or_else(|| json!(""));
            if let Some(map) = object.entry(name()).or_insert_with(|| json!({})).as_object_mut() {
                map.insert(key, item);
            }
        }
        form @ (Form::Text
        | Form::Given
        | Form::Bytes
        | Form::Bool
        | Form::Number
        | Form::GivenNumber
        | Form::Time
        | Form::MicroTime
        | Form::Json
        | Form::Raw
        | Form::Items
        | Form::Ignored
        | Form::Message(_)) => {
            if let Some(value) = value(payload, form)? {
                object.insert(name(), value);
            }
        }
    }
    Ok(())
}

/// The value of a field; `None` if JSON omits it.
fn value(payload: Payload<'_>, form: Form) -> Result<Option<Value>, Unreadable> {
    Ok(match form {
        Form::Text => Some(payload.text()?).filter(|text| !text.is_empty()).map(Value::from),
        Form::Given => Some(json!(payload.text()?)),
        Form::Bytes => Some(json!(STANDARD.encode(payload.bytes()?))),
        Form::Bool => Some(json!(payload.number()? != 0)),
        Form::Number => Some(payload.number()?).filter(|number| *number != 0).map(Value::from),
        Form::GivenNumber => Some(json!(payload.number()?)),
        Form::Time => time(payload.bytes()?)?.map(|time| json!(format!("{time:.0}"))),
        Form::MicroTime => time(payload.bytes()?)?.map(|time| json!(format!("{time:.6}"))),
        Form::Json => Some(payload.bytes()?)
            .filter(|bytes| !bytes.is_empty())
            .map(serde_json::from_slice)
            .transpose()
            .map_err(|_| Unreadable::Broken)?,
        Form::Raw => message(payload.bytes()?, &messages::RAW)?.get("raw").cloned(),
        Form::Items => {
            let wrapped = message(payload.bytes()?, &messages::ITEMS)?;
            Some(wrapped.get("items").cloned().unwrap_or_else(|| json!([])))
        }
        Form::Message(fields) => Some(message(payload.bytes()?, fields)?),
        Form::List(_) | Form::Map(_) | Form::Ignored => None,
    })
}

/// A time; `None` for Go's zero time.
fn time(bytes: &[u8]) -> Result<Option<Timestamp>, Unreadable> {
    let parts = message(bytes, &messages::TIME)?;
    let part = |name: &str| parts.get(name).and_then(Value::as_i64);
    let Some(seconds) = part("seconds") else { return Ok(None) };
    let nanos = part("nanos").and_then(|nanos| i32::try_from(nanos).ok()).unwrap_or_default();
    Timestamp::new(seconds, nanos).map(Some).map_err(|_| Unreadable::Broken)
}

#[cfg(test)]
mod tests;
