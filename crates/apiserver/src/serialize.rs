//! Serialization of objects.

use bytes::Bytes;
use serde_json::{Map, Value};

use crate::kinds::group_version;

/// The key of the revision in the metadata.
const VERSION: &str = "resourceVersion";

/// An object as JSON whose revision has no digits yet.
#[derive(Debug)]
pub(crate) struct Stamped {
    pub(crate) json: Vec<u8>,
    /// Where the digits belong; `None` without metadata.
    pub(crate) at: Option<usize>,
}

/// Serializes an object: built-in kinds start with `kind`, custom ones are sorted.
pub(crate) fn write_object(value: &Value) -> Bytes {
    let Some(map) = value.as_object() else { return Bytes::from(value.to_string()) };
    let mut out = vec![b'{'];
    for (key, value) in ordered(map) {
        write_key(&mut out, key);
        write_json(&mut out, value);
    }
    out.push(b'}');
    Bytes::from(out)
}

/// Serializes an object as [`write_object`] does, with an empty revision in its metadata.
pub(crate) fn write_stamped(value: &Value) -> Stamped {
    let mut stamped = Stamped { json: vec![b'{'], at: None };
    for (key, value) in value.as_object().map(ordered).into_iter().flatten() {
        write_key(&mut stamped.json, key);
        match value.as_object().filter(|_| key == "metadata") {
            Some(metadata) => write_metadata(&mut stamped, metadata),
            None => write_json(&mut stamped.json, value),
        }
    }
    stamped.json.push(b'}');
    stamped
}

fn write_metadata(stamped: &mut Stamped, metadata: &Map<String, Value>) {
    let out = &mut stamped.json;
    out.push(b'{');
    let mut revision = |out: &mut Vec<u8>| {
        write_key(out, VERSION);
        out.extend_from_slice(b"\"\"");
        stamped.at = Some(out.len() - 1);
    };
    let mut is_due = true;
    for (key, value) in metadata {
        if is_due && key.as_str() >= VERSION {
            revision(out);
            is_due = false;
        }
        if key != VERSION {
            write_key(out, key);
            write_json(out, value);
        }
    }
    if is_due {
        revision(out);
    }
    out.push(b'}');
}

/// The fields in the order in which they are written.
fn ordered(map: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    const FIRST: [&str; 3] = ["kind", "apiVersion", "metadata"];
    let first: &[&str] = if starts_with_kind(map) { &FIRST } else { &[] };
    let rest = map.iter().filter(move |(key, _)| !first.contains(&key.as_str()));
    first.iter().filter_map(|key| map.get_key_value(*key)).chain(rest)
}

fn starts_with_kind(map: &Map<String, Value>) -> bool {
    let api_version = map.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let (group, _) = group_version(api_version);
    group.is_empty() || group.ends_with(".k8s.io")
}

fn write_key(out: &mut Vec<u8>, key: &str) {
    if !out.ends_with(b"{") {
        out.push(b',');
    }
    write_json(out, key);
    out.push(b':');
}

fn write_json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Writing JSON values into memory does not fail.
    let _ = serde_json::to_writer(out, value);
}
