//! The provider state and its rules: pure, without clock or disk.
//!
//! A rule decides a request and returns the entry to write; [`ProviderState::apply`] applies a
//! written entry, at once and again after a restart. The state is therefore a function of the
//! journal.
//!
//! **Invariants**
//! - The fence comes before everything that tells whether a machine exists or what was answered.
//! - A token that passes raises its mark, whatever is answered then.
//! - No operation id is given twice, and a machine has at most one operation in hand.
//! - Every change of a machine has a revision of its own; what did not change keeps its own.

mod cursor;
mod entry;
mod fence;
mod list;
mod rules;
mod verb;

pub use cursor::Cursor;
pub use entry::{Entry, Mark, Pending, Record};
pub use fence::Token;
pub use list::Page;
pub(crate) use rules::VerbOutcome;
pub use rules::{Accepted, Decision, Work};
pub use verb::{Kind, TransitionRequest, Verb};

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use fence::{Marks, Strangers};
use thiserror::Error;
use usher_wire::fleet::{Machine, MachineState};

/// How many marks are kept of machines that are not ours.
const STRANGERS_MAX: usize = 65_536;

/// Why a question is not granted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Which machine is not said.
    #[error("cannot find a machine without an id")]
    NoId,
    /// Something about the request cannot be taken.
    #[error("cannot take the request: {what}")]
    Malformed {
        /// What.
        what: String,
    },
    /// Machines are not given back here.
    #[error("cannot give machines back: this provider keeps them")]
    Unsupported,
    /// The token is not newer than the last one.
    #[error("cannot act for shard \"{shard}\": a newer token was seen")]
    Fenced {
        /// The shard.
        shard: String,
    },
    /// No such machine.
    #[error("cannot find machine \"{id}\"")]
    Unknown {
        /// Its id.
        id: String,
    },
    /// The machine is not where the verb begins.
    #[error("cannot {verb} machine \"{id}\": it is {state}")]
    Position {
        /// The verb.
        verb: &'static str,
        /// The machine.
        id: String,
        /// Where it is.
        state: &'static str,
    },
    /// The machine is bound to somebody else.
    #[error("cannot configure machine \"{id}\" for \"{asked}\": it is bound to \"{bound}\"")]
    Bound {
        /// The machine.
        id: String,
        /// For whom it was asked.
        asked: String,
        /// To whom it belongs.
        bound: String,
    },
}

/// What a host is asked of when it may have vanished.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedMachine {
    /// The machine.
    pub machine: String,
    /// Its host.
    pub host: usher_wire::fleet::HostRef,
    /// Whether it is a node of a cluster.
    pub is_bound: bool,
}

impl HostedMachine {
    /// How a machine stands, if it stands on a host and is not in anybody's hand.
    fn of(record: &Record) -> Option<Self> {
        let is_bound = match record.state() {
            MachineState::Idle => false,
            MachineState::Configured => true,
            MachineState::Unspecified
            | MachineState::Speculative
            | MachineState::Creating
            | MachineState::Configuring
            | MachineState::Draining
            | MachineState::Deleting
            | MachineState::Failed => return None,
        };
        let machine = record.machine.as_ref().filter(|_| record.pending.is_none())?;
        let host = machine.host.clone()?;
        Some(Self { machine: machine.id.clone(), host, is_bound })
    }
}

/// Everything that is known.
#[derive(Debug)]
pub struct ProviderState {
    slots: HashMap<Arc<str>, Slot>,
    by_revision: BTreeMap<u64, Arc<str>>,
    strangers: Strangers,
    head: u64,
    next_operation: u64,
    /// Drawn when the state was created; it marks cursors and operation ids of this state.
    nonce: u64,
    /// Where the next capped list begins, by the states it is asked for.
    rotation: HashMap<u16, u64>,
}

#[derive(Debug)]
struct Slot {
    record: Arc<Record>,
    marks: Marks,
}

impl ProviderState {
    /// An empty state.
    pub fn new(nonce: u64) -> Self {
        Self {
            slots: HashMap::new(),
            by_revision: BTreeMap::new(),
            strangers: Strangers::new(STRANGERS_MAX),
            head: 0,
            next_operation: 1,
            nonce,
            rotation: HashMap::new(),
        }
    }

    /// What it was begun with.
    pub const fn nonce(&self) -> u64 {
        self.nonce
    }

    /// How many machines there are.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// One machine.
    pub fn get(&self, id: &str) -> Result<Machine, Refusal> {
        if id.is_empty() {
            return Err(Refusal::NoId);
        }
        let slot = self.slots.get(id).ok_or_else(|| Refusal::Unknown { id: id.to_owned() })?;
        Ok(slot.record.machine())
    }

    /// Everything that is to be done again after a restart.
    pub fn pending(&self) -> Vec<Work> {
        let records = self.by_revision.values().filter_map(|id| self.slots.get(id));
        records.filter_map(|slot| Work::of(&slot.record)).collect()
    }

    /// Machines that stand on a host and are not in anybody's hand.
    pub fn hosted_machines(&self) -> Vec<HostedMachine> {
        self.slots.values().filter_map(|slot| HostedMachine::of(&slot.record)).collect()
    }

    /// Applies an entry. Entries are applied in the order they were made.
    pub fn apply(&mut self, entry: Entry) {
        self.head = self.head.max(entry.head);
        self.next_operation = self.next_operation.max(entry.next_operation);
        if let Some(record) = entry.record {
            self.put(Arc::new(record));
        }
        if let Some(mark) = entry.mark {
            let token = Token { shard: mark.shard, epoch: mark.epoch, sequence: mark.sequence };
            match self.slots.get_mut(mark.machine.as_str()) {
                Some(slot) => slot.marks.raise(token),
                None => self.strangers.raise(&mark.machine, token),
            }
        }
    }

    /// The entries that rebuild the state: the head first, then every machine, then marks.
    pub fn entries(&self) -> impl Iterator<Item = Entry> + use<> {
        let (head, next_operation) = (self.head, self.next_operation);
        let empty = move || Entry { head, next_operation, record: None, mark: None };
        let records: Vec<Arc<Record>> =
            self.slots.values().map(|slot| Arc::clone(&slot.record)).collect();
        let owned = self.slots.iter().flat_map(|(id, slot)| slot.marks.of_machine(id));
        let marks: Vec<Mark> = owned.chain(self.strangers.marks()).collect();
        let records = records
            .into_iter()
            .map(move |it| Entry { record: Some(Record::clone(&it)), ..empty() });
        let marks = marks.into_iter().map(move |it| Entry { mark: Some(it), ..empty() });
        std::iter::once(empty()).chain(records).chain(marks)
    }

    fn put(&mut self, record: Arc<Record>) {
        let id: Arc<str> = record.id().into();
        self.by_revision.insert(record.revision, Arc::clone(&id));
        let Some(slot) = self.slots.get_mut(&id) else {
            // Whoever asked for it before it was ours is still held to that.
            let marks = self.strangers.take(&id);
            self.slots.insert(id, Slot { record, marks });
            return;
        };
        if slot.record.revision != record.revision {
            self.by_revision.remove(&slot.record.revision);
        }
        slot.record = record;
    }
}

#[cfg(test)]
mod tests;
