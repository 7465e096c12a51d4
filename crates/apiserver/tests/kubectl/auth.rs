//! `kubectl auth`, `create token` and `cluster-info`.

use crate::Kubectl;

// Requirement: AK-40
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_asks_who_it_is_and_what_it_may_do() {
    let Some(kubectl) = Kubectl::start().await else { return };
    assert_eq!(kubectl.does(&["auth", "can-i", "create", "configmaps"]), "yes\n");
    let said = kubectl.does(&["auth", "whoami"]);
    assert!(said.contains("admin") && said.contains("system:masters"), "{said}");
    let said = kubectl.does(&["auth", "can-i", "--list"]);
    assert!(said.contains("*.*"), "{said}");
}

// Requirement: AK-41
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_creates_a_token_and_is_its_account() {
    let Some(kubectl) = Kubectl::start().await else { return };
    kubectl.does(&["create", "serviceaccount", "robot"]);
    let token = kubectl.does(&["create", "token", "robot", "--duration=10m"]);
    let config = kubectl.config_of(token.trim());
    let said = kubectl.does(&["--kubeconfig", &config, "auth", "whoami"]);
    assert!(said.contains("system:serviceaccount:default:robot"), "{said}");
    let config = kubectl.config_of("none");
    let refused = kubectl.ends(&["--kubeconfig", &config, "get", "configmaps"]);
    assert!(!refused.well && refused.err.contains("must be logged in"), "{refused:?}");
}

// Requirement: AK-42
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_knows_the_cluster() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let said = kubectl.does(&["cluster-info"]);
    assert!(said.contains("is running at"), "{said}");
    let services = kubectl.does(&["get", "services", "--no-headers"]);
    let words: Vec<&str> = services.split_whitespace().take(5).collect();
    assert_eq!(words, ["kubernetes", "ClusterIP", "10.96.0.1", "<none>", "443/TCP"]);
    kubectl.does(&["wait", "--for=create", "serviceaccount/default", "--timeout=60s"]);
}

// Requirement: AK-55
#[tokio::test(flavor = "multi_thread")]
async fn kubectl_asks_as_another_user() {
    let Some(kubectl) = Kubectl::start().await else { return };
    let asked = ["auth", "can-i", "list", "configmaps", "--as=ann", "--as-group=team"];
    let no = kubectl.ends(&asked);
    assert_eq!((no.well, no.out.as_str()), (false, "no\n"), "{no:?}");
    kubectl.does(&["create", "role", "reader", "--verb=list", "--resource=configmaps"]);
    kubectl.does(&["create", "rolebinding", "team", "--role=reader", "--group=team"]);
    assert_eq!(kubectl.does(&asked), "yes\n");
    let refused = kubectl.ends(&["get", "secrets", "--as=ann", "--as-group=team"]);
    assert!(!refused.well && refused.err.contains("cannot list resource"), "{refused:?}");
}
