//! What the API server does in a second: `cargo bench -p usher-apiserver`.

#![expect(clippy::expect_used, reason = "a measurement that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the figures are what it is for")]

use std::time::Instant;

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

const KIND: &str = "/apis/bench.example/v1/namespaces/default/things";

#[tokio::main]
async fn main() {
    let started = Instant::now();
    let server = ApiServer::builder().build().await.expect("a server");
    println!("start: {} us", started.elapsed().as_micros());
    measure("memory", &server, 4000).await;
    server.shutdown().await;
    let folder = tempfile::tempdir().expect("a folder");
    let server = ApiServer::builder().file(folder.path().join("f")).build().await;
    let server = server.expect("a server");
    measure("file", &server, 600).await;
    server.shutdown().await;
}

async fn measure(name: &str, server: &ApiServer, count: usize) {
    define(server).await;
    for clients in [1, 16, 64] {
        let started = Instant::now();
        let each = count / clients;
        let mut tasks = Vec::new();
        for client in 0..clients {
            let caller = server.client();
            tasks.push(tokio::spawn(async move {
                for index in 0..each {
                    let name = format!("t-{clients}-{client}-{index}");
                    let body = json!({
                        "apiVersion": "bench.example/v1",
                        "kind": "Thing",
                        "metadata": {"name": name},
                        "spec": {"size": index, "note": "x".repeat(200)},
                    });
                    assert_eq!(ask(&caller, "POST", KIND, Some(&body)).await.0, 201);
                }
            }));
        }
        for task in tasks {
            task.await.expect("a client");
        }
        tell(name, &format!("creates, {clients} clients"), each * clients, started);
    }
    let client = server.client();
    let started = Instant::now();
    for _ in 0..count {
        let path = format!("{KIND}/t-1-0-0");
        assert_eq!(ask(&client, "GET", &path, None).await.0, 200);
    }
    tell(name, "gets, 1 client", count, started);
    let started = Instant::now();
    let (_, list) = ask(&client, "GET", KIND, None).await;
    let items = list["items"].as_array().map_or(0, Vec::len);
    tell(name, "listed objects", items, started);
}

fn tell(name: &str, what: &str, count: usize, started: Instant) {
    let micros = started.elapsed().as_micros().max(1);
    let rate = (count as u128) * 1_000_000 / micros;
    println!("{name}: {what}: {count} in {} ms, {rate}/s", micros / 1000);
}

async fn define(server: &ApiServer) {
    let client = server.client();
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.bench.example"},
        "spec": {
            "group": "bench.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {
                        "size": {"type": "integer"}, "note": {"type": "string"},
                    }},
                }}},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    ask(&client, "POST", path, Some(&definition)).await;
    while ask(&client, "GET", KIND, None).await.0 != 200 {
        tokio::task::yield_now().await;
    }
}

async fn ask(client: &Client, method: &str, path: &str, body: Option<&Value>) -> (u16, Value) {
    let text = body.map(ToString::to_string).unwrap_or_default();
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(text.into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("an answer");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}
