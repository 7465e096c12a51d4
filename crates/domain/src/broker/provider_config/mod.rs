//! The ProviderConfig's own life: one counted row per world, namespace and credential.
//!
//! It is there while anybody uses it and goes last. Users are counted in the transactions that
//! accept and delete resources; at zero the row first *commits* that it is leaving, and only then
//! asks the object to go, so that nobody accepted in between refers to something that vanishes.
//!
//! **Invariants**
//! - `Leaving` is sticky until everything is proven gone; a new user then starts a new generation.
//! - Only `Ready` may be referred to.
//! - The anchor of a generation is first and last.

mod facts;
mod life;
mod observe;
mod reconcile;

pub use facts::{Facts, Object, Phase, Reason, Rest, RowFacts, Rows, Users, VerbKind, Verdict};
pub use life::{Life, Verb};
pub use observe::{ConfigObject, Look, Observed, fold};
pub use reconcile::rules;

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name, Row, Timestamp};

use crate::object::id::{CredentialId, InstallationId, ProviderConfigId};
use crate::object::name;

/// The kind of a ProviderConfig's anchor in the identity ledger.
pub const KIND_ANCHOR: &str = "Anchor";
/// The kind of a ProviderConfig in the identity ledger.
pub const KIND_CONFIG: &str = "ProviderConfig";

/// The row of one ProviderConfig.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProviderConfig {
    /// The life.
    pub id: ProviderConfigId,
    /// The installation that owns it.
    pub installation: InstallationId,
    /// The world it lives in.
    pub world: String,
    /// The namespace it lives in.
    pub namespace: String,
    /// The credential it refers to.
    pub credential: CredentialId,
    /// How many resources use it.
    pub users: u32,
    /// Where it is.
    pub phase: Phase,
    /// The generation.
    pub generation: Generation,
}

impl ProviderConfig {
    /// The name of the anchor of a generation.
    pub fn anchor_name(&self, generation: Generation) -> Name {
        self.outside(KIND_ANCHOR, name::provider_config_anchor(self.id, generation), generation)
    }

    /// The name of the object of a generation.
    pub fn config_name(&self, generation: Generation) -> Name {
        self.outside(KIND_CONFIG, name::provider_config(self.id), generation)
    }

    /// The names the current generation will use, recorded before any of them is used.
    pub fn intended(&self, by: &str, now: Timestamp) -> Vec<Row> {
        [self.anchor_name(self.generation), self.config_name(self.generation)]
            .into_iter()
            .map(|name| Row::intended(name, by, now))
            .collect()
    }

    /// Whether what exists is being shown out.
    pub const fn is_showing_out(&self) -> bool {
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

    /// One user less, in the transaction that tells it deleted.
    #[must_use]
    pub fn parted(&self) -> Self {
        Self { users: self.users.saturating_sub(1), ..self.clone() }
    }

    fn outside(&self, kind: &str, name: String, generation: Generation) -> Name {
        Name { kind: kind.to_owned(), place: self.namespace.clone(), name, generation }
    }
}

#[cfg(test)]
mod laws;
#[cfg(test)]
mod tests;
