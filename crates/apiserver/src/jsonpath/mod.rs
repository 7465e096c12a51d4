//! `JSONPath`, as far as printer columns, selectable fields and scale paths use it.
//!
//! Supported are fields (`.a`, `['a.b']`), indexes (`[0]`, `[-1]`), slices (`[0:2]`), wildcards
//! (`[*]`, `.*`), descendants (`..a`) and filters (`[?(@.type=="Ready")]`).

mod parse;
pub mod table;

use serde_json::{Map, Value};

/// The maximum number of matches.
const FOUND_MAX: usize = 10_000;

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

/// An invalid path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid path \"{path}\": {why}")]
pub struct Malformed {
    path: String,
    why: String,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    Range(Option<i64>, Option<i64>),
    All,
    Descendants(String),
    Filter(Filter),
}

#[derive(Debug, Clone, PartialEq)]
struct Filter {
    left: Operand,
    test: Option<(Test, Operand)>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(JsonPath),
    Literal(Value),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Test {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl JsonPath {
    /// Parses a path, with or without braces.
    pub fn parse(path: &str) -> Result<Self, Malformed> {
        parse::parse(path).map_err(|why| Malformed { path: path.to_owned(), why })
    }

    /// The first match.
    pub fn first<'a>(&self, document: &'a Value) -> Option<&'a Value> {
        self.all(document).first().copied()
    }

    /// All matches, in order.
    pub fn all<'a>(&self, document: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![document];
        for step in &self.steps {
            let mut next = Vec::new();
            for value in found {
                step.take(value, &mut next);
                next.truncate(FOUND_MAX);
            }
            found = next;
        }
        found
    }

    /// Whether it consists of field names only, so that it can be written to.
    pub fn is_simple(&self) -> bool {
        self.steps.iter().all(|step| matches!(step, Step::Field(_)))
    }

    /// Sets the value at a simple path, creating the maps on the way; false if that is impossible.
    pub fn put(&self, document: &mut Value, value: Value) -> bool {
        let mut place = document;
        for step in &self.steps {
            let Step::Field(name) = step else { return false };
            if place.is_null() {
                *place = Value::Object(Map::new());
            }
            let Value::Object(fields) = place else { return false };
            place = fields.entry(name.clone()).or_insert(Value::Null);
        }
        *place = value;
        true
    }
}

impl Step {
    fn take<'a>(&self, value: &'a Value, found: &mut Vec<&'a Value>) {
        match (self, value) {
            (Self::Field(name), Value::Object(fields)) => found.extend(fields.get(name)),
            (Self::Index(index), Value::Array(items)) => {
                found.extend(place(*index, items.len()).and_then(|at| items.get(at)));
            }
            (Self::Range(from, to), Value::Array(items)) => {
                let start = bound(from.unwrap_or(0), items.len());
                let end = to.map_or(items.len(), |to| bound(to, items.len()));
                found.extend(items.get(start..end).into_iter().flatten());
            }
            (Self::All, Value::Array(items)) => found.extend(items),
            (Self::All, Value::Object(fields)) => found.extend(fields.values()),
            (Self::Descendants(name), _) => descend(value, name, found),
            (Self::Filter(filter), Value::Array(items)) => {
                found.extend(items.iter().filter(|item| filter.holds(item)));
            }
            (
                Self::Field(_) | Self::Index(_) | Self::Range(..) | Self::All | Self::Filter(_),
                _,
            ) => {}
        }
    }
}

impl Filter {
    fn holds(&self, item: &Value) -> bool {
        let left = self.left.value(item);
        let Some((test, right)) = &self.test else { return left.is_some() };
        let (Some(left), Some(right)) = (left, right.value(item)) else { return false };
        let order = match (left, right) {
            (Value::Number(left), Value::Number(right)) => {
                left.as_f64().partial_cmp(&right.as_f64())
            }
            (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
            (Value::Bool(left), Value::Bool(right)) => Some(left.cmp(right)),
            (_, _) => None,
        };
        match test {
            Test::Equal => left == right || order.is_some_and(std::cmp::Ordering::is_eq),
            Test::NotEqual => left != right && !order.is_some_and(std::cmp::Ordering::is_eq),
            Test::Less => order.is_some_and(std::cmp::Ordering::is_lt),
            Test::LessOrEqual => order.is_some_and(std::cmp::Ordering::is_le),
            Test::Greater => order.is_some_and(std::cmp::Ordering::is_gt),
            Test::GreaterOrEqual => order.is_some_and(std::cmp::Ordering::is_ge),
        }
    }
}

impl Operand {
    fn value<'a>(&'a self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Path(path) => path.first(item),
            Self::Literal(value) => Some(value),
        }
    }
}

fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if index < 0 { index.checked_add(length)? } else { index };
    usize::try_from(at).ok()
}

fn bound(index: i64, length: usize) -> usize {
    place(index, length).unwrap_or(0).min(length)
}

fn descend<'a>(value: &'a Value, name: &str, found: &mut Vec<&'a Value>) {
    if found.len() >= FOUND_MAX {
        return;
    }
    match value {
        Value::Object(fields) => {
            found.extend(fields.get(name));
            fields.values().for_each(|inner| descend(inner, name, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| descend(inner, name, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests;
