//! The effects of a machine. Each carries a token that was recorded before.

use std::collections::BTreeMap;
use std::time::Duration;

use super::ident::{ClusterId, MachineId};
use super::issue::Token;
use super::verdict::EffectKind;

/// One verb toward a provider. One that arrives twice is refused by its token the second time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    pub machine: MachineId,
    /// The place of this verb in the order of all verbs of the shard.
    pub token: Token,
    /// What to do.
    pub verb: Verb,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Make its host.
    Create,
    /// Let it join this cluster.
    Configure {
        /// The cluster.
        cluster: ClusterId,
        /// What the provider keeps beside the binding.
        metadata: BTreeMap<String, String>,
    },
    /// Drain it from its cluster.
    Drain {
        /// How long the eviction of its pods may take.
        grace: Duration,
    },
    /// Give its host back.
    Delete,
    /// Clean up what is left of it, since it failed.
    Salvage,
}

impl Effect {
    /// Which verb this is.
    pub const fn kind(&self) -> EffectKind {
        match self.verb {
            Verb::Create => EffectKind::Create,
            Verb::Configure { .. } => EffectKind::Configure,
            Verb::Drain { .. } => EffectKind::Drain,
            Verb::Delete => EffectKind::Delete,
            Verb::Salvage => EffectKind::Salvage,
        }
    }
}
