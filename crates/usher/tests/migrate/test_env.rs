//! A database of each kind, and runs of the real binary against it.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::Value;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// The result of a run: exit code, standard output, standard error.
type Left = (Option<i32>, String, String);

/// A fresh database, and the flags that name it.
pub(crate) struct TestEnv {
    pub(crate) words: [String; 2],
    pub(crate) folder: Option<PathBuf>,
    pub(crate) _database: Option<usher_pgtest::Database>,
}

impl Drop for TestEnv {
    fn drop(&mut self) {
        if let Some(folder) = &self.folder {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

impl TestEnv {
    pub(crate) fn sqlite() -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("usher-migrate-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let words = ["--data-dir".to_owned(), folder.display().to_string()];
        Self { words, folder: Some(folder), _database: None }
    }

    pub(crate) async fn postgres() -> Option<Self> {
        let database = usher_pgtest::empty().await?;
        let words = ["--database-url".to_owned(), database.url()];
        Some(Self { words, folder: None, _database: Some(database) })
    }

    pub(crate) fn usher(&self, more: &[&str]) -> Left {
        let output = Command::new(env!("CARGO_BIN_EXE_usher"))
            .arg("migrate")
            .args(&self.words)
            .args(more)
            .env_remove("USHER_DATABASE_URL")
            .env_remove("USHER_DATA_DIR")
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    }

    pub(crate) fn json(&self, more: &[&str]) -> Value {
        let (code, said, complained) = self.usher(&[more, &["-o", "json"]].concat());
        assert_eq!(code, Some(0), "{complained}");
        serde_json::from_str(&said).unwrap()
    }

    /// Runs a statement directly on the database.
    pub(crate) async fn execute(&self, sql: &str) {
        use sqlx::{AssertSqlSafe, Connection as _};
        if let Some(folder) = &self.folder {
            let url = format!("sqlite://{}/usher.db?mode=rwc", folder.display());
            let mut conn = sqlx::SqliteConnection::connect(&url).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        } else {
            let mut conn = sqlx::PgConnection::connect(&self.words[1]).await.unwrap();
            sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut conn).await.unwrap();
            conn.close().await.unwrap();
        }
    }
}

pub(crate) async fn on_both(test: impl AsyncFn(TestEnv)) {
    eprintln!("on SQLite");
    test(TestEnv::sqlite()).await;
    if let Some(test_env) = TestEnv::postgres().await {
        eprintln!("on PostgreSQL");
        test(test_env).await;
    }
}
