//! Which machine serves which need: a pure function from the index to aims and a report.
//!
//! ```text
//!   credit ──▶ acquire ──▶ preempt ──▶ reclaim ──▶ release
//!   what it     what is     from the    what no     what is idle
//!   has         free        lower prio. need asks   for too long
//! ```
//!
//! **Invariants**
//! - An aim is a credit: a machine in transit to a need counts for it, also while it is still
//!   drained from another cluster.
//! - What is held, disputed or another shard's is not in the index, so it is no candidate.
//! - Whatever holds a plan back suppresses its aims and never its report.

mod cycle;
mod demand;
mod index;
mod intern;
mod lot;
mod need;
mod preempt;
mod reclaim;
mod report;

pub use demand::{Judged, NEEDS_MAX, Trust, check_needs};
pub use index::{Fleet, Slot, Windows};
pub use need::{Need, Operator, Profile, RawNeed, RawRequirement, Requirement};
pub use report::{ClusterReport, HeldBack, NeedReport, Outcome, Report};

use std::time::Duration;

use usher_kernel::Timestamp;

use super::aggregate::{Machine, Target, Wanted};
use super::binding::Binding;
use super::phase::Phase;
use crate::object::closed::closed_set;
use cycle::Cycle;

closed_set! {
    /// Whether a plan is acted upon.
    "switch" Switch {
        /// It is.
        Run = "Run",
        /// It is only reported.
        DryRun = "DryRun",
        /// It is only reported, because an operator stopped the fleet.
        Paused = "Paused",
    }

    /// Why a machine is aimed at.
    "cause" Cause {
        /// It was free and is needed.
        Assign = "Assign",
        /// It serves its cluster and counts for another of its needs from now on.
        Reassign = "Reassign",
        /// A need of higher priority needs it.
        Preempt = "Preempt",
        /// It is not needed any more.
        Reclaim = "Reclaim",
        /// The need it was in transit to does not need it any more.
        Return = "Return",
        /// It was idle for too long.
        Release = "Release",
    }
}

/// The circumstances of one cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Circumstances {
    /// The present.
    pub now: Timestamp,
    /// Whether the store answers.
    pub store_up: bool,
    /// Whether the last list of machines is complete and plausible.
    pub list_believed: bool,
    /// Whether the plan is acted upon.
    pub switch: Switch,
    /// The settings.
    pub config: PlanConfig,
}

/// The settings of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlanConfig {
    /// The share of a cluster's nodes that may be drained at once, in percent.
    pub reclaim_percent: u32,
}

impl Default for PlanConfig {
    fn default() -> Self {
        Self { reclaim_percent: 5 }
    }
}

impl PlanConfig {
    /// How many of so many nodes may be drained at once; one always may.
    pub fn reclaim_cap(self, nodes: u32) -> u32 {
        let share = u64::from(nodes) * u64::from(self.reclaim_percent) / 100;
        u32::try_from(share).unwrap_or(u32::MAX).max(1)
    }
}

/// What shall become of one machine, in numbers of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// The machine.
    pub slot: Slot,
    /// The aim.
    pub goal: Goal,
    /// How long the eviction of its pods may take.
    pub grace: Duration,
    /// Why.
    pub cause: Cause,
}

/// The aim of a machine, in numbers of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// To serve this need of this cluster.
    Bind(u32),
    /// To belong to no cluster.
    Unbound,
    /// To stay with the cluster that it still serves, if it does, and else to belong to no cluster.
    Return,
    /// To cost nothing.
    Release,
}

/// A plan: aims to be written into rows, and why.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The aims; none while anything holds back the plan as a whole.
    pub aims: Vec<Aim>,
    /// The state of the demand.
    pub report: Report,
}

/// Plans one cycle.
pub fn plan(fleet: &Fleet, at: &Circumstances) -> Plan {
    let mut cycle = Cycle::new(fleet);
    let lacks = cycle.credit();
    let lacks = cycle.acquire(lacks);
    if at.list_believed {
        cycle.preempt(lacks);
    }
    let clusters = cycle.reclaim(at.list_believed, at.config);
    if at.list_believed {
        cycle.release(at.now);
    }
    let Cycle { mut aims, needs, .. } = cycle;
    let all = [
        (!at.store_up, HeldBack::StoreDown),
        (at.switch == Switch::Paused, HeldBack::Paused),
        (at.switch == Switch::DryRun, HeldBack::DryRun),
    ];
    let mut held_back: Vec<HeldBack> = all.iter().filter(|it| it.0).map(|it| it.1).collect();
    let report_aims = aims.len();
    if !held_back.is_empty() {
        aims.clear();
    }
    if !at.list_believed {
        held_back.push(HeldBack::ListQuarantined);
    }
    Plan { aims, report: Report { needs, clusters, held_back, aims: report_aims } }
}

impl Fleet {
    /// What an aim of a plan over this very index means for the row of its machine.
    pub fn wanted(&self, aim: &Aim, machine: &Machine) -> Option<Wanted> {
        let target = match aim.goal {
            Goal::Bind(_) => Target::Bind(self.binding_of(aim.goal)?.clone()),
            Goal::Return if machine.phase() == Phase::Configured => {
                Target::Bind(machine.state().binding()?.clone())
            }
            Goal::Return | Goal::Unbound => Target::Unbound,
            Goal::Release => Target::Release,
        };
        Some(Wanted { target, grace: aim.grace })
    }

    /// The need that a machine with this aim shall serve.
    pub fn binding_of(&self, goal: Goal) -> Option<&Binding> {
        match goal {
            Goal::Bind(tie) => self.binding(tie),
            Goal::Unbound | Goal::Return | Goal::Release => None,
        }
    }
}

#[cfg(test)]
mod tests;
