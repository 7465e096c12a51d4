//! Structural schemas: what a custom resource may look like, and how one is brought into shape.
//!
//! [`Schema::parse`] reads the `openAPIV3Schema` of a version. An object then goes through
//! [`metadata::coerce`], [`prune()`], [`default`] and [`Schema::validate`]. [`definition`] checks
//! the schema itself when its definition is created. Everything works on JSON values, without I/O.

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

/// How deep schemas and objects may be nested; what is deeper is refused or left alone.
pub const DEPTH_MAX: usize = 100;

/// How many bytes one pattern may take when it is ready to be matched.
const PATTERN_MAX: usize = 4 * 1024 * 1024;

/// A structural schema, ready to work with.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a flag of its own in a schema")]
pub struct Schema {
    /// The JSON type; none for nodes that take anything or an integer or text.
    pub kind: Option<JsonType>,
    /// Whether null is allowed.
    pub nullable: bool,
    /// What stands in for a missing value.
    pub default: Option<Value>,
    /// The named fields.
    pub properties: BTreeMap<String, Schema>,
    /// What fields without a name of their own may be.
    pub additional: Additional,
    /// What the items of a list are.
    pub items: Option<Box<Schema>>,
    /// Whether unknown fields are kept.
    pub preserve_unknown: bool,
    /// Whether it takes an integer or a text.
    pub int_or_string: bool,
    /// Whether it is a whole object with `apiVersion`, `kind` and `metadata`.
    pub embedded: bool,
    /// How lists are merged and which items count as the same.
    pub list: ListType,
    /// Whether a map is owned as a whole.
    pub atomic_map: bool,
    /// What values are refused.
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
    /// A text.
    String,
    /// A whole number.
    Integer,
    /// Any number.
    Number,
    /// True or false.
    Boolean,
}

/// What fields without a name of their own may be.
#[derive(Debug, Default)]
pub enum Additional {
    /// There may be none.
    #[default]
    None,
    /// They may be anything.
    Any,
    /// They follow a schema.
    Schema(Box<Schema>),
}

/// How a list is merged, and which of its items count as the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum ListType {
    /// It is one value.
    #[default]
    Atomic,
    /// Each value is there once.
    Set,
    /// Items are told apart by these fields.
    Map(Vec<String>),
}

/// What values are refused: the part of a schema that may also stand in `anyOf` and its kin.
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

/// A schema that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("cannot read the schema at \"{at}\": {why}")]
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

/// Whether lists and objects are nested deeper than that in a value, which may be so deep that no
/// recursion could tell.
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

/// Reads a pattern; one that would grow too large is none.
fn pattern(text: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(text).size_limit(PATTERN_MAX).build()
}

/// The items of another state of a list, by what tells them apart.
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

    /// The item that an item of this state corresponds to.
    fn of(&self, item: &Value) -> Option<&'a Value> {
        self.items.get(&identity(self.keys, item)).copied()
    }
}

fn identity<'a>(keys: &[String], item: &'a Value) -> Vec<Option<&'a Value>> {
    keys.iter().map(|key| item.get(key)).collect()
}

#[cfg(test)]
mod tests;
