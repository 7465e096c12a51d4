//! Merges an applied configuration into an object.

use super::set::Element;
use super::typed::element_of;
use super::view::{ListKind, ListView, View};
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Merges `config` into `live`: fields of the configuration win, all others stay.
pub(super) fn merge(live: &Value, config: &Value, view: &View) -> Value {
    static DEDUCED: View = View::Deduced;
    match (view, live, config) {
        (View::Map(map), Value::Object(first), Value::Object(second)) if !map.atomic => {
            fields(first, second, |name| {
                map.fields.get(name).or(map.rest.as_deref()).unwrap_or(&DEDUCED)
            })
        }
        (View::Deduced, Value::Object(first), Value::Object(second)) => {
            fields(first, second, |_| &DEDUCED)
        }
        (View::List(list), Value::Array(first), Value::Array(second))
            if list.kind != ListKind::Atomic =>
        {
            Value::Array(items(first, second, list))
        }
        (View::Map(_), Value::Object(kept), Value::Null) if !kept.is_empty() => live.clone(),
        (View::List(list), Value::Array(kept), Value::Null)
            if !kept.is_empty() && list.kind != ListKind::Atomic =>
        {
            live.clone()
        }
        (View::Scalar(_) | View::Map(_) | View::List(_) | View::Deduced, _, _) => config.clone(),
    }
}

fn fields<'v>(
    live: &Map<String, Value>,
    config: &Map<String, Value>,
    view_of: impl Fn(&str) -> &'v View,
) -> Value {
    let mut merged = live.clone();
    for (name, said) in config {
        let value = match live.get(name) {
            Some(found) => merge(found, said, view_of(name)),
            None => said.clone(),
        };
        merged.insert(name.clone(), value);
    }
    Value::Object(merged)
}

/// Merges lists; where their orders differ, that of the configuration wins.
fn items(live: &[Value], config: &[Value], list: &ListView) -> Vec<Value> {
    let elements = |items: &[Value]| -> Vec<Element> {
        items.iter().enumerate().map(|(index, item)| element_of(list, item, index)).collect()
    };
    let (left, right) = (elements(live), elements(config));
    let found: BTreeMap<&Element, &Value> = left.iter().zip(live).collect();
    let said: BTreeMap<&Element, &Value> = right.iter().zip(config).collect();
    let mut shared: VecDeque<&Element> =
        right.iter().filter(|element| found.contains_key(element)).collect();
    let mut next_shared = shared.pop_front();
    let mut merged: BTreeSet<&Element> = BTreeSet::new();
    let mut out = Vec::with_capacity(live.len().max(config.len()));
    let both = |element: &Element| match (found.get(element), said.get(element)) {
        (Some(live), Some(config)) => merge(live, config, &list.item),
        (None, Some(one)) | (Some(one), None) => (*one).clone(),
        (None, None) => Value::Null,
    };
    let (mut at_left, mut at_right) = (0, 0);
    while at_left < left.len() || at_right < right.len() {
        if let (Some(one), Some(other)) = (left.get(at_left), right.get(at_right)) {
            if one == other {
                merged.insert(one);
                out.push(both(one));
                at_left += 1;
                at_right += 1;
                next_shared = shared.pop_front();
                continue;
            }
            if said.contains_key(one) && next_shared.is_some_and(|next| next != one) {
                at_left += 1;
                continue;
            }
        }
        if let Some(one) = left.get(at_left) {
            if !said.contains_key(one) {
                out.extend(live.get(at_left).cloned());
                at_left += 1;
                continue;
            }
            if merged.contains(one) {
                at_left += 1;
            }
        }
        if let Some(other) = right.get(at_right) {
            merged.insert(other);
            out.push(both(other));
            at_right += 1;
            if next_shared == Some(other) {
                next_shared = shared.pop_front();
            }
        }
    }
    out
}
