//! The `Impersonate-…` headers.

use std::collections::BTreeMap;

use hyper::header::HeaderMap;

use super::access::{Action, decide, forbidden};
use super::{AUTHENTICATED, UNAUTHENTICATED, User};
use crate::core::Core;
use crate::http::query::decode;
use crate::meta::name::{label, subdomain};
use crate::status::Refusal;

const USER: &str = "impersonate-user";
const GROUP: &str = "impersonate-group";
const UID: &str = "impersonate-uid";
const EXTRA: &str = "impersonate-extra-";
const ACCOUNT: &str = "system:serviceaccount:";
const AUTHENTICATION: &str = "authentication.k8s.io";

/// The user that a request acts as: the user itself, or the one of the headers if that is allowed.
pub(crate) fn impersonated(core: &Core, user: User, headers: &HeaderMap) -> Result<User, Refusal> {
    let text =
        |value: &hyper::header::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let first = |name: &str| headers.get(name).map(text).unwrap_or_default();
    let (name, uid) = (first(USER), first(UID));
    let groups: Vec<String> = headers.get_all(GROUP).iter().map(text).collect();
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (header, value) in headers {
        if let Some(key) = header.as_str().strip_prefix(EXTRA) {
            extra.entry(decode(key, false)).or_default().push(text(value));
        }
    }
    if name.is_empty() {
        if groups.is_empty() && uid.is_empty() && extra.is_empty() {
            return Ok(user);
        }
        let message = "groups, a uid or extras cannot be impersonated without impersonating a user";
        return Err(Refusal::bad_request(message));
    }
    let may = |action: Action<'_>| {
        let decision = decide(core, &user, &action);
        if decision.allowed { Ok(()) } else { Err(forbidden(&user, &action, &decision.reason)) }
    };
    // A name of another form is one of a user, as in Kubernetes.
    let account = name.strip_prefix(ACCOUNT).and_then(|rest| rest.split_once(':'));
    let account = account.filter(|(namespace, account)| {
        label(namespace).is_empty() && subdomain(account).is_empty()
    });
    match account {
        Some((namespace, account)) => may(asked(("", "serviceaccounts", ""), namespace, account))?,
        None => may(asked(("", "users", ""), "", &name))?,
    }
    for group in &groups {
        may(asked(("", "groups", ""), "", group))?;
    }
    for (key, values) in &extra {
        for value in values {
            may(asked((AUTHENTICATION, "userextras", key), "", value))?;
        }
    }
    if !uid.is_empty() {
        may(asked((AUTHENTICATION, "uids", ""), "", &uid))?;
    }
    let groups = match account {
        Some((namespace, account)) if groups.is_empty() => {
            User::service_account(namespace, account).groups
        }
        Some(_) | None => groups,
    };
    let mut acting = User { name, groups, uid, extra };
    let has = |wanted: &str| acting.groups.iter().any(|group| group == wanted);
    let added = match (acting.is_anonymous(), has(AUTHENTICATED), has(UNAUTHENTICATED)) {
        (true, _, false) => Some(UNAUTHENTICATED),
        (false, false, false) => Some(AUTHENTICATED),
        (true, _, true) | (false, true, _) | (false, false, true) => None,
    };
    acting.groups.extend(added.map(str::to_owned));
    Ok(acting)
}

fn asked<'a>(
    (group, plural, sub): (&'a str, &'a str, &'a str),
    namespace: &'a str,
    name: &'a str,
) -> Action<'a> {
    Action::Resource { verb: "impersonate", group, plural, sub, namespace, name }
}
