//! Shards: their leases and their brakes.

use std::time::Duration;

use sqlx::QueryBuilder;
use usher_domain::fleet::ident::ShardId;
use uuid::Uuid;

use super::super::port::Port;
use super::super::record::word;
use super::super::{Conn, Db};
use crate::column::{Time, micros};
use crate::error::{Context as _, Error};
use crate::machines::{Acquisition, Brake, List, ListedAt, ShardLease, ShardState};

reads! {
    fn shards() -> Vec<ShardState> = |conn| all(conn);
    fn shard(id: ShardId) -> Option<ShardState> = |conn| read(conn, &id);
    fn lists(shard: &ShardId) -> Vec<ListedAt> = |conn| lists(conn, shard);
}

writes! {
    fn acquire_shard(shard: ShardId, holder: Uuid, span: Duration) -> Acquisition
        = |conn| acquire(conn, shard, holder, span);
    fn renew_shard(lease: ShardLease, span: Duration) -> Option<ShardLease>
        = |conn| renew(conn, lease, span);
}

wakes! {
    fn release_shard(lease: ShardLease) -> bool = |conn| release(conn, &lease);
}

audited! {
    fn brake_shard(id: ShardId, brake: Brake, on: bool) -> ShardState
        = |conn| brake_or_loosen(conn, &id, brake, on);
}

/// One shard, as the statements bring it.
#[derive(sqlx::FromRow)]
struct ShardRow {
    id: String,
    epoch: i64,
    holder: Option<Uuid>,
    lease_until: Option<Time>,
    paused_at: Option<Time>,
    dry_run_at: Option<Time>,
    now: Time,
}

/// Acquires a shard whose lease has expired, or that is new; else returns its holder.
async fn acquire(
    conn: &mut Conn,
    shard: ShardId,
    holder: Uuid,
    span: Duration,
) -> Result<Acquisition, Error> {
    let sql = concat!(
        "INSERT INTO shards (id, epoch, holder, lease_until) VALUES ($1, 1, $2, ",
        later!("$3"),
        ") ON CONFLICT (id) DO UPDATE SET epoch = shards.epoch + 1, holder = excluded.holder,
            lease_until = excluded.lease_until
        WHERE shards.lease_until IS NULL OR shards.lease_until <= ",
        now!(),
        " RETURNING epoch, lease_until, ",
        now!()
    );
    let given = sqlx::query_as::<Db, (i64, Time, Time)>(sql)
        .bind(shard.as_str())
        .bind(holder)
        .bind(micros(span))
        .fetch_optional(&mut *conn)
        .await
        .context("acquire a shard")?;
    if let Some((epoch, until, now)) = given {
        let epoch = epoch.unsigned_abs();
        let lease = ShardLease { shard, epoch, holder, until: until.0, now: now.0 };
        return Ok(Acquisition::Ours(lease));
    }
    match read(conn, &shard).await? {
        Some(state) => Ok(Acquisition::Theirs(state)),
        None => Err(missing(&shard)),
    }
}

/// Renews a lease, also one that has expired and was not acquired by another holder.
async fn renew(
    conn: &mut Conn,
    lease: ShardLease,
    span: Duration,
) -> Result<Option<ShardLease>, Error> {
    let sql = concat!(
        "UPDATE shards SET lease_until = ",
        later!("$4"),
        " WHERE id = $1 AND epoch = $2 AND holder = $3 RETURNING lease_until, ",
        now!()
    );
    let given = sqlx::query_as::<Db, (Time, Time)>(sql)
        .bind(lease.shard.as_str())
        .bind(lease.epoch.cast_signed())
        .bind(lease.holder)
        .bind(micros(span))
        .fetch_optional(&mut *conn)
        .await
        .context("renew the lease of a shard")?;
    Ok(given.map(|(until, now)| ShardLease { until: until.0, now: now.0, ..lease }))
}

/// Releases a lease.
async fn release(conn: &mut Conn, lease: &ShardLease) -> Result<bool, Error> {
    let sql = "UPDATE shards SET holder = NULL, lease_until = NULL
        WHERE id = $1 AND epoch = $2 AND holder = $3";
    let done = sqlx::query::<Db>(sql)
        .bind(lease.shard.as_str())
        .bind(lease.epoch.cast_signed())
        .bind(lease.holder)
        .execute(&mut *conn)
        .await
        .context("release a shard")?;
    Ok(done.rows_affected() > 0)
}

/// Keeps other holders from acquiring the shard until this transaction ends, or finds out that the
/// lease is lost. Renewals are not blocked.
pub(crate) async fn fence(conn: &mut Conn, lease: &ShardLease) -> Result<(), Error> {
    let sql = concat!(
        "SELECT 1 FROM shards WHERE id = $1 AND epoch = $2 AND holder = $3 AND lease_until > ",
        now!(),
        keep_key!()
    );
    let held = sqlx::query::<Db>(sql)
        .bind(lease.shard.as_str())
        .bind(lease.epoch.cast_signed())
        .bind(lease.holder)
        .fetch_optional(&mut *conn)
        .await
        .context("check whether a lease still holds")?;
    let lost = || Error::LeaseLost { what: format!("shard \"{}\"", lease.shard) };
    held.map(|_| ()).ok_or_else(lost)
}

/// Waits until no write under a lease of this shard is in progress.
pub(crate) async fn quiesce(conn: &mut Conn, shard: &ShardId) -> Result<(), Error> {
    let sql = concat!("SELECT epoch FROM shards WHERE id = $1", lock!());
    sqlx::query::<Db>(sql)
        .bind(shard.as_str())
        .fetch_optional(&mut *conn)
        .await
        .context("wait for the writes of a shard")?;
    Ok(())
}

/// Reads every shard.
async fn all(conn: &mut Conn) -> Result<Vec<ShardState>, Error> {
    let sql = concat!(
        "SELECT id, epoch, holder, lease_until, paused_at, dry_run_at, ",
        now!(),
        " AS now FROM shards ORDER BY id"
    );
    let rows = sqlx::query_as::<Db, ShardRow>(sql).fetch_all(&mut *conn).await;
    rows.context("read shards")?.into_iter().map(ShardRow::state).collect()
}

/// Reads one shard.
async fn read(conn: &mut Conn, id: &ShardId) -> Result<Option<ShardState>, Error> {
    let sql = concat!(
        "SELECT id, epoch, holder, lease_until, paused_at, dry_run_at, ",
        now!(),
        " AS now FROM shards WHERE id = $1"
    );
    let row = sqlx::query_as::<Db, ShardRow>(sql).bind(id.as_str()).fetch_optional(&mut *conn);
    row.await.context("read a shard")?.map(ShardRow::state).transpose()
}

/// Puts a brake on a shard or takes it off; the first time counts.
async fn brake_or_loosen(
    conn: &mut Conn,
    id: &ShardId,
    brake: Brake,
    on: bool,
) -> Result<ShardState, Error> {
    let sql = match brake {
        Brake::Pause => concat!(
            "UPDATE shards SET paused_at = CASE WHEN $2 THEN COALESCE(paused_at, ",
            now!(),
            ") END WHERE id = $1"
        ),
        Brake::DryRun => concat!(
            "UPDATE shards SET dry_run_at = CASE WHEN $2 THEN COALESCE(dry_run_at, ",
            now!(),
            ") END WHERE id = $1"
        ),
    };
    let written = sqlx::query::<Db>(sql).bind(id.as_str()).bind(on).execute(&mut *conn).await;
    written.context("brake a shard")?;
    read(conn, id).await?.ok_or_else(|| missing(id))
}

/// Writes how far lists were read.
pub(crate) async fn write_lists(
    conn: &mut Conn,
    shard: &ShardId,
    lists: &[List],
) -> Result<(), Error> {
    if lists.is_empty() {
        return Ok(());
    }
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO fleet_lists (shard, provider, revision, credence, listed_at) ",
    );
    sql.push_values(lists, |mut values, it| {
        values
            .push_bind(shard.to_string())
            .push_bind(it.provider.clone())
            .push_bind(it.revision.clone())
            .push_bind(it.credence.as_str())
            .push(now!());
    });
    sql.push(
        " ON CONFLICT (shard, provider) DO UPDATE SET revision = excluded.revision,
            credence = excluded.credence, listed_at = excluded.listed_at",
    );
    sql.build().execute(&mut *conn).await.context("write how far a list was read")?;
    Ok(())
}

/// Reads how far lists were read.
async fn lists(conn: &mut Conn, shard: &ShardId) -> Result<Vec<ListedAt>, Error> {
    let sql = "SELECT provider, revision, credence, listed_at FROM fleet_lists
        WHERE shard = $1 ORDER BY provider";
    let rows = sqlx::query_as::<Db, (String, Vec<u8>, String, Time)>(sql)
        .bind(shard.as_str())
        .fetch_all(&mut *conn)
        .await
        .context("read how far lists were read")?;
    let read = |(provider, revision, credence, at): (String, Vec<u8>, String, Time)| {
        let credence = word(&format!("list of \"{provider}\""), "credence", &credence)?;
        Ok(ListedAt { list: List { provider, revision, credence }, at: at.0 })
    };
    rows.into_iter().map(read).collect()
}

fn missing(id: &ShardId) -> Error {
    Error::NotFound { what: format!("shard \"{id}\"") }
}

impl ShardRow {
    fn state(self) -> Result<ShardState, Error> {
        let at = |time: Option<Time>| time.map(|it| it.0);
        Ok(ShardState {
            id: word("a shard", "id", &self.id)?,
            epoch: self.epoch.unsigned_abs(),
            lease: self.holder.zip(at(self.lease_until)),
            paused_at: at(self.paused_at),
            dry_run_at: at(self.dry_run_at),
            now: self.now.0,
        })
    }
}
