//! PostgreSQL: its dialect and its pool.

mod pool;

use sqlx::Connection as _;

use crate::error::{Context as _, Error};
use crate::migrate::{Direction, Migration, POSTGRES, Progress, Status};
use crate::presence::ServerNumber;
use crate::settings::Settings;

pub(crate) use pool::Pool;

/// The numbers of the servers whose session holds its lock. The class of these locks is "ushr".
macro_rules! present {
    () => {
        "SELECT objid::bigint FROM pg_locks WHERE locktype = 'advisory' AND granted
            AND classid = 1970497650 AND objsubid = 2
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    };
}

/// The database.
pub(crate) type Db = sqlx::Postgres;
/// A connection to it.
pub(crate) type Conn = sqlx::PgConnection;

pub(crate) const MIGRATIONS: &[Migration] = POSTGRES;
pub(crate) const BEGIN_WRITE: &str = "BEGIN";
pub(crate) const BYTES: &str = "bytea";
pub(crate) const LOCK_SCHEMA: &str = "LOCK TABLE usher_schema IN ACCESS EXCLUSIVE MODE";
pub(crate) const TABLES: &str = "SELECT tablename::text FROM pg_tables
    WHERE schemaname = current_schema() ORDER BY tablename";
/// Identifies this database, also among others in the same cluster.
const IDENTIFIER: &str = "SELECT system_identifier || '/' || (
    SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system()";

/// How many groups of one kind of write are written concurrently.
pub(crate) const GROUP_WORKERS: usize = 4;
/// A group waits for a locked row less long than a write alone does.
pub(crate) const BOUND_GROUP: Option<&str> = Some("SET LOCAL lock_timeout = '250ms'");
/// Changes whenever a server is promoted or recovered to a point in time.
const TIMELINE: &str = "SELECT substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8)";
/// Places are ordered by the epoch first.
pub(crate) const BEGIN_EPOCH: &str = "";

/// A row may be read once every transaction that could still write before it has ended. Rows of an
/// earlier epoch were numbered by another database and are complete. ORDER BY names the table's
/// column: a bare `xid` would be the text that is read, and "1000" comes before "999".
pub(crate) const READ_EVENTS: &str = "SELECT epoch, xid::text AS xid, seq, id, resource, project,
        version, type, occurred_at, data, (SELECT epoch FROM event_floor) AS floor_epoch,
        (SELECT xid::text FROM event_floor) AS floor_xid,
        (SELECT seq FROM event_floor) AS floor_seq
    FROM events WHERE (epoch, xid, seq) > ($1, $2::text::xid8, $3)
        AND (epoch < (SELECT epoch FROM installation)
            OR xid < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY events.epoch, events.xid, events.seq LIMIT $4";
/// Whether there are events after a cursor that may not be read yet.
pub(crate) const HELD_BACK: Option<&str> =
    Some("SELECT 1 FROM events WHERE (epoch, xid, seq) > ($1, $2::text::xid8, $3) LIMIT 1");
/// The last row that may be read.
pub(crate) const READ_END: &str = "SELECT epoch, xid::text, seq FROM events
    WHERE epoch < (SELECT epoch FROM installation) OR xid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY events.epoch DESC, events.xid DESC, events.seq DESC LIMIT 1";
pub(crate) const READ_FLOOR: &str = "SELECT epoch, xid::text, seq FROM event_floor";
/// Places and times of the oldest rows that may be read.
pub(crate) const READ_OLDEST: &str = "SELECT epoch, xid::text, seq, occurred_at FROM events
    WHERE (epoch, xid, seq) > ($1, $2::text::xid8, $3)
        AND (epoch < (SELECT epoch FROM installation)
            OR xid < pg_snapshot_xmin(pg_current_snapshot()))
    ORDER BY events.epoch, events.xid, events.seq LIMIT $4";
/// So many rows after one place, up to another. They are found by their number first: the planner
/// takes the two places for a third of the log and would read all of it.
pub(crate) const FORGET_EVENTS: &str = "DELETE FROM events
    WHERE ctid = ANY(ARRAY(SELECT ctid FROM events
            WHERE (epoch, xid, seq) > ($1, $2::text::xid8, $3)
            ORDER BY events.epoch, events.xid, events.seq LIMIT $7))
        AND (epoch, xid, seq) <= ($4, $5::text::xid8, $6)";
/// The floor never goes back, however late a writer is.
pub(crate) const WRITE_FLOOR: &str = "INSERT INTO event_floor (singleton, epoch, xid, seq)
    VALUES (true, $1, $2::text::xid8, $3) ON CONFLICT (singleton) DO UPDATE SET
        epoch = excluded.epoch, xid = excluded.xid, seq = excluded.seq
    WHERE (event_floor.epoch, event_floor.xid, event_floor.seq)
        < (excluded.epoch, excluded.xid, excluded.seq)";

/// Servers whose session has ended.
pub(crate) const FORGET_SERVERS: &str =
    concat!("DELETE FROM servers WHERE number NOT IN (", present!(), ")");
/// The lock is held before the row is seen by others, and no other session ever takes it.
pub(crate) const APPEAR: &str = "INSERT INTO servers (started_at) VALUES (statement_timestamp())
    RETURNING number, pg_advisory_lock(1970497650, number::integer)::text";
/// Older versions do not have the setting; there a stopped server is present until it is killed.
const BOUND_SESSION: &str = "SELECT set_config(name, $1, false) FROM pg_settings
    WHERE name = 'idle_session_timeout'";

/// The time of this statement.
macro_rules! now {
    () => {
        "statement_timestamp()"
    };
}
/// So many microseconds from now.
macro_rules! later {
    ($micros:literal) => {
        concat!("statement_timestamp() + ", $micros, " * interval '1 microsecond'")
    };
}
/// A transaction id from its text.
macro_rules! xid {
    ($text:literal) => {
        concat!($text, "::text::xid8")
    };
}
/// No other transaction may write the row, or lock it so, until this transaction ends.
macro_rules! lock {
    () => {
        " FOR UPDATE"
    };
}
/// As `lock`, and rows that another transaction holds are left out.
macro_rules! skip_locked {
    () => {
        " FOR UPDATE SKIP LOCKED"
    };
}
/// No transaction may write the row until this transaction ends.
macro_rules! share {
    () => {
        " FOR SHARE"
    };
}
/// No transaction may change the key of the row until this one ends; the rest may be written.
macro_rules! keep_key {
    () => {
        " FOR KEY SHARE"
    };
}
/// Is one of many ids.
macro_rules! any {
    ($ids:literal) => {
        concat!(" = ANY(", $ids, ")")
    };
}
/// Every identity row of the record `l`, as one JSON text.
macro_rules! name_ledger {
    () => {
        "(SELECT COALESCE(json_agg(json_build_array(n.kind, n.place, n.name, n.generation,
            n.incarnation, n.state, n.uid, n.evidence_by, n.evidence_answer,
            (extract(epoch FROM n.evidence_at) * 1000000)::bigint, n.plural) ORDER BY n.position),
            '[]'::json)::text FROM names AS n WHERE n.record = l.id)"
    };
}
/// The labels of the installation, a project and the resource `$3`, as one JSON text.
macro_rules! labels {
    ($installation:literal, $project:literal) => {
        concat!(
            "(SELECT COALESCE(json_agg(json_build_array(n.layer, n.key, n.value)), '[]'::json)::text
            FROM labels AS n WHERE (n.layer = 'installation' AND n.owner = ",
            $installation,
            ") OR (n.layer = 'project' AND n.owner = ",
            $project,
            ") OR (n.layer = 'resource' AND n.owner = $3))"
        )
    };
}
/// Is due, and not leased.
macro_rules! due {
    () => {
        "NOT parked AND due <= statement_timestamp()
            AND (lease_until IS NULL OR lease_until <= statement_timestamp())"
    };
}

#[path = "../sql/mod.rs"]
pub(crate) mod sql;

/// Opens the store behind a URL.
pub(crate) async fn open(url: &str, settings: Settings) -> Result<sql::port::Port, Error> {
    let pool = Pool::open(url, &settings).await?;
    sql::migrate::require_current(&mut *pool.read().await?).await?;
    let moved = settings.moved;
    let installation = pool
        .write(move |conn| {
            Box::pin(async move {
                let identifier = sqlx::query_scalar::<Db, String>(IDENTIFIER)
                    .fetch_one(&mut *conn)
                    .await
                    .context("identify the database")?;
                let timeline = sqlx::query_scalar::<Db, String>(TIMELINE)
                    .fetch_one(&mut *conn)
                    .await
                    .context("identify the database")?;
                sql::installation::settle(conn, (&identifier, Some(&timeline)), moved).await
            })
        })
        .await?;
    Ok(sql::port::Port::new(pool, settings, installation))
}

impl sql::port::Port {
    /// A session that holds the presence of this server until it is closed or idle for too long.
    pub(crate) async fn appear(&self) -> Result<(ServerNumber, Conn), Error> {
        self.pool.count(1);
        let mut conn = self.pool.session().await?;
        let timeout = format!("{}ms", self.settings.presence().as_millis());
        sqlx::query(BOUND_SESSION)
            .bind(timeout)
            .execute(&mut conn)
            .await
            .context("bound the session of this server")?;
        Ok((sql::presence::appear(&mut conn).await?, conn))
    }
}

/// Brings the schema behind a URL up or down.
pub(crate) async fn migrate(
    url: &str,
    way: Direction,
    progress: &mut Progress<'_>,
) -> Result<Status, Error> {
    let mut conn = Conn::connect(url).await.context("reach PostgreSQL")?;
    let mut done = sql::migrate::run(&mut conn, way, progress).await;
    // Of two processes that start at once, the second finds the table created.
    if matches!(&done, Err(Error::Database { source, .. }) if Error::is_duplicate(source)) {
        done = sql::migrate::run(&mut conn, way, progress).await;
    }
    // The result is known; an error while closing the connection does not change it.
    let _ = conn.close().await;
    done
}
