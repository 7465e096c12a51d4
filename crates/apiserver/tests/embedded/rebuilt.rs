//! Another cluster behind the same clients: a restored backup, or a rebuilt cluster.

use std::net::SocketAddr;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::{ApiServer, Fault};

use crate::call;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SYSTEM: &str = "/api/v1/namespaces/kube-system";

async fn make(client: &Client, name: &str) -> u64 {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (code, made) = call(client, "POST", MAPS, Some(&map)).await;
    assert_eq!(code, 201, "{made}");
    version(&made)
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().expect("one").parse().expect("a number")
}

async fn identity(client: &Client) -> Value {
    call(client, "GET", SYSTEM, None).await.1["metadata"]["uid"].clone()
}

async fn names(client: &Client) -> (Vec<Value>, u64) {
    let (_, list) = call(client, "GET", MAPS, None).await;
    let items = list["items"].as_array().expect("items");
    (items.iter().map(|item| item["metadata"]["name"].clone()).collect(), version(&list))
}

// Requirement: AK-63
#[tokio::test]
async fn a_restored_snapshot_has_the_same_uid_and_older_revisions() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    make(&client, "a").await;
    let (before, uid) = (server.snapshot(), identity(&client).await);
    let revision = make(&client, "b").await;
    let uri = format!("{MAPS}?watch=true&resourceVersion={revision}");
    let request = hyper::Request::get(uri).body(Body::empty()).expect("a request");
    let watch = client.send(request).await.expect("a stream").into_body();
    server.rebuild(ApiServer::builder().snapshot(before)).await.expect("a restored cluster");
    assert!(watch.collect().await.expect("a clean end").to_bytes().is_empty());
    let (held, now) = names(&client).await;
    assert_eq!(held, [json!("a")]);
    assert!(now < revision, "{now} is before {revision}");
    assert_eq!(identity(&client).await, uid);
    assert!(make(&client, "c").await <= revision, "revisions are given again");
}

// Requirement: AK-63
#[tokio::test]
async fn an_older_copy_of_the_file_is_opened_behind_the_same_client() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, copy) = (folder.path().join("file"), folder.path().join("copy"));
    let server = ApiServer::builder().file(&file).build().await.expect("a server");
    make(&server.client(), "a").await;
    let uid = identity(&server.client()).await;
    server.shutdown().await;
    std::fs::copy(&file, &copy).expect("a copy");
    let server = ApiServer::builder().file(&file).build().await.expect("a server");
    let client = server.client();
    make(&client, "b").await;
    server.rebuild(ApiServer::builder().file(&copy)).await.expect("a restored cluster");
    assert_eq!(names(&client).await.0, [json!("a")]);
    assert_eq!(identity(&client).await, uid);
    make(&client, "c").await;
    server.shutdown().await;
    let server = ApiServer::builder().file(&file).build().await.expect("the newer file is free");
    assert_eq!(names(&server.client()).await.0, [json!("a"), json!("b")]);
}

// Requirement: AK-63
#[tokio::test]
async fn a_rebuilt_cluster_has_the_same_address_and_faults_and_another_uid() {
    let server = ApiServer::builder().build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a listener");
    let client = server.client();
    make(&client, "a").await;
    server.set_faults(|request| match request.verb.as_str() {
        "delete" => Fault::Refuse(409),
        _ => Fault::None,
    });
    let (uid, kubeconfig) = (identity(&client).await, server.kubeconfig());
    server.rebuild(ApiServer::builder()).await.expect("a rebuilt cluster");
    assert_eq!(names(&client).await.0, [] as [Value; 0]);
    assert_ne!(identity(&client).await, uid);
    assert_eq!(server.kubeconfig(), kubeconfig);
    make(&client, "a").await;
    assert_eq!(call(&client, "DELETE", &format!("{MAPS}/a"), None).await.0, 409);
}
