//! A controller with a finalizer and objects of its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::core::{ApiResource, DynamicObject, GroupVersionKind};
use kube_client::{Api, Client, Error, Resource as _, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::finalizer::{Event, finalizer};
use kube_runtime::wait::{await_condition, conditions};
use kube_runtime::{Controller, watcher};
use serde_json::json;
use usher_apiserver::ApiServer;

const FINALIZER: &str = "clients.example/cleaned";

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("clients.example", "v1", "Thing"))
}

async fn define(client: &Client) {
    let definition: CustomResourceDefinition = serde_json::from_value(json!({
        "metadata": {"name": "things.clients.example"},
        "spec": {
            "group": "clients.example",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {"spec": {
                    "type": "object", "properties": {"size": {"type": "integer"}},
                }}},
            }}],
        },
    }))
    .expect("a definition");
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &definition).await.expect("made");
    let established = conditions::is_crd_established();
    await_condition(api, "things.clients.example", established).await.expect("established");
}

/// The client of the controller, and the names that it cleaned up.
struct Context {
    client: Client,
    cleaned: Mutex<Vec<String>>,
}

#[derive(Debug, thiserror::Error)]
#[error("cannot settle a thing")]
struct Trouble(#[source] Box<dyn std::error::Error + Send + Sync>);

async fn settle(thing: Arc<DynamicObject>, context: Arc<Context>) -> Result<Action, Trouble> {
    let api = Api::default_namespaced_with(context.client.clone(), &resource());
    let done = finalizer(&api, FINALIZER, thing, |event| own(event, context.clone())).await;
    done.map_err(|error| Trouble(Box::new(error)))
}

/// Reconciles the config map with the size of a thing.
async fn own(event: Event<DynamicObject>, context: Arc<Context>) -> Result<Action, Error> {
    let thing = match event {
        Event::Apply(thing) => thing,
        Event::Cleanup(thing) => {
            context.cleaned.lock().expect("names").push(thing.name_any());
            return Ok(Action::await_change());
        }
    };
    let owner = thing.controller_owner_ref(&resource()).expect("an owner");
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": thing.name_any(), "ownerReferences": [owner]},
        "data": {"size": thing.data["spec"]["size"].to_string()},
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(context.client.clone());
    let params = PatchParams::apply("controller").force();
    maps.patch(&thing.name_any(), &params, &Patch::Apply(&map)).await?;
    Ok(Action::await_change())
}

/// Waits until the config map of a thing has a size; returns its uid.
async fn sized(client: &Client, size: &str) -> String {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let says = |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get("size")).is_some_and(|value| value == size)
    };
    let map = await_condition(maps, "one", says).await.expect("a watch");
    map.and_then(|map| map.uid()).expect("a map")
}

// Requirement: AK-21
#[tokio::test]
async fn a_controller_restores_its_objects_and_runs_its_finalizer() {
    let server = ApiServer::builder().build().await.expect("a server");
    let client = server.client();
    define(&client).await;
    let things: Api<DynamicObject> = Api::default_namespaced_with(client.clone(), &resource());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let context = Arc::new(Context { client: client.clone(), cleaned: Mutex::default() });
    let config = watcher::Config::default;
    let controller = Controller::new_with(things.clone(), config(), resource())
        .owns(maps.clone(), config())
        .run(settle, |_, _, _| Action::requeue(Duration::from_millis(50)), context.clone());
    let running = tokio::spawn(controller.for_each(|_| std::future::ready(())));
    let mut thing = DynamicObject::new("one", &resource());
    thing.data = json!({"spec": {"size": 1}});
    let made = things.create(&PostParams::default(), &thing).await.expect("made");
    let first = sized(&client, "1").await;
    assert_eq!(things.get("one").await.expect("a thing").finalizers(), [FINALIZER]);

    maps.delete("one", &DeleteParams::default()).await.expect("deleted");
    await_condition(maps.clone(), "one", conditions::is_deleted(&first)).await.expect("gone");
    let second = sized(&client, "1").await;

    let patch = Patch::Merge(json!({"spec": {"size": 2}}));
    things.patch("one", &PatchParams::default(), &patch).await.expect("patched");
    assert_eq!(sized(&client, "2").await, second, "changed, not made anew");

    things.delete("one", &DeleteParams::default()).await.expect("deleted");
    let uid = made.uid().expect("a uid");
    await_condition(things, "one", conditions::is_deleted(&uid)).await.expect("gone");
    assert_eq!(context.cleaned.lock().expect("names").clone(), ["one"]);
    await_condition(maps, "one", conditions::is_deleted(&second)).await.expect("collected");
    running.abort();
}
