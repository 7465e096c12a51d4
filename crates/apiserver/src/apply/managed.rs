//! The `managedFields` of an object.

use super::set::Set;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The limit of update entries; older ones are merged into one.
const UPDATERS_MAX: usize = 10;
const ANCIENT: &str = "ancient-changes";
const UPDATE: &str = "Update";
const APPLY: &str = "Apply";

/// The identity of an entry.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id {
    /// The name of the manager.
    pub manager: String,
    /// Whether the operation is Apply or Update.
    pub applies: bool,
    /// The `apiVersion` of its writes; empty for Apply entries, which have none in their identity.
    pub api_version: String,
    /// The subresource; mostly empty.
    pub subresource: String,
}

/// The fields of a manager.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Owned {
    /// The fields.
    pub set: Set,
    /// The `apiVersion` of the field set.
    pub api_version: String,
    /// When the entry last changed.
    pub time: Option<String>,
}

/// The managers of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Managed {
    entries: BTreeMap<Id, Owned>,
}

/// What the `managedFields` of an incoming object mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// Absent: the stored entries stay.
    Keep,
    /// Empty: all entries are removed.
    Clear,
    /// Replaced by these entries.
    Replace(Managed),
}

impl Managed {
    /// Parses the entries of an object's metadata; invalid entries count as none.
    pub fn of(object: &Value) -> Self {
        match incoming(object) {
            Incoming::Replace(managed) => managed,
            Incoming::Keep | Incoming::Clear => Self::default(),
        }
    }

    /// Whether there are no managers.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The managers and their fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Id, &Owned)> {
        self.entries.iter()
    }

    pub(super) fn entries_mut(&mut self) -> &mut BTreeMap<Id, Owned> {
        &mut self.entries
    }

    pub(super) fn get(&self, id: &Id) -> Option<&Owned> {
        self.entries.get(id)
    }

    /// Removes managers without fields.
    pub(super) fn drop_empty(&mut self) {
        self.entries.retain(|_, owned| !owned.set.is_empty());
    }

    /// Merges the oldest update entries when there are too many.
    pub(super) fn cap(&mut self) {
        let mut updaters: Vec<(Option<String>, Id)> = self
            .entries
            .iter()
            .filter(|(id, _)| !id.applies)
            .map(|(id, owned)| (owned.time.clone(), id.clone()))
            .collect();
        updaters.sort();
        let mut count = updaters.len();
        let mut firsts: BTreeMap<String, Id> = BTreeMap::new();
        for (time, id) in updaters {
            if count <= UPDATERS_MAX {
                return;
            }
            let Some(owned) = self.entries.get(&id).cloned() else { continue };
            let bucket = Id {
                manager: ANCIENT.to_owned(),
                applies: false,
                api_version: owned.api_version.clone(),
                subresource: String::new(),
            };
            let Some(first) = firsts.get(&owned.api_version) else {
                firsts.insert(owned.api_version.clone(), id);
                continue;
            };
            if !self.entries.contains_key(&bucket) {
                let oldest = self.entries.remove(first).unwrap_or_default();
                self.entries.insert(bucket.clone(), oldest);
            }
            self.entries.remove(&id);
            let joined = self.entries.entry(bucket).or_default();
            joined.set = joined.set.union(&owned.set);
            joined.api_version = owned.api_version;
            joined.time = time;
            count -= 1;
        }
    }

    /// Writes the entries into an object; without entries the field is removed.
    pub fn write(&self, object: &mut Value) {
        let Some(Value::Object(meta)) = object.get_mut("metadata") else { return };
        if self.entries.is_empty() {
            meta.remove("managedFields");
            return;
        }
        let mut sorted: Vec<(&Id, &Owned)> = self.entries.iter().collect();
        sorted.sort_by_key(|(id, owned)| {
            (!id.applies, &owned.time, &id.manager, &owned.api_version, &id.subresource)
        });
        let written = sorted.into_iter().map(|(id, owned)| entry(id, owned)).collect();
        meta.insert("managedFields".to_owned(), Value::Array(written));
    }
}

/// Parses the `managedFields` of an incoming object.
pub fn incoming(object: &Value) -> Incoming {
    let found = object.get("metadata").and_then(|meta| meta.get("managedFields"));
    let Some(Value::Array(items)) = found else { return Incoming::Keep };
    match items.as_slice() {
        [] => return Incoming::Keep,
        [only] if only.as_object().is_some_and(Map::is_empty) => return Incoming::Clear,
        _ => {}
    }
    let mut managed = Managed::default();
    for item in items {
        let Some((id, owned)) = read(item) else { return Incoming::Keep };
        managed.entries.insert(id, owned);
    }
    Incoming::Replace(managed)
}

/// Whether two versions of an object differ in nothing but their managers.
pub fn is_same_object(next: &Value, old: &Value) -> bool {
    let (Value::Object(next), Value::Object(old)) = (next, old) else { return next == old };
    let is_same = |name: &str, next: &Value, old: &Value| match (name, next, old) {
        ("metadata", Value::Object(next), Value::Object(old)) => {
            let bare = |fields: &Map<String, Value>| {
                fields.len() - usize::from(fields.contains_key("managedFields"))
            };
            bare(next) == bare(old)
                && next
                    .iter()
                    .all(|(name, value)| name == "managedFields" || old.get(name) == Some(value))
        }
        _ => next == old,
    };
    next.len() == old.len()
        && next
            .iter()
            .all(|(name, value)| old.get(name).is_some_and(|old| is_same(name, value, old)))
}

/// Restores the times of entries that are otherwise equal to the stored ones, so that time alone is
/// no change.
pub fn restore_times(object: &mut Value, stored: &Value) {
    let before = Managed::of(stored);
    let mut after = Managed::of(object);
    let same = before.entries.len() == after.entries.len()
        && after.entries.iter().all(|(id, owned)| {
            before
                .get(id)
                .is_some_and(|old| old.set == owned.set && old.api_version == owned.api_version)
        });
    if !same || before.is_empty() {
        return;
    }
    for (id, owned) in &mut after.entries {
        owned.time = before.get(id).and_then(|old| old.time.clone());
    }
    after.write(object);
}

fn read(item: &Value) -> Option<(Id, Owned)> {
    let text = |name: &str| item.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
    let applies = match text("operation").as_str() {
        APPLY => true,
        UPDATE => false,
        _ => return None,
    };
    let api_version = text("apiVersion");
    let set = match item.get("fieldsV1") {
        None | Some(Value::Null) => Set::default(),
        Some(fields) => Set::parse(fields).ok()?,
    };
    let id = Id {
        manager: text("manager"),
        applies,
        api_version: if applies { String::new() } else { api_version.clone() },
        subresource: text("subresource"),
    };
    let time = Some(text("time")).filter(|time| !time.is_empty());
    Some((id, Owned { set, api_version, time }))
}

fn entry(id: &Id, owned: &Owned) -> Value {
    let mut out = Map::new();
    let operation = if id.applies { APPLY } else { UPDATE };
    out.insert("manager".to_owned(), Value::from(id.manager.as_str()));
    out.insert("operation".to_owned(), Value::from(operation));
    out.insert("apiVersion".to_owned(), Value::from(owned.api_version.as_str()));
    if let Some(time) = &owned.time {
        out.insert("time".to_owned(), Value::from(time.as_str()));
    }
    out.insert("fieldsType".to_owned(), Value::from("FieldsV1"));
    out.insert("fieldsV1".to_owned(), owned.set.to_value());
    if !id.subresource.is_empty() {
        out.insert("subresource".to_owned(), Value::from(id.subresource.as_str()));
    }
    Value::Object(out)
}
