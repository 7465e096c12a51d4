//! The store: the port, all of it, on whichever database it was opened.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::Semaphore;
use usher_domain::audit;
use usher_domain::broker::accept::Provision;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::idempotency;
use usher_domain::object::id::{ProviderConfigId, ResourceId, TokenId};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Lifetime, Outcome, Request, ServerKey, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Book, Generation, Record, Timestamp, Trouble, Version};
use uuid::Uuid;

use crate::error::Error;
use crate::follow::Follower;
use crate::handover::{Clock, Handing};
use crate::life::Life;
use crate::migrate::{Progress, Status, Way};
use crate::port::{
    Acceptance, Batch, ConfigWrite, Cursor, Installation, Order, Release, ResourceWrite, Snapshot,
    Told,
};
use crate::retention::{Retention, Swept};
use crate::settings::{Place, Settings};
use crate::signal::{Signal, Signals};
use crate::turn::Turns;
use crate::{postgres, sqlite};

/// The durable side of the kernel's ledger.
#[derive(Debug)]
pub struct Store {
    pub(crate) inner: Inner,
}

#[derive(Debug)]
pub(crate) enum Inner {
    Postgres(postgres::sql::port::Port),
    Sqlite(sqlite::sql::port::Port),
}

/// Declares verbs that both databases have.
macro_rules! verbs {
    ($($(#[$doc:meta])* fn $name:ident($($arg:ident: $kind:ty),*) -> $answer:ty;)+) => {
        impl Store {$(
            $(#[$doc])*
            pub async fn $name(&self, $($arg: $kind),*) -> $answer {
                match &self.inner {
                    Inner::Postgres(port) => port.$name($($arg),*).await,
                    Inner::Sqlite(port) => port.$name($($arg),*).await,
                }
            }
        )+}
    };
}
pub(crate) use verbs;

impl Store {
    /// Opens a store whose schema is the one of this program.
    pub async fn open(place: &Place, settings: Settings) -> Result<Self, Error> {
        let inner = match place {
            Place::Postgres(url) => Inner::Postgres(postgres::open(url, settings).await?),
            Place::Sqlite(path) => Inner::Sqlite(sqlite::open(path, settings).await?),
        };
        Ok(Self { inner })
    }

    /// Brings a schema up or down, or looks where it is.
    pub async fn migrate(place: &Place, way: Way) -> Result<Status, Error> {
        Self::migrate_telling(place, way, &mut |_| {}).await
    }

    /// As [`Store::migrate`], and tells of every step.
    pub async fn migrate_telling(
        place: &Place,
        way: Way,
        progress: &mut Progress<'_>,
    ) -> Result<Status, Error> {
        match place {
            Place::Postgres(url) => postgres::migrate(url, way, progress).await,
            Place::Sqlite(path) => sqlite::migrate(path, way, progress).await,
        }
    }

    /// Which installation this is.
    pub const fn installation(&self) -> Installation {
        match &self.inner {
            Inner::Postgres(port) => port.installation,
            Inner::Sqlite(port) => port.installation,
        }
    }
}

impl Store {
    /// Follows the log after a place; the one reader of everything that waits for events.
    pub fn follow(&self, after: Cursor) -> Follower<'_> {
        Follower::new(self, after)
    }

    /// Sees from now on when this process's own writes make somebody due. What others write, and
    /// what becomes due by time, is found by [`Store::claim_due`] only.
    pub fn due(&self) -> Signal {
        self.signals().due()
    }

    /// From now on a life that this process wakes is leased by the same write and handed to the
    /// caller, while there are seats.
    pub fn take_over(&self, seats: Arc<Semaphore>, clock: Clock) -> Handing {
        match &self.inner {
            Inner::Postgres(port) => port.handover.begin(seats, clock),
            Inner::Sqlite(port) => port.handover.begin(seats, clock),
        }
    }

    /// How many writes this process has asked for.
    pub fn writes(&self) -> u64 {
        match &self.inner {
            Inner::Postgres(port) => port.door.writes.load(Ordering::Relaxed),
            Inner::Sqlite(port) => port.door.writes.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn turns(&self) -> &Turns {
        match &self.inner {
            Inner::Postgres(port) => &port.turns,
            Inner::Sqlite(port) => &port.turns,
        }
    }

    /// Whether more are due than there are seats for those who are handed over.
    pub(crate) fn is_crowded(&self) -> bool {
        match &self.inner {
            Inner::Postgres(port) => port.handover.is_crowded(),
            Inner::Sqlite(port) => port.handover.is_crowded(),
        }
    }

    pub(crate) fn signals(&self) -> &Signals {
        match &self.inner {
            Inner::Postgres(port) => &port.signals,
            Inner::Sqlite(port) => &port.signals,
        }
    }

    /// Makes a life due now, also while somebody works on it; `false` if it is not in the queue.
    /// Whoever steps it in this very process is told without a write, and looks again.
    pub async fn wake(&self, life: Life) -> Result<bool, Error> {
        if self.turns().note(life) {
            return Ok(true);
        }
        match &self.inner {
            Inner::Postgres(port) => port.wake(life).await,
            Inner::Sqlite(port) => port.wake(life).await,
        }
    }

    /// Tells whoever steps a resource, or its tombstone, in this very process that there is
    /// something new to see; nobody else.
    pub fn nudge(&self, resource: ResourceId) {
        for life in Life::of(*resource.as_uuid()) {
            self.turns().note(life);
        }
    }

    /// Makes the lives of these ids due now, in one transaction: the tombstone of a deleted
    /// resource, else the life. How many are due. It is for changes outside: see the statement.
    pub async fn wake_labels(&self, mut ids: Vec<Uuid>) -> Result<u64, Error> {
        let asked = ids.len();
        ids.retain(|id| !Life::of(*id).into_iter().any(|life| self.turns().note(life)));
        let noted = u64::try_from(asked - ids.len()).unwrap_or(u64::MAX);
        if ids.is_empty() {
            return Ok(noted);
        }
        Ok(noted + self.write_wakes(ids).await?)
    }

    /// As [`Store::wake_labels`], whoever steps them: what was noted with a driver that does not
    /// look again goes to whoever looks after the id by now.
    pub(crate) async fn write_wakes(&self, ids: Vec<Uuid>) -> Result<u64, Error> {
        match &self.inner {
            Inner::Postgres(port) => port.wake_labels(ids).await,
            Inner::Sqlite(port) => port.wake_labels(ids).await,
        }
    }

    /// As [`Store::commit`], by one who knows the identity rows before it.
    pub(crate) async fn commit_with(
        &self,
        write: ResourceWrite,
        before: &Book,
    ) -> Result<(), Error> {
        match &self.inner {
            Inner::Postgres(port) => port.commit_with(write, Some(before)).await,
            Inner::Sqlite(port) => port.commit_with(write, Some(before)).await,
        }
    }

    /// Gives a lease back after trouble; `false` for whoever was overtaken, who changes nothing.
    pub async fn postpone(
        &self,
        life: Life,
        claim: Claim,
        trouble: Trouble,
    ) -> Result<bool, Error> {
        if self.turns().take_left(life) {
            self.write_wakes(vec![life.id()]).await?;
        }
        match &self.inner {
            Inner::Postgres(port) => port.postpone(life, claim, trouble).await,
            Inner::Sqlite(port) => port.postpone(life, claim, trouble).await,
        }
    }

    /// Whether other processes can have this store open.
    pub const fn is_shared(&self) -> bool {
        self.log_poll().is_some()
    }

    pub(crate) const fn linger(&self) -> Duration {
        match &self.inner {
            Inner::Postgres(port) => port.settings.linger,
            Inner::Sqlite(port) => port.settings.linger,
        }
    }

    /// How often to look for what other processes wrote, if there can be any.
    pub const fn log_poll(&self) -> Option<Duration> {
        match &self.inner {
            Inner::Postgres(port) => Some(port.settings.log_poll),
            Inner::Sqlite(_) => None,
        }
    }
}

verbs! {
    /// As [`Store::move_peer`], and wakes nobody: for whoever steps the peer's resource and sees
    /// to it that it looks again. If it dies before that, the end of its lease does.
    fn move_own_peer(before: Peer, after: Peer) -> Result<(), Error>;
    /// Reads everything a declaration is resolved against, in one snapshot.
    fn snapshot(
        command: &Provision, key: Option<(idempotency::Scope, idempotency::Key)>
    ) -> Result<Snapshot, Error>;
    /// Writes an accepted declaration: row, names, event, queue entry, one more user of the
    /// ProviderConfig, audit and idempotency key, in one transaction. If a view has moved since it
    /// was read, [`Error::ViewsMoved`]: take a new snapshot and decide again.
    fn accept(acceptance: Acceptance) -> Result<(), Error>;
    /// Leases up to so many due lives and reads their records; rows that break their own rules are
    /// parked.
    fn claim_due(count: u32) -> Result<Batch, Error>;
    /// Writes a step of a resource or its tombstone, if its version still holds.
    fn commit(write: ResourceWrite) -> Result<(), Error>;
    /// Writes a step of a ProviderConfig, if its version still holds.
    fn commit_config(write: ConfigWrite) -> Result<(), Error>;
    /// Gives a lease back after a step that changed nothing; `false` for whoever was overtaken, who
    /// changes nothing.
    fn release(release: Release) -> Result<bool, Error>;
    /// Gives a lease back that nobody worked under; the life is due then. `false` for whoever was
    /// overtaken.
    fn give_back(life: Life, claim: Claim) -> Result<bool, Error>;
    /// Makes every life due now, for what a watch may have missed.
    fn wake_all() -> Result<u64, Error>;
    /// Reads the entry of a life in the queue.
    fn entry(life: Life) -> Result<Option<Entry>, Error>;
    /// Carries out what a person orders about a resource, and wakes it; how it is then, and its
    /// version. It is noted in the resource's own project.
    fn order(
        id: ResourceId, order: Order, audit: Option<audit::Entry>
    ) -> Result<(Resource, Version), Error>;
    /// Issues the token of a generation, unless the resource is leaving; asking again changes
    /// nothing.
    fn issue(
        key: ServerKey, resource: ResourceId, generation: Generation, lifetime: Lifetime
    ) -> Result<(), Error>;
    /// Redeems a token and registers the peer it becomes, or says why not.
    fn redeem(request: Request) -> Result<Outcome, Error>;
    /// Reads a token.
    fn token(id: TokenId) -> Result<Option<Token>, Error>;
    /// Reads the tokens of a resource, oldest generation first.
    fn tokens(resource: ResourceId) -> Result<Vec<Token>, Error>;
    /// Reads the peers of a resource, oldest generation first.
    fn peers(resource: ResourceId) -> Result<Vec<Peer>, Error>;
    /// Reads what was told after a place in the log, in its order; nothing is ever skipped.
    fn events(after: Cursor, count: u32) -> Result<Vec<Told>, Error>;
    /// Whether something was told after a place that may not be read yet, because an open
    /// transaction could still come before it.
    fn is_held_back(after: Cursor) -> Result<bool, Error>;
    /// The last place of the log that can be read.
    fn log_end() -> Result<Cursor, Error>;
    /// Forgets one batch of what is old, and says whether there is more and who keeps it. There is
    /// no timer here: a worker calls it, again after [`Swept::next`].
    fn sweep(retention: Retention) -> Result<Swept, Error>;
    /// Forgets events from the beginning of the log that are older than this and were delivered to
    /// every sink, up to so many.
    fn forget_events(older_than: Timestamp, count: u32) -> Result<u64, Error>;
    /// Reads a resource with its identity rows.
    fn resource(id: ResourceId) -> Result<Record<Resource>, Error>;
    /// Reads a ProviderConfig with its identity rows.
    fn provider_config(id: ProviderConfigId) -> Result<Record<ProviderConfig>, Error>;
    /// The database's time.
    fn now() -> Result<Timestamp, Error>;
    /// Ends a tombstone that was kept long enough and has nothing left to watch; `false` if it has.
    fn put_away(id: ResourceId, claim: Claim, keep: Duration) -> Result<bool, Error>;
    /// Lets go of the connections.
    fn close() -> ();
}
