//! Authentication and authorization.

mod access;
mod impersonation;
mod issuer;

use std::collections::{BTreeMap, HashMap};

use crate::core::Core;
use crate::status::Refusal;
pub(crate) use access::{Action, Decision, authorize, authorize_creation, decide, rules, verb};
pub(crate) use impersonation::impersonated;
pub(crate) use issuer::{AUDIENCE, Bearer, Binding, Issuer};

const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// A user, as webhooks and audit lines see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The user's name.
    pub name: String,
    /// The groups the user is in.
    pub groups: Vec<String>,
    /// The user's uid, if it has one.
    pub uid: String,
    /// What else its authentication said.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// Users by bearer token.
#[derive(Default, Clone)]
pub(crate) struct Tokens(pub(crate) HashMap<String, User>);

impl User {
    /// The anonymous user.
    pub fn anonymous() -> Self {
        Self::with_groups("system:anonymous", &["system:unauthenticated"])
    }

    /// A cluster administrator.
    pub fn admin(name: &str) -> Self {
        Self::with_groups(name, &["system:masters", "system:authenticated"])
    }

    /// A user of these groups.
    pub fn with_groups(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|group| (*group).to_owned()).collect(),
            uid: String::new(),
            extra: BTreeMap::new(),
        }
    }

    /// The user with the group of all authenticated users.
    pub(crate) fn authenticated(mut self) -> Self {
        if !self.is_anonymous() && !self.groups.iter().any(|group| group == AUTHENTICATED) {
            self.groups.push(AUTHENTICATED.to_owned());
        }
        self
    }

    /// The user of a service account.
    pub(crate) fn service_account(namespace: &str, name: &str) -> Self {
        let all = format!("system:serviceaccounts:{namespace}");
        let groups = ["system:serviceaccounts", &all, "system:authenticated"];
        Self::with_groups(&format!("system:serviceaccount:{namespace}:{name}"), &groups)
    }

    pub(crate) fn is_anonymous(&self) -> bool {
        self.name == "system:anonymous"
    }

    /// As a `UserInfo`; empty fields are omitted.
    pub(crate) fn info(&self) -> serde_json::Value {
        let mut info = serde_json::json!({"username": self.name});
        if !self.uid.is_empty() {
            info["uid"] = serde_json::json!(self.uid);
        }
        info["groups"] = serde_json::json!(self.groups);
        if !self.extra.is_empty() {
            info["extra"] = serde_json::json!(self.extra);
        }
        info
    }
}

/// The user of an `Authorization` header.
pub(crate) fn authenticate(core: &Core, authorization: Option<&str>) -> Result<User, Refusal> {
    let Some(header) = authorization else { return Ok(User::anonymous()) };
    let token = header.strip_prefix("Bearer ").or_else(|| header.strip_prefix("bearer "));
    let Some(token) = token.map(str::trim).filter(|token| !token.is_empty()) else {
        return Ok(User::anonymous());
    };
    let bearer = of_token(core, token).filter(|bearer| bearer.is_for(AUDIENCE));
    bearer.map(|bearer| bearer.user).ok_or_else(Refusal::unauthorized)
}

/// The user of a bearer token, and the audiences of the token.
pub(crate) fn of_token(core: &Core, token: &str) -> Option<Bearer> {
    let known = core.tokens.0.get(token).cloned();
    let known = known.map(|user| Bearer { user, audiences: vec![AUDIENCE.to_owned()] });
    known.or_else(|| core.issuer.verify(core, token))
}
