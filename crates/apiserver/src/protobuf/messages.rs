//! Field numbers and names of the Kubernetes messages.

use super::reviews;

/// The JSON form of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// A string, omitted if empty.
    Text,
    /// A string, kept if empty.
    Given,
    /// Bytes, in base64.
    Bytes,
    Bool,
    /// A number, omitted if zero.
    Number,
    /// A number, kept if zero.
    GivenNumber,
    /// A time in seconds.
    Time,
    /// A time in microseconds.
    MicroTime,
    /// Bytes that are JSON.
    Json,
    /// A message that only wraps JSON.
    Raw,
    /// A message that only wraps a list of strings.
    Items,
    /// What the server does not read.
    Ignored,
    Message(&'static [Field]),
    List(&'static Form),
    Map(&'static Form),
}

/// One field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) number: u64,
    pub(super) name: &'static str,
    pub(super) form: Form,
}

/// The message of a kind; `None` if protobuf is not supported for it.
pub(super) fn of(group: &str, kind: &str) -> Option<&'static [Field]> {
    match (group, kind) {
        ("", "Namespace") => Some(&NAMESPACE),
        ("", "ConfigMap") => Some(&CONFIG_MAP),
        ("", "Secret") => Some(&SECRET),
        ("", "ServiceAccount") => Some(&SERVICE_ACCOUNT),
        ("", "Event") => Some(&EVENT),
        ("coordination.k8s.io", "Lease") => Some(&LEASE),
        ("rbac.authorization.k8s.io", "Role") => Some(&ROLE),
        ("rbac.authorization.k8s.io", "ClusterRole") => Some(&CLUSTER_ROLE),
        ("rbac.authorization.k8s.io", "RoleBinding" | "ClusterRoleBinding") => Some(&ROLE_BINDING),
        ("authentication.k8s.io" | "authorization.k8s.io", kind) => reviews::of(kind),
        _ => None,
    }
}

/// One entry of a map.
pub(super) fn entry(form: Form) -> [Field; 2] {
    [field(1, "key", Form::Given), field(2, "value", form)]
}

pub(super) const fn field(number: u64, name: &'static str, form: Form) -> Field {
    Field { number, name, form }
}

pub(super) const TEXTS: Form = Form::List(&Form::Given);
const TEXT_MAP: Form = Form::Map(&Form::Given);
const BYTES_MAP: Form = Form::Map(&Form::Bytes);
pub(super) const METADATA: Field = field(1, "metadata", Form::Message(&OBJECT_META));

pub(super) static ENVELOPE: [Field; 4] = [
    field(1, "typeMeta", Form::Message(&TYPE_META)),
    field(2, "raw", Form::Bytes),
    field(3, "contentEncoding", Form::Text),
    field(4, "contentType", Form::Text),
];
static TYPE_META: [Field; 2] = [field(1, "apiVersion", Form::Text), field(2, "kind", Form::Text)];
pub(super) static TIME: [Field; 2] =
    [field(1, "seconds", Form::GivenNumber), field(2, "nanos", Form::Number)];

static OBJECT_META: [Field; 15] = [
    field(1, "name", Form::Text),
    field(2, "generateName", Form::Text),
    field(3, "namespace", Form::Text),
    field(4, "selfLink", Form::Text),
    field(5, "uid", Form::Text),
    field(6, "resourceVersion", Form::Text),
    field(7, "generation", Form::Number),
    field(8, "creationTimestamp", Form::Time),
    field(9, "deletionTimestamp", Form::Time),
    field(10, "deletionGracePeriodSeconds", Form::GivenNumber),
    field(11, "labels", TEXT_MAP),
    field(12, "annotations", TEXT_MAP),
    field(13, "ownerReferences", Form::List(&Form::Message(&OWNER_REFERENCE))),
    field(14, "finalizers", TEXTS),
    field(17, "managedFields", Form::List(&Form::Message(&MANAGED_FIELDS))),
];
static OWNER_REFERENCE: [Field; 6] = [
    field(1, "kind", Form::Given),
    field(3, "name", Form::Given),
    field(4, "uid", Form::Given),
    field(5, "apiVersion", Form::Given),
    field(6, "controller", Form::Bool),
    field(7, "blockOwnerDeletion", Form::Bool),
];
static MANAGED_FIELDS: [Field; 7] = [
    field(1, "manager", Form::Text),
    field(2, "operation", Form::Text),
    field(3, "apiVersion", Form::Text),
    field(4, "time", Form::Time),
    field(6, "fieldsType", Form::Text),
    field(7, "fieldsV1", Form::Raw),
    field(8, "subresource", Form::Text),
];
/// A message that only wraps JSON.
pub(super) static RAW: [Field; 1] = [field(1, "raw", Form::Json)];

/// A message that only wraps a list of strings.
pub(super) static ITEMS: [Field; 1] = [field(1, "items", TEXTS)];

static NAMESPACE: [Field; 3] = [
    METADATA,
    field(2, "spec", Form::Message(&NAMESPACE_SPEC)),
    field(3, "status", Form::Message(&NAMESPACE_STATUS)),
];
static NAMESPACE_SPEC: [Field; 1] = [field(1, "finalizers", TEXTS)];
static NAMESPACE_STATUS: [Field; 2] = [
    field(1, "phase", Form::Text),
    field(2, "conditions", Form::List(&Form::Message(&NAMESPACE_CONDITION))),
];
static NAMESPACE_CONDITION: [Field; 5] = [
    field(1, "type", Form::Given),
    field(2, "status", Form::Given),
    field(4, "lastTransitionTime", Form::Time),
    field(5, "reason", Form::Text),
    field(6, "message", Form::Text),
];
static CONFIG_MAP: [Field; 4] = [
    METADATA,
    field(2, "data", TEXT_MAP),
    field(3, "binaryData", BYTES_MAP),
    field(4, "immutable", Form::Bool),
];
static SECRET: [Field; 5] = [
    METADATA,
    field(2, "data", BYTES_MAP),
    field(3, "type", Form::Text),
    field(4, "stringData", TEXT_MAP),
    field(5, "immutable", Form::Bool),
];
static SERVICE_ACCOUNT: [Field; 4] = [
    METADATA,
    field(2, "secrets", Form::List(&Form::Message(&OBJECT_REFERENCE))),
    field(3, "imagePullSecrets", Form::List(&Form::Message(&LOCAL_REFERENCE))),
    field(4, "automountServiceAccountToken", Form::Bool),
];
static LOCAL_REFERENCE: [Field; 1] = [field(1, "name", Form::Text)];
static OBJECT_REFERENCE: [Field; 7] = [
    field(1, "kind", Form::Text),
    field(2, "namespace", Form::Text),
    field(3, "name", Form::Text),
    field(4, "uid", Form::Text),
    field(5, "apiVersion", Form::Text),
    field(6, "resourceVersion", Form::Text),
    field(7, "fieldPath", Form::Text),
];
static EVENT: [Field; 15] = [
    METADATA,
    field(2, "involvedObject", Form::Message(&OBJECT_REFERENCE)),
    field(3, "reason", Form::Text),
    field(4, "message", Form::Text),
    field(5, "source", Form::Message(&EVENT_SOURCE)),
    field(6, "firstTimestamp", Form::Time),
    field(7, "lastTimestamp", Form::Time),
    field(8, "count", Form::Number),
    field(9, "type", Form::Text),
    field(10, "eventTime", Form::MicroTime),
    field(11, "series", Form::Message(&EVENT_SERIES)),
    field(12, "action", Form::Text),
    field(13, "related", Form::Message(&OBJECT_REFERENCE)),
    field(14, "reportingComponent", Form::Text),
    field(15, "reportingInstance", Form::Text),
];
static EVENT_SOURCE: [Field; 2] = [field(1, "component", Form::Text), field(2, "host", Form::Text)];
static EVENT_SERIES: [Field; 2] =
    [field(1, "count", Form::Number), field(2, "lastObservedTime", Form::MicroTime)];
static LEASE: [Field; 2] = [METADATA, field(2, "spec", Form::Message(&LEASE_SPEC))];
static LEASE_SPEC: [Field; 7] = [
    field(1, "holderIdentity", Form::Given),
    field(2, "leaseDurationSeconds", Form::GivenNumber),
    field(3, "acquireTime", Form::MicroTime),
    field(4, "renewTime", Form::MicroTime),
    field(5, "leaseTransitions", Form::GivenNumber),
    field(6, "strategy", Form::Given),
    field(7, "preferredHolder", Form::Given),
];
static ROLE: [Field; 2] = [METADATA, field(2, "rules", Form::List(&Form::Message(&POLICY_RULE)))];
static CLUSTER_ROLE: [Field; 3] = [
    METADATA,
    field(2, "rules", Form::List(&Form::Message(&POLICY_RULE))),
    field(3, "aggregationRule", Form::Message(&AGGREGATION_RULE)),
];
static AGGREGATION_RULE: [Field; 1] =
    [field(1, "clusterRoleSelectors", Form::List(&Form::Message(&LABEL_SELECTOR)))];
static LABEL_SELECTOR: [Field; 2] = [
    field(1, "matchLabels", TEXT_MAP),
    field(2, "matchExpressions", Form::List(&Form::Message(&REQUIREMENT))),
];
static REQUIREMENT: [Field; 3] =
    [field(1, "key", Form::Given), field(2, "operator", Form::Given), field(3, "values", TEXTS)];
static POLICY_RULE: [Field; 5] = [
    field(1, "verbs", TEXTS),
    field(2, "apiGroups", TEXTS),
    field(3, "resources", TEXTS),
    field(4, "resourceNames", TEXTS),
    field(5, "nonResourceURLs", TEXTS),
];
static ROLE_BINDING: [Field; 3] = [
    METADATA,
    field(2, "subjects", Form::List(&Form::Message(&SUBJECT))),
    field(3, "roleRef", Form::Message(&ROLE_REFERENCE)),
];
static SUBJECT: [Field; 4] = [
    field(1, "kind", Form::Text),
    field(2, "apiGroup", Form::Text),
    field(3, "name", Form::Text),
    field(4, "namespace", Form::Text),
];
static ROLE_REFERENCE: [Field; 3] =
    [field(1, "apiGroup", Form::Text), field(2, "kind", Form::Text), field(3, "name", Form::Text)];
