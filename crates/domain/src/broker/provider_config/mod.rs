//! The ProviderConfig: one counted row per world, namespace and credential.
//!
//! It exists while it has users and is deleted last. Users are counted in the transactions that
//! accept and delete resources; at zero the row first *commits* `Leaving`, and only then deletes
//! the object, so that no resource accepted in between refers to something that vanishes.
//!
//! **Invariants**
//! - `Leaving` is sticky until everything is proven gone; a new user then starts a new generation.
//! - Only `Ready` may be referred to.
//! - The anchor of a generation is first and last.
//! - What teardown needs is in the row: types and places follow from the provider, every name from
//!   the id, so that no two rows share an object.
//!
//! An anchor owns three objects: the ProviderConfig, the ExternalSecret, and the Secret that is
//! materialised for it. The first two are ours to write. The Secret is written by another
//! controller: it is recorded when it is seen and is deleted with the others.

mod facts;
mod observe;
mod reason;
mod reconcile;
mod reconciler;

pub use facts::{Facts, Object, Phase, RecordChange, RowFacts, Users, VerbKind, Verdict};
pub use observe::{Found, Observed, Snapshot, fold};
pub use reason::Reason;
pub use reconcile::rules;
pub use reconciler::{ProviderConfigReconciler, Verb};

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name, Row, Timestamp};

use super::command::Outstanding;
use super::render::anchor;
use crate::object::id::{CredentialId, InstallationId, ProviderConfigId};
use crate::object::kv::KvCoordinates;
use crate::object::manifest::Scope;
use crate::object::name;
use crate::object::provider::Provider;

/// The kind of an ExternalSecret in the identity ledger.
pub const KIND_EXTERNAL_SECRET: &str = "external-secrets.io/ExternalSecret";
/// The kind of a Secret in the identity ledger.
pub const KIND_SECRET: &str = "Secret";

/// The row of one ProviderConfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderConfig {
    pub id: ProviderConfigId,
    /// The installation that owns it.
    pub installation: InstallationId,
    pub world: String,
    /// The namespace it serves; its Secret is always there.
    pub namespace: String,
    /// The cloud provider; type and scope follow from it.
    pub provider: Provider,
    /// The credential it refers to.
    pub credential: CredentialId,
    /// Where that credential lies.
    pub coordinates: KvCoordinates,
    /// How many resources use it.
    pub users: u32,
    /// Where it is.
    pub phase: Phase,
    pub generation: Generation,
    /// Until when a request from before the last user left may arrive.
    pub grace_until: Option<Timestamp>,
}

impl ProviderConfig {
    /// The name of the anchor of a generation.
    pub fn anchor_name(&self, generation: Generation) -> Name {
        Name {
            kind: anchor::kind(self.provider.config_type().scope).to_owned(),
            place: self.place(),
            name: name::provider_config_anchor(self.id, generation),
            generation,
        }
    }

    /// The name of the ProviderConfig of a generation.
    pub fn config_name(&self, generation: Generation) -> Name {
        Name {
            kind: self.provider.config_type().group_kind(),
            place: self.place(),
            name: name::provider_config(self.id),
            generation,
        }
    }

    /// The name of the ExternalSecret of a generation.
    pub fn external_secret_name(&self, generation: Generation) -> Name {
        self.beside(KIND_EXTERNAL_SECRET, generation)
    }

    /// The name of the Secret that is materialised for a generation.
    pub fn secret_name(&self, generation: Generation) -> Name {
        self.beside(KIND_SECRET, generation)
    }

    /// The names the current generation will use, recorded before any of them is used.
    pub fn intended(&self, by: &str, now: Timestamp) -> Vec<Row> {
        let names = [
            self.anchor_name(self.generation),
            self.config_name(self.generation),
            self.external_secret_name(self.generation),
        ];
        names.into_iter().map(|name| Row::intended(name, by, now)).collect()
    }

    /// Whether what exists is being torn down.
    pub const fn is_tearing_down(&self) -> bool {
        match self.phase {
            Phase::Leaving | Phase::Gone => true,
            Phase::Pending | Phase::Ready => false,
        }
    }

    /// Whether a resource may refer to it.
    pub const fn is_ready(&self) -> bool {
        matches!(self.phase, Phase::Ready)
    }

    /// One more user, in the transaction that accepts it.
    #[must_use]
    pub fn joined(&self) -> Self {
        Self { users: self.users.saturating_add(1), ..self.clone() }
    }

    /// One user less, in the transaction that deletes it. With the last one the in-flight grace
    /// begins: `outstanding` is what this row's own workers may still do.
    #[must_use]
    pub fn parted(&self, outstanding: &Outstanding, now: Timestamp) -> Self {
        let mut next = Self { users: self.users.saturating_sub(1), ..self.clone() };
        if self.users == 1 && !self.is_tearing_down() {
            next.grace_until = self.grace_until.max(outstanding.grace_until(now));
        }
        next
    }

    /// Whether a worker that waits for a change has to reconcile: the first user was added, or the
    /// last one was removed. How many there are in between decides nothing.
    pub const fn is_news_to(&self, before: &Self) -> bool {
        (self.users == 0) != (before.users == 0)
    }

    /// The row as its next worker takes it: a worker that has released its lease cleanly since
    /// the last user left is not waited for any more.
    #[must_use]
    pub fn with_grace(&self, outstanding: &Outstanding, now: Timestamp) -> Self {
        let grace_until = self.grace_until.min(outstanding.grace_until(now));
        Self { grace_until, ..self.clone() }
    }

    /// Whether absence counts: no request from before the last user left can still arrive.
    pub fn is_grace_over(&self, now: Timestamp) -> bool {
        self.grace_until.is_none_or(|until| until <= now)
    }

    /// The namespace of the ProviderConfig and its anchor; empty if they are cluster-scoped.
    fn place(&self) -> String {
        match self.provider.config_type().scope {
            Scope::Namespaced => self.namespace.clone(),
            Scope::Cluster => String::new(),
        }
    }

    /// A name in the namespace, whatever the scope of the ProviderConfig.
    fn beside(&self, kind: &str, generation: Generation) -> Name {
        let name = name::provider_config_secret(self.id);
        Name { kind: kind.to_owned(), place: self.namespace.clone(), name, generation }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
