//! What every cluster has: accounts, the service of the server, health and metrics.

use http_body_util::BodyExt as _;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, User};

use crate::call;

/// Status and text of a GET.
async fn text(server: &ApiServer, user: User, path: &str) -> (u16, String) {
    let request = hyper::Request::get(path).body(Body::empty()).expect("a request");
    let response = server.client_as(user).send(request).await.expect("a response");
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (code, String::from_utf8(bytes.to_vec()).expect("Unicode"))
}

/// Waits until an object is there that fits.
async fn until(server: &ApiServer, path: &str, fits: impl Fn(&Value) -> bool) {
    let waiting = async {
        loop {
            let (code, object) = call(&server.client(), "GET", path, None).await;
            if code == 200 && fits(&object) {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, waiting).await.expect("the object in time");
}

// Requirement: AK-42
#[tokio::test]
async fn every_namespace_gets_a_default_service_account_again() {
    let server = ApiServer::builder().build().await.expect("a server");
    let account = |space: &str| format!("/api/v1/namespaces/{space}/serviceaccounts/default");
    until(&server, &account("kube-system"), |_| true).await;
    let client = server.client();
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "room"}});
    assert_eq!(call(&client, "POST", "/api/v1/namespaces", Some(&space)).await.0, 201);
    until(&server, &account("room"), |_| true).await;
    let (_, deleted) = call(&client, "DELETE", &account("room"), None).await;
    let uid = deleted["metadata"]["uid"].clone();
    assert!(uid.is_string(), "{deleted}");
    until(&server, &account("room"), |object| object["metadata"]["uid"] != uid).await;
    assert_eq!(call(&client, "DELETE", "/api/v1/namespaces/room", None).await.0, 200);
    let gone = async {
        while call(&client, "GET", "/api/v1/namespaces/room", None).await.0 == 200 {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let patience = std::time::Duration::from_mins(1);
    tokio::time::timeout(patience, gone).await.expect("a deletion in time");
}

// Requirement: AK-42
#[tokio::test]
async fn the_kubernetes_service_is_there_and_read_only() {
    let server = ApiServer::builder().build().await.expect("a server");
    let path = "/api/v1/namespaces/default/services/kubernetes";
    let (code, service) = call(&server.client(), "GET", path, None).await;
    assert_eq!((code, &service["spec"]["type"]), (200, &json!("ClusterIP")), "{service}");
    assert_eq!(service["metadata"]["labels"]["provider"], "kubernetes");
    assert_eq!(call(&server.client(), "DELETE", path, None).await.0, 405);
}

// Requirement: AK-43
#[tokio::test]
async fn health_checks_are_listed_on_request() {
    let server = ApiServer::builder().build().await.expect("a server");
    let get = |path: &'static str| text(&server, User::admin("a"), path);
    for endpoint in ["healthz", "livez", "readyz"] {
        let (code, body) = text(&server, User::admin("a"), &format!("/{endpoint}?verbose")).await;
        let wanted =
            format!("[+]ping ok\n[+]storage ok\n[+]bootstrap ok\n{endpoint} check passed\n");
        assert_eq!((code, body), (200, wanted));
    }
    let (_, body) = get("/readyz?verbose&exclude=ping&exclude=etcd").await;
    let wanted = "[+]ping excluded: ok\n[+]storage ok\n[+]bootstrap ok\nwarn: some health checks \
                  cannot be excluded: no matches for \"etcd\"\nreadyz check passed\n";
    assert_eq!(body, wanted);
    assert_eq!(get("/livez").await, (200, "ok".to_owned()));
    assert_eq!(get("/readyz/storage").await, (200, "ok".to_owned()));
    assert_eq!(get("/readyz/other").await.0, 404);
    assert_eq!(text(&server, User::anonymous(), "/readyz?verbose").await.0, 200);
    assert_eq!(text(&server, User::anonymous(), "/readyz/storage").await.0, 403);
}

// Requirement: AK-43
#[tokio::test]
async fn metrics_count_requests_and_objects() {
    let server = ApiServer::builder().build().await.expect("a server");
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(call(&server.client(), "POST", maps, Some(&map)).await.0, 201);
    let (code, body) = text(&server, User::admin("a"), "/metrics").await;
    let requests = "apiserver_request_total{code=\"201\",component=\"apiserver\",group=\"\",\
                    resource=\"configmaps\",verb=\"POST\"} 1\n";
    let objects = "apiserver_storage_objects{group=\"\",resource=\"configmaps\"} 1\n";
    assert!(code == 200 && body.contains(requests) && body.contains(objects), "{body}");
    assert_eq!(text(&server, User::anonymous(), "/metrics").await.0, 403);
}
