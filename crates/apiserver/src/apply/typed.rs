//! Operations on a value in its view: validate, list fields, compare, and remove fields.

use super::set::{Element, Path, Set, written};
use super::view::{ListKind, ListView, Scalar, View};
use crate::meta::field::quoted;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The difference of two values.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Comparison {
    /// Fields that only the second has.
    pub added: Set,
    /// Fields with different values.
    pub modified: Set,
    /// Fields that only the first has.
    pub removed: Set,
}

impl Comparison {
    /// Whether the values are equal.
    pub fn is_same(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }
}

/// The errors of a value against its view.
pub fn violations(value: &Value, view: &View) -> Vec<String> {
    let mut found = Vec::new();
    check(value, view, &mut Vec::new(), &mut found);
    found
}

/// The field set of a manager that applies this value.
pub fn field_set(value: &Value, view: &View) -> Set {
    let mut set = Set::default();
    collect(value, view, &mut Vec::new(), &mut set);
    set
}

/// The fields of a value with those that no manager can own: empty lists. Kubernetes omits them and
/// so loses a map that has nothing but such a list left.
pub(super) fn present_set(value: &Value, view: &View) -> Set {
    let mut set = field_set(value, view);
    empty_lists(value, view, &mut Vec::new(), &mut set);
    set
}

/// Compares two values.
pub fn compare(first: &Value, second: &Value, view: &View) -> Comparison {
    let mut found = Comparison::default();
    differ((Some(first), Some(second)), view, &mut Vec::new(), &mut found);
    found
}

/// Removes the members of a set from a value. A map or list that becomes empty is null.
pub fn without(value: &Value, gone: &Set, view: &View) -> Value {
    match parts(value, view) {
        Parts::Leaf => value.clone(),
        Parts::Map(fields) => {
            let mut kept = Map::new();
            for part in fields {
                let (Element::Field(name), false) = (&part.element, gone.has(&part.element)) else {
                    continue;
                };
                kept.insert(name.clone(), part.without(gone));
            }
            if kept.is_empty() && !gone.is_empty() { Value::Null } else { Value::Object(kept) }
        }
        Parts::List(items) => {
            let kept: Vec<Value> = items
                .iter()
                .filter(|part| !gone.has(&part.element))
                .map(|part| part.without(gone))
                .collect();
            if kept.is_empty() && !gone.is_empty() { Value::Null } else { Value::Array(kept) }
        }
    }
}

/// The element of a list item; its index where the view has no better identity.
pub(super) fn element_of(list: &ListView, item: &Value, index: usize) -> Element {
    named_element(list, item)
        .unwrap_or_else(|_| Element::Index(i64::try_from(index).unwrap_or(i64::MAX)))
}

/// A child value with its element and view.
struct Part<'v, 'd> {
    element: Element,
    value: &'d Value,
    view: &'v View,
}

impl Part<'_, '_> {
    fn without(&self, gone: &Set) -> Value {
        match gone.below(&self.element) {
            Some(gone) => without(self.value, gone, self.view),
            None => self.value.clone(),
        }
    }
}

/// The separately owned children of a value.
enum Parts<'v, 'd> {
    Leaf,
    Map(Vec<Part<'v, 'd>>),
    List(Vec<Part<'v, 'd>>),
}

static DEDUCED: View = View::Deduced;

fn parts<'v, 'd>(value: &'d Value, view: &'v View) -> Parts<'v, 'd> {
    match (view, value) {
        (View::Map(map), Value::Object(fields)) if !map.atomic => {
            let part = |(name, value): (&String, &'d Value)| {
                let known = map.fields.get(name).or(map.rest.as_deref()).unwrap_or(&DEDUCED);
                Part { element: Element::field(name), value, view: known }
            };
            Parts::Map(fields.iter().map(part).collect())
        }
        (View::Deduced, Value::Object(fields)) => {
            let part = |(name, value): (&String, &'d Value)| Part {
                element: Element::field(name),
                value,
                view,
            };
            Parts::Map(fields.iter().map(part).collect())
        }
        (View::List(list), Value::Array(items)) if list.kind != ListKind::Atomic => {
            let part = |(index, value): (usize, &'d Value)| Part {
                element: element_of(list, value, index),
                value,
                view: &list.item,
            };
            Parts::List(items.iter().enumerate().map(part).collect())
        }
        (View::Scalar(_) | View::Map(_) | View::List(_) | View::Deduced, _) => Parts::Leaf,
    }
}

fn check(value: &Value, view: &View, path: &mut Path, found: &mut Vec<String>) {
    match (view, value) {
        (_, Value::Null) | (View::Deduced, _) => {}
        (View::Scalar(scalar), _) => {
            if let Some(why) = mistyped(*scalar, value) {
                found.push(format!("{}: {why}", written(path)));
            }
        }
        (View::Map(map), Value::Object(fields)) => {
            for (name, child) in fields {
                path.push(Element::field(name));
                match map.fields.get(name).or(map.rest.as_deref()) {
                    Some(known) => check(child, known, path, found),
                    None => {
                        found.push(format!("{}: field not declared in schema", written(path)));
                    }
                }
                path.pop();
            }
        }
        (View::List(list), Value::Array(items)) => check_items(items, list, path, found),
        (View::Map(_), other) => {
            found.push(format!("{}: expected map, got &{{{}}}", written(path), go_text(other)));
        }
        (View::List(_), other) => {
            found.push(format!("{}: expected list, got &{{{}}}", written(path), go_text(other)));
        }
    }
}

/// Why a value is not such a scalar.
fn mistyped(scalar: Scalar, value: &Value) -> Option<String> {
    match (scalar, value) {
        (Scalar::Number, Value::Number(_))
        | (Scalar::Text, Value::String(_))
        | (Scalar::Flag, Value::Bool(_))
        | (Scalar::Any, _) => None,
        (Scalar::Number, _) => {
            Some(format!("expected numeric (int or float), got {}", go_type(value)))
        }
        (Scalar::Text, _) => {
            let value = go_syntax(value);
            Some(format!("expected string, got &value.valueUnstructured{{Value:{value}}}"))
        }
        (Scalar::Flag, _) => Some(format!("expected boolean, got &{{{}}}", go_text(value))),
    }
}

/// The type of a value, as Go calls it.
pub fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as Go source.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::String(text) => quoted(text),
        Value::Bool(_) | Value::Number(_) => go_text(value),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("{}{{{}}}", go_type(value), items.join(", "))
        }
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let pairs =
                sorted.iter().map(|(name, value)| format!("{}:{}", quoted(name), go_syntax(value)));
            format!("{}{{{}}}", go_type(value), pairs.collect::<Vec<_>>().join(", "))
        }
    }
}

/// A value as Go prints it.
pub fn go_text(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => text.clone(),
        Value::Bool(_) | Value::Number(_) => value.to_string(),
        Value::Array(items) => {
            format!("[{}]", items.iter().map(go_text).collect::<Vec<_>>().join(" "))
        }
        Value::Object(fields) => {
            let sorted: BTreeMap<&String, &Value> = fields.iter().collect();
            let pairs = sorted.iter().map(|(name, value)| format!("{name}:{}", go_text(value)));
            format!("map[{}]", pairs.collect::<Vec<_>>().join(" "))
        }
    }
}

fn check_items(items: &[Value], list: &ListView, path: &mut Path, found: &mut Vec<String>) {
    let mut seen = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        let place = Element::Index(i64::try_from(index).unwrap_or(i64::MAX));
        let element = match (&list.kind, named_element(list, item)) {
            (ListKind::Atomic, _) => place,
            (ListKind::Set | ListKind::Map(_), Ok(element)) => {
                if !seen.insert(element.clone()) {
                    let at = written(path);
                    found.push(format!("{at}: duplicate entries for key {element}"));
                }
                element
            }
            (ListKind::Set | ListKind::Map(_), Err(why)) => {
                path.push(place);
                found.push(format!("{}: element {index}: {why}", written(path)));
                path.pop();
                continue;
            }
        };
        path.push(element);
        check(item, &list.item, path, found);
        path.pop();
    }
}

fn named_element(list: &ListView, item: &Value) -> Result<Element, String> {
    match &list.kind {
        ListKind::Atomic => Err("the list is one value".to_owned()),
        ListKind::Set => match item {
            Value::Null => Err("associative list with values has an element that's explicitly \
                                null"
                .to_owned()),
            Value::Array(_) | Value::Object(_) => {
                Err("associative list with values has an element that's not a scalar".to_owned())
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(Element::Item(item.clone())),
        },
        ListKind::Map(keys) => {
            let Value::Object(fields) = item else {
                return Err("associative list with keys may not have non-map elements".to_owned());
            };
            let found: Vec<(String, Value)> = keys
                .iter()
                .filter_map(|(key, default)| {
                    let value = fields.get(key).or(default.as_ref())?;
                    Some((key.clone(), value.clone()))
                })
                .collect();
            if found.is_empty() {
                return Err("associative list with keys has an element that omits all key fields \
                            (and doesn't have default values for any key fields)"
                    .to_owned());
            }
            Ok(Element::key(found))
        }
    }
}

fn collect(value: &Value, view: &View, path: &mut Path, set: &mut Set) {
    match parts(value, view) {
        Parts::Leaf => set.insert(path),
        Parts::Map(fields) => {
            for part in fields {
                let own = match (&part.element, part.value) {
                    (_, Value::Null) => true,
                    (_, Value::Object(inner)) if inner.is_empty() => true,
                    (Element::Field(name), _) => !view.names(name),
                    (_, _) => true,
                };
                descend(&part, own, path, set);
            }
        }
        Parts::List(items) => {
            for part in items {
                descend(&part, true, path, set);
            }
        }
    }
}

fn empty_lists(value: &Value, view: &View, path: &mut Path, set: &mut Set) {
    let (Parts::Map(inner) | Parts::List(inner)) = parts(value, view) else { return };
    if inner.is_empty() {
        set.insert(path);
    }
    for part in inner {
        path.push(part.element);
        empty_lists(part.value, part.view, path, set);
        path.pop();
    }
}

fn descend(part: &Part<'_, '_>, own: bool, path: &mut Path, set: &mut Set) {
    path.push(part.element.clone());
    if own {
        set.insert(path);
    }
    collect(part.value, part.view, path, set);
    path.pop();
}

/// A value in two states; `None` where it is absent.
type Pair<'d> = (Option<&'d Value>, Option<&'d Value>);

fn differ(pair: Pair<'_>, view: &View, path: &mut Path, found: &mut Comparison) {
    let Some(pairs) = paired(pair, view) else {
        match pair {
            (None, Some(_)) => found.added.insert(path),
            (Some(_), None) => found.removed.insert(path),
            (Some(first), Some(second)) if first != second => {
                found.modified.insert(path);
                replaced((first, second), view, path, found);
            }
            (None, None) | (Some(_), Some(_)) => {}
        }
        return;
    };
    for (element, (inner, known)) in pairs {
        path.push(element);
        match inner {
            Inner::Pair(pair) => differ(pair, known, path, found),
            Inner::Doubled { same: false } => found.modified.insert(path),
            Inner::Doubled { same: true } => {}
        }
        path.pop();
    }
    match pair {
        (None, Some(_)) => found.added.insert(path),
        (Some(_), None) => found.removed.insert(path),
        (Some(_), Some(_)) | (None, None) => {}
    }
}

/// A map without a schema that becomes a scalar loses its fields; a scalar that becomes a map gets
/// them.
fn replaced(
    (first, second): (&Value, &Value),
    view: &View,
    path: &mut Path,
    found: &mut Comparison,
) {
    if *view != View::Deduced || first.is_object() == second.is_object() {
        return;
    }
    for (value, is_first) in [(first, true), (second, false)] {
        let Some(fields) = value.as_object() else { continue };
        for (name, child) in fields {
            path.push(Element::field(name));
            let pair = if is_first { (Some(child), None) } else { (None, Some(child)) };
            differ(pair, view, path, found);
            path.pop();
        }
    }
}

/// The values of one element in two states.
enum Inner<'d> {
    Pair(Pair<'d>),
    /// Duplicate items on one side are compared with those of the other as a whole.
    Doubled {
        same: bool,
    },
}

type Pairs<'v, 'd> = BTreeMap<Element, (Inner<'d>, &'v View)>;

/// The children of two values by element; `None` if the values are compared as a whole.
fn paired<'v, 'd>(pair: Pair<'d>, view: &'v View) -> Option<Pairs<'v, 'd>> {
    let side = |value: Option<&'d Value>| match value {
        None | Some(Value::Null) => Some(Vec::new()),
        Some(value) => match parts(value, view) {
            Parts::Leaf => None,
            Parts::Map(parts) | Parts::List(parts) => Some(parts),
        },
    };
    let (first, second) = (side(pair.0)?, side(pair.1)?);
    if first.is_empty() && second.is_empty() {
        return None;
    }
    let mut grouped: BTreeMap<Element, (Vec<&'d Value>, Vec<&'d Value>, &'v View)> =
        BTreeMap::new();
    for part in first {
        grouped
            .entry(part.element)
            .or_insert((Vec::new(), Vec::new(), part.view))
            .0
            .push(part.value);
    }
    for part in second {
        grouped
            .entry(part.element)
            .or_insert((Vec::new(), Vec::new(), part.view))
            .1
            .push(part.value);
    }
    let inner = |(element, (first, second, view)): (Element, (Vec<_>, Vec<_>, _))| {
        let inner = match (first.len(), second.len()) {
            (0, _) | (_, 0) | (1, 1) => {
                Inner::Pair((first.first().copied(), second.first().copied()))
            }
            _ => Inner::Doubled { same: first == second },
        };
        (element, (inner, view))
    };
    Some(grouped.into_iter().map(inner).collect())
}
