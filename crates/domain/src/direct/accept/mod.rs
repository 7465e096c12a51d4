//! Accepting an object: what is read from its metadata, and how its record is created.

use std::time::Duration;

use serde_json::{Map, Value};
use usher_kernel::{Generation, Timestamp, Uid};

use super::aggregate::{Fields, History, ObjectKey, Resource};
use super::event::Event;
use super::phase::Phase;
use super::refusal::Refusal;
use super::snapshot::Object;
use crate::object::id::InstallationId;
use crate::object::name::{ANNOTATION_DELETION_POLICY, ANNOTATION_IDENTITY, FINALIZER_DIRECT};

/// What is the same for every object of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptContext {
    pub installation: InstallationId,
    /// The kind in the identity ledger.
    pub kind: String,
    /// How long requests under a lost ledger may arrive: a lease and the request bound.
    pub heard_for: Duration,
}

/// A resource that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// The row. It is written before our finalizer is put on the object.
    pub resource: Resource,
    pub event: Event,
}

/// Creates the row of an object that has none. If our finalizer is already on it, it was ours
/// before, and an empty ledger proves nothing.
pub fn accept(
    key: ObjectKey,
    object: &Object,
    context: &AcceptContext,
    now: Timestamp,
) -> Result<Accepted, Refusal> {
    let ours = object.finalizers.iter().any(|it| it == FINALIZER_DIRECT);
    let history = if ours { History::Lost } else { History::Witnessed };
    let resource = Resource::hydrate(Fields {
        object: key,
        installation: context.installation,
        kind: context.kind.clone(),
        history,
        phase: Phase::Pending,
        identity: None,
        resolutions: vec![],
        generation: Generation::FIRST,
        attempt: 1,
        operation: None,
        spent: None,
        deletion_seen_at: None,
        asked_at: None,
        grace_until: ours.then(|| now.after(context.heard_for)),
        watch_until: None,
        outcome: None,
        orphan: None,
        created_at: now,
        updated_at: now,
        phase_since: now,
    })?;
    Ok(Accepted { resource, event: Event::Accepted })
}

/// Reads the metadata and the status of an object as an API server writes them.
pub fn read(object: &Value) -> Result<(ObjectKey, Object), Refusal> {
    let bad = |what: &str| Refusal::MetadataMalformed(what.to_owned());
    let metadata = object.get("metadata").and_then(Value::as_object).ok_or(bad("metadata"))?;
    let text = |member: &str| {
        let text = metadata.get(member).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| bad(member))
    };
    let key =
        ObjectKey { namespace: text("namespace")?, name: text("name")?, uid: Uid(text("uid")?) };
    let deleting = match metadata.get("deletionTimestamp") {
        None | Some(Value::Null) => false,
        Some(Value::String(_)) => true,
        Some(_) => return Err(bad("deletionTimestamp")),
    };
    let annotations = map(metadata, "annotations")?;
    let annotation = |key: &str| match annotations.and_then(|it| it.get(key)) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text.clone())),
        Some(_) => Err(bad(key)),
    };
    let status = object.pointer("/status/identity");
    let status = match status {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text.clone()),
        Some(_) => return Err(bad("status.identity")),
    };
    let object = Object {
        uid: key.uid.clone(),
        deleting,
        finalizers: finalizers(metadata)?,
        policy: annotation(ANNOTATION_DELETION_POLICY)?,
        stamp: annotation(ANNOTATION_IDENTITY)?,
        status,
    };
    Ok((key, object))
}

fn map<'a>(
    metadata: &'a Map<String, Value>,
    member: &str,
) -> Result<Option<&'a Map<String, Value>>, Refusal> {
    match metadata.get(member) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::Object(map)) => Ok(Some(map)),
        Some(_) => Err(Refusal::MetadataMalformed(member.to_owned())),
    }
}

fn finalizers(metadata: &Map<String, Value>) -> Result<Vec<String>, Refusal> {
    let bad = || Refusal::MetadataMalformed("finalizers".to_owned());
    match metadata.get("finalizers") {
        None | Some(Value::Null) => Ok(vec![]),
        Some(Value::Array(list)) => {
            list.iter().map(|it| it.as_str().map(str::to_owned).ok_or_else(bad)).collect()
        }
        Some(_) => Err(bad()),
    }
}

#[cfg(test)]
mod tests;
