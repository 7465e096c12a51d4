//! How values are merged: atomic values, maps by field, and lists by item.

use super::set::Element;
use crate::schema::{Additional, JsonType, ListType, Schema};
use serde_json::Value;
use std::collections::BTreeMap;

/// How a value is merged.
#[derive(Debug, Clone, PartialEq)]
pub enum View {
    /// An atomic value.
    Scalar(Scalar),
    /// A map.
    Map(MapView),
    /// A list.
    List(ListView),
    /// Unknown: maps are owned by field, lists as a whole.
    Deduced,
}

/// What a scalar may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scalar {
    /// A number.
    Number,
    /// A string.
    Text,
    /// A boolean.
    Flag,
    /// Any of them; other values are refused when the object is decoded.
    Any,
}

/// The view of a map.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MapView {
    /// The named fields.
    pub fields: BTreeMap<String, View>,
    /// The view of all other fields; without it they are not allowed.
    pub rest: Option<Box<View>>,
    /// Whether it is atomic.
    pub atomic: bool,
}

/// The view of a list.
#[derive(Debug, Clone, PartialEq)]
pub struct ListView {
    /// The view of an item.
    pub item: Box<View>,
    /// How items are identified.
    pub kind: ListKind,
}

/// How the items of a list are identified.
#[derive(Debug, Clone, PartialEq)]
pub enum ListKind {
    /// The list is atomic.
    Atomic,
    /// By their value.
    Set,
    /// By these key fields, with the default of each.
    Map(Vec<(String, Option<Value>)>),
}

impl View {
    /// The view of a string.
    pub(super) const TEXT: Self = Self::Scalar(Scalar::Text);

    /// The view of the objects of a custom resource.
    pub fn of(schema: &Schema) -> Self {
        let mut fields = declared(schema);
        fields.insert("apiVersion".to_owned(), Self::TEXT);
        fields.insert("kind".to_owned(), Self::TEXT);
        fields.insert("metadata".to_owned(), super::builtin::metadata());
        let rest = open(schema).then(|| Box::new(Self::Deduced));
        Self::Map(MapView { fields, rest, atomic: false })
    }

    /// The view of an element; `None` if it is not allowed.
    pub fn step(&self, element: &Element) -> Option<&Self> {
        static DEDUCED: View = View::Deduced;
        match (self, element) {
            (Self::Map(map), Element::Field(name)) => map.fields.get(name).or(map.rest.as_deref()),
            (Self::List(list), Element::Key(_) | Element::Item(_) | Element::Index(_)) => {
                Some(&list.item)
            }
            (Self::Deduced, _) => Some(&DEDUCED),
            (Self::Scalar(_), _)
            | (Self::Map(_), Element::Key(_) | Element::Item(_) | Element::Index(_))
            | (Self::List(_), Element::Field(_)) => None,
        }
    }

    /// Whether it is a map that names this field.
    pub(super) fn names(&self, field: &str) -> bool {
        matches!(self, Self::Map(map) if map.fields.contains_key(field))
    }
}

fn view(schema: &Schema) -> View {
    match schema.kind {
        None if schema.int_or_string => View::Scalar(Scalar::Any),
        None => View::Deduced,
        Some(JsonType::Object) => object(schema),
        Some(JsonType::Array) => list(schema),
        Some(JsonType::String) => View::TEXT,
        Some(JsonType::Integer | JsonType::Number) => View::Scalar(Scalar::Number),
        Some(JsonType::Boolean) => View::Scalar(Scalar::Flag),
    }
}

fn object(schema: &Schema) -> View {
    let mut fields = declared(schema);
    if schema.embedded {
        fields.entry("apiVersion".to_owned()).or_insert(View::TEXT);
        fields.entry("kind".to_owned()).or_insert(View::TEXT);
        fields.entry("metadata".to_owned()).or_insert_with(super::builtin::metadata);
    }
    let rest = match &schema.additional {
        Additional::Schema(inner) => Some(Box::new(view(inner))),
        Additional::Any => Some(Box::new(View::Deduced)),
        Additional::None if open(schema) || fields.is_empty() => Some(Box::new(View::Deduced)),
        Additional::None => None,
    };
    View::Map(MapView { fields, rest, atomic: schema.atomic_map })
}

fn open(schema: &Schema) -> bool {
    schema.preserve_unknown
}

fn declared(schema: &Schema) -> BTreeMap<String, View> {
    schema.properties.iter().map(|(name, inner)| (name.clone(), view(inner))).collect()
}

fn list(schema: &Schema) -> View {
    let Some(items) = &schema.items else {
        return View::List(ListView { item: Box::new(View::Deduced), kind: ListKind::Atomic });
    };
    let kind = match &schema.list {
        ListType::Atomic => ListKind::Atomic,
        ListType::Set => ListKind::Set,
        ListType::Map(keys) => ListKind::Map(
            keys.iter()
                .map(|key| {
                    let default = items.properties.get(key).and_then(|key| key.default.clone());
                    (key.clone(), default)
                })
                .collect(),
        ),
    };
    View::List(ListView { item: Box::new(view(items)), kind })
}
