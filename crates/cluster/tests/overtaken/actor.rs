//! A process that acts: an elector, and a runner whose items write what was done and by whom.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;
use usher_cluster::answer::{ReadFailure, Write, WriteFailure};
use usher_cluster::client::{Access, Bounds, Client};
use usher_cluster::kinds::Resource;
use usher_cluster::lease::{Clock, Elector, LeaseName, Settings, Times};
use usher_cluster::read::Cluster;
use usher_cluster::runner::{Config, Context, Item, ObjectRunner, Source, Stepped, Tally};
use usher_cluster::watches::{self, Object, Selection, Watches};
use usher_kernel::schedule::{Jitter, Pace};
use usher_kernel::{Stage, Stopped, Trouble, Wake};

use crate::cluster::{MAPS, SPACE, call};
use crate::processes::{self, ACTS, KUBECONFIG};

struct Map {
    client: Client,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Name(String);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A lease that ends fast: the rules are the same.
pub(crate) fn times() -> Times {
    Times::of(Duration::from_secs(3)).expect("times")
}

/// Acts until its input is closed, or it is killed.
pub(crate) async fn act() {
    let name = std::fs::read_to_string(ACTS).expect("a name");
    let access = Access::Kubeconfig { file: KUBECONFIG.into(), context: None };
    let bounds = Bounds { request: times().request(), ..Bounds::default() };
    let client = Client::connect(&access, bounds).await.expect("a client");
    let lease = LeaseName { namespace: SPACE.to_owned(), name: "usher".to_owned() };
    let settings = Settings { name: lease, identity: name, times: times() };
    let elector = Elector::new(client.clone(), settings, Clock::system());
    let (elector, lease) = elector.expect("an elector");
    let cluster = loop {
        match Cluster::open(client.clone()).await {
            Ok(cluster) => break Arc::new(cluster),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let pace = Pace { base: Duration::from_millis(50), max: Duration::from_secs(1), ..pace() };
    let jitter = Arc::new(|| Jitter(u32::MAX));
    let settings = watches::Settings { pace, jitter, ..watches::Settings::default() };
    let watches = Arc::new(Watches::start(cluster, settings));
    let config = Config { pace, ..Config::default() };
    let item = Arc::new(Map { client });
    let runner = ObjectRunner::new(item, watches, config, Arc::<Tally>::default());
    let (stop, stopped) = watch::channel(false);
    let (stop_elector, elector_stopped) = watch::channel(false);
    let runner = tokio::spawn(runner.expect("a runner").run(lease, stopped));
    let elector = tokio::spawn(elector.run(elector_stopped));
    processes::say_started();
    processes::stdin_closed().await;
    stop.send_replace(true);
    runner.await.expect("the end of the runner");
    stop_elector.send_replace(true);
    elector.await.expect("the end of the elector");
}

fn pace() -> Pace {
    Pace::default()
}

#[async_trait]
impl Item for Map {
    type Key = Name;

    fn sources(&self) -> Vec<Source> {
        let selection = Selection::Any;
        vec![Source { resource: Resource::new("", "configmaps"), selection }]
    }

    fn key(&self, _: &Resource, object: Object<'_>) -> Option<Name> {
        let is_ours = object.namespace == SPACE && object.name.starts_with('m');
        is_ours.then(|| Name(object.name.to_owned()))
    }

    async fn step(&self, Name(name): &Name, context: &Context) -> Stepped {
        let path = format!("{MAPS}/{name}");
        let found = match call(&self.client, ("GET", &path), &Value::Null).await {
            Ok(found) => found,
            Err(failure) if failure.read() == ReadFailure::ObjectAbsent => return Stepped::Gone,
            Err(failure) => return stopped(Stage::Observe, failure.trouble()),
        };
        let (data, epoch) = (&found["data"], context.term().epoch());
        if data["goal"] == data["done"] {
            return Stepped::Done { wake: Wake::OnChange, acted: false };
        }
        let history = data["history"].as_str().unwrap_or_default();
        let change = json!({
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "data": {"done": data["goal"], "history": format!("{history} {epoch}")},
        });
        match context.term().send(call(&self.client, ("PATCH", &path), &change)).await {
            Err(trouble) => stopped(Stage::Apply, trouble),
            Ok(Ok(_)) => Stepped::Done { wake: Wake::OnChange, acted: true },
            Ok(Err(failure)) => match failure.write(Write::OwnRecord) {
                WriteFailure::Trouble(trouble) => stopped(Stage::Apply, trouble),
                WriteFailure::Ended | WriteFailure::Done => Stepped::Gone,
                WriteFailure::Taken | WriteFailure::ProbeRefused => {
                    stopped(Stage::Apply, Trouble::Conflict)
                }
            },
        }
    }
}

fn stopped(stage: Stage, trouble: Trouble) -> Stepped {
    Stepped::Stopped(Stopped { stage, trouble })
}
