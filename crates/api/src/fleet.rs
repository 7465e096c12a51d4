//! The port of the fleet and its types.

use async_trait::async_trait;
use usher_domain::fleet::aggregate::{Machine, Wanted};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Cause, ClusterReport, HeldBack, Judged, Outcome, RawNeed, Switch};
use usher_domain::fleet::reason::Reason;
use usher_domain::object::id::MachineRecordId;
use usher_kernel::{Timestamp, Version};

use crate::ports::Answer;
use crate::views::{Advice, Blocker, Caller, Page, Paging};

/// Machines, the shards that manage them, and the demand of clusters.
///
/// What is unknown is refused with `machine_not_found`, `shard_not_found` or `demand_not_found`.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Lists machines.
    async fn machines(&self, query: MachineQuery, paging: Paging) -> Answer<Page<MachineView>>;
    async fn machine(&self, id: MachineRecordId) -> Answer<MachineView>;
    /// Explains the phase of a machine.
    async fn why_machine(&self, id: MachineRecordId) -> Answer<MachineWhy>;
    /// Ends the dispute about a machine.
    async fn settle(
        &self,
        caller: &Caller,
        id: MachineRecordId,
        settlement: Settlement,
    ) -> Answer<MachineView>;
    /// Every shard.
    async fn shards(&self) -> Answer<Vec<ShardView>>;
    /// Pauses or resumes a shard; a paused shard starts nothing new.
    async fn pause(&self, caller: &Caller, shard: &ShardId, paused: bool) -> Answer<ShardView>;
    /// Switches between publishing plans only and executing them.
    async fn dry_run(&self, caller: &Caller, shard: &ShardId, dry_run: bool) -> Answer<ShardView>;
    /// Plans one cycle of a shard from stored state, without side effects.
    async fn plan(&self, shard: &ShardId) -> Answer<FleetPlan>;
    async fn demands(&self, paging: Paging) -> Answer<Page<DemandView>>;
    async fn demand(&self, cluster: &ClusterId) -> Answer<DemandView>;
    /// Replaces the demand of a cluster; a sudden drop is held until it was sent three times. An
    /// invalid need is refused by its own code, another shard with `cluster_served`.
    async fn set_demand(&self, caller: &Caller, new: NewDemand) -> Answer<DemandOutcome>;
}

/// A filter of machines; `None` matches every machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineQuery {
    pub shard: Option<ShardId>,
    /// Bound to this cluster.
    pub cluster: Option<ClusterId>,
    pub phase: Option<Phase>,
    /// Also machines that are gone.
    pub gone: bool,
    /// Only the newest machine of this name, per provider.
    pub name: Option<String>,
}

/// A machine and the reason of its phase.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineView {
    pub id: MachineRecordId,
    pub version: Version,
    pub machine: Machine,
    /// Derived from the row alone.
    pub reason: Reason,
}

/// The explanation of a machine's phase.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineWhy {
    pub machine: MachineView,
    /// One sentence.
    pub summary: String,
    pub blockers: Vec<Blocker>,
    pub advice: Vec<Advice>,
    /// When the command of its phase is sent again, if there is one.
    pub deadline: Option<Timestamp>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    pub id: ShardId,
    /// Counts how often its lease was acquired.
    pub epoch: u64,
    /// When its lease expires, if a server holds it.
    pub held_until: Option<Timestamp>,
    pub switch: Switch,
    pub paused_at: Option<Timestamp>,
    pub dry_run_at: Option<Timestamp>,
}

/// What one cycle of a shard would do.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    pub shard: ShardView,
    /// How many machines were considered.
    pub machines: u64,
    /// How many rows could not be read and were skipped.
    pub broken: u64,
    /// The first aims.
    pub aims: Vec<AimView>,
    pub aims_total: u64,
    /// The number of needs per outcome.
    pub outcomes: Vec<(Outcome, u64)>,
    /// The first needs that are not met.
    pub needs: Vec<NeedView>,
    pub clusters: Vec<ClusterReport>,
    /// What holds back the whole plan.
    pub held_back: Vec<HeldBack>,
}

/// The target of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct AimView {
    pub id: MachineRecordId,
    pub name: String,
    pub phase: Phase,
    pub wanted: Wanted,
    pub cause: Cause,
}

/// The outcome of one need.
#[derive(Clone, Debug, PartialEq)]
pub struct NeedView {
    pub cluster: ClusterId,
    /// Its index among the needs of the cluster, by falling priority.
    pub place: u32,
    pub outcome: Outcome,
    /// `None` if the demand changed since the plan.
    pub need: Option<RawNeed>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDemand {
    pub cluster: ClusterId,
    /// The shard that serves the cluster; required once if there are several.
    pub shard: Option<ShardId>,
    pub needs: Vec<RawNeed>,
}

/// The demand of a cluster in effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandView {
    pub cluster: ClusterId,
    pub shard: ShardId,
    /// Grows with every report.
    pub version: Version,
    pub received_at: Timestamp,
    /// Whether its last report is held until it is repeated.
    pub is_held: bool,
    pub needs: Vec<RawNeed>,
}

/// The answer to a demand that was set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandOutcome {
    pub judged: Judged,
    /// The demand in effect.
    pub demand: DemandView,
}
