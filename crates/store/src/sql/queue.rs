//! The due-queue: the statements that are the twins of the kernel's rules for one entry. Only
//! `wake_labels` writes less than its rule, where nobody could see the difference.

use sqlx::QueryBuilder;
use usher_kernel::schedule::{Claim, Entry, Jitter, Pace, pause};
use usher_kernel::{Fence, Timestamp, Trouble, Wake};
use uuid::Uuid;

use super::super::{Conn, Db};
use crate::column::{Ids, Time};
use crate::error::{Doing as _, Error};
use crate::keepable;
use crate::life::Life;
use crate::port::{Release, Stay};

/// One entry, as the statements bring it.
#[derive(sqlx::FromRow)]
pub(crate) struct EntryRow {
    pub(crate) life: Uuid,
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
        "life, kind, due, lease_until, unreturned_until, fence, attempts, wake_seq, parked, "
    };
}
pub(crate) use entry_columns;

/// Of whom was listed, those whom nobody overtook.
const OWN_LEASES: &str =
    ") AS v WHERE queue.life = v.column1 AND queue.kind = v.column2 AND queue.fence = v.column3";

/// New entries, due at once.
pub(crate) async fn insert(conn: &mut Conn, lives: &[Life]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO queue (life, kind, due, fence, attempts, wake_seq, parked) ",
    );
    sql.push_values(lives, |mut values, life| {
        values.push_bind(life.id()).push_bind(life.kind()).push(now!());
        values.push("0, 0, 0").push_bind(false);
    });
    sql.build().execute(&mut *conn).await.doing("enter a life into the queue")?;
    Ok(())
}

/// New entries, as they are.
pub(crate) async fn begin(conn: &mut Conn, entries: &[(Life, &Entry)]) -> Result<(), Error> {
    let mut sql = QueryBuilder::<Db>::new(
        "INSERT INTO queue (life, kind, due, lease_until, fence, attempts, wake_seq, parked) ",
    );
    sql.push_values(entries, |mut values, (life, entry)| {
        values
            .push_bind(life.id())
            .push_bind(life.kind())
            .push_bind(Time::some(entry.due))
            .push_bind(Time::some(entry.lease_until))
            .push_bind(entry.fence.0.cast_signed())
            .push_bind(i64::from(entry.attempts))
            .push("0")
            .push_bind(false);
    });
    sql.build().execute(&mut *conn).await.doing("enter a life into the queue")?;
    Ok(())
}

/// Who takes the lease of whom it wakes: at which pace, and with which share of its back-off.
pub(crate) type Taking = (Pace, Jitter);

/// What became of a life that was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Woken {
    /// Its lease was taken; until then other drivers of it can be heard.
    Taken(Claim, Option<Timestamp>),
    /// It waits for whoever takes it, or for the look of whoever has it; so often was it woken.
    Waits(u64),
}

/// Makes a life due now whose entry is held, and takes its lease if it may be had and somebody
/// takes it. Why its newest step did what it did is forgotten if it is told so.
pub(crate) async fn wake_held(
    conn: &mut Conn,
    (life, row): (Life, &EntryRow),
    taking: Option<Taking>,
    forgets: bool,
) -> Result<Woken, Error> {
    let (mut entry, now) = (row.entry(), row.now.0);
    entry.wake(now);
    let claim = taking.and_then(|(pace, jitter)| entry.claim(&pace, jitter, now));
    let sql = "UPDATE queue SET due = $3, lease_until = $4, unreturned_until = $5, fence = $6,
        attempts = $7, wake_seq = $8, reason = CASE WHEN $9 THEN NULL ELSE reason END
        WHERE life = $1 AND kind = $2";
    sqlx::query::<Db>(sql)
        .bind(life.id())
        .bind(life.kind())
        .bind(Time::some(entry.due))
        .bind(Time::some(entry.lease_until))
        .bind(Time::some(entry.unreturned_until))
        .bind(entry.fence.0.cast_signed())
        .bind(i64::from(entry.attempts))
        .bind(entry.wake_seq.cast_signed())
        .bind(forgets)
        .execute(&mut *conn)
        .await
        .doing("wake a life")?;
    Ok(match claim {
        Some(claim) => Woken::Taken(claim, entry.unreturned_until),
        None => Woken::Waits(entry.wake_seq),
    })
}

/// Reads an entry, once nobody else can move it if it is to be locked.
pub(crate) async fn entry(
    conn: &mut Conn,
    life: Life,
    locked: bool,
) -> Result<Option<EntryRow>, Error> {
    let sql = concat!(
        "SELECT ",
        entry_columns!(),
        now!(),
        " AS now FROM queue WHERE life = $1 AND kind = $2"
    );
    let locking = concat!(
        "SELECT ",
        entry_columns!(),
        now!(),
        " AS now FROM queue WHERE life = $1 AND kind = $2",
        lock!()
    );
    sqlx::query_as::<Db, EntryRow>(if locked { locking } else { sql })
        .bind(life.id())
        .bind(life.kind())
        .fetch_optional(&mut *conn)
        .await
        .doing("read an entry of the queue")
}

/// Writes why lives did what they did whose leases go on. Says how many of these still are the
/// newest ones, which they then are until the end of the transaction.
pub(crate) async fn stay(conn: &mut Conn, stays: &[Stay]) -> Result<usize, Error> {
    if stays.is_empty() {
        return Ok(0);
    }
    let mut sql = QueryBuilder::<Db>::new(
        "UPDATE queue SET reason = v.column4,
            trouble = CASE WHEN v.column5 THEN NULL ELSE trouble END FROM (",
    );
    sql.push_values(stays, |mut values, Stay { life, claim, reason, finished }| {
        values
            .push_bind(life.id())
            .push_bind(life.kind())
            .push_bind(claim.fence.0.cast_signed())
            .push_bind(*reason)
            .push_bind(*finished);
    });
    sql.push(OWN_LEASES);
    let held = sql.build().execute(&mut *conn).await.doing("see who holds a lease")?;
    Ok(usize::try_from(held.rows_affected()).unwrap_or(usize::MAX))
}

/// Forgets why the newest step did what it did.
pub(crate) async fn forget_reason(conn: &mut Conn, life: Life) -> Result<(), Error> {
    sqlx::query::<Db>("UPDATE queue SET reason = NULL WHERE life = $1 AND kind = $2")
        .bind(life.id())
        .bind(life.kind())
        .execute(&mut *conn)
        .await
        .doing("forget a reason")?;
    Ok(())
}

/// What was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    /// How many leases.
    pub(crate) count: usize,
    /// Whether any of these lives is due at once.
    pub(crate) due: bool,
}

/// Gives leases back after finished steps; whoever was overtaken changes nothing.
pub(crate) async fn release(conn: &mut Conn, releases: &[&Release]) -> Result<Given, Error> {
    if releases.is_empty() {
        return Ok(Given::default());
    }
    let mut sql = QueryBuilder::<Db>::new(concat!(
        "UPDATE queue SET lease_until = NULL, attempts = 0, reason = v.column5, trouble = NULL,
            due = CASE WHEN wake_seq <> v.column4 OR v.column6 THEN ",
        now!(),
        " ELSE v.column7 END FROM ("
    ));
    sql.push_values(releases, |mut values, Release { life, claim, wake, reason }| {
        let (at_once, due) = match wake {
            Wake::Now => (true, None),
            Wake::At(at) => (false, Some(Time(*at))),
            Wake::OnChange | Wake::Never => (false, None),
        };
        values
            .push_bind(life.id())
            .push_bind(life.kind())
            .push_bind(claim.fence.0.cast_signed())
            .push_bind(claim.wake_seq.cast_signed())
            .push_bind(*reason)
            .push_bind(at_once)
            .push_bind(due);
    });
    sql.push(OWN_LEASES).push(concat!(" RETURNING due <= ", now!()));
    let given = sql.build_query_scalar::<Option<bool>>().fetch_all(&mut *conn).await;
    let given = given.doing("give a lease back")?;
    Ok(Given { count: given.len(), due: given.contains(&Some(true)) })
}

/// Gives a lease back that nobody worked under.
pub(crate) async fn give_back(conn: &mut Conn, life: Life, claim: Claim) -> Result<bool, Error> {
    let sql = concat!(
        "UPDATE queue SET lease_until = NULL, attempts = attempts - 1, due = ",
        now!(),
        " WHERE life = $1 AND kind = $2 AND fence = $3 AND lease_until IS NOT NULL"
    );
    let given = sqlx::query::<Db>(sql)
        .bind(life.id())
        .bind(life.kind())
        .bind(claim.fence.0.cast_signed())
        .execute(&mut *conn)
        .await
        .doing("give a lease back")?;
    Ok(given.rows_affected() > 0)
}

/// Gives the lease back after trouble; whoever was overtaken changes nothing, and is told so.
pub(crate) async fn postpone(
    conn: &mut Conn,
    (life, claim): (Life, Claim),
    trouble: &Trouble,
    (pace, jitter): (&Pace, Jitter),
) -> Result<bool, Error> {
    let sql = concat!(
        "UPDATE queue SET lease_until = NULL, trouble = $5, parked = parked OR $6,
            unreturned_until = CASE WHEN $8 OR unreturned_until > ",
        now!(),
        " THEN unreturned_until ELSE ",
        now!(),
        " END, due = CASE WHEN $6 THEN NULL WHEN wake_seq <> $4 THEN ",
        now!(),
        " ELSE ",
        later!("$7"),
        " END WHERE life = $1 AND kind = $2 AND fence = $3"
    );
    let paused = pause(trouble.retry(), pace, (claim.attempt, jitter));
    let (parks, pause) = (paused.is_none(), paused.unwrap_or_default());
    let postponed = sqlx::query::<Db>(sql)
        .bind(life.id())
        .bind(life.kind())
        .bind(claim.fence.0.cast_signed())
        .bind(claim.wake_seq.cast_signed())
        .bind(keepable(&trouble.to_string()))
        .bind(parks)
        .bind(i64::try_from(pause.as_micros()).unwrap_or(i64::MAX))
        .bind(*trouble == Trouble::Conflict)
        .execute(&mut *conn)
        .await
        .doing("postpone a life")?;
    Ok(postponed.rows_affected() > 0)
}

/// Makes a life due now, also while somebody works on it; `false` if it is not in the queue.
pub(crate) async fn wake(conn: &mut Conn, life: Life) -> Result<bool, Error> {
    Ok(wake_kind(conn, life.kind(), vec![life.id()]).await? > 0)
}

/// Makes lives of one kind due now; how many of them are in the queue.
pub(crate) async fn wake_kind(
    conn: &mut Conn,
    kind: &'static str,
    lives: Vec<Uuid>,
) -> Result<u64, Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind = $2 AND life",
        any!("$1")
    );
    let woken = sqlx::query::<Db>(sql)
        .bind(Ids(lives))
        .bind(kind)
        .execute(&mut *conn)
        .await
        .doing("wake a life")?;
    Ok(woken.rows_affected())
}

/// Which entries a label means: the tombstone if there is one, else the record's own life.
macro_rules! labelled {
    ($ids:literal) => {
        concat!(
            "(kind = 'tombstone' OR NOT EXISTS (SELECT 1 FROM queue AS other
                WHERE other.life = queue.life AND other.kind = 'tombstone')) AND life",
            any!($ids)
        )
    };
}

/// Makes the life of each id due now; how many are. Nothing is written for one that is due and
/// that nobody has: whoever takes it looks afterwards. That holds for changes outside only; what
/// is read with the claim may be older than the wake-up.
pub(crate) async fn wake_labels(conn: &mut Conn, ids: Vec<Uuid>) -> Result<u64, Error> {
    let asked = ids.len() as u64;
    let sql = concat!(
        "SELECT count(*) FROM queue WHERE due <= ",
        now!(),
        " AND lease_until IS NULL AND ",
        labelled!("$1")
    );
    let due = sqlx::query_scalar::<Db, i64>(sql).bind(Ids(ids.clone())).fetch_one(&mut *conn).await;
    let due = due.doing("look who is due")?.unsigned_abs();
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
    Ok(due + woken.doing("wake lives")?.rows_affected())
}

/// Makes every life due now: the listing that stands in for what a watch missed.
pub(crate) async fn wake_all(conn: &mut Conn) -> Result<u64, Error> {
    let sql = concat!(
        "UPDATE queue SET wake_seq = wake_seq + 1, due = CASE WHEN due < ",
        now!(),
        " THEN due ELSE ",
        now!(),
        " END WHERE kind <> 'resource' OR NOT EXISTS (
            SELECT 1 FROM resources WHERE id = queue.life AND phase = 'Deleted')"
    );
    let woken = sqlx::query::<Db>(sql).execute(&mut *conn).await.doing("wake every life")?;
    Ok(woken.rows_affected())
}

/// Tombstones that were kept so long, up to so many.
pub(crate) async fn buried(
    conn: &mut Conn,
    keep: std::time::Duration,
    count: u32,
) -> Result<Vec<Uuid>, Error> {
    let sql = concat!(
        "SELECT resource FROM tombstones WHERE buried_at <= ",
        later!("$1"),
        " ORDER BY buried_at LIMIT $2"
    );
    sqlx::query_scalar::<Db, Uuid>(sql)
        .bind(i64::try_from(keep.as_micros()).unwrap_or(i64::MAX).saturating_neg())
        .bind(i64::from(count))
        .fetch_all(&mut *conn)
        .await
        .doing("look for old tombstones")
}

/// Lets a parked life go on, by command.
pub(crate) async fn unpark(conn: &mut Conn, life: Life) -> Result<bool, Error> {
    sqlx::query::<Db>("UPDATE queue SET parked = $3 WHERE life = $1 AND kind = $2")
        .bind(life.id())
        .bind(life.kind())
        .bind(false)
        .execute(&mut *conn)
        .await
        .doing("let a parked life go on")?;
    wake(conn, life).await
}

/// Takes a life out of the queue.
pub(crate) async fn remove(conn: &mut Conn, life: Life) -> Result<(), Error> {
    sqlx::query::<Db>("DELETE FROM queue WHERE life = $1 AND kind = $2")
        .bind(life.id())
        .bind(life.kind())
        .execute(&mut *conn)
        .await
        .doing("take a life out of the queue")?;
    Ok(())
}
