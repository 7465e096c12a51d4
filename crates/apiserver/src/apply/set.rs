//! Field sets, as a tree, and their format in `fieldsV1`.

use serde_json::{Map, Value};
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fmt::Write as _;

/// The maximum depth of a set.
const DEPTH_MAX: usize = 128;

/// One element of a path.
#[derive(Debug, Clone)]
pub enum Element {
    /// A field of a map.
    Field(String),
    /// A list item identified by key fields; sorted by name.
    Key(Vec<(String, Value)>),
    /// A list item identified by its value.
    Item(Value),
    /// A list item identified by its index.
    Index(i64),
}

/// A path from the root of an object.
pub type Path = Vec<Element>;

/// A set of paths.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Set {
    members: BTreeSet<Element>,
    children: BTreeMap<Element, Set>,
}

/// An invalid field set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid field set: {0}")]
pub struct Unreadable(String);

impl Set {
    /// Parses `fieldsV1`.
    pub fn parse(fields: &Value) -> Result<Self, Unreadable> {
        read(fields, 0)
    }

    /// Formats as `fieldsV1`, with sorted keys.
    pub fn to_value(&self) -> Value {
        let mut out = Map::new();
        for element in &self.members {
            out.insert(element.written(), Value::Object(Map::new()));
        }
        for (element, below) in &self.children {
            let mut inner = below.to_value();
            if let (true, Value::Object(inner)) = (self.members.contains(element), &mut inner) {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            out.insert(element.written(), inner);
        }
        Value::Object(out)
    }

    /// Adds a path; the root itself is never a member.
    pub fn insert(&mut self, path: &[Element]) {
        match path {
            [] => {}
            [last] => {
                self.members.insert(last.clone());
            }
            [first, rest @ ..] => self.children.entry(first.clone()).or_default().insert(rest),
        }
    }

    /// Whether an element at the root is a member.
    pub fn has(&self, element: &Element) -> bool {
        self.members.contains(element)
    }

    /// Whether a path is a member.
    pub fn has_path(&self, path: &[Element]) -> bool {
        match path {
            [] => false,
            [last] => self.has(last),
            [first, rest @ ..] => self.below(first).is_some_and(|set| set.has_path(rest)),
        }
    }

    /// The members below an element, if any.
    pub fn below(&self, element: &Element) -> Option<&Set> {
        self.children.get(element)
    }

    /// Whether it has no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty() && self.children.is_empty()
    }

    /// The union of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        let mut made = self.clone();
        made.members.extend(other.members.iter().cloned());
        for (element, set) in &other.children {
            let slot = made.children.entry(element.clone()).or_default();
            *slot = slot.union(set);
        }
        made
    }

    /// The intersection of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        self.filtered(
            |element| other.members.contains(element),
            |element, set| other.children.get(element).map(|other| set.intersection(other)),
        )
    }

    /// This set without the paths of the other; paths below those stay.
    #[must_use]
    pub fn difference(&self, other: &Self) -> Self {
        self.filtered(
            |element| !other.members.contains(element),
            |element, set| match other.children.get(element) {
                Some(other) => Some(set.difference(other)),
                None => Some(set.clone()),
            },
        )
    }

    /// The elements at the root that are members or have members below.
    pub fn elements(&self) -> impl Iterator<Item = &Element> {
        let below = self.children.keys().filter(|element| !self.members.contains(element));
        self.members.iter().chain(below)
    }

    /// Every path, in order.
    pub fn paths(&self) -> Vec<Path> {
        let mut found = Vec::new();
        self.collect(&mut Vec::new(), &mut found);
        found
    }

    /// Every path, the members of a level before those of the levels below.
    pub fn members_first(&self) -> Vec<Path> {
        let own = self.members.iter().map(|element| vec![element.clone()]);
        let mut found: Vec<Path> = own.collect();
        for (element, below) in &self.children {
            for mut path in below.members_first() {
                path.insert(0, element.clone());
                found.push(path);
            }
        }
        found
    }

    /// The same set, in which a named field that has members below it is a member too.
    #[must_use]
    pub(super) fn with_named(&self, view: &super::View) -> Self {
        let mut made = self.clone();
        for (element, below) in &self.children {
            if let Element::Field(name) = element
                && view.names(name)
            {
                made.members.insert(element.clone());
            }
            let below = match view.step(element) {
                Some(view) => below.with_named(view),
                None => below.clone(),
            };
            made.children.insert(element.clone(), below);
        }
        made
    }

    fn collect(&self, at: &mut Path, found: &mut Vec<Path>) {
        let all: BTreeSet<&Element> = self.elements().collect();
        for element in all {
            at.push(element.clone());
            if self.members.contains(element) {
                found.push(at.clone());
            }
            if let Some(set) = self.children.get(element) {
                set.collect(at, found);
            }
            at.pop();
        }
    }

    fn filtered(
        &self,
        keep: impl Fn(&Element) -> bool,
        descend: impl Fn(&Element, &Self) -> Option<Self>,
    ) -> Self {
        let children = self.children.iter().filter_map(|(element, set)| {
            let below = descend(element, set).filter(|set| !set.is_empty())?;
            Some((element.clone(), below))
        });
        Self {
            members: self.members.iter().filter(|element| keep(element)).cloned().collect(),
            children: children.collect(),
        }
    }
}

fn read(fields: &Value, depth: usize) -> Result<Set, Unreadable> {
    let Value::Object(fields) = fields else {
        return Err(Unreadable(format!("\"{fields}\" is not an object")));
    };
    if depth > DEPTH_MAX {
        return Err(Unreadable("it is nested too deeply".to_owned()));
    }
    let mut made = Set::default();
    for (key, inner) in fields {
        let Some(element) = Element::parse(key)? else { continue };
        let below = read(inner, depth + 1)?;
        let own = inner.get(".").is_some() || inner.as_object().is_none_or(Map::is_empty);
        if own {
            made.members.insert(element.clone());
        }
        if !below.is_empty() {
            made.children.insert(element, below);
        }
    }
    Ok(made)
}

impl Element {
    /// The element of a field.
    pub fn field(name: &str) -> Self {
        Self::Field(name.to_owned())
    }

    /// Parses a key of `fieldsV1`; `None` for `.` and for unknown prefixes.
    fn parse(key: &str) -> Result<Option<Self>, Unreadable> {
        if key == "." {
            return Ok(None);
        }
        let Some((kind, rest)) = key.split_once(':') else {
            return Err(Unreadable(format!("\"{key}\" is not the key of a field")));
        };
        let json = || {
            serde_json::from_str::<Value>(rest)
                .map_err(|error| Unreadable(format!("\"{key}\" is not JSON: {error}")))
        };
        Ok(match kind {
            "f" => Some(Self::field(rest)),
            "v" => Some(Self::Item(json()?)),
            "k" => {
                let Value::Object(fields) = json()? else {
                    return Err(Unreadable(format!("\"{key}\" has no fields")));
                };
                Some(Self::key(fields))
            }
            "i" => Some(Self::Index(
                rest.parse().map_err(|_| Unreadable(format!("\"{key}\" is not an index")))?,
            )),
            _ => None,
        })
    }

    /// The element of the item with these key fields.
    pub fn key(fields: impl IntoIterator<Item = (String, Value)>) -> Self {
        let mut fields: Vec<(String, Value)> = fields.into_iter().collect();
        fields.sort_by(|one, other| one.0.cmp(&other.0));
        Self::Key(fields)
    }

    fn written(&self) -> String {
        match self {
            Self::Field(name) => format!("f:{name}"),
            Self::Key(fields) => {
                let mut out = "k:{".to_owned();
                for (index, (name, value)) in fields.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    let _ = write!(out, "{comma}{}:{value}", Value::from(name.as_str()));
                }
                out + "}"
            }
            Self::Item(value) => format!("v:{value}"),
            Self::Index(index) => format!("i:{index}"),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Field(_) => 0,
            Self::Key(_) => 1,
            Self::Item(_) => 2,
            Self::Index(_) => 3,
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(name) => write!(out, ".{name}"),
            Self::Key(fields) => {
                let parts: Vec<String> =
                    fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
                write!(out, "[{}]", parts.join(","))
            }
            Self::Item(value) => write!(out, "[={value}]"),
            Self::Index(index) => write!(out, "[{index}]"),
        }
    }
}

/// A path as printed in messages: `.spec.ports[port=80].name`.
pub fn written(path: &[Element]) -> String {
    path.iter().map(ToString::to_string).collect()
}

impl PartialEq for Element {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Element {}

impl PartialOrd for Element {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Element {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Field(one), Self::Field(other)) => one.cmp(other),
            (Self::Index(one), Self::Index(other)) => one.cmp(other),
            (Self::Item(one), Self::Item(other)) => compare(one, other),
            (Self::Key(one), Self::Key(other)) => one
                .iter()
                .zip(other)
                .map(|(one, other)| one.0.cmp(&other.0).then_with(|| compare(&one.1, &other.1)))
                .find(|order| *order != Ordering::Equal)
                .unwrap_or_else(|| one.len().cmp(&other.len())),
            (one, other) => one.rank().cmp(&other.rank()),
        }
    }
}

/// A total order of values, in which equal numbers of different types are equal.
fn compare(one: &Value, other: &Value) -> Ordering {
    match (one, other) {
        (Value::Number(first), Value::Number(second)) => match (first.as_i64(), second.as_i64()) {
            (Some(first), Some(second)) => first.cmp(&second),
            (_, _) => {
                first.as_f64().unwrap_or_default().total_cmp(&second.as_f64().unwrap_or_default())
            }
        },
        (Value::String(one), Value::String(other)) => one.cmp(other),
        (Value::Bool(one), Value::Bool(other)) => one.cmp(other),
        (one, other) => kind_rank(one)
            .cmp(&kind_rank(other))
            .then_with(|| one.to_string().cmp(&other.to_string())),
    }
}

fn kind_rank(value: &Value) -> u8 {
    match value {
        Value::Number(_) => 0,
        Value::String(_) => 1,
        Value::Bool(_) => 2,
        Value::Array(_) => 3,
        Value::Object(_) => 4,
        Value::Null => 5,
    }
}
