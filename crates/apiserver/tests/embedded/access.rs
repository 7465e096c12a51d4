//! Roles, bindings, tokens of service accounts and impersonation.

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};

use crate::call;

const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Creates an object as the administrator.
async fn create(server: &ApiServer, path: &str, object: &Value) {
    let (code, answer) = call(&server.client(), "POST", path, Some(object)).await;
    assert_eq!(code, 201, "{answer}");
}

fn rbac(kind: &str, name: &str, rest: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind, "metadata": {"name": name},
    });
    object.as_object_mut().expect("a map").extend(rest.as_object().expect("a map").clone());
    object
}

/// Binds a role in `default`.
async fn bind(server: &ApiServer, role: (&str, &str), subject: &Value) {
    let reference = json!({"kind": role.0, "name": role.1});
    let name = format!("{}-{}", role.1, subject["name"].as_str().expect("a name"));
    let name = name.replace(':', "-");
    let binding = rbac("RoleBinding", &name, &json!({"roleRef": reference, "subjects": [subject]}));
    create(server, &format!("{RBAC}/namespaces/default/rolebindings"), &binding).await;
}

async fn server() -> ApiServer {
    ApiServer::builder().build().await.expect("a server")
}

/// Status and message of a request.
async fn said(client: &Client, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
    let (code, answer) = call(client, method, path, body).await;
    (code, answer["message"].as_str().unwrap_or_default().to_owned())
}

/// A GET with headers; status and body.
async fn with_headers(client: &Client, path: &str, headers: &[(&str, &str)]) -> (u16, Value) {
    let mut request = hyper::Request::get(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.send(request.body(Body::empty()).expect("a request")).await;
    let response = response.expect("a response");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap_or_default())
}

// Requirement: AK-54
#[tokio::test]
async fn a_user_may_do_what_its_roles_allow_and_nothing_else() {
    let server = server().await;
    let client = server.client_as(User::with_groups("ann", &[]));
    let refused = "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in \
                   API group \"\" in the namespace \"default\"";
    assert_eq!(said(&client, "GET", MAPS, None).await, (403, refused.to_owned()));
    let granted = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]});
    let role = rbac("Role", "reader", &json!({"rules": [granted]}));
    create(&server, &format!("{RBAC}/namespaces/default/roles"), &role).await;
    bind(&server, ("Role", "reader"), &json!({"kind": "User", "name": "ann"})).await;
    assert_eq!(said(&client, "GET", MAPS, None).await.0, 200);
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(said(&client, "POST", MAPS, Some(&map)).await.0, 403);
    let elsewhere = "/api/v1/namespaces/kube-system/configmaps";
    assert_eq!(said(&client, "GET", elsewhere, None).await.0, 403);
    let everywhere = "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" \
                      in API group \"\" at the cluster scope";
    let all = said(&client, "GET", "/api/v1/configmaps", None).await;
    assert_eq!(all, (403, everywhere.to_owned()));
    let path = "forbidden: User \"ann\" cannot get path \"/metrics\"";
    assert_eq!(said(&client, "GET", "/metrics", None).await, (403, path.to_owned()));
    assert_eq!(said(&client, "GET", "/apis", None).await.0, 200, "discovery is for all users");
    let bob = server.client_as(User::with_groups("bob", &[]));
    assert_eq!(said(&bob, "GET", MAPS, None).await.0, 403);
}

// Requirement: AK-54
#[tokio::test]
async fn a_missing_role_is_named_and_a_cluster_role_counts_in_its_namespace() {
    let server = server().await;
    let client = server.client_as(User::with_groups("ann", &["team"]));
    bind(&server, ("ClusterRole", "gone"), &json!({"kind": "Group", "name": "team"})).await;
    let message = "configmaps \"a\" is forbidden: User \"ann\" cannot get resource \"configmaps\" \
                   in API group \"\" in the namespace \"default\": RBAC: \
                   clusterrole.rbac.authorization.k8s.io \"gone\" not found";
    let path = format!("{MAPS}/a");
    assert_eq!(said(&client, "GET", &path, None).await, (403, message.to_owned()));
    let granted = json!({
        "verbs": ["create", "get"], "apiGroups": [""], "resources": ["configmaps"],
        "resourceNames": ["a"],
    });
    let role = rbac("ClusterRole", "gone", &json!({"rules": [granted]}));
    create(&server, &format!("{RBAC}/clusterroles"), &role).await;
    assert_eq!(said(&client, "GET", &path, None).await.0, 404);
    assert_eq!(said(&client, "GET", &format!("{MAPS}/b"), None).await.0, 403);
    let selected = format!("{MAPS}?fieldSelector=metadata.name%3Da");
    assert_eq!(said(&client, "GET", &selected, None).await.0, 403, "list is not get");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "b"}});
    let made = said(&client, "POST", &selected, Some(&map)).await;
    assert_eq!(made.0, 403, "a selector names no object to create");
}

// Requirement: AK-54
#[tokio::test]
async fn aggregated_roles_follow_their_parts() {
    let server = server().await;
    let client = server.client_as(User::with_groups("ann", &[]));
    bind(&server, ("ClusterRole", "view"), &json!({"kind": "User", "name": "ann"})).await;
    let until = async |path: &str, wanted: u16| {
        let reached = async {
            while call(&client, "GET", path, None).await.0 != wanted {
                tokio::time::sleep(std::time::Duration::from_millis(5)).await;
            }
        };
        let patience = std::time::Duration::from_mins(1);
        tokio::time::timeout(patience, reached).await.expect("the permission in time");
    };
    until(MAPS, 200).await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    assert_eq!(call(&client, "GET", leases, None).await.0, 403);
    let granted = json!({"verbs": ["list"], "apiGroups": ["*"], "resources": ["leases"]});
    let mut part = rbac("ClusterRole", "part", &json!({"rules": [granted]}));
    part["metadata"]["labels"] = json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"});
    create(&server, &format!("{RBAC}/clusterroles"), &part).await;
    until(leases, 200).await;
    let part = format!("{RBAC}/clusterroles/part");
    assert_eq!(call(&server.client(), "DELETE", &part, None).await.0, 200);
    until(leases, 403).await;
}

// Requirement: AK-54
#[tokio::test]
async fn a_put_or_apply_that_creates_needs_the_right_to_create() {
    let server = server().await;
    let client = server.client_as(User::with_groups("ann", &[]));
    let granted = json!({
        "verbs": ["update", "patch"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"],
    });
    let role = rbac("Role", "changer", &json!({"rules": [granted]}));
    create(&server, &format!("{RBAC}/namespaces/default/roles"), &role).await;
    bind(&server, ("Role", "changer"), &json!({"kind": "User", "name": "ann"})).await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "a"},
    });
    let path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/a";
    let (code, message) = said(&client, "PUT", path, Some(&lease)).await;
    assert!(code == 403 && message.contains("cannot create resource \"leases\""), "{message}");
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    create(&server, leases, &lease).await;
    let change = json!({"metadata": {"labels": {"a": "b"}}});
    assert_eq!(said(&client, "PATCH", path, Some(&change)).await.0, 200);
}

// Requirement: AK-54
#[tokio::test]
async fn a_token_has_the_permissions_of_its_account() {
    let server = server().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "r"}});
    let accounts = "/api/v1/namespaces/default/serviceaccounts";
    create(&server, accounts, &account).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"});
    let (_, issued) =
        call(&server.client(), "POST", &format!("{accounts}/r/token"), Some(&request)).await;
    let token = format!("Bearer {}", issued["status"]["token"].as_str().expect("a token"));
    let headers = [("authorization", token.as_str())];
    let client = server.client();
    assert_eq!(with_headers(&client, MAPS, &headers).await.0, 403);
    bind(
        &server,
        ("ClusterRole", "cluster-admin"),
        &json!({
            "kind": "ServiceAccount", "name": "r", "namespace": "default",
        }),
    )
    .await;
    assert_eq!(with_headers(&client, MAPS, &headers).await.0, 200);
    assert_eq!(with_headers(&client, "/api/v1/namespaces", &headers).await.0, 403);
}

// Requirement: AK-55
#[tokio::test]
async fn impersonation_needs_a_right_and_acts_as_the_other_user() {
    let server = server().await;
    let boss = server.client();
    let as_ann = [("impersonate-user", "ann")];
    let (code, answer) = with_headers(&boss, MAPS, &as_ann).await;
    let message = "configmaps is forbidden: User \"ann\" cannot list resource \"configmaps\" in \
                   API group \"\" in the namespace \"default\"";
    assert_eq!((code, &answer["message"]), (403, &json!(message)), "{answer}");
    let masters = [as_ann[0], ("impersonate-group", "system:masters")];
    assert_eq!(with_headers(&boss, MAPS, &masters).await.0, 200);
    let (code, answer) = with_headers(&boss, MAPS, &masters[1..]).await;
    assert_eq!((code, &answer["reason"]), (400, &json!("BadRequest")), "{answer}");

    let bob = server.client_as(User::with_groups("bob", &[]));
    let message = "users \"ann\" is forbidden: User \"bob\" cannot impersonate resource \"users\" \
                   in API group \"\" at the cluster scope";
    let (code, answer) = with_headers(&bob, MAPS, &as_ann).await;
    assert_eq!((code, &answer["message"]), (403, &json!(message)), "{answer}");
    let account = [("impersonate-user", "system:serviceaccount:default:r")];
    let message = "serviceaccounts \"r\" is forbidden: User \"bob\" cannot impersonate resource \
                   \"serviceaccounts\" in API group \"\" in the namespace \"default\"";
    let (code, answer) = with_headers(&bob, MAPS, &account).await;
    assert_eq!((code, &answer["message"]), (403, &json!(message)), "{answer}");
    for name in ["default:r:s", ":r", "default:", "default"] {
        let user = format!("system:serviceaccount:{name}");
        let (code, answer) = with_headers(&bob, MAPS, &[("impersonate-user", &user)]).await;
        let message = answer["message"].as_str().unwrap_or_default();
        let of_users = message.contains("cannot impersonate resource \"users\"");
        assert!(code == 403 && of_users, "{name} names no account: {answer}");
    }
    let granted = json!({
        "verbs": ["impersonate"], "apiGroups": [""], "resources": ["users"],
        "resourceNames": ["ann"],
    });
    let role = rbac("ClusterRole", "actor", &json!({"rules": [granted]}));
    create(&server, &format!("{RBAC}/clusterroles"), &role).await;
    let binding = rbac(
        "ClusterRoleBinding",
        "actor",
        &json!({
            "roleRef": {"kind": "ClusterRole", "name": "actor"},
            "subjects": [{"kind": "User", "name": "bob"}],
        }),
    );
    create(&server, &format!("{RBAC}/clusterrolebindings"), &binding).await;
    assert_eq!(with_headers(&bob, "/apis", &as_ann).await.0, 200);
    assert_eq!(with_headers(&bob, "/apis", &[("impersonate-user", "eve")]).await.0, 403);
    let group = [as_ann[0], ("impersonate-group", "system:masters")];
    assert_eq!(with_headers(&bob, "/apis", &group).await.0, 403);
}

// Requirement: AK-69
#[tokio::test]
async fn no_role_is_granted_beyond_the_rights_of_its_grantor() {
    let server = server().await;
    let roles = format!("{RBAC}/namespaces/default/roles");
    let bindings = format!("{RBAC}/namespaces/default/rolebindings");
    let granted = json!([
        {"verbs": ["get", "list"], "apiGroups": [""], "resources": ["configmaps"]},
        {"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"],
         "resources": ["roles", "rolebindings"], "resourceNames": ["own"]},
        {"verbs": ["create", "update", "patch", "get"],
         "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]},
    ]);
    create(&server, &roles, &rbac("Role", "grantor", &json!({"rules": granted}))).await;
    bind(&server, ("Role", "grantor"), &json!({"kind": "User", "name": "ann"})).await;
    let ann = server.client_as(User::with_groups("ann", &["team"]));
    let role = |name: &str, verbs: &[&str]| {
        let rule = json!({"verbs": verbs, "apiGroups": [""], "resources": ["configmaps"]});
        rbac("Role", name, &json!({"rules": [rule]}))
    };
    let refusal = |resource: &str, name: &str| {
        format!(
            "{resource}.rbac.authorization.k8s.io \"{name}\" is forbidden: user \"ann\" \
             (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC \
             permissions not currently held:\n{{APIGroups:[\"\"], Resources:[\"configmaps\"], \
             Verbs:[\"watch\" \"delete\"]}}"
        )
    };
    assert_eq!(said(&ann, "POST", &roles, Some(&role("reads", &["get"]))).await.0, 201);
    let more = role("more", &["get", "watch", "delete"]);
    let answer = said(&ann, "POST", &roles, Some(&more)).await;
    assert_eq!(answer, (403, refusal("roles", "more")));
    let wider = json!({"rules": more["rules"]});
    let answer = said(&ann, "PATCH", &format!("{roles}/reads"), Some(&wider)).await;
    assert_eq!(answer, (403, refusal("roles", "reads")));
    create(&server, &roles, &more).await;
    let binding = |name: &str, role: &str| {
        let reference = json!({"kind": "Role", "name": role});
        let subjects = json!([{"kind": "User", "name": "bob"}]);
        rbac("RoleBinding", name, &json!({"roleRef": reference, "subjects": subjects}))
    };
    assert_eq!(said(&ann, "POST", &bindings, Some(&binding("a", "reads"))).await.0, 201);
    let answer = said(&ann, "POST", &bindings, Some(&binding("b", "more"))).await;
    assert_eq!(answer, (403, refusal("rolebindings", "b")));
    let answer = said(&ann, "POST", &bindings, Some(&binding("c", "gone"))).await;
    assert_eq!(answer, (404, "roles.rbac.authorization.k8s.io \"gone\" not found".to_owned()));
    let lifted = json!({"rules": [{
        "verbs": ["escalate", "bind"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["roles"],
    }]});
    create(&server, &roles, &rbac("Role", "lifted", &lifted)).await;
    bind(&server, ("Role", "lifted"), &json!({"kind": "User", "name": "ann"})).await;
    assert_eq!(said(&ann, "POST", &bindings, Some(&binding("b", "more"))).await.0, 201);
    assert_eq!(said(&ann, "PATCH", &format!("{roles}/reads"), Some(&wider)).await.0, 200);
}

// Requirement: AK-69
#[tokio::test]
async fn only_an_administrator_aggregates_cluster_roles() {
    let server = server().await;
    let roles = format!("{RBAC}/clusterroles");
    let granted = json!({"rules": [{
        "verbs": ["create"], "apiGroups": ["rbac.authorization.k8s.io"],
        "resources": ["clusterroles"],
    }]});
    create(&server, &roles, &rbac("ClusterRole", "grantor", &granted)).await;
    let bound = |name: &str, role: &str| {
        rbac(
            "ClusterRoleBinding",
            name,
            &json!({
                "roleRef": {"kind": "ClusterRole", "name": role},
                "subjects": [{"kind": "User", "name": name}],
            }),
        )
    };
    let bindings = format!("{RBAC}/clusterrolebindings");
    create(&server, &bindings, &bound("ann", "grantor")).await;
    create(&server, &bindings, &bound("bob", "cluster-admin")).await;
    let selected = json!({"aggregationRule": {"clusterRoleSelectors": [
        {"matchLabels": {"a": "b"}},
    ]}});
    let role = rbac("ClusterRole", "sum", &selected);
    let ann = server.client_as(User::with_groups("ann", &[]));
    let refused = "clusterroles.rbac.authorization.k8s.io \"sum\" is forbidden: must have \
                   cluster-admin privileges to use the aggregationRule";
    assert_eq!(said(&ann, "POST", &roles, Some(&role)).await, (403, refused.to_owned()));
    let bob = server.client_as(User::with_groups("bob", &[]));
    assert_eq!(said(&bob, "POST", &roles, Some(&role)).await.0, 201);
}
