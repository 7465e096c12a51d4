//! What a machine can be asked for.

use std::collections::BTreeMap;

use bytes::Bytes;
use usher_wire::fleet::MachineState;

use super::fence::Token;

/// A question that changes a machine.
#[derive(Clone)]
pub struct TransitionRequest {
    /// Which machine.
    pub machine: String,
    /// Who asks.
    pub token: Token,
    /// For what.
    pub verb: Verb,
}

/// A verb with what it brings.
#[derive(Clone)]
pub enum Verb {
    /// Make the machine.
    Create,
    /// Bind it.
    Configure {
        /// To this cluster.
        cluster: String,
        /// What it needs to join.
        blob: Bytes,
        /// What is kept with the binding.
        metadata: BTreeMap<String, String>,
    },
    /// Take it out of its cluster.
    Drain {
        /// Within so many seconds.
        grace_seconds: i64,
    },
    /// Give it back.
    Delete,
    /// Take away what is left of it, since it failed.
    Salvage,
}

/// A verb by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Make the machine.
    Create,
    /// Bind it.
    Configure,
    /// Take it out of its cluster.
    Drain,
    /// Give it back.
    Delete,
    /// Take away what is left of it, since it failed.
    Salvage,
}

impl Verb {
    /// The verb by itself.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Create => Kind::Create,
            Self::Configure { .. } => Kind::Configure,
            Self::Drain { .. } => Kind::Drain,
            Self::Delete => Kind::Delete,
            Self::Salvage => Kind::Salvage,
        }
    }
}

impl Kind {
    /// Every verb.
    pub const ALL: [Self; 5] =
        [Self::Create, Self::Configure, Self::Drain, Self::Delete, Self::Salvage];
    /// Those of the public service, in the order of a life. None of them leaves FAILED.
    pub const PUBLIC: [Self; 4] = [Self::Create, Self::Configure, Self::Drain, Self::Delete];

    /// The word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Configure => "configure",
            Self::Drain => "drain",
            Self::Delete => "delete",
            Self::Salvage => "salvage",
        }
    }

    /// Where it begins.
    pub const fn origin(self) -> MachineState {
        match self {
            Self::Create => MachineState::Speculative,
            Self::Configure | Self::Delete => MachineState::Idle,
            Self::Drain => MachineState::Configured,
            Self::Salvage => MachineState::Failed,
        }
    }

    /// Where a machine is meanwhile.
    pub const fn passing(self) -> MachineState {
        match self {
            Self::Create => MachineState::Creating,
            Self::Configure => MachineState::Configuring,
            Self::Drain => MachineState::Draining,
            Self::Delete | Self::Salvage => MachineState::Deleting,
        }
    }

    /// Where it leads.
    pub const fn goal(self) -> MachineState {
        match self {
            Self::Create | Self::Drain => MachineState::Idle,
            Self::Configure => MachineState::Configured,
            Self::Delete | Self::Salvage => MachineState::Speculative,
        }
    }

    /// Its place among the verbs.
    pub(super) const fn index(self) -> usize {
        match self {
            Self::Create => 0,
            Self::Configure => 1,
            Self::Drain => 2,
            Self::Delete => 3,
            Self::Salvage => 4,
        }
    }
}
