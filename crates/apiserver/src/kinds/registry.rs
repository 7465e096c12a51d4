//! The registry of served resources.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use tokio::sync::watch;

use super::{Resource, builtin, custom};
use serde_json::Value;

/// A snapshot of the served resources.
#[derive(Debug, Default)]
pub(crate) struct Kinds {
    all: Vec<Arc<Resource>>,
    by_path: HashMap<(String, String, String), Arc<Resource>>,
    by_kind: HashMap<(String, String, String), Arc<Resource>>,
    /// Compiled CRD versions, by uid and version.
    read: HashMap<(String, String), Vec<Arc<Resource>>>,
}

/// The current resources.
pub(crate) struct Registry {
    current: RwLock<Arc<Kinds>>,
    changed: watch::Sender<u64>,
}

impl Kinds {
    /// The built-in resources and those of the CRDs. A known CRD is not compiled again, and one
    /// that shadows a built-in resource serves nothing.
    pub(crate) fn new<'a>(
        definitions: impl Iterator<Item = Cow<'a, Value>>,
        before: &Self,
    ) -> Self {
        let mut kinds = Self::default();
        let mut customs = Vec::new();
        for definition in definitions {
            let name = definition.pointer("/metadata/uid").and_then(Value::as_str);
            let version = definition.pointer("/metadata/resourceVersion").and_then(Value::as_str);
            let place = (name.unwrap_or_default(), version.unwrap_or_default());
            let place = (place.0.to_owned(), place.1.to_owned());
            let resources =
                before.read.get(&place).cloned().unwrap_or_else(|| custom::resources(&definition));
            let own = resources.iter().filter(|resource| !builtin::is_shadow(resource));
            customs.extend(own.cloned());
            kinds.read.insert(place, resources);
        }
        for resource in builtin::all().into_iter().chain(customs) {
            let place =
                |last: &str| (resource.group.clone(), resource.version.clone(), last.to_owned());
            kinds.by_path.insert(place(&resource.plural), resource.clone());
            if !resource.is_review() {
                kinds.by_kind.insert(place(&resource.kind), resource.clone());
            }
            kinds.all.push(resource);
        }
        kinds
    }

    /// The resource of a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.by_path.get(&(group.to_owned(), version.to_owned(), plural.to_owned()))
    }

    /// The stored resource of a kind.
    pub(crate) fn of_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        self.by_kind.get(&(group.to_owned(), version.to_owned(), kind.to_owned()))
    }

    /// Every resource: the built-in ones first, then those of CRDs.
    pub(crate) fn all(&self) -> &[Arc<Resource>] {
        &self.all
    }

    /// One resource per table; questions have none.
    pub(crate) fn tables(&self) -> Vec<Arc<Resource>> {
        let mut seen = std::collections::HashSet::new();
        let stored = |resource: &&Arc<Resource>| {
            resource.custom().is_none_or(|custom| custom.storage_version == resource.version)
        };
        let (stored, others): (Vec<_>, Vec<_>) = self.all.iter().partition(stored);
        let both = stored.into_iter().chain(others);
        both.filter(|resource| !resource.is_review())
            .filter(|resource| seen.insert(resource.table.clone()))
            .cloned()
            .collect()
    }

    /// Whether anything is served under a group and version.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.all.iter().any(|resource| resource.group == group && resource.version == version)
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let kinds = Kinds::new(std::iter::empty(), &Kinds::default());
        Self { current: RwLock::new(Arc::new(kinds)), changed: watch::Sender::new(0) }
    }

    /// The current resources.
    pub(crate) fn kinds(&self) -> Arc<Kinds> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the resources.
    pub(crate) fn replace(&self, kinds: Kinds) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(kinds);
        self.changed.send_modify(|count| *count += 1);
    }

    /// Notified of every replacement.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }
}
