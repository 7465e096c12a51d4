//! The finite facts a decision may branch on, and nothing else.
//!
//! [`RowFacts`] come from the row (and the clock), [`Facts`] from one snapshot. Their product is
//! what the transition table covers, cell by cell.

use super::phase::Phase;
use crate::object::closed::closed_set;

/// What the row says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowFacts {
    pub phase: Phase,
    /// What shall become of it.
    pub want: Want,
    /// The progress of the last command.
    pub command: CommandState,
    /// Whether the phase has lasted too long.
    pub pace: Pace,
    /// The other claimant.
    pub hold: Hold,
}

/// What one snapshot showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// What keeps the snapshot from being acted upon.
    pub restriction: Restriction,
    /// What the provider said.
    pub report: Reported,
    /// The owner of the cluster it named.
    pub binding: Bound,
}

closed_set! {
    /// What shall become of a machine.
    "want" Want {
        /// To be a node of a cluster; where it is bound, of that very cluster.
        Bind = "Bind",
        /// To be a node of another cluster than it is bound to.
        Rebind = "Rebind",
        /// To belong to no cluster.
        Unbound = "Unbound",
        /// To cost nothing.
        Release = "Release",
    }

    /// The progress of a command: recorded with its token first, then sent, then seen to have
    /// effect.
    "command" CommandState {
        /// None is open.
        None = "None",
        /// Its token is recorded; it may have been sent by a worker that died.
        Recorded = "Recorded",
        /// It was sent; its effect was not seen yet.
        Sent = "Sent",
    }

    /// Whether a passing phase has lasted too long.
    "pace" Pace {
        /// It has not.
        InTime = "InTime",
        /// It has: its command is repeated.
        Overdue = "Overdue",
    }

    /// A claimant of a machine besides the plan.
    "hold" Hold {
        /// None.
        Free = "Free",
        /// A resource of the broker.
        Held = "Held",
        /// Its provider names another cluster than we do: nothing is done until that is settled.
        Disputed = "Disputed",
    }

    /// What keeps a snapshot from being acted upon.
    "restriction" Restriction {
        /// Nothing.
        None = "None",
        /// Too much vanished at once: absence is held.
        GuardTripped = "GuardTripped",
        /// No new command may be recorded; commands in progress continue. Absence is held, too.
        Paused = "Paused",
        /// A newer epoch holds the lease of the shard: no verb is sent.
        Superseded = "Superseded",
    }

    /// What the provider said of a machine.
    "report" Reported {
        /// Nothing.
        Unknown = "Unknown",
        /// Something that may be older than our last command.
        Stale = "Stale",
        /// A list without it: no proof of anything.
        Missing = "Missing",
        /// That there is no such machine, when queried for this very one.
        Absent = "Absent",
        /// A record whose parts disagree.
        Malformed = "Malformed",
        /// That it is `Speculative`.
        Speculative = "Speculative",
        /// That it is `Creating`.
        Creating = "Creating",
        /// That it is `Idle`.
        Idle = "Idle",
        /// That it is `Configuring`.
        Configuring = "Configuring",
        /// That it is `Configured`.
        Configured = "Configured",
        /// That it is `Draining`.
        Draining = "Draining",
        /// That it is `Deleting`.
        Deleting = "Deleting",
        /// That it is `Failed`.
        Failed = "Failed",
    }

    /// The owner of the cluster a provider named.
    "binding" Bound {
        /// None.
        None = "None",
        /// The one that the row is bound to.
        Ours = "Ours",
        /// The cluster of an unbound machine's withdrawn command.
        Asked = "Asked",
        /// Another.
        Other = "Other",
    }
}

impl Reported {
    /// The phase that was reported, if one was.
    pub const fn phase(self) -> Option<Phase> {
        match self {
            Self::Unknown | Self::Stale | Self::Missing | Self::Absent | Self::Malformed => None,
            Self::Speculative => Some(Phase::Speculative),
            Self::Creating => Some(Phase::Creating),
            Self::Idle => Some(Phase::Idle),
            Self::Configuring => Some(Phase::Configuring),
            Self::Configured => Some(Phase::Configured),
            Self::Draining => Some(Phase::Draining),
            Self::Deleting => Some(Phase::Deleting),
            Self::Failed => Some(Phase::Failed),
        }
    }

    /// The word for a phase; no provider reports the end of a machine in a record of it.
    pub const fn of(phase: Phase) -> Self {
        match phase {
            Phase::Speculative => Self::Speculative,
            Phase::Creating => Self::Creating,
            Phase::Idle => Self::Idle,
            Phase::Configuring => Self::Configuring,
            Phase::Configured => Self::Configured,
            Phase::Draining => Self::Draining,
            Phase::Deleting => Self::Deleting,
            Phase::Failed => Self::Failed,
            Phase::Gone => Self::Absent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_is_reported_by_its_own_word() {
        for phase in Phase::ALL.iter().filter(|it| **it != Phase::Gone) {
            assert_eq!(Reported::of(*phase).phase(), Some(*phase));
            assert_eq!(Reported::of(*phase).as_str(), phase.as_str());
        }
        assert_eq!(Reported::of(Phase::Gone).phase(), None);
    }
}
