//! Creation of objects.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{RequestContext, Subresource, add_new, decode, written};
use crate::admission::{self, Operation, Reviewed};
use crate::core::{DEFINITIONS, NAMESPACES, text};
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::{Builtin, Resource};
use crate::meta::field::quoted;
use crate::meta::name::generated;
use crate::schema::{DEPTH_MAX, is_deeper};
use crate::status::Refusal;
use crate::store::{Entry, Expect, Precondition, Write, WriteError};
use crate::{auth, clock, managed, rbac, strategy, view};

/// Attempts to generate a free name.
const NAME_ATTEMPTS: usize = 8;

/// Serves a POST.
pub(crate) async fn serve(
    mut ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    if ctx.sub != Subresource::Main {
        return Err(Refusal::method_not_allowed());
    }
    let object = decode::object(&mut ctx, call).map_err(|refusal| warned(&ctx, refusal))?;
    check_namespace(ctx.resource, ctx.namespace, &object)?;
    let mut object = object;
    strategy::reset_system(&mut object);
    managed::on_create(&ctx, &mut object);
    let object = view::to_stored(ctx.resource, object);
    let made = create(&mut ctx, object, Creation::Post).await;
    let made = made.map_err(|refusal| warned(&ctx, refusal))?;
    written(201, &ctx, &made, (form, call))
}

/// Adds the warnings so far to an error.
pub(crate) fn warned(ctx: &RequestContext<'_>, mut refusal: Refusal) -> Refusal {
    add_new(&mut refusal.warnings, ctx.warnings.iter().cloned());
    refusal
}

/// Refuses an object of another namespace than its path.
pub(crate) fn check_namespace(
    resource: &Resource,
    namespace: &str,
    object: &Value,
) -> Result<(), Refusal> {
    let given = text(object, "/metadata/namespace");
    if !resource.namespaced || given.is_empty() || given == namespace {
        return Ok(());
    }
    Err(Refusal::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// What creates an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Creation {
    /// A request that can only create.
    Post,
    /// A request that would have changed the object if there were one.
    Update,
}

/// Creates an object, in the storage version; generates its name if needed.
pub(crate) async fn create(
    ctx: &mut RequestContext<'_>,
    mut object: Value,
    creation: Creation,
) -> Result<Arc<Entry>, Refusal> {
    lifecycle(ctx, text(&object, "/metadata/name"))?;
    ctx.warn(strategy::duplicate_owners(&object));
    strategy::prepare_create(ctx.resource, &mut object);
    let drawn = system_fields(ctx, &mut object)?;
    rbac::check_escalation(ctx, &object, None)?;
    ctx.warn(strategy::warnings(ctx.resource, &object, None));
    let errors = strategy::validate_create(ctx.resource, &object);
    if !errors.is_empty() {
        let name = text(&object, "/metadata/name");
        return Err(Refusal::invalid(ctx.resource, name, &errors));
    }
    if creation == Creation::Update {
        auth::authorize_creation(ctx)?;
    }
    let reviewed = Reviewed { operation: Operation::Create, object: Some(&object), old: None };
    let warnings = admission::review(ctx, &reviewed).await?;
    ctx.warn(warnings);
    if !ctx.options.dry_run {
        let version = drop_version(&mut object);
        if creation == Creation::Post && version.parse().is_ok_and(|version: u64| version > 0) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Refusal::bare(why));
        }
    }
    store(ctx, object, drawn).await
}

/// Removes the revision of a new object; a dry run returns it.
fn drop_version(object: &mut Value) -> String {
    let metadata = object.get_mut("metadata").and_then(Value::as_object_mut);
    let version = metadata.and_then(|metadata| metadata.remove("resourceVersion"));
    version.as_ref().and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// Refuses creation in a missing or terminating namespace, or of a terminating CRD.
fn lifecycle(ctx: &RequestContext<'_>, name: &str) -> Result<(), Refusal> {
    if ctx.resource.custom().is_some_and(|custom| custom.terminating) {
        return Err(terminating(ctx.resource, name));
    }
    if !ctx.resource.namespaced {
        return Ok(());
    }
    let Some(namespace) = ctx.core.namespace(ctx.namespace) else {
        let message = format!("namespaces {} not found", quoted(ctx.namespace));
        let details = json!({"name": ctx.namespace, "kind": "namespaces"});
        return Err(Refusal::new(404, "NotFound", message).about(details));
    };
    if !namespace.is_deleting() {
        return Ok(());
    }
    let place = ctx.namespace;
    let why =
        format!("unable to create new content in namespace {place} because it is being terminated");
    let mut refusal = Refusal::forbidden(ctx.resource, name, &why);
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

/// The conditions of [`lifecycle`], checked again with the write: the controller that empties a
/// namespace or CRD must not miss an object.
fn preconditions(ctx: &RequestContext<'_>) -> Vec<Precondition> {
    let namespace = ctx.resource.namespaced.then(|| Precondition {
        table: Arc::from(NAMESPACES),
        key: Arc::from(ctx.namespace),
        uid: None,
    });
    let definition = ctx.resource.custom().map(|custom| Precondition {
        table: Arc::from(DEFINITIONS),
        key: Arc::from(ctx.resource.qualified()),
        uid: Some(custom.uid.clone()),
    });
    namespace.into_iter().chain(definition).collect()
}

/// Sets the system fields of a new object; returns whether its name was generated.
fn system_fields(ctx: &RequestContext<'_>, object: &mut Value) -> Result<bool, Refusal> {
    let Some(root) = object.as_object_mut() else { return Ok(false) };
    let metadata = root.entry("metadata").or_insert_with(|| json!({}));
    if metadata.is_null() {
        *metadata = json!({});
    }
    let Some(metadata) = metadata.as_object_mut() else { return Ok(false) };
    for wiped in ["selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "generation"] {
        metadata.remove(wiped);
    }
    metadata.insert("uid".to_owned(), json!(clock::uid()?));
    metadata.insert("creationTimestamp".to_owned(), json!(clock::now()));
    if ctx.resource.namespaced {
        metadata.insert("namespace".to_owned(), json!(ctx.namespace));
    } else {
        metadata.remove("namespace");
    }
    if ctx.resource.builtin().is_none_or(Builtin::has_generation) {
        metadata.insert("generation".to_owned(), json!(1));
    }
    let prefix = metadata.get("generateName").and_then(Value::as_str).unwrap_or_default();
    let named = metadata.get("name").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let drawn = !named && !prefix.is_empty();
    if drawn {
        let name = generated(prefix, &clock::suffix()?);
        metadata.insert("name".to_owned(), json!(name));
    }
    Ok(drawn)
}

/// Stores a new object; a generated name that is taken is generated again.
async fn store(
    ctx: &RequestContext<'_>,
    mut object: Value,
    drawn: bool,
) -> Result<Arc<Entry>, Refusal> {
    check_depth(&object)?;
    let mut name = text(&object, "/metadata/name").to_owned();
    let tries = if drawn { NAME_ATTEMPTS } else { 1 };
    for attempt in 0..tries {
        if attempt > 0 {
            name = generated(text(&object, "/metadata/generateName"), &clock::suffix()?);
            object["metadata"]["name"] = json!(name);
        }
        let key = ctx.resource.key(ctx.namespace, &name);
        let there = ctx.core.store.get(&ctx.resource.table, &key);
        if there.is_none() && ctx.options.dry_run {
            return Ok(Arc::new(Entry::transient(0, object)));
        }
        if there.is_none() {
            let table = Arc::clone(&ctx.resource.table);
            let value = if drawn { object.clone() } else { std::mem::take(&mut object) };
            let value = Some(value);
            let preconditions = preconditions(ctx);
            let write = Write { table, key, expect: Expect::Absent, value, preconditions };
            match ctx.core.store.write(write).await {
                Ok(entry) => {
                    return entry.ok_or_else(|| Refusal::bare("failed to read the written object"));
                }
                Err(WriteError::Changed(revision)) => seen(ctx, revision).await?,
                Err(WriteError::Leaving(revision)) => {
                    seen(ctx, revision).await?;
                    lifecycle(ctx, &name)?;
                    return Err(terminating(ctx.resource, &name));
                }
                Err(WriteError::Failed) => return Err(write_failed()),
            }
        }
    }
    let there = ctx.core.store.get(&ctx.resource.table, &ctx.resource.key(ctx.namespace, &name));
    let leaving = there.is_some_and(|entry| entry.is_deleting());
    let mut refusal = Refusal::already_exists(ctx.resource, &name, leaving);
    if drawn {
        refusal.retry_after = Some(1);
    }
    Err(refusal)
}

/// Refuses an object that is too deep to be read again: managed fields are deeper than the fields
/// they describe, and lists and reviews add levels around an object.
pub(crate) fn check_depth(object: &Value) -> Result<(), Refusal> {
    if is_deeper(object, DEPTH_MAX) {
        let why = format!("the object is nested deeper than {DEPTH_MAX} levels");
        return Err(Refusal::bad_request(why));
    }
    Ok(())
}

/// Waits until a conflicting write is published.
async fn seen(ctx: &RequestContext<'_>, revision: u64) -> Result<(), Refusal> {
    if ctx.core.store.published(revision).await { Ok(()) } else { Err(write_failed()) }
}

/// Writing has failed until a restart.
pub(crate) fn write_failed() -> Refusal {
    Refusal::internal("writing has failed until a restart")
}
