//! Two managers of one object.

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{Patch, PatchParams};
use kube_client::{Api, Error};
use serde_json::{Value, json};
use usher_apiserver::ApiServer;

async fn apply(
    api: &Api<ConfigMap>,
    params: &PatchParams,
    data: Value,
) -> Result<Value, (u16, String)> {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data,
    });
    match api.patch("shared", params, &Patch::Apply(&map)).await {
        Ok(map) => Ok(json!(map.data)),
        Err(Error::Api(status)) => Err((status.code, status.message.clone())),
        Err(error) => Err((0, error.to_string())),
    }
}

// Requirement: AK-21
#[tokio::test]
async fn two_managers_share_conflict_and_force() {
    let server = ApiServer::builder().build().await.expect("a server");
    let api: Api<ConfigMap> = Api::default_namespaced(server.client());
    let (one, two) = (PatchParams::apply("one"), PatchParams::apply("two"));
    let first = apply(&api, &one, json!({"a": "1", "b": "1"})).await;
    assert_eq!(first, Ok(json!({"a": "1", "b": "1"})));
    let message = "Apply failed with 1 conflict: conflict with \"one\": .data.a";
    let refused = apply(&api, &two, json!({"a": "2", "c": "2"})).await;
    assert_eq!(refused, Err((409, message.to_owned())));
    let shared = apply(&api, &two, json!({"a": "1", "c": "2"})).await;
    assert_eq!(shared, Ok(json!({"a": "1", "b": "1", "c": "2"})));
    let dropped = apply(&api, &one, json!({"b": "1"})).await;
    assert_eq!(dropped, Ok(json!({"a": "1", "b": "1", "c": "2"})), "another manager owns it");
    let forced = apply(&api, &two.clone().force(), json!({"b": "2"})).await;
    assert_eq!(forced, Ok(json!({"b": "2"})));
    let message = "Apply failed with 1 conflict: conflict with \"two\": .data.b";
    let refused = apply(&api, &one, json!({"b": "1"})).await;
    assert_eq!(refused, Err((409, message.to_owned())));
}
