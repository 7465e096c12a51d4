//! The XR of a resource.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use usher_kernel::{Generation, Uid};

use super::anchor::{self, OwnerLabels};
use crate::blueprint::{CompositeType, ParameterValues};
use crate::object::id::ResourceId;
use crate::object::manifest::Manifest;
use crate::object::name;

/// What an XR is made from.
#[derive(Clone, Copy, Debug)]
pub struct Xr<'a> {
    pub resource: ResourceId,
    pub generation: Generation,
    /// The owner written on the object.
    pub labels: OwnerLabels,
    /// The pinned composite type.
    pub composite: &'a CompositeType,
    /// The project's namespace; counts for a namespaced type only.
    pub namespace: &'a str,
    /// The uid of the generation's anchor.
    pub anchor: &'a Uid,
    /// The pinned parameters, defaults included.
    pub parameters: &'a ParameterValues,
    /// The tags of this moment.
    pub tags: &'a BTreeMap<String, String>,
    /// The uid that was seen: absent for the first create.
    pub seen: Option<&'a Uid>,
}

/// The XR, without any token.
pub fn xr(it: &Xr<'_>) -> Manifest {
    let scope = it.composite.scope();
    let owner = anchor::owner(name::anchor(it.resource, it.generation), scope, it.anchor);
    let bare =
        Manifest::new(&it.composite.api_version(), it.composite.kind(), &name::xr(it.resource));
    let mut manifest = anchor::placed(it.labels.mark(bare), scope, it.namespace)
        .owned_by(&owner)
        .with("spec", "parameters", Value::Object(it.parameters.to_map()));
    if let Some(uid) = it.seen {
        manifest = manifest.for_uid(uid);
    }
    if it.tags.is_empty() {
        return manifest;
    }
    manifest.with("spec", "cloudTags", json!(it.tags))
}
