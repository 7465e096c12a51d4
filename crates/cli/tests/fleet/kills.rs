//! Lives of machines while the shard and its provider, both of the real binary, are killed.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::time::sleep;

use crate::caller::{Caller, SOON};
use crate::figures::{Dice, asked};

pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");
/// How long one life of all machines may take while somebody dies.
const PATIENCE: Duration = Duration::from_mins(3);
/// How many machines there are.
const MACHINES: usize = 6;
/// The longest life of whoever is killed at random.
const LIFE_MS: u64 = 1_500;
/// Where a shard passes.
const POINTS: [&str; 4] = ["before-effect", "after-effect", "before-commit", "after-commit"];
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

/// A server with a shard, and a provider, each a process of its own.
struct Pair {
    dir: tempfile::TempDir,
    caller: Caller,
    address: String,
    server: Option<Child>,
    provider: Option<Child>,
    lives: u64,
    deaths: u64,
}

impl Pair {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let caller = Caller { port: free_port(), data: dir.path().join("data") };
        let address = format!("127.0.0.1:{}", free_port());
        let mut pair =
            Self { dir, caller, address, server: None, provider: None, lives: 0, deaths: 0 };
        pair.start_provider();
        pair
    }

    fn hosts(&self) -> PathBuf {
        self.dir.path().join("hosts")
    }

    fn start_provider(&mut self) {
        let mut command = Command::new(USHER);
        command.args(["provider", "local", "--use-fake-backend", "--addr", &self.address]);
        command.args(["--seed-count", &MACHINES.to_string(), "--fake-dwell", "5ms:60ms"]);
        command.arg("--state").arg(self.dir.path().join("state"));
        command.arg("--fake-hosts").arg(self.hosts());
        self.provider = Some(self.spawn(command, None));
    }

    fn start_server(&mut self, failpoint: Option<&str>) {
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

    /// Whether the server died by itself.
    fn has_died(&mut self) -> bool {
        self.server.as_mut().is_some_and(|it| it.try_wait().unwrap().is_some())
    }

    /// Does something, and starts the server again whenever it died by itself meanwhile.
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

    async fn need(&mut self, machines: usize) {
        // Each machine has one processor, so each need takes one machine.
        let need = |number: usize| json!({ "aggregate": { "cpu": "1" }, "priority": number });
        let needs: Vec<Value> = (0..machines).map(need).collect();
        let body = json!({ "shard": "shard-0", "needs": needs });
        let caller = self.caller.clone();
        self.alive_while(async {
            until_ready(&caller).await;
            caller.insist("PUT", "/v1/fleet/demand/a", Some(&body)).await
        })
        .await;
    }

    /// Waits until so many machines are in a phase; whoever died by itself is started again.
    async fn until(&mut self, phase: &str, count: usize) {
        let begun = Instant::now();
        loop {
            let caller = self.caller.clone();
            let listed = async {
                until_ready(&caller).await;
                caller.list("/v1/fleet/machines").await
            };
            let machines = self.alive_while(listed).await;
            if machines.iter().filter(|it| it["phase"] == phase).count() == count {
                return;
            }
            assert!(machines.iter().all(|it| it["phase"] != "Failed"), "{machines:?}");
            assert!(begun.elapsed() < PATIENCE, "never {count} {phase}: {}", self.said());
            sleep(SOON).await;
        }
    }

    /// Nothing is left of any host, and the rows know it.
    fn is_clean(&self) {
        let left = fs::read_dir(self.hosts()).unwrap();
        let left: Vec<_> = left.map(|it| it.unwrap().file_name()).collect();
        assert_eq!(left, Vec::<std::ffi::OsString>::new(), "hosts that nobody gave back");
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
pub(crate) async fn until_ready(caller: &Caller) {
    let begun = Instant::now();
    while !matches!(caller.ask("GET", "/readyz", None).await, Some((200, _))) {
        assert!(begun.elapsed() < PATIENCE, "never ready");
        sleep(SOON).await;
    }
}

/// Red by: an order that is sent before it is recorded, or whose end is not looked for again.
#[tokio::test]
async fn a_shard_that_dies_at_a_failpoint_goes_on_where_it_was() {
    let mut pair = Pair::new();
    for passing in 1..=asked("USHER_SOAK_PASSINGS", 2) {
        for point in POINTS {
            let deaths = pair.deaths;
            pair.start_server(Some(&format!("{point}:{passing}")));
            pair.until("Speculative", MACHINES).await;
            pair.need(MACHINES).await;
            pair.until("Configured", MACHINES).await;
            pair.need(0).await;
            pair.until("Speculative", MACHINES).await;
            pair.lives += MACHINES as u64;
            pair.is_clean();
            assert!(pair.deaths > deaths, "nobody passed {point} for the {passing}. time");
            let mut server = pair.server.take().unwrap();
            let _ = server.kill();
            server.wait().unwrap();
        }
    }
    println!("{} lives of machines, {} deaths at failpoints", pair.lives, pair.deaths);
}

/// Red by: a verb that is given up because somebody died, or done twice for one operation.
#[tokio::test]
async fn shard_and_provider_that_are_killed_at_any_moment_leave_nothing_behind() {
    let begun = Instant::now();
    let wanted = asked("USHER_SOAK_LIFECYCLES", 12);
    let mut pair = Pair::new();
    pair.start_server(None);
    pair.until("Speculative", MACHINES).await;
    let (mut dice, mut kills) = (Dice::new(), 0);
    while pair.lives < wanted {
        for (machines, phase) in [(MACHINES, "Configured"), (0, "Speculative")] {
            pair.need(machines).await;
            for _ in 0..2 {
                sleep(Duration::from_millis(20 + dice.below(LIFE_MS))).await;
                let victim = if dice.below(2) == 0 { &mut pair.server } else { &mut pair.provider };
                if let Some(mut victim) = victim.take() {
                    victim.kill().unwrap();
                    victim.wait().unwrap();
                    kills += 1;
                }
                if pair.server.is_none() {
                    pair.start_server(None);
                }
                if pair.provider.is_none() {
                    pair.start_provider();
                }
            }
            pair.until(phase, MACHINES).await;
        }
        pair.lives += MACHINES as u64;
        pair.is_clean();
    }
    let (lives, took) = (pair.lives, begun.elapsed());
    println!("{lives} lives of machines, {kills} kills, nothing left, {took:.1?}");
}

pub(crate) fn free_port() -> u16 {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    free.local_addr().unwrap().port()
}
