//! Authentication and authorization.

use std::collections::HashMap;

use crate::http::Query;
use crate::http::route::{Place, Route};
use crate::status::{Refusal, details};

/// A user, as webhooks and audit lines see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
}

/// Users by bearer token.
#[derive(Default, Clone)]
pub(crate) struct Tokens(pub(crate) HashMap<String, User>);

impl User {
    /// The anonymous user.
    pub fn anonymous() -> Self {
        Self {
            name: "system:anonymous".to_owned(),
            groups: vec!["system:unauthenticated".to_owned()],
        }
    }

    /// A cluster administrator.
    pub fn admin(name: &str) -> Self {
        Self::with_groups(name, &["system:masters", "system:authenticated"])
    }

    pub(crate) fn with_groups(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        }
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }
}

impl Tokens {
    /// The user of an `Authorization` header.
    pub(crate) fn user(&self, authorization: Option<&str>) -> Result<User, Refusal> {
        let Some(header) = authorization else { return Ok(User::anonymous()) };
        let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer "));
        let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) else {
            return Ok(User::anonymous());
        };
        self.0.get(token).cloned().ok_or_else(Refusal::unauthorized)
    }
}

/// Authorizes a request: anonymous users may only read health and version.
pub(crate) fn authorize(user: &User, route: &Route, verb: &str, path: &str) -> Result<(), Refusal> {
    if !user.is_anonymous() {
        return Ok(());
    }
    let name = &user.name;
    match route {
        Route::Health | Route::Version => Ok(()),
        Route::Resource(place) => Err(forbidden(name, verb, place)),
        Route::Groups { .. }
        | Route::Group(_)
        | Route::GroupVersion(..)
        | Route::OpenApiIndex
        | Route::OpenApi(_)
        | Route::Unknown => {
            let message = format!("forbidden: User \"{name}\" cannot {verb} path \"{path}\"");
            Err(Refusal::new(403, "Forbidden", message).about(serde_json::json!({})))
        }
    }
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

fn forbidden(user: &str, verb: &str, place: &Place) -> Refusal {
    let qualified = if place.group.is_empty() {
        place.plural.clone()
    } else {
        format!("{}.{}", place.plural, place.group)
    };
    let named = if place.name.is_empty() { String::new() } else { format!(" \"{}\"", place.name) };
    let scope = if place.namespace.is_empty() {
        "at the cluster scope".to_owned()
    } else {
        format!("in the namespace \"{}\"", place.namespace)
    };
    let message = format!(
        "{qualified}{named} is forbidden: User \"{user}\" cannot {verb} resource \"{}\" in API \
         group \"{}\" {scope}",
        place.plural, place.group
    );
    Refusal::new(403, "Forbidden", message).about(details(&place.group, &place.plural, &place.name))
}
