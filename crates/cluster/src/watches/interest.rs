//! Who is interested in which objects of one kind. Nothing is kept of an object itself.

use std::collections::BTreeMap;
use std::sync::Arc;

use kube_client::core::{Selector, SelectorExt as _};

use super::stream::Change;

/// Wakes an item of a queue: repeated, early and needless calls do no harm.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// Wakes the item of an object; with none, each item of the selected objects.
pub type WakeEach = Arc<dyn Fn(Option<Object<'_>>) + Send + Sync>;

/// An object that changed, or is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object<'a> {
    /// Empty for an object of the cluster.
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
}

/// What a change calls.
#[derive(Clone)]
pub(super) enum Waker {
    Item(Wake),
    Each(WakeEach),
}

/// Which objects of a kind wake an item.
#[derive(Clone, Debug)]
pub enum Selection {
    /// One object, whether it is there or not; the namespace of one of the cluster is empty.
    Object { namespace: String, name: String },
    /// All that have these labels, by the event: one that loses them wakes through its name only.
    Labelled { namespace: Option<String>, labels: Selector },
    /// All.
    Any,
}

/// The interests in one kind.
#[derive(Default)]
pub(super) struct Interests {
    objects: BTreeMap<Arc<str>, Vec<(u64, Waker)>>,
    broad: BTreeMap<u64, (Selection, Waker)>,
}

impl Interests {
    /// Adds an interest; its object, if it is in one.
    pub(super) fn add(&mut self, id: u64, selection: Selection, wake: Waker) -> Option<Arc<str>> {
        let Selection::Object { namespace, name } = &selection else {
            self.broad.insert(id, (selection, wake));
            return None;
        };
        let path = path(namespace, name);
        let known = self.objects.get_key_value(path.as_str()).map(|(known, _)| Arc::clone(known));
        let object = known.unwrap_or_else(|| path.into());
        let wakes = self.objects.entry(Arc::clone(&object));
        // Most objects interest one item.
        wakes.or_insert_with(|| Vec::with_capacity(1)).push((id, wake));
        Some(object)
    }

    /// Ends an interest. What it woke is returned, to be dropped where no lock is held.
    pub(super) fn remove(&mut self, id: u64, object: Option<&str>) -> Option<Waker> {
        let Some(object) = object else {
            return self.broad.remove(&id).map(|(_, wake)| wake);
        };
        let wakes = self.objects.get_mut(object)?;
        let at = wakes.iter().position(|(other, _)| *other == id)?;
        let (_, wake) = wakes.swap_remove(at);
        if wakes.is_empty() {
            self.objects.remove(object);
        }
        Some(wake)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty() && self.broad.is_empty()
    }

    /// The items that a change wakes, each once.
    pub(super) fn of(&self, change: &Change) -> Vec<Waker> {
        let named =
            self.objects.get(path(&change.metadata.namespace, &change.metadata.name).as_str());
        let named = named.into_iter().flatten().map(|(_, wake)| wake);
        let broad = self.broad.values().filter(|(selection, _)| fits(selection, change));
        once(named.chain(broad.map(|(_, wake)| wake)))
    }

    /// All items, each once.
    pub(super) fn all(&self) -> Vec<Waker> {
        let named = self.objects.values().flatten().map(|(_, wake)| wake);
        once(named.chain(self.broad.values().map(|(_, wake)| wake)))
    }
}

fn fits(selection: &Selection, change: &Change) -> bool {
    match selection {
        Selection::Any => true,
        Selection::Object { .. } => false,
        Selection::Labelled { namespace, labels } => {
            let is_there = namespace.as_ref().is_none_or(|it| *it == change.metadata.namespace);
            is_there && labels.matches(&change.metadata.labels)
        }
    }
}

fn path(namespace: &str, name: &str) -> String {
    format!("{namespace}/{name}")
}

/// Without repetitions: an item may have several interests.
fn once<'a>(wakes: impl Iterator<Item = &'a Waker>) -> Vec<Waker> {
    let mut seen = std::collections::BTreeSet::new();
    let is_new = |wake: &&Waker| seen.insert(wake.address());
    wakes.filter(is_new).cloned().collect()
}

impl Waker {
    /// Wakes for a change, or because changes may have been missed.
    pub(super) fn wake(&self, change: Option<&Change>) {
        match self {
            Self::Item(wake) => wake(),
            Self::Each(wake) => wake(change.map(|it| Object {
                namespace: &it.metadata.namespace,
                name: &it.metadata.name,
                uid: &it.metadata.uid,
            })),
        }
    }

    fn address(&self) -> *const () {
        match self {
            Self::Item(wake) => Arc::as_ptr(wake).cast(),
            Self::Each(wake) => Arc::as_ptr(wake).cast(),
        }
    }
}
