//! What every record has: a row with its version, and cells that are checked when they are read.

use std::str::FromStr;

use serde_json::Value;
use sqlx::QueryBuilder;
use usher_kernel::{Generation, Record, Timestamp, Version};
use uuid::Uuid;

use super::port::Port;
use super::{Conn, Db};
use crate::column::Time;
use crate::error::{Context as _, Error};
use crate::port::Acceptance;
use crate::port::WorkItem;

/// A record, or what is wrong with it.
pub(crate) type Read<S> = Result<Record<S>, Error>;

/// New records, each with the id of the write that makes it.
pub(crate) async fn insert(
    conn: &mut Conn,
    items: impl IntoIterator<Item = (WorkItem, Uuid)>,
) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new("INSERT INTO records (id, kind, version, write_id) ");
    sql.push_values(items, |mut values, (item, write_id)| {
        let version = Acceptance::VERSION.0.cast_signed();
        values.push_bind(item.id()).push_bind(item.kind()).push_bind(version).push_bind(write_id);
    });
    sql.build().execute(&mut *conn).await.context("insert a record")?;
    Ok(())
}

/// Locks a record; the database's time, if there is such a record.
pub(crate) async fn lock(conn: &mut Conn, id: Uuid) -> Result<Option<Timestamp>, Error> {
    let sql = concat!("SELECT ", now!(), " FROM records WHERE id = $1", lock!());
    let found = sqlx::query_scalar::<Db, Time>(sql)
        .bind(id)
        .fetch_optional(&mut *conn)
        .await
        .context("lock a record")?;
    Ok(found.map(|it| it.0))
}

/// A record, the version it is at, and the id of the write that makes the next one.
pub(crate) type Move = (Uuid, Version, Uuid);

/// Moves records on by one version each, if each still is at the version it was read at.
pub(crate) async fn advance(conn: &mut Conn, moves: &[Move]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE records SET version = version + 1, write_id = v.column3 FROM (",
    );
    sql.push_values(moves, |mut values, (id, version, write_id)| {
        values.push_bind(*id).push_bind(version.0.cast_signed()).push_bind(*write_id);
    });
    sql.push(") AS v WHERE records.id = v.column1 AND records.version = v.column2");
    let done = sql.build().execute(&mut *conn).await.context("write a record")?;
    let all = u64::try_from(moves.len()).is_ok_and(|all| all == done.rows_affected());
    if all { Ok(()) } else { Err(Error::Conflict) }
}

impl Port {
    /// What became of a commit whose answer was lost, by the record's row.
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

    /// The version of a record and the write that made it. A commit that is still in progress holds
    /// the row, so that this waits for its end.
    pub(super) async fn written(&self, id: Uuid) -> Result<Option<(Version, Uuid)>, Error> {
        let sql = concat!("SELECT version, write_id FROM records WHERE id = $1", lock!());
        let conn: &mut Conn = &mut *self.pool.read().await?;
        let found = sqlx::query_as::<Db, (i64, Uuid)>(sql)
            .bind(id)
            .fetch_optional(conn)
            .await
            .context("read the outcome of a commit")?;
        Ok(found.map(|(number, by)| (version(number), by)))
    }
}

pub(crate) fn corrupt(row: &str, field: &str) -> Error {
    Error::Corrupt { row: row.to_owned(), field: field.to_owned() }
}

/// A word of a closed set, or a text that is checked when it is read.
pub(crate) fn word<T: FromStr>(row: &str, field: &str, text: &str) -> Result<T, Error> {
    text.parse().map_err(|_| corrupt(row, field))
}

pub(crate) fn from_json<T: serde::de::DeserializeOwned>(
    row: &str,
    field: &str,
    value: Value,
) -> Result<T, Error> {
    serde_json::from_value(value).map_err(|_| corrupt(row, field))
}

pub(crate) fn generation(row: &str, number: i64) -> Result<Generation, Error> {
    u32::try_from(number).map(Generation).map_err(|_| corrupt(row, "generation"))
}

pub(crate) fn version(number: i64) -> Version {
    Version(number.unsigned_abs())
}

/// The database's time.
pub(crate) async fn now(conn: &mut Conn) -> Result<Timestamp, Error> {
    let time = sqlx::query_scalar::<Db, Time>(concat!("SELECT ", now!()))
        .fetch_one(&mut *conn)
        .await
        .context("read the clock")?;
    Ok(time.0)
}
