//! What every test starts from: a store of its own on each database.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection as _};
use usher_domain::broker::event::EventType;
use usher_domain::object::id::{ProjectId, ResourceId};
use usher_store::migrate::Direction;
use usher_store::{About, Cursor, LoggedEvent, Place, Settings, Store};

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A store, where it is, and a connection that bypasses it.
pub(crate) struct TestStore {
    pub(crate) store: Arc<Store>,
    pub(crate) database: TestDatabase,
}

/// A database without a store.
#[derive(Debug)]
pub(crate) struct TestDatabase {
    pub(crate) place: Place,
    _database: Option<usher_pgtest::Database>,
    _folder: Option<Folder>,
}

/// A folder that goes with its value.
#[derive(Debug)]
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    /// A folder in memory, where there is one.
    pub(crate) fn in_memory() -> Self {
        let shared = std::path::Path::new("/dev/shm");
        if shared.is_dir() { Self::under(shared) } else { Self::new() }
    }

    fn under(folder: &std::path::Path) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = folder.join(format!("usher-store-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

impl TestDatabase {
    pub(crate) fn sqlite() -> Self {
        Self::file_in(Folder::new())
    }

    pub(crate) fn file_in(folder: Folder) -> Self {
        let place = Place::Sqlite(folder.0.join("usher.db"));
        Self { place, _database: None, _folder: Some(folder) }
    }

    /// A database that the caller removes.
    pub(crate) const fn borrowed(place: Place) -> Self {
        Self { place, _database: None, _folder: None }
    }

    pub(crate) async fn empty_postgres() -> Option<Self> {
        usher_pgtest::empty().await.map(Self::of)
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let fill = async |url: String| {
            Store::migrate(&Place::Postgres(url), Direction::Up).await.unwrap();
        };
        usher_pgtest::filled(fill).await.map(Self::of)
    }

    fn of(database: usher_pgtest::Database) -> Self {
        let place = Place::Postgres(database.url());
        Self { place, _database: Some(database), _folder: None }
    }

    pub(crate) fn is_postgres(&self) -> bool {
        matches!(self.place, Place::Postgres(_))
    }

    /// Runs statements past the store, as an operator with a console would.
    pub(crate) async fn execute(&self, sql: &str) {
        match &self.place {
            Place::Postgres(url) => {
                let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
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
                let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
                let found = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await;
                conn.close().await.unwrap();
                found.unwrap()
            }
            Place::Sqlite(_) => {
                let mut conn = self.sqlite_connection().await;
                let found = sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut conn).await;
                conn.close().await.unwrap();
                found.unwrap()
            }
        }
    }

    pub(crate) async fn sqlite_connection(&self) -> sqlx::SqliteConnection {
        let Place::Sqlite(path) = &self.place else { panic!("it is not SQLite") };
        let options = sqlx::sqlite::SqliteConnectOptions::new()
            .filename(path)
            .busy_timeout(std::time::Duration::from_secs(5));
        sqlx::SqliteConnection::connect_with(&options).await.unwrap()
    }

    /// An id as a literal of this database.
    pub(crate) fn id(&self, id: impl std::fmt::Display) -> String {
        match self.place {
            Place::Postgres(_) => format!("'{id}'"),
            Place::Sqlite(_) => format!("x'{}'", id.to_string().replace('-', "")),
        }
    }
}

/// Runs a test on every available database, and prints on which it failed.
pub(crate) async fn on_both(test: impl AsyncFn(TestStore)) {
    on_both_with(Settings::default(), test).await;
}

/// As [`on_both`], with other settings.
pub(crate) async fn on_both_with(settings: Settings, test: impl AsyncFn(TestStore)) {
    on_both_databases(async |database| {
        Store::migrate(&database.place, Direction::Up).await.unwrap();
        let store = Arc::new(Store::open(&database.place, settings.clone()).await.unwrap());
        test(TestStore { store, database }).await;
    })
    .await;
}

/// Runs a test on a database of each kind; PostgreSQL has its schema already.
pub(crate) async fn on_both_databases(test: impl AsyncFn(TestDatabase)) {
    eprintln!("on SQLite");
    test(TestDatabase::sqlite()).await;
    if let Some(database) = TestDatabase::postgres().await {
        eprintln!("on PostgreSQL");
        test(database).await;
    }
}

/// The resource, project and type of an event; machines emit none here.
pub(crate) fn of_resource(it: &LoggedEvent) -> (ResourceId, ProjectId, EventType) {
    match it.about {
        About::Resource { id, project, event_type } => (id, project, event_type),
        About::Machine { id, .. } => panic!("machine {id} emitted an event"),
    }
}

/// Reads events until there are so many: any open transaction on the server delays them, and other
/// tests have some.
pub(crate) async fn read_events(store: &Store, after: Cursor, count: usize) -> Vec<LoggedEvent> {
    for _ in 0..12_000 {
        let events = store.events(after, 100).await.unwrap();
        if events.len() >= count {
            return events;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{count} events did not come");
}
