//! The two operations on ownership: an update owns the fields it changes; an apply owns the fields
//! of its configuration, releases those it no longer has, and conflicts with other owners.

use super::managed::{Id, Incoming, Managed, Owned, incoming};
use super::merge::merge;
use super::set::{Element, Path, Set, written};
use super::typed::{Comparison, compare, field_set, present_set, violations, without};
use super::view::View;
use super::{builtin, last_applied};
use crate::meta::field::quoted;
use serde_json::Value;

const BEFORE: &str = "before-first-apply";
/// The `apiVersion` of scales.
const SCALE: &str = "autoscaling/v1";

/// The manager, version, subresource and time of a write.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The subresource, or empty.
    pub subresource: &'a str,
    /// The time to record, in the format of the API.
    pub now: &'a str,
    /// The fields that this request cannot change.
    pub reset: Reset,
}

/// The fields that a request cannot change and therefore never owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// No fields.
    Nothing,
    /// The status, which has its own subresource.
    Status,
    /// All fields but the status.
    AllButStatus,
}

/// The result of an apply.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object, with its managers.
    pub object: Value,
    /// Whether anything but the managers changed.
    pub changed: bool,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The configuration contains `managedFields`: a bad request.
    #[error("metadata.managedFields must be nil")]
    Managers,
    /// The configuration does not match the schema: an internal error, as in Kubernetes.
    #[error("failed to create typed patch object ({0}): {1}")]
    Untyped(String, String),
    /// Other managers own changed fields: a conflict.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as printed in messages.
    pub owner: String,
    /// The field, as printed in messages.
    pub field: String,
}

impl Conflict {
    /// The message of the cause; its reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

/// An update that replaces `live` ([`super::builtin::empty`] for a creation) by `new`. Returns the
/// managers of `new`.
pub fn update(view: &View, live: &Value, new: &Value, request: Request<'_>) -> Managed {
    let managed = match incoming(new) {
        Incoming::Clear if request.subresource.is_empty() => Managed::default(),
        Incoming::Replace(managed) if request.subresource.is_empty() => managed,
        Incoming::Clear | Incoming::Replace(_) | Incoming::Keep => Managed::of(live),
    };
    let exists =
        live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    if managed.is_empty() && exists {
        return managed;
    }
    track(view, (live, new), managed, request)
}

/// A write of the scale of `live`, which stands for the field at `path`. Returns the managers.
///
/// As in Kubernetes the scale has managers of its own, made of those of the object that own the
/// field: without one of them a write has no manager, and an update manager that keeps the field
/// owns it in an entry of its own afterwards. A scale of zero has no field that could be owned.
pub fn rescale(
    live: &Value,
    path: &[Element],
    (before, after): (i64, i64),
    request: Request<'_>,
) -> Managed {
    let mut field = Set::default();
    field.insert(path);
    let mut managed = Managed::of(live);
    let of_scale = |id: &Id| {
        let api_version = if id.applies { String::new() } else { SCALE.to_owned() };
        Id { api_version, ..id.clone() }
    };
    let owners: Vec<Id> = managed
        .iter()
        .filter(|(_, owned)| owned.set.has_path(path))
        .map(|(id, _)| id.clone())
        .collect();
    let mut owners_of_scale: Vec<Id> = owners.iter().map(of_scale).collect();
    if !owners.is_empty() && before != after {
        owners_of_scale.clear();
        if after != 0 {
            owners_of_scale.push(Id {
                manager: name_of(request),
                applies: false,
                api_version: SCALE.to_owned(),
                subresource: request.subresource.to_owned(),
            });
        }
    }
    for id in &owners {
        if let Some(owned) = managed.entries_mut().get_mut(id)
            && !owners_of_scale.contains(id)
        {
            owned.set = owned.set.difference(&field);
        }
    }
    managed.drop_empty();
    for id in owners_of_scale {
        let api_version = request.api_version.to_owned();
        let owned = Owned { set: field.clone(), api_version, time: None };
        managed.entries_mut().entry(id).or_insert(owned);
    }
    managed
}

/// Applies a configuration to `live`, which is [`super::builtin::empty`] or an empty object for a
/// creation.
pub fn apply(
    view: &View,
    live: &Value,
    config: &Value,
    request: Request<'_>,
    force: bool,
) -> Result<Applied, Refusal> {
    if config.pointer("/metadata/managedFields").is_some_and(|found| !found.is_null()) {
        return Err(Refusal::Managers);
    }
    let wrong = violations(config, view);
    if !wrong.is_empty() {
        return Err(Refusal::Untyped(described(config), listed(&wrong)));
    }
    let mut managed = Managed::of(live);
    if managed.is_empty() {
        let before = Request { manager: BEFORE, ..request };
        managed = track(view, (&unsaid(config), live), managed, before);
    }
    let bare = unmanaged(live);
    let given = config;
    let config = kept_parts(config, request.reset);
    let id = Id {
        manager: name_of(request),
        applies: true,
        api_version: String::new(),
        subresource: request.subresource.to_owned(),
    };
    let mut merged = merge(&bare, &config, view);
    let last = managed.get(&id).cloned();
    let owned = Owned {
        set: field_set(&config, view),
        api_version: request.api_version.to_owned(),
        time: last.as_ref().and_then(|last| last.time.clone()),
    };
    managed.entries_mut().insert(id.clone(), owned);
    if let Some(last) = &last {
        merged = prune(&merged, &managed, &last.set, view);
    }
    let comparison = compare(&bare, &merged, view);
    let mut conflicts = take(&mut managed, &comparison, &id, force);
    if !conflicts.is_empty() {
        if request.manager == last_applied::MANAGER {
            let own = last_applied::fields(&bare, request.api_version, view);
            conflicts.retain(|conflict| !own.contains(&conflict.field));
        }
        if !conflicts.is_empty() {
            return Err(Refusal::Conflicts(conflicts));
        }
        take(&mut managed, &comparison, &id, true);
    }
    strip(&mut managed, &id);
    let changed = !comparison.is_same();
    if changed && let Some(owned) = managed.entries_mut().get_mut(&id) {
        owned.time = Some(request.now.to_owned());
    }
    managed.drop_empty();
    managed.cap();
    let mut object = if changed { merged } else { bare };
    if request.manager == last_applied::MANAGER {
        last_applied::renew(&mut object, given);
    }
    managed.write(&mut object);
    Ok(Applied { object, changed })
}

/// The object of a configuration before any field was applied.
fn unsaid(config: &Value) -> Value {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    builtin::empty(group, text("kind"))
}

/// Makes the writer of `new` the only owner of the fields that changed since `live`.
fn track(
    view: &View,
    (live, new): (&Value, &Value),
    mut managed: Managed,
    request: Request<'_>,
) -> Managed {
    let (live, new) = (unmanaged(live), unmanaged(new));
    let new = replaced_parts(&new, &live, request.reset);
    let comparison = compare(&live, &new, view);
    let id = Id {
        manager: name_of(request),
        applies: false,
        api_version: request.api_version.to_owned(),
        subresource: request.subresource.to_owned(),
    };
    take_changed(&mut managed, &comparison);
    let taken = comparison.modified.union(&comparison.added).difference(&never_owned());
    if !taken.is_empty() {
        let owned = managed.entries_mut().entry(id).or_default();
        owned.set = owned.set.union(&taken);
        request.api_version.clone_into(&mut owned.api_version);
        owned.time = Some(request.now.to_owned());
    }
    managed.drop_empty();
    managed.cap();
    managed
}

/// Removes changed fields from every manager.
fn take_changed(managed: &mut Managed, comparison: &Comparison) {
    let changed = comparison.modified.union(&comparison.added).union(&comparison.removed);
    for owned in managed.entries_mut().values_mut() {
        owned.set = owned.set.difference(&changed);
    }
}

/// Removes changed fields from every other manager; without force they are conflicts.
fn take(managed: &mut Managed, comparison: &Comparison, id: &Id, force: bool) -> Vec<Conflict> {
    let changed = comparison.modified.union(&comparison.added);
    let mut conflicts = Vec::new();
    for (other, owned) in managed.iter().filter(|(other, _)| *other != id) {
        for path in owned.set.intersection(&changed).members_first() {
            conflicts.push(Conflict { owner: printed(other), field: written(&path) });
        }
    }
    if !conflicts.is_empty() && !force {
        return conflicts;
    }
    let gone = changed.union(&comparison.removed);
    for (other, owned) in managed.entries_mut() {
        if other != id {
            owned.set = owned.set.difference(&gone);
        }
    }
    Vec::new()
}

/// Removes fields that the applier applied last time and no manager applies now.
fn prune(merged: &Value, managed: &Managed, last: &Set, view: &View) -> Value {
    let all = |value: &Value| present_set(value, view).with_named(view);
    let last = last.with_named(view);
    let pruned = without(merged, &last, view);
    let mut owned_now = Set::default();
    for (_, owned) in managed.iter() {
        owned_now = owned_now.union(&owned.set);
    }
    let everything = all(merged);
    let kept = all(&pruned).union(&owned_now.with_named(view));
    let pruned = without(merged, &everything.difference(&kept), view);
    // Restores fields that were removed with their parent but were never applied.
    let gone = everything.difference(&all(&pruned)).intersection(&last);
    without(merged, &gone, view)
}

/// Fields that only the server writes and no manager owns.
fn never_owned() -> Set {
    let mut set = Set::default();
    for name in ["apiVersion", "kind", "metadata"] {
        set.insert(&[Element::field(name)]);
    }
    for name in [
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "clusterName",
        "generation",
        "managedFields",
        "resourceVersion",
    ] {
        let path: Path = vec![Element::field("metadata"), Element::field(name)];
        set.insert(&path);
    }
    set
}

fn strip(managed: &mut Managed, id: &Id) {
    if let Some(owned) = managed.entries_mut().get_mut(id) {
        owned.set = owned.set.difference(&never_owned());
    }
}

fn unmanaged(object: &Value) -> Value {
    let mut bare = object.clone();
    if let Some(Value::Object(meta)) = bare.get_mut("metadata") {
        meta.remove("managedFields");
    }
    bare
}

fn is_reset(reset: Reset, field: &str) -> bool {
    match reset {
        Reset::Nothing => false,
        Reset::Status => field == "status",
        Reset::AllButStatus => !matches!(field, "status" | "apiVersion" | "kind"),
    }
}

fn kept_parts(config: &Value, reset: Reset) -> Value {
    let mut kept = config.clone();
    if let Value::Object(fields) = &mut kept {
        fields.retain(|name, _| !is_reset(reset, name));
    }
    kept
}

fn replaced_parts(new: &Value, live: &Value, reset: Reset) -> Value {
    let mut made = kept_parts(new, reset);
    if let (Value::Object(fields), Value::Object(before)) = (&mut made, live) {
        for (name, value) in before.iter().filter(|(name, _)| is_reset(reset, name)) {
            fields.insert(name.clone(), value.clone());
        }
    }
    made
}

fn name_of(request: Request<'_>) -> String {
    if request.manager.is_empty() { "unknown".to_owned() } else { request.manager.to_owned() }
}

fn printed(id: &Id) -> String {
    let mut out = quoted(&id.manager);
    if !id.subresource.is_empty() {
        out = format!("{out} with subresource {}", quoted(&id.subresource));
    }
    if id.applies { out } else { format!("{out} using {}", id.api_version) }
}

/// How messages name an object.
pub fn described(config: &Value) -> String {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let core = if version.contains('/') { "" } else { "/" };
    format!(
        "{}/{}; {core}{version}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/kind")
    )
}

fn listed(wrong: &[String]) -> String {
    match wrong {
        [only] => only.clone(),
        several => format!("errors:\n  {}", several.join("\n  ")),
    }
}

fn conflict_message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: {}: {}", only.message(), only.field);
    }
    let mut lines: Vec<String> = Vec::new();
    let mut owners: Vec<&str> = conflicts.iter().map(|conflict| conflict.owner.as_str()).collect();
    owners.sort_unstable();
    owners.dedup();
    for owner in owners {
        lines.push(format!("conflicts with {owner}:"));
        let own = conflicts.iter().filter(|conflict| conflict.owner == owner);
        lines.extend(own.map(|conflict| format!("- {}", conflict.field)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
