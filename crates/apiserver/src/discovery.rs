//! Discovery documents.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::http::Answer;
use crate::http::negotiate::wants_aggregated;
use crate::kinds::{Builtin, Kinds, Resource, api_version, custom};
use crate::serialize::write_object;
use crate::status::Refusal;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const BUILTIN_VERBS: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const CUSTOM_VERBS: [&str; 8] =
    ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
const SUBRESOURCE_VERBS: [&str; 3] = ["get", "patch", "update"];

/// `/api` and `/apis`.
pub(crate) fn groups(kinds: &Kinds, accept: &str, legacy: bool) -> Answer {
    if wants_aggregated(accept) {
        let list = aggregated(kinds, legacy);
        return Answer::bytes(200, AGGREGATED, write_object(&list));
    }
    if legacy {
        return Answer::json(
            200,
            &json!({
                "kind": "APIVersions",
                "versions": ["v1"],
                "serverAddressByClientCIDRs": [
                    {"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:6443"},
                ],
            }),
        );
    }
    let groups: Vec<Value> = names(kinds)
        .iter()
        .filter(|name| !name.is_empty())
        .filter_map(|name| group_value(kinds, name))
        .map(|mut group| {
            if let Some(map) = group.as_object_mut() {
                map.remove("kind");
                map.remove("apiVersion");
            }
            group
        })
        .collect();
    Answer::json(200, &json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}))
}

/// `/apis/{group}`.
pub(crate) fn group(kinds: &Kinds, name: &str) -> Result<Answer, Refusal> {
    let group = group_value(kinds, name).ok_or_else(Refusal::no_such_page)?;
    Ok(Answer::json(200, &group))
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn version(kinds: &Kinds, group: &str, version: &str) -> Result<Answer, Refusal> {
    if !kinds.has_version(group, version) {
        return Err(Refusal::no_such_page());
    }
    let mut rows: Vec<Value> = Vec::new();
    for resource in sorted(kinds, group, version) {
        rows.extend(legacy_rows(&resource));
    }
    let list = json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": api_version(group, version),
        "resources": rows,
    });
    Ok(Answer::json(200, &list))
}

/// The names of all groups, the core one first.
pub(crate) fn names(kinds: &Kinds) -> Vec<String> {
    let mut names = Vec::new();
    for resource in kinds.all() {
        if !names.contains(&resource.group) {
            names.push(resource.group.clone());
        }
    }
    names
}

/// The versions of a group, by priority.
pub(crate) fn versions(kinds: &Kinds, group: &str) -> Vec<String> {
    let mut versions: Vec<String> = Vec::new();
    for resource in kinds.all().iter().filter(|resource| resource.group == group) {
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
    }
    versions.sort_by_cached_key(|version| custom::priority(version));
    versions
}

fn sorted(kinds: &Kinds, group: &str, version: &str) -> Vec<Arc<Resource>> {
    let mut found: Vec<Arc<Resource>> = kinds
        .all()
        .iter()
        .filter(|resource| resource.group == group && resource.version == version)
        .cloned()
        .collect();
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

fn group_value(kinds: &Kinds, name: &str) -> Option<Value> {
    let versions: Vec<Value> = versions(kinds, name)
        .iter()
        .map(|version| json!({"groupVersion": api_version(name, version), "version": version}))
        .collect();
    let preferred = versions.first()?.clone();
    Some(json!({
        "kind": "APIGroup",
        "apiVersion": "v1",
        "name": name,
        "versions": versions,
        "preferredVersion": preferred,
    }))
}

/// A subresource: its name, its group and kind if they differ, its verbs.
type SubresourceRow = (&'static str, Option<(&'static str, &'static str)>, Vec<&'static str>);

fn subresources(resource: &Resource) -> Vec<SubresourceRow> {
    let mut faces = Vec::new();
    if resource.is_builtin(Builtin::ServiceAccount) {
        faces.push(("token", Some(("authentication.k8s.io", "TokenRequest")), vec!["create"]));
    }
    if resource.is_builtin(Builtin::Namespace) {
        faces.push(("finalize", None, vec!["update"]));
    }
    if resource.custom().is_some_and(|custom| custom.scale.is_some()) {
        faces.push(("scale", Some(("autoscaling", "Scale")), SUBRESOURCE_VERBS.to_vec()));
    }
    if resource.has_status() {
        faces.push(("status", None, SUBRESOURCE_VERBS.to_vec()));
    }
    faces
}

fn verbs(resource: &Resource) -> Vec<&'static str> {
    match resource.builtin() {
        None => CUSTOM_VERBS.to_vec(),
        Some(Builtin::Namespace) => {
            BUILTIN_VERBS.into_iter().filter(|verb| *verb != "deletecollection").collect()
        }
        Some(Builtin::ApiService) => vec!["get", "list", "watch"],
        Some(Builtin::Review(_)) => vec!["create"],
        Some(_) => BUILTIN_VERBS.to_vec(),
    }
}

fn legacy_rows(resource: &Resource) -> Vec<Value> {
    let mut main = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": verbs(resource),
    });
    if !resource.is_review() {
        main["storageVersionHash"] = json!(storage_hash(resource));
    }
    if !resource.short_names.is_empty() {
        main["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        main["categories"] = json!(resource.categories);
    }
    let rows = subresources(resource).into_iter().map(|(face, other, verbs)| {
        let mut row = json!({
            "name": format!("{}/{face}", resource.plural),
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": other.map_or(resource.kind.as_str(), |(_, kind)| kind),
            "verbs": verbs,
        });
        if let Some((group, _)) = other {
            row["group"] = json!(group);
            row["version"] = json!("v1");
        }
        row
    });
    std::iter::once(main).chain(rows).collect()
}

/// The storage version hash.
fn storage_hash(resource: &Resource) -> String {
    let stored = match resource.builtin() {
        Some(Builtin::CustomResourceDefinition) => "v1beta1",
        Some(_) => resource.version.as_str(),
        None => resource.custom().map_or("", |custom| custom.storage_version.as_str()),
    };
    let group = if resource.is_builtin(Builtin::RegardingEvent) { "" } else { &resource.group };
    let text = format!("{group}/{stored}/{}", resource.kind);
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    STANDARD.encode(digest.as_ref().get(..8).unwrap_or_default())
}

fn aggregated(kinds: &Kinds, legacy: bool) -> Value {
    let items: Vec<Value> = names(kinds)
        .iter()
        .filter(|name| name.is_empty() == legacy)
        .map(|name| aggregated_group(kinds, name))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn aggregated_group(kinds: &Kinds, group: &str) -> Value {
    let versions: Vec<Value> = versions(kinds, group)
        .iter()
        .map(|version| {
            let rows: Vec<Value> = sorted(kinds, group, version)
                .iter()
                .map(|resource| aggregated_row(resource))
                .collect();
            json!({"version": version, "resources": rows, "freshness": "Current"})
        })
        .collect();
    let mut metadata = json!({});
    if !group.is_empty() {
        metadata["name"] = json!(group);
    }
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_row(resource: &Resource) -> Value {
    let own = named(&resource.group, &resource.version, &resource.kind);
    let mut row = json!({
        "resource": resource.plural,
        "responseKind": own,
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": verbs(resource),
    });
    if !resource.short_names.is_empty() {
        row["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        row["categories"] = json!(resource.categories);
    }
    let faces: Vec<Value> = subresources(resource)
        .into_iter()
        .map(|(face, other, verbs)| {
            let shown = other.map_or_else(|| own.clone(), |(group, name)| named(group, "v1", name));
            json!({"subresource": face, "responseKind": shown, "verbs": verbs})
        })
        .collect();
    if !faces.is_empty() {
        row["subresources"] = json!(faces);
    }
    row
}

/// A group, a version and a kind.
fn named(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}
