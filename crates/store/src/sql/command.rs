//! What a person orders: the row is held, the domain says what changes, it is written.

use std::time::Duration;

use usher_domain::audit;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::command::{self, Change, Outstanding};
use usher_domain::broker::event::Outcome;
use usher_domain::broker::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_kernel::{Record, Timestamp, Version};
use uuid::Uuid;

use super::super::{Conn, Db};
use super::queue::{EntryRow, Taking, Woken};
use super::{accept, claim, commit, queue, record};
use crate::error::{Doing as _, Error};
use crate::life::Life;
use crate::port::{Held, Leased, Order, ResourceWrite};

/// Carries an order out; the resource then, its version, and its lease if that is taken. Asking
/// again changes and tells nothing; the life is woken either way. The note of the order says the
/// resource's own project.
pub(crate) async fn carry_out(
    conn: &mut Conn,
    (id, order): (ResourceId, &Order),
    audit: Option<&audit::Entry>,
    (write_id, bound, taking): (Uuid, Duration, Option<Taking>),
) -> Result<Carried, Error> {
    let record = hold(conn, id, order).await?;
    let project = Some(record.state.fields().project);
    let audit = audit.map(|it| audit::Entry { project, ..it.clone() });
    let mut version = record.version;
    let life = awake(&record.state);
    let entry = queue::entry(conn, Life::Resource(id), true).await?;
    let now = match &entry {
        Some(entry) => entry.now.0,
        None => record::now(conn).await?,
    };
    let heard_until = entry.as_ref().and_then(|it| it.entry().heard_until());
    let outstanding = Outstanding { heard_until, request_bound: bound };
    let change = decide(conn, &record, order, (&outstanding, now)).await?;
    let next = change.next.clone();
    let book = record.book.with(&change.rows);
    let changes = change.next != record.state || !change.rows.is_empty() || change.event.is_some();
    if changes {
        commit::advance(conn, &[(*id.as_uuid(), record.version, write_id)]).await?;
        version = version.next();
        let write = ResourceWrite {
            version: record.version,
            before: record.state,
            next: change.next,
            rows: change.rows,
            event: change.event,
            lease: None,
            release: None,
        };
        commit::change_resources(conn, &[(&write, bound, None)]).await?;
    }
    if matches!(order, Order::Reap { .. }) {
        commit::bury(conn, &next, None).await?;
    }
    accept::note_order(conn, audit.as_ref()).await?;
    let woken = wake(conn, order, (life, awake(&next)), (entry, changes, taking)).await?;
    let Some(Woken::Taken(claim, heard_until)) = woken else { return Ok((next, version, None)) };
    let record = Record { version, state: next.clone(), book };
    let held = Held::Resource(Box::new(record));
    let leased = claim::leased((life, claim, heard_until), held, (now, bound));
    Ok((next, version, Some(leased)))
}

/// The resource after an order, its version, and its lease if that was taken.
pub(crate) type Carried = (Resource, Version, Option<Leased>);

/// Wakes whoever looks after the resource now. The lease of a life that goes on is taken as well,
/// if somebody takes it.
async fn wake(
    conn: &mut Conn,
    order: &Order,
    (before, after): (Life, Life),
    (entry, changes, taking): (Option<EntryRow>, bool, Option<Taking>),
) -> Result<Option<Woken>, Error> {
    let goes_on = before == after && matches!(before, Life::Resource(_));
    if let Some(entry) = entry.filter(|_| goes_on && *order != Order::Retry) {
        // The last step looked at something else than what is wanted now.
        return queue::wake_held(conn, (before, &entry), taking, changes).await.map(Some);
    }
    if changes {
        queue::forget_reason(conn, before).await?;
    }
    match order {
        Order::Retry => queue::unpark(conn, before).await?,
        Order::Deprovision | Order::Replace | Order::Abandon { .. } | Order::Reap { .. } => {
            queue::wake(conn, after).await?
        }
    };
    Ok(None)
}

/// Holds every row that the order may move, in the one order of locks, and reads the record.
async fn hold(conn: &mut Conn, id: ResourceId, order: &Order) -> Result<Record<Resource>, Error> {
    if record::lock(conn, *id.as_uuid()).await?.is_none() {
        return Err(record::missing_resource(id));
    }
    let record = record::resource(conn, id).await?;
    if matches!(order, Order::Abandon { .. }) {
        record::lock(conn, *record.state.pinned().provider_config.as_uuid()).await?;
    }
    Ok(record)
}

/// The life that looks after a resource.
fn awake(resource: &Resource) -> Life {
    let removed = resource.fields().outcome == Some(Outcome::Removed);
    if resource.phase() == Phase::Deleted && removed {
        Life::Tombstone(resource.id())
    } else {
        Life::Resource(resource.id())
    }
}

async fn decide(
    conn: &mut Conn,
    record: &Record<Resource>,
    order: &Order,
    (outstanding, now): (&Outstanding, Timestamp),
) -> Result<Change, Error> {
    let resource = &record.state;
    match order {
        Order::Deprovision => Ok(command::deprovision(resource, outstanding, now)),
        Order::Replace => command::replace(resource, outstanding, now).map_err(Error::Refused),
        Order::Abandon { by, reason } => {
            let registered = has_live_peer(conn, resource.id()).await?;
            command::abandon(record, registered, (by, reason), now).map_err(Error::Refused)
        }
        Order::Reap { by } => command::reap(record, by, now).map_err(Error::Refused),
        Order::Retry => Ok(Change { next: resource.clone(), rows: vec![], event: None }),
    }
}

async fn has_live_peer(conn: &mut Conn, id: ResourceId) -> Result<bool, Error> {
    let sql = "SELECT 1 FROM peers WHERE resource = $1 AND stage <> 'deregistered' LIMIT 1";
    let found = sqlx::query::<Db>(sql)
        .bind(id.as_uuid())
        .fetch_optional(&mut *conn)
        .await
        .doing("look for a live peer")?;
    Ok(found.is_some())
}
