//! A real store as the simulation's port.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Runtime;
use usher_domain::broker::accept::{Accepted, Provision};
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::{Event, EventType, Outcome as End};
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::idempotency::{Key, Scope};
use usher_domain::object::id::{ProviderConfigId, ResourceId};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Lifetime, Outcome, Request, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Record, Timestamp, Trouble};
use usher_sim::contract::port::{
    Batch, Commit, Ground, Held, Leased, Life, No, Order, Port, Release, Remembered, Snapshot, Told,
};
use usher_store::{
    Acceptance, ConfigWrite, Cursor, Error, RememberedKey, ResourceWrite, Stay, Store,
};

use crate::declare::server_key;
use crate::simulated::Storm;
use crate::test_store::{self, of_resource, told};

/// A store, and the runtime it waits with.
pub(crate) struct Real {
    pub(crate) runtime: Arc<Runtime>,
    pub(crate) store: Arc<Store>,
    pub(crate) ground: Ground,
    /// The database, for hands that reach in from outside.
    pub(crate) database: Arc<test_store::TestDatabase>,
    /// What befalls its commits, in a simulated life.
    pub(crate) storm: Option<Storm>,
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

pub(crate) const fn life(life: Life) -> usher_store::WorkItem {
    match life {
        Life::Resource(id) => usher_store::WorkItem::Resource(id),
        Life::Tombstone(id) => usher_store::WorkItem::Tombstone(id),
        Life::Config(id) => usher_store::WorkItem::ProviderConfig(id),
    }
}

const fn life_of(life: usher_store::WorkItem) -> Life {
    match life {
        usher_store::WorkItem::Resource(id) => Life::Resource(id),
        usher_store::WorkItem::Tombstone(id) => Life::Tombstone(id),
        usher_store::WorkItem::ProviderConfig(id) => Life::Config(id),
    }
}

pub(crate) const fn release(it: Release) -> usher_store::Release {
    usher_store::Release {
        item: life(it.life),
        claim: it.claim,
        wake: it.wake,
        reason: reason(it.life),
    }
}

const fn reason(life: Life) -> &'static str {
    match life {
        Life::Resource(_) | Life::Config(_) => "AsDeclared",
        Life::Tombstone(_) => "NothingReturned",
    }
}

const fn stay(it: Life, claim: Claim) -> Stay {
    Stay { item: life(it), claim, reason: reason(it), finished: false }
}

pub(crate) fn resource_write(write: Commit<Resource>) -> ResourceWrite {
    let Commit { version, before, next, rows, event, lease: held, release: given } = write;
    let lease = held.map(|(it, claim)| stay(it, claim));
    ResourceWrite { version, before, next, rows, event, lease, release: given.map(release) }
}

pub(crate) fn config_write(write: Commit<ProviderConfig>) -> ConfigWrite {
    let Commit { version, before, next, rows, lease: held, release: given, event: _ } = write;
    let lease = held.map(|(it, claim)| stay(it, claim));
    ConfigWrite { version, before, next, rows, lease, release: given.map(release) }
}

fn leased(it: usher_store::Leased) -> Leased {
    let record = match it.record {
        usher_store::Held::Resource(record) => Held::Resource(record),
        usher_store::Held::ProviderConfig(record) => Held::Config(Box::new(record)),
    };
    Leased { life: life_of(it.item), claim: it.claim, record, now: it.now }
}

fn row(it: &usher_store::LoggedEvent) -> Told {
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
    Told {
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
    fn ground(&self) -> Ground {
        self.ground
    }

    fn now(&mut self) -> Timestamp {
        if self.storm.is_some() {
            return Storm::now();
        }
        self.run(self.store.now()).unwrap()
    }

    /// Whatever is in the future is nearer by so much, and whatever is past is longer ago. In a
    /// simulated life the time does pass.
    fn pass(&mut self, span: Duration) {
        if let Some(storm) = &mut self.storm {
            storm.wait(span);
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
        let usher_store::Snapshot { views, used, now } =
            self.run(self.store.snapshot(command, key))?;
        Ok(Snapshot { views, used, now })
    }

    fn accept(&mut self, accepted: Accepted, key: Option<Remembered>) -> Result<(), No> {
        let key = key.map(|it| RememberedKey {
            scope: it.scope,
            key: it.key,
            digest: it.digest,
            keep: it.keep,
        });
        self.run(self.store.accept(Acceptance { accepted, audit: None, key }))
    }

    fn claim_due(&mut self, count: u32) -> Result<Batch, No> {
        let batch = self.run(self.store.claim_due(count))?;
        Ok(Batch {
            leased: batch.leased.into_iter().map(leased).collect(),
            parked: batch.parked.into_iter().map(|it| life_of(it.0)).collect(),
        })
    }

    fn commit(&mut self, write: Commit<Resource>) -> Result<(), No> {
        let write = self.bent(resource_write(write));
        self.risk(async |store: &Store| store.commit(write).await)
    }

    fn commit_config(&mut self, write: Commit<ProviderConfig>) -> Result<(), No> {
        self.risk(async |store: &Store| store.commit_config(config_write(write)).await)
    }

    fn release(&mut self, it: Release) -> Result<(), No> {
        self.run(self.store.release(release(it))).map(drop)
    }

    fn postpone(&mut self, it: Life, claim: Claim, trouble: &Trouble) -> Result<(), No> {
        self.run(self.store.postpone(life(it), claim, trouble.clone())).map(drop)
    }

    fn wake(&mut self, it: Life) -> Result<bool, No> {
        self.run(self.store.wake(life(it)))
    }

    fn wake_label(&mut self, resource: ResourceId) -> Result<bool, No> {
        self.run(self.store.wake_labels(vec![*resource.as_uuid()])).map(|woken| woken > 0)
    }

    fn wake_all(&mut self) -> Result<(), No> {
        self.run(self.store.wake_all()).map(|_| ())
    }

    fn order(&mut self, resource: ResourceId, order: Order) -> Result<Resource, No> {
        let by = "admin".to_owned();
        let order = match order {
            Order::Deprovision => usher_store::Command::Deprovision,
            Order::Replace => usher_store::Command::Replace,
            Order::Abandon => usher_store::Command::Abandon { by, reason: "given up".to_owned() },
            Order::Reap => usher_store::Command::Reap { by },
            Order::Retry => usher_store::Command::Retry,
        };
        self.run(self.store.command(resource, order, None)).map(|(resource, _)| resource)
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

    fn entry(&mut self, it: Life) -> Result<Option<Entry>, No> {
        self.run(self.store.entry(life(it)))
    }

    fn tokens(&mut self, resource: ResourceId) -> Result<Vec<Token>, No> {
        self.run(self.store.tokens(resource))
    }

    fn peers(&mut self, resource: ResourceId) -> Result<Vec<Peer>, No> {
        self.run(self.store.peers(resource))
    }

    fn events(&mut self, after: Option<&str>, count: u32) -> Result<Vec<Told>, No> {
        let after = after.map_or(Cursor::START, |it| it.parse().unwrap());
        if self.database.is_postgres() {
            // Somebody else's transaction may delay a row; whoever reads again finds it.
            let wanted = self.count_after(after);
            self.runtime.block_on(told(&self.store, after, wanted));
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
