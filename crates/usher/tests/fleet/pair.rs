//! A server with a shard and a provider of machines, both of the real binary, each in its own
//! process.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::caller::{Caller, SOON};
use crate::port::Port;
use crate::test_server::USHER;

/// How long one lifecycle of all machines may take while processes die.
const TIMEOUT: Duration = Duration::from_mins(3);
const SETTINGS: [&str; 11] = [
    "fleet.cycle_interval=200ms",
    "fleet.passing_interval=50ms",
    "fleet.full_list_interval=1s",
    "fleet.poll_interval=200ms",
    "fleet.reclaim_percent=100",
    "fleet.idle_on_demand=1s",
    "fleet.idle_spot=1s",
    "fleet.call_deadline=2s",
    "worker.request_bound=200ms",
    "worker.back_off_base=10ms",
    "worker.back_off_max=500ms",
];

/// A server with a shard, and a provider, each in its own process.
pub(crate) struct Pair {
    dir: tempfile::TempDir,
    pub(crate) caller: Caller,
    address: String,
    _ports: [Port; 2],
    fake: Fake,
    pub(crate) server: Option<Child>,
    pub(crate) provider: Option<Child>,
    pub(crate) deaths: u64,
}

/// What the fake provider offers, and how long its operations take.
#[derive(Clone, Copy)]
pub(crate) struct Fake {
    pub(crate) machines: usize,
    pub(crate) dwell: &'static str,
}

impl Pair {
    pub(crate) fn new(fake: Fake) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ports = [Port::reserve(), Port::reserve()];
        let caller = Caller { port: ports[0].number(), data: dir.path().join("data") };
        let address = format!("127.0.0.1:{}", ports[1].number());
        let mut pair = Self {
            dir,
            caller,
            address,
            _ports: ports,
            fake,
            server: None,
            provider: None,
            deaths: 0,
        };
        pair.start_provider();
        pair
    }

    fn hosts(&self) -> PathBuf {
        self.dir.path().join("hosts")
    }

    pub(crate) fn start_provider(&mut self) {
        let mut command = Command::new(USHER);
        command.args(["provider", "local", "--use-fake-backend", "--addr", &self.address]);
        let Fake { machines, dwell } = self.fake;
        command.args(["--seed-count", &machines.to_string(), "--fake-latency", dwell]);
        command.arg("--state").arg(self.dir.path().join("state"));
        command.arg("--fake-hosts").arg(self.hosts());
        self.provider = Some(self.spawn(command, None));
    }

    pub(crate) fn start_server(&mut self, failpoint: Option<&str>) {
        let mut command = Command::new(USHER);
        command.arg("up").arg("--data-dir").arg(&self.caller.data);
        command.args(["--listen", &format!("127.0.0.1:{}", self.caller.port)]);
        command.args(["--set", &format!("fleet.provider={}", self.address)]);
        for setting in SETTINGS {
            command.args(["--set", setting]);
        }
        self.server = Some(self.spawn(command, failpoint));
    }

    fn spawn(&self, mut command: Command, failpoint: Option<&str>) -> Child {
        let log = self.dir.path().join("log");
        let log = fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
        command.env_remove("USHER_FAILPOINT").stdin(Stdio::null());
        if let Some(point) = failpoint {
            command.env("USHER_FAILPOINT", point);
        }
        command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
    }

    fn said(&self) -> String {
        let all = fs::read_to_string(self.dir.path().join("log")).unwrap_or_default();
        let lines: Vec<&str> = all.lines().collect();
        lines[lines.len().saturating_sub(60)..].join("\n")
    }

    /// Whether the server exited by itself.
    fn has_died(&mut self) -> bool {
        self.server.as_mut().is_some_and(|it| it.try_wait().unwrap().is_some())
    }

    /// Runs a future, and restarts the server whenever it exits by itself meanwhile.
    async fn alive_while<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! {
                done = &mut work => return done,
                () = sleep(SOON) => if self.has_died() {
                    self.deaths += 1;
                    self.start_server(None);
                }
            }
        }
    }

    /// Sets the needs of a cluster: this many machines, each of a higher priority than the last.
    pub(crate) async fn need(&mut self, cluster: &str, machines: usize, priority: usize) {
        // Each machine has one processor, so each need takes one machine.
        let need = |it: usize| json!({ "aggregate": { "cpu": "1" }, "priority": priority + it });
        let needs: Vec<Value> = (0..machines).map(need).collect();
        let body = json!({ "shard": "shard-0", "needs": needs });
        let caller = self.caller.clone();
        let path = format!("/v1/fleet/demand/{cluster}");
        self.alive_while(async {
            until_ready(&caller).await;
            caller.insist("PUT", &path, Some(&body)).await
        })
        .await;
    }

    /// Every machine, as the API returns it.
    pub(crate) async fn machines(&mut self) -> Vec<Value> {
        let caller = self.caller.clone();
        let listed = async {
            until_ready(&caller).await;
            caller.list("/v1/fleet/machines").await
        };
        self.alive_while(listed).await
    }

    /// Waits until this many machines are in a phase; a server that exited by itself is restarted.
    pub(crate) async fn until(&mut self, phase: &str, count: usize) {
        let begun = Instant::now();
        loop {
            let machines = self.machines().await;
            if machines.iter().filter(|it| it["phase"] == phase).count() == count {
                return;
            }
            assert!(machines.iter().all(|it| it["phase"] != "Failed"), "{machines:?}");
            assert!(begun.elapsed() < TIMEOUT, "never {count} {phase}: {}", self.said());
            sleep(SOON).await;
        }
    }

    /// No host is left, and the rows agree.
    pub(crate) fn is_clean(&self) {
        let left = fs::read_dir(self.hosts()).unwrap();
        let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, Vec::<std::ffi::OsString>::new(), "hosts that were not released");
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for mut child in [self.server.take(), self.provider.take()].into_iter().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until a server is ready.
async fn until_ready(caller: &Caller) {
    let begun = Instant::now();
    while !matches!(caller.ask("GET", "/readyz", None).await, Some((200, _))) {
        assert!(begun.elapsed() < TIMEOUT, "never ready");
        sleep(SOON).await;
    }
}
