//! What both servers have before the first seed: definitions, namespaces, roles.

use serde_json::{Value, json};

/// How many seeds are played at the same time.
pub(crate) const WORKERS: usize = 4;

/// A kind of objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) plural: &'static str,
    /// What its objects call it.
    pub(crate) singular: &'static str,
    pub(crate) version: &'static str,
    pub(crate) namespaced: bool,
    pub(crate) custom: bool,
    pub(crate) has_status: bool,
}

const fn builtin(plural: &'static str, singular: &'static str, version: &'static str) -> Kind {
    Kind { plural, singular, version, namespaced: true, custom: false, has_status: false }
}

const fn custom(plural: &'static str, singular: &'static str, namespaced: bool) -> Kind {
    Kind {
        plural,
        singular,
        version: "diff.example/v1",
        namespaced,
        custom: true,
        has_status: true,
    }
}

pub(crate) const CONFIG_MAP: Kind = builtin("configmaps", "ConfigMap", "v1");
pub(crate) const SECRET: Kind = builtin("secrets", "Secret", "v1");
pub(crate) const ACCOUNT: Kind = builtin("serviceaccounts", "ServiceAccount", "v1");
pub(crate) const LEASE: Kind = builtin("leases", "Lease", "coordination.k8s.io/v1");
pub(crate) const WIDGET: Kind = custom("widgets", "Widget", true);
/// Without a status, and whatever its spec says is kept.
pub(crate) const GADGET: Kind = Kind { has_status: false, ..custom("gadgets", "Gadget", true) };
/// Cluster-scoped.
pub(crate) const PLINTH: Kind = custom("plinths", "Plinth", false);

pub(crate) const KINDS: [Kind; 7] = [CONFIG_MAP, SECRET, ACCOUNT, LEASE, WIDGET, GADGET, PLINTH];

/// The users beside the administrator: one writes, one reads, one may do little, and one may do in
/// the namespaces of the workers what its group may.
pub(crate) const USERS: [&str; 4] = ["ann", "bob", "cid", GROUP_MEMBER];
const GROUP_MEMBER: &str = "dan/diff-team";

/// A namespace that is being deleted and never gone, because of [`held`].
pub(crate) const ENDING: &str = "diff-ending";

impl Kind {
    /// The path of its objects.
    pub(crate) fn path(&self) -> String {
        let root = if self.version == "v1" {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{}", self.version)
        };
        let space = if self.namespaced { "/namespaces/${ns}" } else { "" };
        format!("{root}{space}/{}", self.plural)
    }

    /// The path of one object.
    pub(crate) fn named(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    /// The name in the pool with this number.
    pub(crate) fn name(&self, number: usize) -> String {
        if self.namespaced { format!("x{number}") } else { format!("${{ns}}-x{number}") }
    }
}

/// The namespace of a worker.
pub(crate) fn namespace(worker: usize) -> String {
    format!("diff-{worker}")
}

/// The objects to create, with the paths of their kinds.
pub(crate) fn objects() -> Vec<(String, Value)> {
    let mut objects = Vec::new();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    for definition in [
        definition(&WIDGET, &widget(), true),
        definition(&GADGET, &gadget(), false),
        definition(&PLINTH, &gadget(), true),
    ] {
        objects.push((definitions.to_owned(), definition));
    }
    for worker in 0..WORKERS {
        objects.push(("/api/v1/namespaces".to_owned(), space(&namespace(worker))));
    }
    objects.extend(rights());
    objects
}

/// A namespace.
pub(crate) fn space(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
}

/// What holds [`ENDING`].
pub(crate) fn held() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
           "metadata": {"name": "held", "finalizers": ["diff.example/a"]}})
}

/// The roles of the users, and who has them where.
fn rights() -> Vec<(String, Value)> {
    let rbac = "rbac.authorization.k8s.io";
    let root = format!("/apis/{rbac}/v1");
    let mut objects = Vec::new();
    for (user, rules) in USERS.into_iter().zip([writes(), reads(), little(), team()]) {
        let (user, group) = user.split_once('/').unwrap_or((user, ""));
        let name = format!("diff-{user}");
        let role = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole",
            "metadata": {"name": name}, "rules": rules,
        });
        objects.push((format!("{root}/clusterroles"), role));
        let subject = if group.is_empty() { ("User", user) } else { ("Group", group) };
        let mut binding = json!({
            "apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding",
            "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
            "subjects": [{"apiGroup": rbac, "kind": subject.0, "name": subject.1}],
        });
        if group.is_empty() {
            objects.push((format!("{root}/clusterrolebindings"), binding));
            continue;
        }
        binding["kind"] = json!("RoleBinding");
        for worker in 0..WORKERS {
            let path = format!("{root}/namespaces/{}/rolebindings", namespace(worker));
            objects.push((path, binding.clone()));
        }
    }
    objects
}

fn writes() -> Value {
    json!([
        {"verbs": ["*"], "apiGroups": ["", "coordination.k8s.io"],
         "resources": ["configmaps", "secrets", "serviceaccounts", "leases"]},
        {"verbs": ["*"], "apiGroups": ["diff.example"], "resources": ["*"]},
    ])
}

fn reads() -> Value {
    json!([{"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}])
}

/// Statuses but not specs, creation but no update, one named object.
fn little() -> Value {
    json!([
        {"verbs": ["get", "patch", "update"], "apiGroups": ["diff.example"],
         "resources": ["widgets/status", "plinths/status", "widgets/scale"]},
        {"verbs": ["create", "get"], "apiGroups": [""], "resources": ["configmaps"]},
        {"verbs": ["get", "delete", "patch"], "apiGroups": [""], "resources": ["secrets"],
         "resourceNames": ["x0"]},
    ])
}

/// Of a binding in a namespace: so not of what has none.
fn team() -> Value {
    json!([
        {"verbs": ["get", "list", "create", "patch"], "apiGroups": [""],
         "resources": ["configmaps", "secrets"]},
        {"verbs": ["*"], "apiGroups": ["diff.example"], "resources": ["widgets", "plinths"]},
    ])
}

fn definition(kind: &Kind, schema: &Value, with_status: bool) -> Value {
    let mut subresources = json!({});
    if with_status {
        subresources["status"] = json!({});
    }
    let mut columns = json!([]);
    if kind.plural == "widgets" {
        subresources["scale"] = json!({
            "specReplicasPath": ".spec.size",
            "statusReplicasPath": ".status.seen",
            "labelSelectorPath": ".status.selector",
        });
        columns = json!([
            {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
            {"name": "Color", "type": "string", "jsonPath": ".spec.color", "priority": 1},
            {"name": "Ready", "type": "string",
             "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        ]);
    }
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{}.diff.example", kind.plural)},
        "spec": {
            "group": "diff.example",
            "scope": if kind.namespaced { "Namespaced" } else { "Cluster" },
            "names": {
                "plural": kind.plural, "kind": kind.singular,
                "singular": kind.singular.to_lowercase(),
            },
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "subresources": subresources,
                "additionalPrinterColumns": columns,
                "selectableFields": if kind.plural == "widgets" {
                    json!([{"jsonPath": ".spec.color"}])
                } else {
                    json!([])
                },
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn gadget() -> Value {
    json!({
        "type": "object",
        "properties": {
            "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        },
    })
}

fn widget() -> Value {
    let port = json!({
        "type": "object",
        "description": "A port by its name.",
        "required": ["name", "port"],
        "properties": {
            "name": {"type": "string", "maxLength": 8, "description": "Short,\nwith two lines."},
            "port": {"type": "integer", "format": "int32", "minimum": 1, "maximum": 65535},
            "protocol": {"type": "string", "default": "TCP"},
        },
    });
    let condition = json!({
        "type": "object",
        "required": ["type", "status"],
        "properties": {
            "type": {"type": "string"},
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "note": {"type": "string"},
        },
    });
    json!({
        "type": "object",
        "required": ["spec"],
        "properties": {
            "spec": {
                "type": "object",
                "description": "What is wanted.",
                "x-kubernetes-validations": [
                    {"rule": "!has(self.limit) || self.size <= self.limit",
                     "message": "size is above limit"},
                    {"rule": "!has(oldSelf.frozen) \
                              || (has(self.frozen) && self.frozen == oldSelf.frozen)",
                     "message": "frozen cannot change", "fieldPath": ".frozen"},
                ],
                "properties": {
                    "size": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
                    "limit": {"type": "integer"},
                    "frozen": {"type": "string"},
                    "color": {"type": "string", "enum": ["red", "green", "blue"], "default": "red"},
                    "note": {"type": "string", "nullable": true, "pattern": "^[a-z ]*$"},
                    "ratio": {"type": "number"},
                    "mode": {"x-kubernetes-int-or-string": true},
                    "on": {"type": "boolean"},
                    "tags": {"type": "array", "x-kubernetes-list-type": "set", "maxItems": 4,
                             "items": {"type": "string"}},
                    "ports": {"type": "array", "x-kubernetes-list-type": "map",
                              "x-kubernetes-list-map-keys": ["name"], "items": port},
                    "parts": {"type": "array", "items": {
                        "type": "object", "properties": {
                            "a": {"type": "integer"}, "b": {"type": "string", "default": "bee"}}}},
                    "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                              "additionalProperties": {"type": "string"}},
                    "nested": {"type": "object", "properties": {
                        "a": {"type": "string"},
                        "deep": {"type": "object", "default": {}, "properties": {
                            "b": {"type": "integer", "default": 7}}}}},
                    "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                             "properties": {"known": {"type": "string"}}},
                },
            },
            "status": {"type": "object", "properties": {
                "seen": {"type": "integer"},
                "selector": {"type": "string"},
                "conditions": {"type": "array", "x-kubernetes-list-type": "map",
                               "x-kubernetes-list-map-keys": ["type"], "items": condition},
            }},
        },
    })
}
