//! The pool of PostgreSQL: connections, and one transaction per write.

use std::future::Future;
use std::pin::Pin;
use std::str::FromStr as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sqlx::pool::PoolConnection;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Connection as _, PgPool, Transaction};

use super::{Conn, Db};
use crate::error::{Context as _, Error};
use crate::settings::Settings;

/// A connection that was idle for longer is pinged before use.
const RESTED: Duration = Duration::from_secs(1);

/// How many statements a connection keeps prepared: groups of several sizes have their own.
const STATEMENTS_MAX: usize = 512;

/// A job's future.
pub(crate) type Job<'c, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'c>>;

#[derive(Clone, Debug)]
pub(crate) struct Pool {
    connections: PgPool,
    connections_max: u32,
    /// How many writes were requested.
    pub(crate) writes: Arc<AtomicU64>,
}

impl Pool {
    pub(crate) async fn open(url: &str, settings: &Settings) -> Result<Self, Error> {
        let millis = |span: Duration| format!("{}ms", span.as_millis());
        let options = PgConnectOptions::from_str(url).context("read the database URL")?;
        let options = options.application_name("usher").statement_cache_capacity(STATEMENTS_MAX);
        let options = options.options([
            ("statement_timeout", millis(settings.statement_timeout)),
            ("lock_timeout", millis(settings.lock_timeout)),
            ("idle_in_transaction_session_timeout", millis(settings.idle_timeout)),
            // Every statement finds its rows by an index, whatever its parameters: planning it
            // anew takes several times as long as answering it.
            ("plan_cache_mode", "force_generic_plan".to_owned()),
        ]);
        let pool = PgPoolOptions::new()
            .max_connections(settings.connections_max)
            .acquire_timeout(settings.connect_timeout)
            .test_before_acquire(false)
            .before_acquire(|conn, meta| {
                Box::pin(async move { Ok(meta.idle_for < RESTED || conn.ping().await.is_ok()) })
            })
            .connect_with(options)
            .await
            .context("reach PostgreSQL")?;
        let connections_max = settings.connections_max;
        Ok(Self { connections: pool, connections_max, writes: Arc::default() })
    }

    /// Counts requested writes.
    pub(crate) fn count(&self, more: usize) {
        self.writes.fetch_add(u64::try_from(more).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// A connection for one read.
    pub(crate) async fn read(&self) -> Result<PoolConnection<Db>, Error> {
        self.connections.acquire().await.context("reach PostgreSQL")
    }

    /// A connection of its own, beside the pool.
    pub(crate) async fn session(&self) -> Result<Conn, Error> {
        let options = self.connections.connect_options();
        Conn::connect_with(&options).await.context("reach PostgreSQL")
    }

    /// One transaction around a job. If the connection is lost during the commit, the error is
    /// that its outcome is unknown.
    pub(crate) async fn write<T, J>(&self, job: J) -> Result<T, Error>
    where
        J: for<'c> FnOnce(&'c mut Conn) -> Job<'c, T> + Send + 'static,
        T: Send + 'static,
    {
        self.count(1);
        let mut transaction = self.begin().await?;
        let done = match job(&mut transaction).await {
            Ok(done) => done,
            Err(error) => {
                // A transaction that cannot be rolled back ends with its connection.
                let _ = transaction.rollback().await;
                return Err(error);
            }
        };
        match transaction.commit().await {
            Ok(()) => Ok(done),
            Err(source) if Error::is_connection(&source) => Err(Error::OutcomeUnknown { source }),
            Err(source) => Err(Error::new("commit", source)),
        }
    }

    /// A job of idempotent, independent statements: there is no transaction around them. A broken
    /// connection is replaced.
    pub(crate) async fn write_one<T, J>(&self, job: J) -> Result<T, Error>
    where
        J: for<'c> Fn(&'c mut Conn) -> Job<'c, T> + Send + 'static,
        T: Send + 'static,
    {
        self.count(1);
        let mut tries = self.connections_max;
        loop {
            let mut connection = self.read().await?;
            match job(&mut connection).await {
                Err(Error::Database { source, .. }) if Error::is_connection(&source) => {
                    if tries == 0 {
                        return Err(Error::OutcomeUnknown { source });
                    }
                    tries -= 1;
                    // No caller can use it any more.
                    connection.close_on_drop();
                }
                done => return done,
            }
        }
    }

    pub(crate) async fn close(&self) {
        self.connections.close().await;
    }

    /// Connections that broke while idle are detected here, before any statement is run.
    async fn begin(&self) -> Result<Transaction<'static, Db>, Error> {
        let mut tries = self.connections_max;
        loop {
            match self.connections.begin().await {
                Ok(transaction) => return Ok(transaction),
                Err(source) if tries > 0 && Error::is_connection(&source) => tries -= 1,
                Err(source) => return Err(Error::new("reach PostgreSQL", source)),
            }
        }
    }
}
