//! Machines, shards and demand.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Advice, Blocker, bodies};

bodies! {
    answer
    /// A machine.
    Machine {
        /// Its life: whoever comes back under the name of one that is gone has another.
        pub id: String,
        /// The provider's name for it.
        pub name: String,
        /// The provider.
        pub provider: String,
        /// The shard that speaks for it.
        pub shard: String,
        /// Where it is.
        pub phase: String,
        /// Why, as far as its row tells.
        pub reason: String,
        /// The cluster it is bound to.
        pub cluster: Option<String>,
        /// What shall become of it.
        pub wanted: String,
        /// The cluster that it shall be bound to.
        pub wanted_cluster: Option<String>,
        /// The resource that holds it; then no plan takes it.
        pub holder: Option<String>,
        /// The cluster that its provider names instead.
        pub disputed_cluster: Option<String>,
        /// Its host, as its provider calls it.
        pub host: Option<String>,
        /// How far the last order is.
        pub order: String,
        /// Why it failed.
        pub error: Option<String>,
        /// Its instance type, if its offer was ever read.
        pub instance_type: Option<String>,
        /// Its zone.
        pub zone: Option<String>,
        /// How it is paid for.
        pub capacity_type: Option<String>,
        /// What an hour costs.
        pub price_per_hour: Option<f64>,
        /// Since when it is in its phase.
        pub phase_since: String,
        /// The version of its record.
        pub version: u64,
    }

    answer
    /// Why a machine is where it is.
    MachineWhy {
        /// The machine.
        pub machine: Machine,
        /// What it waits for or does.
        pub summary: String,
        /// Who holds it.
        pub blockers: Vec<Blocker>,
        /// What to make of it.
        pub advice: Vec<Advice>,
        /// When the order of its phase is given again.
        pub deadline: Option<String>,
    }

    request
    /// How a dispute about a machine ends.
    SettleMachine {
        /// `adopt` the cluster that the provider names, or `drain` the machine.
        pub settlement: String,
    }

    answer
    /// A shard.
    Shard {
        /// The shard.
        pub id: String,
        /// How often it was acquired.
        pub epoch: u64,
        /// Until when somebody speaks for it, if anybody does.
        pub held_until: Option<String>,
        /// Whether its plans are acted upon: `Run`, `DryRun` or `Paused`.
        pub switch: String,
        /// Since when nothing new is begun.
        pub paused_at: Option<String>,
        /// Since when plans are only told.
        pub dry_run_at: Option<String>,
    }

    request
    /// Whether a shard only tells its plans.
    SetDryRun {
        /// It does.
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
        /// How much of everything it needs in sum.
        pub aggregate: BTreeMap<String, String>,
        /// What each single machine must have.
        #[serde(default)]
        pub min_unit: BTreeMap<String, String>,
        /// What its machines must be.
        #[serde(default)]
        pub requirements: Vec<Requirement>,
        /// Its priority.
        #[serde(default)]
        pub priority: i32,
        /// The keys over which it would be spread; that is not served and is refused.
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
    /// Everything a cluster needs; it replaces what was said before.
    WriteDemand {
        /// The shard whose machines serve it; said once, if there are several.
        pub shard: Option<String>,
        /// Its needs.
        pub needs: Vec<Need>,
    }

    answer
    /// What a cluster needs, as it is believed.
    Demand {
        /// The cluster.
        pub cluster: String,
        /// The shard whose machines serve it.
        pub shard: String,
        /// Grows with everything that was heard.
        pub version: u64,
        /// When it was last heard.
        pub heard_at: String,
        /// Whether its last word waits for others that say the same.
        pub held: bool,
        /// Its needs.
        pub needs: Vec<Need>,
    }

    answer
    /// What became of a demand that was told.
    HeardDemand {
        /// `Accepted`, or `Held` until it was said three times: it fell too suddenly.
        pub judged: String,
        /// The demand by now.
        pub demand: Demand,
    }

    answer
    /// What would become of one machine.
    Aim {
        /// Which life.
        pub machine: String,
        /// The provider's name for it.
        pub name: String,
        /// Where it is.
        pub phase: String,
        /// What would be wanted of it.
        pub wanted: String,
        /// The cluster that it would be bound to.
        pub cluster: Option<String>,
        /// Why.
        pub cause: String,
        /// How long whatever runs on it might take to leave, in seconds.
        pub grace_seconds: u64,
    }

    answer
    /// How one need stands.
    NeedStanding {
        /// Whose it is.
        pub cluster: String,
        /// Its place among the needs of the cluster, the highest priority first.
        pub place: u32,
        /// How it stands.
        pub outcome: String,
        /// The need, if it is still the one that was planned for.
        pub need: Option<Need>,
    }

    answer
    /// What a plan found out about a cluster.
    ClusterStanding {
        /// The cluster.
        pub cluster: String,
        /// How many of its nodes no need of its asks for.
        pub surplus: u32,
        /// How many of them would be asked to leave.
        pub reclaimed: u32,
        /// What holds the others back.
        pub held_back: Option<String>,
        /// Its needs that could not be read, by their codes.
        pub refused: Vec<String>,
    }

    answer
    /// What one cycle of a shard would do.
    FleetPlan {
        /// The shard.
        pub shard: Shard,
        /// How many machines were planned with.
        pub machines: u64,
        /// How many rows could not be read.
        pub broken: u64,
        /// What would be aimed at, the first of them.
        pub aims: Vec<Aim>,
        /// How many aims there are.
        pub aims_total: u64,
        /// How many needs stand how.
        pub outcomes: BTreeMap<String, u64>,
        /// The needs that are not met yet, the first of them.
        pub needs: Vec<NeedStanding>,
        /// What was found out about each cluster.
        pub clusters: Vec<ClusterStanding>,
        /// What holds back the plan as a whole.
        pub held_back: Vec<String>,
    }
}
