//! The nine phases of a machine: the eight states of the protocol, and the end.

use crate::object::closed::closed_set;

closed_set! {
    /// Where a machine is. A passing phase begins when its command is recorded and ends when the
    /// provider says so.
    "machine phase" Phase {
        /// It could be had; nothing of it exists.
        Speculative = "Speculative",
        /// Its host is being made.
        Creating = "Creating",
        /// Its host exists and is unused.
        Idle = "Idle",
        /// It is joining a cluster.
        Configuring = "Configuring",
        /// It is a node of its cluster.
        Configured = "Configured",
        /// It is being drained, and is still bound to its cluster.
        Draining = "Draining",
        /// Its host is being given back.
        Deleting = "Deleting",
        /// Its provider gave up on it.
        Failed = "Failed",
        /// Its provider does not know it any more; sticky.
        Gone = "Gone",
    }
}

impl Phase {
    /// Whether a machine in this phase belongs to a cluster.
    pub const fn is_bound(self) -> bool {
        match self {
            Self::Configuring | Self::Configured | Self::Draining => true,
            Self::Speculative
            | Self::Creating
            | Self::Idle
            | Self::Deleting
            | Self::Failed
            | Self::Gone => false,
        }
    }

    /// Where a passing phase began: what a provider shows that was not reached by its command.
    pub const fn origin(self) -> Option<Self> {
        match self {
            Self::Creating => Some(Self::Speculative),
            Self::Configuring | Self::Deleting => Some(Self::Idle),
            Self::Draining => Some(Self::Configured),
            Self::Speculative | Self::Idle | Self::Configured | Self::Failed | Self::Gone => None,
        }
    }

    /// Where a passing phase leads.
    pub const fn goal(self) -> Option<Self> {
        match self {
            Self::Creating | Self::Draining => Some(Self::Idle),
            Self::Configuring => Some(Self::Configured),
            Self::Deleting => Some(Self::Speculative),
            Self::Speculative | Self::Idle | Self::Configured | Self::Failed | Self::Gone => None,
        }
    }

    /// Whether the provider is at work on a machine in this phase.
    pub const fn is_passing(self) -> bool {
        self.goal().is_some()
    }

    /// Whether a machine of the reference protocol may pass from one phase to the other: by one of
    /// its twelve edges, or back from `Configuring` before the provider was touched.
    pub fn leads_to(self, to: Self) -> bool {
        self.goal() == Some(to)
            || to.origin() == Some(self)
            || (self.is_passing() && to == Self::Failed)
            || (self, to) == (Self::Configuring, Self::Idle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_twelve_edges_and_the_way_back_from_configuring() {
        let mut edges = Vec::new();
        for from in Phase::ALL {
            for to in Phase::ALL.iter().filter(|to| from.leads_to(**to)) {
                edges.push(format!("{from} {to}"));
            }
        }
        let expected = [
            "Speculative Creating",
            "Creating Idle",
            "Creating Failed",
            "Idle Configuring",
            "Idle Deleting",
            "Configuring Idle",
            "Configuring Configured",
            "Configuring Failed",
            "Configured Draining",
            "Draining Idle",
            "Draining Failed",
            "Deleting Speculative",
            "Deleting Failed",
        ];
        assert_eq!(edges, expected);
    }

    #[test]
    fn three_phases_are_bound_and_four_are_passing() {
        let of = |holds: fn(Phase) -> bool| {
            let found = Phase::ALL.iter().filter(|it| holds(**it));
            found.map(|it| it.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(of(Phase::is_bound), ["Configuring", "Configured", "Draining"]);
        assert_eq!(of(Phase::is_passing), ["Creating", "Configuring", "Draining", "Deleting"]);
    }
}
