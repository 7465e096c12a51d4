//! A server of the real binary with a data directory of its own, and a client that asks it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sqlx::{AssertSqlSafe, Connection as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use usher_cli::serve::seed;
use usher_store::migrate::Way;
use usher_store::{Place, Store};

/// The program under test.
pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");
/// How long something real may take.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// Leases are short, so that the next server need not wait for those of a killed one.
const SETTINGS: [&str; 6] = [
    "worker.lease=1s",
    "worker.step_deadline=700ms",
    "worker.request_bound=100ms",
    "broker.reconcile_interval=2s",
    "mesh.heartbeat=200ms",
    "log=debug",
];

/// One server, its data and its client.
pub(crate) struct House {
    dir: Arc<tempfile::TempDir>,
    port: u16,
    server: Option<Child>,
    settings: Vec<String>,
    deaths: u32,
    /// Where it serves from, if not from its own directory.
    database: Option<Arc<usher_pgtest::Database>>,
}

impl House {
    pub(crate) fn new(settings: &[&str]) -> Self {
        let dir = Arc::new(tempfile::tempdir().unwrap());
        let settings = SETTINGS.iter().chain(settings).map(|it| (*it).to_owned()).collect();
        Self { dir, port: free_port(), server: None, settings, deaths: 0, database: None }
    }

    /// A house that serves from PostgreSQL and is ready, if there is one.
    pub(crate) async fn serve(settings: &[&str]) -> Option<Self> {
        let database = usher_pgtest::empty().await?;
        let place = Place::Postgres(database.url());
        Store::migrate(&place, Way::Up).await.unwrap();
        let store = Store::open(&place, usher_store::Settings::default()).await.unwrap();
        seed::seed(&store).await.unwrap();
        store.close().await;
        let mut house = Self::new(settings);
        house.database = Some(Arc::new(database));
        house.start(None);
        house.until_ready().await;
        Some(house)
    }

    /// Another server of the same database and the same world, ready.
    pub(crate) async fn neighbour(&self) -> Self {
        let mut other = Self {
            dir: Arc::clone(&self.dir),
            port: free_port(),
            server: None,
            settings: self.settings.clone(),
            deaths: 0,
            database: self.database.clone(),
        };
        other.start(None);
        other.until_ready().await;
        other
    }

    /// Sets something for the servers to come.
    pub(crate) fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// A house with a server that is ready.
    pub(crate) async fn up(settings: &[&str]) -> Self {
        let mut house = Self::new(settings);
        house.start(None);
        house.until_ready().await;
        house
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// A command of the binary that would start a server here.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = Command::new(USHER);
        command.arg(verb).arg("--data-dir").arg(self.data());
        command.args(["--listen", &format!("127.0.0.1:{}", self.port)]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.env_remove("USHER_FAILPOINT").stdin(Stdio::null());
        command
    }

    /// Starts a server, perhaps one that dies somewhere.
    pub(crate) fn start(&mut self, failpoint: Option<&str>) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let mut command = match &self.database {
            Some(database) => {
                let mut command = self.command("serve");
                command.env("USHER_DATABASE_URL", database.url());
                command
            }
            None => self.command("up"),
        };
        command.stdout(log.try_clone().unwrap()).stderr(log);
        if let Some(name) = failpoint {
            command.env("USHER_FAILPOINT", name);
        }
        self.server = Some(command.spawn().unwrap());
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join(format!("log-{}", self.port))
    }

    /// Everything the servers said.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Whether no server runs.
    fn has_died(&mut self) -> bool {
        let Some(server) = &mut self.server else { return true };
        if server.try_wait().unwrap().is_none() {
            return false;
        }
        self.deaths += 1;
        self.server = None;
        true
    }

    /// How many servers ended by themselves.
    pub(crate) fn deaths(&mut self) -> u32 {
        self.has_died();
        self.deaths
    }

    /// Kills the server as `kill -9` does.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            server.wait().unwrap();
        }
    }

    /// Asks the server to end and waits until it has; its exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        let mut server = self.server.take()?;
        let pid = rustix::process::Pid::from_raw(i32::try_from(server.id()).unwrap()).unwrap();
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        let begun = Instant::now();
        loop {
            if let Some(status) = server.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < PATIENCE, "it does not end: {}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until the server is ready or has died.
    pub(crate) async fn until_ready(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            if self.has_died() {
                return false;
            }
            if let Some((200, _)) = self.ask("GET", "/readyz", None).await {
                return true;
            }
            assert!(begun.elapsed() < PATIENCE, "never ready: {}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// One request; nothing if it was not answered.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let token = fs::read_to_string(self.data().join("admin.token")).unwrap_or_default();
        self.ask_as(token.trim(), (method, path), body).await
    }

    /// One request with this bearer. The same body is the same request, however often it is sent.
    pub(crate) async fn ask_as(
        &self,
        bearer: &str,
        (method, path): (&str, &str),
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        let body = body.map(ToString::to_string).unwrap_or_default();
        let key = if method == "POST" {
            format!("Idempotency-Key: {}\r\n", body.replace(|c: char| !c.is_alphanumeric(), "-"))
        } else {
            String::new()
        };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {bearer}\r\nContent-Type: application/json\r\n{key}\
             Content-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let (status, text) = self.send(request.as_bytes()).await?;
        if text.is_empty() {
            return Some((status, Value::Null));
        }
        Some((status, serde_json::from_str(&text).ok()?))
    }

    /// Sends a request as it is; status and text of the answer.
    pub(crate) async fn send(&self, request: &[u8]) -> Option<(u16, String)> {
        let call = async {
            let mut stream = TcpStream::connect(("127.0.0.1", self.port)).await.ok()?;
            stream.write_all(request).await.ok()?;
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.ok()?;
            let answer = String::from_utf8_lossy(&answer).into_owned();
            let (head, body) = answer.split_once("\r\n\r\n")?;
            Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
        };
        timeout(ANSWER, call).await.ok().flatten()
    }

    /// One request, repeated until it is answered; a server that died is started again.
    pub(crate) async fn insist(&mut self, method: &str, path: &str, body: Option<&Value>) -> Value {
        let begun = Instant::now();
        loop {
            if self.has_died() {
                self.start(None);
                self.until_ready().await;
            }
            match self.ask(method, path, body).await {
                Some((status, answer)) if status < 300 => return answer,
                Some((503, _)) | None => {}
                Some((status, answer)) => panic!("{method} {path}: {status} {answer}"),
            }
            assert!(begun.elapsed() < PATIENCE, "{method} {path}: {}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Runs a verb as a person would; its exit code and all it printed.
    pub(crate) fn usher(&self, words: &[&str]) -> (Option<i32>, String) {
        let mut command = Command::new(USHER);
        command.args(words).arg("--data-dir").arg(self.data()).stdin(Stdio::null());
        let output = command.output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// One number, asked past the server.
    pub(crate) async fn number(&self, sql: &str) -> i64 {
        let mut conn = self.embedded().await;
        let found = sqlx::query_scalar(AssertSqlSafe(sql.to_owned())).fetch_one(&mut conn).await;
        conn.close().await.unwrap();
        found.unwrap()
    }

    /// Runs a statement past the server.
    pub(crate) async fn execute(&self, sql: &str) {
        let mut conn = self.embedded().await;
        sqlx::raw_sql(AssertSqlSafe(sql.to_owned())).execute(&mut conn).await.unwrap();
        conn.close().await.unwrap();
    }

    async fn embedded(&self) -> sqlx::SqliteConnection {
        let url = format!("sqlite://{}/usher.db", self.data().display());
        sqlx::SqliteConnection::connect(&url).await.unwrap()
    }

    /// Everything the database holds, as text.
    pub(crate) async fn dump(&self) -> String {
        let Some(database) = &self.database else {
            let files = ["usher.db", "usher.db-wal"].map(|it| self.data().join(it));
            let bytes = files.map(|it| fs::read(it).unwrap_or_default()).concat();
            return String::from_utf8_lossy(&bytes).into_owned();
        };
        let mut conn = sqlx::PgConnection::connect(&database.url()).await.unwrap();
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

    /// Declares a node; its id.
    pub(crate) async fn provision(&mut self, name: &str) -> String {
        self.provision_with(name, &json!({})).await
    }

    pub(crate) async fn provision_with(&mut self, name: &str, parameters: &Value) -> String {
        let body = json!({
            "name": name, "project": "demo", "blueprint": "local-node", "credential": "local",
            "parameters": parameters,
        });
        let made = self.insist("POST", "/v1/resources", Some(&body)).await;
        made["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn deprovision(&mut self, id: &str) {
        self.insist("DELETE", &format!("/v1/resources/{id}"), None).await;
    }

    pub(crate) async fn resource(&mut self, id: &str) -> Value {
        self.insist("GET", &format!("/v1/resources/{id}"), None).await
    }

    pub(crate) async fn why(&mut self, id: &str) -> Value {
        self.insist("GET", &format!("/v1/resources/{id}/why"), None).await
    }

    /// Waits until a resource is in a phase.
    pub(crate) async fn until_phase(&mut self, id: &str, phase: &str) {
        let begun = Instant::now();
        loop {
            let it = self.resource(id).await;
            if it["phase"] == phase {
                return;
            }
            if begun.elapsed() > PATIENCE {
                let why = self.why(id).await;
                panic!("never {phase}: {why}\n{}", self.said());
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// Waits until a resource waits for this reason.
    pub(crate) async fn until_reason(&mut self, id: &str, reason: &str) {
        let begun = Instant::now();
        while self.resource(id).await["reason"] != reason {
            let why = self.why(id).await;
            assert!(begun.elapsed() < PATIENCE, "never {reason}: {why}\n{}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
    }

    /// The processes that run in the folders of this world.
    pub(crate) fn processes(&self) -> Vec<i32> {
        let folder = self.data().join("world/process");
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap() {
            let path = entry.unwrap().path();
            let number = path.file_name().and_then(|it| it.to_str()?.parse().ok());
            if let (Some(number), Ok(place)) = (number, fs::read_link(path.join("cwd")))
                && place.starts_with(&folder)
            {
                found.push(number);
            }
        }
        found
    }

    /// Signals every agent of this world.
    pub(crate) fn signal_agents(&self, signal: rustix::process::Signal) {
        for number in self.processes() {
            let pid = rustix::process::Pid::from_raw(number).unwrap();
            rustix::process::kill_process(pid, signal).unwrap();
        }
    }

    /// What the server counts of worlds, steps and commits.
    pub(crate) async fn counters(&self) -> Vec<String> {
        let token = fs::read_to_string(self.data().join("admin.token")).unwrap();
        let request = format!(
            "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\n\r\n",
            token.trim()
        );
        let (_, answer) = self.send(request.as_bytes()).await.unwrap();
        let ours = answer.lines().filter(|it| it.starts_with("usher_"));
        ours.map(str::to_owned).collect()
    }

    /// What lies in the world, but for the world itself.
    pub(crate) fn standing(&self) -> Vec<PathBuf> {
        let kinds =
            ["anchor", "substrate", "part", "provider-config", "external-secret", "process"];
        let entries = kinds.iter().flat_map(|kind| {
            fs::read_dir(self.data().join("world").join(kind)).into_iter().flatten()
        });
        let paths = entries.map(|it| it.unwrap().path());
        paths.filter(|it| !is_hidden(it)).collect()
    }

    /// Waits until nothing of anybody is left, and looks everywhere.
    pub(crate) async fn until_nothing_is_left(&mut self) {
        let begun = Instant::now();
        while !self.standing().is_empty() || !self.processes().is_empty() {
            let left = (self.standing(), self.processes());
            assert!(begun.elapsed() < PATIENCE, "left: {left:?}\n{}", self.said());
            sleep(Duration::from_millis(20)).await;
        }
        let orphans = self.insist("GET", "/v1/orphans", None).await;
        assert_eq!(orphans["items"], json!([]));
        let tokens = self.insist("GET", "/v1/tokens?limit=500", None).await;
        for token in tokens["items"].as_array().unwrap() {
            assert_ne!(token["state"], "redeemable", "{token}");
        }
        let living = self.insist("GET", "/v1/nodes", None).await;
        assert_eq!(living["items"], json!([]));
        let nodes = self.insist("GET", "/v1/nodes?all=true&limit=500", None).await;
        for node in nodes["items"].as_array().unwrap() {
            assert_eq!(node["stage"], "deregistered", "{node}");
        }
    }

    /// What was told of a resource, in order, without the common beginning.
    pub(crate) async fn told(&mut self, id: &str) -> Vec<String> {
        let all = self.insist("GET", "/v1/events?limit=500", None).await;
        let events = all["items"].as_array().unwrap().iter();
        let own = events.filter(|it| it["resource"] == id);
        let word = |it: &Value| it["type"].as_str().unwrap().to_owned();
        own.map(word).map(|it| it.replace("broker.ProvisionedResource", "")).collect()
    }
}

impl Drop for House {
    fn drop(&mut self) {
        self.kill();
        for number in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(number) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}

fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|it| it.to_string_lossy().starts_with('.'))
}
