//! The store of the simulation as a port, so that it can be held to the promises of every store.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use usher_domain::blueprint::MeshRole;
use usher_domain::broker::accept::{Accepted, Provision};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::ledger::{
    Batch, Command, ConfigWrite, Held, Leased, RecordWrite, Release, RememberedKey, ResourceWrite,
    Snapshot, WorkItem,
};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_domain::object::idempotency::{Key, Scope, Used};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Outcome, Request, Token};
use usher_kernel::schedule::{Claim, Entry, Jitter};
use usher_kernel::{Generation, Record, Timestamp, Trouble};

use crate::broker::state::{empty_store, ids};
use crate::broker::store::{self, Store, Write};
use crate::clock::{PACE, timestamp};
use crate::contract::port::{No, Port, ReadEvents, TestIds};

/// The store of the simulation, with a clock.
#[derive(Debug)]
pub struct Memory {
    store: Store,
    now: Timestamp,
    keys: BTreeMap<(Scope, Key), Used>,
    spoilt: BTreeSet<ResourceId>,
}

impl Default for Memory {
    fn default() -> Self {
        let (keys, spoilt) = (BTreeMap::new(), BTreeSet::new());
        Self { store: empty_store(), now: timestamp(0), keys, spoilt }
    }
}

impl Memory {
    fn index(&self, id: ResourceId) -> Result<usize, No> {
        if self.spoilt.contains(&id) {
            return Err(No::Corrupt);
        }
        self.store.index_of(id).ok_or(No::Refused("provisioned_resource_not_found"))
    }

    fn here(&self, work_item: WorkItem) -> Option<store::Item> {
        match work_item {
            WorkItem::Resource(id) => self.store.index_of(id).map(store::Item::Resource),
            WorkItem::Tombstone(id) => self.store.index_of(id).map(store::Item::Tombstone),
            WorkItem::ProviderConfig(_) => self.store.has_config().then_some(store::Item::Config),
        }
    }

    fn work_item(&self, work_item: store::Item) -> WorkItem {
        let id = |index: usize| self.store.resources[index].record.state.id();
        match work_item {
            store::Item::Resource(index) => WorkItem::Resource(id(index)),
            store::Item::Tombstone(index) => WorkItem::Tombstone(id(index)),
            store::Item::Config => WorkItem::ProviderConfig(self.store.config.record.state.id),
        }
    }

    fn entry_mut(&mut self, work_item: WorkItem) -> Option<&mut Entry> {
        let work_item = self.here(work_item)?;
        self.store.entry(work_item)
    }

    /// A lease holder that was overtaken writes nothing.
    fn keep_turn<S, E>(&mut self, write: &RecordWrite<S, E>) -> Result<(), No> {
        let given = write.release.map(|it| (it.item, it.claim));
        let Some((work_item, claim)) = write.lease.map(|it| (it.item, it.claim)).or(given) else {
            return Ok(());
        };
        let newest = self.entry_mut(work_item).map(|it| it.fence);
        if newest == Some(claim.fence) { Ok(()) } else { Err(No::Conflict) }
    }

    fn used(&self, scope: &Scope, key: &Key) -> Option<Used> {
        let used = self.keys.get(&(scope.clone(), key.clone()));
        used.filter(|it| self.now < it.expires_at).cloned()
    }

    /// The due work items, the longest due first.
    fn due(&mut self) -> Vec<store::Item> {
        let mut due: Vec<(Timestamp, store::Item)> = vec![];
        for work_item in self.store.items() {
            let now = self.now;
            let entry = self.store.entry(work_item).filter(|it| !it.is_leased(now) && !it.parked);
            let at = entry.and_then(|it| it.due).filter(|at| *at <= now);
            due.extend(at.map(|at| (at, work_item)));
        }
        due.sort_by_key(|it| it.0);
        due.into_iter().map(|it| it.1).collect()
    }
}

impl Port for Memory {
    fn ids(&self) -> TestIds {
        ids()
    }

    fn now(&mut self) -> Timestamp {
        self.now
    }

    fn pass(&mut self, span: Duration) {
        self.now = self.now.after(span);
    }

    fn spoil(&mut self, resource: ResourceId) {
        self.spoilt.insert(resource);
    }

    fn snapshot(&mut self, command: &Provision, key: Option<(Scope, Key)>) -> Result<Snapshot, No> {
        let views = self.store.views(command, MeshRole::Node).ok_or(No::Moved)?;
        let used = key.and_then(|(scope, key)| self.used(&scope, &key));
        Ok(Snapshot { views, used, now: self.now })
    }

    fn accept(&mut self, accepted: Accepted, key: Option<RememberedKey>) -> Result<(), No> {
        if key.as_ref().is_some_and(|it| self.used(&it.scope, &it.key).is_some()) {
            return Err(No::Moved);
        }
        let answer = accepted.resource.id().to_string();
        self.store.accept(accepted, self.now)?;
        if let Some(RememberedKey { scope, key, digest, keep }) = key {
            let expires_at = self.now.after(keep);
            self.keys.insert((scope, key), Used { digest, answer, expires_at });
        }
        Ok(())
    }

    fn claim_due(&mut self, count: u32) -> Result<Batch, No> {
        let now = self.now;
        let mut batch = Batch { now: Some(now), ..Batch::default() };
        for work_item in self.due().into_iter().take(count.try_into().unwrap_or(usize::MAX)) {
            let claim = self.store.entry(work_item).and_then(|it| it.claim(&PACE, Jitter(0), now));
            let Some(claim) = claim else { continue };
            let record = match work_item {
                store::Item::Config => Ok(Held::ProviderConfig(self.store.leased_config(now))),
                store::Item::Resource(i) => self
                    .resource(self.store.resources[i].record.state.id())
                    .map(|_| Held::Resource(Box::new(self.store.leased_resource(i, now)))),
                store::Item::Tombstone(i) => self
                    .resource(self.store.resources[i].record.state.id())
                    .map(|it| Held::Resource(Box::new(it))),
            };
            let work_item = self.work_item(work_item);
            if let Ok(record) = record {
                batch.leased.push(Leased { item: work_item, claim, record, now });
            } else {
                let what = work_item.to_string();
                self.postpone(work_item, claim, &Trouble::Corrupt { what: what.clone() })?;
                batch.parked.push((work_item, what));
            }
        }
        Ok(batch)
    }

    fn commit(&mut self, write: ResourceWrite) -> Result<(), No> {
        let index = self.index(write.next.id())?;
        self.keep_turn(&write)?;
        let ResourceWrite { version, next, rows, event, release, .. } = write;
        let release = release
            .and_then(|it| self.here(it.item).map(|work_item| (work_item, it.claim, it.wake)));
        let version = Some(version);
        let write = Write { version, next, rows: &rows, event, promised: None, breakage: None };
        self.store.commit(index, write, (None, release), self.now).map_err(|_| No::Conflict)
    }

    fn commit_config(&mut self, write: ConfigWrite) -> Result<(), No> {
        self.keep_turn(&write)?;
        self.store.commit_config(write, self.now).map_err(|_| No::Conflict)
    }

    fn release(&mut self, release: Release) -> Result<(), No> {
        let (now, Release { item: work_item, claim, wake, .. }) = (self.now, release);
        if let Some(entry) = self.entry_mut(work_item) {
            entry.release(&claim, wake, now);
        }
        Ok(())
    }

    fn postpone(&mut self, work_item: WorkItem, claim: Claim, trouble: &Trouble) -> Result<(), No> {
        let now = self.now;
        if let Some(entry) = self.entry_mut(work_item) {
            entry.postpone(&claim, trouble, &PACE, (Jitter(0), now));
        }
        Ok(())
    }

    fn wake(&mut self, work_item: WorkItem) -> Result<bool, No> {
        let now = self.now;
        Ok(self.entry_mut(work_item).map(|entry| entry.wake(now)).is_some())
    }

    fn wake_label(&mut self, resource: ResourceId) -> Result<bool, No> {
        self.store.wake_by_label(&resource.to_string(), self.now);
        Ok(self.store.index_of(resource).is_some())
    }

    fn wake_all(&mut self) -> Result<(), No> {
        self.store.wake_all(self.now);
        Ok(())
    }

    fn order(&mut self, resource: ResourceId, order: Command) -> Result<Resource, No> {
        let index = self.index(resource)?;
        self.store.order(index, &order, self.now)?;
        Ok(self.store.resources[index].record.state.clone())
    }

    fn issue(&mut self, resource: ResourceId, generation: Generation) -> Result<(), No> {
        let index = self.index(resource)?;
        self.store.issue(index, generation, None, self.now)
    }

    fn redeem(&mut self, request: &Request) -> Result<Outcome, No> {
        Ok(self.store.redeem(request, 0, None, self.now))
    }

    fn move_peer(&mut self, before: &Peer, after: &Peer) -> Result<(), No> {
        let place = self.store.peers.iter().position(|it| it.peer == *before);
        self.store.move_peer(place.ok_or(No::Conflict)?, after, self.now);
        Ok(())
    }

    fn resource(&mut self, id: ResourceId) -> Result<Record<Resource>, No> {
        let index = self.index(id)?;
        Ok(self.store.resources[index].record.clone())
    }

    fn config(&mut self, _: ProviderConfigId) -> Result<Record<ProviderConfig>, No> {
        Ok(self.store.config.record.clone())
    }

    fn entry(&mut self, work_item: WorkItem) -> Result<Option<Entry>, No> {
        Ok(self.entry_mut(work_item).cloned())
    }

    fn tokens(&mut self, resource: ResourceId) -> Result<Vec<Token>, No> {
        let index = self.index(resource)?;
        let mine = self.store.tokens.values().filter(|it| it.resource == index);
        let mut mine: Vec<Token> = mine.map(|it| it.token.clone()).collect();
        mine.sort_by_key(|it| it.generation);
        Ok(mine)
    }

    fn peers(&mut self, resource: ResourceId) -> Result<Vec<Peer>, No> {
        let index = self.index(resource)?;
        let mine = self.store.peers.iter().filter(|it| it.resource == index);
        Ok(mine.map(|it| it.peer.clone()).collect())
    }

    fn events(&mut self, after: Option<&str>, count: u32) -> Result<Vec<ReadEvents>, No> {
        let after = after.map_or(Ok(0), str::parse).unwrap_or(u64::MAX);
        let rows = self.store.events.iter().filter(|it| it.number > after);
        let read = |row: &store::EventRow| ReadEvents {
            place: row.number.to_string(),
            resource: self.store.resources[row.resource].record.state.id(),
            version: row.version,
            generation: row.generation,
            event: row.event.clone(),
        };
        Ok(rows.take(count.try_into().unwrap_or(usize::MAX)).map(read).collect())
    }
}
