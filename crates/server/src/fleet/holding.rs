//! Machines of the fleet that are held for resources of the broker: excluded from plans, bound for
//! one part, and released when they are torn down.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::mpsc::{self, UnboundedReceiver, UnboundedSender};
use tokio::time::sleep;
use usher_domain::broker::phase::Phase as ResourcePhase;
use usher_domain::broker::refusal::Refusal;
use usher_domain::fleet::aggregate::State;
use usher_domain::fleet::aggregate::{Machine, Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::ident::{ClusterId, ShardId};
use usher_domain::fleet::phase::Phase;
use usher_domain::object::authority::{Authority, Pin};
use usher_domain::object::id::ResourceId;
use usher_kernel::Trouble;
use usher_store::{About, Error, HOLDER, MachineCommand, MachineQuery, News, Store, StoredMachine};

use usher_fleet::bootstrap::Bootstrap;
use usher_local::machines::{Machines, Reclaim, Stir};
use usher_local::object::{Boot, Footing, Kind};
use usher_local::registry::Registry;
use usher_wire::chain;

/// How often a command is retried after a version conflict.
const MOVES_MAX: usize = 8;
/// Free machines per page; another resource may take the first ones.
const READ_FREE: u32 = 8;
/// Events per batch.
const READ_AT_ONCE: u32 = 500;
/// The delay before a failed read of the log is retried.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// Holds machines of one shard.
#[derive(Clone, Debug)]
pub struct Holding {
    pub store: Arc<Store>,
    pub shard: ShardId,
    /// The grace of a drain.
    pub grace: Duration,
}

impl Holding {
    async fn held(&self, holder: ResourceId) -> Result<Option<StoredMachine>, Error> {
        let query = MachineQuery { holder: Some(holder), ..MachineQuery::default() };
        let roll = self.store.machines(&query, None, 1).await?;
        if let Some((id, what)) = roll.broken.into_iter().next() {
            // A corrupt machine is still held.
            return Err(Error::Corrupt { row: format!("machine \"{id}\""), field: what });
        }
        Ok(roll.machines.into_iter().next())
    }

    /// The next command to tear down a machine, if any, and whether nothing is left after it.
    fn next_teardown_step(
        &self,
        held: &StoredMachine,
        holder: ResourceId,
    ) -> (Option<MachineCommand>, bool) {
        let (read, machine) = (held.record.version, &held.record.state);
        let target = match machine.phase() {
            Phase::Speculative | Phase::Gone => {
                return (Some(MachineCommand::LetGo { holder, read }), true);
            }
            // A failed machine is released like an idle one: its node first, then its host.
            Phase::Idle | Phase::Deleting | Phase::Failed => Target::Release,
            Phase::Creating | Phase::Configuring | Phase::Configured | Phase::Draining => {
                Target::Unbound
            }
        };
        let wanted = Wanted { target, grace: self.grace };
        let is_new = *machine.wanted() != wanted;
        (is_new.then_some(MachineCommand::Aim { holder, wanted, read }), false)
    }

    /// Takes the first free machine, one with a host before one without; `false` if there is none.
    async fn take(&self, target: Target, holder: ResourceId) -> Result<bool, Error> {
        for phase in [Phase::Idle, Phase::Speculative] {
            let shard = Some(self.shard.clone());
            let free = true;
            let query = MachineQuery { shard, phase: Some(phase), free, ..MachineQuery::default() };
            let mut after = None;
            loop {
                let roll = self.store.machines(&query, after, READ_FREE).await?;
                for machine in roll.machines.iter().filter(|it| is_free(&it.record.state)) {
                    if self.take_one(machine, &target, holder).await? {
                        return Ok(true);
                    }
                }
                after = roll.next;
                if after.is_none() {
                    break;
                }
            }
        }
        Ok(false)
    }

    /// Takes one machine; whether the resource holds one now or no longer needs one.
    async fn take_one(
        &self,
        machine: &StoredMachine,
        target: &Target,
        holder: ResourceId,
    ) -> Result<bool, Error> {
        let wanted = Wanted { target: target.clone(), grace: self.grace };
        let command = MachineCommand::Hold { holder, wanted };
        match self.store.command_machine(machine.id, command, None).await {
            // The resource was abandoned meanwhile.
            Ok(_) | Err(Error::NotFound { .. }) => Ok(true),
            // Another process took it, perhaps for this resource.
            Err(Error::FleetRefused(_)) => Ok(self.held(holder).await?.is_some()),
            Err(error) => Err(error),
        }
    }

    /// Takes the next teardown step of the machine of a holder, if `goes` selects it; whether
    /// nothing is left to tear down. After a version conflict the machine is read again.
    async fn show_out(
        &self,
        holder: ResourceId,
        goes: impl Fn(&Machine) -> bool + Send,
    ) -> Result<bool, Error> {
        for _ in 0..MOVES_MAX {
            let held = self.held(holder).await?.filter(|it| goes(&it.record.state));
            let Some(held) = held else { return Ok(true) };
            let (command, over) = self.next_teardown_step(&held, holder);
            let Some(command) = command else { return Ok(over) };
            match self.store.command_machine(held.id, command, None).await {
                Ok(_) => return Ok(over),
                Err(Error::Conflict) => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::Conflict)
    }

    /// Whether a resource no longer needs its machine: it is torn down, its node is deregistered,
    /// and the answer of the world is authoritative.
    async fn is_done(&self, holder: ResourceId, answered: &Pin) -> Result<bool, Error> {
        let record = match self.store.resource(holder).await {
            Ok(record) => record,
            Err(
                Error::NotFound { .. }
                | Error::Refused(Refusal::ProvisionedResourceNotFound { .. }),
            ) => return Ok(true),
            Err(error) => return Err(error),
        };
        let resource = &record.state;
        if !resource.is_tearing_down() && resource.phase() != ResourcePhase::Deleted {
            return Ok(false);
        }
        let beside = self.store.resource_context(resource).await?;
        let believed = beside.world.is_some_and(|it| {
            it.tripped_at.is_none() && it.pin.judge(answered) == Authority::Pinned
        });
        Ok(believed && beside.peers.iter().all(|it| it.peer.is_gone()))
    }
}

fn is_free(machine: &Machine) -> bool {
    let fields = machine.fields();
    let is_wanted = machine.wanted().cluster().is_some();
    fields.holder.is_none() && fields.disputed.is_none() && !is_wanted
}

#[async_trait]
impl Machines for Holding {
    async fn have(&self, part: &str, holder: ResourceId) -> Result<Option<Footing>, Trouble> {
        let bad = |_| Trouble::Rejected { what: format!("part \"{part}\"") };
        let cluster: ClusterId = part.parse().map_err(bad)?;
        let binding = Binding { cluster: cluster.clone(), assignment: Assignment::default() };
        let target = Target::Bind(binding);
        // A machine for another target is torn down first.
        let is_other = |it: &Machine| it.wanted().target != target;
        if !self.show_out(holder, is_other).await.map_err(|it| it.trouble())? {
            return Ok(None);
        }
        let held = self.held(holder).await.map_err(|it| it.trouble())?;
        let Some(held) = held else {
            let taken = self.take(target, holder).await.map_err(|it| it.trouble())?;
            return Ok((!taken).then_some(Footing::Waiting));
        };
        let machine = &held.record.state;
        if let State::Failed { error, .. } = machine.state() {
            let message = format!("machine \"{}\": {error}", machine.id());
            return Ok(Some(Footing::Failed { message }));
        }
        let bound = machine.state().binding().is_some_and(|it| it.cluster == cluster);
        let configured = bound && machine.phase() == Phase::Configured;
        Ok(configured.then_some(Footing::Stands))
    }

    async fn give_back(&self, part: &str, holder: ResourceId) -> Result<bool, Trouble> {
        // The resource may hold a machine for another part by now.
        let goes = |it: &Machine| it.wanted().cluster().is_none_or(|it| it.as_str() == part);
        self.show_out(holder, goes).await.map_err(|it| it.trouble())
    }

    async fn reclaim(&self, holder: ResourceId, answered: &Pin) -> Result<Reclaim, Trouble> {
        if !self.is_held(holder).await? {
            return Ok(Reclaim::Over);
        }
        if !self.is_done(holder, answered).await.map_err(|it| it.trouble())? {
            return Ok(Reclaim::Wanted);
        }
        tracing::warn!(%holder, "reclaiming a machine that is held without a part");
        let over = self.show_out(holder, |_| true).await.map_err(|it| it.trouble())?;
        Ok(if over { Reclaim::Over } else { Reclaim::Leaving })
    }

    async fn is_held(&self, holder: ResourceId) -> Result<bool, Trouble> {
        Ok(self.held(holder).await.map_err(|it| it.trouble())?.is_some())
    }

    async fn holders(&self) -> Result<Vec<ResourceId>, Trouble> {
        self.store.machine_holders(&self.shard).await.map_err(|it| it.trouble())
    }

    async fn stirs(&self) -> Result<UnboundedReceiver<Stir>, Trouble> {
        let after = self.store.log_end().await.map_err(|it| it.trouble())?;
        let (give, take) = mpsc::unbounded_channel();
        let store = Arc::clone(&self.store);
        tokio::spawn(async move {
            let mut follower = store.follow(after);
            loop {
                let news = tokio::select! {
                    () = give.closed() => return,
                    news = follower.next_or_written(READ_AT_ONCE) => news,
                };
                match news {
                    Ok(news) => dispatch(&news, &give),
                    Err(Error::Forgotten { .. }) => return,
                    Err(error) => {
                        tracing::warn!(error = %chain(&error), "failed to read the event log");
                        sleep(RETRY_AFTER).await;
                    }
                }
            }
        });
        Ok(take)
    }
}

/// Wakes the holders that events name, and the waiting resources. A write of this process may have
/// freed a machine without an event.
fn dispatch(news: &News, give: &UnboundedSender<Stir>) {
    let mut is_free = news.written;
    for it in &news.events {
        let About::Machine { .. } = it.about else { continue };
        is_free = true;
        let holder = it.data.get(HOLDER).and_then(|it| it.as_str()).and_then(|it| it.parse().ok());
        if let Some(holder) = holder {
            // A closed channel has no receiver to wake.
            let _ = give.send(Stir::Holder(holder));
        }
    }
    if is_free {
        let _ = give.send(Stir::Waiting);
    }
}

/// The bootstrap data of the machine of a part, from the substrate that owns the part.
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
    fn boot(&self, part: &str) -> Result<Option<Boot>, usher_local::error::Error> {
        match self.0.get(Kind::Part, part)?.filter(|it| it.deleting_at.is_none()) {
            Some(part) => self.0.boot_of(&part),
            None => Ok(None),
        }
    }
}
