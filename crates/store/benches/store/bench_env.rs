//! A database that loses nothing in a power cut, a store in it, and connections past the store.

use std::path::PathBuf;
use std::sync::Arc;

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{AssertSqlSafe, Connection as _, PgConnection, SqliteConnection};
use usher_store::migrate::Direction;
use usher_store::{Place, Settings, Store};

/// A store and where it is.
pub(crate) struct BenchEnv {
    pub(crate) store: Arc<Store>,
    pub(crate) place: Place,
    pub(crate) settings: Settings,
    folder: Option<PathBuf>,
    _server: Option<usher_pgtest::Server>,
}

impl Drop for BenchEnv {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl BenchEnv {
    pub(crate) async fn sqlite() -> Option<Self> {
        let folder = std::env::temp_dir().join(format!("usher-bench-{}", std::process::id()));
        std::fs::create_dir(&folder).unwrap();
        let place = Place::Sqlite(folder.join("usher.db"));
        Some(Self::open(place, Some(folder), None).await)
    }

    /// A server with what production runs with: every commit is on the disk.
    pub(crate) async fn postgres() -> Option<Self> {
        let settings =
            ["fsync=on", "full_page_writes=on", "shared_buffers=256MB", "max_wal_size=4GB"];
        let server = usher_pgtest::Server::start(&settings)?;
        server.execute("CREATE DATABASE bench").await;
        let place = Place::Postgres(server.url("bench"));
        Some(Self::open(place, None, Some(server)).await)
    }

    async fn open(
        place: Place,
        folder: Option<PathBuf>,
        server: Option<usher_pgtest::Server>,
    ) -> Self {
        Store::migrate(&place, Direction::Up).await.unwrap();
        let settings = Settings::default();
        let store = Arc::new(Store::open(&place, settings.clone()).await.unwrap());
        Self { store, place, settings, folder, _server: server }
    }

    pub(crate) fn name(&self) -> &'static str {
        if self.is_postgres() { "PostgreSQL (fsync on)" } else { "SQLite (WAL, synchronous FULL)" }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    /// Runs statements past the store.
    pub(crate) async fn execute(&self, sql: &str) {
        match &self.place {
            Place::Postgres(url) => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
            Place::Sqlite(_) => {
                let mut conn = self.sqlite_connection().await;
                sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
                conn.close().await.unwrap();
            }
        }
    }

    /// One number, queried past the store.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        match &self.place {
            Place::Postgres(url) => {
                let mut conn = PgConnection::connect(url).await.unwrap();
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap()
            }
            Place::Sqlite(_) => {
                let mut conn = self.sqlite_connection().await;
                sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await.unwrap()
            }
        }
    }

    /// A connection with the settings of the store's own.
    pub(crate) async fn sqlite_connection(&self) -> SqliteConnection {
        let Place::Sqlite(path) = &self.place else { unreachable!("it is not SQLite") };
        let options = SqliteConnectOptions::new()
            .filename(path)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            .foreign_keys(true)
            .busy_timeout(std::time::Duration::from_mins(1));
        SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// So many bytes on the disk.
    pub(crate) async fn bytes(&self) -> i64 {
        if self.is_postgres() {
            self.execute("CHECKPOINT").await;
            self.number("SELECT pg_database_size(current_database())").await
        } else {
            self.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
            self.number("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size")
                .await
        }
    }
}
