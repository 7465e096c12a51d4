//! A writing client and its expectations.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube_client::{Api, Error};
use serde_json::json;

/// Objects of one client: each is made, changed some times and deleted, one after another; the
/// newest few are there at a time.
const AT_A_TIME: usize = 3;
const CHANGES: u64 = 4;

/// The expected state of an object: number of changes and revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Known {
    turn: u64,
    revision: u64,
}

/// A write: the object and its number of changes after it; `None` for a deletion.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Attempt {
    name: String,
    turn: Option<u64>,
}

/// A client that writes objects of its own.
#[derive(Debug)]
pub(crate) struct Writer {
    id: usize,
    made: u64,
    /// The objects according to the responses.
    pub(crate) objects: BTreeMap<String, Known>,
    /// The revisions of this round's responses.
    pub(crate) answered: Vec<u64>,
    /// The newest revision that was acknowledged or read.
    pub(crate) newest: u64,
    /// The request without a response.
    open: Option<Attempt>,
}

impl Writer {
    pub(crate) fn new(id: usize) -> Self {
        let objects = BTreeMap::new();
        Self { id, made: 0, objects, answered: Vec::new(), newest: 0, open: None }
    }

    /// Writes once; false without a response.
    pub(crate) async fn write(&mut self, api: &Api<ConfigMap>) -> bool {
        let attempt = self.next();
        self.open = Some(attempt.clone());
        let written = match attempt.turn {
            Some(0) => api.create(&PostParams::default(), &map(&attempt.name, 0)).await.map(Some),
            Some(turn) => {
                let patch = Patch::Merge(map(&attempt.name, turn));
                api.patch(&attempt.name, &PatchParams::default(), &patch).await.map(Some)
            }
            None => api.delete(&attempt.name, &DeleteParams::default()).await.map(|_| None),
        };
        let written = match written {
            Ok(written) => written,
            Err(Error::Api(status)) => panic!("{attempt:?} was refused: {}", status.message),
            Err(_) => return false,
        };
        self.open = None;
        match written {
            Some(map) => {
                let known = known(&map);
                assert!(known.revision > self.newest, "{known:?} is older than what was answered");
                self.newest = known.revision;
                self.answered.push(known.revision);
                self.objects.insert(attempt.name, known);
            }
            None => drop(self.objects.remove(&attempt.name)),
        }
        true
    }

    /// Compares what is there with what was answered. A write without an answer happened whole or
    /// not at all; the answer is how many of them did.
    pub(crate) fn compare(&mut self, found: &[ConfigMap]) -> usize {
        let prefix = format!("m-{}-", self.id);
        let name = |map: &ConfigMap| map.metadata.name.clone().expect("a name");
        let ours = found.iter().filter(|map| name(map).starts_with(&prefix));
        let found: BTreeMap<String, Known> = ours.map(|map| (name(map), known(map))).collect();
        let happened = self.open.take().is_some_and(|attempt| {
            let now = found.get(&attempt.name).copied();
            let before = self.objects.get(&attempt.name).copied();
            if now == before {
                return false;
            }
            assert_eq!(now.map(|known| known.turn), attempt.turn, "{attempt:?} was half done");
            match now {
                Some(now) => {
                    assert!(now.revision > self.newest, "{attempt:?} got an old revision");
                    self.newest = now.revision;
                    self.objects.insert(attempt.name, now);
                }
                None => drop(self.objects.remove(&attempt.name)),
            }
            true
        });
        assert_eq!(found, self.objects, "what client {} was answered is not there", self.id);
        usize::from(happened)
    }

    fn next(&mut self) -> Attempt {
        let unfinished = self.objects.iter().find(|(_, known)| known.turn < CHANGES);
        if let Some((name, known)) = unfinished {
            return Attempt { name: name.clone(), turn: Some(known.turn + 1) };
        }
        if let Some((name, _)) =
            self.objects.iter().next().filter(|_| self.objects.len() >= AT_A_TIME)
        {
            return Attempt { name: name.clone(), turn: None };
        }
        self.made += 1;
        Attempt { name: format!("m-{}-{:08}", self.id, self.made), turn: Some(0) }
    }
}

/// An object with redundant fields, to detect a torn write.
fn map(name: &str, turn: u64) -> ConfigMap {
    let filling = turn.to_string().repeat(500);
    serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": {"turn": turn.to_string()}},
        "data": {"turn": turn.to_string(), "filling": filling},
    }))
    .expect("a config map")
}

fn known(map: &ConfigMap) -> Known {
    let metadata = &map.metadata;
    let revision = metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
    let data = map.data.clone().unwrap_or_default();
    let turn = data["turn"].parse().expect("a number");
    let label = metadata.labels.as_ref().and_then(|labels| labels.get("turn"));
    assert_eq!(label, Some(&data["turn"]), "half of an object");
    assert_eq!(data["filling"], data["turn"].repeat(500), "half of an object");
    Known { turn, revision: revision.expect("a version") }
}
