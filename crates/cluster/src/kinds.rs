//! The kinds that a cluster serves, by aggregated discovery.
//!
//! **Invariants**
//! - Discovery is read at the start, when a definition or a service of an API changed, and when a
//!   path is not there. Nothing polls it.
//! - A group whose server does not answer keeps the kinds that are known of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::{ACCEPT, HeaderValue};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube_client::core::discovery::v2::{
    APIGroupDiscovery, APIGroupDiscoveryList, APIResourceDiscovery,
};
use kube_client::core::params::ListParams;
use kube_client::core::{ObjectList, Request};
use serde_json::Value;
use thiserror::Error;

use crate::answer::{Failure, Row};
use crate::client::Client;

/// What a kind must support to be read, watched, marked and deleted.
const NEEDED: [&str; 5] = ["get", "list", "watch", "patch", "delete"];
/// Kinds that are written so often that to follow one is to follow everything.
const EXCLUDED: [(&str, &str); 3] =
    [("", "Event"), ("events.k8s.io", "Event"), ("coordination.k8s.io", "Lease")];
/// Aggregated discovery. Older forms are read as if nothing was served.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// A collection of the API, in whatever version it is served.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Resource {
    pub group: String,
    pub plural: String,
}

/// A kind that is served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind {
    pub resource: Resource,
    /// The preferred one of those in which it is served.
    pub version: String,
    pub kind: String,
    pub namespaced: bool,
    pub verbs: BTreeSet<String>,
}

/// Why no object of a kind can be managed or protected.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Unusable {
    #[error("kind \"{0}\" is not installed")]
    NotInstalled(String),
    #[error("kind \"{0}\" changes all the time and is not followed")]
    Excluded(String),
    #[error("kind \"{kind}\" does not support {}", .lacks.join(", "))]
    Lacks { kind: String, lacks: Vec<&'static str> },
}

/// The kinds that a cluster serves.
pub struct Kinds {
    client: Client,
    served: RwLock<Arc<Served>>,
    /// How many readings began.
    begun: AtomicU64,
    /// The number of the last one that succeeded; held during a reading.
    done: tokio::sync::Mutex<u64>,
}

#[derive(Debug, Default)]
struct Served {
    kinds: BTreeMap<(String, String), Arc<Kind>>,
    /// Groups whose server was asked by another one and did not answer.
    stale: BTreeSet<String>,
    /// Groups of servers behind this one; `None` if we may not read which.
    services: Option<Services>,
}

#[derive(Debug, Default)]
struct Services {
    /// Their revisions are counted apart.
    aggregated: BTreeSet<String>,
    unavailable: BTreeSet<String>,
}

impl Resource {
    pub fn new(group: impl Into<String>, plural: impl Into<String>) -> Self {
        Self { group: group.into(), plural: plural.into() }
    }

    /// Nothing of ours reads all Secrets of a cluster.
    pub(crate) fn is_watched_one_by_one(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets"
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.group.as_str() {
            "" => f.write_str(&self.plural),
            group => write!(f, "{}.{group}", self.plural),
        }
    }
}

impl Kind {
    /// Requests for its objects in a namespace; in all of them if that is empty.
    pub fn request(&self, namespace: &str) -> Request {
        let Resource { group, plural } = &self.resource;
        let version = &self.version;
        let root = match group.as_str() {
            "" => format!("/api/{version}"),
            group => format!("/apis/{group}/{version}"),
        };
        if namespace.is_empty() || !self.namespaced {
            return Request::new(format!("{root}/{plural}"));
        }
        Request::new(format!("{root}/namespaces/{namespace}/{plural}"))
    }

    fn lacks(&self) -> Vec<&'static str> {
        NEEDED.into_iter().filter(|verb| !self.verbs.contains(*verb)).collect()
    }
}

impl Kinds {
    /// Reads discovery for the first time.
    pub async fn discover(client: Client) -> Result<Self, Failure> {
        let served = Arc::new(Served::read(&client, &Served::default()).await?);
        let (served, done) = (RwLock::new(served), tokio::sync::Mutex::new(0));
        Ok(Self { client, served, begun: AtomicU64::new(0), done })
    }

    /// Reads discovery anew. Callers that wait for each other share a reading that began after they
    /// asked.
    pub async fn refresh(&self) -> Result<(), Failure> {
        let asked = self.begun.load(Ordering::Acquire);
        let mut done = self.done.lock().await;
        if *done > asked {
            return Ok(());
        }
        let number = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let served = Served::read(&self.client, &self.now()).await?;
        *self.served.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(served);
        *done = number;
        Ok(())
    }

    /// A kind, if it is served.
    pub fn find(&self, group: &str, kind: &str) -> Option<Arc<Kind>> {
        self.now().kinds.get(&(group.to_owned(), kind.to_owned())).cloned()
    }

    /// The kind of a resource, if it is served.
    pub fn of(&self, resource: &Resource) -> Option<Arc<Kind>> {
        self.now().kinds.values().find(|it| it.resource == *resource).cloned()
    }

    /// A kind whose objects can be managed and protected.
    pub fn usable(&self, group: &str, kind: &str) -> Result<Arc<Kind>, Unusable> {
        let shown = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        if EXCLUDED.contains(&(group, kind)) {
            return Err(Unusable::Excluded(shown));
        }
        let found = self.find(group, kind).ok_or_else(|| Unusable::NotInstalled(shown.clone()))?;
        let lacks = found.lacks();
        if lacks.is_empty() { Ok(found) } else { Err(Unusable::Lacks { kind: shown, lacks }) }
    }

    /// Whether revisions of a group are counted apart from those of the cluster.
    pub(crate) fn is_aggregated(&self, group: &str) -> bool {
        self.now().services.as_ref().is_some_and(|it| it.aggregated.contains(group))
    }

    /// Whether all servers of a group answered the last reading; `None` if that cannot be told.
    pub(crate) fn answered(&self, group: &str) -> Option<bool> {
        let now = self.now();
        let services = now.services.as_ref()?;
        Some(!services.unavailable.contains(group) && !now.stale.contains(group))
    }

    fn now(&self) -> Arc<Served> {
        Arc::clone(&self.served.read().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Served {
    async fn read(client: &Client, before: &Self) -> Result<Self, Failure> {
        let (core, groups, services) =
            tokio::join!(document(client, "/api"), document(client, "/apis"), services(client));
        let mut served = Self { services: services?, ..Self::default() };
        for group in core?.items.into_iter().chain(groups?.items) {
            served.take(group, before);
        }
        Ok(served)
    }

    /// Takes a group. Its versions come by preference, so the first one that has a kind counts.
    fn take(&mut self, group: APIGroupDiscovery, before: &Self) {
        let name = group.metadata.and_then(|it| it.name).unwrap_or_default();
        for version in group.versions {
            let Some(in_version) = version.version else { continue };
            if version.freshness.as_deref().is_some_and(|it| it != "Current") {
                self.stale.insert(name.clone());
                let known = before
                    .kinds
                    .iter()
                    .filter(|((group, _), it)| *group == name && it.version == in_version);
                for (key, kind) in known {
                    self.kinds.entry(key.clone()).or_insert_with(|| Arc::clone(kind));
                }
            }
            let found = version.resources.into_iter();
            for kind in found.filter_map(|it| read_kind(&name, &in_version, it)) {
                let key = (name.clone(), kind.kind.clone());
                self.kinds.entry(key).or_insert_with(|| Arc::new(kind));
            }
        }
    }
}

fn read_kind(group: &str, version: &str, found: APIResourceDiscovery) -> Option<Kind> {
    Some(Kind {
        resource: Resource::new(group, found.resource?),
        version: version.to_owned(),
        kind: found.response_kind?.kind?,
        namespaced: found.scope? == "Namespaced",
        verbs: found.verbs.into_iter().collect(),
    })
}

/// A document of aggregated discovery. Another one is no answer: read as this one, it would say
/// that nothing is served.
async fn document(client: &Client, path: &str) -> Result<APIGroupDiscoveryList, Failure> {
    let request = Request::new(path).list(&ListParams::default()).map(|mut request| {
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(AGGREGATED));
        request
    });
    let document: Value = client.object(request).await?;
    let wrong = || Failure::NoAnswer(format!("{path} is no aggregated discovery"));
    if document["kind"] != "APIGroupDiscoveryList" {
        return Err(wrong());
    }
    serde_json::from_value(document).map_err(|_| wrong())
}

async fn services(client: &Client) -> Result<Option<Services>, Failure> {
    let request = Request::new(SERVICES).list(&ListParams::default());
    let list: ObjectList<APIService> = match client.object(request).await {
        Ok(list) => list,
        Err(failure) if failure.row() == Row::NoRight => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let mut services = Services::default();
    for service in list.items {
        let Some(spec) = service.spec else { continue };
        let group = spec.group.unwrap_or_default();
        let conditions = service.status.and_then(|it| it.conditions).unwrap_or_default();
        if conditions.iter().any(|it| it.type_ == "Available" && it.status != "True") {
            services.unavailable.insert(group.clone());
        }
        if spec.service.is_some() {
            services.aggregated.insert(group);
        }
    }
    Ok(Some(services))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn group(freshness: &str, plurals: &[&str]) -> APIGroupDiscovery {
        let resource = |plural: &&str| {
            json!({
                "resource": plural, "responseKind": {"kind": plural.to_uppercase()},
                "scope": "Cluster", "verbs": ["get"],
            })
        };
        let resources: Vec<Value> = plurals.iter().map(resource).collect();
        let version = json!({"version": "v1", "freshness": freshness, "resources": resources});
        let group = json!({"metadata": {"name": "far.example"}, "versions": [version]});
        serde_json::from_value(group).unwrap()
    }

    // Requirement: KA-7
    #[test]
    fn a_group_whose_server_does_not_answer_keeps_its_kinds() {
        let mut before = Served { services: Some(Services::default()), ..Served::default() };
        before.take(group("Current", &["as", "bs"]), &Served::default());
        assert_eq!(before.kinds.len(), 2);
        let mut after = Served { services: Some(Services::default()), ..Served::default() };
        after.take(group("Stale", &[]), &before);
        assert_eq!(after.kinds, before.kinds);
        assert!(after.stale.contains("far.example"));
        let mut fresh = Served::default();
        fresh.take(group("Current", &["bs"]), &after);
        assert_eq!(fresh.kinds.len(), 1, "one that answers loses what it no longer serves");
    }

    // Requirement: KA-7
    #[test]
    fn the_preferred_version_of_a_kind_counts() {
        let resource = |verb| {
            json!({
                "resource": "as", "responseKind": {"kind": "A"}, "scope": "Namespaced",
                "verbs": [verb],
            })
        };
        let versions = json!([
            {"version": "v2", "resources": [resource("get")]},
            {"version": "v1", "resources": [resource("list")]},
        ]);
        let group = json!({"metadata": {"name": "g"}, "versions": versions});
        let mut served = Served::default();
        served.take(serde_json::from_value(group).unwrap(), &Served::default());
        let kind = &served.kinds[&("g".to_owned(), "A".to_owned())];
        assert_eq!((kind.version.as_str(), kind.lacks().len()), ("v2", 4));
    }
}
