//! The pool of SQLite: one writer that commits many writes at once, and readers beside it.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{Connection as _, SqlitePool};
use tokio::sync::{mpsc, oneshot};

use super::file::Lock;
use super::{Conn, Db};
use crate::error::{Context as _, Error};
use crate::settings::Settings;

/// How many writes may wait for the writer.
const WAITING_MAX: usize = 1_024;
/// How long to wait for a file that another process holds, such as a backup.
const BUSY: Duration = Duration::from_secs(5);

/// How many statements a connection keeps prepared: groups of several sizes have their own.
const STATEMENTS_MAX: usize = 512;

/// A job's future.
pub(crate) type Job<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;
/// A job that returns what to answer once its group is committed or has failed; without a
/// connection it is not run.
type Queued = Box<dyn for<'c> FnOnce(Option<&'c mut Conn>) -> Replying<'c> + Send>;
/// A message to the writer.
enum Message {
    Write(Queued),
    /// Close the file, and report when that is done.
    Close(oneshot::Sender<()>),
}
type Replying<'c> = Pin<Box<dyn Future<Output = Reply> + Send + 'c>>;

/// The result of a job: whether its writes count, and where to send its answer.
struct Reply {
    keep: bool,
    tell: Box<dyn FnOnce(Result<(), Arc<sqlx::Error>>) + Send>,
}

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    readers: SqlitePool,
    writer: mpsc::Sender<Message>,
    /// How many writes were requested.
    pub(crate) writes: Arc<AtomicU64>,
}

/// The one connection that writes.
pub(crate) async fn writer(path: &Path) -> Result<Conn, Error> {
    Conn::connect_with(&options(path)).await.context("open the database file")
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .statement_cache_capacity(STATEMENTS_MAX)
        // What a savepoint can undo is not needed after a crash.
        .pragma("temp_store", "MEMORY")
        .busy_timeout(BUSY)
}

impl Pool {
    pub(crate) async fn open(
        path: &Path,
        writer: Conn,
        lock: Lock,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let readers = SqlitePoolOptions::new()
            .max_connections(settings.connections_max)
            .acquire_timeout(settings.connect_timeout)
            .test_before_acquire(false)
            .connect_with(options(path).read_only(true))
            .await
            .context("open the database file")?;
        let (sender, queue) = mpsc::channel(WAITING_MAX);
        tokio::spawn(write_groups(writer, queue, settings.group_max, lock));
        Ok(Self { readers, writer: sender, writes: Arc::default() })
    }

    /// Counts requested writes.
    pub(crate) fn count(&self, more: usize) {
        self.writes.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A connection for one read.
    pub(crate) async fn read(&self) -> Result<PoolConnection<Db>, Error> {
        self.readers.acquire().await.context("open the database file")
    }

    /// One transaction around a job; others may share its commit, and none of its failure.
    pub(crate) async fn write<T, J>(&self, job: J) -> Result<T, Error>
    where
        J: for<'c> FnOnce(&'c mut Conn) -> Job<'c, T> + Send + 'static,
        T: Send + 'static,
    {
        self.count(1);
        let (answer, answered) = oneshot::channel();
        let queued: Queued = Box::new(move |conn| {
            Box::pin(async move {
                let done = match conn {
                    Some(conn) => Some(job(conn).await),
                    None => None,
                };
                let keep = matches!(done, Some(Ok(_)));
                let tell = Box::new(move |committed: Result<(), Arc<sqlx::Error>>| {
                    let result = match (done, committed) {
                        (None | Some(Ok(_)), Err(source)) => Err(group_failed(&source)),
                        (None, Ok(())) => Err(Error::Closed),
                        (Some(done), _) => done,
                    };
                    // The caller may have stopped waiting.
                    let _ = answer.send(result);
                });
                Reply { keep, tell }
            })
        });
        self.writer.send(Message::Write(queued)).await.map_err(|_| Error::Closed)?;
        answered.await.map_err(|_| Error::Closed)?
    }

    /// As [`Pool::write`], for a job of idempotent, independent statements.
    pub(crate) async fn write_one<T, J>(&self, job: J) -> Result<T, Error>
    where
        J: for<'c> Fn(&'c mut Conn) -> Job<'c, T> + Send + 'static,
        T: Send + 'static,
    {
        self.write(job).await
    }

    /// Ends after every earlier write; the file is free then.
    pub(crate) async fn close(&self) {
        self.readers.close().await;
        let (done, waiting) = oneshot::channel();
        if self.writer.send(Message::Close(done)).await.is_ok() {
            // A writer that is gone has already closed the file.
            let _ = waiting.await;
        }
    }
}

/// Every member of a group gets the same result; the cause itself can be returned only once.
fn group_failed(source: &Arc<sqlx::Error>) -> Error {
    let text = source.to_string();
    match Error::kind_of(source) {
        crate::error::Kind::Full => Error::Full { source: sqlx::Error::Protocol(text) },
        crate::error::Kind::ReadOnly => Error::ReadOnly { source: sqlx::Error::Protocol(text) },
        crate::error::Kind::Other => {
            Error::Database { doing: "commit", source: sqlx::Error::Protocol(text) }
        }
    }
}

/// Takes whatever waits, up to so many, into one transaction; ends on request, or when no
/// caller remains.
async fn write_groups(
    mut conn: Conn,
    mut queue: mpsc::Receiver<Message>,
    group_max: usize,
    lock: Lock,
) {
    let mut messages = Vec::new();
    let mut finalization = Vec::new();
    while finalization.is_empty() && queue.recv_many(&mut messages, group_max).await > 0 {
        let mut group = Vec::with_capacity(messages.len());
        for message in messages.drain(..) {
            match message {
                Message::Write(job) => group.push(job),
                Message::Close(done) => finalization.push(done),
            }
        }
        if !group.is_empty() {
            write_and_tell(&mut conn, group).await;
        }
    }
    queue.close();
    // The file is closed only after the last write.
    let _ = conn.close().await;
    drop(lock);
    for done in finalization {
        let _ = done.send(());
    }
}

/// Commits a group and sends every member its result.
async fn write_and_tell(conn: &mut Conn, mut group: Vec<Queued>) {
    let mut replies = Vec::with_capacity(group.len());
    let committed = write_group(conn, &mut group, &mut replies).await.map_err(Arc::new);
    if committed.is_err() {
        // After some failures SQLite has rolled back by itself.
        let _ = sqlx::raw_sql("ROLLBACK").execute(&mut *conn).await;
    }
    for undone in group {
        replies.push(undone(None).await);
    }
    for reply in replies {
        (reply.tell)(committed.clone());
    }
}

/// Every text that is sent crosses to the connection's thread and back, so few are.
async fn write_group(
    conn: &mut Conn,
    group: &mut Vec<Queued>,
    replies: &mut Vec<Reply>,
) -> Result<(), sqlx::Error> {
    if group.len() == 1 {
        return write_alone(conn, group, replies).await;
    }
    send(conn, "BEGIN IMMEDIATE; SAVEPOINT job").await?;
    group.reverse();
    while let Some(job) = group.pop() {
        let reply = job(Some(&mut *conn)).await;
        let keep = reply.keep;
        replies.push(reply);
        let next = match (keep, group.is_empty()) {
            (true, false) => "RELEASE job; SAVEPOINT job",
            (true, true) => "RELEASE job; COMMIT",
            (false, false) => "ROLLBACK TO job",
            (false, true) => "ROLLBACK TO job; RELEASE job; COMMIT",
        };
        send(conn, next).await?;
    }
    Ok(())
}

/// These texts are few and always the same, so each is prepared once.
async fn send(conn: &mut Conn, text: &'static str) -> Result<(), sqlx::Error> {
    sqlx::query::<Db>(text).execute(conn).await.map(|_| ())
}

/// No other write has to outlive the failure of the only job.
async fn write_alone(
    conn: &mut Conn,
    group: &mut Vec<Queued>,
    replies: &mut Vec<Reply>,
) -> Result<(), sqlx::Error> {
    send(conn, "BEGIN IMMEDIATE").await?;
    let Some(job) = group.pop() else { return Ok(()) };
    let reply = job(Some(&mut *conn)).await;
    let end = if reply.keep { "COMMIT" } else { "ROLLBACK" };
    let kept = reply.keep;
    replies.push(reply);
    let ended = send(conn, end).await;
    // After some failures SQLite has rolled back by itself.
    if kept { ended } else { Ok(()) }
}
