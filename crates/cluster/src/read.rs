//! Reads of one snapshot: whether an object is there, and when its absence counts.
//!
//! **Invariants**
//! - Presence is a quorum read. Absence is a list by name after it, empty, from the pinned cluster,
//!   and not older than anything that was seen before.
//! - A path that is not there says nothing about an object. Its kind is removed if fresh discovery
//!   lacks it, its definition is absent, and no server of its group fails to answer.
//! - A failed request is unknown.

use std::sync::{Mutex, PoisonError};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube_client::core::params::{GetParams, ListParams};
use kube_client::core::{DynamicObject, ObjectList, PartialObjectMeta, Request};
use serde::de::DeserializeOwned;
use usher_domain::object::authority::{Authority, Pin};
use usher_kernel::{Uid, Unknown};

use crate::answer::{Failure, ReadFailure};
use crate::client::{Built, Client};
use crate::kinds::{Kind, Kinds};
use crate::pin::{self, Revisions};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An object by its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Target {
    pub group: String,
    pub kind: String,
    /// As it was recorded: a kind that was removed cannot be looked up any more.
    pub plural: Option<String>,
    /// Empty for an object of the cluster.
    pub namespace: String,
    pub name: String,
}

/// Whether an object is there.
#[derive(Clone, Debug, PartialEq)]
pub enum Presence<T> {
    Present(T),
    /// No object has the name.
    Absent,
    /// The kind is gone, and each of its objects with it.
    KindRemoved,
    Unknown(Unknown),
}

/// One cluster, as its readers share it.
pub struct Cluster {
    pub client: Client,
    pub kinds: Kinds,
    pub revisions: Revisions,
    /// Which cluster showed the revisions.
    shown_by: Mutex<Option<Uid>>,
}

/// The reads of one snapshot, after the cluster said who it is.
pub struct Snapshot<'a> {
    cluster: &'a Cluster,
    authority: Authority,
    /// The revision that was shown before.
    revision: u64,
}

/// An object or its metadata, as a response has it.
trait Answered: Clone + DeserializeOwned {
    fn get(request: &Request, name: &str) -> Built;
    fn list(request: &Request, params: &ListParams) -> Built;
    fn meta(&self) -> &ObjectMeta;
}

impl Cluster {
    /// Reads what the cluster serves.
    pub async fn open(client: Client) -> Result<Self, Failure> {
        let kinds = Kinds::discover(client.clone()).await?;
        Ok(Self { client, kinds, revisions: Revisions::default(), shown_by: Mutex::default() })
    }

    /// What the cluster says it is, to be judged before the reads of a snapshot.
    pub async fn ask(&self) -> Result<Pin, Failure> {
        pin::ask(&self.client).await
    }

    /// Begins the reads of a snapshot. `answered` is what [`Cluster::ask`] gave before, and
    /// `authority` how it was judged.
    pub fn snapshot(&self, answered: &Pin, authority: Authority) -> Snapshot<'_> {
        match authority {
            Authority::Pinned => {
                self.forget_others(&answered.identity);
                self.revisions.note(answered.revision);
            }
            Authority::Replaced => {}
        }
        Snapshot { cluster: self, authority, revision: answered.revision }
    }

    /// Forgets the revisions of a cluster whose pin an operator has reset to another one: no
    /// absence in that one would be recent enough.
    fn forget_others(&self, identity: &Uid) {
        let mut shown_by = self.shown_by.lock().unwrap_or_else(PoisonError::into_inner);
        if shown_by.as_ref() == Some(identity) {
            return;
        }
        if shown_by.replace(identity.clone()).is_some() {
            self.revisions.forget();
        }
    }
}

impl Snapshot<'_> {
    /// Whether an object is there; its metadata.
    pub async fn metadata(&self, target: &Target) -> Presence<ObjectMeta> {
        match self.observe::<PartialObjectMeta>(target).await {
            Presence::Present(found) => Presence::Present(found.metadata),
            Presence::Absent => Presence::Absent,
            Presence::KindRemoved => Presence::KindRemoved,
            Presence::Unknown(why) => Presence::Unknown(why),
        }
    }

    /// Whether an object is there; all of it.
    pub async fn object(&self, target: &Target) -> Presence<DynamicObject> {
        self.observe(target).await
    }

    async fn observe<T: Answered>(&self, target: &Target) -> Presence<T> {
        let kinds = &self.cluster.kinds;
        let mut kind = kinds.find(&target.group, &target.kind);
        if kind.is_none() {
            if let Err(failure) = kinds.refresh().await {
                return unknown(&failure);
            }
            kind = kinds.find(&target.group, &target.kind);
        }
        let Some(kind) = kind else {
            return self.removed(target, target.plural.as_deref()).await;
        };
        if !is_segment(&target.name) || !is_segment(&target.namespace) && kind.namespaced {
            return Presence::Unknown(Unknown::Unreachable);
        }
        let request = kind.request(&target.namespace);
        let found = self.cluster.client.object::<T>(T::get(&request, &target.name)).await;
        match found.map_err(|failure| failure.read()) {
            Ok(found) => self.present(&kind, found),
            Err(ReadFailure::ObjectAbsent) => self.confirm(target, &kind).await,
            Err(ReadFailure::PathAbsent) => self.path_absent(target, &kind).await,
            Err(ReadFailure::Unknown(why)) => Presence::Unknown(why),
        }
    }

    fn present<T: Answered>(&self, kind: &Kind, found: T) -> Presence<T> {
        // A body without a uid is not from an API server.
        if found.meta().uid.as_deref().is_none_or(str::is_empty) {
            return Presence::Unknown(Unknown::Unreachable);
        }
        if let Some(revision) = found.meta().resource_version.as_deref().and_then(pin::revision) {
            self.note(kind, revision);
        }
        Presence::Present(found)
    }

    /// Confirms an absence, or finds what was created meanwhile.
    async fn confirm<T: Answered>(&self, target: &Target, kind: &Kind) -> Presence<T> {
        let space = self.space(kind);
        let shown = if space.is_none() { self.revision } else { 0 };
        let floor = self.cluster.revisions.of(space).max(shown);
        let params = ListParams::default().fields(&format!("metadata.name={}", target.name));
        let request = T::list(&kind.request(&target.namespace), &params);
        let list = self.cluster.client.object::<ObjectList<T>>(request).await;
        let list = match list.map_err(|failure| failure.read()) {
            Ok(list) => list,
            Err(ReadFailure::PathAbsent) => {
                return self.path_absent(target, kind).await;
            }
            Err(ReadFailure::ObjectAbsent) => return Presence::Unknown(Unknown::Unreachable),
            Err(ReadFailure::Unknown(why)) => return Presence::Unknown(why),
        };
        let is_whole = list.metadata.continue_.as_deref().is_none_or(str::is_empty);
        let is_whole_and_empty = list.items.is_empty() && is_whole;
        let is_meant = |it: &T| it.meta().name.as_deref() == Some(&target.name);
        if let Some(found) = list.items.into_iter().find(is_meant) {
            return self.present(kind, found);
        }
        if !is_whole_and_empty {
            // The selector was not understood.
            return Presence::Unknown(Unknown::Unreachable);
        }
        if self.authority == Authority::Replaced {
            // Its revisions are those of another cluster.
            return self.believed(Presence::Absent);
        }
        let revision = list.metadata.resource_version.as_deref().and_then(pin::revision);
        let Some(revision) = revision.filter(|it| *it >= floor) else {
            return Presence::Unknown(Unknown::Unreachable);
        };
        self.note(kind, revision);
        self.believed(Presence::Absent)
    }

    /// Asks discovery anew about a path that is not there.
    async fn path_absent<T>(&self, target: &Target, kind: &Kind) -> Presence<T> {
        match self.cluster.kinds.refresh().await {
            Ok(()) => self.removed(target, Some(&kind.resource.plural)).await,
            Err(failure) => unknown(&failure),
        }
    }

    /// Whether a kind is removed, by discovery that was just read.
    async fn removed<T>(&self, target: &Target, plural: Option<&str>) -> Presence<T> {
        let (kinds, client) = (&self.cluster.kinds, &self.cluster.client);
        let is_served = kinds.find(&target.group, &target.kind).is_some();
        // Only what was defined can be removed.
        let Some(plural) = plural.filter(|_| !target.group.is_empty()) else {
            return Presence::Unknown(Unknown::Unreachable);
        };
        match kinds.answered(&target.group) {
            Some(true) if !is_served => {}
            Some(_) => return Presence::Unknown(Unknown::Unreachable),
            None => return Presence::Unknown(Unknown::Forbidden),
        }
        let name = format!("{plural}.{}", target.group);
        if !is_segment(&name) {
            return Presence::Unknown(Unknown::Unreachable);
        }
        let request = Request::new(DEFINITIONS).get_metadata(&name, &GetParams::default());
        let definition = client.object::<PartialObjectMeta>(request).await;
        match definition.map_err(|failure| failure.read()) {
            Err(ReadFailure::ObjectAbsent) => self.believed(Presence::KindRemoved),
            Err(ReadFailure::Unknown(why)) => Presence::Unknown(why),
            Ok(_) | Err(ReadFailure::PathAbsent) => Presence::Unknown(Unknown::Unreachable),
        }
    }

    /// An absence, if it comes from the pinned cluster.
    fn believed<T>(&self, absence: Presence<T>) -> Presence<T> {
        match self.authority {
            Authority::Pinned => absence,
            Authority::Replaced => Presence::Unknown(Unknown::ClusterReplaced),
        }
    }

    fn note(&self, kind: &Kind, revision: u64) {
        match self.authority {
            Authority::Pinned => self.cluster.revisions.raise(self.space(kind), revision),
            Authority::Replaced => {}
        }
    }

    /// Where the revisions of a kind are counted.
    fn space<'k>(&self, kind: &'k Kind) -> Option<&'k str> {
        let group = kind.resource.group.as_str();
        self.cluster.kinds.is_aggregated(group).then_some(group)
    }
}

impl Answered for PartialObjectMeta {
    fn get(request: &Request, name: &str) -> Built {
        request.get_metadata(name, &GetParams::default())
    }

    fn list(request: &Request, params: &ListParams) -> Built {
        request.list_metadata(params)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

impl Answered for DynamicObject {
    fn get(request: &Request, name: &str) -> Built {
        request.get(name, &GetParams::default())
    }

    fn list(request: &Request, params: &ListParams) -> Built {
        request.list(params)
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }
}

/// Whether a name is one segment of a path, and one value of a selector.
pub(crate) fn is_segment(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | ':');
    !name.is_empty() && name.chars().all(is_plain) && !matches!(name, "." | "..")
}

fn unknown<T>(failure: &Failure) -> Presence<T> {
    match failure.read() {
        ReadFailure::Unknown(why) => Presence::Unknown(why),
        ReadFailure::ObjectAbsent | ReadFailure::PathAbsent => {
            Presence::Unknown(Unknown::Unreachable)
        }
    }
}
