//! The two operations on ownership: an ordinary write takes what it changes, an apply takes what
//! it says, gives back what it no longer says, and refuses to take what another owns.

use super::builtin;
use super::managed::{Id, Incoming, Managed, Owned, incoming};
use super::merge::merge;
use super::set::{Element, Path, Set, written};
use super::typed::{Comparison, compare, field_set, present_set, violations, without};
use super::view::View;
use crate::meta::field::quoted;
use serde_json::Value;

const BEFORE: &str = "before-first-apply";

/// Who writes, with which version, where and when.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The name of the manager.
    pub manager: &'a str,
    /// The `apiVersion` of the request.
    pub api_version: &'a str,
    /// The subresource, or nothing.
    pub subresource: &'a str,
    /// The time to write down, as the API writes times.
    pub now: &'a str,
    /// Which parts of the object this request cannot change.
    pub reset: Reset,
}

/// Which parts of an object a request cannot change, and so never owns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reset {
    /// None.
    Nothing,
    /// The status, which has a subresource of its own.
    Status,
    /// Everything but the status: the request goes to that subresource.
    AllButStatus,
}

/// What an apply made.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    /// The object, with its managers.
    pub object: Value,
    /// Whether anything but the managers differs from the object before.
    pub changed: bool,
}

/// Why an apply was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The configuration speaks of managers: a bad request.
    #[error("metadata.managedFields must be nil")]
    Managers,
    /// The configuration does not fit the schema: an internal error, as the original has it.
    #[error("failed to create typed patch object ({0}): {1}")]
    Untyped(String, String),
    /// Others own what it would change: a conflict.
    #[error("{}", conflict_message(.0))]
    Conflicts(Vec<Conflict>),
}

/// A field that another manager owns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// The owner, as messages write it.
    pub owner: String,
    /// The field, as messages write it.
    pub field: String,
}

impl Conflict {
    /// The message of the cause; its reason is `FieldManagerConflict`.
    pub fn message(&self) -> String {
        format!("conflict with {}", self.owner)
    }
}

/// An ordinary write: `new` is about to take the place of `live` (what [`super::builtin::empty`]
/// gives for a creation). Answers with the managers that `new` shall have.
pub fn update(view: &View, live: &Value, new: &Value, request: Request<'_>) -> Managed {
    let managed = match incoming(new) {
        Incoming::Clear => Managed::default(),
        Incoming::Replace(managed) if request.subresource.is_empty() => managed,
        Incoming::Replace(_) | Incoming::Keep => Managed::of(live),
    };
    let exists =
        live.pointer("/metadata/uid").and_then(Value::as_str).is_some_and(|uid| !uid.is_empty());
    if managed.is_empty() && exists {
        return managed;
    }
    track(view, (live, new), managed, request)
}

/// Applies a configuration to `live`. An object that does not exist yet is given as
/// [`super::builtin::empty`] says, or as an empty object.
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
        let before = Request { manager: BEFORE, subresource: "", reset: Reset::Nothing, ..request };
        managed = track(view, (&unsaid(config), live), managed, before);
    }
    let bare = unmanaged(live);
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
    let conflicts = take(&mut managed, &comparison, &id, force);
    if !conflicts.is_empty() {
        return Err(Refusal::Conflicts(conflicts));
    }
    strip(&mut managed, &id);
    let changed = !comparison.is_same();
    if changed && let Some(owned) = managed.entries_mut().get_mut(&id) {
        owned.time = Some(request.now.to_owned());
    }
    managed.drop_empty();
    managed.cap();
    let mut object = if changed { merged } else { bare };
    managed.write(&mut object);
    Ok(Applied { object, changed })
}

/// The object that a configuration is about, before anything was said of it.
fn unsaid(config: &Value) -> Value {
    let text = |name: &str| config.get(name).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").rsplit_once('/').map_or("", |(group, _)| group);
    builtin::empty(group, text("kind"))
}

/// Lets the writer of `new` own what it changed since `live`, and nobody else.
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

/// Takes changed fields from everybody.
fn take_changed(managed: &mut Managed, comparison: &Comparison) {
    let changed = comparison.modified.union(&comparison.added).union(&comparison.removed);
    for owned in managed.entries_mut().values_mut() {
        owned.set = owned.set.difference(&changed);
    }
}

/// Takes changed fields from everybody but the applier; without force what they own conflicts.
fn take(managed: &mut Managed, comparison: &Comparison, id: &Id, force: bool) -> Vec<Conflict> {
    let changed = comparison.modified.union(&comparison.added);
    let mut conflicts = Vec::new();
    for (other, owned) in managed.iter().filter(|(other, _)| *other != id) {
        for path in owned.set.intersection(&changed).paths() {
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

/// Takes away what the applier said last time and nobody says now.
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
    // What went with its parent, although the applier never said it, comes back.
    let gone = everything.difference(&all(&pruned)).intersection(&last);
    without(merged, &gone, view)
}

/// Fields that nobody owns, because the server alone decides about them.
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

fn described(config: &Value) -> String {
    let text = |pointer: &str| config.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    format!(
        "{}/{}; {}, Kind={}",
        text("/metadata/namespace"),
        text("/metadata/name"),
        text("/apiVersion"),
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
    owners.dedup();
    for owner in owners {
        lines.push(format!("conflicts with {owner}:"));
        let own = conflicts.iter().filter(|conflict| conflict.owner == owner);
        lines.extend(own.map(|conflict| format!("- {}", conflict.field)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}
