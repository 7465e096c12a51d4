//! Structural schemas: pruning, defaulting and validation of custom resources.
//!
//! [`Schema::parse`] compiles the `openAPIV3Schema` of a version. An object passes
//! [`metadata::coerce`], [`prune()`], [`default`] and [`Schema::validate`]. [`definition`]
//! validates
//! the schema itself when a CRD is created. All functions work on JSON values, without I/O.

pub mod decode;
pub mod default;
pub mod definition;
mod format;
mod junctor;
mod lists;
pub mod metadata;
mod parse;
mod prune;
mod rules;
mod validate;

pub use prune::prune;

use regex::{Regex, RegexBuilder};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};

/// The maximum nesting depth of schemas and objects.
pub const DEPTH_MAX: usize = 100;

/// The maximum size of a compiled pattern.
const PATTERN_MAX: usize = 4 * 1024 * 1024;

/// A compiled structural schema.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own in a schema")]
pub struct Schema {
    /// The JSON type; `None` for any type and for int-or-string.
    pub kind: Option<JsonType>,
    /// Whether null is allowed.
    pub nullable: bool,
    /// The default.
    pub default: Option<Value>,
    /// The named fields.
    pub properties: BTreeMap<String, Schema>,
    /// The schema of additional properties.
    pub additional: Additional,
    /// The schema of list items.
    pub items: Option<Box<Schema>>,
    /// Whether unknown fields are preserved.
    pub preserve_unknown: bool,
    /// Whether it is int-or-string.
    pub int_or_string: bool,
    /// Whether it is an embedded object with `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// How lists are merged.
    pub list: ListType,
    /// Whether a map is atomic.
    pub atomic_map: bool,
    /// The validation keywords.
    checks: Checks,
    rules: Option<rules::Rules>,
    has_rules: bool,
}

/// A JSON type, as schemas name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonType {
    /// A map.
    Object,
    /// A list.
    Array,
    /// A string.
    String,
    /// An integer.
    Integer,
    /// Any number.
    Number,
    /// A boolean.
    Boolean,
}

/// The schema of additional properties.
#[derive(Debug, Default)]
pub enum Additional {
    /// Not allowed.
    #[default]
    None,
    /// Any value.
    Any,
    /// Values of a schema.
    Schema(Box<Schema>),
}

/// How a list is merged.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// The list is atomic.
    #[default]
    Atomic,
    /// A set.
    Set,
    /// A map with these key fields.
    Map(Vec<String>),
}

/// The validation keywords, which are also allowed in `anyOf` and the like.
#[derive(Debug, Default)]
struct Checks {
    format: Option<String>,
    pattern: Option<(String, Option<Regex>)>,
    choices: Vec<Value>,
    length: (Option<u64>, Option<u64>),
    items: (Option<u64>, Option<u64>),
    properties: (Option<u64>, Option<u64>),
    minimum: Option<Bound>,
    maximum: Option<Bound>,
    multiple_of: Option<f64>,
    required: Vec<String>,
    all_of: Vec<Schema>,
    any_of: Vec<Schema>,
    one_of: Vec<Schema>,
    not: Option<Box<Schema>>,
}

#[derive(Debug, Clone, Copy)]
struct Bound {
    value: f64,
    exclusive: bool,
}

/// An invalid schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid schema at \"{at}\": {why}")]
pub struct Unreadable {
    /// Where in the schema.
    pub at: String,
    /// What is wrong there.
    pub why: String,
}

impl JsonType {
    /// The name in a schema.
    pub fn name(self) -> &'static str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
        }
    }

    /// The type of that name.
    pub fn of(name: &str) -> Option<Self> {
        [Self::Object, Self::Array, Self::String, Self::Integer, Self::Number, Self::Boolean]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

impl Schema {
    /// The schema of a field, named or not.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        match (self.properties.get(name), &self.additional) {
            (Some(named), _) => Some(named),
            (None, Additional::Schema(schema)) => Some(schema),
            (None, Additional::None | Additional::Any) => None,
        }
    }
}

/// Whether a value is nested deeper than `most`; iterative, because recursion could overflow the
/// stack.
pub fn is_deeper(value: &Value, most: usize) -> bool {
    let mut waiting = vec![(value, 0)];
    while let Some((value, around)) = waiting.pop() {
        let inside: Vec<&Value> = match value {
            Value::Array(items) => items.iter().collect(),
            Value::Object(fields) => fields.values().collect(),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => continue,
        };
        if around >= most {
            return true;
        }
        waiting.extend(inside.into_iter().map(|value| (value, around + 1)));
    }
    false
}

/// Compiles a pattern of limited size.
fn pattern(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(PATTERN_MAX).build()
}

/// The items of the old list, by identity.
struct Counterparts<'a> {
    keys: &'a [String],
    items: HashMap<Vec<Option<&'a Value>>, &'a Value>,
}

impl<'a> Counterparts<'a> {
    fn new(list: &'a ListType, old: Option<&'a [Value]>) -> Self {
        let (keys, old): (&[String], &[Value]) = match list {
            ListType::Map(keys) => (keys, old.unwrap_or_default()),
            ListType::Atomic | ListType::Set => (&[], &[]),
        };
        let mut items = HashMap::with_capacity(old.len());
        for item in old {
            items.entry(identity(keys, item)).or_insert(item);
        }
        Self { keys, items }
    }

    /// The old item with the identity of this one.
    fn of(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&identity(self.keys, item)).copied()
    }
}

fn identity<'a>(keys: &[String], item: &'a Value) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(key)).collect()
}

#[cfg(test)]
mod tests;
