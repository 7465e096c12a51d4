//! The verbs on a machine.

use std::collections::BTreeMap;

use bytes::Bytes;
use usher_wire::fleet::MachineState;

use super::fence::Token;

/// A request that changes a machine.
#[derive(Clone)]
pub struct TransitionRequest {
    /// The machine id.
    pub machine: String,
    /// The fencing token of the caller.
    pub token: Token,
    /// The verb.
    pub verb: Verb,
}

/// A verb with its arguments.
#[derive(Clone)]
pub enum Verb {
    /// Make the host.
    Create,
    /// Join it to a cluster.
    Configure {
        /// The cluster.
        cluster: String,
        /// The bootstrap blob.
        blob: Bytes,
        /// Returned with the binding, unchanged.
        metadata: BTreeMap<String, String>,
    },
    /// Remove it from its cluster.
    Drain {
        /// The grace period.
        grace_seconds: i64,
    },
    /// Delete the host.
    Delete,
    /// Remove what is left of it after a failure.
    Salvage,
}

/// A verb without its arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Make the host.
    Create,
    /// Join it to a cluster.
    Configure,
    /// Remove it from its cluster.
    Drain,
    /// Delete the host.
    Delete,
    /// Remove what is left of it after a failure.
    Salvage,
}

impl Verb {
    /// The verb without its arguments.
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
    /// The verbs of the public service, in the order of use. None of them leaves FAILED.
    pub const PUBLIC: [Self; 4] = [Self::Create, Self::Configure, Self::Drain, Self::Delete];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Configure => "configure",
            Self::Drain => "drain",
            Self::Delete => "delete",
            Self::Salvage => "salvage",
        }
    }

    /// The state it begins in.
    pub const fn origin(self) -> MachineState {
        match self {
            Self::Create => MachineState::Speculative,
            Self::Configure | Self::Delete => MachineState::Idle,
            Self::Drain => MachineState::Configured,
            Self::Salvage => MachineState::Failed,
        }
    }

    /// The state while it runs.
    pub const fn passing(self) -> MachineState {
        match self {
            Self::Create => MachineState::Creating,
            Self::Configure => MachineState::Configuring,
            Self::Drain => MachineState::Draining,
            Self::Delete | Self::Salvage => MachineState::Deleting,
        }
    }

    /// The state after success.
    pub const fn goal(self) -> MachineState {
        match self {
            Self::Create | Self::Drain => MachineState::Idle,
            Self::Configure => MachineState::Configured,
            Self::Delete | Self::Salvage => MachineState::Speculative,
        }
    }

    /// Its index, as written to the journal.
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
