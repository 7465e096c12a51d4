//! A controller of kube-rs and its tests, in one process with the API server.
//!
//! The controller writes a `ConfigMap` for every `Greeting` and says in the status that it did. Run
//! it with `cargo run --package usher-apiserver --example controller`, and its tests with
//! `cargo test --package usher-apiserver --example controller`.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube_client::api::{Patch, PatchParams, PostParams};
use kube_client::core::{ApiResource, GroupVersionKind, Object};
use kube_client::{Api, Client, Error, Resource as _, ResourceExt as _};
use kube_runtime::controller::Action;
use kube_runtime::wait::{await_condition, conditions};
use kube_runtime::{Controller, watcher};
use serde::{Deserialize, Serialize};
use serde_json::json;
use usher_apiserver::ApiServer;

/// What a greeting should be.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct GreetingSpec {
    name: String,
}

/// What the controller did for it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct GreetingStatus {
    greeted: String,
}

type Greeting = Object<GreetingSpec, GreetingStatus>;

/// A wait without a limit would hang the tests of a broken controller.
const PATIENCE: Duration = Duration::from_mins(1);

fn resource() -> ApiResource {
    ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Greeting"))
}

/// The CRD; with the derive macro of `kube` it is `Greeting::crd()`.
fn definition() -> Result<CustomResourceDefinition, serde_json::Error> {
    serde_json::from_value(json!({
        "metadata": {"name": "greetings.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "greetings", "kind": "Greeting"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string", "minLength": 1}},
                    },
                    "status": {"type": "object", "properties": {"greeted": {"type": "string"}}},
                }}},
            }],
        },
    }))
}

/// Creates the CRD and waits until it is served.
async fn install(client: &Client) -> Result<(), Box<dyn std::error::Error>> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    api.create(&PostParams::default(), &definition()?).await?;
    let served = conditions::is_crd_established();
    await_condition(api, "greetings.example.com", served).await?;
    Ok(())
}

/// Makes the world as one greeting says.
async fn reconcile(greeting: Arc<Greeting>, client: Arc<Client>) -> Result<Action, Error> {
    let name = greeting.name_any();
    let greeted = &greeting.spec.name;
    let params = PatchParams::apply("greeter").force();
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": name,
            "ownerReferences": greeting.controller_owner_ref(&resource()).as_slice(),
        },
        "data": {"text": format!("Hello, {greeted}!")},
    });
    let maps: Api<ConfigMap> = Api::default_namespaced(client.as_ref().clone());
    maps.patch(&name, &params, &Patch::Apply(&map)).await?;
    let status = json!({
        "apiVersion": "example.com/v1",
        "kind": "Greeting",
        "status": GreetingStatus { greeted: greeted.clone() },
    });
    let greetings: Api<Greeting> =
        Api::default_namespaced_with(client.as_ref().clone(), &resource());
    greetings.patch_status(&name, &params, &Patch::Apply(&status)).await?;
    Ok(Action::await_change())
}

/// Runs the controller until it is dropped.
async fn run(client: Client) {
    let greetings: Api<Greeting> = Api::default_namespaced_with(client.clone(), &resource());
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let again = |_, _: &Error, _| Action::requeue(Duration::from_millis(20));
    Controller::new_with(greetings, watcher::Config::default(), resource())
        .owns(maps, watcher::Config::default())
        .run(reconcile, again, Arc::new(client))
        .for_each(|_| std::future::ready(()))
        .await;
}

/// Declares a greeting.
async fn greet(client: &Client, name: &str) -> Result<Greeting, Error> {
    let greetings: Api<Greeting> = Api::default_namespaced_with(client.clone(), &resource());
    let spec = GreetingSpec { name: name.to_owned() };
    greetings.create(&PostParams::default(), &Object::new("first", &resource(), spec)).await
}

/// Waits until the text of the greeting is this one.
async fn says(client: &Client, wanted: &str) -> Result<(), Box<dyn std::error::Error>> {
    let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
    let fits = |map: Option<&ConfigMap>| {
        let data = map.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get("text")).is_some_and(|text| text == wanted)
    };
    tokio::time::timeout(PATIENCE, await_condition(maps, "first", fits)).await??;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::builder().build().await?;
    let client = server.client();
    install(&client).await?;
    let controller = tokio::spawn(run(server.client()));
    greet(&client, "world").await?;
    says(&client, "Hello, world!").await?;
    controller.abort();
    server.shutdown().await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use kube_client::api::DeleteParams;
    use usher_apiserver::Fault;

    use super::*;

    /// A server with the CRD and the running controller.
    async fn start() -> (ApiServer, Client) {
        let server = ApiServer::builder().build().await.unwrap();
        install(&server.client()).await.unwrap();
        tokio::spawn(run(server.client()));
        let client = server.client();
        (server, client)
    }

    async fn within<T>(wait: impl Future<Output = T>) -> T {
        tokio::time::timeout(PATIENCE, wait).await.expect("the condition in time")
    }

    // Requirement: AK-68
    #[tokio::test]
    async fn a_greeting_gets_its_text_and_its_status() {
        let (_server, client) = start().await;
        greet(&client, "world").await.unwrap();
        says(&client, "Hello, world!").await.unwrap();
        let greetings: Api<Greeting> = Api::default_namespaced_with(client, &resource());
        let greeted = |it: Option<&Greeting>| {
            it.and_then(|it| it.status.as_ref()).is_some_and(|status| status.greeted == "world")
        };
        within(await_condition(greetings, "first", greeted)).await.unwrap();
    }

    // Requirement: AK-68
    #[tokio::test]
    async fn a_deleted_text_comes_back_and_goes_with_its_greeting() {
        let (_server, client) = start().await;
        let greeting = greet(&client, "world").await.unwrap();
        says(&client, "Hello, world!").await.unwrap();
        let maps: Api<ConfigMap> = Api::default_namespaced(client.clone());
        let first = maps.get("first").await.unwrap().uid().unwrap();
        maps.delete("first", &DeleteParams::default()).await.unwrap();
        within(await_condition(maps.clone(), "first", conditions::is_deleted(&first)))
            .await
            .unwrap();
        says(&client, "Hello, world!").await.unwrap();
        let second = maps.get("first").await.unwrap().uid().unwrap();
        let greetings: Api<Greeting> = Api::default_namespaced_with(client, &resource());
        greetings.delete("first", &DeleteParams::default()).await.unwrap();
        let uid = greeting.uid().unwrap();
        within(await_condition(greetings, "first", conditions::is_deleted(&uid))).await.unwrap();
        within(await_condition(maps, "first", conditions::is_deleted(&second))).await.unwrap();
    }

    // Requirement: AK-68
    #[tokio::test]
    async fn an_invalid_greeting_is_refused_by_its_schema() {
        let (_server, client) = start().await;
        let Err(Error::Api(status)) = greet(&client, "").await else { unreachable!() };
        assert_eq!((status.code, status.reason.as_str()), (422, "Invalid"));
    }

    // Requirement: AK-68
    #[tokio::test]
    async fn a_greeting_is_written_although_writes_fail_and_watches_break() {
        let (server, client) = start().await;
        let failures = std::sync::atomic::AtomicU32::new(0);
        server.set_faults(move |request| {
            let count = || failures.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            match (request.verb.as_str(), request.resource.as_str()) {
                ("watch", "greetings.example.com") => Fault::BreakWatchAfter(1),
                ("patch", "configmaps") if count() < 3 => Fault::Refuse(500),
                _ => Fault::None,
            }
        });
        greet(&client, "world").await.unwrap();
        says(&client, "Hello, world!").await.unwrap();
    }
}
