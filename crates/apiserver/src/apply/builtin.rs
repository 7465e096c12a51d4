//! The views of built-in kinds and of `metadata`.

use super::view::{ListKind, ListView, MapView, Scalar, View};
use serde_json::{Value, json};

/// The view of `metadata`.
pub fn metadata() -> View {
    let owners = ListKind::Map(vec![("uid".to_owned(), None)]);
    let owner = View::Map(MapView {
        atomic: true,
        rest: Some(Box::new(View::Deduced)),
        ..MapView::default()
    });
    map(&[
        ("name", View::TEXT),
        ("generateName", View::TEXT),
        ("namespace", View::TEXT),
        ("selfLink", View::TEXT),
        ("uid", View::TEXT),
        ("resourceVersion", View::TEXT),
        ("generation", View::TEXT),
        ("creationTimestamp", View::TEXT),
        ("deletionTimestamp", View::TEXT),
        ("deletionGracePeriodSeconds", View::TEXT),
        ("labels", texts()),
        ("annotations", texts()),
        ("finalizers", list(View::TEXT, ListKind::Set)),
        ("ownerReferences", list(owner, owners)),
        ("managedFields", atomic_list()),
    ])
}

/// The view of a built-in kind; an unknown kind has a view of its metadata only.
pub fn view(group: &str, kind: &str) -> View {
    let own: Vec<(&str, View)> = match (group, kind) {
        ("", "ConfigMap") => {
            vec![("data", texts()), ("binaryData", texts()), ("immutable", View::TEXT)]
        }
        ("", "Secret") => vec![
            ("data", texts()),
            ("stringData", texts()),
            ("type", View::TEXT),
            ("immutable", View::TEXT),
        ],
        ("", "ServiceAccount") => vec![
            ("secrets", list(atomic_map(), by_key("name"))),
            ("imagePullSecrets", atomic_list()),
            ("automountServiceAccountToken", View::TEXT),
        ],
        ("", "Namespace") => vec![
            ("spec", map(&[("finalizers", atomic_list())])),
            ("status", map(&[("phase", View::TEXT), ("conditions", conditions())])),
        ],
        ("", "Event") => event(),
        ("events.k8s.io", "Event") => new_event(),
        ("coordination.k8s.io", "Lease") => vec![("spec", scalars(&LEASE))],
        ("rbac.authorization.k8s.io", "Role" | "ClusterRole") => {
            vec![("rules", atomic_list()), ("aggregationRule", View::Deduced)]
        }
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => {
            vec![("subjects", atomic_list()), ("roleRef", atomic_map())]
        }
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) => vec![("webhooks", list(webhook(), by_key("name")))],
        _ => return open(),
    };
    let mut fields =
        vec![("apiVersion", View::TEXT), ("kind", View::TEXT), ("metadata", metadata())];
    fields.extend(own);
    map(&fields)
}

/// An empty object of a built-in kind: fields that are always serialized are present already, so
/// that creating the object does not own them.
pub fn empty(group: &str, kind: &str) -> Value {
    match (group, kind) {
        ("", "Namespace") => json!({"metadata": {}, "spec": {}, "status": {}}),
        ("", "Event") => json!({
            "metadata": {}, "involvedObject": {}, "source": {}, "eventTime": null,
            "firstTimestamp": null, "lastTimestamp": null,
            "reportingComponent": "", "reportingInstance": "",
        }),
        ("events.k8s.io", "Event") => json!({
            "metadata": {}, "regarding": {}, "deprecatedSource": {}, "eventTime": null,
            "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
        }),
        ("coordination.k8s.io", "Lease") => json!({"metadata": {}, "spec": {}}),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => json!({
            "metadata": {},
            "spec": {"group": "", "names": {"plural": "", "kind": ""}, "scope": "",
                "versions": null},
            "status": {"acceptedNames": {"plural": "", "kind": ""}, "conditions": null,
                "storedVersions": null},
        }),
        _ => json!({"metadata": {}}),
    }
}

const LEASE: [&str; 7] = [
    "holderIdentity",
    "leaseDurationSeconds",
    "acquireTime",
    "renewTime",
    "leaseTransitions",
    "strategy",
    "preferredHolder",
];

fn event() -> Vec<(&'static str, View)> {
    let mut fields = vec![
        ("involvedObject", atomic_map()),
        ("related", atomic_map()),
        ("source", scalars(&["component", "host"])),
        ("series", scalars(&["count", "lastObservedTime"])),
    ];
    let plain = [
        "reason",
        "message",
        "firstTimestamp",
        "lastTimestamp",
        "count",
        "type",
        "eventTime",
        "action",
        "reportingComponent",
        "reportingInstance",
    ];
    fields.extend(plain.map(|name| (name, View::TEXT)));
    fields
}

fn new_event() -> Vec<(&'static str, View)> {
    let mut fields = vec![
        ("regarding", atomic_map()),
        ("related", atomic_map()),
        ("deprecatedSource", scalars(&["component", "host"])),
        ("series", scalars(&["count", "lastObservedTime"])),
    ];
    let plain = [
        "eventTime",
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
        "note",
        "type",
        "deprecatedFirstTimestamp",
        "deprecatedLastTimestamp",
        "deprecatedCount",
    ];
    fields.extend(plain.map(|name| (name, View::TEXT)));
    fields
}

fn definition() -> Vec<(&'static str, View)> {
    let names = || {
        map(&[
            ("plural", View::TEXT),
            ("singular", View::TEXT),
            ("kind", View::TEXT),
            ("listKind", View::TEXT),
            ("shortNames", atomic_list()),
            ("categories", atomic_list()),
        ])
    };
    let spec = map(&[
        ("group", View::TEXT),
        ("names", names()),
        ("scope", View::TEXT),
        ("versions", atomic_list()),
        ("conversion", map(&[("strategy", View::TEXT), ("webhook", View::Deduced)])),
        ("preserveUnknownFields", View::TEXT),
    ]);
    let status = map(&[
        ("conditions", conditions()),
        ("acceptedNames", names()),
        ("storedVersions", atomic_list()),
        ("observedGeneration", View::TEXT),
    ]);
    vec![("spec", spec), ("status", status)]
}

fn webhook() -> View {
    let selector = || atomic_map();
    map(&[
        ("name", View::TEXT),
        ("clientConfig", View::Deduced),
        ("rules", atomic_list()),
        ("failurePolicy", View::TEXT),
        ("matchPolicy", View::TEXT),
        ("namespaceSelector", selector()),
        ("objectSelector", selector()),
        ("sideEffects", View::TEXT),
        ("timeoutSeconds", View::TEXT),
        ("admissionReviewVersions", atomic_list()),
        ("matchConditions", list(scalars(&["name", "expression"]), by_key("name"))),
        ("reinvocationPolicy", View::TEXT),
    ])
}

fn open() -> View {
    let mut made = MapView { rest: Some(Box::new(View::Deduced)), ..MapView::default() };
    made.fields.insert("apiVersion".to_owned(), View::TEXT);
    made.fields.insert("kind".to_owned(), View::TEXT);
    made.fields.insert("metadata".to_owned(), metadata());
    View::Map(made)
}

fn conditions() -> View {
    let condition = scalars(&[
        "type",
        "status",
        "reason",
        "message",
        "lastTransitionTime",
        "lastHeartbeatTime",
        "observedGeneration",
    ]);
    list(condition, by_key("type"))
}

fn by_key(key: &str) -> ListKind {
    ListKind::Map(vec![(key.to_owned(), None)])
}

/// A map of these fields; the names of scalars that are no strings say what they are.
fn map(fields: &[(&str, View)]) -> View {
    let view = |name: &str, view: &View| match view {
        View::Scalar(_) => View::Scalar(scalar(name)),
        View::Map(_) | View::List(_) | View::Deduced => view.clone(),
    };
    let fields = fields.iter().map(|(name, it)| ((*name).to_owned(), view(name, it))).collect();
    View::Map(MapView { fields, rest: None, atomic: false })
}

fn scalar(name: &str) -> Scalar {
    match name {
        "count"
        | "deletionGracePeriodSeconds"
        | "deprecatedCount"
        | "generation"
        | "leaseDurationSeconds"
        | "leaseTransitions"
        | "observedGeneration"
        | "timeoutSeconds" => Scalar::Number,
        "automountServiceAccountToken" | "immutable" | "preserveUnknownFields" => Scalar::Flag,
        time if time.ends_with("Time") || time.ends_with("Timestamp") => Scalar::Any,
        _ => Scalar::Text,
    }
}

fn scalars(names: &[&str]) -> View {
    let fields: Vec<(&str, View)> = names.iter().map(|name| (*name, View::TEXT)).collect();
    map(&fields)
}

fn texts() -> View {
    View::Map(MapView { rest: Some(Box::new(View::TEXT)), ..MapView::default() })
}

fn atomic_map() -> View {
    View::Map(MapView { atomic: true, rest: Some(Box::new(View::Deduced)), ..MapView::default() })
}

fn list(item: View, kind: ListKind) -> View {
    View::List(ListView { item: Box::new(item), kind })
}

fn atomic_list() -> View {
    list(View::Deduced, ListKind::Atomic)
}
