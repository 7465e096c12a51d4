//! Content negotiation.

use crate::status::Refusal;

/// The representation of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum View {
    /// The object.
    Whole,
    /// A table with a row per object.
    Table,
    /// `PartialObjectMetadata`.
    Partial,
    /// `PartialObjectMetadataList`.
    PartialList,
}

/// A representation and its format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Form {
    pub(crate) view: View,
    pub(crate) yaml: bool,
    /// The version of `meta.k8s.io`.
    pub(crate) version: String,
    /// Whether to indent the JSON.
    pub(crate) pretty: bool,
}

/// The first acceptable form of an `Accept` header.
pub(crate) fn negotiate(accept: &str) -> Result<Form, Refusal> {
    if accept.trim().is_empty() {
        return Ok(whole(false));
    }
    let mut clauses: Vec<(f32, &str)> = accept.split(',').map(|c| (quality(c), c)).collect();
    clauses.sort_by(|a, b| b.0.total_cmp(&a.0));
    let found = clauses.into_iter().find_map(|(_, clause)| form(clause));
    found.ok_or_else(Refusal::not_acceptable)
}

/// Whether the `Accept` header prefers aggregated discovery to plain JSON.
pub(crate) fn wants_aggregated(accept: &str) -> bool {
    for clause in accept.split(',') {
        let mut parts = clause.split(';').map(str::trim);
        if parts.next() != Some("application/json") {
            continue;
        }
        let parts: Vec<&str> = parts.filter(|part| !part.starts_with("q=")).collect();
        let has = |wanted| parts.contains(&wanted);
        if parts.is_empty() {
            return false;
        }
        if has("g=apidiscovery.k8s.io") && has("v=v2") && has("as=APIGroupDiscoveryList") {
            return true;
        }
    }
    false
}

fn form(clause: &str) -> Option<Form> {
    let mut parts = clause.split(';').map(str::trim);
    let yaml = match parts.next()? {
        "application/json" | "*/*" | "application/*" => false,
        "application/yaml" => true,
        _ => return None,
    };
    let mut form = whole(yaml);
    let (mut wanted, mut group) = (None, None);
    for part in parts {
        match part.split_once('=') {
            Some(("as", value)) => wanted = Some(value),
            Some(("g", value)) => group = Some(value),
            Some(("v", value)) => value.clone_into(&mut form.version),
            Some(("pretty", value)) => form.pretty = value == "1",
            Some(_) | None => {}
        }
    }
    let Some(wanted) = wanted else { return Some(form) };
    if group != Some("meta.k8s.io") || !matches!(form.version.as_str(), "v1" | "v1beta1") {
        return None;
    }
    form.view = match wanted {
        "Table" => View::Table,
        "PartialObjectMetadata" => View::Partial,
        "PartialObjectMetadataList" => View::PartialList,
        _ => return None,
    };
    Some(form)
}

fn whole(yaml: bool) -> Form {
    Form { view: View::Whole, yaml, version: "v1".to_owned(), pretty: false }
}

fn quality(clause: &str) -> f32 {
    let given = clause.split(';').find_map(|part| part.trim().strip_prefix("q="));
    given.and_then(|text| text.parse().ok()).unwrap_or(1.0)
}
