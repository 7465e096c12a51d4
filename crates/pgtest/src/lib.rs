//! A private PostgreSQL server for tests: one per process, one database per test.
//!
//! ```text
//!   test process ──pipe──▶ sh (supervisor) ──▶ postgres on a unix socket, as a plain user
//!        dies      ──EOF──▶ stops it, removes its directory
//! ```
//!
//! It depends on no other crate of Usher, so that the tests of every crate can use it.
//!
//! **Invariants**
//! - The server ends with the process that started it, even if that is killed.
//! - It never runs as root, never listens on a network, and no two tests share a database.
//! - Without PostgreSQL the tests print a notice; with `USHER_TEST_POSTGRES=required` they fail.
#![expect(clippy::panic, reason = "only tests use this crate")]

mod find;
mod server;

use std::io::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::sync::OnceCell;

pub use server::Server;

static SHARED: OnceLock<Option<Server>> = OnceLock::new();
static TEMPLATE: OnceCell<String> = OnceCell::const_new();
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A database of one test; it is dropped with the value.
#[derive(Debug)]
pub struct Database {
    server: Server,
    name: String,
}

impl Database {
    /// Its connection URL.
    pub fn url(&self) -> String {
        self.server.url(&self.name)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // The test's own runtime may be shutting down, so this needs another thread.
        let (server, name) = (self.server.clone(), std::mem::take(&mut self.name));
        let drop = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            if let Ok(runtime) = runtime {
                runtime.block_on(server.try_execute(&format!("DROP DATABASE {name} WITH (FORCE)")));
            }
        };
        let _ = std::thread::spawn(drop).join();
    }
}

/// An empty database; `None` if PostgreSQL is missing and not required.
pub async fn empty() -> Option<Database> {
    let server = shared()?;
    Some(server.create("template0").await)
}

/// A copy of a database that was filled once per process, or `None` as in [`empty`].
///
/// The filler must have closed its connections when it returns.
pub async fn filled(fill: impl AsyncFnOnce(String)) -> Option<Database> {
    let server = shared()?;
    let template = TEMPLATE
        .get_or_init(|| async {
            let database = server.create("template0").await;
            fill(database.url()).await;
            let name = database.name.clone();
            // The template exists as long as the server.
            std::mem::forget(database);
            name
        })
        .await;
    Some(server.create(template).await)
}

/// The server of this process, or `None` as in [`empty`].
///
/// # Panics
/// If there is none and it is required.
pub fn shared() -> Option<Server> {
    let server = SHARED.get_or_init(|| match find::external_url() {
        Some(url) => Some(Server::external(url)),
        None => Server::start(&[]),
    });
    if server.is_none() {
        assert!(!find::is_required(), "initdb and postgres are required and not on the PATH");
        let text = "SKIPPED: no initdb and postgres found; nothing was tested on PostgreSQL";
        // Not `eprintln!`, which the test harness captures.
        let _ = writeln!(std::io::stderr(), "\n*** {text} ***\n");
    }
    server.clone()
}

/// A program of PostgreSQL such as `pg_dump`; `None`, with a notice, if it is missing.
///
/// # Panics
/// If there is none and PostgreSQL is required.
pub fn program(name: &str) -> Option<std::path::PathBuf> {
    let found = find::program(name);
    if found.is_none() {
        assert!(!find::is_required(), "{name} is required and not on the PATH");
        // Not `eprintln!`, which the test harness captures.
        let _ = writeln!(std::io::stderr(), "\n*** SKIPPED: {name} not found ***\n");
    }
    found
}

impl Server {
    async fn create(&self, template: &str) -> Database {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("usher_test_{}_{number}", std::process::id());
        self.execute(&format!("CREATE DATABASE {name} TEMPLATE {template}")).await;
        Database { server: self.clone(), name }
    }

    /// Runs one statement as the server's owner.
    ///
    /// # Panics
    /// If the server refuses it.
    pub async fn execute(&self, sql: &str) {
        let mut connection = self.connect().await;
        let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
        if let Err(error) = done {
            panic!("failed to run \"{sql}\": {error}");
        }
        let _ = connection.close().await;
    }

    async fn try_execute(&self, sql: &str) {
        if let Ok(mut connection) = PgConnection::connect(&self.url("postgres")).await {
            let _ = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await;
            let _ = connection.close().await;
        }
    }
}
