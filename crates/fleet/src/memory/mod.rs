//! The cache of a shard for one epoch: due and running machines, messages that no step has read
//! yet, and the index for plans.
//!
//! The rows are in the store; this keeps of each what decides whether it needs a step. Nothing here
//! blocks, and everything is dropped with the epoch.
//!
//! **Invariants**
//! - At most one step runs per machine.
//! - A machine that is woken during its step is due again, whatever the step decided; after a
//!   failed step, when its back-off ends.
//! - Cost follows changes: only the initial load and a full list iterate over all machines.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use usher_domain::fleet::accept::Raw;
use usher_domain::fleet::aggregate::Machine;
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::ident::{MachineId, ShardId};
use usher_domain::fleet::issue::{Issuer, Token};
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{Fleet, Slot, Windows};
use usher_domain::fleet::snapshot::{Listing, Source};
use usher_domain::object::id::MachineRecordId;
use usher_kernel::{Timestamp, Version};

use super::record::{Mark, is_open};

/// News of a machine that no step has read yet.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    pub source: Source,
    /// The stamp of the observation.
    pub stamp: Token,
    pub answer: ProviderAnswer,
}

/// The content of a message.
#[derive(Clone, Debug, PartialEq)]
pub enum ProviderAnswer {
    Record(Box<Raw>),
    /// A record that could not be decoded.
    Broken,
    /// A full list without it.
    Missing,
}

#[derive(Clone, Debug)]
struct Entry {
    id: Arc<str>,
    record_id: MachineRecordId,
    version: Version,
    token: Token,
    mark: Mark,
    phase: Phase,
    /// Whether any message about it is worth a step.
    is_open: bool,
    /// Whether a command is recorded and not known to be sent.
    is_recorded: bool,
    /// The number of the last trusted list that named it.
    listed_in: u32,
    due: Option<Timestamp>,
    work: Work,
    attempts: u8,
}

/// Whether a step of the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Idle,
    Runs,
    /// It was woken during its step.
    RunsAndWoken,
}

/// A machine that is due for a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueMachine {
    pub slot: Slot,
    pub record_id: MachineRecordId,
    /// Failed attempts in a row.
    pub attempts: u8,
}

/// What a record of a machine is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KnownMachine {
    /// The digest of its row.
    pub(super) mark: Mark,
    pub(super) token: Token,
    /// Whether any message about it is worth a step.
    pub(super) is_open: bool,
}

#[derive(Debug)]
pub struct Memory {
    issuer: Issuer,
    /// Tokens of commands without a response, by the time after which they cannot arrive any more.
    unanswered: BTreeMap<(Timestamp, Token), u32>,
    fleet: Fleet,
    entries: Vec<Option<Entry>>,
    free: Vec<u32>,
    by_id: HashMap<Arc<str>, u32>,
    by_record: HashMap<MachineRecordId, u32>,
    phases: [usize; 9],
    messages: BTreeMap<u32, Vec<Message>>,
    due: BTreeSet<(Timestamp, u32)>,
    running: usize,
    /// The number of the last trusted list; 0 before the first.
    list: u32,
    is_list_trusted: bool,
    /// Whether a change may affect the plan.
    is_changed: bool,
}

impl Memory {
    pub fn new(owner: ShardId, windows: Windows, epoch: u64) -> Self {
        Self {
            issuer: Issuer::new(epoch),
            unanswered: BTreeMap::new(),
            fleet: Fleet::new(owner, windows),
            entries: vec![],
            free: vec![],
            by_id: HashMap::new(),
            by_record: HashMap::new(),
            phases: [0; 9],
            messages: BTreeMap::new(),
            due: BTreeSet::new(),
            running: 0,
            list: 0,
            is_list_trusted: false,
            is_changed: true,
        }
    }

    /// Records the current row; a version older than the known one changes nothing. A machine
    /// that is gone is removed.
    pub fn note(
        &mut self,
        record_id: MachineRecordId,
        version: Version,
        machine: &Machine,
    ) -> Slot {
        let number = match self.by_record.get(&record_id) {
            Some(number) => *number,
            None => self.enter(record_id, machine.id()),
        };
        let slot = Slot(number);
        let Some(Some(entry)) = self.entries.get_mut(number as usize) else { return slot };
        if version < entry.version {
            return slot;
        }
        entry.version = version;
        entry.token = machine.fields().token;
        entry.mark = Mark::of_row(machine);
        let left = std::mem::replace(&mut entry.phase, machine.phase());
        entry.is_open = is_open(machine);
        entry.is_recorded = machine.fields().command == CommandState::Recorded;
        self.count(left, machine.phase());
        self.fleet.apply(slot, (machine.phase() != Phase::Gone).then_some(machine));
        self.is_changed = true;
        if machine.phase() == Phase::Gone {
            self.forget(number);
        }
        slot
    }

    pub fn machines(&self) -> usize {
        self.by_record.len()
    }

    /// How many machines are in each phase, in the order of the phases.
    pub const fn phases(&self) -> &[usize; 9] {
        &self.phases
    }

    /// How many machines are in transition.
    pub fn passing(&self) -> usize {
        let passing = Phase::ALL.iter().zip(&self.phases).filter(|it| it.0.is_passing());
        passing.map(|it| it.1).sum()
    }

    pub fn find(&self, id: &MachineId) -> Option<Slot> {
        self.by_id.get(id.as_str()).map(|it| Slot(*it))
    }

    pub fn known(&self, slot: Slot) -> Option<(MachineRecordId, Version)> {
        self.entry(slot).map(|it| (it.record_id, it.version))
    }

    /// Makes a machine due now, also during its step.
    pub fn wake(&mut self, slot: Slot, now: Timestamp) {
        let Some(entry) = self.entries.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        match entry.work {
            Work::Runs => entry.work = Work::RunsAndWoken,
            Work::RunsAndWoken => {}
            Work::Idle => {
                let at = entry.due.map_or(now, |due| due.min(now));
                if let Some(before) = entry.due.replace(at) {
                    self.due.remove(&(before, slot.0));
                }
                self.due.insert((at, slot.0));
            }
        }
    }

    /// Keeps a message for the machine's next step; a later list replaces an earlier one.
    pub fn post(&mut self, slot: Slot, message: Message, now: Timestamp) {
        if self.entry(slot).is_none() {
            return;
        }
        let waiting = self.messages.entry(slot.0).or_default();
        if message.source == Source::List {
            waiting.retain(|it| it.source != Source::List);
        }
        waiting.push(message);
        self.wake(slot, now);
    }

    /// The next message of a machine: responses to commands first, since a list that counts began
    /// after them. `None` makes the step read the machine by id: a recorded command is sent only
    /// after a read, and a change that the machine overtook since a list began is in no later list.
    pub fn take_message(&mut self, slot: Slot, machine: &Machine) -> Option<Message> {
        let waiting = self.messages.get_mut(&slot.0)?;
        let (command, token) = (machine.fields().command, machine.fields().token);
        let answer = waiting.iter().position(|it| it.source == Source::Acknowledgement);
        let message = if let Some(place) = answer {
            Some(waiting.remove(place))
        } else {
            waiting.pop().filter(|it| command != CommandState::Recorded && it.stamp >= token)
        };
        if waiting.is_empty() {
            self.messages.remove(&slot.0);
        }
        message
    }

    /// Takes due machines, up to the limit of running steps.
    pub fn claim(&mut self, running_max: usize, now: Timestamp) -> Vec<DueMachine> {
        let mut claimed = vec![];
        while self.running < running_max {
            let Some((_, number)) = self.due.first().filter(|it| it.0 <= now).copied() else {
                break;
            };
            self.due.pop_first();
            let Some(Some(entry)) = self.entries.get_mut(number as usize) else { continue };
            entry.due = None;
            entry.work = Work::Runs;
            entry.attempts = entry.attempts.saturating_add(1);
            self.running += 1;
            let (record_id, attempts) = (entry.record_id, entry.attempts);
            claimed.push(DueMachine { slot: Slot(number), record_id, attempts });
        }
        claimed
    }

    /// Ends a step: when to requeue, and whether the step finished.
    pub fn finish(&mut self, slot: Slot, until: Option<Timestamp>, finished: bool, now: Timestamp) {
        self.running = self.running.saturating_sub(1);
        let waits = self.messages.contains_key(&slot.0);
        let Some(entry) = self.entries.get_mut(slot.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        if finished {
            entry.attempts = 0;
        }
        let woken = entry.work == Work::RunsAndWoken;
        entry.work = Work::Idle;
        let due = match (finished, until) {
            (true, _) if woken || waits => Some(now),
            // A wake-up during a failed step does not shorten the back-off, but is not lost.
            (false, None) if woken => Some(now),
            (true | false, until) => until,
        };
        entry.due = due;
        if let Some(at) = due {
            self.due.insert((at, slot.0));
        }
    }

    /// When the next machine is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.due.first().map(|it| it.0)
    }

    /// How many steps run, and how many machines are due and wait.
    pub fn load(&self, now: Timestamp) -> (usize, usize) {
        let waiting = self.due.range(..=(now, u32::MAX)).count();
        (self.running, waiting)
    }

    fn entry(&self, slot: Slot) -> Option<&Entry> {
        self.entries.get(slot.0 as usize)?.as_ref()
    }

    fn enter(&mut self, record_id: MachineRecordId, id: &MachineId) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        let id: Arc<str> = Arc::from(id.as_str());
        if let Some(place) = self.entries.get_mut(number as usize) {
            *place = Some(Entry {
                id: Arc::clone(&id),
                record_id,
                version: Version(0),
                token: Token::default(),
                mark: Mark::NONE,
                phase: Phase::Gone,
                is_open: false,
                is_recorded: false,
                listed_in: 0,
                due: None,
                work: Work::Idle,
                attempts: 0,
            });
        }
        self.by_id.insert(id, number);
        self.by_record.insert(record_id, number);
        number
    }

    fn count(&mut self, from: Phase, to: Phase) {
        if let Some(count) = self.phases.get_mut(from as usize) {
            *count = count.saturating_sub(1);
        }
        if let Some(count) = self.phases.get_mut(to as usize).filter(|_| to != Phase::Gone) {
            *count += 1;
        }
    }

    fn forget(&mut self, number: u32) {
        let Some(entry) = self.entries.get_mut(number as usize).and_then(Option::take) else {
            return;
        };
        if self.by_id.get(&entry.id) == Some(&number) {
            self.by_id.remove(&entry.id);
        }
        self.by_record.remove(&entry.record_id);
        self.messages.remove(&number);
        if let Some(due) = entry.due {
            self.due.remove(&(due, number));
        }
        self.free.push(number);
    }
}

/// Tokens and stamps.
impl Memory {
    pub const fn epoch(&self) -> u64 {
        self.issuer.epoch()
    }

    /// The stamp of a list that begins now.
    pub fn stamp(&self) -> Token {
        self.issuer.stamp()
    }

    /// The stamp of a read of a machine with this token that begins now.
    pub fn stamp_for(&self, token: Token) -> Token {
        self.issuer.stamp_for(token)
    }

    /// A token that was never used before.
    pub fn reserve(&mut self) -> Token {
        self.issuer.reserve()
    }

    /// A command got its response, or a token will not be used.
    pub fn settle(&mut self, token: Token) {
        self.issuer.settle(token);
    }

    /// A command of a machine got no response: it may arrive until then.
    pub fn settle_at(&mut self, token: Token, slot: Slot, at: Timestamp) {
        self.unanswered.insert((at, token), slot.0);
    }

    /// Settles commands that cannot arrive any more. A command that waits to be resent can.
    pub fn settle_overdue(&mut self, now: Timestamp) {
        while let Some(first) = self.unanswered.first_entry().filter(|it| it.key().0 <= now) {
            let ((_, token), number) = first.remove_entry();
            let entry = self.entry(Slot(number));
            if entry.is_none_or(|it| !it.is_recorded || it.token != token) {
                self.issuer.settle(token);
            }
        }
    }
}

/// Lists and plans.
impl Memory {
    /// Whether the lists show that a machine is absent.
    pub fn listing(&self, slot: Slot) -> Listing {
        let names = self.entry(slot).is_some_and(|it| it.listed_in == self.list);
        match (self.is_list_trusted, names) {
            (false, _) => Listing::Distrusted,
            (true, true) => Listing::Names,
            (true, false) => Listing::Lacks,
        }
    }

    /// What a record of a machine is compared with.
    pub(super) fn known_machine(&self, slot: Slot) -> Option<KnownMachine> {
        self.entry(slot).map(|it| KnownMachine {
            mark: it.mark,
            token: it.token,
            is_open: it.is_open,
        })
    }

    pub(super) fn slots(&self) -> impl Iterator<Item = Slot> {
        (0_u32..).zip(&self.entries).filter(|it| it.1.is_some()).map(|it| Slot(it.0))
    }

    /// Starts a trusted list that names no machine yet, or one that is not trusted.
    pub(super) fn trust_list(&mut self, is_trusted: bool) {
        self.is_changed |= self.is_list_trusted != is_trusted;
        self.is_list_trusted = is_trusted;
        if is_trusted {
            self.list = self.list.wrapping_add(1).max(1);
        }
    }

    /// Records that the trusted list names these machines.
    pub(super) fn name_in_list(&mut self, slots: &BTreeSet<u32>) {
        let list = self.list;
        for number in slots {
            if let Some(Some(entry)) = self.entries.get_mut(*number as usize) {
                entry.listed_in = list;
            }
        }
    }

    pub const fn is_list_trusted(&self) -> bool {
        self.is_list_trusted
    }

    /// The index, and whether it changed since the last call.
    pub fn fleet(&mut self) -> (&mut Fleet, bool) {
        let changed = std::mem::take(&mut self.is_changed);
        (&mut self.fleet, changed)
    }

    /// The index, without clearing the change mark.
    pub const fn fleet_now(&self) -> &Fleet {
        &self.fleet
    }

    /// Records a change that may affect the plan.
    pub const fn touch(&mut self) {
        self.is_changed = true;
    }
}

#[cfg(test)]
mod tests;
