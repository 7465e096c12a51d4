//! JSON patch (RFC 6902), as the Go library that Kubernetes uses understands it.
//!
//! It differs from the standard: a missing key equals null in a `test`, `replace` of it adds it,
//! indexes may count from the end, and text before the first slash of a path is ignored.

use super::{Refusal, go_type, read};
use crate::schema::{DEPTH_MAX, is_deeper};
use serde_json::Value;

/// The maximum number of operations.
pub const OPERATIONS_MAX: usize = 10_000;

/// The maximum total size of copied values.
const COPIED_MAX: usize = 3 * 1024 * 1024;

/// An operation of a patch; a missing field is an error when it is applied.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Operation {
    op: String,
    path: Option<String>,
    from: Option<String>,
    value: Value,
}

/// Parses a patch.
pub fn parse(body: &[u8]) -> Result<Vec<Operation>, Refusal> {
    let document = read(body).map_err(Refusal::Undecodable)?;
    let found = go_type(&document);
    let items = match document {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            return Err(Refusal::Undecodable(format!(
                "json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
            )));
        }
    };
    if items.len() > OPERATIONS_MAX {
        return Err(Refusal::TooMany { most: OPERATIONS_MAX, got: items.len() });
    }
    items.into_iter().map(operation).collect()
}

/// Applies the operations in order to a copy; returns it if all succeed.
pub fn apply(document: &Value, patch: &[Operation]) -> Result<Value, Refusal> {
    let mut patched = document.clone();
    let mut copied = 0;
    for operation in patch {
        step(&mut patched, operation, &mut copied).map_err(Refusal::DoesNotApply)?;
    }
    Ok(patched)
}

fn operation(item: Value) -> Result<Operation, Refusal> {
    let found = go_type(&item);
    let mut fields = match item {
        Value::Object(fields) => fields,
        Value::Null => return Ok(Operation::default()),
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err(Refusal::Undecodable(format!(
                "json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
            )));
        }
    };
    let mut text = |name: &str| match fields.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(Refusal::Undecodable(format!(
            "json: cannot unmarshal {} into Go struct field jsonPatchOp.{name} of type string",
            go_type(&other)
        ))),
    };
    let op = text("op")?.unwrap_or_default();
    let (path, from) = (text("path")?, text("from")?);
    Ok(Operation { op, path, from, value: fields.remove("value").unwrap_or_default() })
}

fn step(document: &mut Value, operation: &Operation, copied: &mut usize) -> Result<(), String> {
    let path = operation.path.as_deref().ok_or("the operation has no path")?;
    let source = || operation.from.as_deref().ok_or("the operation has no from");
    match operation.op.as_str() {
        "add" => add(document, path, operation.value.clone()),
        "remove" => remove(document, path).map(drop),
        "replace" => {
            fits(path, &operation.value)?;
            let (place, key) = locate(document, path)?;
            replace(place, &key, operation.value.clone())
        }
        "move" => {
            let moved = remove(document, source()?)?;
            add(document, path, moved)
        }
        "copy" => {
            let (place, key) = locate(document, source()?)?;
            let copy = read_key(place, &key)?.cloned().unwrap_or_default();
            *copied += copy.to_string().len();
            if *copied > COPIED_MAX {
                return Err(format!("the copies exceed {COPIED_MAX} bytes"));
            }
            add(document, path, copy)
        }
        "test" => {
            let (place, key) = locate(document, path)?;
            let found = read_key(place, &key)?.unwrap_or(&Value::Null);
            if *found == operation.value {
                return Ok(());
            }
            Err(format!("testing value {path} failed"))
        }
        other => Err(format!("unexpected kind of operation \"{other}\"")),
    }
}

/// The container of the last segment of a path, and that segment.
fn locate<'a>(document: &'a mut Value, path: &str) -> Result<(&'a mut Value, String), String> {
    let missing = || format!("the path \"{path}\" is not there");
    let mut segments = path.split('/').skip(1).map(unescape);
    let mut key = segments.next().ok_or_else(missing)?;
    let mut place = document;
    for next in segments {
        place = match place {
            Value::Object(fields) => fields.get_mut(&key),
            Value::Array(items) => index(&key, items.len()).and_then(|at| items.get_mut(at)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
        }
        .ok_or_else(missing)?;
        key = next;
    }
    if place.is_object() || place.is_array() { Ok((place, key)) } else { Err(missing()) }
}

fn read_key<'a>(place: &'a Value, key: &str) -> Result<Option<&'a Value>, String> {
    let Value::Array(items) = place else { return Ok(place.get(key)) };
    let found = index(key, items.len()).and_then(|at| items.get(at));
    found.map(Some).ok_or_else(|| outside(key))
}

fn add(document: &mut Value, path: &str, value: Value) -> Result<(), String> {
    fits(path, &value)?;
    let (place, key) = locate(document, path)?;
    match place {
        Value::Object(fields) => {
            fields.insert(key, value);
        }
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            let at = index(&key, items.len() + 1).ok_or_else(|| outside(&key))?;
            items.insert(at, value);
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

/// Refuses to nest deeper than an object may be: repeated copies could otherwise overflow the stack
/// of every recursion over the document.
fn fits(path: &str, value: &Value) -> Result<(), String> {
    let around = path.split('/').skip(1).count();
    match DEPTH_MAX.checked_sub(around) {
        Some(room) if !is_deeper(value, room) => Ok(()),
        Some(_) | None => Err(format!("the document would be deeper than {DEPTH_MAX} levels")),
    }
}

fn replace(place: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match place {
        Value::Object(fields) => {
            fields.insert(key.to_owned(), value);
        }
        Value::Array(items) => {
            let at = index(key, items.len()).ok_or_else(|| outside(key))?;
            if let Some(item) = items.get_mut(at) {
                *item = value;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str) -> Result<Value, String> {
    let (place, key) = locate(document, path)?;
    match place {
        Value::Object(fields) => fields.remove(&key),
        Value::Array(items) => index(&key, items.len()).map(|at| items.remove(at)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
    .ok_or_else(|| outside(&key))
}

/// The index of a segment in a list; a negative one counts from the end.
fn index(segment: &str, length: usize) -> Option<usize> {
    let number: i64 = segment.parse().ok()?;
    let length = i64::try_from(length).ok()?;
    let at = if number < 0 { number.checked_add(length)? } else { number };
    (at < length).then(|| usize::try_from(at).ok()).flatten()
}

fn outside(key: &str) -> String {
    format!("there is no \"{key}\" to work on")
}

fn unescape(segment: &str) -> String {
    segment.replace("~1", "/").replace("~0", "~")
}
