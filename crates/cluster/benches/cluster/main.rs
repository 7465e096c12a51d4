//! What a runner costs: how long until every object was stepped, what is requested at rest by the
//! audit log of the server, and the memory of a watched object:
//! `cargo xtask bench cluster [-- --objects N] [-- --seconds N] [-- --quick]`.
//!
//! The server is a process of its own, so that the memory measured is the runner's.

#![expect(clippy::expect_used, reason = "a measurement that cannot continue has failed")]
#![expect(clippy::print_stdout, reason = "it prints the measured numbers")]

mod item;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::json;
use tokio::sync::{Semaphore, watch};
use usher_cluster::client::{Access, Bounds, Client};
use usher_cluster::lease::{Clock, Elector, LeaseName, Settings, Times};
use usher_cluster::read::Cluster;
use usher_cluster::runner::{Config, ObjectRunner, Tally};
use usher_cluster::watches::{self, Watches};
use usher_kernel::schedule::Jitter;

use item::{MAPS, Map, SPACE, call};
use server::Server;

/// How much is measured.
struct Size {
    objects: usize,
    rest: Duration,
}

#[tokio::main(worker_threads = 2)]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|it| it == server::SERVE) {
        return server::serve().await;
    }
    let after = |word: &str| words.iter().skip_while(|it| *it != word).nth(1);
    let is_quick = words.iter().any(|it| it == "--quick");
    let (objects, seconds) = if is_quick { (1_000, 10) } else { (10_000, 300) };
    let number = |word: &str| after(word).map(|it| it.parse().expect("a number"));
    let objects = number("--objects").unwrap_or(objects);
    let rest = Duration::from_secs(number("--seconds").unwrap_or(seconds) as u64);
    let size = Size { objects, rest };
    let folder = tempfile::tempdir().expect("a folder");
    let server = Server::start(folder.path());
    measure(&server, &size).await;
}

async fn measure(server: &Server, size: &Size) {
    let access = Access::Kubeconfig { file: server.kubeconfig(), context: None };
    let client = Client::connect(&access, Bounds::default()).await.expect("a client");
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("{} objects, {cores} cores, server in a process of its own", size.objects);
    create(&client, size.objects).await;
    let settings = Settings {
        name: LeaseName { namespace: SPACE.to_owned(), name: "usher".to_owned() },
        identity: "bench".to_owned(),
        times: Times::default(),
    };
    let elector = Elector::new(client.clone(), settings, Clock::system());
    let (elector, lease) = elector.expect("an elector");
    elector.install().await.expect("a Lease");
    let cluster = Cluster::open(client.clone()).await.expect("a cluster");
    let jitter = Arc::new(|| Jitter(u32::MAX / 2));
    let settings = watches::Settings { jitter, ..watches::Settings::default() };
    let watches = Arc::new(Watches::start(Arc::new(cluster), settings));
    let item = Arc::new(Map::new(client));
    let (config, tally) = (Config::default(), Arc::<Tally>::default());
    let steps_max = config.steps_max;
    let runner = ObjectRunner::new(Arc::clone(&item), watches, config, tally).expect("a runner");
    let before = resident();
    let began = Instant::now();
    let (stop, stopped) = watch::channel(false);
    let elector = tokio::spawn(elector.run(stopped.clone()));
    let runner = tokio::spawn(runner.run(lease, stopped));
    item.stepped(size.objects).await;
    let took = began.elapsed();
    println!(
        "{:<34}{:>10.2}  ({steps_max} at a time)",
        "s until every object was stepped",
        took.as_secs_f64()
    );
    // What is only used by steps is given back, and every watch is open.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let bytes = resident().saturating_sub(before) / size.objects;
    println!(
        "{:<34}{bytes:>10}  (item, interest and what steps left)",
        "resident bytes per object"
    );
    let (steps, first) = (item.steps(), server.requests());
    tokio::time::sleep(size.rest).await;
    let last = server.requests();
    println!("requests during {} s at rest, by the audit log:", size.rest.as_secs());
    print_difference(&first, &last);
    println!("{:<34}{:>10}", "steps meanwhile", item.steps() - steps);
    stop.send_replace(true);
    let (runner, elector) = tokio::join!(runner, elector);
    runner.and(elector).expect("their ends");
}

async fn create(client: &Client, objects: usize) {
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}});
    call(client, ("POST", "/api/v1/namespaces"), &space).await.expect("a namespace");
    let permits = Arc::new(Semaphore::new(32));
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..objects {
        let permit = Arc::clone(&permits).acquire_owned().await.expect("a permit");
        let client = client.clone();
        tasks.spawn(async move {
            let map = json!({
                "apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": format!("object-{number:06}")}, "data": {"goal": "1"},
            });
            call(&client, ("POST", MAPS), &map).await.expect("an object");
            drop(permit);
        });
    }
    while let Some(created) = tasks.join_next().await {
        created.expect("an object");
    }
}

fn print_difference(
    first: &BTreeMap<(String, String), usize>,
    last: &BTreeMap<(String, String), usize>,
) {
    let mut all = 0;
    for ((verb, resource), count) in last {
        let made = count - first.get(&(verb.clone(), resource.clone())).copied().unwrap_or(0);
        if made > 0 {
            println!("  {verb:<8}{resource:<56}{made:>6}");
            all += made;
        }
    }
    println!("  {:<64}{all:>6}", "all");
}

/// The resident memory of this process.
fn resident() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("a status");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes: usize = line.trim().trim_end_matches(" kB").parse().expect("a number");
    kilobytes * 1024
}
