//! Strategic merge patch for built-in kinds whose only merged lists are in `metadata` and in
//! service accounts: owner references merge by uid, finalizers are a set, secrets merge by name,
//! all else is a merge patch.

use super::{Refusal, merge};
use crate::apply::typed::go_text;
use serde_json::{Map, Value};

const DIRECTIVE: &str = "$patch";
const ORDER: &str = "$setElementOrder/";
const FROM_PRIMITIVES: &str = "$deleteFromPrimitiveList/";
const RETAIN: &str = "$retainKeys";

/// Parses a strategic merge patch.
pub fn parse(body: &[u8]) -> Result<Value, Refusal> {
    merge::parse(body)
}

/// A patch without its directives: what Kubernetes has left of it when it is applied.
pub fn plain(patch: Value) -> Value {
    let Value::Object(fields) = patch else { return patch };
    let kept = fields.into_iter().filter(|(name, _)| name != DIRECTIVE && name != RETAIN);
    Value::Object(kept.map(|(name, value)| (name, plain(value))).collect())
}

/// Applies the patch to a copy of the document.
pub fn apply(document: &Value, patch: &Value) -> Result<Value, Refusal> {
    let mut patched = document.clone();
    merge(&mut patched, patch, &mut Vec::new())?;
    Ok(patched)
}

/// How a list is merged.
enum ListRule {
    Set,
    ByKey(&'static str),
}

impl ListRule {
    /// What a list identifies an item by.
    fn identity<'a>(&self, item: &'a Value) -> Option<&'a Value> {
        match self {
            Self::Set => Some(item),
            Self::ByKey(key) => item.get(key),
        }
    }

    /// Where a list has an item of the same identity.
    fn position(&self, list: &[Value], item: &Value) -> Option<usize> {
        let id = self.identity(item);
        list.iter().position(|other| self.identity(other) == id)
    }

    /// Refuses items that are not in the order that the patch says.
    fn check_order(&self, items: &[Value], order: &[Value], place: &[&str]) -> Result<(), Refusal> {
        let mut left = order.iter();
        let given = items.iter().filter(|item| item.get(DIRECTIVE).is_none());
        for item in given {
            if !left.any(|next| self.identity(next) == self.identity(item)) {
                let name = place.last().unwrap_or(&"");
                let texts = |list: &[Value]| go_text(&Value::Array(list.to_vec()));
                return Err(Refusal::Contradictory(format!(
                    "The order in patch list:\n{}\n doesn't match {ORDER}{name} list:\n{}\n",
                    texts(items),
                    texts(order)
                )));
            }
        }
        Ok(())
    }

    /// The merged items in the order that the patch says, and those that it does not name in their
    /// order of before: each in front of the first named one that followed it there.
    fn ordered(&self, merged: &[Value], order: &[Value], before: &[Value]) -> Vec<Value> {
        let (mut named, mut others): (Vec<_>, Vec<_>) =
            merged.iter().partition(|item| self.position(order, item).is_some());
        named.sort_by_key(|item| self.position(order, item));
        others.sort_by_key(|item| self.position(before, item));
        let mut others = others.into_iter().peekable();
        let mut out = Vec::with_capacity(merged.len());
        for item in named {
            let place = self.position(before, item);
            while let Some(other) = others.next_if(|other| {
                let own = self.position(before, other);
                own.is_some() && place.is_some() && own < place
            }) {
                out.push(other.clone());
            }
            out.push(item.clone());
        }
        out.extend(others.cloned());
        out
    }
}

fn rule_of(place: &[&str]) -> Option<ListRule> {
    match place {
        ["metadata", "finalizers"] => Some(ListRule::Set),
        ["metadata", "ownerReferences"] => Some(ListRule::ByKey("uid")),
        // Of a service account.
        ["secrets"] => Some(ListRule::ByKey("name")),
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
            let patch = go_text(patch);
            let why = format!("unknown patch type: {other} in map: {patch}");
            return Err(Refusal::Contradictory(why));
        }
    }
    if let Some(Value::Array(kept)) = fields.get(RETAIN) {
        object.retain(|name, _| kept.iter().any(|key| key.as_str() == Some(name)));
    }
    for (name, value) in fields {
        if name == DIRECTIVE || name == RETAIN || name.starts_with(ORDER) {
            continue;
        }
        let order = fields.get(&format!("{ORDER}{name}")).and_then(Value::as_array);
        if let Some(list) = name.strip_prefix(FROM_PRIMITIVES) {
            drop_from(object, list, value);
            continue;
        }
        if value.is_null() {
            object.remove(name);
            continue;
        }
        place.push(name);
        merge_field(object, name, (value, order), place)?;
        place.pop();
    }
    reorder(object, fields, place);
    Ok(())
}

/// Orders lists of which the patch says the order but no items.
fn reorder<'p>(
    object: &mut Map<String, Value>,
    patch: &'p Map<String, Value>,
    place: &mut Vec<&'p str>,
) {
    for (name, order) in patch {
        let Some(name) = name.strip_prefix(ORDER).filter(|name| !patch.contains_key(*name)) else {
            continue;
        };
        place.push(name);
        let rule = rule_of(place);
        place.pop();
        if let (Some(rule), Some(Value::Array(list)), Value::Array(order)) =
            (rule, object.get_mut(name), order)
        {
            let before = list.clone();
            *list = rule.ordered(list, order, &before);
        }
    }
}

fn merge_field<'p>(
    object: &mut Map<String, Value>,
    name: &str,
    (value, order): (&'p Value, Option<&Vec<Value>>),
    place: &mut Vec<&'p str>,
) -> Result<(), Refusal> {
    let slot = object.entry(name.to_owned()).or_insert(Value::Null);
    match (value, rule_of(place)) {
        (Value::Array(items), Some(rule)) => {
            if !slot.is_array() {
                *slot = Value::Array(Vec::new());
            }
            let Value::Array(list) = slot else { return Ok(()) };
            if let Some(order) = order {
                rule.check_order(items, order, place)?;
            }
            let before = list.clone();
            match rule {
                ListRule::Set => union(list, items),
                ListRule::ByKey(key) => merge_by_key(list, items, key)?,
            }
            *list = rule.ordered(list, order.unwrap_or(items), &before);
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
