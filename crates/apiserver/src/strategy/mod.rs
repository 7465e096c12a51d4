//! Defaults and validation per kind.

mod definition;
mod hooks;
mod metadata;
mod plain;
mod policies;
mod rbac;
mod scales;
mod services;

use serde_json::{Map, Value, json};

use crate::events;
use crate::kinds::{Builtin, Origin, Resource};
use crate::meta::field::{FieldError, Path};
use crate::meta::object;
use crate::verbs::{RequestContext, Subresource};

/// Prepares a new object for its kind.
pub(crate) fn prepare_create(resource: &Resource, object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata") {
        object::deduplicate_owners(metadata);
    }
    match &resource.origin {
        Origin::Custom(custom) => {
            if custom.status {
                remove(object, "status");
            }
        }
        Origin::Builtin(builtin) => default_builtin(*builtin, object, true),
    }
}

/// Removes system fields from a new object.
pub(crate) fn reset_system(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for made_up in ["managedFields", "deletionTimestamp", "deletionGracePeriodSeconds"] {
            metadata.remove(made_up);
        }
    }
}

/// Restores the fields that a write to this subresource may not change.
pub(crate) fn before_update(ctx: &RequestContext<'_>, next: &mut Value, old: &Value) {
    let (resource, sub) = (ctx.resource, ctx.sub);
    match sub {
        Subresource::Main | Subresource::Scale | Subresource::Token => {
            if resource.has_status() && !resource.is_builtin(Builtin::Namespace) {
                take_over(next, old, "status");
            }
        }
        Subresource::Status => {
            let managed = next.pointer("/metadata/managedFields").cloned();
            let status = next.get("status").cloned();
            let version = next.pointer("/metadata/resourceVersion").cloned();
            *next = old.clone();
            remove(next, "status");
            set(next, "status", status);
            if let Some(metadata) = next.get_mut("metadata") {
                remove(metadata, "managedFields");
                set(metadata, "managedFields", managed);
                set(metadata, "resourceVersion", version);
            }
        }
        Subresource::Finalize => {
            let finalizers = next.pointer("/spec/finalizers").cloned();
            let spec = next.get_mut("spec");
            if let (Some(spec), None) = (spec, &finalizers) {
                remove(spec, "finalizers");
            }
            take_over(next, old, "status");
        }
    }
    if resource.is_builtin(Builtin::Namespace) && sub != Subresource::Finalize {
        let finalizers = old.pointer("/spec/finalizers").cloned();
        if !next["spec"].is_object() {
            next["spec"] = json!({});
        }
        remove(&mut next["spec"], "finalizers");
        set(&mut next["spec"], "finalizers", finalizers);
        if sub == Subresource::Main {
            take_over(next, old, "status");
        }
    }
    system_fields(next, old);
}

/// Restores the metadata fields that only the server writes.
fn system_fields(next: &mut Value, old: &Value) {
    if !next["metadata"].is_object() {
        next["metadata"] = json!({});
    }
    let Some(metadata) = next.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let was = |key: &str| old.pointer(&format!("/metadata/{key}")).cloned();
    for kept in ["creationTimestamp", "generation"] {
        put(metadata, kept, was(kept));
    }
    metadata.remove("selfLink");
    for kept in ["uid", "namespace", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let given =
            metadata.get(kept).is_some_and(|value| !value.is_null() && value.as_str() != Some(""));
        if !given {
            put(metadata, kept, was(kept));
        }
    }
}

/// Increments the generation and sets defaults.
pub(crate) fn prepare_update(ctx: &RequestContext<'_>, next: &mut Value, old: &Value) {
    if let Some(metadata) = next.get_mut("metadata") {
        object::deduplicate_owners(metadata);
    }
    if let Origin::Builtin(builtin) = &ctx.resource.origin {
        default_builtin(*builtin, next, false);
    }
    next["metadata"]["resourceVersion"] =
        old.pointer("/metadata/resourceVersion").cloned().unwrap_or_default();
    let counts = ctx.resource.builtin().is_none_or(Builtin::has_generation);
    if !counts || ctx.sub == Subresource::Status || !spec_changed(ctx.resource, next, old) {
        return;
    }
    let generation = old.pointer("/metadata/generation").and_then(Value::as_i64);
    next["metadata"]["generation"] = json!(generation.unwrap_or_default() + 1);
}

fn spec_changed(resource: &Resource, next: &Value, old: &Value) -> bool {
    let status = resource.has_status();
    let wish = |value: &Value| {
        let mut map: Map<String, Value> = value.as_object().cloned().unwrap_or_default();
        map.remove("metadata");
        if status {
            map.remove("status");
        }
        map
    };
    wish(next) != wish(old)
}

/// Warnings about a valid object; of its finalizers only those that are new.
pub(crate) fn warnings(resource: &Resource, value: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = Vec::new();
    if let Some(metadata) = value.get("metadata").filter(|_| resource.custom().is_some()) {
        let old = old.and_then(|old| old.get("metadata")).unwrap_or(&Value::Null);
        warnings.extend(object::finalizer_warnings(metadata, old, &Path::new("metadata")));
    }
    if resource.is_builtin(Builtin::CustomResourceDefinition) {
        warnings.extend(definition::warnings(value));
    }
    warnings
}

/// Validates a new object.
pub(crate) fn validate_create(resource: &Resource, value: &Value) -> Vec<FieldError> {
    let mut errors = metadata::validate_create(resource, value);
    match &resource.origin {
        Origin::Custom(custom) => {
            let scale = custom.scale.as_ref();
            let others = scale.map_or_else(Vec::new, |it| scales::validate(it, value, false));
            custom.schema.validate_beside((value, None), others, &mut errors);
        }
        Origin::Builtin(builtin) => errors.extend(validate_builtin(*builtin, value, None)),
    }
    errors
}

/// Validates a changed object.
pub(crate) fn validate_update(
    ctx: &RequestContext<'_>,
    next: &Value,
    old: &Value,
) -> Vec<FieldError> {
    let resource = ctx.resource;
    let changes = match &resource.origin {
        Origin::Builtin(Builtin::ConfigMap) => plain::changes_of_config_map(next, old),
        Origin::Builtin(Builtin::Secret) => plain::changes_of_secret(next, old),
        Origin::Builtin(_) | Origin::Custom(_) => Vec::new(),
    };
    let mut errors = metadata::validate_update(resource, (next, old), changes);
    match &resource.origin {
        Origin::Custom(custom) => {
            let status_only = ctx.sub == Subresource::Status;
            let scale = custom.scale.as_ref();
            let others = scale.map_or_else(Vec::new, |it| scales::validate(it, next, status_only));
            if status_only {
                custom.schema.validate_status((next, old), others, &mut errors);
            } else {
                custom.schema.validate_beside((next, Some(old)), others, &mut errors);
            }
        }
        Origin::Builtin(builtin) => errors.extend(validate_builtin(*builtin, next, Some(old))),
    }
    errors
}

/// Sets defaults that no manager owns.
pub(crate) fn default_early(builtin: Builtin, object: &mut Value) {
    match builtin {
        Builtin::Namespace => plain::label_namespace(object),
        Builtin::Secret => plain::default_secret(object),
        Builtin::RoleBinding | Builtin::ClusterRoleBinding => rbac::default_binding(object),
        Builtin::CustomResourceDefinition => definition::default(object),
        Builtin::ValidatingWebhookConfiguration => hooks::default(object),
        Builtin::ValidatingAdmissionPolicy => policies::default_policy(object),
        Builtin::ValidatingAdmissionPolicyBinding => policies::default_binding(object),
        Builtin::Role | Builtin::ClusterRole => {
            if object["rules"].as_array().is_none_or(Vec::is_empty) {
                object["rules"] = Value::Null;
            }
        }
        Builtin::Lease => {
            if !object["spec"].is_object() {
                object["spec"] = json!({});
            }
        }
        Builtin::ConfigMap
        | Builtin::ServiceAccount
        | Builtin::Event
        | Builtin::RegardingEvent
        | Builtin::ApiService
        | Builtin::Service
        | Builtin::Endpoints
        | Builtin::EndpointSlice
        | Builtin::Review(_) => {}
    }
}

fn default_builtin(builtin: Builtin, object: &mut Value, new: bool) {
    match builtin {
        Builtin::Namespace => plain::default_namespace(object, new),
        Builtin::Service => services::default(object, new),
        Builtin::Event => events::complete_core(object),
        Builtin::CustomResourceDefinition => definition::default_status(object, new),
        Builtin::ConfigMap
        | Builtin::Secret
        | Builtin::ServiceAccount
        | Builtin::RegardingEvent
        | Builtin::Lease
        | Builtin::Role
        | Builtin::ClusterRole
        | Builtin::RoleBinding
        | Builtin::ClusterRoleBinding
        | Builtin::ValidatingAdmissionPolicy
        | Builtin::ValidatingAdmissionPolicyBinding
        | Builtin::ValidatingWebhookConfiguration
        | Builtin::ApiService
        | Builtin::Endpoints
        | Builtin::EndpointSlice
        | Builtin::Review(_) => {}
    }
}

fn validate_builtin(builtin: Builtin, value: &Value, old: Option<&Value>) -> Vec<FieldError> {
    match builtin {
        Builtin::ConfigMap => plain::validate_config_map(value),
        Builtin::Secret => plain::validate_secret(value),
        Builtin::Event => plain::validate_event(value, false),
        Builtin::RegardingEvent => plain::validate_event(&events::to_core(value), true),
        Builtin::Lease => plain::validate_lease(value),
        Builtin::Service => services::validate(value, old),
        Builtin::EndpointSlice => services::validate_slice(value, old),
        Builtin::RoleBinding => rbac::validate_binding(value, old, true),
        Builtin::ClusterRoleBinding => rbac::validate_binding(value, old, false),
        Builtin::CustomResourceDefinition => definition::validate(value, old),
        Builtin::ValidatingWebhookConfiguration => hooks::validate(value),
        Builtin::ValidatingAdmissionPolicy => policies::validate_policy(value),
        Builtin::ValidatingAdmissionPolicyBinding => policies::validate_binding(value),
        Builtin::Role => rbac::validate_role(value, true),
        Builtin::ClusterRole => rbac::validate_role(value, false),
        Builtin::Namespace
        | Builtin::ServiceAccount
        | Builtin::ApiService
        | Builtin::Endpoints
        | Builtin::Review(_) => Vec::new(),
    }
}

/// Warnings about duplicate owner references.
pub(crate) fn duplicate_owners(value: &Value) -> Vec<String> {
    let mut metadata = value.get("metadata").cloned().unwrap_or_default();
    let doubled = object::deduplicate_owners(&mut metadata);
    let shown = |uid: String| {
        format!(
            ".metadata.ownerReferences contains duplicate entries; API server dedups owner \
             references in 1.20+, and may reject such requests as early as 1.24; please fix your \
             requests; duplicate UID(s) observed: {uid}"
        )
    };
    doubled.into_iter().map(shown).collect()
}

fn take_over(next: &mut Value, old: &Value, key: &str) {
    remove(next, key);
    set(next, key, old.get(key).cloned());
}

fn remove(value: &mut Value, key: &str) {
    if let Some(map) = value.as_object_mut() {
        map.remove(key);
    }
}

fn set(value: &mut Value, key: &str, child: Option<Value>) {
    if let (Some(map), Some(child)) = (value.as_object_mut(), child) {
        map.insert(key.to_owned(), child);
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: Option<Value>) {
    match value {
        Some(value) => map.insert(key.to_owned(), value),
        None => map.remove(key),
    };
}
