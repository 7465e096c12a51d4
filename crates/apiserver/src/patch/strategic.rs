//! Strategic merge patch for built-in kinds whose only merged lists are in `metadata`: owner
//! references merge by uid, finalizers are a set, all else is a merge patch.

use super::{Refusal, merge};
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const FROM_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Parses a strategic merge patch.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    merge::parse(body)
}

/// Applies the patch to a copy of the document.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, Refusal> {
    let mut patched = document.clone();
    merge(&mut patched, patch, &mut Vec::new())?;
    Ok(patched)
}

/// How a list of `metadata` is merged.
enum ListRule {
    Set,
    ByKey(&'static str),
}

fn rule_of(place: &[&str]) -> Option<ListRule> {
    match place {
        ["metadata", "finalizers"] => Some(ListRule::Set),
        ["metadata", "ownerReferences"] => Some(ListRule::ByKey("uid")),
        _ => None,
    }
}

fn merge<'p>(
    target: &mut Value,
    patch: &'p Value,
    place: &mut Vec<&'p str>,
) -> Result<(), Refusal> {
    let Value::Object(fields) = patch else {
        *target = patch.clone();
        return Ok(());
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Value::Object(object) = target else { return Ok(()) };
    match fields.get(DIRECTIVE).and_then(Value::as_str) {
        Some("delete") => {
            object.clear();
            return Ok(());
        }
        Some("replace") => {
            object.clone_from(fields);
            object.remove(DIRECTIVE);
            return Ok(());
        }
        Some("merge") | None => {}
        Some(other) => {
            return Err(Refusal::DoesNotApply(format!("unknown patch type: {other}")));
        }
    }
    if let Some(Value::Array(kept)) = fields.get(RETAIN) {
        object.retain(|name, _| kept.iter().any(|key| key.as_str() == Some(name)));
    }
    for (name, value) in fields {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        if let Some(list) = name.strip_prefix(FROM_PRIMITIVES) {
            drop_from(object, list, value);
            continue;
        }
        if value.is_null() {
            object.remove(name);
            continue;
        }
        place.push(name);
        merge_field(object, name, value, place)?;
        place.pop();
    }
    Ok(())
}

fn merge_field<'p>(
    object: &mut Map<String, Value>,
    name: &str,
    value: &'p Value,
    place: &mut Vec<&'p str>,
) -> Result<(), Refusal> {
    let slot = object.entry(name.to_owned()).or_insert(Value::Null);
    match (value, rule_of(place)) {
        (Value::Array(items), Some(rule)) => {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(list) = slot else { return Ok(()) };
            match rule {
                ListRule::Set => union(list, items),
                ListRule::ByKey(key) => merge_by_key(list, items, key)?,
            }
        }
        (Value::Object(_), _) => merge(slot, value, place)?,
        (scalar_or_list, _) => *slot = scalar_or_list.clone(),
    }
    Ok(())
}

fn drop_from(object: &mut Map<String, Value>, list: &str, gone: &Value) {
    let (Some(Value::Array(items)), Value::Array(gone)) = (object.get_mut(list), gone) else {
        return;
    };
    items.retain(|item| !gone.contains(item));
}

fn union(list: &mut Vec<Value>, added: &[Value]) {
    for item in added {
        if !list.contains(item) {
            list.push(item.clone());
        }
    }
}

fn merge_by_key(list: &mut Vec<Value>, items: &[Value], key: &str) -> Result<(), Refusal> {
    if items.iter().any(|item| item.get(DIRECTIVE).and_then(Value::as_str) == Some("replace")) {
        list.clear();
    }
    for item in items {
        let directive = item.get(DIRECTIVE).and_then(Value::as_str);
        if directive == Some("replace") && item.get(key).is_none() {
            continue;
        }
        let Some(id) = item.get(key) else {
            return Err(Refusal::DoesNotApply(format!(
                "map: {item} does not contain declared merge key: {key}"
            )));
        };
        let at = list.iter().position(|present| present.get(key) == Some(id));
        match (directive, at) {
            (Some("delete"), Some(at)) => {
                list.remove(at);
            }
            (Some("delete"), None) => {}
            (_, Some(at)) => {
                if let Some(present) = list.get_mut(at) {
                    merge(present, item, &mut Vec::new())?;
                }
            }
            (_, None) => {
                let mut made = Value::Object(Map::new());
                merge(&mut made, item, &mut Vec::new())?;
                list.push(made);
            }
        }
    }
    Ok(())
}
