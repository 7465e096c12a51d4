//! Writes the rules of cluster roles that aggregate others.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Pass;
use super::status;
use crate::auth::User;
use crate::core::{Core, text};
use crate::selector::LabelSelector;
use crate::status::Refusal;
use crate::verbs::RequestContext;
use crate::verbs::update::Edit;

const TABLE: &str = "clusterroles.rbac.authorization.k8s.io";
const MANAGER: &str = "clusterrole-aggregation-controller";

/// Runs until shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    super::repeat(core, TABLE, pass).await;
}

async fn pass(core: Arc<Core>) -> Pass {
    let stored = core.store.list(TABLE, "").objects;
    let roles: Vec<Cow<'_, Value>> = stored.values().map(|entry| entry.value()).collect();
    let mut failed = false;
    for role in roles.iter().filter(|role| role["aggregationRule"].is_object()) {
        let wanted = collected(role, &roles);
        if wanted != role["rules"].as_array().cloned().unwrap_or_default() {
            failed |= write(&core, role, &wanted).await.is_err();
        }
    }
    Pass { leaving: false, failed }
}

/// The rules of the selected roles, each once.
fn collected(role: &Value, roles: &[Cow<'_, Value>]) -> Vec<Value> {
    let name = text(role, "/metadata/name");
    let selectors = role.pointer("/aggregationRule/clusterRoleSelectors").and_then(Value::as_array);
    let mut found: Vec<Value> = Vec::new();
    for selector in selectors.into_iter().flatten() {
        let Ok(selector) = LabelSelector::from_structured(selector) else { continue };
        for other in roles.iter().filter(|other| text(other, "/metadata/name") != name) {
            let labels = other.pointer("/metadata/labels").and_then(Value::as_object);
            if !selector.matches(labels) {
                continue;
            }
            for rule in other["rules"].as_array().into_iter().flatten() {
                if !found.contains(rule) {
                    found.push(rule.clone());
                }
            }
        }
    }
    found
}

async fn write(core: &Arc<Core>, role: &Value, rules: &[Value]) -> Result<(), Refusal> {
    let group = "rbac.authorization.k8s.io";
    let Some(resource) = core.resource(group, "v1", "clusterroles") else { return Ok(()) };
    let user = User::service_account("kube-system", MANAGER);
    let place = ("", text(role, "/metadata/name"));
    let ctx = RequestContext::new(core, &resource, place, &user).by(MANAGER);
    let uid = text(role, "/metadata/uid").to_owned();
    status::write(ctx, &SetRules { uid, rules: json!(rules) }).await
}

struct SetRules {
    uid: String,
    rules: Value,
}

impl Edit for SetRules {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        next["rules"] = self.rules.clone();
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}
