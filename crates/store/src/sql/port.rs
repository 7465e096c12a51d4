//! The port: every verb of the store, one transaction or one read each.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use usher_domain::broker::accept::Provision;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::provider_config::ProviderConfig;
use usher_domain::idempotency;
use usher_domain::object::id::{ProviderConfigId, ResourceId, TokenId};
use usher_domain::peers::Peer;
use usher_domain::tokens::{Lifetime, ServerKey, Token};
use usher_kernel::schedule::{Claim, Entry};
use usher_kernel::{Generation, Record, Timestamp, Trouble, Version};
use uuid::Uuid;

use super::super::{Conn, Db, Door, HELD_BACK};
use super::accept::Declared;
use super::commit::Step;
use super::fleet::machines;
use super::gather::Gather;
use super::siblings::operators;
use super::{claim, commit, enrolment, events, peers, queue, record, sinks, snapshot};
use crate::error::{Doing as _, Error};
use crate::handover::Handover;
use crate::jitter;
use crate::life::Life;
use crate::port::{Batch, ConfigWrite, Cursor, Installation, Release, Snapshot, Told};
use crate::retention::{Retention, Swept};
use crate::settings::Settings;
use crate::signal::Signals;
use crate::turn::Turns;

/// A store on one of the two databases.
#[derive(Debug)]
pub(crate) struct Port {
    pub(crate) door: Door,
    pub(crate) settings: Settings,
    pub(crate) installation: Installation,
    pub(crate) signals: Arc<Signals>,
    pub(crate) handover: Handover,
    pub(crate) turns: Arc<Turns>,
    /// Whether the last claim found somebody.
    busy: AtomicBool,
    pub(super) accepts: Arc<Gather<Declared>>,
    pub(super) commits: Arc<Gather<Step>>,
}

impl Port {
    pub(crate) fn new(door: Door, settings: Settings, installation: Installation) -> Self {
        Self {
            accepts: Gather::new(settings.group_max),
            commits: Gather::new(settings.group_max),
            door,
            settings,
            installation,
            signals: Arc::default(),
            handover: Handover::default(),
            turns: Arc::default(),
            busy: AtomicBool::new(false),
        }
    }

    pub(crate) async fn snapshot(
        &self,
        command: &Provision,
        key: Option<(idempotency::Scope, idempotency::Key)>,
    ) -> Result<Snapshot, Error> {
        let named = snapshot::Named {
            name: command.name.clone(),
            project: command.project,
            blueprint_version: command.blueprint_version,
            credential: command.credential,
            key,
        };
        snapshot::read(&mut *self.door.read().await?, &named).await
    }

    pub(crate) async fn claim_due(&self, count: u32) -> Result<Batch, Error> {
        // At rest a look is enough; where there was work a moment ago there likely is more.
        if !self.busy.load(Ordering::Relaxed)
            && !claim::is_due(&mut *self.door.read().await?).await?
        {
            return Ok(Batch::default());
        }
        let (pace, bound) = (self.settings.pace, self.settings.request_bound);
        let claimed = self
            .door
            .write(move |conn| {
                Box::pin(async move { claim::claim(conn, count, (&pace, bound)).await })
            })
            .await;
        let busy = claimed.as_ref().is_ok_and(|it| !it.leased.is_empty());
        self.busy.store(busy, Ordering::Relaxed);
        claimed
    }

    pub(crate) async fn commit_config(&self, write: ConfigWrite) -> Result<(), Error> {
        let write_id = Uuid::now_v7();
        let (id, version) = (*write.next.id.as_uuid(), write.version);
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move { commit::config(conn, &write, write_id).await })
            })
            .await;
        self.stir(&written);
        self.known(written, (id, version), write_id).await
    }

    /// Whether the lease was its own still.
    pub(crate) async fn release(&self, release: Release) -> Result<bool, Error> {
        let given = self
            .door
            .write_one(move |conn| Box::pin(async move { queue::release(conn, &[&release]).await }))
            .await;
        if given.as_ref().map_or(true, |it| it.due) {
            self.stir(&given);
        }
        Ok(given?.count > 0)
    }

    pub(crate) async fn give_back(&self, life: Life, claim: Claim) -> Result<bool, Error> {
        let given = self.door.write_one(move |conn| Box::pin(queue::give_back(conn, life, claim)));
        self.stirring(given.await)
    }

    /// Whether the lease was its own still.
    pub(crate) async fn postpone(
        &self,
        life: Life,
        claim: Claim,
        trouble: Trouble,
    ) -> Result<bool, Error> {
        let (pace, jitter) = (self.settings.pace, jitter());
        let written = self
            .door
            .write(move |conn| {
                Box::pin(async move {
                    queue::postpone(conn, (life, claim), &trouble, (&pace, jitter)).await
                })
            })
            .await;
        // It may be due at once.
        self.stirring(written)
    }

    pub(crate) async fn wake(&self, life: Life) -> Result<bool, Error> {
        self.stirring(self.door.write_one(move |conn| Box::pin(queue::wake(conn, life))).await)
    }

    pub(crate) async fn wake_labels(&self, ids: Vec<Uuid>) -> Result<u64, Error> {
        let written =
            self.door.write_one(move |conn| Box::pin(queue::wake_labels(conn, ids.clone()))).await;
        self.stirring(written)
    }

    pub(crate) async fn wake_all(&self) -> Result<u64, Error> {
        self.stirring(self.door.write(move |conn| Box::pin(queue::wake_all(conn))).await)
    }

    pub(crate) async fn entry(&self, life: Life) -> Result<Option<Entry>, Error> {
        let row = queue::entry(&mut *self.door.read().await?, life, false).await?;
        Ok(row.map(|it| it.entry()))
    }

    pub(crate) async fn issue(
        &self,
        key: ServerKey,
        resource: ResourceId,
        generation: Generation,
        lifetime: Lifetime,
    ) -> Result<(), Error> {
        self.door
            .write(move |conn| {
                Box::pin(async move {
                    enrolment::issue(conn, &key, (resource, generation), lifetime).await
                })
            })
            .await
    }

    /// As [`Port::move_peer`], and wakes nobody. If it is sent twice the second one is a conflict,
    /// after which the driver looks again.
    pub(crate) async fn move_own_peer(&self, before: Peer, after: Peer) -> Result<(), Error> {
        let moved = Arc::new((before, after));
        self.door
            .write_one(move |conn| {
                let moved = Arc::clone(&moved);
                Box::pin(async move { peers::move_on(conn, &moved.0, &moved.1).await })
            })
            .await
    }

    pub(crate) async fn token(&self, id: TokenId) -> Result<Option<Token>, Error> {
        enrolment::token(&mut *self.door.read().await?, id, false).await
    }

    pub(crate) async fn tokens(&self, resource: ResourceId) -> Result<Vec<Token>, Error> {
        enrolment::tokens(&mut *self.door.read().await?, resource).await
    }

    pub(crate) async fn peers(&self, resource: ResourceId) -> Result<Vec<Peer>, Error> {
        peers::of_resource(&mut *self.door.read().await?, resource).await
    }

    pub(crate) async fn events(&self, after: Cursor, count: u32) -> Result<Vec<Told>, Error> {
        events::read(&mut *self.door.read().await?, after, count).await
    }

    pub(crate) async fn forget_events(
        &self,
        older_than: Timestamp,
        count: u32,
    ) -> Result<u64, Error> {
        self.door.write(move |conn| Box::pin(events::forget(conn, older_than, count))).await
    }

    pub(crate) async fn is_held_back(&self, after: Cursor) -> Result<bool, Error> {
        if HELD_BACK.is_none() {
            return Ok(false);
        }
        events::is_held_back(&mut *self.door.read().await?, after).await
    }

    pub(crate) async fn log_end(&self) -> Result<Cursor, Error> {
        sinks::end(&mut *self.door.read().await?).await
    }

    /// Looks before it writes: at rest there is no transaction.
    pub(crate) async fn sweep(&self, retention: Retention) -> Result<Swept, Error> {
        let Retention { events: kept, batch, .. } = retention;
        let (old, has_old_keys, has_old_machines) = {
            let conn = &mut *self.door.read().await?;
            let now = record::now(conn).await?;
            let old = events::old(conn, before(now, kept), batch).await?;
            let has_old_machines = machines::has_forgotten(conn).await?;
            (old, operators::has_old_keys(conn).await?, has_old_machines)
        };
        let mut swept = Swept { held_by: old.held_by, ..Swept::default() };
        if old.rows > 0 {
            swept.events = self
                .door
                .write(move |conn| {
                    Box::pin(async move {
                        let now = record::now(conn).await?;
                        events::forget(conn, before(now, kept), batch).await
                    })
                })
                .await?;
        }
        if has_old_keys {
            swept.keys = self.forget_keys(batch).await?;
        }
        if has_old_machines {
            let forget = self.door.write(move |conn| Box::pin(machines::forget(conn, batch)));
            swept.machines = forget.await?;
        }
        let most = swept.events.max(swept.keys).max(swept.machines);
        swept.more = most >= u64::from(batch);
        Ok(swept)
    }

    pub(crate) async fn resource(&self, id: ResourceId) -> Result<Record<Resource>, Error> {
        record::resource(&mut *self.door.read().await?, id).await
    }

    pub(crate) async fn provider_config(
        &self,
        id: ProviderConfigId,
    ) -> Result<Record<ProviderConfig>, Error> {
        record::config(&mut *self.door.read().await?, id).await
    }

    pub(crate) async fn now(&self) -> Result<Timestamp, Error> {
        record::now(&mut *self.door.read().await?).await
    }

    pub(crate) async fn put_away(
        &self,
        id: ResourceId,
        claim: Claim,
        keep: Duration,
    ) -> Result<bool, Error> {
        self.door.write(move |conn| Box::pin(commit::put_away(conn, (id, claim), keep))).await
    }

    pub(crate) async fn close(&self) {
        self.door.close().await;
    }

    /// Wakes whoever follows the log, unless it is certain that nothing was told.
    pub(crate) fn tell<T>(&self, written: &Result<T, Error>) {
        self.signals.tell_of(written);
    }

    /// Wakes whoever waits for work, unless it is certain that nobody became due.
    pub(crate) fn stir<T>(&self, written: &Result<T, Error>) {
        self.signals.stir_of(written);
    }

    pub(crate) fn stirring<T>(&self, written: Result<T, Error>) -> Result<T, Error> {
        self.stir(&written);
        written
    }

    /// What became of a commit whose answer was lost: the row says it, once nobody holds it.
    pub(super) async fn known(
        &self,
        written: Result<(), Error>,
        (id, version): (Uuid, Version),
        write_id: Uuid,
    ) -> Result<(), Error> {
        let source = match written {
            Err(Error::OutcomeUnknown { source }) => source,
            other => return other,
        };
        match self.written(id).await? {
            Some((_, by)) if by == write_id => Ok(()),
            Some((found, _)) if found == version => Err(Error::new("commit", source)),
            Some(_) | None => Err(Error::Conflict),
        }
    }

    /// The version of a life and the write that made it. A commit that is still under way holds
    /// the row, so that this waits for its end.
    pub(super) async fn written(&self, id: Uuid) -> Result<Option<(Version, Uuid)>, Error> {
        let sql = concat!("SELECT version, write_id FROM lives WHERE id = $1", lock!());
        let mut conn = self.door.read().await?;
        let conn: &mut Conn = &mut conn;
        let found = sqlx::query_as::<Db, (i64, Uuid)>(sql)
            .bind(id)
            .fetch_optional(conn)
            .await
            .doing("ask what became of a commit")?;
        Ok(found.map(|(version, by)| (Version(version.unsigned_abs()), by)))
    }
}

/// So long before a time.
fn before(now: Timestamp, span: Duration) -> Timestamp {
    let micros = i64::try_from(span.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_micros(now.as_micros().saturating_sub(micros))
}
