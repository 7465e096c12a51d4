//! Plans after changes, and writes aims into rows whose versions still hold.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, sleep_until};
use usher_domain::fleet::ident::ClusterId;
use usher_domain::fleet::plan::{Aim, Circumstances, Need, Plan, Switch, plan};
use usher_domain::object::id::MachineRecordId;
use usher_kernel::{Timestamp, Version};
use usher_store::{Cycle, Error, MachineWrite, StoredMachine};

use super::epoch::Epoch;
use super::tally::Done;
use crate::shard::stopped;
use usher_wire::chain;

/// Changes within this time share one plan.
const DEBOUNCE: Duration = Duration::from_millis(50);
/// Machines read or written per statement.
const BATCH: u32 = 500;

/// The planner of one epoch.
pub struct Planner {
    epoch: Arc<Epoch>,
    /// The demand version of each cluster at the last read.
    read: BTreeMap<ClusterId, Version>,
    switch: Switch,
}

impl Planner {
    /// A planner that has read no demand yet.
    pub fn new(epoch: Arc<Epoch>) -> Self {
        Self { epoch, read: BTreeMap::new(), switch: Switch::Paused }
    }

    /// Plans until the epoch ends.
    pub async fn run(mut self, mut ended: watch::Receiver<bool>) {
        let mut due = self.epoch.store.due();
        // Writes of other processes cause no notification: the store is polled.
        let cycle = self.epoch.config.cycle;
        let pause = self.epoch.store.log_poll().map_or(cycle, |it| it.min(cycle));
        let mut next = Instant::now();
        loop {
            tokio::select! {
                () = stopped(&mut ended) => return,
                () = sleep_until(next) => {}
                () = self.epoch.replan.notified() => {}
                () = due.wait() => {}
            }
            tokio::select! {
                () = stopped(&mut ended) => return,
                () = sleep(DEBOUNCE) => {}
            }
            due.clear();
            next = Instant::now() + pause;
            self.cycle().await;
            self.epoch.wakeup.notify_one();
        }
    }

    /// Reads what other processes wrote, and plans if something changed or became due.
    async fn cycle(&mut self) {
        let read = self.read_stored().await;
        if let Err(error) = &read {
            tracing::warn!(error = %chain(error), "failed to read fleet demand");
        }
        let (is_up, is_ours) = (read.is_ok(), self.epoch.is_ours());
        let Some((plan, took, now)) = self.plan(is_up && is_ours) else { return };
        self.epoch.tally.planned(&plan.report, took);
        if let Err(error) = self.write(&plan.aims, now).await {
            // The next plan finds the same aims.
            self.epoch.replan.notify_one();
            tracing::warn!(error = %chain(&error), "failed to write machine aims");
        }
        let memory = self.epoch.memory();
        self.epoch.tally.set_machines(memory.phases(), memory.load(now));
        let (epoch, trusted) = (memory.epoch(), memory.is_list_trusted());
        self.epoch.tally.holds(epoch, self.epoch.is_paused(), trusted);
    }

    /// Reads rows and demand that other processes wrote, and whether the shard is paused.
    async fn read_stored(&mut self) -> Result<(), Error> {
        let shard = self.epoch.lease().shard;
        let state = self.epoch.store.shard(shard.clone()).await?;
        let said = state.map_or(Switch::Run, |it| it.switch());
        let switch = match (said, self.epoch.config.switch) {
            (Switch::Paused, _) | (_, Switch::Paused) => Switch::Paused,
            (Switch::DryRun, _) | (_, Switch::DryRun) => Switch::DryRun,
            (Switch::Run, Switch::Run) => Switch::Run,
        };
        if switch != self.switch {
            self.switch = switch;
            self.epoch.set_paused(switch == Switch::Paused);
            self.epoch.memory().touch();
        }
        self.read_machines().await?;
        for (cluster, version) in self.epoch.store.demand_versions(&shard).await? {
            if self.read.get(&cluster) == Some(&version) {
                continue;
            }
            let Some(demand) = self.epoch.store.demand(&cluster).await? else { continue };
            let needs = demand.needs.iter().map(Need::read).collect();
            let mut memory = self.epoch.memory();
            memory.fleet().0.believe(&cluster, needs, demand.trust);
            memory.touch();
            drop(memory);
            self.read.insert(cluster, demand.version);
        }
        Ok(())
    }

    /// Records and wakes machines that other processes wrote.
    async fn read_machines(&self) -> Result<(), Error> {
        let shard = self.epoch.lease().shard;
        loop {
            let roll = self.epoch.store.woken_machines(&shard, BATCH).await?;
            let all = roll.machines.len();
            if all == 0 {
                return Ok(());
            }
            let mut read: Vec<(MachineRecordId, Version)> = vec![];
            let now = self.epoch.now();
            for StoredMachine { id, record } in roll.machines {
                let mut memory = self.epoch.memory();
                let slot = memory.note(id, record.version, &record.state);
                memory.wake(slot, now);
                read.push((id, record.version));
            }
            self.epoch.store.heed_machines(self.epoch.lease(), read).await?;
            self.epoch.wakeup.notify_one();
            if all < BATCH as usize {
                return Ok(());
            }
        }
    }

    /// A plan, if one is due.
    fn plan(&self, store_up: bool) -> Option<(Plan, Duration, Timestamp)> {
        let now = self.epoch.now();
        let mut memory = self.epoch.memory();
        let list_believed = memory.is_list_trusted();
        let (fleet, changed) = memory.fleet();
        if !changed && !fleet.is_due(now) {
            return None;
        }
        let config = self.epoch.config.plan;
        let at = Circumstances { now, store_up, list_believed, switch: self.switch, config };
        let begun = Instant::now();
        let made = plan(fleet, &at);
        if !store_up {
            memory.touch();
        }
        Some((made, begun.elapsed(), now))
    }

    /// Writes aims, each if its row has not changed since the plan.
    async fn write(&self, aims: &[Aim], now: Timestamp) -> Result<(), Error> {
        for aims in aims.chunks(BATCH as usize) {
            let mut writes = vec![];
            for aim in aims {
                let Some((id, version)) = self.epoch.memory().known(aim.slot) else { continue };
                let StoredMachine { record, .. } = match self.epoch.store.machine(id).await {
                    Ok(stored) => stored,
                    Err(Error::NotFound { .. } | Error::Corrupt { .. }) => continue,
                    Err(error) => return Err(error),
                };
                if record.version != version {
                    self.moved(id).await?;
                    continue;
                }
                let wanted = self.epoch.memory().fleet_now().wanted(aim, &record.state);
                let Some(next) = wanted.map(|it| record.state.aimed(it)) else { continue };
                if next == record.state {
                    continue;
                }
                let write = MachineWrite {
                    id,
                    version,
                    next,
                    name_ledger: record.name_ledger,
                    event: None,
                };
                writes.push((write, *aim));
            }
            self.write_together(writes, now).await?;
        }
        Ok(())
    }

    async fn write_together(
        &self,
        writes: Vec<(MachineWrite, Aim)>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if writes.is_empty() {
            return Ok(());
        }
        let cycle = Cycle {
            lease: self.epoch.lease(),
            writes: writes.iter().map(|it| it.0.clone()).collect(),
            adopted: vec![],
            lists: vec![],
        };
        let written = self.epoch.store.commit_cycle(cycle).await?;
        for (write, aim) in writes {
            if written.moved.contains(&write.id) {
                self.moved(write.id).await?;
                continue;
            }
            self.epoch.tally.aimed(aim.cause);
            let mut memory = self.epoch.memory();
            let slot = memory.note(write.id, write.version.next(), &write.next);
            memory.wake(slot, now);
        }
        self.epoch.wakeup.notify_one();
        Ok(())
    }

    /// Reads a changed row again; the next plan uses it.
    async fn moved(&self, id: MachineRecordId) -> Result<(), Error> {
        self.epoch.tally.count(Done::AimsMoved);
        let StoredMachine { id, record } = self.epoch.store.machine(id).await?;
        self.epoch.memory().note(id, record.version, &record.state);
        self.epoch.replan.notify_one();
        Ok(())
    }
}
