//! Role-based access control: the roles and bindings in the store decide.
//!
//! Members of `system:masters` may do everything, and other users what a rule of a bound role
//! allows; bindings of a namespace count for that namespace only. Permissions only add up.

mod bootstrap;
mod escalation;
mod rule;

use std::collections::BTreeSet;

use serde_json::Value;

use crate::auth::{Action, Decision, User};
use crate::core::{Core, text};
pub(crate) use bootstrap::objects;
pub(crate) use escalation::check as check_escalation;

const ROLES: &str = "roles.rbac.authorization.k8s.io";
const CLUSTER_ROLES: &str = "clusterroles.rbac.authorization.k8s.io";
const ROLE_BINDINGS: &str = "rolebindings.rbac.authorization.k8s.io";
const CLUSTER_ROLE_BINDINGS: &str = "clusterrolebindings.rbac.authorization.k8s.io";
const MASTERS: &str = "system:masters";

/// Whether a user may do something, and why.
pub(crate) fn decide(core: &Core, user: &User, action: &Action<'_>) -> Decision {
    if is_master(user) {
        return Decision { allowed: true, reason: String::new() };
    }
    let namespace = match action {
        Action::Resource { namespace, .. } => namespace,
        Action::Path { .. } => "",
    };
    let mut missing = BTreeSet::new();
    for grant in grants(core, user, namespace) {
        let Some(rules) = grant.rules(core) else {
            missing.insert(grant.missing());
            continue;
        };
        if rules.iter().any(|rule| rule::allows(rule, action)) {
            let reason = format!("RBAC: allowed by {}", grant.described());
            return Decision { allowed: true, reason };
        }
    }
    let missing: Vec<String> = missing.into_iter().collect();
    let reason = match missing.as_slice() {
        [] => String::new(),
        [only] => format!("RBAC: {only}"),
        several => format!("RBAC: [{}]", several.join(", ")),
    };
    Decision { allowed: false, reason }
}

/// The rules of a user in a namespace.
pub(crate) fn rules(core: &Core, user: &User, namespace: &str) -> Vec<Value> {
    let grants = grants(core, user, namespace);
    grants.iter().filter_map(|grant| grant.rules(core)).flatten().collect()
}

pub(crate) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|group| group == MASTERS)
}

/// A binding that gives a user a role.
struct Grant {
    binding: Value,
    /// The subject that is the user.
    subject: Value,
    /// The namespace of the binding; empty for one of the cluster.
    namespace: String,
}

impl Grant {
    /// The rules of the role; `None` if the role is missing.
    fn rules(&self, core: &Core) -> Option<Vec<Value>> {
        let name = text(&self.binding, "/roleRef/name");
        let role = if text(&self.binding, "/roleRef/kind") == "Role" {
            core.store.get(ROLES, &format!("{}/{name}", self.namespace))
        } else {
            core.store.get(CLUSTER_ROLES, name)
        };
        role.map(|role| role.value()["rules"].as_array().cloned().unwrap_or_default())
    }

    fn missing(&self) -> String {
        let kind = text(&self.binding, "/roleRef/kind").to_lowercase();
        let name = text(&self.binding, "/roleRef/name");
        format!("{kind}.rbac.authorization.k8s.io \"{name}\" not found")
    }

    fn described(&self) -> String {
        let (name, space) = (text(&self.binding, "/metadata/name"), &self.namespace);
        let binding = if space.is_empty() {
            format!("ClusterRoleBinding \"{name}\"")
        } else {
            format!("RoleBinding \"{name}/{space}\"")
        };
        let (kind, role) =
            (text(&self.binding, "/roleRef/kind"), text(&self.binding, "/roleRef/name"));
        let subject = text(&self.subject, "/name");
        let subject = match text(&self.subject, "/kind") {
            "ServiceAccount" => {
                let own = text(&self.subject, "/namespace");
                let own = if own.is_empty() { space } else { own };
                format!("ServiceAccount \"{subject}/{own}\"")
            }
            other => format!("{other} \"{subject}\""),
        };
        format!("{binding} of {kind} \"{role}\" to {subject}")
    }
}

/// The bindings of a user: those of the cluster, and those of the namespace.
fn grants(core: &Core, user: &User, namespace: &str) -> Vec<Grant> {
    let mut found = Vec::new();
    let mut add = |table: &str, prefix: &str, namespace: &str| {
        for entry in core.store.list(table, prefix).objects.values() {
            let value = entry.value();
            let mut subjects = value["subjects"].as_array().into_iter().flatten();
            if let Some(subject) = subjects.find(|subject| is_user(user, subject, namespace)) {
                found.push(Grant {
                    binding: value.clone().into_owned(),
                    subject: subject.clone(),
                    namespace: namespace.to_owned(),
                });
            }
        }
    };
    add(CLUSTER_ROLE_BINDINGS, "", "");
    if !namespace.is_empty() {
        add(ROLE_BINDINGS, &format!("{namespace}/"), namespace);
    }
    found
}

/// Whether a subject of a binding in a namespace is a user.
fn is_user(user: &User, subject: &Value, namespace: &str) -> bool {
    let name = text(subject, "/name");
    match text(subject, "/kind") {
        "User" => user.name == name,
        "Group" => user.groups.iter().any(|group| group == name),
        "ServiceAccount" => {
            let own = text(subject, "/namespace");
            let own = if own.is_empty() { namespace } else { own };
            !own.is_empty() && user.name == format!("system:serviceaccount:{own}:{name}")
        }
        _ => false,
    }
}
