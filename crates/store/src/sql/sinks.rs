//! Sinks: rows with a place in the log and a lease.

use std::time::Duration;

use usher_domain::object::slug::Slug;
use usher_domain::sinks::{Parked, Proof, SecretCoordinate, Sink};
use usher_kernel::Fence;

use super::super::READ_END;
use super::port::Port;
use super::record::{corrupt, word};
use super::{Conn, Db, events};
use crate::column::{Time, micros};
use crate::error::{Context as _, Error};
use crate::keepable;
use crate::port::Cursor;
use crate::sinks::{Beginning, RoundEnd, Settlement, SinkState};

reads! {
    fn sinks() -> Vec<SinkState> = |conn| list(conn);
    fn sink(name: &Slug) -> Option<SinkState> = |conn| find(conn, name);
}

writes! {
    fn settle_sink(it: Settlement) -> bool = |conn| settle(conn, &it);
    fn lease_sink(name: Slug, span: Duration) -> Option<SinkState>
        = |conn| lease(conn, &name, span);
}

/// Verbs that are one transaction each and wake the relay.
macro_rules! sink_writes {
    ($(fn $name:ident($($arg:ident: $kind:ty),*) = |$conn:ident| $call:expr;)+) => {
        impl Port {$(
            pub(crate) async fn $name(&self, $($arg: $kind),*) -> Result<(), Error> {
                let done =
                    self.pool.write(move |$conn| Box::pin(async move { $call.await })).await;
                self.signals.sinks_changed();
                done
            }
        )+}
    };
}

sink_writes! {
    fn create_sink(it: Sink, from: Beginning) = |conn| create(conn, &it, from);
    fn change_sink(it: Sink) = |conn| change(conn, &it);
    fn delete_sink(name: Slug) = |conn| delete(conn, &name);
    fn park_sink(name: Slug) = |conn| park(conn, &name);
    fn resume_sink(name: Slug, from: Option<Cursor>) = |conn| resume(conn, &name, from);
}

/// One sink, as the statements bring it.
#[derive(sqlx::FromRow)]
struct SinkRow {
    name: String,
    url: String,
    scheme: Option<String>,
    secret_place: Option<String>,
    secret_name: Option<String>,
    epoch: i64,
    xid: String,
    seq: i64,
    delivered_at: Option<Time>,
    lease_until: Option<Time>,
    fence: i64,
    attempts: i64,
    failing_since: Option<Time>,
    retry_at: Option<Time>,
    trouble: Option<String>,
    parked: Option<String>,
    now: Time,
}

macro_rules! sink_columns {
    () => {
        concat!(
            "name, url, scheme, secret_place, secret_name, epoch, CAST(xid AS text) AS xid, seq,
            delivered_at, lease_until, fence, attempts, failing_since, retry_at, trouble, parked, ",
            now!(),
            " AS now"
        )
    };
}

/// Creates a sink.
async fn create(conn: &mut Conn, it: &Sink, from: Beginning) -> Result<(), Error> {
    let Cursor { epoch, transaction, seq } = match from {
        Beginning::Oldest => Cursor::START,
        Beginning::Now => end(conn).await?,
    };
    let sql = concat!(
        "INSERT INTO sinks (name, url, scheme, secret_place, secret_name, epoch, xid, seq,
            created_at, fence, attempts)
        VALUES ($1, $2, $3, $4, $5, $6, ",
        xid!("$7"),
        ", $8, ",
        now!(),
        ", 0, 0)"
    );
    let (scheme, place, name) = proof(it);
    let query = sqlx::query::<Db>(sql)
        .bind(it.name.as_str())
        .bind(it.url.as_str())
        .bind(scheme)
        .bind(place)
        .bind(name)
        .bind(epoch.cast_signed())
        .bind(transaction.to_string())
        .bind(seq.cast_signed());
    super::tenancy::insert(conn, query, &named(&it.name)).await
}

/// Changes where a sink is; its place in the log stays.
async fn change(conn: &mut Conn, it: &Sink) -> Result<(), Error> {
    let sql = "UPDATE sinks SET url = $2, scheme = $3, secret_place = $4, secret_name = $5,
        retry_at = NULL WHERE name = $1";
    let (scheme, place, name) = proof(it);
    let done = sqlx::query::<Db>(sql)
        .bind(it.name.as_str())
        .bind(it.url.as_str())
        .bind(scheme)
        .bind(place)
        .bind(name)
        .execute(conn)
        .await
        .context("change a sink")?;
    found(done.rows_affected(), &it.name)
}

fn proof(it: &Sink) -> (Option<&'static str>, Option<&'static str>, Option<&str>) {
    match &it.proof {
        Some(Proof { scheme, secret }) => {
            (Some(scheme.as_str()), Some(secret.place().as_str()), Some(secret.name()))
        }
        None => (None, None, None),
    }
}

async fn delete(conn: &mut Conn, name: &Slug) -> Result<(), Error> {
    let sql = "DELETE FROM sinks WHERE name = $1";
    let done =
        sqlx::query::<Db>(sql).bind(name.as_str()).execute(conn).await.context("remove a sink")?;
    found(done.rows_affected(), name)
}

/// Stops deliveries. A delivery in progress cannot be recorded any more.
async fn park(conn: &mut Conn, name: &Slug) -> Result<(), Error> {
    let sql = "UPDATE sinks SET parked = $2, fence = fence + 1, lease_until = NULL WHERE name = $1";
    let done = sqlx::query::<Db>(sql)
        .bind(name.as_str())
        .bind(Parked::Asked.as_str())
        .execute(conn)
        .await
        .context("park a sink")?;
    found(done.rows_affected(), name)
}

/// Stops all deliveries: this database became another installation.
pub(crate) async fn park_all(conn: &mut Conn) -> Result<(), Error> {
    let sql = "UPDATE sinks SET parked = $1, fence = fence + 1, lease_until = NULL";
    sqlx::query::<Db>(sql)
        .bind(Parked::Moved.as_str())
        .execute(conn)
        .await
        .context("park the sinks")?;
    Ok(())
}

/// Resumes deliveries. A cursor whose events were deleted is refused.
async fn resume(conn: &mut Conn, name: &Slug, from: Option<Cursor>) -> Result<(), Error> {
    if let Some(after) = from {
        let floor = events::floor(conn).await?;
        if after < floor {
            return Err(Error::Forgotten { after, floor });
        }
    }
    let Cursor { epoch, transaction, seq } = from.unwrap_or(Cursor::START);
    let sql = concat!(
        "UPDATE sinks SET parked = NULL, attempts = 0, failing_since = NULL, retry_at = NULL,
            trouble = NULL, fence = fence + 1, lease_until = NULL,
            epoch = CASE WHEN $2 THEN $3 ELSE epoch END,
            xid = CASE WHEN $2 THEN ",
        xid!("$4"),
        " ELSE xid END, seq = CASE WHEN $2 THEN $5 ELSE seq END WHERE name = $1"
    );
    let done = sqlx::query::<Db>(sql)
        .bind(name.as_str())
        .bind(from.is_some())
        .bind(epoch.cast_signed())
        .bind(transaction.to_string())
        .bind(seq.cast_signed())
        .execute(conn)
        .await
        .context("resume a sink")?;
    found(done.rows_affected(), name)
}

async fn list(conn: &mut Conn) -> Result<Vec<SinkState>, Error> {
    let sql = concat!("SELECT ", sink_columns!(), " FROM sinks ORDER BY name");
    let rows = sqlx::query_as::<Db, SinkRow>(sql).fetch_all(conn).await.context("read sinks")?;
    rows.into_iter().map(SinkRow::state).collect()
}

async fn find(conn: &mut Conn, name: &Slug) -> Result<Option<SinkState>, Error> {
    let sql = concat!("SELECT ", sink_columns!(), " FROM sinks WHERE name = $1");
    let row = sqlx::query_as::<Db, SinkRow>(sql)
        .bind(name.as_str())
        .fetch_optional(conn)
        .await
        .context("read a sink")?;
    row.map(SinkRow::state).transpose()
}

/// Leases a sink that is not leased, that does not wait, and that is not parked.
async fn lease(conn: &mut Conn, name: &Slug, span: Duration) -> Result<Option<SinkState>, Error> {
    let sql = concat!(
        "UPDATE sinks SET lease_until = ",
        later!("$2"),
        ", fence = fence + 1 WHERE name = $1 AND parked IS NULL
            AND (lease_until IS NULL OR lease_until <= ",
        now!(),
        ") AND (retry_at IS NULL OR retry_at <= ",
        now!(),
        ") RETURNING ",
        sink_columns!()
    );
    let row = sqlx::query_as::<Db, SinkRow>(sql)
        .bind(name.as_str())
        .bind(micros(span))
        .fetch_optional(conn)
        .await
        .context("lease a sink")?;
    row.map(SinkRow::state).transpose()
}

/// Ends a round, if its lease still is the last one.
async fn settle(conn: &mut Conn, it: &Settlement) -> Result<bool, Error> {
    let Settlement { lease, cursor, end } = it;
    let progress = *cursor != lease.cursor;
    let failed = if progress { 0 } else { lease.attempts };
    let (attempts, pause, trouble, parked) = match end {
        RoundEnd::Done => (0, None, None, None),
        RoundEnd::Again { pause, trouble } => {
            (failed.saturating_add(1), Some(*pause), Some(trouble), None)
        }
        RoundEnd::Park { why, trouble } => {
            (failed.saturating_add(1), None, Some(trouble), Some(why.as_str()))
        }
    };
    let sql = concat!(
        "UPDATE sinks SET lease_until = NULL, epoch = $3, xid = ",
        xid!("$4"),
        ", seq = $5, delivered_at = CASE WHEN $6 THEN ",
        now!(),
        " ELSE delivered_at END, attempts = $7,
            failing_since = CASE WHEN $7 = 0 THEN NULL WHEN $7 = 1 THEN ",
        now!(),
        " ELSE failing_since END, retry_at = ",
        later!("$8"),
        ", trouble = $9, parked = $10 WHERE name = $1 AND fence = $2"
    );
    let done = sqlx::query::<Db>(sql)
        .bind(lease.sink.name.as_str())
        .bind(lease.fence.0.cast_signed())
        .bind(cursor.epoch.cast_signed())
        .bind(cursor.transaction.to_string())
        .bind(cursor.seq.cast_signed())
        .bind(progress)
        .bind(i64::from(attempts))
        .bind(pause.map(micros))
        .bind(trouble.map(|it| keepable(it)))
        .bind(parked)
        .execute(conn)
        .await
        .context("settle a sink")?;
    Ok(done.rows_affected() == 1)
}

/// The last cursor of the log that can be read; later events come after it.
pub(crate) async fn end(conn: &mut Conn) -> Result<Cursor, Error> {
    let row = sqlx::query_as::<Db, (i64, String, i64)>(READ_END)
        .fetch_optional(&mut *conn)
        .await
        .context("read the end of the log")?;
    match row {
        Some((epoch, xid, seq)) => events::cursor(epoch, &xid, seq),
        None => events::floor(conn).await,
    }
}

/// The sink with the oldest cursor, and that cursor.
pub(crate) async fn slowest(conn: &mut Conn) -> Result<Option<(String, Cursor)>, Error> {
    let sql = "SELECT name, epoch, CAST(xid AS text), seq FROM sinks
        ORDER BY epoch, sinks.xid, seq, name LIMIT 1";
    let row = sqlx::query_as::<Db, (String, i64, String, i64)>(sql)
        .fetch_optional(conn)
        .await
        .context("find the slowest sink")?;
    row.map(|(name, epoch, xid, seq)| Ok((name, events::cursor(epoch, &xid, seq)?))).transpose()
}

fn named(name: &Slug) -> String {
    format!("sink \"{name}\"")
}

fn found(rows: u64, name: &Slug) -> Result<(), Error> {
    if rows == 1 { Ok(()) } else { Err(Error::NotFound { what: named(name) }) }
}

impl SinkRow {
    fn state(self) -> Result<SinkState, Error> {
        let row = format!("sink \"{}\"", self.name);
        let at = |time: Option<Time>| time.map(|it| it.0);
        let proof = match (&self.scheme, &self.secret_place, &self.secret_name) {
            (Some(scheme), Some(place), Some(name)) => {
                let secret = SecretCoordinate::new(word(&row, "secret_place", place)?, name)
                    .map_err(|_| corrupt(&row, "secret_name"))?;
                Some(Proof { scheme: word(&row, "scheme", scheme)?, secret })
            }
            _ => None,
        };
        let (name, url) = (word(&row, "name", &self.name)?, word(&row, "url", &self.url)?);
        Ok(SinkState {
            sink: Sink::new(name, url, proof).map_err(|_| corrupt(&row, "url"))?,
            cursor: events::cursor(self.epoch, &self.xid, self.seq)?,
            delivered_at: at(self.delivered_at),
            lease_until: at(self.lease_until),
            fence: Fence(self.fence.unsigned_abs()),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            failing_since: at(self.failing_since),
            retry_at: at(self.retry_at),
            trouble: self.trouble,
            parked: self.parked.map(|it| word(&row, "parked", &it)).transpose()?,
            now: self.now.0,
        })
    }
}
