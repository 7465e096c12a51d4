//! A JSON parser that reports duplicate keys and converts floats without a fraction to integers.

use super::prune::joined;
use serde::de::{Deserialize as _, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;

/// A document and its duplicate fields; the last of each wins.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The document.
    pub value: Value,
    /// The paths of duplicate fields, in order.
    pub duplicates: Vec<String>,
}

/// Parses a document.
pub fn decode(body: &[u8]) -> Result<Decoded, serde_json::Error> {
    let duplicates = RefCell::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Reader { at: String::new(), duplicates: &duplicates }.deserialize(&mut reader)?;
    reader.end()?;
    Ok(Decoded { value, duplicates: duplicates.into_inner().paths })
}

/// Converts floats without a fraction to integers, as every response does.
pub fn normalise(value: &mut Value) {
    match value {
        Value::Number(number) => {
            if let Some(whole) = number.as_f64().filter(|_| number.is_f64()).and_then(whole) {
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(normalise),
        Value::Object(fields) => fields.values_mut().for_each(normalise),
        Value::Null | Value::Bool(_) | Value::String(_) => {}
    }
}

/// The largest integer that a float represents exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn whole(number: f64) -> Option<i64> {
    if number.fract() != 0.0 || number.abs() > EXACT {
        return None;
    }
    format!("{number:.0}").parse().ok()
}

struct Reader<'a> {
    at: String,
    duplicates: &'a RefCell<Doubled>,
}

/// Unique paths, in order.
#[derive(Default)]
struct Doubled {
    paths: Vec<String>,
    seen: HashSet<String>,
}

impl Doubled {
    fn add(&mut self, path: &str) {
        if self.seen.insert(path.to_owned()) {
            self.paths.push(path.to_owned());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Reader<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Reader<'_> {
    type Value = Value;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(whole(value).map_or_else(|| Value::from(value), Value::from))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        Value::deserialize(reader)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        loop {
            let at = format!("{}[{}]", self.at, items.len());
            let next = Reader { at, duplicates: self.duplicates };
            match list.next_element_seed(next)? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            let at = joined(&self.at, &name);
            if fields.contains_key(&name) {
                self.duplicates.borrow_mut().add(&at);
            }
            let value = map.next_value_seed(Reader { at, duplicates: self.duplicates })?;
            fields.insert(name, value);
        }
        Ok(Value::Object(fields))
    }
}
