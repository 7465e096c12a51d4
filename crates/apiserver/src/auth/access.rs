//! Authorization: who may do what.

use serde_json::{Value, json};

use super::User;
use crate::core::{Core, has_entries};
use crate::http::Query;
use crate::http::route::{Place, Route};
use crate::rbac;
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::{Refusal, details};
use crate::verbs::RequestContext;

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

/// Whether a user may do something.
pub(crate) fn decide(core: &Core, user: &User, action: &Action<'_>) -> Decision {
    rbac::decide(core, user, action)
}

/// The rules of a user in a namespace: those of resources, and those of other paths.
pub(crate) fn rules(core: &Core, user: &User, namespace: &str) -> (Vec<Value>, Vec<Value>) {
    let (paths, resources) = rbac::rules(core, user, namespace)
        .into_iter()
        .partition(|rule| has_entries(rule, "/nonResourceURLs"));
    (resources, paths)
}

/// Authorizes the creation of an object by a request that would also have changed it.
pub(crate) fn authorize_creation(ctx: &RequestContext<'_>) -> Result<(), Refusal> {
    let action = Action::Resource {
        verb: "create",
        group: &ctx.resource.group,
        plural: &ctx.resource.plural,
        sub: "",
        namespace: ctx.namespace,
        name: ctx.name,
    };
    let decision = decide(ctx.core, ctx.user, &action);
    if decision.allowed { Ok(()) } else { Err(forbidden(ctx.user, &action, &decision.reason)) }
}

/// Authorizes a request.
pub(crate) fn authorize(
    core: &Core,
    user: &User,
    route: &Route,
    (method, path, query): (&hyper::Method, &str, &Query),
) -> Result<(), Refusal> {
    let lower = method.as_str().to_lowercase();
    let selected = selected_name(query);
    let action = match route.place() {
        Some(place) => {
            let verb = verb(method, Some(place), query);
            Action::Resource {
                verb,
                group: &place.group,
                plural: &place.plural,
                sub: &place.sub,
                namespace: if is_namespace(place) { &place.name } else { &place.namespace },
                name: match verb {
                    "list" | "watch" if place.name.is_empty() => selected.as_str(),
                    _ => place.name.as_str(),
                },
            }
        }
        None => Action::Path { verb: &lower, path },
    };
    let decision = decide(core, user, &action);
    if decision.allowed { Ok(()) } else { Err(forbidden(user, &action, &decision.reason)) }
}

/// A namespace is an object of itself.
fn is_namespace(place: &Place) -> bool {
    place.group.is_empty() && place.plural == "namespaces" && place.namespace.is_empty()
}

/// The name that the field selector of a list or watch selects, if both selectors can be read.
/// Other verbs have none: a selector does not limit what is created.
fn selected_name(query: &Query) -> String {
    let text = |key: &str| query.get(key).unwrap_or_default();
    let labels = LabelSelector::parse(text("labelSelector"));
    let fields = labels.and_then(|_| FieldSelector::parse(text("fieldSelector")));
    let name = fields.ok().and_then(|fields| fields.pinned("metadata.name").map(str::to_owned));
    let is_segment = |name: &String| name != "." && name != ".." && !name.contains(['/', '%']);
    name.filter(is_segment).unwrap_or_default()
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
