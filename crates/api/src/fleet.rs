//! The fleet as people see it: its port, and what goes in and out of that.

use async_trait::async_trait;
use usher_domain::fleet::aggregate::{Machine, Wanted};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Cause, ClusterReport, HeldBack, Judged, Outcome, RawNeed, Switch};
use usher_domain::fleet::reason::Reason;
use usher_domain::object::id::MachineLifeId;
use usher_kernel::{Timestamp, Version};

use crate::ports::Answer;
use crate::views::{Advice, Blocker, Caller, Page, Paging};

/// Machines, the shards that speak for them, and the clusters that need them.
///
/// What is unknown is refused with `machine_not_found`, `shard_not_found` or `demand_not_found`.
#[async_trait]
pub trait Fleet: Send + Sync {
    /// Lists machines.
    async fn machines(&self, query: MachineQuery, paging: Paging) -> Answer<Page<MachineView>>;
    /// Looks at one.
    async fn machine(&self, id: MachineLifeId) -> Answer<MachineView>;
    /// Says why one is where it is.
    async fn why_machine(&self, id: MachineLifeId) -> Answer<MachineWhy>;
    /// Ends the dispute about a machine.
    async fn settle(
        &self,
        caller: &Caller,
        id: MachineLifeId,
        settlement: Settlement,
    ) -> Answer<MachineView>;
    /// Every shard.
    async fn shards(&self) -> Answer<Vec<ShardView>>;
    /// Stops a shard from beginning anything new, or lets it go on.
    async fn pause(&self, caller: &Caller, shard: &ShardId, paused: bool) -> Answer<ShardView>;
    /// Lets a shard only tell its plans, or act upon them.
    async fn dry_run(&self, caller: &Caller, shard: &ShardId, dry_run: bool) -> Answer<ShardView>;
    /// Plans one cycle of a shard on what is stored, and changes nothing.
    async fn plan(&self, shard: &ShardId) -> Answer<FleetPlan>;
    /// Lists what clusters need.
    async fn demands(&self, paging: Paging) -> Answer<Page<DemandView>>;
    /// What a cluster needs.
    async fn demand(&self, cluster: &ClusterId) -> Answer<DemandView>;
    /// Replaces what a cluster needs, unless it falls too suddenly to be believed at once. A need
    /// that cannot be read is refused by its own code, another shard with `cluster_served`.
    async fn set_demand(&self, caller: &Caller, new: NewDemand) -> Answer<Heard>;
}

/// Which machines are asked for; whatever is not said does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineQuery {
    /// Of which shard.
    pub shard: Option<ShardId>,
    /// Bound to which cluster.
    pub cluster: Option<ClusterId>,
    /// In which phase.
    pub phase: Option<Phase>,
    /// Also those that are gone.
    pub gone: bool,
    /// Only the newest life of this name, with each provider.
    pub name: Option<String>,
}

/// A machine, and why it is where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineView {
    /// Which life.
    pub id: MachineLifeId,
    /// The version of its record.
    pub version: Version,
    /// The machine.
    pub machine: Machine,
    /// Why it is there, as far as its row tells.
    pub reason: Reason,
}

/// Everything that is known about why a machine is where it is.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineWhy {
    /// The machine.
    pub machine: MachineView,
    /// What it waits for or does, in a sentence.
    pub summary: String,
    /// Who holds it.
    pub blockers: Vec<Blocker>,
    /// What to make of it.
    pub advice: Vec<Advice>,
    /// When the order of its phase is given again, if it has one.
    pub deadline: Option<Timestamp>,
}

/// A shard as everybody sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardView {
    /// The shard.
    pub id: ShardId,
    /// How often it was acquired.
    pub epoch: u64,
    /// Until when somebody speaks for it, if anybody does.
    pub held_until: Option<Timestamp>,
    /// Whether its plans are acted upon.
    pub switch: Switch,
    /// Since when nothing new is begun.
    pub paused_at: Option<Timestamp>,
    /// Since when plans are only told.
    pub dry_run_at: Option<Timestamp>,
}

/// What a cycle of a shard would do.
#[derive(Clone, Debug, PartialEq)]
pub struct FleetPlan {
    /// The shard.
    pub shard: ShardView,
    /// How many machines were planned with.
    pub machines: u64,
    /// How many rows could not be read, and were left out.
    pub broken: u64,
    /// What it would aim at, the first of them.
    pub aims: Vec<AimView>,
    /// How many aims there are.
    pub aims_total: u64,
    /// How many needs stand how.
    pub outcomes: Vec<(Outcome, u64)>,
    /// The needs that are not met yet, the first of them.
    pub needs: Vec<NeedView>,
    /// What was found out about each cluster.
    pub clusters: Vec<ClusterReport>,
    /// What holds back the plan as a whole.
    pub held_back: Vec<HeldBack>,
}

/// What would become of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct AimView {
    /// Which life.
    pub id: MachineLifeId,
    /// The provider's name for it.
    pub name: String,
    /// Where it is.
    pub phase: Phase,
    /// What would be wanted of it.
    pub wanted: Wanted,
    /// Why.
    pub cause: Cause,
}

/// How one need stands.
#[derive(Clone, Debug, PartialEq)]
pub struct NeedView {
    /// Whose it is.
    pub cluster: ClusterId,
    /// Its place among the needs of the cluster, the highest priority first.
    pub place: u32,
    /// How it stands.
    pub outcome: Outcome,
    /// The need, if it is still the one that was planned for.
    pub need: Option<RawNeed>,
}

/// A demand to be heard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewDemand {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard whose machines serve it, if that is said.
    pub shard: Option<ShardId>,
    /// Everything it needs.
    pub needs: Vec<RawNeed>,
}

/// What a cluster needs, as it is believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DemandView {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard whose machines serve it.
    pub shard: ShardId,
    /// Grows with everything that was heard.
    pub version: Version,
    /// When it was last heard.
    pub heard_at: Timestamp,
    /// Whether its last word waits for others that say the same.
    pub is_held: bool,
    /// Its needs.
    pub needs: Vec<RawNeed>,
}

/// What became of a demand that was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Whether it counts from now on.
    pub judged: Judged,
    /// The demand by now.
    pub demand: DemandView,
}
