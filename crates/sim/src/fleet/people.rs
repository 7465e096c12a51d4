//! What people and the broker ask for: demand that goes up and down, machines held for a resource,
//! and disputes that an operator has to settle.

use usher_domain::fleet::aggregate::{Target, Wanted};
use usher_domain::fleet::binding::{Assignment, Binding};
use usher_domain::fleet::command::{self, Change, Settlement};
use usher_domain::fleet::ident::ClusterId;
use usher_domain::fleet::phase::Phase;
use usher_domain::object::id::ResourceId;
use uuid::Uuid;

use crate::clock::{Tick, millis};
use crate::fleet::plan::Hold;
use crate::fleet::state::State;
use crate::fleet::store::Write;
use crate::sim_world::SimWorld as _;

/// A resource of the broker that holds a machine.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    /// The resource.
    pub resource: ResourceId,
    /// The row of its machine.
    pub row: usize,
    /// When it releases it.
    pub until: Option<Tick>,
}

impl State {
    /// Grants the wishes of this moment.
    pub(crate) fn grant_wishes(&mut self) {
        let tick = self.base.tick;
        let due: Vec<_> =
            self.population.demands.iter().filter(|it| it.at == tick).cloned().collect();
        for it in due {
            self.say(|_| format!("cluster {} needs {:?}", it.cluster, it.needs));
            self.demand[it.cluster] = it.needs;
        }
        let holds: Vec<Hold> =
            self.population.holds.iter().filter(|it| it.at == tick).copied().collect();
        for hold in holds {
            self.hold_any(hold.until);
        }
        for holder in self.holders.clone() {
            if holder.until == Some(tick) {
                self.dismiss(holder.row, holder.resource);
            }
        }
        self.settle_disputes();
        if !self.in_fault_phase() {
            self.let_go_of_failed();
        }
    }

    fn hold_any(&mut self, until: Option<Tick>) {
        let bytes = [u8::try_from(self.holders.len() + 1).unwrap_or(1); 16];
        let resource = ResourceId::from_uuid(Uuid::from_bytes(bytes));
        let row = (0..self.store.rows.len()).find(|row| self.hold_for(*row, resource));
        if let Some(row) = row {
            self.holders.push(Holder { resource, row, until });
        }
    }

    /// Binds a free machine for a resource of the broker; whether it was free.
    pub fn hold_for(&mut self, row: usize, resource: ResourceId) -> bool {
        let machine = &self.store.rows[row].record.state;
        let wanted = Wanted { grace: millis(10), ..Wanted::of(Target::Bind(held())) };
        let Ok(change) = command::hold(machine, resource, wanted) else { return false };
        self.write_command(row, change);
        self.say(|_| format!("row {row} is held"));
        true
    }

    /// A resource does not need its machine any more.
    pub fn dismiss(&mut self, row: usize, resource: ResourceId) {
        let machine = &self.store.rows[row].record.state;
        if let Ok(change) = command::let_go(machine, resource) {
            self.write_command(row, change);
            self.say(|_| format!("row {row} is let go"));
        }
    }

    /// Whether the machine that was bound for a resource is a node.
    pub fn is_ready(&self, row: usize) -> bool {
        let machine = &self.store.rows[row].record.state;
        machine.phase() == Phase::Configured
            && machine.state().binding().is_some_and(|it| it.cluster == held().cluster)
    }

    /// Whether nothing of what was bound for a resource is left: the machine has left its cluster,
    /// and its provider says so, too.
    pub fn is_gone(&self, row: usize) -> bool {
        let machine = &self.store.rows[row].record.state;
        let actual = &self.outside.machines[self.store.rows[row].machine];
        machine.fields().holder.is_none()
            && machine.state().binding().is_none_or(|it| it.cluster != held().cluster)
            && (actual.removed || actual.cluster != held().cluster.as_str())
    }

    /// The holder of a machine that failed releases it.
    fn let_go_of_failed(&mut self) {
        for holder in self.holders.clone() {
            if self.has_failed(holder.row) {
                self.dismiss(holder.row, holder.resource);
            }
        }
    }

    /// Whether the machine that was bound for a resource has failed.
    pub fn has_failed(&self, row: usize) -> bool {
        let machine = &self.store.rows[row].record.state;
        machine.phase() == Phase::Failed && machine.fields().holder.is_some()
    }

    /// People decide what their shards do not dare to touch, now and then during the fault phase
    /// and soon after it. Whether the provider's cluster is right is for them to say.
    fn settle_disputes(&mut self) {
        let now = self.now();
        for row in 0..self.store.rows.len() {
            let disputed = self.store.rows[row].record.state.fields().disputed.is_some();
            if !disputed || self.in_fault_phase() && !self.base.rng.percent(5) {
                continue;
            }
            let adopts = self.base.rng.percent(50);
            let settlement = if adopts { Settlement::Adopt } else { Settlement::Drain };
            let machine = &self.store.rows[row].record.state;
            if let Ok(change) = command::settle(machine, settlement, now) {
                self.write_command(row, change);
                self.say(|_| format!("the dispute about row {row} is settled: {settlement:?}"));
            }
        }
    }

    fn write_command(&mut self, row: usize, change: Change) {
        let now = self.now();
        let Change { next, event } = change;
        let wanted = Wanted { grace: next.wanted().grace.min(millis(60)), ..next.wanted().clone() };
        let next = next.aimed(wanted);
        let written = self.store.write(row, None, Write { next, rows: &[], event });
        debug_assert!(written.is_ok(), "a command holds the row");
        self.taken_for.remove(&row);
        self.reindex(row);
        self.store.wake(row, now);
    }
}

/// What a held machine is bound to.
fn held() -> Binding {
    let cluster: ClusterId =
        "held".parse().unwrap_or_else(|_| unreachable!("a fixed and valid name"));
    Binding { cluster, assignment: Assignment::default() }
}
