//! Bare transactions: as many small statements as a verb of the store has, and nothing else.

use std::sync::Arc;

use sqlx::postgres::PgPoolOptions;
use sqlx::{Connection as _, PgPool, SqliteConnection};
use tokio::sync::Mutex;
use usher_store::Place;
use uuid::Uuid;

use crate::bench_env::BenchEnv;

const BODY: &str =
    "{\"name\":\"web\",\"generation\":1,\"xr_name\":\"pr-01890a5dac96774bbcceb302099a8057\"}";
const INSERT: &str = "INSERT INTO bare (id, body, n) VALUES ($1, $2, 0)";
const UPDATE: &str = "UPDATE bare SET n = n + 1 WHERE id = $1";
const SELECT: &str = "SELECT n FROM bare WHERE id = $1";

/// What one transaction is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) selects: u64,
    pub(crate) inserts: u64,
    pub(crate) updates: u64,
}

impl Shape {
    pub(crate) const fn statements(&self) -> u64 {
        self.selects + self.inserts + self.updates
    }
}

/// A connection that bypasses the store.
#[derive(Clone)]
pub(crate) enum Bare {
    Postgres(PgPool),
    /// One connection writes, as in the store.
    Sqlite(Arc<Mutex<SqliteConnection>>),
}

macro_rules! statements {
    ($conn:expr, $shape:expr, $row:expr) => {{
        for _ in 0..$shape.selects {
            sqlx::query(SELECT).bind($row).fetch_optional(&mut *$conn).await.unwrap();
        }
        for _ in 0..$shape.inserts {
            let id = Uuid::now_v7();
            sqlx::query(INSERT).bind(id).bind(BODY).execute(&mut *$conn).await.unwrap();
        }
        for _ in 0..$shape.updates {
            sqlx::query(UPDATE).bind($row).execute(&mut *$conn).await.unwrap();
        }
    }};
}

impl Bare {
    pub(crate) async fn new(bench_env: &BenchEnv) -> Self {
        let columns = if bench_env.is_postgres() {
            "id uuid PRIMARY KEY, body text NOT NULL, n bigint NOT NULL"
        } else {
            "id BLOB PRIMARY KEY, body TEXT NOT NULL, n INTEGER NOT NULL"
        };
        bench_env.execute(&format!("CREATE TABLE IF NOT EXISTS bare ({columns})")).await;
        match &bench_env.place {
            Place::Postgres(url) => {
                let pool = PgPoolOptions::new()
                    .max_connections(bench_env.settings.connections_max)
                    .test_before_acquire(false)
                    .connect(url)
                    .await
                    .unwrap();
                Self::Postgres(pool)
            }
            Place::Sqlite(_) => {
                Self::Sqlite(Arc::new(Mutex::new(bench_env.sqlite_connection().await)))
            }
        }
    }

    /// A row per client, so that no client waits for another.
    pub(crate) async fn row(&self) -> Uuid {
        let id = Uuid::now_v7();
        match self {
            Self::Postgres(pool) => {
                sqlx::query(INSERT).bind(id).bind(BODY).execute(pool).await.unwrap();
            }
            Self::Sqlite(conn) => {
                let conn = &mut *conn.lock().await;
                sqlx::query(INSERT).bind(id).bind(BODY).execute(conn).await.unwrap();
            }
        }
        id
    }

    pub(crate) async fn transaction(&self, shape: Shape, row: Uuid) {
        match self {
            Self::Postgres(pool) => {
                let mut transaction = pool.begin().await.unwrap();
                statements!(transaction, shape, row);
                transaction.commit().await.unwrap();
            }
            Self::Sqlite(conn) => {
                let conn = &mut *conn.lock().await;
                let mut transaction = conn.begin_with("BEGIN IMMEDIATE").await.unwrap();
                statements!(transaction, shape, row);
                transaction.commit().await.unwrap();
            }
        }
    }
}
