//! Who answers: the identity of the cluster and the highest revision it showed, read before each
//! snapshot.
//!
//! A cluster that was rebuilt or restored answers "absent" to everything. The identity is the uid
//! of `kube-system`, and the revision is that of a list, which only a quorum of the store can give.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube_client::core::params::ListParams;
use kube_client::core::{ObjectList, PartialObjectMeta, Request};
use usher_domain::object::authority::Pin;
use usher_kernel::Uid;

use crate::answer::Failure;
use crate::client::Client;

/// The namespace that is made with a cluster and is never deleted.
const NAMESPACE: &str = "kube-system";

/// What the cluster says it is, now.
pub async fn ask(client: &Client) -> Result<Pin, Failure> {
    let params = ListParams::default().fields(&format!("metadata.name={NAMESPACE}"));
    let request = Request::new("/api/v1/namespaces").list_metadata(&params);
    let list: ObjectList<PartialObjectMeta> = client.object(request).await?;
    let revision = list.metadata.resource_version.as_deref().and_then(revision);
    let meant = list.items.into_iter().find(|it| it.metadata.name.as_deref() == Some(NAMESPACE));
    let uid = meant.and_then(|it| it.metadata.uid).filter(|uid| !uid.is_empty());
    match (uid, revision) {
        (Some(uid), Some(revision)) => Ok(Pin { identity: Uid::new(uid), revision }),
        (None, _) => Err(Failure::NoAnswer(format!("there is no namespace {NAMESPACE}"))),
        (_, None) => Err(Failure::NoAnswer("a list without a revision".to_owned())),
    }
}

/// The highest revisions that this process saw. Servers behind the cluster's own count theirs
/// apart, by group.
#[derive(Debug, Default)]
pub struct Revisions(Mutex<Highest>);

#[derive(Debug, Default)]
struct Highest {
    spaces: BTreeMap<Option<String>, u64>,
    /// Of single objects: an older one was restored, or comes from a server that lags.
    objects: BTreeMap<String, u64>,
}

impl Revisions {
    /// The highest one of the cluster's own server.
    pub fn highest(&self) -> u64 {
        self.of(None)
    }

    /// Notes an answer of the cluster's own server.
    pub fn note(&self, revision: u64) {
        self.raise(None, revision);
    }

    /// Forgets what another cluster showed.
    pub fn forget(&self) {
        *self.lock() = Highest::default();
    }

    pub(crate) fn of(&self, group: Option<&str>) -> u64 {
        self.lock().spaces.get(&group.map(str::to_owned)).copied().unwrap_or(0)
    }

    pub(crate) fn raise(&self, group: Option<&str>, revision: u64) {
        let mut highest = self.lock();
        let known = highest.spaces.entry(group.map(str::to_owned)).or_default();
        *known = revision.max(*known);
    }

    /// Notes an object of the cluster's own server; false if a newer one was seen before.
    pub(crate) fn note_object(&self, path: &str, revision: u64) -> bool {
        let mut highest = self.lock();
        let known = highest.objects.entry(path.to_owned()).or_default();
        let is_newest = revision >= *known;
        *known = revision.max(*known);
        let space = highest.spaces.entry(None).or_default();
        *space = revision.max(*space);
        is_newest
    }

    /// Forgets an object that is gone.
    pub(crate) fn drop_object(&self, path: &str) {
        self.lock().objects.remove(path);
    }

    fn lock(&self) -> MutexGuard<'_, Highest> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The revision that a text is, if it is one.
pub(crate) fn revision(text: &str) -> Option<u64> {
    text.parse().ok().filter(|it| *it > 0)
}
