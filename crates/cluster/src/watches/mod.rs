//! Watches: they wake items, and decide nothing.
//!
//! ```text
//!  interest ──▶ list for a revision ──▶ watch ──▶ an event wakes the items of its object
//!                   ▲                     │
//!                   │   410, broken ◀─────┤  (then each interested item is woken once)
//!                   │   its end ──────────┴─▶ watch again from its last revision
//!   right given ────┤◀─ deaf: 403, tried every 30 s
//!   kind served ────┘◀─ not served: its definition is gone
//! ```
//!
//! **Invariants**
//! - One watch per group and resource, metadata only, while an item is interested in it; Secrets
//!   are watched one by one.
//! - An interest is taken before the object is read: what changes after the read wakes the item.
//! - Nothing is kept of an object.
//! - At rest a watch costs its renewals, and nothing else is sent.
//! - A watch that ends before it had to goes on only if the cluster is not behind its revision.
//!
//! The watcher of kube-runtime lists whole collections and passes every object on after each
//! restart; here a list asks for one object, and only its revision is used.

mod feed;
mod interest;
pub(crate) mod stream;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use thiserror::Error;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use usher_kernel::schedule::{Jitter, Pace, back_off};

pub use interest::{Object, Selection, Wake, WakeEach};

use crate::kinds::Resource;
use crate::read::Cluster;
use feed::Feed;
use interest::{Interests, Waker};
use stream::Change;

/// How often discovery is read again after a definition changed, for a kind that is not served
/// yet: it is served a little later than it is defined.
const SETTLING: u32 = 6;

/// Settings of the watches.
#[derive(Clone)]
pub struct Settings {
    /// The back-off of a watch that breaks.
    pub pace: Pace,
    /// How often a watch without a right is tried, and how often its items are polled meanwhile.
    pub deaf: Duration,
    /// Where random shares come from.
    pub jitter: Arc<dyn Fn() -> Jitter + Send + Sync>,
}

/// How well the changes of a kind are heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hearing {
    /// Not open yet.
    Starting,
    Live,
    /// It will be open again, and wakes its items then.
    Interrupted,
    /// There is no right to watch it: its items have to be polled.
    Deaf,
    /// The kind is not served: its definition wakes its items.
    NotServed,
}

/// All Secrets of a cluster are not watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("Secrets are watched by name only")]
pub struct TooBroad;

/// The watches of one cluster.
pub struct Watches {
    cluster: Arc<Cluster>,
    settings: Settings,
    feeds: Arc<Feeds>,
    ids: AtomicU64,
    follower: Mutex<Option<(Task, [Interest; 2])>>,
}

/// An interest; it ends when it is dropped, and the last one in a kind ends its watch.
pub struct Interest {
    feeds: Arc<Feeds>,
    subject: Arc<Subject>,
    object: Option<Arc<str>>,
    id: u64,
}

/// What one watch is about: a resource, or one object of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    resource: Resource,
    only: Option<(String, String)>,
}

#[derive(Default)]
struct Feeds(Mutex<BTreeMap<Arc<Subject>, Entry>>);

struct Entry {
    interests: Interests,
    hearing: Hearing,
    served: Arc<Notify>,
    _task: Task,
}

/// A task that ends with its owner.
struct Task(AbortHandle);

impl Default for Settings {
    fn default() -> Self {
        let jitter = Arc::new(|| Jitter(u32::MAX));
        Self { pace: Pace::default(), deaf: Duration::from_secs(30), jitter }
    }
}

impl Settings {
    /// A random share between nothing and all.
    fn share(&self) -> f64 {
        f64::from((self.jitter)().0) / f64::from(u32::MAX)
    }
}

impl Hearing {
    /// Whether items that rest on this kind have to be polled meanwhile.
    pub const fn needs_poll(self) -> bool {
        match self {
            Self::Deaf | Self::Interrupted => true,
            Self::Starting | Self::Live | Self::NotServed => false,
        }
    }
}

impl Watches {
    /// Follows definitions and services of the API, and with them what is served.
    pub fn start(cluster: Arc<Cluster>, settings: Settings) -> Self {
        let (feeds, ids) = (Arc::default(), AtomicU64::new(0));
        let watches = Self { cluster, settings, feeds, ids, follower: Mutex::default() };
        let changed = Arc::new(Notify::new());
        let wake: Wake = {
            let changed = Arc::clone(&changed);
            Arc::new(move || changed.notify_one())
        };
        let all = [
            ("apiextensions.k8s.io", "customresourcedefinitions"),
            ("apiregistration.k8s.io", "apiservices"),
        ];
        let interests = all.map(|(group, plural)| {
            let subject = Subject { resource: Resource::new(group, plural), only: None };
            watches.subscribe(subject, Selection::Any, Waker::Item(Arc::clone(&wake)))
        });
        let (cluster, feeds) = (Arc::clone(&watches.cluster), Arc::clone(&watches.feeds));
        let following = follow_kinds((cluster, feeds), watches.settings.clone(), changed);
        let task = Task(tokio::spawn(following).abort_handle());
        *watches.follower.lock().unwrap_or_else(PoisonError::into_inner) = Some((task, interests));
        watches
    }

    /// Wakes an item when the selected objects change, until the interest is dropped. It has to be
    /// taken before the objects are read.
    pub fn interest(
        &self,
        resource: &Resource,
        selection: Selection,
        wake: &Wake,
    ) -> Result<Interest, TooBroad> {
        let wake = Waker::Item(Arc::clone(wake));
        Ok(self.subscribe(subject(resource, &selection)?, selection, wake))
    }

    /// Wakes by each selected object that changes, until the interest is dropped, and by none after
    /// changes may have been missed: the objects have to be listed then. Unless the watch is open
    /// already, that is also how it begins.
    pub fn follow(
        &self,
        resource: &Resource,
        selection: Selection,
        wake: WakeEach,
    ) -> Result<Interest, TooBroad> {
        Ok(self.subscribe(subject(resource, &selection)?, selection, Waker::Each(wake)))
    }

    /// The cluster that is watched.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        &self.cluster
    }

    /// How well each kind is heard that an item is interested in.
    pub fn hearing(&self) -> Vec<(Resource, Hearing)> {
        let feeds = self.feeds.lock();
        feeds.iter().map(|(subject, it)| (subject.resource.clone(), it.hearing)).collect()
    }

    fn subscribe(&self, subject: Subject, selection: Selection, wake: Waker) -> Interest {
        let id = self.ids.fetch_add(1, Ordering::Relaxed);
        let mut feeds = self.feeds.lock();
        let known = feeds.get_key_value(&subject).map(|(known, _)| Arc::clone(known));
        let subject = known.unwrap_or_else(|| Arc::new(subject));
        let entry = feeds.entry(Arc::clone(&subject)).or_insert_with(|| {
            let served = Arc::new(Notify::new());
            let feed = Feed {
                cluster: Arc::clone(&self.cluster),
                feeds: Arc::clone(&self.feeds),
                settings: self.settings.clone(),
                subject: Arc::clone(&subject),
                served: Arc::clone(&served),
            };
            let task = Task(tokio::spawn(feed.run()).abort_handle());
            let (interests, hearing) = (Interests::default(), Hearing::Starting);
            Entry { interests, hearing, served, _task: task }
        });
        let object = entry.interests.add(id, selection, wake);
        drop(feeds);
        Interest { feeds: Arc::clone(&self.feeds), subject, object, id }
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.feeds.lock());
        drop(all);
    }
}

impl Interest {
    /// How well its kind is heard.
    pub fn hearing(&self) -> Hearing {
        self.feeds.lock().get(&self.subject).map_or(Hearing::Starting, |it| it.hearing)
    }
}

impl Drop for Interest {
    fn drop(&mut self) {
        let mut feeds = self.feeds.lock();
        let Some(entry) = feeds.get_mut(&self.subject) else { return };
        let wake = entry.interests.remove(self.id, self.object.as_deref());
        let ended = entry.interests.is_empty().then(|| feeds.remove(&self.subject));
        // What a wake-up holds may itself be an interest.
        drop(feeds);
        drop((wake, ended));
    }
}

impl std::fmt::Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Interest({}, {:?})", self.subject, self.object)
    }
}

impl std::fmt::Display for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.only {
            None => write!(f, "{}", self.resource),
            Some((namespace, name)) => write!(f, "{} {namespace}/{name}", self.resource),
        }
    }
}

impl Feeds {
    /// Notes how well a subject is heard; whether that is new.
    fn hear(&self, subject: &Subject, hearing: Hearing) -> bool {
        let mut feeds = self.lock();
        let Some(entry) = feeds.get_mut(subject) else { return false };
        std::mem::replace(&mut entry.hearing, hearing) != hearing
    }

    fn wake(&self, subject: &Subject, change: &Change) {
        let woken = self.lock().get(subject).map(|it| it.interests.of(change));
        woken.into_iter().flatten().for_each(|wake| wake.wake(Some(change)));
    }

    fn wake_all(&self, subject: &Subject) {
        let woken = self.lock().get(subject).map(|it| it.interests.all());
        woken.into_iter().flatten().for_each(|wake| wake.wake(None));
    }

    /// Tells the watches whose kind was not served and is now; whether any is left.
    fn tell_served(&self, cluster: &Cluster) -> bool {
        let mut is_left = false;
        for (subject, entry) in self.lock().iter() {
            if entry.hearing != Hearing::NotServed {
                continue;
            }
            if cluster.kinds.of(&subject.resource).is_some() {
                entry.served.notify_one();
            } else {
                is_left = true;
            }
        }
        is_left
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Arc<Subject>, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the watch of a selection is about.
fn subject(resource: &Resource, selection: &Selection) -> Result<Subject, TooBroad> {
    let mut subject = Subject { resource: resource.clone(), only: None };
    if resource.is_watched_one_by_one() {
        let Selection::Object { namespace, name } = selection else { return Err(TooBroad) };
        subject.only = Some((namespace.clone(), name.clone()));
    }
    Ok(subject)
}

/// Reads discovery when a definition or a service changed, and for a while after if a kind that is
/// waited for is not served yet.
async fn follow_kinds(
    (cluster, feeds): (Arc<Cluster>, Arc<Feeds>),
    settings: Settings,
    changed: Arc<Notify>,
) {
    loop {
        changed.notified().await;
        let mut attempts = 0;
        loop {
            let is_read = cluster.kinds.refresh().await.is_ok();
            let is_left = feeds.tell_served(&cluster);
            attempts += 1;
            if is_read && (!is_left || attempts > SETTLING) {
                break;
            }
            let pause = back_off(&settings.pace, attempts, (settings.jitter)());
            let waited = tokio::time::timeout(pause, changed.notified()).await;
            if waited.is_ok() {
                attempts = 0;
            }
        }
    }
}
