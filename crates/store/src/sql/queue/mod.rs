//! The due-queue: the statements that are the twins of the kernel's rules for one entry. Only
//! `wake_labels` writes less than its rule, where that makes no difference.

pub(crate) mod claim;

use sqlx::QueryBuilder;
use usher_kernel::schedule::{Claim, Entry, Jitter, Pace, pause};
use usher_kernel::{Fence, Trouble, Wake};
use uuid::Uuid;

use super::port::Port;
use super::{Conn, Db};
use crate::column::{Ids, Time, micros};
use crate::error::{Context as _, Error};
use crate::port::WorkItem;
use crate::port::{Release, Stay};
use crate::queue::QueueStatus;
use crate::{jitter, keepable};

reads! {
    fn entry(item: WorkItem) -> Option<Entry> = |conn| rules_entry(conn, item);
    fn queue_status(item: WorkItem) -> Option<QueueStatus> = |conn| queue_status(conn, item);
}

wakes! {
    fn wake_all() -> u64 = |conn| wake_all(conn);
}

impl Port {
    /// Whether it still was the newest lease.
    pub(crate) async fn release(&self, release: Release) -> Result<bool, Error> {
        let given = self
            .pool
            .write_one(move |conn| Box::pin(async move { self::release(conn, &[&release]).await }))
            .await;
        if given.as_ref().map_or(true, |it| it.due) {
            self.notify_due(&given);
        }
        Ok(given?.count > 0)
    }

    /// Whether it still was the newest lease. The item may be due at once.
    pub(crate) async fn postpone(
        &self,
        item: WorkItem,
        claim: Claim,
        trouble: Trouble,
        reason: Option<&'static str>,
    ) -> Result<bool, Error> {
        let (pace, jitter) = (self.settings.pace, jitter());
        let written = self.pool.write(move |conn| {
            Box::pin(async move {
                let stopped = (&trouble, reason);
                postpone(conn, (item, claim), stopped, (&pace, jitter)).await
            })
        });
        self.notifying_due(written.await)
    }

    pub(crate) async fn wake(&self, item: WorkItem) -> Result<bool, Error> {
        self.notifying_due(self.pool.write_one(move |conn| Box::pin(self::wake(conn, item))).await)
    }

    pub(crate) async fn wake_labels(&self, ids: Vec<Uuid>) -> Result<u64, Error> {
        let written =
            self.pool.write_one(move |conn| Box::pin(wake_labels(conn, ids.clone()))).await;
        self.notifying_due(written)
    }
}

/// One entry, as the statements bring it.
#[derive(sqlx::FromRow)]
pub(crate) struct EntryRow {
    pub(crate) record: Uuid,
    pub(crate) kind: String,
    due: Option<Time>,
    lease_until: Option<Time>,
    unreturned_until: Option<Time>,
    fence: i64,
    attempts: i64,
    wake_seq: i64,
    parked: bool,
    pub(crate) now: Time,
}

impl EntryRow {
    pub(crate) fn entry(&self) -> Entry {
        let at = |time: Option<Time>| time.map(|it| it.0);
        Entry {
            due: at(self.due),
            lease_until: at(self.lease_until),
            unreturned_until: at(self.unreturned_until),
            fence: Fence(self.fence.unsigned_abs()),
            attempts: u32::try_from(self.attempts).unwrap_or(u32::MAX),
            wake_seq: self.wake_seq.unsigned_abs(),
            parked: self.parked,
        }
    }
}

macro_rules! entry_columns {
    () => {
        "record, kind, due, lease_until, unreturned_until, fence, attempts, wake_seq, parked, "
    };
}
pub(crate) use entry_columns;

async fn rules_entry(conn: &mut Conn, item: WorkItem) -> Result<Option<Entry>, Error> {
    Ok(entry(conn, item, false).await?.map(|it| it.entry()))
}

/// An entry, and the outcome of the last steps.
async fn queue_status(conn: &mut Conn, item: WorkItem) -> Result<Option<QueueStatus>, Error> {
    let Some(entry) = entry(conn, item, false).await? else { return Ok(None) };
    let sql = "SELECT reason, trouble FROM queue WHERE record = $1 AND kind = $2";
    let words = sqlx::query_as::<Db, (Option<String>, Option<String>)>(sql)
        .bind(item.id())
        .bind(item.kind())
        .fetch_optional(conn)
        .await
        .context("read an entry of the queue")?;
    let (reason, trouble) = words.unwrap_or_default();
    Ok(Some(QueueStatus { entry: entry.entry(), reason, trouble, now: entry.now.0 }))
}

/// Of the listed items, those that were not overtaken.
const OWN_LEASES: &str =
    ") AS v WHERE queue.record = v.column1 AND queue.kind = v.column2 AND queue.fence = v.column3";

/// New entries, due at once.
pub(crate) async fn insert(conn: &mut Conn, items: &[WorkItem]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO queue (record, kind, due, fence, attempts, wake_seq, parked) ",
    );
    sql.push_values(items, |mut values, item| {
        values.push_bind(item.id()).push_bind(item.kind()).push(now!());
        values.push("0, 0, 0").push_bind(false);
    });
    sql.build().execute(&mut *conn).await.context("enter an item into the queue")?;
    Ok(())
}

/// Reads an entry, and locks it if requested.
pub(crate) async fn entry(
    conn: &mut Conn,
    item: WorkItem,
    locked: bool,
) -> Result<Option<EntryRow>, Error> {
    let sql = concat!(
        "SELECT ",
        entry_columns!(),
        now!(),
        " AS now FROM queue WHERE record = $1 AND kind = $2"
    );
    let locking = concat!(
        "SELECT ",
        entry_columns!(),
        now!(),
        " AS now FROM queue WHERE record = $1 AND kind = $2",
        lock!()
    );
    sqlx::query_as::<Db, EntryRow>(if locked { locking } else { sql })
        .bind(item.id())
        .bind(item.kind())
        .fetch_optional(&mut *conn)
        .await
        .context("read an entry of the queue")
}

/// Writes the reasons of items that keep their leases. Returns how many of the leases are still
/// the newest; they stay so until the end of the transaction.
async fn stay(conn: &mut Conn, stays: &[Stay]) -> Result<usize, Error> {
    if stays.is_empty() {
        return Ok(0);
    }
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE queue SET reason = v.column4,
            trouble = CASE WHEN v.column5 THEN NULL ELSE trouble END FROM (",
    );
    sql.push_values(stays, |mut values, Stay { item, claim, reason, finished }| {
        values
            .push_bind(item.id())
            .push_bind(item.kind())
            .push_bind(claim.fence.0.cast_signed())
            .push_bind(*reason)
            .push_bind(*finished);
    });
    sql.push(OWN_LEASES);
    let held = sql.build().execute(&mut *conn).await.context("see who holds a lease")?;
    Ok(usize::try_from(held.rows_affected()).unwrap_or(usize::MAX))
}

/// The lease that continues, or the one that is released.
type Kept<'a> = (Option<Stay>, Option<&'a Release>);

/// Releases leases, or checks that they are still the newest, so that no other worker can take
/// the items before this is written. A newer lease holder may have gone idle on a stale
/// snapshot.
pub(crate) async fn settle(conn: &mut Conn, leases: &[Kept<'_>]) -> Result<(), Error> {
    let releases: Vec<&Release> = leases.iter().filter_map(|(_, release)| *release).collect();
    let stays: Vec<Stay> = leases.iter().filter_map(|(stay, _)| *stay).collect();
    if release(conn, &releases).await?.count != releases.len()
        || stay(conn, &stays).await? != stays.len()
    {
        return Err(Error::Conflict);
    }
    Ok(())
}

/// Deletes the reason of the newest step.
pub(crate) async fn forget_reason(conn: &mut Conn, item: WorkItem) -> Result<(), Error> {
    sqlx::query::<Db>("UPDATE queue SET reason = NULL WHERE record = $1 AND kind = $2")
        .bind(item.id())
        .bind(item.kind())
        .execute(&mut *conn)
        .await
        .context("delete a reason")?;
    Ok(())
}

/// The released lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Given {
    /// How many leases.
    count: usize,
    /// Whether any of these items is due at once.
    due: bool,
}

/// Releases leases after finished steps; a lease holder that was overtaken changes nothing.
async fn release(conn: &mut Conn, releases: &[&Release]) -> Result<Given, Error> {
    if releases.is_empty() {
        return Ok(Given::default());
    }
    let mut sql = QueryBuilder::<Db>::new(concat!(
        "UPDATE queue SET lease_until = NULL, attempts = 0, reason = v.column5, trouble = NULL,
            due = CASE WHEN wake_seq <> v.column4 OR v.column6 THEN ",
        now!(),
        " ELSE v.column7 END FROM ("
    ));
    sql.push_values(releases, |mut values, Release { item, claim, wake, reason }| {
        let (at_once, due) = match wake {
            Wake::Now => (true, None),
            Wake::At(at) => (false, Some(Time(*at))),
            Wake::OnChange | Wake::Never => (false, None),
        };
        values
            .push_bind(item.id())
            .push_bind(item.kind())
            .push_bind(claim.fence.0.cast_signed())
            .push_bind(claim.wake_seq.cast_signed())
            .push_bind(*reason)
            .push_bind(at_once)
            .push_bind(due);
    });
    sql.push(OWN_LEASES).push(concat!(" RETURNING due <= ", now!()));
    let given = sql.build_query_scalar::<Option<bool>>().fetch_all(&mut *conn).await;
    let given = given.context("give a lease back")?;
    Ok(Given { count: given.len(), due: given.contains(&Some(true)) })
}

/// Releases the lease after trouble; a lease holder that was overtaken changes nothing: `false`.
pub(crate) async fn postpone(
    conn: &mut Conn,
    (item, claim): (WorkItem, Claim),
    (trouble, reason): (&Trouble, Option<&'static str>),
    (pace, jitter): (&Pace, Jitter),
) -> Result<bool, Error> {
    let sql = concat!(
        "UPDATE queue SET lease_until = NULL, trouble = $5, parked = parked OR $6,
            reason = COALESCE($9, reason), unreturned_until = CASE WHEN $8 OR unreturned_until > ",
        now!(),
        " THEN unreturned_until ELSE ",
        now!(),
        " END, due = CASE WHEN $6 THEN NULL WHEN wake_seq <> $4 THEN ",
        now!(),
        " ELSE ",
        later!("$7"),
        " END WHERE record = $1 AND kind = $2 AND fence = $3"
    );
    let paused = pause(trouble.retry(), pace, (claim.attempt, jitter));
    let (parks, pause) = (paused.is_none(), paused.unwrap_or_default());
    let postponed = sqlx::query::<Db>(sql)
        .bind(item.id())
        .bind(item.kind())
        .bind(claim.fence.0.cast_signed())
        .bind(claim.wake_seq.cast_signed())
        .bind(keepable(&trouble.to_string()))
        .bind(parks)
        .bind(micros(pause))
        .bind(*trouble == Trouble::Conflict)
        .bind(reason)
        .execute(&mut *conn)
        .await
        .context("postpone an item")?;
    Ok(postponed.rows_affected() > 0)
}

/// Makes an item due now, also while it is leased; `false` if it is not in the queue.
pub(crate) async fn wake(conn: &mut Conn, item: WorkItem) -> Result<bool, Error> {
    Ok(wake_kind(conn, item.kind(), vec![item.id()]).await? > 0)
}

/// Makes items of one kind due now; how many of them are in the queue.
pub(crate) async fn wake_kind(
    conn: &mut Conn,
    kind: &'static str,
    items: Vec<Uuid>,
) -> Result<u64, Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind = $2 AND record",
        any!("$1")
    );
    let woken = sqlx::query::<Db>(sql)
        .bind(Ids(items))
        .bind(kind)
        .execute(&mut *conn)
        .await
        .context("wake an item")?;
    Ok(woken.rows_affected())
}

/// Which entries a label means: the tombstone if there is one, else the record's own item.
macro_rules! labelled {
    ($ids:literal) => {
        concat!(
            "(kind = 'tombstone' OR NOT EXISTS (SELECT 1 FROM queue AS other
                WHERE other.record = queue.record AND other.kind = 'tombstone')) AND record",
            any!($ids)
        )
    };
}

/// Makes the item of each id due now; how many are. Nothing is written for one that is due and
/// not leased: the next lease holder observes later. That holds for external changes only;
/// what is read with the claim may be older than the wake-up.
async fn wake_labels(conn: &mut Conn, ids: Vec<Uuid>) -> Result<u64, Error> {
    let asked = ids.len() as u64;
    let sql = concat!(
        "SELECT count(*) FROM queue WHERE due <= ",
        now!(),
        " AND lease_until IS NULL AND ",
        labelled!("$1")
    );
    let due = sqlx::query_scalar::<Db, i64>(sql).bind(Ids(ids.clone())).fetch_one(&mut *conn).await;
    let due = due.context("find due items")?.unsigned_abs();
    if due == asked {
        return Ok(due);
    }
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE (due IS NULL OR due > ",
        now!(),
        " OR lease_until IS NOT NULL) AND ",
        labelled!("$1")
    );
    let woken = sqlx::query::<Db>(sql).bind(Ids(ids)).execute(&mut *conn).await;
    Ok(due + woken.context("wake items")?.rows_affected())
}

/// Makes every item due now: the relist that covers what a watch missed.
pub(crate) async fn wake_all(conn: &mut Conn) -> Result<u64, Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind <> 'resource' OR NOT EXISTS (
            SELECT 1 FROM resources WHERE id = queue.record AND phase = 'Deleted')"
    );
    let woken = sqlx::query::<Db>(sql).execute(&mut *conn).await.context("wake every item")?;
    Ok(woken.rows_affected())
}

/// Unparks an item, by command.
pub(crate) async fn unpark(conn: &mut Conn, item: WorkItem) -> Result<(), Error> {
    sqlx::query::<Db>("UPDATE queue SET parked = $3 WHERE record = $1 AND kind = $2")
        .bind(item.id())
        .bind(item.kind())
        .bind(false)
        .execute(&mut *conn)
        .await
        .context("unpark an item of the queue")?;
    Ok(())
}

/// Takes an item out of the queue.
pub(crate) async fn remove(conn: &mut Conn, item: WorkItem) -> Result<(), Error> {
    sqlx::query::<Db>("DELETE FROM queue WHERE record = $1 AND kind = $2")
        .bind(item.id())
        .bind(item.kind())
        .execute(&mut *conn)
        .await
        .context("take an item out of the queue")?;
    Ok(())
}
