//! An object in memory: its JSON, parsed when it is used.

use std::borrow::Cow;
use std::fmt;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::{Map, Value, json};

use crate::core::{has_entries, is_consulted};
use crate::serialize::{Stamped, write_object, write_stamped};

/// An object at a revision.
///
/// A parsed object takes several times the memory of its JSON, so only the JSON is kept: responses
/// and the file take it as it is. The kinds that requests consult are few and stay parsed.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The revision that wrote it.
    pub(crate) revision: u64,
    json: Bytes,
    /// Where the digits of the revision begin in the JSON, if it has any.
    stamped_at: Option<u32>,
    is_deleting: bool,
    has_owners: bool,
    parsed: Option<Box<Value>>,
}

/// An object that waits for its revision, so that it is serialized without a lock.
#[derive(Debug)]
pub(crate) struct Draft {
    json: Vec<u8>,
    stamped_at: Option<u32>,
    is_deleting: bool,
    has_owners: bool,
    parsed: Option<Box<Value>>,
}

impl Entry {
    /// An object of a response, which is not stored.
    pub(crate) fn transient(revision: u64, value: Value) -> Self {
        Self {
            revision,
            json: write_object(&value),
            stamped_at: None,
            is_deleting: is_deleting(&value),
            has_owners: has_owners(&value),
            parsed: Some(Box::new(value)),
        }
    }

    /// The object as JSON.
    pub(crate) fn json(&self) -> Bytes {
        self.json.clone()
    }

    /// The size of the JSON.
    pub(crate) fn size(&self) -> usize {
        self.json.len()
    }

    /// The object.
    pub(crate) fn value(&self) -> Cow<'_, Value> {
        match &self.parsed {
            Some(value) => Cow::Borrowed(value),
            None => Cow::Owned(serde_json::from_slice(&self.json).unwrap_or_default()),
        }
    }

    /// The object with nothing but its metadata, without the managed fields.
    pub(crate) fn head(&self) -> Cow<'_, Value> {
        if let Some(value) = &self.parsed {
            return Cow::Borrowed(value);
        }
        let head: Head = serde_json::from_slice(&self.json).unwrap_or_default();
        Cow::Owned(json!({"metadata": head.metadata.0}))
    }

    /// The object with nothing but its metadata.
    pub(crate) fn metadata(&self) -> Cow<'_, Value> {
        if let Some(value) = &self.parsed {
            return Cow::Borrowed(value);
        }
        let part: MetadataOnly = serde_json::from_slice(&self.json).unwrap_or_default();
        Cow::Owned(json!({"metadata": part.metadata}))
    }

    /// Whether it has a deletion timestamp.
    pub(crate) fn is_deleting(&self) -> bool {
        self.is_deleting
    }

    /// Whether it has owner references.
    pub(crate) fn has_owners(&self) -> bool {
        self.has_owners
    }

    /// The same object with another revision in its metadata.
    pub(crate) fn restamped(&self, revision: u64) -> Self {
        let Some(at) = self.stamped_at else {
            return Draft::new("", self.value().into_owned()).stamped(revision);
        };
        let at = at as usize;
        let digits = self.json[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = revision.to_string();
        let parts = [&self.json[..at], text.as_bytes(), &self.json[at + digits..]];
        let parsed = self.parsed.clone().map(|mut value| {
            stamp(&mut value, revision);
            value
        });
        Self {
            revision,
            json: Bytes::from(parts.concat()),
            stamped_at: self.stamped_at,
            is_deleting: self.is_deleting,
            has_owners: self.has_owners,
            parsed,
        }
    }
}

impl Draft {
    /// Serializes an object of a table.
    pub(crate) fn new(table: &str, value: Value) -> Self {
        let Stamped { json, at } = write_stamped(&value);
        Self {
            json,
            stamped_at: at.and_then(|at| u32::try_from(at).ok()),
            is_deleting: is_deleting(&value),
            has_owners: has_owners(&value),
            parsed: is_consulted(table).then(|| Box::new(value)),
        }
    }

    /// The object at its revision.
    pub(crate) fn stamped(self, revision: u64) -> Entry {
        let Self { json, stamped_at, is_deleting, has_owners, mut parsed } = self;
        let json = match stamped_at {
            None => Bytes::copy_from_slice(&json),
            Some(at) => {
                let (before, after) = json.split_at(at as usize);
                Bytes::from([before, revision.to_string().as_bytes(), after].concat())
            }
        };
        if let Some(value) = &mut parsed {
            stamp(value, revision);
        }
        Entry { revision, json, stamped_at, is_deleting, has_owners, parsed }
    }
}

/// Writes the revision into the object's metadata.
fn stamp(value: &mut Value, revision: u64) {
    if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.insert("resourceVersion".to_owned(), Value::String(revision.to_string()));
    }
}

fn is_deleting(value: &Value) -> bool {
    value.pointer("/metadata/deletionTimestamp").is_some()
}

fn has_owners(value: &Value) -> bool {
    has_entries(value, "/metadata/ownerReferences")
}

/// The metadata of an object; everything else is skipped.
#[derive(Default, Deserialize)]
struct MetadataOnly {
    #[serde(default)]
    metadata: Value,
}

/// The metadata without the managed fields, which are the most of a small object.
#[derive(Default, Deserialize)]
struct Head {
    #[serde(default)]
    metadata: HeadFields,
}

#[derive(Default)]
struct HeadFields(Map<String, Value>);

impl<'de> Deserialize<'de> for HeadFields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = HeadFields;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("metadata")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<HeadFields, A::Error> {
                let mut fields = Map::new();
                while let Some(key) = map.next_key::<String>()? {
                    if key == "managedFields" {
                        map.next_value::<IgnoredAny>()?;
                    } else {
                        fields.insert(key, map.next_value()?);
                    }
                }
                Ok(HeadFields(fields))
            }
        }
        deserializer.deserialize_map(Fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(value: Value) -> Entry {
        Draft::new("things", value).stamped(7)
    }

    fn thing() -> Value {
        json!({
            "apiVersion": "e.example/v1", "kind": "Thing", "data": {"resourceVersion": "1"},
            "metadata": {
                "annotations": {"resourceVersion": "2"}, "labels": {"a": "b"},
                "managedFields": [{"manager": "m"}], "name": "n", "uid": "u",
            },
        })
    }

    /// Red by: a revision written elsewhere than into the metadata, or kept in two places.
    // Requirement: AK-96
    #[test]
    fn the_revision_is_written_into_the_metadata_alone() {
        for before in [None, Some("3")] {
            let mut value = thing();
            if let Some(before) = before {
                value["metadata"]["resourceVersion"] = json!(before);
            }
            let entry = stored(value);
            let later = entry.restamped(12_345);
            for (entry, revision) in [(entry, 7), (later, 12_345)] {
                let mut wanted = thing();
                wanted["metadata"]["resourceVersion"] = json!(revision.to_string());
                assert_eq!(entry.revision, revision);
                assert_eq!(*entry.value(), wanted);
                assert_eq!(entry.json(), write_object(&wanted));
            }
        }
    }

    // Requirement: AK-96
    #[test]
    fn an_object_without_metadata_has_no_revision_in_it() {
        let entry = stored(json!({"kind": "Thing"}));
        assert_eq!(*entry.value(), json!({"kind": "Thing"}));
        assert_eq!(entry.restamped(9).revision, 9);
    }

    // Requirement: AK-96
    #[test]
    fn parts_are_read_without_the_rest() {
        let entry = stored(thing());
        let mut wanted = thing()["metadata"].clone();
        wanted["resourceVersion"] = json!("7");
        assert_eq!(*entry.metadata(), json!({"metadata": wanted}));
        wanted.as_object_mut().map(|map| map.remove("managedFields"));
        assert_eq!(*entry.head(), json!({"metadata": wanted}));
        let bare = stored(json!({"metadata": null}));
        assert_eq!(bare.head()["metadata"]["name"], Value::Null);
    }

    /// Red by: a parser that misses the last bit of a fraction.
    // Requirement: AK-96
    #[test]
    fn a_number_that_parsing_would_change_is_kept() {
        let numbers = (1..2000).map(|it| Value::from(f64::from(it) / 7.0 * 1e-300));
        for number in numbers {
            let value = json!({"metadata": {}, "spec": [{"n": number}, 1.5, 3]});
            assert_eq!(stored(value.clone()).value()["spec"], value["spec"]);
        }
    }
}
