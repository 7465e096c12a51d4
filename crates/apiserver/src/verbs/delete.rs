//! Deletion of objects, with finalizers and propagation.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::write_failed;
use super::options::dry_run_errors;
use super::select::Selection;
use super::{RequestContext, Subresource, json as text_json};
use crate::admission::{self, Operation, Reviewed};
use crate::auth::User;
use crate::clock;
use crate::core::{Core, has_entries, text};
use crate::http::negotiate::Form;
use crate::http::route::Place;
use crate::http::{Answer, Call, Query};
use crate::kinds::{Builtin, Resource};
use crate::meta::field::{FieldError, Path};
use crate::status::{Refusal, details};
use crate::store::{Entry, Expect, Write, WriteError};
use crate::view::{self, Page};

const TRIES: usize = 100;
const PROTECTED: [&str; 3] = ["default", "kube-system", "kube-public"];
pub(crate) const FOREGROUND: &str = "foregroundDeletion";
pub(crate) const ORPHAN: &str = "orphan";
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";

/// The options of a deletion.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct DeleteOptions {
    pub(crate) uid: Option<String>,
    pub(crate) version: Option<String>,
    pub(crate) policy: Option<Policy>,
    pub(crate) dry_run: bool,
    /// `orphanDependents: false`, which is answered with 202.
    pub(crate) legacy: bool,
    /// The options as sent, for webhooks.
    pub(crate) given: Value,
}

/// The propagation policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    Orphan,
    Background,
    Foreground,
}

/// The result of a deletion.
pub(crate) enum Outcome {
    /// The object is gone; this is its last version.
    Gone(Value),
    /// The object waits for its finalizers.
    Waits(Value),
}

/// Serves the deletion of one object.
pub(super) async fn serve(
    ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    if ctx.sub != Subresource::Main {
        return Err(Refusal::method_not_allowed());
    }
    let options = read(call)?;
    let mut ctx = ctx;
    ctx.options.dry_run = options.dry_run;
    let outcome = delete(&mut ctx, &options).await?;
    let code = if options.legacy { 202 } else { 200 };
    let answer = match outcome {
        Outcome::Waits(object) => view::one(code, ctx.resource, &object, (form, &call.query))?,
        Outcome::Gone(object)
            if ctx.resource.builtin().is_some_and(Builtin::deletion_returns_object) =>
        {
            view::one(200, ctx.resource, &object, (form, &call.query))?
        }
        Outcome::Gone(object) => {
            let mut details = details(&ctx.resource.group, &ctx.resource.plural, ctx.name);
            details["uid"] = object.pointer("/metadata/uid").cloned().unwrap_or_default();
            Answer::json(
                200,
                &json!({
                    "kind": "Status",
                    "apiVersion": "v1",
                    "metadata": {},
                    "status": "Success",
                    "details": details,
                }),
            )
        }
    };
    Ok(answer.warn(ctx.warnings))
}

/// Serves the deletion of a collection.
pub(super) async fn serve_collection(
    core: &Arc<Core>,
    call: &Call,
    place: &Place,
    resource: &Arc<Resource>,
) -> Result<Answer, Refusal> {
    let options = read(call)?;
    let selection = Selection::read(&call.query, resource)?;
    let form = crate::http::negotiate::negotiate(&call.accept)?;
    let listing = core.store.list(&resource.table, &resource.prefix(&place.namespace));
    let objects = listing.objects.into_values();
    let chosen: Vec<Arc<Entry>> = objects.filter(|entry| selection.matches(entry)).collect();
    let warnings = all(core, &call.user, (resource, &chosen), &options).await?;
    let page = Page { revision: listing.revision, next: None, remaining: None };
    let answer = view::many(resource, &chosen, &page, (&form, &call.query))?;
    Ok(answer.warn(warnings))
}

async fn all(
    core: &Arc<Core>,
    user: &User,
    (resource, chosen): (&Arc<Resource>, &[Arc<Entry>]),
    options: &DeleteOptions,
) -> Result<Vec<String>, Refusal> {
    let mut warnings = Vec::new();
    for entry in chosen {
        let head = entry.head();
        let place = (text(&head, "/metadata/namespace"), text(&head, "/metadata/name"));
        let mut ctx = RequestContext::new(core, resource, place, user);
        ctx.options.dry_run = options.dry_run;
        match delete_one_of_many(&mut ctx, options).await {
            Ok(_) => {}
            Err(refusal) if refusal.code == 404 => {}
            Err(refusal) => return Err(refusal),
        }
        warnings.extend(ctx.warnings);
    }
    Ok(warnings)
}

/// Deletes an object, or sets its deletion timestamp.
pub(crate) async fn delete(
    ctx: &mut RequestContext<'_>,
    options: &DeleteOptions,
) -> Result<Outcome, Refusal> {
    delete_as(ctx, options, false).await
}

/// Deletes an object as one of a collection.
pub(crate) async fn delete_one_of_many(
    ctx: &mut RequestContext<'_>,
    options: &DeleteOptions,
) -> Result<Outcome, Refusal> {
    delete_as(ctx, options, true).await
}

async fn delete_as(
    ctx: &mut RequestContext<'_>,
    options: &DeleteOptions,
    collection: bool,
) -> Result<Outcome, Refusal> {
    protected(ctx)?;
    for _ in 0..TRIES {
        let current = ctx.current().ok_or_else(|| ctx.not_found())?;
        let value = current.value();
        preconditions(ctx, options, &value)?;
        let operation = if collection { Operation::DeleteOfMany } else { Operation::Delete };
        let reviewed = Reviewed { operation, object: None, old: Some(&value) };
        let mut given = options.given.clone();
        if ctx.resource.is_builtin(Builtin::Namespace) && given["preconditions"].is_null() {
            given["preconditions"] = json!({"uid": text(&value, "/metadata/uid")});
        }
        let given = std::mem::replace(&mut ctx.options.given, given);
        let warnings = admission::review(ctx, &reviewed).await;
        ctx.options.given = given;
        ctx.warn(warnings?);
        let next = marked(ctx.resource, &value, options);
        if let Some(outcome) = commit(ctx, (current.revision, value.into_owned()), next).await? {
            return Ok(outcome);
        }
    }
    Err(Refusal::modified(ctx.resource, ctx.name))
}

fn protected(ctx: &RequestContext<'_>) -> Result<(), Refusal> {
    if ctx.resource.is_builtin(Builtin::Namespace) && PROTECTED.contains(&ctx.name) {
        let why = "this namespace may not be deleted";
        return Err(Refusal::forbidden(ctx.resource, ctx.name, why));
    }
    Ok(())
}

fn preconditions(
    ctx: &RequestContext<'_>,
    options: &DeleteOptions,
    current: &Value,
) -> Result<(), Refusal> {
    let uid = text(current, "/metadata/uid");
    let version = text(current, "/metadata/resourceVersion");
    let why = match (&options.uid, &options.version) {
        (Some(given), _) if given != uid => format!(
            "the UID in the precondition ({given}) does not match the UID in record ({uid}). The \
             object might have been deleted and then recreated"
        ),
        (_, Some(given)) if given != version => format!(
            "the ResourceVersion in the precondition ({given}) does not match the ResourceVersion \
             in record ({version}). The object might have been modified"
        ),
        (Some(_) | None, Some(_) | None) => return Ok(()),
    };
    let resource = ctx.resource;
    let mut refusal = Refusal::conflict(resource, ctx.name, &why);
    let dotted = if resource.group.is_empty() {
        resource.kind.clone()
    } else {
        format!("{}.{}", resource.kind, resource.group)
    };
    refusal.message = format!("Operation cannot be fulfilled on {dotted} \"{}\": {why}", ctx.name);
    Err(refusal.about(details(&resource.group, &resource.kind, ctx.name)))
}

/// The object with its deletion timestamp; `None` if it can be removed at once.
fn marked(resource: &Resource, current: &Value, options: &DeleteOptions) -> Option<Value> {
    let mut next = current.clone();
    let metadata = next.get_mut("metadata")?.as_object_mut()?;
    let finalizers = finalizers(metadata.get("finalizers"), options.policy);
    let finalizers = match resource.builtin() {
        Some(Builtin::CustomResourceDefinition) => with(finalizers, CLEANUP),
        Some(_) | None => finalizers,
    };
    let deleting = metadata.contains_key("deletionTimestamp");
    if finalizers.is_empty() {
        metadata.remove("finalizers");
    } else {
        metadata.insert("finalizers".to_owned(), json!(finalizers));
    }
    if resource.is_builtin(Builtin::Namespace) {
        return namespace_marked(next, deleting);
    }
    if finalizers.is_empty() {
        return None;
    }
    if !deleting {
        let metadata = next.get_mut("metadata")?.as_object_mut()?;
        metadata.insert("deletionTimestamp".to_owned(), json!(clock::now()));
        let counts = !resource.is_builtin(Builtin::CustomResourceDefinition);
        if counts {
            metadata.insert("deletionGracePeriodSeconds".to_owned(), json!(0));
        }
        let generation = metadata.get("generation").and_then(Value::as_i64);
        if let Some(generation) = generation.filter(|generation| counts && *generation > 0) {
            metadata.insert("generation".to_owned(), json!(generation + 1));
        }
        if resource.is_builtin(Builtin::CustomResourceDefinition) {
            crate::controllers::definitions::terminating(&mut next);
        }
    }
    Some(next)
}

/// A namespace first waits for the deletion of its content.
fn namespace_marked(mut next: Value, deleting: bool) -> Option<Value> {
    let held = has_entries(&next, "/spec/finalizers") || has_entries(&next, "/metadata/finalizers");
    if !held && deleting {
        return None;
    }
    if !deleting {
        next["metadata"]["deletionTimestamp"] = json!(clock::now());
    }
    next["status"]["phase"] = json!("Terminating");
    Some(next)
}

/// The finalizers under a propagation policy.
fn finalizers(current: Option<&Value>, policy: Option<Policy>) -> Vec<String> {
    let current = current.and_then(Value::as_array).into_iter().flatten();
    let current: Vec<String> = current.filter_map(Value::as_str).map(str::to_owned).collect();
    let had = |wanted: &str| current.iter().any(|finalizer| finalizer == wanted);
    let added = match policy {
        Some(Policy::Orphan) => Some(ORPHAN),
        Some(Policy::Foreground) => Some(FOREGROUND),
        None if had(ORPHAN) => Some(ORPHAN),
        None if had(FOREGROUND) => Some(FOREGROUND),
        Some(Policy::Background) | None => None,
    };
    let kept = |finalizer: &String| {
        finalizer != ORPHAN && finalizer != FOREGROUND || added == Some(finalizer.as_str())
    };
    let left: Vec<String> = current.into_iter().filter(kept).collect();
    match added {
        Some(added) => with(left, added),
        None => left,
    }
}

fn with(mut finalizers: Vec<String>, added: &str) -> Vec<String> {
    if !finalizers.iter().any(|finalizer| finalizer == added) {
        finalizers.push(added.to_owned());
    }
    finalizers
}

async fn commit(
    ctx: &RequestContext<'_>,
    (revision, current): (u64, Value),
    next: Option<Value>,
) -> Result<Option<Outcome>, Refusal> {
    if next.as_ref() == Some(&current) {
        return Ok(Some(Outcome::Waits(current)));
    }
    if ctx.options.dry_run {
        return Ok(Some(next.map_or(Outcome::Gone(current), Outcome::Waits)));
    }
    let gone = next.is_none();
    let write = Write {
        table: ctx.resource.table.clone(),
        key: ctx.key(),
        expect: Expect::Revision(revision),
        value: next,
        preconditions: Vec::new(),
    };
    match ctx.core.store.write(write).await {
        Ok(last) if gone => {
            let last = last.map_or(current, |last| last.value().into_owned());
            Ok(Some(Outcome::Gone(last)))
        }
        Ok(entry) => Ok(entry.map(|entry| Outcome::Waits(entry.value().into_owned()))),
        Err(WriteError::Changed(revision) | WriteError::Leaving(revision)) => {
            ctx.core.store.published(revision).await;
            Ok(None)
        }
        Err(WriteError::Failed) => Err(write_failed()),
    }
}

/// Parses the options from the body if there is one, else from the query.
fn read(call: &Call) -> Result<DeleteOptions, Refusal> {
    let given = if call.body.is_empty() { from_query(&call.query)? } else { from_body(call)? };
    let policy = text(&given, "/propagationPolicy");
    let orphan = given.get("orphanDependents").and_then(Value::as_bool);
    let path = Path::new("propagationPolicy");
    let mut errors = Vec::new();
    if orphan.is_some() && !policy.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid_text(&path, policy, why));
    }
    let parsed = match policy {
        "" => match orphan {
            Some(true) => Some(Policy::Orphan),
            Some(false) => Some(Policy::Background),
            None => None,
        },
        "Orphan" => Some(Policy::Orphan),
        "Background" => Some(Policy::Background),
        "Foreground" => Some(Policy::Foreground),
        _ => {
            let supported = ["Foreground", "Background", "Orphan", "nil"].map(str::to_owned);
            errors.push(FieldError::not_supported(&path, &json!(policy), &supported));
            None
        }
    };
    let dry_run = given.get("dryRun").and_then(Value::as_array).into_iter().flatten();
    let dry_run: Vec<&str> = dry_run.filter_map(Value::as_str).collect();
    errors.extend(dry_run_errors(&dry_run));
    if !errors.is_empty() {
        return Err(Refusal::invalid_kind("meta.k8s.io", "DeleteOptions", "", &errors));
    }
    let wanted = |pointer: &str| given.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
    Ok(DeleteOptions {
        uid: wanted("/preconditions/uid"),
        version: wanted("/preconditions/resourceVersion"),
        policy: parsed,
        dry_run: !dry_run.is_empty(),
        legacy: orphan == Some(false),
        given,
    })
}

fn from_body(call: &Call) -> Result<Value, Refusal> {
    let parsed = text_json::parse(&call.body).map_err(|why| {
        Refusal::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
    })?;
    let mut given = parsed.value;
    if !given.is_object() && !given.is_null() {
        return Err(Refusal::bad_request(text_json::no_object(&given)));
    }
    let kind = text(&given, "/kind");
    let version = text(&given, "/apiVersion");
    if !kind.is_empty() && kind != "DeleteOptions" {
        return Err(Refusal::bad_request(format!(
            "no kind \"{kind}\" is registered for version \"{version}\" in scheme \
             \"pkg/apis/meta/internalversion/scheme/register.go:27\""
        )));
    }
    given["kind"] = json!("DeleteOptions");
    given["apiVersion"] = json!("meta.k8s.io/v1");
    Ok(given)
}

fn from_query(query: &Query) -> Result<Value, Refusal> {
    let mut given = json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"});
    if let Some(policy) = query.get("propagationPolicy") {
        given["propagationPolicy"] = json!(policy);
    }
    if let Some(seconds) = query.number("gracePeriodSeconds")? {
        given["gracePeriodSeconds"] = json!(seconds);
    }
    if let Some(orphan) = query.get("orphanDependents") {
        given["orphanDependents"] = json!(orphan == "true");
    }
    let dry_run = query.all("dryRun");
    if !dry_run.is_empty() {
        given["dryRun"] = json!(dry_run);
    }
    Ok(given)
}
