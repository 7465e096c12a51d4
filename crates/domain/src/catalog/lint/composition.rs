//! What patch-and-transform says of itself: which fields of the XR it takes, and what it waits for.

use std::collections::BTreeMap;

use serde_json::Value;

/// A Composition, as far as it can be read.
#[derive(Debug)]
pub(super) struct Composed<'a> {
    /// The resources that patch-and-transform composes.
    pub(super) resources: Vec<Resource<'a>>,
    /// The steps that are something else.
    pub(super) unread: Vec<&'a str>,
}

/// One composed resource.
#[derive(Debug)]
pub(super) struct Resource<'a> {
    /// What the Composition calls it.
    pub(super) name: &'a str,
    /// When it counts as ready.
    pub(super) readiness: Readiness,
    /// The fields of the XR that it is patched from, in parts.
    takes: Vec<Vec<String>>,
}

/// When a composed resource counts as ready.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Readiness {
    /// When something about it says so.
    WaitedFor,
    /// As soon as it is composed.
    AtOnce,
    /// Never, whatever it says.
    Never { why: String },
}

/// What the resources of one list are patched by, over and above their own patches.
type PatchSets<'a> = BTreeMap<&'a str, &'a Value>;

impl Composed<'_> {
    /// Whether a resource is patched from a field, from a part of it, or from what holds it.
    pub(super) fn takes(&self, path: &[&str]) -> bool {
        let meets = |taken: &Vec<String>| taken.iter().zip(path).all(|(a, b)| a == b);
        self.resources.iter().flat_map(|it| &it.takes).any(meets)
    }
}

pub(super) fn read(composition: &Value) -> Composed<'_> {
    let mut composed = Composed { resources: Vec::new(), unread: Vec::new() };
    if let Some(spec) = composition.get("spec") {
        composed.resources.extend(resources(spec));
    }
    for step in array(composition.pointer("/spec/pipeline")) {
        match step.get("input") {
            Some(input) if input.get("kind") == Some(&Value::from("Resources")) => {
                composed.resources.extend(resources(input));
            }
            Some(_) | None => composed.unread.push(text(step, "step").unwrap_or("?")),
        }
    }
    composed
}

pub(super) fn array(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn resources(list: &Value) -> Vec<Resource<'_>> {
    let named = |it| text(it, "name").map(|name| (name, it));
    let sets: PatchSets<'_> = array(list.get("patchSets")).filter_map(named).collect();
    let resource = |it| Resource {
        name: text(it, "name").unwrap_or("?"),
        readiness: readiness(it),
        takes: array(it.get("patches")).flat_map(|it| taken(it, &sets)).collect(),
    };
    array(list.get("resources")).map(resource).collect()
}

/// The fields of the XR that a patch reads; one that writes to the XR reads none.
fn taken(patch: &Value, sets: &PatchSets<'_>) -> Vec<Vec<String>> {
    match text(patch, "type").unwrap_or("FromCompositeFieldPath") {
        "FromCompositeFieldPath" => text(patch, "fromFieldPath").map(parts).into_iter().collect(),
        "CombineFromComposite" => array(patch.pointer("/combine/variables"))
            .filter_map(|it| text(it, "fromFieldPath").map(parts))
            .collect(),
        // A set in a set is none: the function refuses it, and a circle would never end.
        "PatchSet" => text(patch, "patchSetName")
            .and_then(|name| sets.get(name))
            .map(|set| {
                array(set.get("patches")).flat_map(|it| taken(it, &BTreeMap::new())).collect()
            })
            .unwrap_or_default(),
        _ => Vec::new(),
    }
}

/// A field path in its parts: `a.b["c.d"][0]` is a, b, c.d and 0.
fn parts(path: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let (inside, after) = inner.split_once(']').unwrap_or((inner, ""));
            parts.push(inside.trim_matches(['"', '\'']).to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        } else {
            let end = rest.find(['.', '[']).unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            parts.push(name.to_owned());
            rest = after.strip_prefix('.').unwrap_or(after);
        }
    }
    parts
}

fn readiness(resource: &Value) -> Readiness {
    let checks: Vec<&Value> = array(resource.get("readinessChecks")).collect();
    if let Some(why) = checks.iter().find_map(|it| unreachable(it)) {
        return Readiness::Never { why };
    }
    let is_none = |it: &&Value| text(it, "type") == Some("None");
    if !checks.is_empty() && checks.iter().all(is_none) {
        return Readiness::AtOnce;
    }
    Readiness::WaitedFor
}

/// Why a check can never hold.
fn unreachable(check: &Value) -> Option<String> {
    let kind = text(check, "type").unwrap_or_default();
    let needs: &[&str] = match kind {
        "None" => &[],
        "NonEmpty" | "MatchTrue" | "MatchFalse" => &["fieldPath"],
        "MatchString" => &["fieldPath", "matchString"],
        "MatchInteger" => &["fieldPath", "matchInteger"],
        "MatchCondition" => &["matchCondition"],
        other => return Some(format!("there is no check of type \"{other}\"")),
    };
    let missing = needs.iter().find(|it| check.get(**it).is_none_or(Value::is_null))?;
    Some(format!("a check of type \"{kind}\" says no \"{missing}\""))
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}
