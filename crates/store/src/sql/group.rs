//! Writes of one kind that wait at the same time share statements and a commit.
//!
//! No write waits for others: one that finds a worker free is written at once, and those that
//! arrive while all workers are busy form the next group. A group that fails as a whole is undone
//! and each of its members written alone, beside the workers: no failure spreads to another member,
//! and a row that a client outside holds delays only its own write by more than the bound of a
//! group.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::super::{BOUND_GROUP, GROUP_WORKERS};
use super::{Conn, Pool};
use crate::error::{Context as _, Error};

/// How long one group occupies its worker; after that it continues in a task of its own.
const WORKER_HELD_MAX: Duration = Duration::from_millis(250);

/// A write that can share its statements with others of its kind.
pub(crate) trait Batchable: Sized + Send + Sync + 'static {
    /// Writes them all, or fails.
    fn write(
        conn: &mut Conn,
        group: &[Arc<Self>],
    ) -> impl Future<Output = Result<(), Error>> + Send;
}

#[derive(Debug)]
pub(crate) struct GroupCommit<W> {
    state: Mutex<State<W>>,
    group_max: usize,
}

#[derive(Debug)]
struct State<W> {
    waiting: VecDeque<Member<W>>,
    workers: usize,
}

#[derive(Debug)]
struct Member<W> {
    write: Arc<W>,
    answer: oneshot::Sender<Result<(), Error>>,
}

impl<W: Batchable> GroupCommit<W> {
    pub(crate) fn new(group_max: usize) -> Arc<Self> {
        let state = State { waiting: VecDeque::new(), workers: 0 };
        Arc::new(Self { state: Mutex::new(state), group_max })
    }

    /// Writes it, alone or with others. It is written also if the caller gives up waiting.
    pub(crate) async fn write(self: &Arc<Self>, pool: &Pool, write: Arc<W>) -> Result<(), Error> {
        let (answer, answered) = oneshot::channel();
        let begins = {
            let mut state = self.state();
            state.waiting.push_back(Member { write, answer });
            let begins = state.workers < GROUP_WORKERS;
            state.workers += usize::from(begins);
            begins
        };
        if begins {
            tokio::spawn(Arc::clone(self).run_worker(pool.clone()));
        }
        answered.await.map_err(|_| Error::Closed)?
    }

    async fn run_worker(self: Arc<Self>, pool: Pool) {
        while let Some(group) = self.next() {
            let written = tokio::spawn(write_group(pool.clone(), group));
            // One that waits for a row of its own does not hold the others up.
            let _ = tokio::time::timeout(WORKER_HELD_MAX, written).await;
        }
    }

    /// The writes of the next group; without any the worker ends. Groups have few sizes, because
    /// the database prepares the statements of each size once.
    fn next(&self) -> Option<Vec<Member<W>>> {
        let mut state = self.state();
        let count = state.waiting.len().min(self.group_max);
        if count == 0 {
            state.workers -= 1;
            return None;
        }
        let count = 1 << count.ilog2();
        Some(state.waiting.drain(..count).collect())
    }

    fn state(&self) -> MutexGuard<'_, State<W>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_group<W: Batchable>(pool: Pool, group: Vec<Member<W>>) {
    let writes = group.iter().map(|it| Arc::clone(&it.write)).collect();
    match write_all(&pool, writes).await {
        Ok(()) => group.into_iter().for_each(|it| it.tell(Ok(()))),
        Err(Error::OutcomeUnknown { source }) => {
            for member in group {
                member.tell(Err(Error::OutcomeUnknown { source: again(&source) }));
            }
        }
        Err(error) => match <[Member<W>; 1]>::try_from(group) {
            Ok([alone]) => alone.tell(Err(error)),
            Err(group) => {
                for member in group {
                    tokio::spawn(write_alone(pool.clone(), member));
                }
            }
        },
    }
}

async fn write_alone<W: Batchable>(pool: Pool, member: Member<W>) {
    let written = write_all(&pool, vec![Arc::clone(&member.write)]).await;
    member.tell(written);
}

async fn write_all<W: Batchable>(pool: &Pool, group: Vec<Arc<W>>) -> Result<(), Error> {
    pool.count(group.len().saturating_sub(1));
    pool.write(move |conn| {
        Box::pin(async move {
            if group.len() > 1
                && let Some(bound) = BOUND_GROUP
            {
                sqlx::raw_sql(bound).execute(&mut *conn).await.context("bound a group")?;
            }
            W::write(conn, &group).await
        })
    })
    .await
}

/// The cause itself can be returned only once.
fn again(source: &sqlx::Error) -> sqlx::Error {
    let kind = std::io::ErrorKind::ConnectionAborted;
    sqlx::Error::Io(std::io::Error::new(kind, source.to_string()))
}

impl<W> Member<W> {
    fn tell(self, written: Result<(), Error>) {
        // The caller may have stopped waiting.
        let _ = self.answer.send(written);
    }
}
