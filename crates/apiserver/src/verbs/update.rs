//! Changes of objects: one path for PUT, every patch and the server's own writes.

use std::sync::Arc;

use serde_json::{Value, json};

use super::create::{self, at_home, keepable, not_kept, warned};
use super::{Ask, Sub, decode, scale, written};
use crate::admission::{self, Operation, Reviewed};
use crate::core::{has_entries, text};
use crate::http::negotiate::Form;
use crate::http::{Answer, Call};
use crate::kinds::{Builtin, Resource};
use crate::meta::field::{FieldError, Path};
use crate::status::Refusal;
use crate::store::{Entry, Expect, Write, WriteError};
use crate::{managed, strategy, view};

/// How often a change is tried on a newer image.
const TRIES: usize = 100;

/// What a caller makes of an object, in the form of the caller's version.
pub(crate) trait Edit: Sync {
    /// The object after the change.
    fn edit(&self, ask: &mut Ask<'_>, current: &Value) -> Result<Value, Refusal>;

    /// The object to make when there is none.
    fn missing(&self, ask: &mut Ask<'_>) -> Result<Value, Refusal> {
        Err(ask.not_found())
    }

    /// Whether `edit` wrote the managed fields itself.
    fn manages(&self) -> bool {
        false
    }

    /// The uid that the caller means, if any.
    fn uid(&self) -> Option<&str> {
        None
    }
}

/// Serves a PUT.
pub(crate) async fn serve(mut ask: Ask<'_>, call: &Call, form: &Form) -> Result<Answer, Refusal> {
    if ask.sub == Sub::Scale {
        return scale::put(ask, call, form).await;
    }
    let object = decode::object(&mut ask, call).map_err(|refusal| warned(&ask, refusal))?;
    same_name(ask.name, &object)?;
    at_home(ask.resource, ask.namespace, &object)?;
    let put = Put { object };
    let (entry, made) = update(&mut ask, &put).await.map_err(|refusal| warned(&ask, refusal))?;
    written(if made { 201 } else { 200 }, &ask, &entry, (form, call))
}

/// The name of an object is the one of its path.
pub(crate) fn same_name(name: &str, object: &Value) -> Result<(), Refusal> {
    let told = text(object, "/metadata/name");
    if told.is_empty() || told == name {
        return Ok(());
    }
    Err(Refusal::bad_request(format!(
        "the name of the object ({told}) does not match the name on the URL ({name})"
    )))
}

struct Put {
    object: Value,
}

impl Edit for Put {
    fn edit(&self, ask: &mut Ask<'_>, _current: &Value) -> Result<Value, Refusal> {
        let mut object = self.object.clone();
        if text(&object, "/metadata/name").is_empty() {
            object["metadata"]["name"] = json!(ask.name);
        }
        Ok(object)
    }

    fn missing(&self, ask: &mut Ask<'_>) -> Result<Value, Refusal> {
        if !ask.resource.builtin().is_some_and(Builtin::created_by_update) {
            return Err(ask.not_found());
        }
        let mut object = self.object.clone();
        object["metadata"]["name"] = json!(ask.name);
        Ok(object)
    }

    fn uid(&self) -> Option<&str> {
        Some(text(&self.object, "/metadata/uid"))
    }
}

/// Changes an object, or makes it; tells whether it was made. The answer is in the stored form.
pub(crate) async fn update(
    ask: &mut Ask<'_>,
    edit: &dyn Edit,
) -> Result<(Arc<Entry>, bool), Refusal> {
    for _ in 0..TRIES {
        let Some(current) = ask.current() else {
            let mut object = edit.missing(ask)?;
            if !edit.manages() {
                managed::on_create(ask, &mut object);
            }
            let object = view::to_stored(ask.resource, object);
            let made = create::create(ask, object).await;
            match made {
                Err(refusal) if refusal.reason == "AlreadyExists" => continue,
                Err(refusal) => return Err(refusal),
                Ok(object) => return Ok((object, true)),
            }
        };
        let next = prepared(ask, edit, &current)?;
        let reviewed = Reviewed {
            operation: Operation::Update,
            object: Some(&next),
            old: Some(&current.value),
        };
        let warnings = admission::review(ask, &reviewed).await?;
        ask.warn(warnings);
        if let Some(written) = commit(ask, &current, next).await? {
            return Ok((written, false));
        }
    }
    Err(Refusal::modified(ask.resource, ask.name))
}

/// The next image, checked. Whoever insists on a version is refused here when it is not current.
fn prepared(ask: &mut Ask<'_>, edit: &dyn Edit, current: &Arc<Entry>) -> Result<Value, Refusal> {
    let shown = view::to_version(ask.resource, &current.value);
    let mut next = edit.edit(ask, &shown)?;
    precondition(ask, edit.uid().unwrap_or_default(), &current.value)?;
    let told = text(&next, "/metadata/resourceVersion").to_owned();
    let unconditional = ask.resource.builtin().is_some_and(Builtin::unconditional);
    version_matches(ask, &told, (current.revision, unconditional))?;
    let old = shown.as_ref();
    strategy::before_update(ask, &mut next, old);
    if !edit.manages() {
        managed::on_update(ask, old, &mut next);
    }
    ask.warn(strategy::doubled_owners(&next));
    strategy::prepare_update(ask, &mut next, old);
    ask.warn(strategy::warnings(ask.resource, &next));
    let errors = strategy::validate_update(ask, &next, old);
    if !errors.is_empty() {
        return Err(Refusal::invalid(ask.resource, ask.name, &errors));
    }
    Ok(view::to_stored(ask.resource, next))
}

fn precondition(ask: &Ask<'_>, uid: &str, current: &Value) -> Result<(), Refusal> {
    let stored = text(current, "/metadata/uid");
    if uid.is_empty() || uid == stored {
        return Ok(());
    }
    let key = ask.resource.storage_key(ask.namespace, ask.name);
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, \
         AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: \
         {stored}"
    );
    Err(Refusal::conflict(ask.resource, ask.name, &why))
}

/// Refuses a version that is not current, and none where one must be named.
fn version_matches(
    ask: &Ask<'_>,
    told: &str,
    (current, unconditional): (u64, bool),
) -> Result<(), Refusal> {
    let version = if told.is_empty() {
        0
    } else {
        told.parse::<u64>().map_err(|_| {
            Refusal::bare(format!("strconv.ParseUint: parsing \"{told}\": invalid syntax"))
        })?
    };
    if version == 0 {
        if unconditional {
            return Ok(());
        }
        return Err(version_required(ask.resource, ask.name));
    }
    if version != current {
        return Err(Refusal::modified(ask.resource, ask.name));
    }
    Ok(())
}

fn version_required(resource: &Resource, name: &str) -> Refusal {
    let path = Path::new("metadata.resourceVersion");
    let error = FieldError::invalid(&path, &json!(0), "must be specified for an update");
    Refusal::invalid_kind(&resource.group, &resource.plural, name, &[error])
}

/// Writes the next image; nothing when somebody was faster.
async fn commit(
    ask: &Ask<'_>,
    current: &Arc<Entry>,
    next: Value,
) -> Result<Option<Arc<Entry>>, Refusal> {
    if current.value == next {
        return Ok(Some(current.clone()));
    }
    let leaves = leaves(ask.resource, &next);
    if !leaves {
        keepable(&next)?;
    }
    if ask.options.dry_run {
        return Ok(Some(Arc::new(Entry::new(current.revision, next))));
    }
    let (value, last) = if leaves { (None, Some(next)) } else { (Some(next), None) };
    let write = Write {
        table: ask.resource.table.clone(),
        key: ask.key(),
        expect: Expect::Revision(current.revision),
        value,
        needs: Vec::new(),
    };
    match ask.core.store.write(write).await {
        Ok(entry) => Ok(last.map_or(entry, |mut last| {
            last["metadata"]["resourceVersion"] = json!(current.revision.to_string());
            Some(Arc::new(Entry::new(current.revision, last)))
        })),
        Err(WriteError::Changed(revision) | WriteError::Leaving(revision)) => {
            ask.core.store.published(revision).await;
            Ok(None)
        }
        Err(WriteError::Failed) => Err(not_kept()),
    }
}

/// Whether nothing holds an object that is to go.
fn leaves(resource: &Resource, object: &Value) -> bool {
    let held_by_spec =
        resource.is_builtin(Builtin::Namespace) && has_entries(object, "/spec/finalizers");
    object.pointer("/metadata/deletionTimestamp").is_some()
        && !has_entries(object, "/metadata/finalizers")
        && !held_by_spec
}
