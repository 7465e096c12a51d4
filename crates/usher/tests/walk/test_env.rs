//! The surroundings of a server: its agents, the objects of its world, and its database.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::io::Errno;
use rustix::process::Signal;
use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::time::sleep;

use crate::caller::SOON;
use crate::running::running_below;
use crate::test_server::{TIMEOUT, TestServer};

/// Where agents run: on machines of the fleet, or below the world itself.
const AGENTS: [&str; 2] = ["fleet/process", "world/process"];

impl TestServer {
    /// One number, read directly from the database.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut conn = self.embedded().await;
        let found = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut conn).await;
        conn.close().await.unwrap();
        found.unwrap()
    }

    /// Runs a statement directly on the database.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut conn = self.embedded().await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn embedded(&self) -> sqlx::SqliteConnection {
        let url = format!("sqlite://{}/usher.db", self.data().display());
        sqlx::SqliteConnection::connect(&url).await.unwrap()
    }

    /// The whole content of the database, as text.
    pub(crate) async fn dump(&self) -> String {
        let Some(url) = self.database() else {
            let files = ["usher.db", "usher.db-wal"].map(|it| self.data().join(it));
            let bytes = files.map(|it| fs::read(it).unwrap_or_default()).concat();
            return String::from_utf8_lossy(&bytes).into_owned();
        };
        let mut conn = sqlx::PgConnection::connect(url).await.unwrap();
        let tables = "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public'";
        let tables: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut conn).await.unwrap();
        let mut text = String::new();
        for table in tables {
            let rows = format!("SELECT row_to_json(it)::text FROM \"{table}\" AS it");
            let rows = sqlx::query_scalar::<_, String>(AssertSqlSafe(rows));
            text.push_str(&rows.fetch_all(&mut conn).await.unwrap().join("\n"));
        }
        conn.close().await.unwrap();
        text
    }

    /// The processes that run in the folders of this world.
    pub(crate) fn processes(&self) -> Vec<i32> {
        running_below(&self.data(), "")
    }

    /// The identity file of the only agent of this world, once it is written: that may be a moment
    /// after its resource is Ready.
    pub(crate) async fn identity(&self) -> Value {
        let begun = Instant::now();
        loop {
            let text = fs::read_to_string(self.unit().join("identity.json")).unwrap_or_default();
            let identity: Value = serde_json::from_str(&text).unwrap_or_default();
            if identity["node"]["secret"].is_string() {
                return identity;
            }
            assert!(begun.elapsed() < TIMEOUT, "{identity}");
            sleep(SOON).await;
        }
    }

    /// The folder of the only agent of this world.
    fn unit(&self) -> PathBuf {
        let mut objects = self.objects().into_iter();
        objects.find(|it| it.to_string_lossy().contains("/process/")).unwrap()
    }

    /// Gives the only agent of this world work that ends when the file is removed.
    pub(crate) fn give_work(&self) -> PathBuf {
        let work = self.unit().join("in-flight");
        fs::create_dir_all(&work).unwrap();
        let job = work.join("job");
        fs::write(&job, "").unwrap();
        job
    }

    /// Moves a file or a folder away while it is in use. A process that still writes there may
    /// prevent the removal, and the moved copy is never checked again.
    pub(crate) fn take_away(&self, path: &Path) {
        let away = tempfile::tempdir_in(self.data()).unwrap();
        fs::rename(path, away.path().join("taken")).unwrap();
    }

    /// Signals every agent of this world.
    pub(crate) fn signal_agents(&self, signal: Signal) {
        signal_agents(&self.data(), "", signal);
    }

    /// The objects of the world and the folders of its agents and hosts.
    pub(crate) fn objects(&self) -> Vec<PathBuf> {
        let kinds = ["anchor", "substrate", "part", "provider-config", "external-secret"];
        let kinds = kinds.iter().map(|it| self.data().join("world").join(it));
        let agents = AGENTS.iter().chain(&["fleet/hosts"]).map(|it| self.data().join(it));
        let entries = kinds.chain(agents).flat_map(|it| fs::read_dir(it).into_iter().flatten());
        let paths = entries.map(|it| it.unwrap().path());
        paths.filter(|it| !is_hidden(it)).collect()
    }

    /// Files of the world without a name, half created or half erased, and notes of deleted ones.
    pub(crate) fn unnamed(&self) -> Vec<PathBuf> {
        let world = self.data().join("world");
        let entries = ["aside", "owned", "process", "."].into_iter().flat_map(|folder| {
            fs::read_dir(world.join(folder)).into_iter().flatten().map(move |it| (folder, it))
        });
        let paths = entries.map(|(folder, it)| (folder, it.unwrap().path()));
        let unnamed =
            paths.filter(|(folder, path)| ["aside", "owned"].contains(folder) || is_hidden(path));
        let fleet = ["hosts", "process"].map(|it| self.data().join("fleet").join(it));
        let of_fleet = fleet.into_iter().flat_map(|it| fs::read_dir(it).into_iter().flatten());
        let of_fleet = of_fleet.map(|it| it.unwrap().path()).filter(|it| is_hidden(it));
        unnamed.map(|(_, path)| path).chain(of_fleet).collect()
    }

    /// Waits until nothing is left, in the control plane and the world.
    pub(crate) async fn until_nothing_is_left(&mut self) {
        let begun = Instant::now();
        while !self.objects().is_empty() || !self.processes().is_empty() {
            let left = (self.objects(), self.processes());
            assert!(begun.elapsed() < TIMEOUT, "left: {left:?}\n{}", self.said());
            sleep(SOON).await;
        }
        self.caller().nothing_is_left_inside().await;
    }
}

/// Signals the agents whose folders have such names.
pub(crate) fn signal_agents(data: &Path, like: &str, signal: Signal) {
    for number in AGENTS.iter().flat_map(|it| running_below(&data.join(it), like)) {
        let pid = rustix::process::Pid::from_raw(number).unwrap();
        // A process that has exited meanwhile needs no signal.
        let sent = rustix::process::kill_process(pid, signal);
        assert!(matches!(sent, Ok(()) | Err(Errno::SRCH)), "{sent:?}");
    }
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'))
}
