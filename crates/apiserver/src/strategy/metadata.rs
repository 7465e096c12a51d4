//! Which rules check the metadata of a kind, and in which order.
//!
//! The rules of all kinds check it first; on an update those of the kind do it again, so that an
//! error is reported up to four times, as in Kubernetes.

use serde_json::Value;

use crate::kinds::{Builtin, Resource};
use crate::meta::field::{FieldError, Path};
use crate::meta::object::{self, MetaRules};

/// What the rules of a kind check again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    /// Every field.
    Whole,
    /// What an update may not change, and what may be wrong with its values.
    Change,
}

/// The checks of the rules of a kind on an update, and whether they know the standard finalizers.
fn checks(kind: Option<Builtin>) -> (&'static [Check], bool) {
    use Check::{Change, Whole};
    match kind {
        Some(
            Builtin::ConfigMap | Builtin::Secret | Builtin::ServiceAccount | Builtin::Endpoints,
        ) => (&[Change, Whole], true),
        Some(
            Builtin::Namespace
            | Builtin::Role
            | Builtin::ClusterRole
            | Builtin::RoleBinding
            | Builtin::ClusterRoleBinding,
        ) => (&[Whole, Change], true),
        Some(Builtin::Service | Builtin::RegardingEvent) => (&[Change], true),
        Some(Builtin::EndpointSlice) => (&[Whole], true),
        Some(
            Builtin::ValidatingWebhookConfiguration
            | Builtin::ValidatingAdmissionPolicy
            | Builtin::ValidatingAdmissionPolicyBinding,
        ) => (&[Whole], false),
        Some(Builtin::Event | Builtin::Review(_)) => (&[], false),
        Some(Builtin::Lease | Builtin::CustomResourceDefinition | Builtin::ApiService) | None => {
            (&[Change], false)
        }
    }
}

/// Validates the metadata of a new object.
pub(super) fn validate_create(resource: &Resource, value: &Value) -> Vec<FieldError> {
    let metadata = value.get("metadata").unwrap_or(&Value::Null);
    let path = Path::new("metadata");
    let mut errors = object::validate(metadata, rules(resource), &path);
    if checks(resource.builtin()).1 {
        errors.extend(object::standard_finalizers(metadata, &path));
    }
    errors
}

/// Validates the metadata of an update; `changes` are the errors of other fields that may not
/// change.
pub(super) fn validate_update(
    resource: &Resource,
    (next, old): (&Value, &Value),
    changes: Vec<FieldError>,
) -> Vec<FieldError> {
    let path = Path::new("metadata");
    let null = Value::Null;
    let (new, old) = (next.get("metadata").unwrap_or(&null), old.get("metadata").unwrap_or(&null));
    let mut errors = object::validate(new, rules(resource), &path);
    errors.extend(object::validate_update(new, old, &path));
    let mut changes = changes.into_iter();
    let (again, knows_finalizers) = checks(resource.builtin());
    for check in again {
        errors.extend(match check {
            Check::Whole => object::validate(new, rules(resource), &path),
            Check::Change => object::validate_update(new, old, &path),
        });
        if knows_finalizers {
            errors.extend(object::standard_finalizers(new, &path));
        }
        if *check == Check::Change {
            errors.extend(changes.by_ref());
        }
    }
    errors.extend(changes);
    errors
}

fn rules(resource: &Resource) -> MetaRules {
    MetaRules { namespaced: resource.namespaced, names: resource.name_rule() }
}
