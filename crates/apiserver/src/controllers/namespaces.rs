//! A namespace that goes takes its content along.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

use super::feed::Feed;
use crate::auth::User;
use crate::clock;
use crate::core::{Core, NAMESPACES, has_entries, text};
use crate::kinds::Resource;
use crate::status::Refusal;
use crate::verbs::delete::{self, DeleteOptions, Policy};
use crate::verbs::options::WriteOptions;
use crate::verbs::update::{Edit, update};
use crate::verbs::{Ask, Sub};

const MANAGER: &str = "kube-controller-manager";
const FIRST_RETRY: std::time::Duration = std::time::Duration::from_millis(5);
const LAST_RETRY: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs until the server ends.
pub(crate) async fn run(core: Arc<Core>) {
    let mut feed = Feed::new(&core);
    let mut patience = FIRST_RETRY;
    let mut failed = false;
    loop {
        let woken = tokio::select! {
            woken = feed.wait() => woken,
            () = tokio::time::sleep(patience), if failed => {
                patience = (patience * 2).min(LAST_RETRY);
                Some(false)
            }
        };
        if woken.is_none() {
            return;
        }
        feed.look();
        failed = false;
        let listing = core.store.list(NAMESPACES, "");
        for entry in listing.objects.values() {
            let leaving = entry.value.pointer("/metadata/deletionTimestamp").is_some();
            if leaving && has_entries(&entry.value, "/spec/finalizers") {
                failed |= empty(&core, &entry.value).await.is_err();
            }
        }
        if !failed {
            patience = FIRST_RETRY;
        }
    }
}

/// What is left in a namespace.
#[derive(Default)]
struct Left {
    /// Objects by resource.
    objects: BTreeMap<String, usize>,
    /// Objects by finalizer.
    finalizers: BTreeMap<String, usize>,
    /// What went wrong.
    failures: Vec<String>,
}

/// Deletes what is in a namespace, and the namespace when nothing is left.
async fn empty(core: &Arc<Core>, namespace: &Value) -> Result<(), Refusal> {
    let name = text(namespace, "/metadata/name");
    let mut left = Left::default();
    for resource in core.registry.kinds().tables() {
        if resource.namespaced {
            clear(core, &resource, name, &mut left).await;
        }
    }
    let status = status(namespace, &left);
    let uid = text(namespace, "/metadata/uid").to_owned();
    if status != namespace["status"] {
        write(core, name, Sub::Status, &Status { uid: uid.clone(), status }).await?;
    }
    if !left.failures.is_empty() {
        return Err(Refusal::internal("content could not be deleted"));
    }
    if left.objects.is_empty() {
        write(core, name, Sub::Finalize, &Finalize { uid }).await?;
    }
    Ok(())
}

async fn clear(core: &Arc<Core>, resource: &Arc<Resource>, namespace: &str, left: &mut Left) {
    let user = user();
    let prefix = resource.prefix(namespace);
    let options = DeleteOptions {
        policy: Some(Policy::Background),
        told: json!({
            "kind": "DeleteOptions",
            "apiVersion": "meta.k8s.io/v1",
            "propagationPolicy": "Background",
        }),
        ..DeleteOptions::default()
    };
    for entry in core.store.list(&resource.table, &prefix).objects.values() {
        if entry.value.pointer("/metadata/deletionTimestamp").is_some() {
            continue;
        }
        let mut ask = Ask {
            core,
            resource,
            namespace,
            name: text(&entry.value, "/metadata/name"),
            sub: Sub::Main,
            user: &user,
            options: WriteOptions::internal(MANAGER),
            warnings: Vec::new(),
        };
        match delete::delete(&mut ask, &options).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => left.failures.push(refusal.message),
        }
    }
    for entry in core.store.list(&resource.table, &prefix).objects.values() {
        *left.objects.entry(format!("{}.{}", resource.plural, resource.group)).or_default() += 1;
        let finalizers = entry.value.pointer("/metadata/finalizers").and_then(Value::as_array);
        for finalizer in finalizers.into_iter().flatten().filter_map(Value::as_str) {
            *left.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
}

/// The conditions that tell what the namespace waits for.
fn status(namespace: &Value, left: &Left) -> Value {
    let mut status = namespace["status"].clone();
    let failed = !left.failures.is_empty();
    let content = if failed {
        let list = left.failures.join(", ");
        (
            "True",
            "ContentDeletionFailed",
            format!("Failed to delete all resource types, 1 remaining: {list}"),
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
    let objects = if left.objects.is_empty() {
        ("False", "ContentRemoved", "All content successfully removed".to_owned())
    } else {
        let list = counted(&left.objects, "has");
        ("True", "SomeResourcesRemain", format!("Some resources are remaining: {list}"))
    };
    let finalizers = if left.finalizers.is_empty() {
        ("False", "ContentHasNoFinalizers", "All content-preserving finalizers finished".to_owned())
    } else {
        let list = counted(&left.finalizers, "in");
        let why = format!("Some content in the namespace has finalizers remaining: {list}");
        ("True", "SomeFinalizersRemain", why)
    };
    let discovered =
        ("False", "ResourcesDiscovered", "All resources successfully discovered".to_owned());
    let parsed =
        ("False", "ParsedGroupVersions", "All legacy kube types successfully parsed".to_owned());
    for (kind, condition) in [
        ("NamespaceDeletionDiscoveryFailure", discovered),
        ("NamespaceDeletionGroupVersionParsingFailure", parsed),
        ("NamespaceDeletionContentFailure", content),
        ("NamespaceContentRemaining", objects),
        ("NamespaceFinalizersRemaining", finalizers),
    ] {
        set(&mut status, kind, &condition);
    }
    status
}

fn set(status: &mut Value, kind: &str, (state, reason, message): &(&str, &str, String)) {
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(list) = status["conditions"].as_array_mut() else { return };
    let mut wanted = json!({
        "type": kind,
        "status": state,
        "lastTransitionTime": clock::now(),
        "reason": reason,
        "message": message,
    });
    match list.iter_mut().find(|condition| condition["type"].as_str() == Some(kind)) {
        Some(found) => {
            if found["status"] == wanted["status"] {
                wanted["lastTransitionTime"] = found["lastTransitionTime"].clone();
            }
            *found = wanted;
        }
        None => list.push(wanted),
    }
}

fn user() -> User {
    User::with_groups(
        "system:serviceaccount:kube-system:namespace-controller",
        &["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"],
    )
}

async fn write(core: &Arc<Core>, name: &str, sub: Sub, edit: &dyn Edit) -> Result<(), Refusal> {
    let Some(resource) = core.resource("", "v1", "namespaces") else { return Ok(()) };
    let user = user();
    let mut ask = Ask {
        core,
        resource: &resource,
        namespace: "",
        name,
        sub,
        user: &user,
        options: WriteOptions::internal(MANAGER),
        warnings: Vec::new(),
    };
    match update(&mut ask, edit).await {
        Ok(_) => Ok(()),
        Err(refusal) if refusal.code == 404 || refusal.code == 409 => Ok(()),
        Err(refusal) => Err(refusal),
    }
}

struct Status {
    uid: String,
    status: Value,
}

impl Edit for Status {
    fn edit(&self, _ask: &mut Ask<'_>, current: &Value) -> Result<Value, Refusal> {
        let mut next = current.clone();
        next["status"] = self.status.clone();
        Ok(next)
    }

    fn uid(&self) -> &str {
        &self.uid
    }
}

struct Finalize {
    uid: String,
}

impl Edit for Finalize {
    fn edit(&self, _ask: &mut Ask<'_>, current: &Value) -> Result<Value, Refusal> {
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

    fn uid(&self) -> &str {
        &self.uid
    }
}
