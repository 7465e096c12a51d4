//! The memory ledger: rows, identity rows, due-queue, events, tokens, peers, one commit.
//!
//! Each verb is one transaction. If this store fronts another one ([`Behind`]), the verb is done
//! there, and what is here is what was read back.

use std::collections::BTreeMap;

use usher_domain::broker::accept::Accepted;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::{self, Change, Outstanding};
use usher_domain::broker::event::{Event, EventType, Outcome};
use usher_domain::broker::ledger::{Command, ConfigWrite, Release};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::broker::side_writes::SideWrites;
use usher_domain::object::authority::Pin;
use usher_domain::object::id::{ResourceId, TokenId};
use usher_domain::tokens::{self, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, NameLedger, Record, Row, Timestamp, Trouble, Version, Wake};

use crate::broker::behind::Behind;
use crate::broker::breakage::Breakage;
use crate::broker::mesh::{PeerRow, TokenRow};
use crate::clock::{REQUEST_BOUND, millis};
use crate::contract::port::No;

/// The lease under which a commit is written: kept, or given back with it.
pub type Turn = (Option<(Item, Claim)>, Option<(Item, Claim, Wake)>);

/// Which record an entry of the queue belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Item {
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
    /// Its event.
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
    /// The emitted event.
    pub event: Event,
}

/// The whole store.
#[derive(Debug)]
pub struct Store {
    /// The store behind this one, if there is one.
    pub behind: Option<Behind>,
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
    /// Whether too much vanished at once, until a person resets the guard.
    pub guard_tripped: bool,
}

impl Store {
    /// The entry of a work item.
    pub fn entry(&mut self, work_item: Item) -> Option<&mut Entry> {
        match work_item {
            Item::Resource(i) => self.resources.get_mut(i).map(|it| &mut it.entry),
            Item::Tombstone(i) => self.resources.get_mut(i).and_then(|it| it.tombstone.as_mut()),
            Item::Config => Some(&mut self.config.entry),
        }
    }

    /// Every work item in the queue.
    pub fn items(&self) -> Vec<Item> {
        let mut items = vec![Item::Config];
        for (i, row) in self.resources.iter().enumerate() {
            items.push(Item::Resource(i));
            if row.tombstone.is_some() {
                items.push(Item::Tombstone(i));
            }
        }
        items
    }

    /// Makes a work item due now.
    pub fn wake(&mut self, work_item: Item, now: Timestamp) {
        if self.behind.is_some() {
            self.wake_behind(work_item);
        } else if let Some(entry) = self.entry(work_item) {
            entry.wake(now);
        }
    }

    /// Wakes the work item with this id text: the resource, or its tombstone once it is deleted.
    pub fn wake_by_label(&mut self, label: &str, now: Timestamp) {
        if self.config.record.state.id.to_string() == label {
            self.wake(Item::Config, now);
        }
        for index in 0..self.resources.len() {
            if self.resources[index].record.state.id().to_string() == label {
                self.wake_keeper(index, now);
            }
        }
    }

    /// Wakes the resource, or its tombstone.
    fn wake_keeper(&mut self, index: usize, now: Timestamp) {
        let buried = self.resources[index].tombstone.is_some();
        self.wake(if buried { Item::Tombstone(index) } else { Item::Resource(index) }, now);
    }

    /// Wakes every work item that is not finished: the listing that replaces what a
    /// watch missed.
    pub fn wake_all(&mut self, now: Timestamp) {
        if self.behind.is_some() {
            self.wake_all_behind();
            return;
        }
        for work_item in self.items() {
            let is_dead = match work_item {
                Item::Resource(i) => self.resources[i].record.state.phase() == Phase::Deleted,
                Item::Tombstone(_) | Item::Config => false,
            };
            if !is_dead {
                self.wake(work_item, now);
            }
        }
    }

    /// The place of a resource.
    pub fn index_of(&self, id: ResourceId) -> Option<usize> {
        self.resources.iter().position(|it| it.record.state.id() == id)
    }

    /// Whether a living resource has this name.
    pub fn is_named(&self, name: &str) -> bool {
        let mut living =
            self.resources.iter().filter(|it| it.record.state.phase() != Phase::Deleted);
        living.any(|it| it.record.state.fields().name == name)
    }

    /// Whether the ProviderConfig has its row.
    pub const fn has_config(&self) -> bool {
        self.config.record.version.0 > 0
    }

    /// Accepts a declaration: row, names, event, entry, one more user, all in one transaction.
    pub fn accept(&mut self, accepted: Accepted, now: Timestamp) -> Result<usize, No> {
        let index = self.resources.len();
        let Accepted { resource, rows, event, new_provider_config } = accepted.clone();
        let made = new_provider_config.is_some();
        if self.is_named(&resource.fields().name) || made == self.has_config() {
            return Err(No::Moved);
        }
        if self.behind.is_some() {
            self.accept_behind(accepted)?;
        }
        let version = Version(1);
        let record = Record { version, state: resource, name_ledger: NameLedger::new(rows) };
        self.resources.push(ResourceRow { record, entry: Entry::new(now), tombstone: None });
        if self.behind.is_some() {
            self.refresh();
            return Ok(index);
        }
        let (number, generation) = (self.next_number(), Generation::FIRST);
        self.events.push(EventRow { number, resource: index, version, generation, event });
        let config = &mut self.config;
        if let Some(new) = new_provider_config {
            config.record.name_ledger = NameLedger::new(new.intended("usher", now));
            config.record.state = new;
            config.entry = Entry::new(now);
        } else {
            let joined = config.record.state.joined();
            if joined.is_news_to(&config.record.state) {
                config.entry.wake(now);
            }
            config.record.state = joined;
        }
        config.record.version = config.record.version.next();
        Ok(index)
    }

    /// Writes a step of a resource or its tombstone, and releases its lease with it if the step
    /// says so.
    pub fn commit(
        &mut self,
        index: usize,
        write: Write<'_>,
        turn: Turn,
        now: Timestamp,
    ) -> Result<(), Trouble> {
        if self.behind.is_some() {
            return self.commit_behind(index, &write, turn);
        }
        self.write(index, write, now)?;
        if let (_, Some((work_item, claim, wake))) = turn {
            self.release(work_item, &claim, wake, now);
        }
        Ok(())
    }

    /// Writes a step of the ProviderConfig; what waited for it is woken once it is ready.
    pub fn commit_config(&mut self, write: ConfigWrite, now: Timestamp) -> Result<(), Trouble> {
        if self.behind.is_some() {
            return self.commit_config_behind(write);
        }
        let ConfigWrite { version, before, next, rows, release, .. } = write;
        let record = &mut self.config.record;
        if record.version != version {
            return Err(Trouble::Conflict);
        }
        let becomes_ready = next.is_ready() && !before.is_ready();
        record.version = version.next();
        record.name_ledger = record.name_ledger.with(&rows);
        record.state = next;
        if becomes_ready {
            for row in &mut self.resources {
                if row.record.state.phase() != Phase::Deleted {
                    row.entry.wake(now);
                }
            }
        }
        if let Some(Release { claim, wake, .. }) = release {
            self.config.entry.release(&claim, wake, now);
        }
        Ok(())
    }

    /// Gives a lease back after a finished step.
    pub fn release(&mut self, work_item: Item, claim: &Claim, wake: Wake, now: Timestamp) {
        if let Some(entry) = self.entry(work_item) {
            entry.release(claim, wake, now);
        }
    }

    /// Carries out a command, and wakes the resource or its tombstone.
    pub fn order(&mut self, index: usize, order: &Command, now: Timestamp) -> Result<(), No> {
        if self.behind.is_some() {
            return self.order_behind(index, order.clone());
        }
        let change = self.decide(index, order, now)?;
        let record = &self.resources[index].record;
        if change.next != record.state || !change.rows.is_empty() || change.event.is_some() {
            let Change { next, rows, event } = change;
            let write =
                Write { version: None, next, rows: &rows, event, promised: None, breakage: None };
            let written = self.write(index, write, now);
            debug_assert!(written.is_ok(), "a command holds the row");
        }
        let row = &mut self.resources[index];
        if matches!(order, Command::Reap { .. }) {
            row.tombstone.get_or_insert_with(|| Entry::new(now));
        }
        if *order == Command::Retry {
            row.entry.parked = false;
        }
        let outcome = row.record.state.fields().outcome;
        let removed = outcome == Some(Outcome::Removed);
        self.wake(if removed { Item::Tombstone(index) } else { Item::Resource(index) }, now);
        Ok(())
    }

    /// The record of a resource as the holder of its lease takes it.
    pub fn leased_resource(&self, index: usize, now: Timestamp) -> Record<Resource> {
        let row = &self.resources[index];
        let state = row.record.state.with_grace(&others(&row.entry), now);
        Record { state, ..row.record.clone() }
    }

    /// The record of the ProviderConfig as the holder of its lease takes it.
    pub fn leased_config(&self, now: Timestamp) -> Record<ProviderConfig> {
        let state = self.config.record.state.with_grace(&others(&self.config.entry), now);
        Record { state, ..self.config.record.clone() }
    }

    /// What a command changes, as the domain says.
    fn decide(&self, index: usize, order: &Command, now: Timestamp) -> Result<Change, No> {
        let row = &self.resources[index];
        let record = &row.record;
        let may_act_until = row.entry.may_act_until();
        let outstanding = Outstanding { may_act_until, request_bound: millis(REQUEST_BOUND) };
        let change = match order {
            Command::Deprovision => Ok(command::deprovision(&record.state, &outstanding, now)),
            Command::Replace => command::replace(&record.state, &outstanding, now),
            Command::Abandon { by, reason } => {
                let mut peers = self.peers.iter();
                let live = peers.any(|it| it.resource == index && it.is_registered());
                command::abandon(record, live, (by, reason), now)
            }
            Command::Reap { by } => command::reap(record, by, now),
            Command::Retry => Ok(Change { next: record.state.clone(), rows: vec![], event: None }),
        };
        change.map_err(|refusal| No::Refused(refusal.code()))
    }

    /// The only commit: writes a resource if its version still matches, and its side writes.
    pub fn write(&mut self, index: usize, write: Write<'_>, now: Timestamp) -> Result<(), Trouble> {
        let Write { version, next, rows, event, promised, breakage } = write;
        let row = &mut self.resources[index];
        if version.is_some_and(|it| it != row.record.version) {
            return Err(Trouble::Conflict);
        }
        let mut side_writes = SideWrites::of(&row.record.state, &next);
        if let Some(breakage) = breakage {
            breakage.bend_side_writes(&mut side_writes);
        }
        row.record.version = row.record.version.next();
        row.record.name_ledger = row.record.name_ledger.with(rows);
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
        self.apply_side_writes(index, side_writes, now);
        Ok(())
    }

    /// The side writes of a write, in its transaction.
    fn apply_side_writes(&mut self, index: usize, side_writes: SideWrites, now: Timestamp) {
        let mine = self.tokens.values().filter(|it| it.resource == index);
        let tokens: Vec<Token> = mine.map(|it| it.token.clone()).collect();
        for token in tokens::changed(&tokens, side_writes.tokens, now) {
            self.tokens.insert(token.id, TokenRow { resource: index, token });
        }
        if side_writes.release_provider_config {
            let config = &mut self.config;
            let may_act_until = config.entry.may_act_until();
            let outstanding = Outstanding { may_act_until, request_bound: millis(REQUEST_BOUND) };
            let parted = config.record.state.parted(&outstanding, now);
            if parted.is_news_to(&config.record.state) {
                config.entry.wake(now);
            }
            config.record.state = parted;
            config.record.version = config.record.version.next();
        }
        if side_writes.create_tombstone {
            self.resources[index].tombstone.get_or_insert_with(|| Entry::new(now));
        }
    }

    /// The number of the next event.
    pub fn next_number(&self) -> u64 {
        self.events.len() as u64 + 1
    }

    /// The events of one resource, of one type.
    pub fn event_count(&self, index: usize, event_type: EventType) -> usize {
        self.events
            .iter()
            .filter(|it| it.resource == index && it.event.event_type() == event_type)
            .count()
    }

    /// The name ledger of a resource.
    pub fn name_ledger(&self, index: usize) -> &NameLedger {
        &self.resources[index].record.name_ledger
    }
}

/// What drivers before the one that holds the lease may still do.
fn others(entry: &Entry) -> Outstanding {
    Outstanding { may_act_until: entry.unreturned_until, request_bound: millis(REQUEST_BOUND) }
}
