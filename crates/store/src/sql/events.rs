//! The event log: written with the crossing, read by a cursor that cannot skip.

use serde_json::{Map, Value};
use sqlx::QueryBuilder;
use sqlx::types::Json;
use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::event::Event;
use usher_domain::object::id::{EventId, MachineRecordId, ProjectId, ResourceId};
use usher_kernel::{Timestamp, Version};
use uuid::Uuid;

use super::super::{FORGET_EVENTS, HELD_BACK, READ_EVENTS, READ_FLOOR, READ_OLDEST, WRITE_FLOOR};
use super::port::Port;
use super::record::{from_json, word};
use super::{Conn, Db, sinks};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::keepable;
use crate::port::{About, Cursor, LoggedEvent};

reads! {
    fn events(after: Cursor, count: u32) -> Vec<LoggedEvent> = |conn| read(conn, after, count);
    fn log_end() -> Cursor = |conn| sinks::end(conn);
}

writes! {
    fn forget_events(older_than: Timestamp, count: u32) -> u64
        = |conn| forget(conn, older_than, count);
}

impl Port {
    pub(crate) async fn is_held_back(&self, after: Cursor) -> Result<bool, Error> {
        match HELD_BACK {
            Some(sql) => is_held_back(&mut *self.pool.read().await?, sql, after).await,
            None => Ok(false),
        }
    }
}

/// One row of the log, as the statements bring it.
#[derive(sqlx::FromRow)]
struct EventRow {
    epoch: i64,
    xid: String,
    seq: i64,
    id: Uuid,
    resource: Uuid,
    project: Option<Uuid>,
    version: i64,
    r#type: String,
    occurred_at: Time,
    data: Json<Value>,
    floor_epoch: Option<i64>,
    floor_xid: Option<String>,
    floor_seq: Option<i64>,
}

/// A crossing of a resource, with the version it brings.
pub(crate) type Crossing<'a> = (&'a Resource, Version, &'a Event);

/// Writes the events of crossings, in their transaction.
pub(crate) async fn write(conn: &mut Conn, crossings: &[Crossing<'_>]) -> Result<(), Error> {
    if crossings.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO events (epoch, id, resource, project, version, type, occurred_at, data) ",
    );
    sql.push_values(crossings, |mut values, (resource, version, event)| {
        values
            .push("(SELECT epoch FROM installation)")
            .push_bind(Uuid::now_v7())
            .push_bind(*resource.id().as_uuid())
            .push_bind(*resource.fields().project.as_uuid())
            .push_bind(version.0.cast_signed())
            .push_bind(event.event_type().as_str())
            .push(now!())
            .push_bind(Json(payload(resource, event)));
    });
    sql.build().execute(&mut *conn).await.context("write an event")?;
    Ok(())
}

fn payload(resource: &Resource, event: &Event) -> Map<String, Value> {
    let mut data = Map::new();
    data.insert("name".to_owned(), resource.fields().name.clone().into());
    data.insert("xr_name".to_owned(), resource.pinned().xr_name.clone().into());
    data.insert("generation".to_owned(), resource.generation().0.into());
    match event {
        Event::Failed { message } => {
            data.insert("message".to_owned(), keepable(message).into());
        }
        Event::Deleted { outcome } => {
            data.insert("outcome".to_owned(), outcome.as_str().into());
        }
        Event::Requested | Event::Ready | Event::Deleting => {}
    }
    data
}

/// The next rows after a cursor. Rows that an open transaction could still precede are returned by
/// a later call.
async fn read(conn: &mut Conn, after: Cursor, count: u32) -> Result<Vec<LoggedEvent>, Error> {
    let rows = sqlx::query_as::<Db, EventRow>(READ_EVENTS)
        .bind(after.epoch.cast_signed())
        .bind(after.transaction.to_string())
        .bind(after.seq.cast_signed())
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .context("read events")?;
    // The floor is read with the rows, or after them: a deletion before that is noticed.
    let floor = match rows.first() {
        Some(row) => row.floor()?,
        None => floor(conn).await?,
    };
    if after != Cursor::START && after < floor {
        return Err(Error::Forgotten { after, floor });
    }
    rows.into_iter().map(EventRow::event).collect()
}

/// The cursor of the last deleted event.
pub(crate) async fn floor(conn: &mut Conn) -> Result<Cursor, Error> {
    let row = sqlx::query_as::<Db, (i64, String, i64)>(READ_FLOOR)
        .fetch_optional(&mut *conn)
        .await
        .context("read the floor of the log")?;
    let Some((epoch, xid, seq)) = row else { return Ok(Cursor::START) };
    cursor(epoch, &xid, seq)
}

/// Whether there are events after this cursor that may not be read yet.
async fn is_held_back(conn: &mut Conn, sql: &'static str, after: Cursor) -> Result<bool, Error> {
    let found = sqlx::query::<Db>(sql)
        .bind(after.epoch.cast_signed())
        .bind(after.transaction.to_string())
        .bind(after.seq.cast_signed())
        .fetch_optional(conn)
        .await
        .context("read events")?;
    Ok(found.is_some())
}

/// What may be deleted: from the floor up to this cursor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Old {
    floor: Cursor,
    /// `None` if nothing may.
    up_to: Option<Cursor>,
    /// How many rows these are.
    pub(crate) rows: u64,
    /// The sink that keeps rows which are old enough.
    pub(crate) held_by: Option<String>,
}

/// Finds the rows from the beginning of the log that are older than this and were delivered to
/// every sink, up to so many.
pub(crate) async fn old(conn: &mut Conn, older_than: Timestamp, count: u32) -> Result<Old, Error> {
    let floor = floor(conn).await?;
    let rows = sqlx::query_as::<Db, (i64, String, i64, Time)>(READ_OLDEST)
        .bind(floor.epoch.cast_signed())
        .bind(floor.transaction.to_string())
        .bind(floor.seq.cast_signed())
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .context("find old events")?;
    let mut old = Old { floor, up_to: None, rows: 0, held_by: None };
    // Sinks are read after the rows: a new one begins after them or at the floor.
    let slowest = sinks::slowest(conn).await?;
    for (epoch, xid, seq, occurred_at) in rows {
        if occurred_at.0 >= older_than {
            break;
        }
        let place = cursor(epoch, &xid, seq)?;
        if let Some((name, _)) = slowest.as_ref().filter(|(_, reached)| place > *reached) {
            old.held_by = Some(name.clone());
            break;
        }
        old.up_to = Some(place);
        old.rows += 1;
    }
    Ok(old)
}

/// Deletes rows from the beginning of the log that are older than this and were delivered to every
/// sink, up to so many.
pub(crate) async fn forget(
    conn: &mut Conn,
    older_than: Timestamp,
    count: u32,
) -> Result<u64, Error> {
    let Old { floor, up_to, rows, .. } = old(conn, older_than, count).await?;
    let Some(up_to) = up_to else { return Ok(0) };
    let done = sqlx::query::<Db>(FORGET_EVENTS)
        .bind(floor.epoch.cast_signed())
        .bind(floor.transaction.to_string())
        .bind(floor.seq.cast_signed())
        .bind(up_to.epoch.cast_signed())
        .bind(up_to.transaction.to_string())
        .bind(up_to.seq.cast_signed())
        .bind(rows.cast_signed())
        .execute(&mut *conn)
        .await
        .context("delete old events")?;
    sqlx::query::<Db>(WRITE_FLOOR)
        .bind(up_to.epoch.cast_signed())
        .bind(up_to.transaction.to_string())
        .bind(up_to.seq.cast_signed())
        .execute(&mut *conn)
        .await
        .context("delete old events")?;
    Ok(done.rows_affected())
}

pub(crate) fn cursor(epoch: i64, xid: &str, seq: i64) -> Result<Cursor, Error> {
    let transaction = word("the log", "xid", xid)?;
    Ok(Cursor { epoch: epoch.unsigned_abs(), transaction, seq: seq.unsigned_abs() })
}

impl EventRow {
    /// The cursor of the last deleted event when this row was read.
    fn floor(&self) -> Result<Cursor, Error> {
        match (self.floor_epoch, &self.floor_xid, self.floor_seq) {
            (Some(epoch), Some(xid), Some(seq)) => cursor(epoch, xid, seq),
            _ => Ok(Cursor::START),
        }
    }

    /// What is in a project is a resource of the broker.
    fn about(&self, row: &str) -> Result<About, Error> {
        Ok(match self.project {
            Some(project) => About::Resource {
                id: ResourceId::from_uuid(self.resource),
                project: ProjectId::from_uuid(project),
                event_type: word(row, "type", &self.r#type)?,
            },
            None => About::Machine {
                id: MachineRecordId::from_uuid(self.resource),
                event_type: word(row, "type", &self.r#type)?,
            },
        })
    }

    fn event(self) -> Result<LoggedEvent, Error> {
        let row = format!("event \"{}\"", self.id);
        Ok(LoggedEvent {
            cursor: cursor(self.epoch, &self.xid, self.seq)?,
            id: EventId::from_uuid(self.id),
            about: self.about(&row)?,
            version: Version(self.version.unsigned_abs()),
            occurred_at: self.occurred_at.0,
            data: from_json(&row, "data", self.data.0)?,
        })
    }
}
