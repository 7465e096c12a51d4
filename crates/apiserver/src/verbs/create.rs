//! New objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{Ask, Sub, add_new, decode, written};
use crate::admission::{self, Operation, Reviewed};
use crate::core::{DEFINITIONS, NAMESPACES, text};
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::{Builtin, Resource};
use crate::meta::field::quoted;
use crate::meta::name::generated;
use crate::schema::{DEPTH_MAX, is_deeper};
use crate::status::Refusal;
use crate::store::{Entry, Expect, Need, Write, WriteError};
use crate::{clock, managed, strategy, view};

/// How often a generated name is drawn again.
const DRAWS: usize = 8;

/// Serves a POST.
pub(crate) async fn serve(mut ask: Ask<'_>, call: &Call, form: &Form) -> Result<Answer, Refusal> {
    if ask.sub != Sub::Main {
        return Err(Refusal::method_not_allowed());
    }
    let object = decode::object(&mut ask, call).map_err(|refusal| warned(&ask, refusal))?;
    at_home(ask.resource, ask.namespace, &object)?;
    let version = text(&object, "/metadata/resourceVersion");
    if !version.is_empty() && version != "0" {
        return Err(Refusal::bare("resourceVersion should not be set on objects to be created"));
    }
    let mut object = object;
    strategy::reset_system(&mut object);
    managed::on_create(&ask, &mut object);
    let object = view::to_stored(ask.resource, object);
    let made = create(&mut ask, object).await.map_err(|refusal| warned(&ask, refusal))?;
    written(201, &ask, &made, (form, call))
}

/// A refusal takes along what was to be warned of.
pub(crate) fn warned(ask: &Ask<'_>, mut refusal: Refusal) -> Refusal {
    add_new(&mut refusal.warnings, ask.warnings.iter().cloned());
    refusal
}

/// The namespace of an object is the one of its path.
pub(crate) fn at_home(resource: &Resource, namespace: &str, object: &Value) -> Result<(), Refusal> {
    let told = text(object, "/metadata/namespace");
    if !resource.namespaced || told.is_empty() || told == namespace {
        return Ok(());
    }
    Err(Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// Makes an object, in the stored form. The name may be made up here.
pub(crate) async fn create(ask: &mut Ask<'_>, mut object: Value) -> Result<Arc<Entry>, Refusal> {
    lifecycle(ask, text(&object, "/metadata/name"))?;
    ask.warn(strategy::doubled_owners(&object));
    strategy::prepare_create(ask.resource, &mut object);
    system_fields(ask, &mut object)?;
    ask.warn(strategy::warnings(ask.resource, &object));
    let errors = strategy::validate_create(ask.resource, &object);
    if !errors.is_empty() {
        let name = text(&object, "/metadata/name");
        return Err(Refusal::invalid(ask.resource, name, &errors));
    }
    let reviewed = Reviewed { operation: Operation::Create, object: Some(&object), old: None };
    let warnings = admission::review(ask, &reviewed).await?;
    ask.warn(warnings);
    store(ask, object).await
}

/// Where nothing may be made: in no namespace, in one that goes, of a kind that goes.
fn lifecycle(ask: &Ask<'_>, name: &str) -> Result<(), Refusal> {
    if ask.resource.custom().is_some_and(|custom| custom.terminating) {
        return Err(terminating(ask.resource, name));
    }
    if !ask.resource.namespaced {
        return Ok(());
    }
    let Some(namespace) = ask.core.namespace(ask.namespace) else {
        let message = format!("namespaces {} not found", quoted(ask.namespace));
        let details = json!({"name": ask.namespace, "kind": "namespaces"});
        return Err(Refusal::new(404, "NotFound", message).about(details));
    };
    if namespace.value.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    let place = ask.namespace;
    let why =
        format!("unable to create new content in namespace {place} because it is being terminated");
    let mut refusal = Refusal::forbidden(ask.resource, name, &why);
    if let Some(details) = refusal.details.as_mut() {
        details["causes"] = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {place} is being terminated"),
            "field": "metadata.namespace",
        }]);
    }
    Err(refusal)
}

fn terminating(resource: &Resource, name: &str) -> Refusal {
    let why = "create not allowed while custom resource definition is terminating";
    Refusal::forbidden(resource, name, why)
}

/// What [`lifecycle`] looked at, to be looked at again when the object is entered: whoever clears a
/// namespace or a definition that goes must not be overtaken.
fn needs(ask: &Ask<'_>) -> Vec<Need> {
    let namespace = ask.resource.namespaced.then(|| Need {
        table: Arc::from(NAMESPACES),
        key: Arc::from(ask.namespace),
        uid: None,
    });
    let definition = ask.resource.custom().map(|custom| Need {
        table: Arc::from(DEFINITIONS),
        key: Arc::from(ask.resource.qualified()),
        uid: Some(custom.uid.clone()),
    });
    namespace.into_iter().chain(definition).collect()
}

/// What the server alone says about an object.
fn system_fields(ask: &Ask<'_>, object: &mut Value) -> Result<(), Refusal> {
    let Some(root) = object.as_object_mut() else { return Ok(()) };
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    let Some(metadata) = metadata.as_object_mut() else { return Ok(()) };
    for wiped in [
        "selfLink",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "generation",
    ] {
        metadata.remove(wiped);
    }
    metadata.insert("uid".to_owned(), json!(clock::uid()?));
    metadata.insert("creationTimestamp".to_owned(), json!(clock::now()));
    if ask.resource.namespaced {
        metadata.insert("namespace".to_owned(), json!(ask.namespace));
    } else {
        metadata.remove("namespace");
    }
    if ask.resource.builtin().is_none_or(Builtin::has_generation) {
        metadata.insert("generation".to_owned(), json!(1));
    }
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let named = metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    if !named && !prefix.is_empty() {
        let name = generated(prefix, &clock::suffix()?);
        metadata.insert("name".to_owned(), json!(name));
        metadata.insert(DRAWN.to_owned(), json!(true));
    }
    Ok(())
}

/// Marks a name that was drawn, until the object is stored.
const DRAWN: &str = "\u{0}drawn";

async fn store(ask: &Ask<'_>, mut object: Value) -> Result<Arc<Entry>, Refusal> {
    let drawn = object["metadata"].as_object_mut().and_then(|meta| meta.remove(DRAWN)).is_some();
    keepable(&object)?;
    let mut name = text(&object, "/metadata/name").to_owned();
    let tries = if drawn { DRAWS } else { 1 };
    for attempt in 0..tries {
        if attempt > 0 {
            name = generated(text(&object, "/metadata/generateName"), &clock::suffix()?);
            object["metadata"]["name"] = json!(name);
        }
        let key = ask.resource.key(ask.namespace, &name);
        let there = ask.core.store.get(&ask.resource.table, &key);
        if there.is_none() && ask.options.dry_run {
            return Ok(Arc::new(Entry::new(0, object)));
        }
        if there.is_none() {
            let table = Arc::clone(&ask.resource.table);
            let value = if drawn { object.clone() } else { std::mem::take(&mut object) };
            let value = Some(value);
            let needs = needs(ask);
            let write = Write { table, key, expect: Expect::Absent, value, needs };
            match ask.core.store.write(write).await {
                Ok(entry) => {
                    return entry.ok_or_else(|| Refusal::bare("cannot read what was written"));
                }
                Err(WriteError::Changed(revision)) => seen(ask, revision).await?,
                Err(WriteError::Leaving(revision)) => {
                    seen(ask, revision).await?;
                    lifecycle(ask, &name)?;
                    return Err(terminating(ask.resource, &name));
                }
                Err(WriteError::Failed) => return Err(not_kept()),
            }
        }
    }
    let there = ask.core.store.get(&ask.resource.table, &ask.resource.key(ask.namespace, &name));
    let leaving =
        there.is_some_and(|entry| entry.value.pointer("/metadata/deletionTimestamp").is_some());
    let mut refusal = Refusal::already_exists(ask.resource, &name, leaving);
    if drawn {
        refusal.retry_after = Some(1);
    }
    Err(refusal)
}

/// Refuses what could be written but not read again: the managed fields are deeper than the fields
/// they tell of, and lists and reviews put levels around an object.
pub(crate) fn keepable(object: &Value) -> Result<(), Refusal> {
    if is_deeper(object, DEPTH_MAX) {
        let why = format!("the object is nested deeper than {DEPTH_MAX} levels");
        return Err(Refusal::bad_request(why));
    }
    Ok(())
}

/// Waits until what stood in the way can be read, or will never be there.
async fn seen(ask: &Ask<'_>, revision: u64) -> Result<(), Refusal> {
    if ask.core.store.published(revision).await { Ok(()) } else { Err(not_kept()) }
}

/// The file does not take writes any more.
pub(crate) fn not_kept() -> Refusal {
    Refusal::internal("cannot keep the write")
}
