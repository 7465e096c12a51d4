//! A real store as the simulation's port.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use usher_domain::broker::accept::{Accepted, Provision};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::{Event, EventType, Outcome as End};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_domain::object::idempotency::{Key, Scope};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Lifetime, Outcome, Request, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Record, Timestamp, Trouble};
use usher_sim::contract::port::{No, Port, ReadEvents, TestIds};
use usher_store::{
    Acceptance, Batch, Command, ConfigWrite, Cursor, Error, Release, RememberedKey, ResourceWrite,
    Snapshot, Store, WorkItem,
};

use crate::declare::server_key;
use crate::simulated::FaultPhase;
use crate::test_store::{self, of_resource, read_events};

/// A store, and the runtime it waits with.
pub(crate) struct Real {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<Store>,
    pub(crate) ids: TestIds,
    /// The database, for changes that bypass the store.
    pub(crate) database: Arc<test_store::TestDatabase>,
    /// The faults of its commits, in a simulated run.
    pub(crate) faults: Option<FaultPhase>,
}

/// What the store's refusal means to a simulation.
pub(crate) fn no(error: &Error) -> No {
    match error {
        Error::Conflict => No::Conflict,
        Error::ViewsMoved { .. } => No::Moved,
        Error::Leaving { .. } => No::Leaving,
        Error::Refused(refusal) => No::Refused(refusal.code()),
        Error::Corrupt { .. } => No::Corrupt,
        Error::NotFound { .. }
        | Error::FleetRefused(_)
        | Error::LeaseLost { .. }
        | Error::Served { .. }
        | Error::Taken { .. }
        | Error::Held { .. }
        | Error::Forgotten { .. }
        | Error::OutcomeUnknown { .. }
        | Error::Full { .. }
        | Error::ReadOnly { .. }
        | Error::InUse { .. }
        | Error::File { .. }
        | Error::Schema(_)
        | Error::Closed
        | Error::Database { .. } => No::Unavailable(format!("{error:?}")),
    }
}

fn row(it: &usher_store::LoggedEvent) -> ReadEvents {
    let text = |key: &str| it.data.get(key).and_then(|it| it.as_str()).unwrap_or_default();
    let event = match of_resource(it).2 {
        EventType::Requested => Event::Requested,
        EventType::Ready => Event::Ready,
        EventType::Deleting => Event::Deleting,
        EventType::Failed => Event::Failed { message: text("message").to_owned() },
        EventType::Deleted => {
            let outcome = if text("outcome") == End::Removed.as_str() {
                End::Removed
            } else {
                End::Abandoned
            };
            Event::Deleted { outcome }
        }
    };
    let generation = it.data["generation"].as_u64().unwrap();
    ReadEvents {
        place: it.cursor.to_string(),
        resource: of_resource(it).0,
        version: it.version,
        generation: Generation(u32::try_from(generation).unwrap()),
        event,
    }
}

impl Real {
    pub(crate) fn run<T>(&self, verb: impl Future<Output = Result<T, Error>>) -> Result<T, No> {
        self.runtime.block_on(verb).map_err(|error| no(&error))
    }

    fn execute(&self, sql: &str) {
        self.runtime.block_on(self.database.execute(sql));
    }
}

impl Port for Real {
    fn ids(&self) -> TestIds {
        self.ids
    }

    fn now(&mut self) -> Timestamp {
        if self.faults.is_some() {
            return FaultPhase::now();
        }
        self.run(self.store.now()).unwrap()
    }

    /// Whatever is in the future is nearer by so much, and whatever is past is longer ago. In a
    /// simulated run the time does pass.
    fn pass(&mut self, span: Duration) {
        if let Some(faults) = &mut self.faults {
            faults.wait(span);
            return;
        }
        let span = if self.database.is_postgres() {
            format!("interval '{} microseconds'", span.as_micros())
        } else {
            span.as_micros().to_string()
        };
        self.execute(&format!(
            "UPDATE queue SET due = due - {span}, lease_until = lease_until - {span},
                unreturned_until = unreturned_until - {span};
            UPDATE idempotency_keys SET expires_at = expires_at - {span}"
        ));
    }

    fn spoil(&mut self, resource: ResourceId) {
        let id = self.database.id(resource);
        self.execute(&format!("UPDATE resources SET xr_name = 'another' WHERE id = {id}"));
    }

    fn snapshot(&mut self, command: &Provision, key: Option<(Scope, Key)>) -> Result<Snapshot, No> {
        self.run(self.store.snapshot(command, key))
    }

    fn accept(&mut self, accepted: Accepted, key: Option<RememberedKey>) -> Result<(), No> {
        self.run(self.store.accept(Acceptance { accepted, audit: None, key }))
    }

    fn claim_due(&mut self, count: u32) -> Result<Batch, No> {
        self.run(self.store.claim_due(count))
    }

    fn commit(&mut self, write: ResourceWrite) -> Result<(), No> {
        let write = self.bent(write);
        self.risk(async |store: &Store| store.commit(write).await)
    }

    fn commit_config(&mut self, write: ConfigWrite) -> Result<(), No> {
        self.risk(async |store: &Store| store.commit_config(write).await)
    }

    fn release(&mut self, release: Release) -> Result<(), No> {
        self.run(self.store.release(release)).map(drop)
    }

    fn postpone(&mut self, item: WorkItem, claim: Claim, trouble: &Trouble) -> Result<(), No> {
        self.run(self.store.postpone(item, claim, trouble.clone(), None)).map(drop)
    }

    fn wake(&mut self, item: WorkItem) -> Result<bool, No> {
        self.run(self.store.wake(item))
    }

    fn wake_label(&mut self, resource: ResourceId) -> Result<bool, No> {
        self.run(self.store.wake_labels(vec![*resource.as_uuid()])).map(|woken| woken > 0)
    }

    fn wake_all(&mut self) -> Result<(), No> {
        self.run(self.store.wake_all()).map(|_| ())
    }

    fn order(&mut self, resource: ResourceId, command: Command) -> Result<Resource, No> {
        self.run(self.store.command(resource, command, None)).map(|(resource, _)| resource)
    }

    fn issue(&mut self, resource: ResourceId, generation: Generation) -> Result<(), No> {
        self.run(self.store.issue(server_key(), resource, generation, Lifetime::default()))
    }

    fn redeem(&mut self, request: &Request) -> Result<Outcome, No> {
        self.run(self.store.redeem(request.clone()))
    }

    fn move_peer(&mut self, before: &Peer, after: &Peer) -> Result<(), No> {
        self.run(self.store.move_peer(before.clone(), after.clone()))
    }

    fn resource(&mut self, id: ResourceId) -> Result<Record<Resource>, No> {
        self.run(self.store.resource(id))
    }

    fn config(&mut self, id: ProviderConfigId) -> Result<Record<ProviderConfig>, No> {
        self.run(self.store.provider_config(id))
    }

    fn entry(&mut self, item: WorkItem) -> Result<Option<Entry>, No> {
        self.run(self.store.entry(item))
    }

    fn tokens(&mut self, resource: ResourceId) -> Result<Vec<Token>, No> {
        self.run(self.store.tokens(resource))
    }

    fn peers(&mut self, resource: ResourceId) -> Result<Vec<Peer>, No> {
        self.run(self.store.peers(resource))
    }

    fn events(&mut self, after: Option<&str>, count: u32) -> Result<Vec<ReadEvents>, No> {
        let after = after.map_or(Cursor::START, |it| it.parse().unwrap());
        if self.database.is_postgres() {
            // Another transaction may delay a row; a later read finds it.
            let wanted = self.count_after(after);
            self.runtime.block_on(read_events(&self.store, after, wanted));
        }
        let rows = self.run(self.store.events(after, count))?;
        Ok(rows.iter().map(row).collect())
    }
}

impl Real {
    /// How many rows are committed after a place.
    fn count_after(&self, after: Cursor) -> usize {
        let Cursor { epoch, transaction, seq } = after;
        let sql = format!(
            "SELECT count(*) FROM events
            WHERE (epoch, xid, seq) > ({epoch}, '{transaction}'::xid8, {seq})"
        );
        let count = self.runtime.block_on(self.database.number(&sql));
        usize::try_from(count).unwrap()
    }
}
