//! The memory ledger: rows, identity rows, due-queue, events, tokens, peers, one commit door.

use std::collections::BTreeMap;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::Outstanding;
use usher_domain::broker::consequence::Consequences;
use usher_domain::broker::event::{Event, EventType};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::TokenId;
use usher_kernel::schedule::Entry;
use usher_kernel::{Book, Generation, Record, Row, Timestamp, Trouble, Version};

use crate::broker::breakage::Breakage;
use crate::broker::mesh::{PeerRow, TokenRow};
use crate::clock::REQUEST_BOUND;
use crate::clock::millis;

/// Which life an entry of the queue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// A provisioned resource.
    Resource(usize),
    /// What is left of one.
    Tombstone(usize),
    /// The ProviderConfig.
    Config,
}

/// One resource's row.
#[derive(Clone, Debug)]
pub struct ResourceRow {
    /// State, identity rows, version.
    pub record: Record<Resource>,
    /// Its place in the queue.
    pub entry: Entry,
    /// Its tombstone's place in the queue.
    pub tombstone: Option<Entry>,
}

/// The ProviderConfig's row.
#[derive(Clone, Debug)]
pub struct ConfigRow {
    /// State, identity rows, version.
    pub record: Record<ProviderConfig>,
    /// Its place in the queue.
    pub entry: Entry,
}

/// What one transaction writes of a resource.
#[derive(Clone, Debug)]
pub struct Write<'a> {
    /// The version that must still hold; a command holds the row instead.
    pub version: Option<Version>,
    /// The row as it shall be.
    pub next: Resource,
    /// The identity rows that change with it.
    pub rows: &'a [Row],
    /// What is told.
    pub event: Option<Event>,
    /// The number the event was promised, if it was promised one before its commit.
    pub promised: Option<u64>,
    /// The rule that is broken on purpose.
    pub breakage: Option<Breakage>,
}

/// One row of the event log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventRow {
    /// Its place in the log.
    pub number: u64,
    /// The resource.
    pub resource: usize,
    /// The version the crossing was committed with.
    pub version: Version,
    /// The generation at that time.
    pub generation: Generation,
    /// What was told.
    pub event: Event,
}

/// The whole store.
#[derive(Clone, Debug)]
pub struct Store {
    /// The resources, in the order of their declaration.
    pub resources: Vec<ResourceRow>,
    /// The ProviderConfig they share.
    pub config: ConfigRow,
    /// The tokens.
    pub tokens: BTreeMap<TokenId, TokenRow>,
    /// The peers.
    pub peers: Vec<PeerRow>,
    /// The newest snapshot of the mesh.
    pub snapshot: u64,
    /// The event log.
    pub events: Vec<EventRow>,
    /// What is pinned of the cluster.
    pub pin: Pin,
    /// Whether too much vanished at once, until a person looks.
    pub rail_tripped: bool,
}

impl Store {
    /// The entry of a life.
    pub fn entry(&mut self, life: Life) -> Option<&mut Entry> {
        match life {
            Life::Resource(i) => self.resources.get_mut(i).map(|it| &mut it.entry),
            Life::Tombstone(i) => self.resources.get_mut(i).and_then(|it| it.tombstone.as_mut()),
            Life::Config => Some(&mut self.config.entry),
        }
    }

    /// Every life in the queue.
    pub fn lives(&self) -> Vec<Life> {
        let mut lives = vec![Life::Config];
        for (i, row) in self.resources.iter().enumerate() {
            lives.push(Life::Resource(i));
            if row.tombstone.is_some() {
                lives.push(Life::Tombstone(i));
            }
        }
        lives
    }

    /// Wakes the life with this id text: the resource, or its tombstone once it is deleted.
    pub fn wake_by_label(&mut self, label: &str, now: Timestamp) {
        if self.config.record.state.id.to_string() == label {
            self.config.entry.wake(now);
        }
        for row in &mut self.resources {
            if row.record.state.id().to_string() != label {
                continue;
            }
            match &mut row.tombstone {
                Some(tombstone) => tombstone.wake(now),
                None => row.entry.wake(now),
            }
        }
    }

    /// Wakes everybody: the listing that stands in for what a watch missed.
    pub fn wake_all(&mut self, now: Timestamp) {
        for life in self.lives() {
            if let Some(entry) = self.entry(life) {
                entry.wake(now);
            }
        }
    }

    /// The one door: writes a resource if its version still holds, and whatever goes with it.
    pub fn write(&mut self, index: usize, write: Write<'_>, now: Timestamp) -> Result<(), Trouble> {
        let Write { version, next, rows, event, promised, breakage } = write;
        let row = &mut self.resources[index];
        if version.is_some_and(|it| it != row.record.version) {
            return Err(Trouble::Conflict);
        }
        let mut consequences = Consequences::of(&row.record.state, &next);
        if let Some(breakage) = breakage {
            breakage.bend_consequences(&mut consequences);
        }
        row.record.version = row.record.version.next();
        row.record.book = row.record.book.with(rows);
        row.record.state = next;
        let (version, generation) = (row.record.version, row.record.state.generation());
        if let Some(event) = event {
            let number = promised.unwrap_or(self.next_number());
            let row = EventRow { number, resource: index, version, generation, event };
            if breakage == Some(Breakage::TellTwice) {
                self.events.push(row.clone());
            }
            self.events.push(row);
        }
        self.follow(index, consequences, now);
        Ok(())
    }

    /// What goes with a write, in its transaction.
    fn follow(&mut self, index: usize, consequences: Consequences, now: Timestamp) {
        let Consequences { revoke_tokens, substrate_ready_at, part_provider_config, bury } =
            consequences;
        let current = self.resources[index].record.state.generation();
        for row in self.tokens.values_mut().filter(|it| it.resource == index) {
            if row.token.generation == current
                && let Some(at) = substrate_ready_at
            {
                row.token = row.token.ready(at);
            }
            if revoke_tokens && let Ok(revoked) = row.token.revoke(now) {
                row.token = revoked;
            }
        }
        if part_provider_config {
            let config = &mut self.config;
            let heard_until = config.entry.heard_until();
            let outstanding = Outstanding { heard_until, request_bound: millis(REQUEST_BOUND) };
            config.record.state = config.record.state.parted(&outstanding, now);
            config.record.version = config.record.version.next();
            config.entry.wake(now);
        }
        if bury {
            self.resources[index].tombstone = Some(Entry::new(now));
        }
    }

    /// The number of the next event.
    pub fn next_number(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    /// The events of one resource, of one type.
    pub fn told(&self, index: usize, event_type: EventType) -> usize {
        self.events
            .iter()
            .filter(|it| it.resource == index && it.event.event_type() == event_type)
            .count()
    }

    /// The book of a resource.
    pub fn book(&self, index: usize) -> &Book {
        &self.resources[index].record.book
    }
}
