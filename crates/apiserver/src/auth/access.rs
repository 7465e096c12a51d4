//! Authorization: who may do what.

use serde_json::{Value, json};

use super::User;
use crate::core::Core;
use crate::http::Query;
use crate::http::route::{Place, Route};
use crate::status::{Refusal, details};

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action<'a> {
    /// Something with a resource.
    Resource {
        verb: &'a str,
        group: &'a str,
        plural: &'a str,
        sub: &'a str,
        namespace: &'a str,
        /// Empty for a collection.
        name: &'a str,
    },
    /// Something with a path that is no resource.
    Path { verb: &'a str, path: &'a str },
}

/// Whether an action is allowed, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// Empty if there is nothing to say.
    pub(crate) reason: String,
}

/// Whether a user may do something: anonymous users may only read health and version.
pub(crate) fn decide(_core: &Core, user: &User, action: &Action<'_>) -> Decision {
    let public = match action {
        Action::Path { verb, path } => *verb == "get" && is_public(path),
        Action::Resource { .. } => false,
    };
    Decision { allowed: public || !user.is_anonymous(), reason: String::new() }
}

/// The rules of a user in a namespace: those of resources, and those of other paths.
pub(crate) fn rules(_core: &Core, user: &User, _namespace: &str) -> (Vec<Value>, Vec<Value>) {
    if user.is_anonymous() {
        let paths = json!({"verbs": ["get"], "nonResourceURLs": PUBLIC});
        return (Vec::new(), vec![paths]);
    }
    let resources = json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]});
    (vec![resources], vec![json!({"verbs": ["*"], "nonResourceURLs": ["*"]})])
}

const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

fn is_public(path: &str) -> bool {
    PUBLIC.contains(&path)
}

/// Authorizes a request.
pub(crate) fn authorize(
    core: &Core,
    user: &User,
    route: &Route,
    (method, path, query): (&hyper::Method, &str, &Query),
) -> Result<(), Refusal> {
    let lower = method.as_str().to_lowercase();
    let selected = query.get("fieldSelector").unwrap_or_default();
    let action = match route {
        Route::Resource(place) => {
            let verb = verb(method, Some(place), query);
            Action::Resource {
                verb,
                group: &place.group,
                plural: &place.plural,
                sub: &place.sub,
                namespace: if is_namespace(place) { &place.name } else { &place.namespace },
                name: if place.name.is_empty() { named(selected) } else { &place.name },
            }
        }
        Route::Health { .. }
        | Route::Version
        | Route::Metrics
        | Route::Groups { .. }
        | Route::Group(_)
        | Route::GroupVersion(..)
        | Route::OpenApiV2
        | Route::OpenApiIndex
        | Route::OpenApi(_)
        | Route::Unknown => Action::Path { verb: &lower, path },
    };
    let decision = decide(core, user, &action);
    if decision.allowed { Ok(()) } else { Err(forbidden(user, &action, &decision.reason)) }
}

/// A namespace is an object of itself.
fn is_namespace(place: &Place) -> bool {
    place.group.is_empty() && place.plural == "namespaces" && place.namespace.is_empty()
}

/// The name that a field selector of a collection selects.
fn named(selector: &str) -> &str {
    let name = selector.strip_prefix("metadata.name=").unwrap_or_default();
    let name = name.strip_prefix('=').unwrap_or(name);
    if name.contains([',', '\\', '=']) { "" } else { name }
}

/// The authorization verb of a request.
pub(crate) fn verb(method: &hyper::Method, place: Option<&Place>, query: &Query) -> &'static str {
    let named = place.is_some_and(|place| !place.name.is_empty());
    let collection = place.is_some() && !named;
    match method.as_str() {
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if collection => "deletecollection",
        "DELETE" => "delete",
        _ if query.flag("watch") && place.is_some() => "watch",
        _ if collection => "list",
        _ => "get",
    }
}

/// The refusal of an action.
pub(crate) fn forbidden(user: &User, action: &Action<'_>, reason: &str) -> Refusal {
    let user = &user.name;
    let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    match action {
        Action::Path { verb, path } => {
            let message = format!("forbidden: User \"{user}\" cannot {verb} path \"{path}\"{why}");
            Refusal::new(403, "Forbidden", message).about(json!({}))
        }
        Action::Resource { verb, group, plural, sub, namespace, name } => {
            let dotted = if group.is_empty() { String::new() } else { format!(".{group}") };
            let named = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
            let part = if sub.is_empty() { String::new() } else { format!("/{sub}") };
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace \"{namespace}\"")
            };
            let message = format!(
                "{plural}{dotted}{named} is forbidden: User \"{user}\" cannot {verb} resource \
                 \"{plural}{part}\" in API group \"{group}\" {scope}{why}"
            );
            Refusal::new(403, "Forbidden", message).about(details(group, plural, name))
        }
    }
}
