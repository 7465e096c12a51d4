//! Machines of the fleet behind resources of the broker: taken out of the plan's hands, bound for
//! one part, and given back with nothing left.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use usher_domain::fleet::aggregate::{Machine, Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_kernel::Trouble;
use usher_store::{Error, MachineOrder, MachineQuery, Store, StoredMachine};

use super::bootstrap::Bootstrap;
use crate::serve::local::machines::Machines;
use crate::serve::local::object::{Boot, Kind};
use crate::serve::local::registry::Registry;

/// How many machines are looked at to find a free one.
const LOOKED_AT: u32 = 200;

/// Holds machines of one shard.
#[derive(Clone, Debug)]
pub struct Holding {
    /// The store.
    pub store: Arc<Store>,
    /// The shard.
    pub shard: ShardId,
    /// How long whatever runs on a machine may take to leave.
    pub grace: Duration,
}

impl Holding {
    async fn held(&self, holder: ResourceId) -> Result<Option<StoredMachine>, Error> {
        let query = MachineQuery { holder: Some(holder), ..MachineQuery::default() };
        let roll = self.store.machines(&query, None, 1).await?;
        if let Some((id, what)) = roll.broken.into_iter().next() {
            // It is held all the same.
            return Err(Error::Corrupt { row: format!("machine \"{id}\""), field: what });
        }
        Ok(roll.machines.into_iter().next())
    }

    async fn aim(
        &self,
        machine: &StoredMachine,
        holder: ResourceId,
        target: Target,
    ) -> Result<(), Error> {
        let wanted = Wanted { target, grace: self.grace };
        if *machine.record.state.wanted() == wanted {
            return Ok(());
        }
        let order = MachineOrder::Hold { holder, wanted };
        self.store.order_machine(machine.id, order, None).await.map(|_| ())
    }

    /// Takes the first machine that is free, one with a host before one without.
    async fn take(&self, target: Target, holder: ResourceId) -> Result<(), Error> {
        for phase in [Phase::Idle, Phase::Speculative] {
            let shard = Some(self.shard.clone());
            let query = MachineQuery { shard, phase: Some(phase), ..MachineQuery::default() };
            let roll = self.store.machines(&query, None, LOOKED_AT).await?;
            for machine in roll.machines.iter().filter(|it| is_free(&it.record.state)) {
                match self.aim(machine, holder, target.clone()).await {
                    Ok(()) => return Ok(()),
                    // Somebody was faster.
                    Err(Error::FleetRefused(_)) => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }
}

fn is_free(machine: &Machine) -> bool {
    let fields = machine.fields();
    let is_wanted = machine.wanted().cluster().is_some();
    fields.holder.is_none() && fields.disputed.is_none() && !is_wanted
}

#[async_trait]
impl Machines for Holding {
    async fn have(&self, part: &str, holder: ResourceId) -> Result<bool, Trouble> {
        let bad = |_| Trouble::Rejected { what: format!("part \"{part}\"") };
        let cluster: ClusterId = part.parse().map_err(bad)?;
        let binding = Binding { cluster: cluster.clone(), assignment: Assignment::default() };
        let target = Target::Bind(binding);
        let held = self.held(holder).await.map_err(|it| it.trouble())?;
        let Some(held) = held else {
            self.take(target, holder).await.map_err(|it| it.trouble())?;
            return Ok(false);
        };
        let machine = &held.record.state;
        if machine.wanted().target != target {
            // What it had before goes first.
            return self.give_back(holder).await.map(|_| false);
        }
        let bound = machine.state().binding().is_some_and(|it| it.cluster == cluster);
        Ok(bound && machine.phase() == Phase::Configured)
    }

    async fn give_back(&self, holder: ResourceId) -> Result<bool, Trouble> {
        let held = self.held(holder).await.map_err(|it| it.trouble())?;
        let Some(held) = held else { return Ok(true) };
        let done = match held.record.state.phase() {
            // A failed one is cleaned up by its shard once nobody holds it.
            Phase::Speculative | Phase::Failed | Phase::Gone => {
                let order = MachineOrder::LetGo { holder };
                self.store.order_machine(held.id, order, None).await.map(|_| ())
            }
            Phase::Idle | Phase::Deleting => self.aim(&held, holder, Target::Release).await,
            Phase::Creating | Phase::Configuring | Phase::Configured | Phase::Draining => {
                self.aim(&held, holder, Target::Unbound).await
            }
        };
        done.map_err(|it| it.trouble())?;
        Ok(false)
    }
}

/// What the machine of a part is started with, from the very substrate that owns the part.
#[derive(Clone, Debug)]
pub struct Parts(pub Registry);

#[async_trait]
impl Bootstrap for Parts {
    async fn blob(&self, machine: &Machine, cluster: &ClusterId) -> Result<Vec<u8>, Trouble> {
        if machine.fields().holder.is_none() {
            return Ok(vec![]);
        }
        let boot = self.boot(cluster.as_str()).map_err(|why| why.trouble())?;
        let gone = || Trouble::Rejected { what: format!("part \"{cluster}\", which is gone") };
        let boot = boot.ok_or_else(gone)?;
        serde_json::to_vec(&boot).map_err(|_| gone())
    }
}

impl Parts {
    fn boot(&self, part: &str) -> Result<Option<Boot>, crate::serve::local::error::Error> {
        let Some(part) = self.0.get(Kind::Part, part)? else { return Ok(None) };
        let Some(owner) = part.owner.filter(|_| part.deleting_at.is_none()) else {
            return Ok(None);
        };
        let found = self.0.get(owner.kind, &owner.name)?.filter(|it| it.uid == owner.uid);
        Ok(found.and_then(|it| it.substrate).and_then(|it| it.boot))
    }
}
