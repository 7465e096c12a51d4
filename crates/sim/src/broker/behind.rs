//! Another store behind the one in memory: every verb is done there, and what is here is what was
//! read back. So the checkers judge the rows of that store.

use std::time::Duration;

use usher_domain::broker::accept::Accepted;
use usher_domain::broker::ledger::{self, Command, ConfigWrite, Release, ResourceWrite, Stay};
use usher_domain::object::id::{PeerId, ResourceId};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Refusal, Request};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Stopped, Timestamp, Trouble, Wake};

use crate::broker::mesh::TokenRow;
use crate::broker::store::{EventRow, Item, Store, Turn, Write};
use crate::contract::port::{No, Port};

/// The reason that is written with every step: no checker reads it back.
const REASON: &str = "AsDeclared";
/// How long a tick is.
const TICK: Duration = Duration::from_millis(1);
/// How often the queue is asked although nothing should be due.
const SPARED_MAX: u32 = 32;
/// How many events are read at a time.
const PAGE: u32 = 64;

/// The store behind.
pub struct Behind {
    port: Box<dyn Port>,
    now: Timestamp,
    /// The place of the last event that was read.
    place: Option<String>,
    /// How often the queue was not asked, because nothing is due by what was read back.
    spared: u32,
    /// What it said although nothing should be wrong with it.
    failed: Option<String>,
}

impl std::fmt::Debug for Behind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Behind").field("now", &self.now).finish_non_exhaustive()
    }
}

impl Behind {
    /// Puts a store behind.
    pub fn new(mut port: Box<dyn Port>) -> Self {
        let now = port.now();
        Self { port, now, place: None, spared: 0, failed: None }
    }

    /// Its time, when it was last asked.
    pub const fn now(&self) -> Timestamp {
        self.now
    }

    /// What it answered; an answer that should not be is kept.
    fn reading<T>(&mut self, answer: Result<T, No>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(no) => {
                self.failed.get_or_insert(format!("the store said {no:?}"));
                None
            }
        }
    }
}

impl Store {
    /// Does something with the store behind and reads everything back.
    fn ask<T>(
        &mut self,
        verb: impl FnOnce(&mut dyn Port) -> Result<T, No>,
    ) -> Option<Result<T, No>> {
        let answer = verb(&mut *self.behind.as_mut()?.port);
        self.refresh();
        Some(answer)
    }

    /// Does something that is never refused and changes only this work item's entry.
    fn turn<T>(
        &mut self,
        work_item: Item,
        verb: impl FnOnce(&mut dyn Port, ledger::WorkItem) -> Result<T, No>,
    ) {
        let named = self.work_item(work_item);
        let Some(behind) = self.behind.as_mut() else { return };
        let answer = verb(&mut *behind.port, named);
        behind.reading(answer);
        self.refresh_entry(work_item);
    }

    fn work_item(&self, work_item: Item) -> ledger::WorkItem {
        let id = |index: usize| self.resources[index].record.state.id();
        match work_item {
            Item::Resource(index) => ledger::WorkItem::Resource(id(index)),
            Item::Tombstone(index) => ledger::WorkItem::Tombstone(id(index)),
            Item::Config => ledger::WorkItem::ProviderConfig(self.config.record.state.id),
        }
    }

    fn life_here(&self, work_item: ledger::WorkItem) -> Option<Item> {
        match work_item {
            ledger::WorkItem::Resource(id) => self.index_of(id).map(Item::Resource),
            ledger::WorkItem::Tombstone(id) => self.index_of(id).map(Item::Tombstone),
            ledger::WorkItem::ProviderConfig(_) => Some(Item::Config),
        }
    }

    /// One more tick of the store behind; what it said that should not be, if anything.
    pub(crate) fn tick_behind(&mut self) -> Option<String> {
        let behind = self.behind.as_mut()?;
        behind.port.pass(TICK);
        behind.now = behind.port.now();
        behind.failed.take()
    }

    pub(crate) fn wake_behind(&mut self, work_item: Item) {
        self.turn(work_item, |port, work_item| port.wake(work_item));
    }

    pub(crate) fn wake_all_behind(&mut self) {
        let answer = self.ask(|port| port.wake_all());
        self.expect(answer);
    }

    pub(crate) fn accept_behind(&mut self, accepted: Accepted) -> Result<(), No> {
        self.behind.as_mut().map_or(Ok(()), |it| it.port.accept(accepted, None))
    }

    pub(crate) fn claim_behind(&mut self) -> Option<(Item, Claim)> {
        let idle = !self.is_anything_due();
        let behind = self.behind.as_mut()?;
        behind.spared += u32::from(idle);
        if idle && !behind.spared.is_multiple_of(SPARED_MAX) {
            return None;
        }
        let batch = behind.port.claim_due(1);
        let batch = behind.reading(batch)?;
        if !batch.parked.is_empty() {
            behind.failed.get_or_insert(format!("parked: {:?}", batch.parked));
        }
        let leased = batch.leased.into_iter().next()?;
        let work_item = self.life_here(leased.item)?;
        let was_leased = self.entry(work_item).and_then(|it| it.lease_until);
        if was_leased.is_some_and(|until| leased.now < until) {
            let what = format!("{work_item:?} was leased twice");
            self.behind.as_mut()?.failed.get_or_insert(what);
        }
        self.refresh_entry(work_item);
        Some((work_item, leased.claim))
    }

    /// Whether any work item is due, by what was read back.
    fn is_anything_due(&mut self) -> bool {
        let Some(now) = self.behind.as_ref().map(Behind::now) else { return false };
        let due = |it: &Entry| !it.is_leased(now) && it.due.is_some_and(|due| due <= now);
        self.items().into_iter().any(|work_item| self.entry(work_item).is_some_and(|it| due(it)))
    }

    /// Keeps an answer that should not be.
    fn expect<T>(&mut self, answer: Option<Result<T, No>>) -> Option<T> {
        self.behind.as_mut()?.reading(answer?)
    }

    pub(crate) fn finish_behind(
        &mut self,
        work_item: Item,
        claim: &Claim,
        outcome: &Result<Wake, Stopped>,
    ) {
        let claim = *claim;
        match outcome {
            Ok(wake) => {
                let wake = *wake;
                self.turn(work_item, |port, work_item| {
                    port.release(Release { item: work_item, claim, wake, reason: REASON })
                });
            }
            Err(stopped) => {
                self.turn(work_item, |port, work_item| {
                    port.postpone(work_item, claim, &stopped.trouble)
                });
            }
        }
    }

    pub(crate) fn commit_behind(
        &mut self,
        index: usize,
        write: &Write<'_>,
        (lease, release): Turn,
    ) -> Result<(), Trouble> {
        let record = &self.resources[index].record;
        let write = ResourceWrite {
            version: write.version.unwrap_or(record.version),
            before: record.state.clone(),
            next: write.next.clone(),
            rows: write.rows.to_vec(),
            event: write.event.clone(),
            lease: lease.map(|(work_item, claim)| {
                let work_item = self.work_item(work_item);
                Stay { item: work_item, claim, reason: REASON, finished: false }
            }),
            release: release.map(|(work_item, claim, wake)| {
                let work_item = self.work_item(work_item);
                Release { item: work_item, claim, wake, reason: REASON }
            }),
        };
        self.ask(|port| port.commit(write)).unwrap_or(Ok(())).map_err(No::trouble)
    }

    pub(crate) fn commit_config_behind(&mut self, write: ConfigWrite) -> Result<(), Trouble> {
        self.ask(|port| port.commit_config(write)).unwrap_or(Ok(())).map_err(No::trouble)
    }

    pub(crate) fn order_behind(&mut self, index: usize, order: Command) -> Result<(), No> {
        let id = self.resources[index].record.state.id();
        self.ask(|port| port.order(id, order)).unwrap_or(Err(No::Conflict)).map(|_| ())
    }

    pub(crate) fn issue_behind(&mut self, id: ResourceId, of: Generation) -> Result<(), No> {
        self.ask(|port| port.issue(id, of)).unwrap_or(Ok(()))
    }

    pub(crate) fn redeem_behind(&mut self, request: &Request) -> Outcome {
        let outcome = self.ask(|port| port.redeem(request));
        self.expect(outcome).unwrap_or(Outcome::Refused(Refusal::WrongVerifier))
    }

    pub(crate) fn move_peer_behind(&mut self, before: &Peer, after: &Peer) {
        let answer = self.ask(|port| port.move_peer(before, after));
        self.expect(answer);
    }

    /// Reads the entry of a work item back.
    fn refresh_entry(&mut self, work_item: Item) {
        let named = self.work_item(work_item);
        let Some(behind) = self.behind.as_mut() else { return };
        let read = behind.port.entry(named);
        let read = behind.reading(read).flatten();
        behind.now = behind.port.now();
        if let (Some(entry), Some(read)) = (self.entry(work_item), read) {
            *entry = read;
        }
    }

    /// Reads everything back.
    pub(crate) fn refresh(&mut self) {
        let Some(mut behind) = self.behind.take() else { return };
        if let Err(no) = self.read_back(&mut behind) {
            behind.failed.get_or_insert(format!("the store said {no:?}"));
        }
        behind.now = behind.port.now();
        self.behind = Some(behind);
    }

    fn read_back(&mut self, behind: &mut Behind) -> Result<(), No> {
        let port = &mut *behind.port;
        for (index, row) in self.resources.iter_mut().enumerate() {
            let id = row.record.state.id();
            row.record = port.resource(id)?;
            if let Some(entry) = port.entry(ledger::WorkItem::Resource(id))? {
                row.entry = entry;
            }
            row.tombstone = port.entry(ledger::WorkItem::Tombstone(id))?;
            for token in port.tokens(id)? {
                self.tokens.insert(token.id, TokenRow { resource: index, token });
            }
            for peer in port.peers(id)? {
                let same = |known: &PeerId| *known == peer.id;
                if let Some(row) = self.peers.iter_mut().find(|it| same(&it.peer.id)) {
                    row.peer = peer;
                }
            }
        }
        if let Some(first) = self.resources.first() {
            let id = first.record.state.pinned().provider_config;
            self.config.record = port.config(id)?;
            if let Some(entry) = port.entry(ledger::WorkItem::ProviderConfig(id))? {
                self.config.entry = entry;
            }
        }
        for read in port.events(behind.place.as_deref(), PAGE)? {
            let number = self.next_number();
            let Some(resource) = self.index_of(read.resource) else { continue };
            let (version, generation, event) = (read.version, read.generation, read.event);
            self.events.push(EventRow { number, resource, version, generation, event });
            behind.place = Some(read.place);
        }
        Ok(())
    }
}
