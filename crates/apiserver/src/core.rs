//! The state that verbs and controllers share.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use tokio::sync::watch;

use crate::admission::Webhooks;
use crate::auth::{Issuer, Tokens};
use crate::counters::Counters;
use crate::faults::Faults;
use crate::kinds::{Kinds, Registry, Resource};
use crate::store::Store;

/// The table of definitions.
pub(crate) const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
/// The table of webhook configurations.
pub(crate) const WEBHOOKS: &str = "validatingwebhookconfigurations.admissionregistration.k8s.io";
/// The table of admission policies.
pub(crate) const POLICIES: &str = "validatingadmissionpolicies.admissionregistration.k8s.io";
/// The table of the bindings that put them in force.
pub(crate) const POLICY_BINDINGS: &str =
    "validatingadmissionpolicybindings.admissionregistration.k8s.io";
/// The table of namespaces.
pub(crate) const NAMESPACES: &str = "namespaces";

/// Whether many requests read the objects of a table that they are not about.
pub(crate) fn is_consulted(table: &str) -> bool {
    [DEFINITIONS, WEBHOOKS, POLICIES, POLICY_BINDINGS].contains(&table)
        || table.ends_with(".rbac.authorization.k8s.io")
}

/// Receives one audit line per request.
pub(crate) type Audit = Arc<dyn Fn(&str) + Send + Sync>;

/// The server without its listeners.
pub(crate) struct Core {
    pub(crate) store: Store,
    pub(crate) registry: Registry,
    pub(crate) tokens: Tokens,
    pub(crate) issuer: Arc<Issuer>,
    pub(crate) webhooks: Webhooks,
    pub(crate) faults: Arc<Faults>,
    pub(crate) counters: Arc<Counters>,
    pub(crate) audit: Option<Audit>,
    /// True on shutdown, and when another cluster takes its place.
    pub(crate) ending: watch::Sender<bool>,
    pub(crate) ready: AtomicBool,
}

/// The cluster behind the listeners and in-process clients, which a rebuild replaces.
pub(crate) struct Backend {
    core: RwLock<Arc<Core>>,
    /// True on shutdown.
    pub(crate) ending: watch::Sender<bool>,
}

impl Backend {
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core: RwLock::new(core), ending: watch::Sender::new(false) }
    }

    pub(crate) fn core(&self) -> Arc<Core> {
        self.core.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn replace(&self, core: Arc<Core>) {
        *self.core.write().unwrap_or_else(PoisonError::into_inner) = core;
    }
}

impl Core {
    /// Reloads the served resources from the CRDs.
    pub(crate) fn refresh_kinds(&self) {
        let listing = self.store.list(DEFINITIONS, "");
        let before = self.registry.kinds();
        let kinds = Kinds::new(listing.objects.values().map(|entry| entry.value()), &before);
        self.registry.replace(kinds);
    }

    /// The resource of a kind, in any version if the given one is not served.
    pub(crate) fn resource(
        &self,
        group: &str,
        version: &str,
        plural: &str,
    ) -> Option<Arc<Resource>> {
        self.registry.kinds().find(group, version, plural).cloned()
    }

    /// A namespace, if it is there.
    pub(crate) fn namespace(&self, name: &str) -> Option<Arc<crate::store::Entry>> {
        self.store.get(NAMESPACES, name)
    }
}

/// A string inside an object; empty if absent.
pub(crate) fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Whether a list inside an object has entries.
pub(crate) fn has_entries(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_array).is_some_and(|list| !list.is_empty())
}
