//! Machines, shards and demand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Advice, Blocker, bodies};

bodies! {
    answer
    /// A machine.
    Machine {
        /// Its id; a machine that reappears under the same name after it was gone has another.
        pub id: String,
        /// The provider's name for it.
        pub name: String,
        /// The provider.
        pub provider: String,
        /// The shard that manages it.
        pub shard: String,
        /// Its phase.
        pub phase: String,
        /// The reason of its phase.
        pub reason: String,
        /// The cluster it is bound to.
        pub cluster: Option<String>,
        /// Its target: `Bind`, `Unbound` or `Release`.
        pub wanted: String,
        /// The cluster it shall be bound to.
        pub wanted_cluster: Option<String>,
        /// The resource that holds it; plans leave held machines alone.
        pub holder: Option<String>,
        /// The cluster that its provider reports instead.
        pub disputed_cluster: Option<String>,
        /// The provider's reference to its host.
        pub host: Option<String>,
        /// The progress of the last command to its provider.
        pub command: String,
        /// Why it failed.
        pub error: Option<String>,
        /// Its instance type, if known.
        pub instance_type: Option<String>,
        /// Its zone.
        pub zone: Option<String>,
        /// Its capacity type: on demand, spot, …
        pub capacity_type: Option<String>,
        /// Its price per hour.
        pub price_per_hour: Option<f64>,
        /// Since when it is in its phase.
        pub phase_since: String,
        /// The version of its record.
        pub version: u64,
    }

    answer
    /// The explanation of a machine's phase.
    MachineWhy {
        /// The machine.
        pub machine: Machine,
        /// What it waits for or does, in one sentence.
        pub summary: String,
        /// What blocks it.
        pub blockers: Vec<Blocker>,
        /// Applicable runbook entries.
        pub advice: Vec<Advice>,
        /// When the command of its phase is sent again.
        pub deadline: Option<String>,
    }

    request
    /// Settles a dispute about a machine.
    SettleMachine {
        /// `adopt` the cluster that the provider reports, or `drain` the machine.
        pub settlement: String,
    }

    answer
    /// A shard.
    Shard {
        /// Its id.
        pub id: String,
        /// Counts how often its lease was acquired.
        pub epoch: u64,
        /// When its lease expires, if a server holds it.
        pub held_until: Option<String>,
        /// `Run`, `DryRun` (plans are not executed) or `Paused`.
        pub switch: String,
        /// Since when it is paused.
        pub paused_at: Option<String>,
        /// Since when it is in dry-run.
        pub dry_run_at: Option<String>,
    }

    request
    /// Switches the dry-run of a shard.
    SetDryRun {
        /// Whether plans are published and not executed.
        pub on: bool,
    }

    request
    /// One requirement of a need.
    Requirement {
        /// The key.
        pub key: String,
        /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
        pub operator: String,
        /// The values; none for the last two.
        #[serde(default)]
        pub values: Vec<String>,
    }

    request
    /// One need of a cluster.
    Need {
        /// The sum of each resource.
        pub aggregate: BTreeMap<String, String>,
        /// What each machine must have.
        #[serde(default)]
        pub min_unit: BTreeMap<String, String>,
        /// Requirements on the labels of machines.
        #[serde(default)]
        pub requirements: Vec<Requirement>,
        /// Its priority.
        #[serde(default)]
        pub priority: i32,
        /// Topology keys to spread over; not supported and refused.
        #[serde(default)]
        pub spread: Vec<String>,
        /// What an interruption costs it, as a bucket within 0 and 27.
        #[serde(default)]
        pub interruption_bucket: i32,
        /// What a reclamation costs it, as a bucket within 0 and 27.
        #[serde(default)]
        pub reclamation_bucket: i32,
        /// The group of needs, or nothing.
        #[serde(default)]
        pub group: String,
    }

    request
    /// Replaces the demand of a cluster.
    WriteDemand {
        /// The shard that serves it; required once if there are several.
        pub shard: Option<String>,
        /// Its needs.
        pub needs: Vec<Need>,
    }

    answer
    /// The demand of a cluster in effect.
    Demand {
        /// The cluster.
        pub cluster: String,
        /// The shard that serves it.
        pub shard: String,
        /// Grows with every report.
        pub version: u64,
        /// The last report.
        pub received_at: String,
        /// Whether the last report is held until it is repeated.
        pub held: bool,
        /// Its needs.
        pub needs: Vec<Need>,
    }

    answer
    /// The answer to a demand that was set.
    DemandOutcome {
        /// `Accepted`, or `Held` until it was sent three times because it dropped suddenly.
        pub judged: String,
        /// The demand in effect.
        pub demand: Demand,
    }

    answer
    /// The planned target of one machine.
    Aim {
        /// The id of the machine.
        pub machine: String,
        /// The provider's name for it.
        pub name: String,
        /// Its phase.
        pub phase: String,
        /// Its target: `Bind`, `Unbound` or `Release`.
        pub wanted: String,
        /// The cluster it would be bound to.
        pub cluster: Option<String>,
        /// The cause.
        pub cause: String,
        /// The drain grace in seconds.
        pub grace_seconds: u64,
    }

    answer
    /// The outcome of one need.
    NeedStatus {
        /// Its cluster.
        pub cluster: String,
        /// Its index among the needs of the cluster, by falling priority.
        pub place: u32,
        /// Its outcome.
        pub outcome: String,
        /// The need; absent if the demand changed since the plan.
        pub need: Option<Need>,
    }

    answer
    /// The result of a plan for one cluster.
    ClusterStatus {
        /// The cluster.
        pub cluster: String,
        /// Machines bound to it that no need asks for.
        pub surplus: u32,
        /// How many of them would be reclaimed.
        pub reclaimed: u32,
        /// Why the others are kept.
        pub held_back: Option<String>,
        /// The codes of its refused needs.
        pub refused: Vec<String>,
    }

    answer
    /// What one cycle of a shard would do.
    FleetPlan {
        /// The shard.
        pub shard: Shard,
        /// Machines that were considered.
        pub machines: u64,
        /// Rows that could not be read.
        pub broken: u64,
        /// The first aims.
        pub aims: Vec<Aim>,
        /// The number of aims.
        pub aims_total: u64,
        /// The number of needs per outcome.
        pub outcomes: BTreeMap<String, u64>,
        /// The first needs that are not met.
        pub needs: Vec<NeedStatus>,
        /// The result for each cluster.
        pub clusters: Vec<ClusterStatus>,
        /// What holds back the whole plan.
        pub held_back: Vec<String>,
    }
}
