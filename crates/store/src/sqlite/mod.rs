//! SQLite: its dialect and its pool.

mod file;
mod pool;

use std::path::Path;

use crate::error::{Context as _, Error};
use crate::migrate::{Direction, Migration, Progress, SQLITE, Status};
use crate::presence::ServerNumber;
use crate::settings::Settings;

pub(crate) use pool::Pool;

/// The database.
pub(crate) type Db = sqlx::Sqlite;
/// A connection to it.
pub(crate) type Conn = sqlx::SqliteConnection;

pub(crate) const MIGRATIONS: &[Migration] = SQLITE;
pub(crate) const BEGIN_WRITE: &str = "BEGIN IMMEDIATE";
pub(crate) const BYTES: &str = "blob";
/// The write lock that the transaction began with is enough.
pub(crate) const LOCK_SCHEMA: &str = "";
pub(crate) const TABLES: &str = "SELECT name FROM sqlite_schema
    WHERE type = 'table' AND name NOT LIKE 'sqlite%' ORDER BY name";

/// There is one writer, so one group waits while another is written.
pub(crate) const GROUP_WORKERS: usize = 1;
/// There is one writer, so no write waits for a row.
pub(crate) const BOUND_GROUP: Option<&str> = None;
/// Places are row ids, so the first one of an epoch is larger than any that the epoch before can
/// have given since its backup.
pub(crate) const BEGIN_EPOCH: &str = "
    INSERT INTO sqlite_sequence (name, seq) SELECT 'events', 0
        WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'events');
    UPDATE sqlite_sequence
        SET seq = MAX(seq, (SELECT epoch FROM installation) * 1099511627776)
        WHERE name = 'events'";

/// There is one writer: rows were committed in the order of their row ids.
pub(crate) const READ_EVENTS: &str = "SELECT epoch, '0' AS xid, seq, id, resource, project,
        version, type, occurred_at, data, (SELECT epoch FROM event_floor) AS floor_epoch,
        '0' AS floor_xid, (SELECT seq FROM event_floor) AS floor_seq
    FROM events WHERE seq > $3 ORDER BY seq LIMIT $4";
/// Every row may be read.
pub(crate) const HELD_BACK: Option<&str> = None;
pub(crate) const READ_END: &str =
    "SELECT epoch, '0', seq FROM events ORDER BY events.seq DESC LIMIT 1";
pub(crate) const READ_FLOOR: &str = "SELECT epoch, '0', seq FROM event_floor";
/// Places and times of the oldest rows.
pub(crate) const READ_OLDEST: &str = "SELECT epoch, '0', seq, occurred_at FROM events
    WHERE seq > $3 ORDER BY seq LIMIT $4";
pub(crate) const FORGET_EVENTS: &str = "DELETE FROM events
    WHERE seq IN (SELECT seq FROM events WHERE seq > $3 ORDER BY seq LIMIT $7) AND seq <= $6";
/// The floor never goes back, however late a writer is.
pub(crate) const WRITE_FLOOR: &str = "INSERT INTO event_floor (singleton, epoch, seq)
    VALUES (1, $1, $3)
    ON CONFLICT (singleton) DO UPDATE SET epoch = excluded.epoch, seq = excluded.seq
    WHERE event_floor.seq < excluded.seq";

/// The file lock proves that no other process is present.
pub(crate) const FORGET_SERVERS: &str = "DELETE FROM servers";
pub(crate) const APPEAR: &str = "INSERT INTO servers (started_at)
    VALUES (CAST(unixepoch('subsec') * 1000000 AS INTEGER)) RETURNING number";

/// The time of this statement, in microseconds.
macro_rules! now {
    () => {
        "CAST(unixepoch('subsec') * 1000000 AS INTEGER)"
    };
}
/// So many microseconds from now.
macro_rules! later {
    ($micros:literal) => {
        concat!("CAST(unixepoch('subsec') * 1000000 AS INTEGER) + ", $micros)
    };
}
/// There are no transaction ids; the column is there so that one text serves both.
macro_rules! xid {
    ($text:literal) => {
        concat!("CAST(", $text, " AS INTEGER)")
    };
}
/// There is one writer, so every row is locked.
macro_rules! lock {
    () => {
        ""
    };
}
/// There is one writer, so no other holds a row.
macro_rules! skip_locked {
    () => {
        ""
    };
}
/// There is one writer, so no other writes the row.
macro_rules! share {
    () => {
        ""
    };
}
/// There is one writer, so no other writes the row.
macro_rules! keep_key {
    () => {
        ""
    };
}
/// Is one of many ids.
macro_rules! any {
    ($ids:literal) => {
        concat!(" IN (SELECT unhex(value) FROM json_each(", $ids, "))")
    };
}
/// Every identity row of the record `l`, as one JSON text.
macro_rules! name_ledger {
    () => {
        "(SELECT json_group_array(json_array(n.kind, n.place, n.name, n.generation,
            n.incarnation, n.state, n.uid, n.evidence_by, n.evidence_answer,
            n.evidence_at, n.plural) ORDER BY n.position) FROM names AS n WHERE n.record = l.id)"
    };
}
/// The labels of the installation, a project and the resource `$3`, as one JSON text.
macro_rules! labels {
    ($installation:literal, $project:literal) => {
        concat!(
            "(SELECT json_group_array(json_array(n.layer, n.key, n.value))
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
        "NOT parked AND due <= CAST(unixepoch('subsec') * 1000000 AS INTEGER)
            AND (lease_until IS NULL
                OR lease_until <= CAST(unixepoch('subsec') * 1000000 AS INTEGER))"
    };
}

/// The number of this process.
macro_rules! present {
    () => {
        "SELECT number FROM servers"
    };
}

#[path = "../sql/mod.rs"]
pub(crate) mod sql;

impl sql::port::Port {
    pub(crate) async fn appear(&self) -> Result<ServerNumber, Error> {
        self.pool.write(|conn| Box::pin(sql::presence::appear(conn))).await
    }
}

/// Opens the store in a file.
pub(crate) async fn open(path: &Path, settings: Settings) -> Result<sql::port::Port, Error> {
    let lock = file::Lock::take(path)?;
    file::make_private(path, false)?;
    let mut writer = pool::writer(path).await?;
    sql::migrate::require_current(&mut writer).await?;
    let identifier = lock.identifier().to_owned();
    let pool = Pool::open(path, writer, lock, &settings).await?;
    let moved = settings.moved;
    let installation = pool
        .write(move |conn| {
            Box::pin(async move {
                end_leases(conn).await?;
                sql::installation::settle(conn, (&identifier, None), moved).await
            })
        })
        .await?;
    Ok(sql::port::Port::new(pool, settings, installation))
}

/// Ends every lease: its holder had the file open, and the file lock proves that no process has
/// it open any more. The twin of the kernel's rule for one entry.
async fn end_leases(conn: &mut Conn) -> Result<(), Error> {
    let sql = concat!(
        "UPDATE queue SET due = CASE WHEN due < lease_until THEN due ELSE due - lease_until + ",
        now!(),
        " END, lease_until = ",
        now!(),
        " WHERE lease_until > ",
        now!()
    );
    sqlx::query::<Db>(sql).execute(&mut *conn).await.context("end the leases of a dead process")?;
    let sql = "UPDATE shards SET holder = NULL, lease_until = NULL WHERE holder IS NOT NULL";
    sqlx::query::<Db>(sql).execute(conn).await.context("end the leases of a dead process")?;
    Ok(())
}

/// Migrates the schema of a file up or down; migrating up creates a missing file.
pub(crate) async fn migrate(
    path: &Path,
    way: Direction,
    progress: &mut Progress<'_>,
) -> Result<Status, Error> {
    let _lock = file::Lock::take(path)?;
    file::make_private(path, way == Direction::Up)?;
    let mut conn = pool::writer(path).await?;
    let done = sql::migrate::run(&mut conn, way, progress).await;
    // The result is known; an error while closing the connection does not change it.
    let _ = sqlx::Connection::close(conn).await;
    done
}
