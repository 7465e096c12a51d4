//! Updates: shared by PUT, patches and the controllers.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::{self, Creation, check_depth, check_namespace, warned, write_failed};
use super::{RequestContext, Subresource, decode, scale, written};
use crate::admission::{self, Operation, Reviewed};
use crate::core::{has_entries, text};
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::{Builtin, Resource};
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;
use crate::store::{Entry, Expect, Write, WriteError};
use crate::{managed, rbac, strategy, view};

/// Attempts on newer versions of the object.
const TRIES: usize = 100;

/// A change of an object, in the version of the request.
pub(crate) trait Edit: Sync {
    /// The object after the change.
    fn edit(&self, ctx: &mut RequestContext<'_>, current: &Value) -> Result<Value, Refusal>;

    /// The object to create if there is none.
    fn missing(&self, ctx: &mut RequestContext<'_>) -> Result<Value, Refusal> {
        Err(ctx.not_found())
    }

    /// Whether `edit` sets `managedFields` itself.
    fn manages(&self) -> bool {
        false
    }

    /// The uid precondition.
    fn uid(&self) -> Option<&str> {
        None
    }
}

/// Serves a PUT.
pub(crate) async fn serve(
    mut ctx: RequestContext<'_>,
    call: &Call,
    form: &Form,
) -> Result<Answer, Refusal> {
    if ctx.sub == Subresource::Scale {
        return scale::put(ctx, call, form).await;
    }
    let object = decode::object(&mut ctx, call).map_err(|refusal| {
        // As in Kubernetes a custom object of another kind is refused when it is validated.
        let is_late = refusal.code == 422 && ctx.current().is_none();
        if is_late { ctx.not_found() } else { warned(&ctx, refusal) }
    })?;
    placed(&ctx, &object).map_err(|refusal| warned(&ctx, refusal))?;
    let put = Put { object };
    let (entry, made) = update(&mut ctx, &put).await.map_err(|refusal| warned(&ctx, refusal))?;
    written(if made { 201 } else { 200 }, &ctx, &entry, (form, call))
}

/// Refuses an object of another name or namespace than its path.
fn placed(ctx: &RequestContext<'_>, object: &Value) -> Result<(), Refusal> {
    if text(object, "/metadata/name").is_empty() {
        return Err(unnamed(ctx.name));
    }
    same_name(ctx.name, object)?;
    check_namespace(ctx.resource, ctx.namespace, object)
}

/// The refusal of an object without a name.
pub(crate) fn unnamed(name: &str) -> Refusal {
    Refusal::bad_request(format!(
        "the name of the object ({name} based on URL) was undeterminable: name must be provided"
    ))
}

/// Refuses an object of another name than its path.
pub(crate) fn same_name(name: &str, object: &Value) -> Result<(), Refusal> {
    let given = text(object, "/metadata/name");
    if given.is_empty() || given == name {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the name of the object ({given}) does not match the name on the URL ({name})"
    )))
}

struct Put {
    object: Value,
}

impl Edit for Put {
    fn edit(&self, _ctx: &mut RequestContext<'_>, _current: &Value) -> Result<Value, Refusal> {
        Ok(self.object.clone())
    }

    fn missing(&self, ctx: &mut RequestContext<'_>) -> Result<Value, Refusal> {
        if !ctx.resource.builtin().is_some_and(Builtin::created_by_update) {
            return Err(ctx.not_found());
        }
        // The object with this uid is gone, and no creation brings it back.
        precondition(ctx, text(&self.object, "/metadata/uid"), &Value::Null)?;
        Ok(self.object.clone())
    }

    fn uid(&self) -> Option<&str> {
        Some(text(&self.object, "/metadata/uid"))
    }
}

/// Updates or creates an object, in the storage version; also returns whether it was created.
pub(crate) async fn update(
    ctx: &mut RequestContext<'_>,
    edit: &dyn Edit,
) -> Result<(Arc<Entry>, bool), Refusal> {
    for _ in 0..TRIES {
        let Some(current) = ctx.current() else {
            let mut object = edit.missing(ctx)?;
            parse_version(text(&object, "/metadata/resourceVersion"))?;
            if !edit.manages() {
                managed::on_create(ctx, &mut object);
            }
            let object = view::to_stored(ctx.resource, object);
            let made = create::create(ctx, object, Creation::Update).await;
            match made {
                Err(refusal) if refusal.reason == "AlreadyExists" => continue,
                Err(refusal) => return Err(refusal),
                Ok(object) => return Ok((object, true)),
            }
        };
        let old = current.value();
        let next = prepared(ctx, edit, (current.revision, &old))?;
        let reviewed =
            Reviewed { operation: Operation::Update, object: Some(&next), old: Some(&old) };
        let warnings = admission::review(ctx, &reviewed).await?;
        ctx.warn(warnings);
        if next == *old {
            return Ok((current.clone(), false));
        }
        if let Some(written) = commit(ctx, current.revision, next).await? {
            return Ok((written, false));
        }
    }
    Err(Refusal::modified(ctx.resource, ctx.name))
}

/// The validated next version. Refuses a `resourceVersion` that is not current.
fn prepared(
    ctx: &mut RequestContext<'_>,
    edit: &dyn Edit,
    (revision, current): (u64, &Value),
) -> Result<Value, Refusal> {
    let shown = view::to_version(ctx.resource, current);
    let mut next = edit.edit(ctx, &shown)?;
    precondition(ctx, edit.uid().unwrap_or_default(), current)?;
    let given = text(&next, "/metadata/resourceVersion").to_owned();
    let unconditional = ctx.resource.builtin().is_some_and(Builtin::unconditional);
    version_matches(ctx, &given, (revision, unconditional))?;
    let old = shown.as_ref();
    let is_untyped = !edit.manages() && managed::is_untyped(ctx, &next);
    strategy::before_update(ctx, &mut next, old);
    if is_untyped {
        managed::forget(&mut next);
    } else if !edit.manages() {
        managed::on_update(ctx, old, &mut next);
    }
    ctx.warn(strategy::duplicate_owners(&next));
    strategy::prepare_update(ctx, &mut next, old);
    managed::keep_times(old, &mut next);
    rbac::check_escalation(ctx, &next, Some(old))?;
    ctx.warn(strategy::warnings(ctx.resource, &next, Some(old)));
    let errors = strategy::validate_update(ctx, &next, old);
    if !errors.is_empty() {
        return Err(Refusal::invalid(ctx.resource, ctx.name, &errors));
    }
    Ok(view::to_stored(ctx.resource, next))
}

fn precondition(ctx: &RequestContext<'_>, uid: &str, current: &Value) -> Result<(), Refusal> {
    let stored = text(current, "/metadata/uid");
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let key = ctx.resource.storage_key(ctx.namespace, ctx.name);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: \
         {stored}"
    );
    Err(Refusal::conflict(ctx.resource, ctx.name, &why))
}

/// A revision; 0 if none is given.
fn parse_version(given: &str) -> Result<u64, Refusal> {
    if given.is_empty() {
        return Ok(0);
    }
    given.parse().map_err(|_| {
        Refusal::bare(format!("strconv.ParseUint: parsing \"{given}\": invalid syntax"))
    })
}

/// Refuses a `resourceVersion` that is not current, or missing where it is required.
fn version_matches(
    ctx: &RequestContext<'_>,
    given: &str,
    (current, unconditional): (u64, bool),
) -> Result<(), Refusal> {
    let version = parse_version(given)?;
    if version == 0 {
        if unconditional {
            return Ok(());
        }
        return Err(version_required(ctx.resource, ctx.name));
    }
    if version != current {
        return Err(Refusal::modified(ctx.resource, ctx.name));
    }
    Ok(())
}

fn version_required(resource: &Resource, name: &str) -> Refusal {
    let path = Path::new("metadata.resourceVersion");
    let error = FieldError::invalid(&path, &json!(0), "must be specified for an update");
    Refusal::invalid_kind(&resource.group, &resource.plural, name, &[error])
}

/// Commits the next version; `None` after a concurrent write.
async fn commit(
    ctx: &RequestContext<'_>,
    revision: u64,
    next: Value,
) -> Result<Option<Arc<Entry>>, Refusal> {
    let leaves = leaves(ctx.resource, &next);
    if !leaves {
        check_depth(&next)?;
    }
    if ctx.options.dry_run {
        return Ok(Some(Arc::new(Entry::transient(revision, next))));
    }
    let (value, last) = if leaves { (None, Some(next)) } else { (Some(next), None) };
    let write = Write {
        table: ctx.resource.table.clone(),
        key: ctx.key(),
        expect: Expect::Revision(revision),
        value,
        preconditions: Vec::new(),
    };
    match ctx.core.store.write(write).await {
        Ok(entry) => Ok(last.map_or(entry, |mut last| {
            last["metadata"]["resourceVersion"] = json!(revision.to_string());
            Some(Arc::new(Entry::transient(revision, last)))
        })),
        Err(WriteError::Changed(revision) | WriteError::Leaving(revision)) => {
            ctx.core.store.published(revision).await;
            Ok(None)
        }
        Err(WriteError::Failed) => Err(write_failed()),
    }
}

/// Whether an object in deletion has no finalizers left.
fn leaves(resource: &Resource, object: &Value) -> bool {
    let held_by_spec =
        resource.is_builtin(Builtin::Namespace) && has_entries(object, "/spec/finalizers");
    object.pointer("/metadata/deletionTimestamp").is_some()
        && !has_entries(object, "/metadata/finalizers")
        && !held_by_spec
}
