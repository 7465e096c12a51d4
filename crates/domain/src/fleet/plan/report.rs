//! What a plan says besides its aims: the state of each need, and what was held back and why.

use crate::fleet::ident::ClusterId;
use crate::fleet::refusal::Refusal;
use crate::object::closed::closed_set;

closed_set! {
    /// The state of a need.
    "outcome" Outcome {
        /// Nodes of its own cover it.
        Satisfied = "Satisfied",
        /// Machines in transit cover what nodes do not.
        InFlight = "InFlight",
        /// This plan gives it what it lacks.
        Assigned = "Assigned",
        /// This plan takes what it lacks from needs of lower priority.
        Preempting = "Preempting",
        /// No machine of the fleet is what it asks for.
        NoSuchMachine = "NoSuchMachine",
        /// Such machines are, and none is free or serves a need of lower priority.
        NoCapacity = "NoCapacity",
    }

    /// What holds something back.
    "held back" HeldBack {
        /// The store does not answer: nothing is aimed at.
        StoreDown = "StoreDown",
        /// An operator paused the fleet: nothing is aimed at.
        Paused = "Paused",
        /// It is a dry run: nothing is aimed at.
        DryRun = "DryRun",
        /// The list of machines is implausible: nothing is reclaimed.
        ListQuarantined = "ListQuarantined",
        /// No roll-up of the cluster was received yet: nothing is taken from it as surplus.
        FirstRollUp = "FirstRollUp",
        /// The cluster's demand fell too suddenly: nothing is taken from it as surplus.
        RollUpQuarantined = "RollUpQuarantined",
        /// Some of the cluster's needs could not be read: nothing is taken from it as surplus.
        UnreadNeeds = "UnreadNeeds",
        /// More was surplus than may be drained at once.
        ReclaimCap = "ReclaimCap",
    }
}

/// The state of one need.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeedReport {
    /// The number of its cluster in the report.
    pub cluster: u32,
    /// Its place among the needs of the cluster, the highest priority first.
    pub need: u32,
    /// Its state.
    pub outcome: Outcome,
}

/// What a plan found out about a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterReport {
    pub cluster: ClusterId,
    /// How many of its nodes no need of its asks for.
    pub surplus: u32,
    /// How many of them are to be drained.
    pub reclaimed: u32,
    /// What held the others back.
    pub held_back: Option<HeldBack>,
    /// Its needs that could not be read.
    pub refused: Vec<Refusal>,
}

/// The state of the demand after a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Every need of every cluster whose roll-up was received.
    pub needs: Vec<NeedReport>,
    /// Every cluster.
    pub clusters: Vec<ClusterReport>,
    /// What held back the plan as a whole.
    pub held_back: Vec<HeldBack>,
    /// How many aims were found; while something holds all of them back none is returned.
    pub aims: usize,
}

impl Report {
    /// The number of needs in this state.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.needs.iter().filter(|it| it.outcome == outcome).count()
    }
}
