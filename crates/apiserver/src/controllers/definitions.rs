//! Establishes CRDs, and deletes their objects before them.

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};

use super::status::{self, SetStatus, condition, set_condition};
use super::{Pass, services};
use crate::auth::User;
use crate::core::{Core, DEFINITIONS, text};
use crate::kinds::custom::has_condition;
use crate::kinds::{Resource, builtin, custom};
use crate::status::Refusal;
use crate::verbs::delete::{self, DeleteOptions};
use crate::verbs::update::Edit;
use crate::verbs::{RequestContext, Subresource};

const MANAGER: &str = "kube-apiserver";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Runs until shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    super::repeat(core, DEFINITIONS, reconcile).await;
}

/// Reconciles every CRD once.
async fn reconcile(core: Arc<Core>) -> Pass {
    let core = &core;
    let mut pass = Pass::default();
    core.refresh_kinds();
    let listing = core.store.list(DEFINITIONS, "");
    for entry in listing.objects.values() {
        let definition = &*entry.value();
        let leaving = definition.pointer("/metadata/deletionTimestamp").is_some();
        let done = if leaving {
            finalize(core, definition).await
        } else {
            establish(core, definition).await
        };
        pass.leaving |= leaving;
        if let Err(refusal) = done {
            tracing::debug!(why = refusal.message, "failed to reconcile a CRD");
            pass.failed = true;
        }
    }
    core.refresh_kinds();
    services::reconcile(core).await;
    pass
}

/// Sets the conditions of a CRD in deletion.
pub(crate) fn terminating(definition: &mut Value) {
    let condition = condition(
        ("Terminating", "True"),
        "InstanceDeletionPending",
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
    );
    set_condition(&mut definition["status"], condition);
}

async fn establish(core: &Arc<Core>, definition: &Value) -> Result<(), Refusal> {
    let conflict = conflict(core, definition);
    let mut next = definition.clone();
    let (taken, conflict) = conflict;
    let mut accepted = definition["spec"]["names"].clone();
    for field in taken {
        match definition.pointer(&format!("/status/acceptedNames/{field}")) {
            Some(kept) => accepted[field] = kept.clone(),
            None => {
                if let Some(map) = accepted.as_object_mut() {
                    map.remove(field);
                }
            }
        }
    }
    next["status"]["acceptedNames"] = accepted;
    let established = has_condition(definition, "Established");
    let (names, made) = match conflict {
        None => (
            condition(("NamesAccepted", "True"), "NoConflicts", "no conflicts found"),
            condition(
                ("Established", "True"),
                "InitialNamesAccepted",
                "the initial names have been accepted",
            ),
        ),
        Some((reason, why)) => (
            condition(("NamesAccepted", "False"), reason, &why),
            condition(("Established", "False"), "NotAccepted", "not all names are accepted"),
        ),
    };
    set_condition(&mut next["status"], names);
    if !established {
        set_condition(&mut next["status"], made);
    }
    if next["status"] == definition["status"] {
        return Ok(());
    }
    write_status(core, definition, next["status"].clone()).await
}

/// The names that are free, and the last conflict with another resource of the group.
fn conflict(
    core: &Core,
    definition: &Value,
) -> (Vec<&'static str>, Option<(&'static str, String)>) {
    let own = text(definition, "/metadata/name");
    let group = text(definition, "/spec/group");
    let listing = core.store.list(DEFINITIONS, "");
    let others = listing.objects.values().map(|entry| entry.value()).filter(|other| {
        text(other, "/metadata/name") != own && text(other, "/spec/group") == group
    });
    let others: Vec<Cow<'_, Value>> = others.collect();
    let builtins = builtin::all().into_iter().filter(|builtin| builtin.group == group);
    let builtins: Vec<Value> = builtins.map(|builtin| builtin.names()).collect();
    let is_taken = |wanted: &str, fields: &[&str]| {
        let named = |names: &Value, field: &str| match &names[field] {
            Value::String(text) => text == wanted,
            Value::Array(list) => list.iter().any(|text| text.as_str() == Some(wanted)),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
        };
        let accepted = others.iter().map(|other| &other["status"]["acceptedNames"]);
        accepted.chain(&builtins).any(|names| fields.iter().any(|field| named(names, field)))
    };
    let words = ["plural", "singular", "shortNames"];
    let kinds = ["kind", "listKind"];
    let checks: [(&'static str, &[&str], &'static str); 4] = [
        ("plural", &words, "PluralConflict"),
        ("singular", &words, "SingularConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ];
    let mut taken = Vec::new();
    let mut last = None;
    for (field, among, reason) in checks {
        let wanted = text(definition, &format!("/spec/names/{field}"));
        if is_taken(wanted, among) {
            taken.push(field);
            last = Some((reason, format!("\"{wanted}\" is already in use")));
        }
    }
    (taken, last)
}

/// Deletes the objects of a CRD in deletion, then removes its finalizer.
async fn finalize(core: &Arc<Core>, definition: &Value) -> Result<(), Refusal> {
    let finalizers = definition.pointer("/metadata/finalizers").and_then(Value::as_array);
    if !finalizers.is_some_and(|list| list.contains(&json!(CLEANUP))) {
        return Ok(());
    }
    let stored = custom::stored(definition).filter(|resource| !builtin::is_shadow(resource));
    if let Some(resource) = stored {
        let (left, refused) = clear(core, &resource).await;
        if left > 0 {
            let reason = "InstanceDeletionInProgress";
            let why = "CustomResource deletion is in progress";
            mark(core, definition, condition(("Terminating", "True"), reason, why)).await?;
            return refused.map_or(Ok(()), Err);
        }
        let reason = "InstanceDeletionCompleted";
        let why = "removed all instances";
        mark(core, definition, condition(("Terminating", "False"), reason, why)).await?;
    }
    release(core, definition).await
}

async fn mark(core: &Arc<Core>, definition: &Value, wanted: Value) -> Result<(), Refusal> {
    let mut next = definition.clone();
    set_condition(&mut next["status"], wanted);
    if next["status"] == definition["status"] {
        return Ok(());
    }
    write_status(core, definition, next["status"].clone()).await
}

/// Deletes every object; returns how many are left, and why one could not be deleted.
async fn clear(core: &Arc<Core>, resource: &Arc<Resource>) -> (usize, Option<Refusal>) {
    let user = User::with_groups("system:apiserver", &["system:masters"]);
    let mut refused = None;
    let listing = core.store.list(&resource.table, "");
    for entry in listing.objects.values() {
        if entry.is_deleting() {
            continue;
        }
        let head = entry.head();
        let place = (text(&head, "/metadata/namespace"), text(&head, "/metadata/name"));
        let mut ctx = RequestContext::new(core, resource, place, &user).by(MANAGER);
        match delete::delete(&mut ctx, &DeleteOptions::default()).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => refused = Some(refusal),
        }
    }
    (core.store.list(&resource.table, "").objects.len(), refused)
}

struct Release {
    uid: String,
}

impl Edit for Release {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        if let Some(list) = next["metadata"]["finalizers"].as_array_mut() {
            list.retain(|finalizer| finalizer.as_str() != Some(CLEANUP));
        }
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}

async fn write_status(core: &Arc<Core>, definition: &Value, status: Value) -> Result<(), Refusal> {
    let uid = text(definition, "/metadata/uid").to_owned();
    write(core, definition, Subresource::Status, &SetStatus { uid, status }).await
}

async fn release(core: &Arc<Core>, definition: &Value) -> Result<(), Refusal> {
    let uid = text(definition, "/metadata/uid").to_owned();
    write(core, definition, Subresource::Main, &Release { uid }).await
}

async fn write(
    core: &Arc<Core>,
    definition: &Value,
    sub: Subresource,
    edit: &dyn Edit,
) -> Result<(), Refusal> {
    let resource = core.resource("apiextensions.k8s.io", "v1", "customresourcedefinitions");
    let Some(resource) = resource else { return Ok(()) };
    let user = User::with_groups("system:apiserver", &["system:masters"]);
    let name = text(definition, "/metadata/name");
    let mut ctx = RequestContext::new(core, &resource, ("", name), &user).by(MANAGER);
    ctx.sub = sub;
    status::write(ctx, edit).await
}
