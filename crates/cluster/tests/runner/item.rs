//! The items of the tests: `ConfigMaps` whose `done` shall be their `goal`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use usher_cluster::answer::{ReadFailure, Write, WriteFailure};
use usher_cluster::client::Client;
use usher_cluster::kinds::Resource;
use usher_cluster::runner::{Context, Item, Source, Stepped};
use usher_cluster::watches::{Object, Selection};
use usher_kernel::{Stage, Stopped, Timestamp, Trouble, Wake};

use crate::rig::{SPACES, call};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key(pub(crate) String);

/// What a step does.
pub(crate) enum Act {
    /// What the items are for.
    Converge,
    /// Ends without a request.
    End(Stepped),
    /// Depends on another kind, and rests.
    Depend(Resource, Selection),
    Panic,
    /// Does not end.
    Hang,
    /// Ends after a delay.
    Wait(std::time::Duration),
}

type Script = Arc<dyn Fn(&str, usize) -> Act + Send + Sync>;

/// One step, as the item saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) epoch: u64,
    pub(crate) at: Timestamp,
    pub(crate) may_act_until: Option<Timestamp>,
}

pub(crate) struct TestItem {
    pub(crate) client: Client,
    space: String,
    source: Source,
    script: Script,
    seen: Mutex<BTreeMap<String, Vec<Seen>>>,
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

pub(crate) fn maps() -> Resource {
    Resource::new("", "configmaps")
}

impl TestItem {
    pub(crate) fn new(client: Client) -> Self {
        Self::scripted(client, |_, _| Act::Converge)
    }

    /// Items whose steps are chosen by name and number, from one.
    pub(crate) fn scripted(
        client: Client,
        script: impl Fn(&str, usize) -> Act + Send + Sync + 'static,
    ) -> Self {
        let source = Source { resource: maps(), selection: Selection::Any };
        let (script, seen) = (Arc::new(script), Mutex::default());
        Self { client, space: "work".to_owned(), source, script, seen }
    }

    /// In another namespace.
    pub(crate) fn within(mut self, space: &str) -> Self {
        space.clone_into(&mut self.space);
        self
    }

    pub(crate) fn of(mut self, resource: Resource, selection: Selection) -> Self {
        self.source = Source { resource, selection };
        self
    }

    pub(crate) fn seen(&self, name: &str) -> Vec<Seen> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.get(name).cloned().unwrap_or_default()
    }

    pub(crate) fn steps_of(&self, name: &str) -> usize {
        self.seen(name).len()
    }

    /// How often each item was stepped.
    pub(crate) fn steps(&self) -> BTreeMap<String, usize> {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.iter().map(|(name, seen)| (name.clone(), seen.len())).collect()
    }

    /// The seconds between the steps of an item.
    pub(crate) fn pauses(&self, name: &str) -> Vec<u64> {
        let seen = self.seen(name);
        seen.windows(2).map(|pair| pair[1].at.since(pair[0].at).as_secs()).collect()
    }

    fn note(&self, name: &str, context: &Context) -> usize {
        let seen = Seen {
            epoch: context.term().epoch(),
            at: context.now(),
            may_act_until: context.may_act_until(),
        };
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let of = all.entry(name.to_owned()).or_default();
        of.push(seen);
        of.len()
    }

    /// Makes `done` the goal, with the epoch of the term.
    async fn converge(&self, name: &str, context: &Context) -> Stepped {
        let object = Selection::Object { namespace: self.space.clone(), name: name.into() };
        context.watch(&maps(), object).expect("a watch");
        let path = format!("{SPACES}/{}/configmaps/{name}", self.space);
        let found = match call(&self.client, ("GET", &path), &serde_json::Value::Null).await {
            Ok(found) => found,
            Err(failure) if failure.read() == ReadFailure::ObjectAbsent => return Stepped::Gone,
            Err(failure) => return stopped(Stage::Observe, failure.trouble()),
        };
        let data = &found["data"];
        if data["goal"] == data["done"] || !data["goal"].is_string() {
            return Stepped::Done { wake: Wake::OnChange, acted: false };
        }
        let change = json!({
            "metadata": {"resourceVersion": found["metadata"]["resourceVersion"]},
            "data": {"done": data["goal"], "epoch": context.term().epoch().to_string()},
        });
        let written = context.term().send(call(&self.client, ("PATCH", &path), &change)).await;
        match written {
            Err(trouble) => stopped(Stage::Apply, trouble),
            Ok(Ok(_)) => Stepped::Done { wake: Wake::OnChange, acted: true },
            Ok(Err(failure)) => match failure.write(Write::OwnRecord) {
                WriteFailure::Trouble(trouble) => stopped(Stage::Apply, trouble),
                WriteFailure::Ended | WriteFailure::Done => Stepped::Gone,
                WriteFailure::Taken | WriteFailure::ProbeRefused => panic!("{failure:?}"),
            },
        }
    }
}

#[async_trait]
impl Item for TestItem {
    type Key = Key;

    fn sources(&self) -> Vec<Source> {
        vec![self.source.clone()]
    }

    fn key(&self, _: &Resource, object: Object<'_>) -> Option<Key> {
        (object.namespace == self.space).then(|| Key(object.name.to_owned()))
    }

    async fn step(&self, Key(name): &Key, context: &Context) -> Stepped {
        let number = self.note(name, context);
        match (self.script)(name, number) {
            Act::Converge => self.converge(name, context).await,
            Act::End(stepped) => stepped,
            Act::Depend(resource, selection) => {
                context.watch(&resource, selection).expect("a watch");
                Stepped::Done { wake: Wake::OnChange, acted: false }
            }
            Act::Panic => panic!("a step that panics"),
            Act::Hang => std::future::pending().await,
            Act::Wait(delay) => {
                tokio::time::sleep(delay).await;
                Stepped::Done { wake: Wake::OnChange, acted: false }
            }
        }
    }
}

pub(crate) fn rest() -> Act {
    Act::End(Stepped::Done { wake: Wake::OnChange, acted: false })
}

pub(crate) fn trouble(trouble: Trouble) -> Act {
    Act::End(stopped(Stage::Observe, trouble))
}

fn stopped(stage: Stage, trouble: Trouble) -> Stepped {
    Stepped::Stopped(Stopped { stage, trouble })
}
