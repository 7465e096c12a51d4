//! What is parsed and refused at the border: declarations of Usages, and those of Crossplane.
//!
//! [`spec`] reads one document, [`examine`] judges it with what only the server knows. Every pair
//! of scopes is either accepted or refused:
//!
//! | declared in | `of` | `by` | answer |
//! |---|---|---|---|
//! | a namespace | the same namespace | none, the same namespace, or beside all | accepted |
//! | a namespace | another namespace | the same namespace, or beside all | accepted with consent |
//! | a namespace | another namespace | none | refused |
//! | a namespace | beside all | any | refused |
//! | a namespace | any | another namespace | refused |
//! | beside all | any namespace, or beside all | none, any namespace, or beside all | accepted |

use serde_json::{Map, Value};

use super::aggregate::Spec;
use super::facts::Resolve;
use super::reference::{
    ObjectKey, Operator, Pick, Reference, Requirement, Selection, Selector, UsageKey, UsageKind,
    group_kind,
};
use super::refusal::Refusal;
use crate::object::label::{LabelKey, LabelValue, is_dns_label, is_dns_subdomain};
use crate::object::manifest::Scope;
use crate::object::name::{PROTECTION_GROUP, USAGE_API_VERSION};
use crate::object::offender::shortened;

/// How many requirements a selector may have.
pub const REQUIREMENTS_MAX: usize = 32;
/// How many values a requirement may name.
pub const VALUES_MAX: usize = 32;
/// How long a reason may be, in characters.
pub const REASON_MAX: usize = 1_024;
/// How long a name may be.
const NAME_MAX: usize = 253;
/// The group whose objects never reach admission.
const UNGUARDED_GROUP: &str = "admissionregistration.k8s.io";
/// The groups of Crossplane's own Usages.
const CROSSPLANE_GROUPS: [&str; 2] = ["protection.crossplane.io", "apiextensions.crossplane.io"];

/// The paths of the fields of one reference.
struct Fields {
    root: &'static str,
    api_version: &'static str,
    kind: &'static str,
    name: &'static str,
    namespace: &'static str,
    selector: &'static str,
    labels: &'static str,
    expressions: &'static str,
}

const OF: Fields = Fields {
    root: "spec.of",
    api_version: "spec.of.apiVersion",
    kind: "spec.of.kind",
    name: "spec.of.resourceRef.name",
    namespace: "spec.of.namespace",
    selector: "spec.of.resourceSelector",
    labels: "spec.of.resourceSelector.matchLabels",
    expressions: "spec.of.resourceSelector.matchExpressions",
};

const BY: Fields = Fields {
    root: "spec.by",
    api_version: "spec.by.apiVersion",
    kind: "spec.by.kind",
    name: "spec.by.resourceRef.name",
    namespace: "spec.by.namespace",
    selector: "spec.by.resourceSelector",
    labels: "spec.by.resourceSelector.matchLabels",
    expressions: "spec.by.resourceSelector.matchExpressions",
};

/// What only the server knows about a declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// The scope of `of`'s kind, if it is served.
    pub of: Option<Scope>,
    /// The scope of `by`'s kind, if it is served.
    pub by: Option<Scope>,
    /// Whether the other namespace consents, if another one is named.
    pub consents: bool,
}

/// Which Usage a document declares.
pub fn key(document: &Value) -> Result<UsageKey, Refusal> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let (api_version, kind) = (text("/apiVersion").unwrap_or(""), text("/kind").unwrap_or(""));
    let not_a_usage = || Refusal::NotAUsage(shortened(&format!("{api_version} {kind}")));
    if api_version != USAGE_API_VERSION {
        return Err(not_a_usage());
    }
    let kind: UsageKind = kind.parse().map_err(|_| not_a_usage())?;
    let name = object_name("metadata.name", text("/metadata/name").unwrap_or(""))?;
    let namespace = text("/metadata/namespace").unwrap_or("");
    let placed = match kind {
        UsageKind::Usage => is_dns_label(namespace),
        UsageKind::ClusterUsage => namespace.is_empty(),
    };
    if !placed {
        return Err(invalid("metadata.namespace", namespace));
    }
    Ok(UsageKey { kind, namespace: namespace.to_owned(), name })
}

/// What a document declares.
pub fn spec(key: &UsageKey, document: &Value) -> Result<Spec, Refusal> {
    let spec = document.get("spec").and_then(Value::as_object);
    let spec = spec.ok_or(Refusal::FieldMissing("spec"))?;
    let of = spec.get("of").ok_or(Refusal::FieldMissing(OF.root))?;
    let of = reference(&OF, key, of)?;
    let by = match spec.get("by") {
        None | Some(Value::Null) => None,
        Some(by) => Some(reference(&BY, key, by)?),
    };
    let reason = match spec.get("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.chars().count() <= REASON_MAX => Some(text.clone()),
        Some(other) => return Err(invalid("spec.reason", &shown(other))),
    };
    let reason = reason.filter(|it| !it.trim().is_empty());
    if by.is_none() && reason.is_none() {
        return Err(Refusal::PurposeMissing);
    }
    let resolve = match spec.get("resolve") {
        None | Some(Value::Null) => Resolve::Once,
        Some(word) => one_of("spec.resolve", word)?,
    };
    let replay = flag("spec.replayDeletion", spec.get("replayDeletion"))?.unwrap_or(by.is_some());
    Ok(Spec { of, by, reason, resolve, replay })
}

/// Judges a declaration: kinds, scopes, consent, and whether something would use itself.
pub fn examine(key: &UsageKey, spec: &Spec, around: &Surroundings) -> Result<(), Refusal> {
    examine_kind(&spec.of)?;
    examine_place(key, &spec.of, around.of, &OF)?;
    if let Some(by) = &spec.by {
        examine_kind(by)?;
        examine_place(key, by, around.by, &BY)?;
        if key.kind == UsageKind::Usage && !by.namespace.is_empty() && by.namespace != key.namespace
        {
            return Err(Refusal::UserElsewhere(by.namespace.clone()));
        }
        if let (Pick::Name(of), Pick::Name(user)) = (&spec.of.pick, &by.pick) {
            let of = spec.of.key(of);
            if of == by.key(user) {
                return Err(Refusal::UsesItself(of.to_string()));
            }
        }
    }
    let namespace = spec.of.namespace.clone();
    if key.kind == UsageKind::Usage && namespace != key.namespace {
        if spec.by.is_none() {
            return Err(Refusal::UserRequired(namespace));
        }
        if !around.consents {
            return Err(Refusal::ConsentMissing(namespace));
        }
    }
    Ok(())
}

/// The object in the namespace says so: which namespaces' Usages may protect the objects in it.
/// Names are parted by commas; `*` is every namespace.
pub fn is_consented(annotation: Option<&str>, namespace: &str) -> bool {
    let mut listed = annotation.unwrap_or("").split(',').map(str::trim);
    listed.any(|it| it == "*" || (it == namespace && !namespace.is_empty()))
}

/// What one of Crossplane's own Usages names: `of` and `by`. Selectors that it has not
/// resolved yet name nothing.
pub fn foreign(document: &Value) -> Result<(Option<ObjectKey>, Option<ObjectKey>), Refusal> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str).unwrap_or("");
    let api_version = text("/apiVersion");
    let (group, _) = api_version.split_once('/').unwrap_or(("", ""));
    if !CROSSPLANE_GROUPS.contains(&group) || !matches!(text("/kind"), "Usage" | "ClusterUsage") {
        let what = shortened(&format!("{api_version} {}", text("/kind")));
        return Err(Refusal::NotAUsage(what));
    }
    let own = text("/metadata/namespace");
    let one = |fields: &Fields, side: &str| {
        let name = text(&format!("/spec/{side}/resourceRef/name"));
        if name.is_empty() {
            return Ok(None);
        }
        let at = format!("/spec/{side}/apiVersion");
        let (group, _) = api_version_of(fields, text(&at))?;
        let kind = kind_of(fields, text(&format!("/spec/{side}/kind")))?;
        let namespace = text(&format!("/spec/{side}/resourceRef/namespace"));
        let namespace = if namespace.is_empty() { own } else { namespace };
        let namespace = namespace_of(fields, namespace)?;
        Ok(Some(ObjectKey { group, kind, namespace, name: object_name(fields.name, name)? }))
    };
    Ok((one(&OF, "of")?, one(&BY, "by")?))
}

fn examine_kind(reference: &Reference) -> Result<(), Refusal> {
    let unsupported = reference.group == UNGUARDED_GROUP || reference.group == PROTECTION_GROUP;
    if unsupported {
        return Err(Refusal::KindUnsupported(shortened(&reference.group_kind())));
    }
    Ok(())
}

fn examine_place(
    key: &UsageKey,
    reference: &Reference,
    scope: Option<Scope>,
    fields: &Fields,
) -> Result<(), Refusal> {
    let kind = || shortened(&group_kind(&reference.group, &reference.kind));
    match (scope, key.kind) {
        (None, _) => Err(Refusal::KindUnknown(kind())),
        (Some(Scope::Namespaced), _) if reference.namespace.is_empty() => {
            Err(Refusal::NamespaceMissing(fields.root))
        }
        (Some(Scope::Cluster), UsageKind::Usage) if fields.root == OF.root => {
            Err(Refusal::ScopeUnsupported(kind()))
        }
        (Some(Scope::Cluster), _) if !reference.namespace.is_empty() => {
            Err(Refusal::NamespaceSuperfluous(fields.root))
        }
        (Some(Scope::Namespaced | Scope::Cluster), _) => Ok(()),
    }
}

/// One reference. What says nothing of a namespace is in the namespace of the Usage.
fn reference(fields: &Fields, key: &UsageKey, value: &Value) -> Result<Reference, Refusal> {
    let value = value.as_object().ok_or_else(|| invalid(fields.root, &shown(value)))?;
    let text = |map: &Map<String, Value>, name: &str, field| match map.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(other) => Err(invalid(field, &shown(other))),
    };
    let api_version = text(value, "apiVersion", fields.api_version)?;
    let api_version = api_version.ok_or(Refusal::FieldMissing(fields.api_version))?;
    let (group, version) = api_version_of(fields, &api_version)?;
    let kind = text(value, "kind", fields.kind)?;
    let kind = kind_of(fields, &kind.ok_or(Refusal::FieldMissing(fields.kind))?)?;
    let by_name = value.get("resourceRef").filter(|it| !it.is_null());
    let by_labels = value.get("resourceSelector").filter(|it| !it.is_null());
    let (place, pick) = match (by_name, by_labels) {
        (Some(by_name), None) => {
            let map = by_name.as_object();
            let map = map.ok_or_else(|| invalid(fields.name, &shown(by_name)))?;
            let name = text(map, "name", fields.name)?;
            let name = name.ok_or(Refusal::FieldMissing(fields.name))?;
            (map, Pick::Name(object_name(fields.name, &name)?))
        }
        (None, Some(by_labels)) => {
            let map = by_labels.as_object();
            let map = map.ok_or_else(|| invalid(fields.selector, &shown(by_labels)))?;
            (map, Pick::Match(selector(fields, map)?))
        }
        (None, None) | (Some(_), Some(_)) => {
            return Err(Refusal::ReferenceAmbiguous(fields.root));
        }
    };
    // Cluster-scoped users of a namespaced Usage say so with an empty namespace.
    let namespace = text(place, "namespace", fields.namespace)?;
    let namespace = namespace.unwrap_or_else(|| key.namespace.clone());
    let namespace = namespace_of(fields, &namespace)?;
    Ok(Reference { group, version, kind, namespace, pick })
}

fn selector(fields: &Fields, map: &Map<String, Value>) -> Result<Selector, Refusal> {
    let mut labels = Vec::new();
    match map.get("matchLabels") {
        None | Some(Value::Null) => {}
        Some(Value::Object(equal)) => {
            for (label, value) in equal {
                let value = value.as_str().ok_or_else(|| invalid(fields.labels, &shown(value)))?;
                let (key, operator) = (label_key(fields.labels, label)?, Operator::In);
                let values = vec![label_value(fields.labels, value)?];
                labels.push(Requirement { key, operator, values });
            }
        }
        Some(other) => return Err(invalid(fields.labels, &shown(other))),
    }
    match map.get("matchExpressions") {
        None | Some(Value::Null) => {}
        Some(Value::Array(expressions)) => {
            for it in expressions.iter().take(REQUIREMENTS_MAX + 1) {
                labels.push(requirement(fields.expressions, it)?);
            }
        }
        Some(other) => return Err(invalid(fields.expressions, &shown(other))),
    }
    if labels.len() > REQUIREMENTS_MAX {
        return Err(Refusal::TooMany { field: fields.selector, max: REQUIREMENTS_MAX });
    }
    let controller = flag(fields.selector, map.get("matchControllerRef"))?.unwrap_or(false);
    if labels.is_empty() && !controller {
        return Err(Refusal::SelectorEmpty(fields.root));
    }
    let selection = match map.get("selection") {
        None | Some(Value::Null) => Selection::First,
        Some(word) => one_of(fields.selector, word)?,
    };
    Ok(Selector { labels, controller, selection })
}

fn requirement(field: &'static str, value: &Value) -> Result<Requirement, Refusal> {
    let text = |name: &str| value.get(name).and_then(Value::as_str);
    let key = label_key(field, text("key").unwrap_or(""))?;
    let operator: Operator = one_of(field, value.get("operator").unwrap_or(&Value::Null))?;
    let empty = Vec::new();
    let values = match value.get("values") {
        None | Some(Value::Null) => &empty,
        Some(Value::Array(values)) => values,
        Some(other) => return Err(invalid(field, &shown(other))),
    };
    if values.len() > VALUES_MAX {
        return Err(Refusal::TooMany { field, max: VALUES_MAX });
    }
    let compares = match operator {
        Operator::In | Operator::NotIn => true,
        Operator::Exists | Operator::DoesNotExist => false,
    };
    if compares == values.is_empty() {
        return Err(invalid(field, operator.as_str()));
    }
    let value = |it: &Value| label_value(field, it.as_str().unwrap_or("\0"));
    let values = values.iter().map(value).collect::<Result<_, _>>()?;
    Ok(Requirement { key, operator, values })
}

/// Group and version: `version` of the core, or `group/version`.
fn api_version_of(fields: &Fields, text: &str) -> Result<(String, String), Refusal> {
    let (group, version) = text.split_once('/').unwrap_or(("", text));
    let core = !text.contains('/');
    if !is_dns_label(version) || !(core || is_dns_subdomain(group)) {
        return Err(invalid(fields.api_version, text));
    }
    Ok((group.to_owned(), version.to_owned()))
}

fn kind_of(fields: &Fields, text: &str) -> Result<String, Refusal> {
    let letter = text.bytes().next().is_some_and(|it| it.is_ascii_alphabetic());
    let plain = text.bytes().all(|it| it.is_ascii_alphanumeric()) && text.len() <= 63;
    if letter && plain { Ok(text.to_owned()) } else { Err(invalid(fields.kind, text)) }
}

fn namespace_of(fields: &Fields, text: &str) -> Result<String, Refusal> {
    if text.is_empty() || is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err(invalid(fields.namespace, text))
    }
}

/// A name that is one segment of a path.
fn object_name(field: &'static str, text: &str) -> Result<String, Refusal> {
    let plain = |it: u8| it.is_ascii_graphic() && !matches!(it, b'/' | b'%');
    let bounded = !text.is_empty() && text.len() <= NAME_MAX;
    if bounded && text.bytes().all(plain) && !matches!(text, "." | "..") {
        Ok(text.to_owned())
    } else {
        Err(invalid(field, text))
    }
}

fn label_key(field: &'static str, text: &str) -> Result<LabelKey, Refusal> {
    text.parse().map_err(|_| invalid(field, text))
}

fn label_value(field: &'static str, text: &str) -> Result<String, Refusal> {
    let value: LabelValue = text.parse().map_err(|_| invalid(field, text))?;
    Ok(value.into())
}

fn one_of<T: std::str::FromStr>(field: &'static str, word: &Value) -> Result<T, Refusal> {
    let text = word.as_str().ok_or_else(|| invalid(field, &shown(word)))?;
    text.parse().map_err(|_| invalid(field, text))
}

fn flag(field: &'static str, value: Option<&Value>) -> Result<Option<bool>, Refusal> {
    match value {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Bool(flag)) => Ok(Some(*flag)),
        Some(other) => Err(invalid(field, &shown(other))),
    }
}

fn invalid(field: &'static str, text: &str) -> Refusal {
    Refusal::FieldInvalid { field, text: shortened(text) }
}

/// The JSON type found instead of a text; the value itself may be long.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(it) => it.to_string(),
        Value::Number(it) => it.to_string(),
        Value::String(text) => shortened(text),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

#[cfg(test)]
mod tests;
