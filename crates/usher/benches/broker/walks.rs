//! Nodes provisioned and torn down per second, writes per node, and the latency of a change.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;

use crate::Sizes;
use crate::bench_env::BenchEnv;
use crate::caller::{Caller, declaration};
use crate::commits;
use crate::cpu;
use crate::fake_agents::FakeAgents;
use crate::follow::Follower;
use crate::report::{middle, quantiles, say};
use crate::test_server::TestServer;

/// Numbers of concurrent walkers.
const WALKERS: [usize; 3] = [1, 8, 32];
/// Concurrent walkers while writes are counted.
const COUNTED: usize = 8;
/// Readiness delay of a timed substrate: its node enrols earlier.
const READY_AFTER_MS: u64 = 300;

/// A running server with nodes, and its client.
#[derive(Clone)]
struct Bench {
    caller: Caller,
    follower: Arc<Follower>,
    number: Arc<AtomicU64>,
}

impl Bench {
    async fn new(server: &TestServer) -> Self {
        let follower = Arc::new(Follower::new(server).await);
        Self { caller: server.caller().clone(), follower, number: Arc::default() }
    }

    async fn provision(&self, parameters: &serde_json::Value) -> String {
        let name = format!("node-{}", self.number.fetch_add(1, Ordering::Relaxed));
        let body = declaration(&name, parameters);
        let made = self.caller.insist("POST", "/v1/resources", Some(&body)).await;
        made["id"].as_str().unwrap().to_owned()
    }

    async fn come(&self) -> String {
        let id = self.provision(&json!({})).await;
        self.follower.until(&id, "Ready").await;
        id
    }

    async fn go(&self, id: &str) {
        self.caller.deprovision(id).await;
        self.follower.until(id, "Deleted").await;
    }
}

pub(crate) async fn measure(bench_env: &BenchEnv, sizes: Sizes) {
    let server = bench_env.server("walks").await;
    let _agents = FakeAgents::gather(&server.data());
    let bench = Bench::new(&server).await;
    // One resource stays, so that shared objects are not torn down.
    let first = bench.come().await;
    let [inwards, outwards] = written(bench_env, &bench).await;
    let per_walk = inwards + outwards;
    let store = bench_env.store("bare").await;
    say("\n| at a time | walks/s | commits/s | commits per walk | walks : commits ÷ per walk | \
         ms of processor per walk: server | callers and nodes | database |");
    say("|---:|---:|---:|---:|---:|---:|---:|---:|");
    let processes = Processes::new(bench_env, &server).await;
    for workers in WALKERS.into_iter().filter(|it| sizes.at.is_none_or(|at| at == *it)) {
        let (mut ours, mut theirs) = (vec![], vec![]);
        let mut spent = Spent::default();
        for _ in 0..sizes.rounds {
            theirs.push(commits::per_second(&store, workers, sizes.round).await);
            let before = processes.spent();
            let (rate, walks) = per_second(&bench, workers, sizes.round).await;
            spent.add(&processes.spent(), &before, walks);
            ours.push(rate);
        }
        let (ours, theirs) = (middle(ours), middle(theirs));
        let ratio = ours / (theirs / per_walk);
        say(format_args!(
            "| {workers} | {ours:.1} | {theirs:.0} | {per_walk:.1} | {ratio:.2} | {} |",
            spent.each()
        ));
    }
    store.close().await;
    readiness(&server, &bench, sizes.timed).await;
    bench.go(&first).await;
}

/// The processes whose time is counted.
struct Processes {
    server: u32,
    database: Option<u32>,
}

/// Processor milliseconds of the server, of this process and of the database, and for how many
/// walks.
#[derive(Default)]
struct Spent {
    times: [f64; 3],
    walks: f64,
}

impl Processes {
    async fn new(bench_env: &BenchEnv, server: &TestServer) -> Self {
        Self { server: server.pid(), database: bench_env.database().await }
    }

    fn spent(&self) -> [f64; 3] {
        let database = self.database.map_or(0.0, cpu::family);
        [cpu::own(self.server), cpu::own(std::process::id()), database]
    }
}

impl Spent {
    fn add(&mut self, now: &[f64; 3], before: &[f64; 3], walks: f64) {
        for (sum, (now, before)) in self.times.iter_mut().zip(now.iter().zip(before)) {
            *sum += now - before;
        }
        self.walks += walks;
    }

    fn each(&self) -> String {
        self.times.map(|it| format!("{:.1}", it / self.walks)).join(" | ")
    }
}

/// Walks per second at this concurrency, and their number.
async fn per_second(bench: &Bench, workers: usize, span: Duration) -> (f64, f64) {
    let begun = Instant::now();
    let tasks: Vec<_> = (0..workers)
        .map(|_| {
            let bench = bench.clone();
            tokio::spawn(async move {
                let mut walks = 0_u32;
                while begun.elapsed() < span {
                    let id = bench.come().await;
                    bench.go(&id).await;
                    walks += 1;
                }
                walks
            })
        })
        .collect();
    let mut walks = 0.0;
    for task in tasks {
        walks += f64::from(task.await.unwrap());
    }
    (walks / begun.elapsed().as_secs_f64(), walks)
}

/// What one provision and one teardown cost; the commits of each.
async fn written(bench_env: &BenchEnv, bench: &Bench) -> [f64; 2] {
    say("\n| way | writes | transactions that wrote | steps that wrote | steps | observations | \
         verbs outside |");
    say("|---|---:|---:|---:|---:|---:|---:|");
    let begun = Readings::new(bench_env, bench).await;
    let come = (0..COUNTED).map(|_| {
        let bench = bench.clone();
        tokio::spawn(async move { bench.come().await })
    });
    let ids = all(come.collect()).await;
    let between = Readings::new(bench_env, bench).await;
    let go = ids.into_iter().map(|id| {
        let bench = bench.clone();
        tokio::spawn(async move { bench.go(&id).await })
    });
    all(go.collect()).await;
    let ended = Readings::new(bench_env, bench).await;
    [between.print_since("in", &begun), ended.print_since("out", &between)]
}

async fn all<T>(tasks: Vec<tokio::task::JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::new();
    for task in tasks {
        done.push(task.await.unwrap());
    }
    done
}

/// Counters of a server and its database.
struct Readings {
    counters: BTreeMap<String, u64>,
    written: Option<i64>,
}

impl Readings {
    async fn new(bench_env: &BenchEnv, bench: &Bench) -> Self {
        // Work triggered by the last event is counted as well.
        tokio::time::sleep(Duration::from_millis(500)).await;
        Self { counters: bench.caller.counters().await, written: bench_env.written().await }
    }

    /// Prints the difference per node; returns the writes of the store.
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    fn print_since(&self, way: &str, before: &Self) -> f64 {
        let each = |name: &str| {
            let name = format!("usher_{name}_total");
            let count = |it: &Self| it.counters.get(&name).copied().unwrap_or(0);
            (count(self) - count(before)) as f64 / COUNTED as f64
        };
        let [writes, wrote, steps, observations, verbs] =
            ["store_writes", "store_commits", "steps", "world_observations", "world_effects"]
                .map(each);
        let transactions =
            self.written.zip(before.written).map_or("–".to_owned(), |(now, then)| {
                format!("{:.1}", (now - then) as f64 / COUNTED as f64)
            });
        say(format_args!(
            "| {way} | {writes:.1} | {transactions} | {wrote:.1} | {steps:.1} | \
             {observations:.1} | {verbs:.1} |"
        ));
        writes
    }
}

/// Latency from the readiness of a substrate to the Ready event at a client.
async fn readiness(server: &TestServer, bench: &Bench, count: usize) {
    let mut spans = Vec::new();
    for _ in 0..count.div_ceil(COUNTED) {
        let timed = (0..COUNTED).map(|_| {
            let (bench, data) = (bench.clone(), server.data());
            tokio::spawn(async move {
                let id = bench.provision(&json!({ "readyAfterMs": READY_AFTER_MS })).await;
                let received = bench.follower.until(&id, "Ready").await;
                let object = data.join(format!("world/substrate/pr-{id}.json"));
                let ready = fs::metadata(object).unwrap().modified().unwrap();
                bench.go(&id).await;
                received.duration_since(ready).unwrap_or_default()
            })
        });
        spans.extend(all(timed.collect()).await);
    }
    let (half, most) = quantiles(spans);
    let (half, most) = (half / 1e3, most / 1e3);
    say(format_args!(
        "\nfrom a substrate's readiness to the event, {count} times, {COUNTED} at a time: \
         p50 {half:.1} ms, p99 {most:.1} ms"
    ));
}
