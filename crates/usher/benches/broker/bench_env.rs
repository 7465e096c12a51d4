//! A server of the real binary over a database that survives a power cut.

use std::sync::Arc;

use sqlx::{Connection as _, PgConnection};
use usher_pgtest::Server;
use usher_store::migrate::Direction;
use usher_store::{Place, Settings, Store};

use crate::cpu;
use crate::test_server::{TestServer, furnish};

/// Production settings in place of those of the tests.
const SETTINGS: [&str; 8] = [
    "worker.lease=30s",
    "worker.step_deadline=20s",
    "worker.request_bound=10s",
    "broker.reconcile_interval=30s",
    "mesh.heartbeat=10s",
    // Silent nodes are enrolled for their memory only.
    "mesh.missed_max=1000",
    "log=warn",
    "local.agent=external",
];
/// Every commit is on the disk.
const POSTGRES: [&str; 4] =
    ["fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB"];

/// Where servers and stores are opened.
pub(crate) struct BenchEnv {
    dir: Arc<tempfile::TempDir>,
    server: Option<Server>,
}

impl BenchEnv {
    pub(crate) fn sqlite() -> Self {
        Self { dir: Arc::new(tempfile::tempdir().unwrap()), server: None }
    }

    /// `None` without PostgreSQL.
    pub(crate) fn postgres() -> Option<Self> {
        let server = Server::start(&POSTGRES)?;
        Some(Self { dir: Arc::new(tempfile::tempdir().unwrap()), server: Some(server) })
    }

    pub(crate) const fn name(&self) -> &'static str {
        match self.server {
            Some(_) => "PostgreSQL (fsync on)",
            None => "SQLite (WAL, synchronous FULL)",
        }
    }

    /// A running server with a database and a world of this name.
    pub(crate) async fn server(&self, name: &str) -> TestServer {
        let place = self.place(name).await;
        let dir = Arc::new(tempfile::tempdir_in(self.dir.path()).unwrap());
        let url = match &place {
            Place::Postgres(url) => {
                furnish(&place).await;
                Some(url.clone())
            }
            Place::Sqlite(_) => None,
        };
        let mut server = TestServer::within(&dir, url, &SETTINGS);
        server.start(None);
        server.until_ready().await;
        server
    }

    /// A store next to the servers, on the same disk or the same PostgreSQL.
    pub(crate) async fn store(&self, name: &str) -> Arc<Store> {
        let place = self.place(name).await;
        Store::migrate(&place, Direction::Up).await.unwrap();
        Arc::new(Store::open(&place, Settings::default()).await.unwrap())
    }

    async fn place(&self, name: &str) -> Place {
        match &self.server {
            Some(server) => {
                server.execute(&format!("CREATE DATABASE {name}")).await;
                Place::Postgres(server.url(name))
            }
            None => Place::Sqlite(self.dir.path().join(format!("{name}.db"))),
        }
    }

    /// The postmaster of the database, if it has one.
    pub(crate) async fn database(&self) -> Option<u32> {
        let mut connection = PgConnection::connect(&self.server.as_ref()?.url("postgres")).await;
        let connection = connection.as_mut().unwrap();
        let sql = "SELECT pg_backend_pid()";
        let own: i32 = sqlx::query_scalar(sql).fetch_one(connection).await.unwrap();
        cpu::parent(own.unsigned_abs())
    }

    /// How many transactions have written so far, if the database counts them.
    pub(crate) async fn written(&self) -> Option<i64> {
        let mut connection = PgConnection::connect(&self.server.as_ref()?.url("postgres")).await;
        let connection = connection.as_mut().unwrap();
        let sql = "SELECT CAST(CAST(pg_snapshot_xmax(pg_current_snapshot()) AS text) AS bigint)";
        Some(sqlx::query_scalar(sql).fetch_one(connection).await.unwrap())
    }
}
