//! Requests of an in-process client.

use http_body_util::BodyExt as _;
use kube_client::Client;
use kube_client::client::Body;
use serde_json::Value;

/// Sends a request (PATCH as a merge patch); returns status and body.
pub(crate) async fn call(
    client: &Client,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> (u16, Value) {
    let text = body.map(ToString::to_string).unwrap_or_default();
    let media = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    let request = hyper::Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", media)
        .body(Body::from(text.into_bytes()))
        .expect("a request");
    let response = client.send(request).await.expect("a response");
    let status = response.status().as_u16();
    let bytes = response.into_body().collect().await.expect("a body").to_bytes();
    (status, serde_json::from_slice(&bytes).unwrap_or_default())
}
