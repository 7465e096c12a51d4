//! What a snapshot of a machine returns: a message that waits, or the answer to a question.

use usher_domain::fleet::accept::{Raw, Report};
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::issue::Token;
use usher_domain::fleet::plan::Switch;
use usher_domain::fleet::refusal::Refusal;
use usher_domain::fleet::snapshot::{Listing, Snapshot, Source};
use usher_kernel::Unknown;

use crate::clock::{LEASE, REQUEST_BOUND};
use crate::fleet::breakage::Breakage;
use crate::fleet::fault::Fault;
use crate::fleet::state::State;
use crate::fleet::store::Message;
use crate::sim_world::SimWorld as _;

/// What was read of a machine.
type Reading = Result<Option<Result<Report, Refusal>>, Unknown>;

impl State {
    /// Takes a snapshot of a machine for a driver that claimed it in an epoch.
    pub(crate) fn observe_machine(
        &mut self,
        index: usize,
        machine: &Machine,
        epoch: u64,
    ) -> Snapshot {
        let shard = self.store.owner(index);
        let message = self.message(index, machine);
        let mut snapshot = if let Some(Message { source, stamp, raw }) = message {
            let reading = Ok(raw.map(|raw| self.read(machine, raw)));
            self.snapshot_of(index, (source, stamp), reading)
        } else {
            let stamp = self.store.shards[shard].issuer.stamp_for(machine.fields().token);
            let reading = self.ask(index, machine);
            self.snapshot_of(index, (Source::Get, stamp), reading)
        };
        snapshot.superseded = epoch != self.store.shards[shard].epoch;
        if let Some(breakage) = self.base.breakage {
            breakage.bend_snapshot(&mut snapshot, machine);
        }
        snapshot
    }

    /// The oldest message. A recorded command is sent after a question only.
    fn message(&mut self, index: usize, machine: &Machine) -> Option<Message> {
        let row = &mut self.store.rows[index];
        if row.messages.is_empty() {
            return None;
        }
        if machine.fields().command == CommandState::Recorded {
            row.messages.retain(|it| it.source == Source::Acknowledgement);
        }
        (!row.messages.is_empty()).then(|| row.messages.remove(0))
    }

    fn snapshot_of(
        &mut self,
        index: usize,
        (source, stamp): (Source, Token),
        reading: Reading,
    ) -> Snapshot {
        let (at, tick) = (self.now(), self.base.tick);
        let paused = self.is_paused();
        let id = self.store.rows[index].record.state.id().clone();
        let owner = self.store.owner(index);
        let shard = &mut self.store.shards[owner];
        let listing = match (shard.list_believed, shard.listed.contains(&id)) {
            (false, _) => Listing::Distrusted,
            (true, true) => Listing::Names,
            (true, false) => Listing::Lacks,
        };
        let fresh = shard.issuer.reserve();
        shard.reserved.insert(fresh, tick + 2 * LEASE + 2 * REQUEST_BOUND);
        let by = "p".to_owned();
        Snapshot { by, at, source, stamp, reading, listing, paused, superseded: false, fresh }
    }

    /// Asks the provider for this very machine.
    fn ask(&mut self, index: usize, machine: &Machine) -> Reading {
        let down = self.base.tick < self.outside.down_until;
        if down || self.injects(Fault::Unreachable, 50) {
            return Err(Unknown::Unreachable);
        }
        let actual = &self.outside.machines[self.store.rows[index].machine];
        if actual.removed || self.base.tick < self.outside.empty_until {
            return Ok(None);
        }
        let mut raw = actual.show();
        if self.injects(Fault::Malformed, 15) {
            raw.state = 0;
        }
        Ok(Some(self.read(machine, raw)))
    }

    fn read(&self, machine: &Machine, mut raw: Raw) -> Result<Report, Refusal> {
        if let Some(breakage) = self.base.breakage {
            breakage.bend_raw(&mut raw, machine);
        }
        Report::read(&raw)
    }

    /// Whether the fleet is paused.
    pub(crate) fn is_paused(&self) -> bool {
        let (switch, until) = self.switch;
        let paused = switch == Switch::Paused && self.base.tick < until;
        paused && !self.is_broken(Breakage::PauseIgnored)
    }
}
