use std::borrow::Cow;

use serde_json::json;

use super::*;

// Requirement: AK-18
#[test]
fn a_crd_shadows_no_built_in_path_or_kind() {
    let definition = |uid: &str, plural: &str, kind: &str| {
        json!({
            "metadata": {"uid": uid, "resourceVersion": "1"},
            "spec": {
                "group": "coordination.k8s.io",
                "versions": [
                    {"name": "v1", "served": true, "storage": true},
                    {"name": "v2", "served": true, "storage": false},
                ],
            },
            "status": {
                "acceptedNames": {"plural": plural, "kind": kind},
                "conditions": [{"type": "Established", "status": "True"}],
            },
        })
    };
    let definitions = [
        definition("a", "leases", "Thing"),
        definition("b", "things", "Lease"),
        definition("c", "others", "Other"),
    ];
    let kinds = Kinds::new(definitions.iter().map(Cow::Borrowed), &Kinds::default());
    let found = |version: &str, plural: &str| {
        let found = kinds.find("coordination.k8s.io", version, plural);
        found.map(|resource| resource.builtin())
    };
    assert_eq!(found("v1", "leases"), Some(Some(Builtin::Lease)));
    assert_eq!((found("v2", "leases"), found("v1", "things")), (None, None));
    assert_eq!((found("v1", "others"), found("v2", "others")), (Some(None), Some(None)));
    let lease = kinds.of_kind("coordination.k8s.io", "v1", "Lease").expect("a lease");
    assert_eq!(lease.builtin(), Some(Builtin::Lease));
}
