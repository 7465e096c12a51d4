//! Deletes the content of a namespace before the namespace.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::Pass;
use super::status::{self, SetStatus, condition, set_condition};
use crate::auth::User;
use crate::core::{Core, NAMESPACES, has_entries, text};
use crate::kinds::Resource;
use crate::status::Refusal;
use crate::store::Entry;
use crate::verbs::delete::{self, DeleteOptions, Policy};
use crate::verbs::update::Edit;
use crate::verbs::{RequestContext, Subresource};

const MANAGER: &str = "kube-controller-manager";

/// Runs until shutdown.
pub(crate) async fn run(core: Arc<Core>) {
    super::repeat(core, NAMESPACES, pass).await;
}

/// Empties every namespace in deletion once.
async fn pass(core: Arc<Core>) -> Pass {
    let leaving = terminating(&core);
    let mut failed = false;
    for namespace in &leaving {
        failed |= reconcile(&core, &namespace.value()).await.is_err();
    }
    Pass { leaving: !leaving.is_empty(), failed }
}

/// The namespaces in deletion.
fn terminating(core: &Core) -> Vec<Arc<Entry>> {
    let listing = core.store.list(NAMESPACES, "");
    let leaves =
        |entry: &Arc<Entry>| entry.is_deleting() && has_entries(&entry.value(), "/spec/finalizers");
    listing.objects.into_values().filter(leaves).collect()
}

/// The remaining content of a namespace.
#[derive(Default)]
struct Remaining {
    /// Objects by resource.
    objects: BTreeMap<String, usize>,
    /// Objects by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// The first error of every resource whose deletion failed.
    failures: Vec<String>,
}

/// Deletes the content of a namespace, and then the namespace.
async fn reconcile(core: &Arc<Core>, namespace: &Value) -> Result<(), Refusal> {
    let name = text(namespace, "/metadata/name");
    let mut remaining = Remaining::default();
    for resource in core.registry.kinds().tables() {
        if resource.namespaced {
            clear(core, &resource, name, &mut remaining).await;
        }
    }
    let status = conditions(namespace, &remaining);
    let uid = text(namespace, "/metadata/uid").to_owned();
    if status != namespace["status"] {
        write(core, name, Subresource::Status, &SetStatus { uid: uid.clone(), status }).await?;
    }
    if !remaining.failures.is_empty() {
        return Err(Refusal::internal("content could not be deleted"));
    }
    if remaining.objects.is_empty() {
        write(core, name, Subresource::Finalize, &Finalize { uid }).await?;
    }
    Ok(())
}

async fn clear(
    core: &Arc<Core>,
    resource: &Arc<Resource>,
    namespace: &str,
    remaining: &mut Remaining,
) {
    let user = user();
    let prefix = resource.prefix(namespace);
    let options = DeleteOptions {
        policy: Some(Policy::Background),
        given: json!({
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/v1",
            "propagationPolicy": "Background",
        }),
        ..DeleteOptions::default()
    };
    for entry in core.store.list(&resource.table, &prefix).objects.values() {
        if entry.is_deleting() {
            continue;
        }
        let head = entry.head();
        let name = text(&head, "/metadata/name");
        let mut ctx = RequestContext::new(core, resource, (namespace, name), &user).by(MANAGER);
        match delete::delete_one_of_many(&mut ctx, &options).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => {
                // As in Kubernetes, what remains is not counted then.
                remaining.failures.push(refusal.message);
                return;
            }
        }
    }
    for entry in core.store.list(&resource.table, &prefix).objects.values() {
        *remaining.objects.entry(format!("{}.{}", resource.plural, resource.group)).or_default() +=
            1;
        let head = entry.head();
        let finalizers = head.pointer("/metadata/finalizers").and_then(Value::as_array);
        for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
            *remaining.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// The conditions that explain what the namespace waits for.
fn conditions(namespace: &Value, remaining: &Remaining) -> Value {
    let mut status = namespace["status"].clone();
    let failed = !remaining.failures.is_empty();
    let content = if failed {
        let mut list = remaining.failures.clone();
        list.sort();
        let list = list.join(", ");
        let count = remaining.failures.len();
        (
            "True",
            "ContentDeletionFailed",
            format!("Failed to delete all resource types, {count} remaining: {list}"),
        )
    } else {
        let done = "All content successfully deleted, may be waiting on finalization";
        ("False", "ContentDeleted", done.to_owned())
    };
    let counted = |map: &BTreeMap<String, usize>, word: &str| {
        let parts: Vec<String> = map
            .iter()
            .map(|(name, count)| format!("{name} {word} {count} resource instances"))
            .collect();
        parts.join(", ")
    };
    let objects = if remaining.objects.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        let list = counted(&remaining.objects, "has");
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {list}"))
    };
    let finalizers = if remaining.finalizers.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        let list = counted(&remaining.finalizers, "in");
        let why = format!("Some content in the namespace has finalizers remaining: {list}");
        ("True", "SomeFinalizersRemain", why)
    };
    let discovered =
        ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned());
    let parsed =
        ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned());
    for (kind, (state, reason, message)) in [
        ("NamespaceDeletionDiscoveryFailure", discovered),
        ("NamespaceDeletionGroupVersionParsingFailure", parsed),
        ("NamespaceDeletionContentFailure", content),
        ("NamespaceContentRemaining", objects),
        ("NamespaceFinalizersRemaining", finalizers),
    ] {
        set_condition(&mut status, condition((kind, state), reason, &message));
    }
    status
}

fn user() -> User {
    User::with_groups(
        "system:serviceaccount:kube-system:namespace-controller",
        &["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
    )
}

async fn write(
    core: &Arc<Core>,
    name: &str,
    sub: Subresource,
    edit: &dyn Edit,
) -> Result<(), Refusal> {
    let Some(resource) = core.resource("", "v1", "namespaces") else { return Ok(()) };
    let user = user();
    let mut ctx = RequestContext::new(core, &resource, ("", name), &user).by(MANAGER);
    ctx.sub = sub;
    status::write(ctx, edit).await
}

struct Finalize {
    uid: String,
}

impl Edit for Finalize {
    fn edit(&self, _ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        if let Some(spec) = next["spec"].as_object_mut() {
            let list = spec.get_mut("finalizers").and_then(Value::as_array_mut);
            let emptied = list.is_some_and(|list| {
                list.retain(|finalizer| finalizer.as_str() != Some("kubernetes"));
                list.is_empty()
            });
            if emptied {
                spec.remove("finalizers");
            }
        }
        Ok(next)
    }

    fn uid(&self) -> Option<&str> {
        Some(&self.uid)
    }
}
