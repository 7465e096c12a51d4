//! The provider state and its rules: pure, without clock or disk.
//!
//! A rule decides a request and returns the entry to write; [`ProviderState::apply`] applies a
//! written entry, at once and again after a restart. The state is therefore a function of the
//! journal.
//!
//! **Invariants**
//! - The fence comes before any answer that depends on the machine.
//! - A token that passes raises its mark, even if the request is then refused.
//! - Operation ids are never reused, and a machine has at most one operation in progress.
//! - Every change of a machine has a revision of its own.

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

use fence::{ForeignMarks, Marks};
use thiserror::Error;
use usher_wire::fleet::{Machine, MachineState};

/// Foreign machines with marks.
const FOREIGN_MARKS_MAX: usize = 65_536;

/// Why a request is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The machine id is empty.
    #[error("the machine id is empty")]
    NoId,
    /// A field of the request is invalid.
    #[error("invalid request: {what}")]
    Malformed {
        /// What is wrong.
        what: String,
    },
    /// This provider cannot delete machines.
    #[error("this provider cannot delete machines")]
    Unsupported,
    /// The token is not newer than the shard's mark.
    #[error("fenced: a newer token of shard \"{shard}\" was seen")]
    Fenced {
        /// The shard.
        shard: String,
    },
    /// The machine does not exist.
    #[error("machine \"{id}\" not found")]
    Unknown {
        /// Its id.
        id: String,
    },
    /// The machine is in the wrong state for the verb.
    #[error("cannot {verb} machine \"{id}\": it is {state}")]
    Position {
        /// The verb.
        verb: &'static str,
        /// The machine.
        id: String,
        /// Its state.
        state: &'static str,
    },
    /// The machine is bound to another cluster.
    #[error("cannot configure machine \"{id}\" for \"{asked}\": it is bound to \"{bound}\"")]
    Bound {
        /// The machine.
        id: String,
        /// The requested cluster.
        asked: String,
        /// The cluster it is bound to.
        bound: String,
    },
}

/// A machine with a host and no operation in progress.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostedMachine {
    /// The machine.
    pub machine: String,
    /// Its host.
    pub host: usher_wire::fleet::HostRef,
    /// Whether it is bound to a cluster.
    pub is_bound: bool,
}

impl HostedMachine {
    /// `None` without a host, or while an operation is in progress.
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

/// All machines and marks of a provider.
#[derive(Debug)]
pub struct ProviderState {
    slots: HashMap<Arc<str>, Slot>,
    by_revision: BTreeMap<u64, Arc<str>>,
    foreign_marks: ForeignMarks,
    head: u64,
    next_operation: u64,
    /// Drawn when the state was created; it marks cursors and operation ids of this state.
    nonce: u64,
    /// Where the next limited list begins, by its states.
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
            foreign_marks: ForeignMarks::new(FOREIGN_MARKS_MAX),
            head: 0,
            next_operation: 1,
            nonce,
            rotation: HashMap::new(),
        }
    }

    /// The nonce of the state.
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

    /// The operations to resume after a restart.
    pub fn pending(&self) -> Vec<Work> {
        let records = self.by_revision.values().filter_map(|id| self.slots.get(id));
        records.filter_map(|slot| Work::of(&slot.record)).collect()
    }

    /// Machines with a host and no operation in progress.
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
                None => self.foreign_marks.raise(&mark.machine, token),
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
        let marks: Vec<Mark> = owned.chain(self.foreign_marks.marks()).collect();
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
            // Marks that were raised before the machine was ours still hold.
            let marks = self.foreign_marks.take(&id);
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
