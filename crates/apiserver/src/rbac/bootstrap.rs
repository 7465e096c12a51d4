//! The roles and bindings of a new cluster: those of Kubernetes, for the kinds served here.

use serde_json::{Value, json};

const READ: [&str; 3] = ["get", "list", "watch"];
const WRITE: [&str; 5] = ["create", "delete", "deletecollection", "patch", "update"];
const ALL: [&str; 8] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const PUBLIC: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];
const RBAC: &str = "rbac.authorization.k8s.io";
const AUTHORIZATION: &str = "authorization.k8s.io";
const AGGREGATION: &str = "system:controller:clusterrole-aggregation-controller";
const AUTHENTICATED: &str = "system:authenticated";

/// Every role and binding, with the plural of its resource.
pub(crate) fn objects() -> Vec<(&'static str, Value)> {
    let roles = [
        role("cluster-admin", &[rule(&["*"], "*", &["*"]), paths(&["*"], &["*"])], None),
        role("system:discovery", &[discovery()], None),
        role("system:basic-user", &[basic(), whoami()], None),
        role("system:public-info-viewer", &[paths(&["get"], &PUBLIC)], None),
        aggregated("admin", None),
        aggregated("edit", Some("admin")),
        aggregated("view", Some("edit")),
        role("system:aggregate-to-admin", &admin_rules(), Some("admin")),
        role("system:aggregate-to-edit", &edit_rules(), Some("edit")),
        role("system:aggregate-to-view", &view_rules(), Some("view")),
        role(AGGREGATION, &[aggregation()], None),
    ];
    let bindings = [
        binding("cluster-admin", &["system:masters"]),
        binding("system:discovery", &[AUTHENTICATED]),
        binding("system:basic-user", &[AUTHENTICATED]),
        binding("system:public-info-viewer", &[AUTHENTICATED, "system:unauthenticated"]),
        controller_binding(),
    ];
    let roles = roles.into_iter().map(|role| ("clusterroles", role));
    roles.chain(bindings.into_iter().map(|binding| ("clusterrolebindings", binding))).collect()
}

/// The rights of the controller that adds up roles: it grants what it does not have.
fn aggregation() -> Value {
    let verbs = ["escalate", "get", "list", "patch", "update", "watch"];
    rule(&verbs, RBAC, &["clusterroles"])
}

fn controller_binding() -> Value {
    let mut binding = binding(AGGREGATION, &[]);
    binding["subjects"] = json!([{
        "kind": "ServiceAccount",
        "name": "clusterrole-aggregation-controller",
        "namespace": "kube-system",
    }]);
    binding
}

fn basic() -> Value {
    rule(&["create"], AUTHORIZATION, &["selfsubjectaccessreviews", "selfsubjectrulesreviews"])
}

fn whoami() -> Value {
    rule(&["create"], "authentication.k8s.io", &["selfsubjectreviews"])
}

fn discovery() -> Value {
    let own = ["/api", "/api/*", "/apis", "/apis/*", "/openapi", "/openapi/*"];
    paths(&["get"], &[&own[..], &PUBLIC[..]].concat())
}

fn admin_rules() -> [Value; 2] {
    [
        rule(&["create"], AUTHORIZATION, &["localsubjectaccessreviews"]),
        rule(&ALL, RBAC, &["roles", "rolebindings"]),
    ]
}

fn edit_rules() -> [Value; 7] {
    [
        rule(&READ, "", &["secrets"]),
        rule(&["impersonate"], "", &["serviceaccounts"]),
        rule(&WRITE, "", &["configmaps", "secrets", "serviceaccounts", "services"]),
        rule(&["create"], "", &["serviceaccounts/token"]),
        rule(&WRITE, "", &["events"]),
        rule(&WRITE, "events.k8s.io", &["events"]),
        rule(&ALL, "coordination.k8s.io", &["leases"]),
    ]
}

fn view_rules() -> [Value; 5] {
    [
        rule(&READ, "", &["configmaps", "endpoints", "namespaces", "serviceaccounts"]),
        rule(&READ, "", &["services", "services/status"]),
        rule(&READ, "", &["events", "namespaces/status"]),
        rule(&READ, "events.k8s.io", &["events"]),
        rule(&READ, "discovery.k8s.io", &["endpointslices"]),
    ]
}

fn rule(verbs: &[&str], group: &str, resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [group], "resources": resources})
}

fn paths(verbs: &[&str], paths: &[&str]) -> Value {
    json!({"verbs": verbs, "nonResourceURLs": paths})
}

fn label(role: &str) -> String {
    format!("{RBAC}/aggregate-to-{role}")
}

fn metadata(name: &str, aggregates_to: Option<&str>) -> Value {
    let mut labels = json!({"kubernetes.io/bootstrapping": "rbac-defaults"});
    if let Some(role) = aggregates_to {
        labels[label(role)] = json!("true");
    }
    json!({
        "name": name,
        "labels": labels,
        "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
    })
}

fn role(name: &str, rules: &[Value], aggregates_to: Option<&str>) -> Value {
    json!({
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": metadata(name, aggregates_to),
        "rules": rules,
    })
}

/// A role with the rules of others.
fn aggregated(name: &str, aggregates_to: Option<&str>) -> Value {
    json!({
        "kind": "ClusterRole",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": metadata(name, aggregates_to),
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {label(name): "true"}}]},
        "rules": null,
    })
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subject = |group: &&str| json!({"kind": "Group", "apiGroup": RBAC, "name": group});
    let subjects: Vec<Value> = groups.iter().map(subject).collect();
    json!({
        "kind": "ClusterRoleBinding",
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "metadata": metadata(role, None),
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}
