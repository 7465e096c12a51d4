//! The fleet in the store: shards and their leases, machines, demand, and how far lists were read.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::fleet::accept::Adopted;
use usher_domain::fleet::aggregate::{Machine, Wanted};
use usher_domain::fleet::command::Settlement;
use usher_domain::fleet::event::Event;
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::list::Credence;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Judged, RawNeed, Switch, Trust};
use usher_domain::object::id::{MachineRecordId, ResourceId};
use usher_kernel::{NameLedger, Record, Timestamp, Version};
use uuid::Uuid;

use crate::error::Error;
use crate::store::{Inner, Store, verbs};

/// The lease of a shard. A write under it succeeds only while no other holder has acquired the
/// shard and the lease has not expired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardLease {
    /// The shard.
    pub shard: ShardId,
    /// Raised by this very acquisition.
    pub epoch: u64,
    /// Who acquired it.
    pub holder: Uuid,
    /// When it ends, unless it is renewed.
    pub until: Timestamp,
    /// The database's time when it was given or renewed.
    pub now: Timestamp,
}

/// The outcome of an attempt to acquire a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Acquisition {
    /// Acquired, in a new epoch.
    Ours(ShardLease),
    /// Another holder has the lease.
    Theirs(ShardState),
}

/// Where an event of a machine names the resource that holds it.
pub const HOLDER: &str = "holder";

/// The public state of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardState {
    /// The shard.
    pub id: ShardId,
    /// How often it was acquired.
    pub epoch: u64,
    /// The lease holder, and until when; the lease may have expired.
    pub lease: Option<(Uuid, Timestamp)>,
    /// Since when nothing new is begun.
    pub paused_at: Option<Timestamp>,
    /// Since when plans are only reported.
    pub dry_run_at: Option<Timestamp>,
    /// The database's time of this read.
    pub now: Timestamp,
}

impl ShardState {
    /// Whether plans are acted upon; a pause wins.
    pub const fn switch(&self) -> Switch {
        match (self.paused_at, self.dry_run_at) {
            (Some(_), _) => Switch::Paused,
            (None, Some(_)) => Switch::DryRun,
            (None, None) => Switch::Run,
        }
    }

    /// Whether it is leased at the moment.
    pub fn is_held(&self) -> bool {
        self.lease.is_some_and(|(_, until)| until > self.now)
    }
}

/// What a person can stop a shard from doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Brake {
    /// Beginning anything new.
    Pause,
    /// Acting upon its plans; they are only reported.
    DryRun,
}

/// One machine, as it is stored.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredMachine {
    /// Which machine.
    pub id: MachineRecordId,
    /// The record.
    pub record: Record<Machine>,
}

/// Some machines in the order of their ids.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roll {
    /// The machines.
    pub machines: Vec<StoredMachine>,
    /// Whose rows break their own rules, and which: they stop no other.
    pub broken: Vec<(MachineRecordId, String)>,
    /// The id to continue after; none on the last page.
    pub next: Option<MachineRecordId>,
}

/// A filter of machines; a field that is not set matches everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineQuery {
    /// Of which shard.
    pub shard: Option<ShardId>,
    /// Bound to which cluster.
    pub cluster: Option<ClusterId>,
    /// In which phase.
    pub phase: Option<Phase>,
    /// Held by which resource.
    pub holder: Option<ResourceId>,
    /// Only those that no resource holds and about which there is no dispute.
    pub free: bool,
    /// Also those that are gone, if no phase is given.
    pub gone: bool,
}

/// What a step, or an aim, changes of one machine.
#[derive(Clone, Debug, PartialEq)]
pub struct MachineWrite {
    /// Which machine.
    pub id: MachineRecordId,
    /// The version that must still hold.
    pub version: Version,
    /// The row as it shall be.
    pub next: Machine,
    /// Its names as they shall be.
    pub name_ledger: NameLedger,
    /// Its event.
    pub event: Option<Event>,
}

/// What a shard writes in one transaction: many machines, and how far it has read.
#[derive(Clone, Debug, PartialEq)]
pub struct Cycle {
    /// The lease it is written under.
    pub lease: ShardLease,
    /// Machines that changed, each machine once.
    pub writes: Vec<MachineWrite>,
    /// Machines that had no row.
    pub adopted: Vec<Adopted>,
    /// How far lists were read.
    pub lists: Vec<List>,
}

/// The outcome of a cycle's writes. A machine that another writer moved is not written and blocks
/// no other; its shard reads it again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// For each machine to adopt, in the same order, its new row; none if the name has a row
    /// already.
    pub adopted: Vec<Option<MachineRecordId>>,
    /// The machines whose version did not hold, or that are not this shard's.
    pub moved: Vec<MachineRecordId>,
}

/// How far the list of a provider was read by a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List {
    /// The provider.
    pub provider: String,
    /// What the provider calls the place; empty for a list from the beginning.
    pub revision: Vec<u8>,
    /// How far absence from the list counts.
    pub credence: Credence,
}

/// A list, and when that was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedAt {
    /// The list.
    pub list: List,
    /// When, by the database's clock.
    pub at: Timestamp,
}

/// A command of an operator or the broker about a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MachineCommand {
    /// A resource holds it from now on; it is not a candidate of any plan.
    Hold {
        /// The resource.
        holder: ResourceId,
        /// The desired binding.
        wanted: Wanted,
    },
    /// Changes the desired binding of a machine that a resource holds.
    Aim {
        /// The resource.
        holder: ResourceId,
        /// The desired binding.
        wanted: Wanted,
        /// The version this was decided on: the desired binding may have changed since.
        read: Version,
    },
    /// The machine is released to the planner.
    LetGo {
        /// The resource that held it.
        holder: ResourceId,
        /// The version this was decided on.
        read: Version,
    },
    /// The dispute about its binding ends.
    Settle(Settlement),
}

/// What a cluster needs: a full roll-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RollUp {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard whose machines serve it; for a known cluster, the shard that already does.
    pub shard: ShardId,
    /// Its needs; those that cannot be read stay as they are.
    pub needs: Vec<RawNeed>,
}

/// The accepted demand of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The cluster.
    pub cluster: ClusterId,
    /// The shard whose machines serve it.
    pub shard: ShardId,
    /// Grows with every roll-up, accepted or not.
    pub version: Version,
    /// When the last roll-up of the cluster arrived.
    pub received_at: Timestamp,
    /// Its needs.
    pub needs: Vec<RawNeed>,
    /// How far its roll-ups are trusted.
    pub trust: Trust,
}

/// The outcome of a roll-up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedDemand {
    /// Whether it was accepted.
    pub judged: Judged,
    /// The demand afterwards.
    pub demand: Demand,
}

verbs! {
    /// Tries to acquire a shard, and creates it if it is unknown. Every acquisition raises the
    /// epoch; a lease that has not expired by the database's clock is never taken over.
    fn acquire_shard(
        shard: ShardId, holder: Uuid, span: Duration
    ) -> Result<Acquisition, Error>;
    /// Prolongs a lease; none if it was lost.
    fn renew_shard(lease: ShardLease, span: Duration) -> Result<Option<ShardLease>, Error>;
    /// Releases a lease; `false` if it was lost, and then nothing changes.
    fn release_shard(lease: ShardLease) -> Result<bool, Error>;
    /// Reads every shard.
    fn shards() -> Result<Vec<ShardState>, Error>;
    /// Reads one shard.
    fn shard(id: ShardId) -> Result<Option<ShardState>, Error>;
    /// Puts a brake on a shard or takes it off; the first time counts.
    fn brake_shard(
        id: ShardId, brake: Brake, on: bool, audit: Option<audit::Entry>
    ) -> Result<ShardState, Error>;
    /// Reads machines of a shard after an id, those that are gone left out: page by page the whole
    /// shard in bounded memory.
    fn machines_of(
        shard: &ShardId, after: Option<MachineRecordId>, count: u32
    ) -> Result<Roll, Error>;
    /// Reads machines of a shard that another writer wrote since the shard did.
    fn woken_machines(shard: &ShardId, count: u32) -> Result<Roll, Error>;
    /// Notes that a shard has read these machines at these versions and writes nothing about them.
    fn heed_machines(
        lease: ShardLease, read: Vec<(MachineRecordId, Version)>
    ) -> Result<(), Error>;
    /// Writes many machines in one transaction, each if its version still holds, unless the lease
    /// is lost: then nothing is written, and [`Error::LeaseLost`] is the answer.
    fn commit_cycle(cycle: Cycle) -> Result<Written, Error>;
    /// Reads how far a shard has read the lists of its providers.
    fn lists(shard: &ShardId) -> Result<Vec<ListedAt>, Error>;
    /// Reads one machine.
    fn machine(id: MachineRecordId) -> Result<StoredMachine, Error>;
    /// Reads machines after an id, in the order of their ids.
    fn machines(
        query: &MachineQuery, after: Option<MachineRecordId>, count: u32
    ) -> Result<Roll, Error>;
    /// Reads which resources hold machines of a shard.
    fn machine_holders(shard: &ShardId) -> Result<Vec<ResourceId>, Error>;
    /// Finds a resource that holds a machine of another provider than this, and that provider.
    fn holder_beside(provider: &str) -> Result<Option<(ResourceId, String)>, Error>;
    /// Finds the newest machine of a name, of one provider or of each.
    fn find_machines(name: &str, provider: Option<&str>) -> Result<Vec<StoredMachine>, Error>;
    /// Applies a command to a machine and marks the row for its shard.
    fn command_machine(
        id: MachineRecordId, command: MachineCommand, audit: Option<audit::Entry>
    ) -> Result<StoredMachine, Error>;
    /// Judges a roll-up once, and replaces the demand if it is accepted.
    fn accept_demand(it: RollUp, audit: Option<audit::Entry>) -> Result<JudgedDemand, Error>;
    /// Reads which clusters a shard serves, and the sequence of each roll-up.
    fn demand_versions(shard: &ShardId) -> Result<Vec<(ClusterId, Version)>, Error>;
    /// Reads what a cluster needs.
    fn demand(cluster: &ClusterId) -> Result<Option<Demand>, Error>;
    /// Reads what clusters need after a name, in the order of their names.
    fn demands(after: Option<&ClusterId>, count: u32) -> Result<Vec<Demand>, Error>;
}
