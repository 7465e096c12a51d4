//! The store in memory: rows, the queue, events, and the lease holder of each shard.

use std::collections::{BTreeMap, BTreeSet};

use usher_domain::fleet::aggregate::{Machine, Wanted};
use usher_domain::fleet::binding::Binding;
use usher_domain::fleet::event::Event;
use usher_domain::fleet::ident::{MachineId, ShardId};
use usher_domain::fleet::issue::{Issuer, Token};
use usher_domain::fleet::plan::{Cause, Fleet};
use usher_domain::fleet::snapshot::Source;
use usher_kernel::schedule::Entry;
use usher_kernel::{Record, Row, Timestamp, Trouble, Version};

use usher_domain::fleet::accept::Raw;

use crate::clock::Tick;

/// One machine's row, its place in the queue, and what its shard has received of it.
#[derive(Clone, Debug)]
pub struct MachineRow {
    /// The record.
    pub record: Record<Machine>,
    /// Its place in the queue.
    pub entry: Entry,
    /// The provider's number of it.
    pub machine: usize,
    /// Where in the machine's history it was last seen.
    pub reached: usize,
    /// Every token that was ever committed for it.
    pub tokens: BTreeSet<Token>,
    /// What its shard has received and not processed yet; lost with the shard's memory.
    pub messages: Vec<Message>,
}

/// A message about a machine: the answer to a verb, or its part of a list.
#[derive(Clone, Debug)]
pub struct Message {
    /// How it was learned.
    pub source: Source,
    /// The stamp of the snapshot.
    pub stamp: Token,
    /// The record, or that there is none.
    pub raw: Option<Raw>,
}

/// A list in flight.
#[derive(Clone, Debug)]
pub struct List {
    /// When it began.
    pub begun: Tick,
    /// When it arrives.
    pub at: Tick,
    /// Its stamp.
    pub stamp: Token,
    /// Its records.
    pub records: Vec<Raw>,
    /// Whether nothing was cut off.
    pub whole: bool,
}

/// An aim about to be written into a row.
#[derive(Clone, Debug)]
pub struct Written {
    /// When it is written.
    pub at: Tick,
    /// The epoch that planned it.
    pub epoch: u64,
    /// The row.
    pub row: usize,
    /// The version that was planned upon.
    pub version: Version,
    /// The aim.
    pub wanted: Wanted,
    /// Why.
    pub cause: Cause,
    /// For which need it was taken from another.
    pub taker: Option<Binding>,
}

/// A shard: its lease in the store, and its memory.
#[derive(Clone, Debug)]
pub struct Shard {
    /// Its name.
    pub id: ShardId,
    /// The epoch in the store.
    pub epoch: u64,
    /// Its sequences.
    pub issuer: Issuer,
    /// When each token that is outstanding was reserved.
    pub reserved: BTreeMap<Token, Tick>,
    /// The index it plans on.
    pub fleet: Fleet,
    /// Whether its last list was believed.
    pub list_believed: bool,
    /// Who was named by the last list that was believed.
    pub listed: BTreeSet<MachineId>,
    /// The list in flight.
    pub list: Option<List>,
    /// The aims that are not written yet.
    pub aims: Vec<Written>,
}

/// What one transaction writes.
pub struct Write<'a> {
    /// The row as it shall be.
    pub next: Machine,
    /// The identity rows that change with it.
    pub rows: &'a [Row],
    /// Its event.
    pub event: Option<Event>,
}

impl Write<'_> {
    /// A write that emits nothing.
    pub const fn of(next: Machine) -> Self {
        Self { next, rows: &[], event: None }
    }
}

/// One event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// The row.
    pub row: usize,
    /// The version of the write that emitted it.
    pub version: Version,
    /// The emitted event.
    pub event: Event,
}

/// The store.
#[derive(Clone, Debug, Default)]
pub struct Store {
    /// The rows.
    pub rows: Vec<MachineRow>,
    /// The shards.
    pub shards: Vec<Shard>,
    /// The log.
    pub events: Vec<EventRow>,
    /// Until when it does not answer.
    pub down_until: Tick,
}

impl Store {
    /// Writes a row, its names and its event in one transaction, if the version still holds.
    pub fn write(
        &mut self,
        index: usize,
        version: Option<Version>,
        write: Write<'_>,
    ) -> Result<(), Trouble> {
        let Write { next, rows, event } = write;
        let row = &mut self.rows[index];
        if version.is_some_and(|it| it != row.record.version) {
            return Err(Trouble::Conflict);
        }
        row.record.version = row.record.version.next();
        row.record.name_ledger = row.record.name_ledger.with(rows);
        row.tokens.insert(next.fields().token);
        row.record.state = next;
        let version = row.record.version;
        self.events.extend(event.map(|event| EventRow { row: index, version, event }));
        Ok(())
    }

    /// Wakes the record of a row.
    pub fn wake(&mut self, index: usize, now: Timestamp) {
        self.rows[index].entry.wake(now);
    }

    /// The shard that owns a row.
    pub fn owner(&self, index: usize) -> usize {
        let owner = &self.rows[index].record.state.fields().owner;
        self.shards.iter().position(|it| it.id == *owner).unwrap_or(0)
    }

    /// The row of a machine, if it is known; the newest, if it was gone in between.
    pub fn row_of(&self, id: &str) -> Option<usize> {
        self.rows.iter().rposition(|it| it.record.state.id().as_str() == id)
    }
}
