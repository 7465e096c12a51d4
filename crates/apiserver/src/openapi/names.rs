//! Names of the parts of built-in kinds, which `kubectl explain` shows as their types.

use serde_json::{Map, Value, json};

/// The parts by kind and path, those of a part after it.
const PARTS: [(&str, &str, &str); 24] = [
    ("Lease", "spec", "LeaseSpec"),
    ("Namespace", "spec", "NamespaceSpec"),
    ("Namespace", "status.conditions", "NamespaceCondition"),
    ("Namespace", "status", "NamespaceStatus"),
    ("ServiceAccount", "secrets", "ObjectReference"),
    ("ServiceAccount", "imagePullSecrets", "LocalObjectReference"),
    ("Role", "rules", "PolicyRule"),
    ("ClusterRole", "rules", "PolicyRule"),
    ("ClusterRole", "aggregationRule", "AggregationRule"),
    ("RoleBinding", "roleRef", "RoleRef"),
    ("RoleBinding", "subjects", "Subject"),
    ("ClusterRoleBinding", "roleRef", "RoleRef"),
    ("ClusterRoleBinding", "subjects", "Subject"),
    ("Event", "involvedObject", "ObjectReference"),
    ("Event", "related", "ObjectReference"),
    ("Event", "series", "EventSeries"),
    ("Event", "source", "EventSource"),
    ("Service", "spec.ports", "ServicePort"),
    ("Service", "spec", "ServiceSpec"),
    ("Service", "status", "ServiceStatus"),
    ("Endpoints", "subsets", "EndpointSubset"),
    ("ObjectMeta", "ownerReferences", "OwnerReference"),
    ("ObjectMeta", "managedFields.fieldsV1", "FieldsV1"),
    ("ObjectMeta", "managedFields", "ManagedFieldsEntry"),
];

/// Moves the parts of a kind into schemas of their own, beside that of the kind.
pub(super) fn name_parts(name: &str, schema: &mut Value, schemas: &mut Map<String, Value>) {
    let Some((package, kind)) = name.rsplit_once('.') else { return };
    for (_, path, part) in PARTS.iter().filter(|(of, ..)| *of == kind) {
        let found = path.split('.').try_fold(&mut *schema, |place, name| {
            let field = place.get_mut("properties")?.get_mut(name)?;
            Some(if field.get("items").is_some() { &mut field["items"] } else { field })
        });
        let Some(place) = found.filter(|place| place["type"] == "object") else { continue };
        let part = format!("{package}.{part}");
        let reference = json!({
            "allOf": [{"$ref": format!("#/components/schemas/{part}")}],
            "default": {},
        });
        schemas.insert(part, std::mem::replace(place, reference));
    }
}
