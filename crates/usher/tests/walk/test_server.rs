//! A server of the real binary with its own data directory, and a client.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;
use usher_server::seed;
use usher_store::migrate::Direction;
use usher_store::{Place, Store};

use crate::caller::{Caller, SOON, declaration};
use crate::port::Port;

/// The binary under test.
pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");
/// How long a wait may take.
pub(crate) const TIMEOUT: Duration = Duration::from_mins(2);
/// Short leases, so that the next server need not wait for those of a killed one.
const SETTINGS: [&str; 8] = [
    "fleet.passing_interval=50ms",
    "fleet.lease=1s",
    "worker.lease=1s",
    "worker.step_deadline=700ms",
    "worker.request_bound=100ms",
    "broker.reconcile_interval=2s",
    "mesh.heartbeat=200ms",
    "log=debug",
];

/// One server, its data and its client.
pub(crate) struct TestServer {
    dir: Arc<tempfile::TempDir>,
    caller: Caller,
    /// Reserved for this server, also while it is down.
    port: Port,
    server: Option<Child>,
    settings: Vec<String>,
    /// How many descriptors the server may open, if it is limited.
    descriptors: Option<u64>,
    deaths: u32,
    /// The PostgreSQL database, if it is not embedded.
    database: Option<String>,
    /// Dropped with the last server that uses it.
    kept: Option<Arc<usher_pgtest::Database>>,
}

impl TestServer {
    pub(crate) fn new(settings: &[&str]) -> Self {
        Self::within(&Arc::new(tempfile::tempdir().unwrap()), None, settings)
    }

    /// A server with its data in this directory and, if given, in this database.
    pub(crate) fn within(
        dir: &Arc<tempfile::TempDir>,
        database: Option<String>,
        settings: &[&str],
    ) -> Self {
        let settings = SETTINGS.iter().chain(settings).map(|it| (*it).to_owned()).collect();
        let port = Port::reserve();
        let caller = Caller { port: port.number(), data: dir.path().join("data") };
        let (dir, server, deaths, kept) = (Arc::clone(dir), None, 0, None);
        let descriptors = None;
        Self { dir, caller, port, server, settings, descriptors, deaths, database, kept }
    }

    /// A ready server on PostgreSQL; `None` without PostgreSQL.
    pub(crate) async fn serve(settings: &[&str]) -> Option<Self> {
        let database = usher_pgtest::empty().await?;
        furnish(&Place::Postgres(database.url())).await;
        let mut server = Self::new(settings);
        server.database = Some(database.url());
        server.kept = Some(Arc::new(database));
        server.start(None);
        server.until_ready().await;
        Some(server)
    }

    /// A second server on the same database and the same world, ready.
    pub(crate) async fn neighbour(&self) -> Self {
        let mut other = Self::within(&self.dir, self.database.clone(), &[]);
        other.settings.clone_from(&self.settings);
        other.kept.clone_from(&self.kept);
        other.start(None);
        other.until_ready().await;
        other
    }

    /// Adds a setting for the next start.
    pub(crate) fn set(&mut self, setting: &str) {
        self.settings.push(setting.to_owned());
    }

    /// A ready server that may open this many descriptors.
    pub(crate) async fn up_within(descriptors: u64, settings: &[&str]) -> Self {
        let mut server = Self::new(settings);
        server.descriptors = Some(descriptors);
        server.start(None);
        server.until_ready().await;
        server
    }

    /// A ready server.
    pub(crate) async fn up(settings: &[&str]) -> Self {
        let mut server = Self::new(settings);
        server.start(None);
        server.until_ready().await;
        server
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.caller.data.clone()
    }

    pub(crate) fn port(&self) -> u16 {
        self.port.number()
    }

    /// The URL of its database, if it is not embedded.
    pub(crate) fn database(&self) -> Option<&str> {
        self.database.as_deref()
    }

    /// A client of this server, whether it runs or not.
    pub(crate) fn caller(&self) -> &Caller {
        &self.caller
    }

    /// A command that would start a server here.
    pub(crate) fn command(&self, verb: &str) -> Command {
        let mut command = match self.descriptors {
            None => Command::new(USHER),
            Some(count) => {
                let mut shell = Command::new("sh");
                shell.args(["-c", "ulimit -n \"$0\" && exec \"$@\"", &count.to_string(), USHER]);
                shell
            }
        };
        command.arg(verb).arg("--data-dir").arg(self.data());
        command.args(["--listen", &format!("127.0.0.1:{}", self.port())]);
        for setting in &self.settings {
            command.args(["--set", setting]);
        }
        command.env_remove("USHER_FAILPOINT").stdin(Stdio::null());
        command
    }

    /// Starts a server, optionally with a failpoint.
    pub(crate) fn start(&mut self, failpoint: Option<&str>) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.log()).unwrap();
        let verb = if self.database.is_some() { "serve" } else { "up" };
        let mut command = self.command(verb);
        if let Some(url) = &self.database {
            command.env("USHER_DATABASE_URL", url);
        }
        command.stdout(log.try_clone().unwrap()).stderr(log);
        if let Some(name) = failpoint {
            command.env("USHER_FAILPOINT", name);
        }
        self.server = Some(command.spawn().unwrap());
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join(format!("log-{}", self.port()))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.server.as_ref().map(Child::id).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        if self.server.is_none() {
            return;
        }
        let pid = rustix::process::Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// The log of all servers.
    pub(crate) fn said(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    /// Whether no server runs.
    pub(crate) fn has_died(&mut self) -> bool {
        let Some(server) = &mut self.server else { return true };
        if server.try_wait().unwrap().is_none() {
            return false;
        }
        self.deaths += 1;
        self.server = None;
        true
    }

    /// How many servers exited by themselves.
    pub(crate) fn deaths(&mut self) -> u32 {
        self.has_died();
        self.deaths
    }

    /// Kills the server with SIGKILL.
    pub(crate) fn kill(&mut self) {
        if let Some(mut server) = self.server.take() {
            let _ = server.kill();
            server.wait().unwrap();
        }
    }

    /// Stops the server with SIGTERM and waits; its exit code.
    pub(crate) async fn stop(&mut self) -> Option<i32> {
        self.signal(rustix::process::Signal::TERM);
        self.until_ended().await
    }

    /// Waits until the server has exited; its exit code.
    pub(crate) async fn until_ended(&mut self) -> Option<i32> {
        let mut server = self.server.take()?;
        let begun = Instant::now();
        loop {
            if let Some(status) = server.try_wait().unwrap() {
                return status.code();
            }
            assert!(begun.elapsed() < TIMEOUT, "it does not exit: {}", self.said());
            sleep(SOON).await;
        }
    }

    /// Waits until the server is ready or has exited.
    pub(crate) async fn until_ready(&mut self) -> bool {
        let begun = Instant::now();
        loop {
            if self.has_died() {
                return false;
            }
            if let Some((200, _)) = self.ask("GET", "/readyz", None).await {
                return true;
            }
            assert!(begun.elapsed() < TIMEOUT, "never ready: {}", self.said());
            sleep(SOON).await;
        }
    }

    /// Runs a future, and restarts the server whenever it exits meanwhile.
    pub(crate) async fn alive_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = sleep(SOON) => if self.has_died() {
                    self.start(None);
                }
            }
        }
    }

    /// One request; `None` without a response.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        self.caller.ask(method, path, body).await
    }

    /// One request with this bearer. The same body has the same idempotency key, for safe retries.
    pub(crate) async fn ask_as(
        &self,
        bearer: &str,
        request: (&str, &str),
        body: Option<&Value>,
    ) -> Option<(u16, Value)> {
        self.caller.ask_as(bearer, request, body).await
    }

    /// Sends a raw request; status and body of the response.
    pub(crate) async fn send(&self, request: &[u8]) -> Option<(u16, String)> {
        self.caller.send(request).await
    }

    /// One request, repeated until it gets a response; a server that exited is restarted.
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
            assert!(begun.elapsed() < TIMEOUT, "{method} {path}: {}", self.said());
            sleep(SOON).await;
        }
    }

    /// Runs a command of the binary; its exit code and all output.
    pub(crate) fn usher(&self, words: &[&str]) -> (Option<i32>, String) {
        self.run(words, None)
    }

    /// As [`Self::usher`], with this operator's token.
    pub(crate) fn usher_as(&self, token: &str, words: &[&str]) -> (Option<i32>, String) {
        self.run(words, Some(("USHER_TOKEN", token)))
    }

    fn run(&self, words: &[&str], variable: Option<(&str, &str)>) -> (Option<i32>, String) {
        let mut command = Command::new(USHER);
        command.args(words).arg("--data-dir").arg(self.data()).stdin(Stdio::null());
        let output = command.envs(variable).output().unwrap();
        let printed = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8_lossy(&printed).into_owned())
    }

    /// Declares a node; its id.
    pub(crate) async fn provision(&mut self, name: &str) -> String {
        self.provision_with(name, &json!({})).await
    }

    pub(crate) async fn provision_with(&mut self, name: &str, parameters: &Value) -> String {
        let body = declaration(name, parameters);
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
            if begun.elapsed() > TIMEOUT {
                let why = self.why(id).await;
                panic!("never {phase}: {why}\n{}", self.said());
            }
            sleep(SOON).await;
        }
    }

    /// Waits until a resource has this reason.
    pub(crate) async fn until_reason(&mut self, id: &str, reason: &str) {
        let begun = Instant::now();
        while self.resource(id).await["reason"] != reason {
            let why = self.why(id).await;
            assert!(begun.elapsed() < TIMEOUT, "never {reason}: {why}\n{}", self.said());
            sleep(SOON).await;
        }
    }

    /// Waits until this generation of a resource is Ready.
    pub(crate) async fn until_generation(&mut self, id: &str, generation: u64) {
        let begun = Instant::now();
        loop {
            let it = self.resource(id).await;
            if it["phase"] == "Ready" && it["generation"] == generation {
                return;
            }
            assert!(begun.elapsed() < TIMEOUT, "{it}\n{}", self.said());
            sleep(SOON).await;
        }
    }

    /// Waits for these events of a resource: an open transaction anywhere on the database server
    /// holds back later events.
    pub(crate) async fn until_events(&mut self, id: &str, all: &[&str]) {
        let begun = Instant::now();
        while self.events(id).await != all && begun.elapsed() < TIMEOUT {
            sleep(SOON).await;
        }
        assert_eq!(self.events(id).await, all);
    }

    /// The event types of a resource, in order, without the common prefix.
    pub(crate) async fn events(&mut self, id: &str) -> Vec<String> {
        let all = self.insist("GET", "/v1/events?limit=500", None).await;
        let events = all["items"].as_array().unwrap().iter();
        let own = events.filter(|it| it["resource"] == id);
        let word = |it: &Value| it["type"].as_str().unwrap().to_owned();
        own.map(word).map(|it| it.replace("broker.ProvisionedResource", "")).collect()
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.kill();
        for number in self.processes() {
            if let Some(pid) = rustix::process::Pid::from_raw(number) {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }
}

/// Migrates the schema and adds the demo objects.
pub(crate) async fn furnish(place: &Place) {
    Store::migrate(place, Direction::Up).await.unwrap();
    let store = Store::open(place, usher_store::Settings::default()).await.unwrap();
    seed::seed(&store, "local").await.unwrap();
    store.close().await;
}
