//! The items of the measurement: each reads its object, and rests until that changes.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use hyper::Request;
use serde_json::Value;
use tokio::sync::Notify;
use usher_cluster::answer::Failure;
use usher_cluster::client::Client;
use usher_cluster::kinds::Resource;
use usher_cluster::runner::{Context, Item, Source, Stepped};
use usher_cluster::watches::{Object, Selection};
use usher_kernel::{Stage, Stopped, Wake};

pub(crate) const SPACE: &str = "work";
pub(crate) const MAPS: &str = "/api/v1/namespaces/work/configmaps";

pub(crate) struct Map {
    client: Client,
    steps: AtomicUsize,
    stepped: Notify,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Name(String);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Map {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, steps: AtomicUsize::new(0), stepped: Notify::new() }
    }

    pub(crate) fn steps(&self) -> usize {
        self.steps.load(Ordering::SeqCst)
    }

    /// Waits until there were so many steps.
    pub(crate) async fn stepped(&self, times: usize) {
        while self.steps() < times {
            self.stepped.notified().await;
        }
    }
}

fn maps() -> Resource {
    Resource::new("", "configmaps")
}

#[async_trait]
impl Item for Map {
    type Key = Name;

    fn sources(&self) -> Vec<Source> {
        vec![Source { resource: maps(), selection: Selection::Any }]
    }

    fn key(&self, _: &Resource, object: Object<'_>) -> Option<Name> {
        (object.namespace == SPACE).then(|| Name(object.name.to_owned()))
    }

    async fn step(&self, Name(name): &Name, context: &Context) -> Stepped {
        let object = Selection::Object { namespace: SPACE.to_owned(), name: name.clone() };
        context.watch(&maps(), object).expect("a watch");
        let path = format!("{MAPS}/{name}");
        let stepped = match call(&self.client, ("GET", &path), &Value::Null).await {
            Ok(_) => Stepped::Done { wake: Wake::OnChange, acted: false },
            Err(failure) => {
                let (stage, trouble) = (Stage::Observe, failure.trouble());
                return Stepped::Stopped(Stopped { stage, trouble });
            }
        };
        self.steps.fetch_add(1, Ordering::SeqCst);
        self.stepped.notify_one();
        stepped
    }
}

pub(crate) async fn call(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value, Failure> {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", "application/json");
    client.object(Ok(request.body(text).expect("a request"))).await
}
