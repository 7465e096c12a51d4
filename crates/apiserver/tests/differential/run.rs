//! All seeds: several at the same time, and what they found.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use kube_client::Client;
use serde_json::{Value, json};

use crate::compare::Difference;
use crate::deviations::{self, DEVIATIONS, Deviation};
use crate::generate::{self, Theme};
use crate::play::{Pair, least, play};
use crate::request::JSON;
use crate::say;
use crate::side::{embedded, real, send};
use crate::world::{self, WORKERS};

/// How long the real server may take to serve a new definition and collect its objects.
const SERVED: Duration = Duration::from_mins(3);
/// How long a controller or a watch may take on a loaded computer.
const PATIENCE: Duration = Duration::from_secs(40);

/// So often a difference must show again: collectors of several threads have no order.
const AGAIN: usize = 2;

/// The counts of a run.
#[derive(Default)]
struct Tally {
    requests: usize,
    /// Seeds by the kind of their difference.
    differences: BTreeMap<String, Vec<u64>>,
    /// Seeds by the reason of their deviation.
    deviations: BTreeMap<&'static str, u64>,
    /// Seeds whose difference did not appear a second time.
    unsteady: Vec<u64>,
}

/// Plays the seeds, prints what differs, and returns how many kinds of differences there are.
pub(crate) async fn seeds(kubeconfig: &str, first: u64, count: u64) -> usize {
    let begun = Instant::now();
    let server = embedded().await;
    let pair = Pair { real: real(kubeconfig).await, embedded: server.client(), patience: PATIENCE };
    for client in [&pair.real, &pair.embedded] {
        prepare(client).await;
    }
    let next = AtomicU64::new(first);
    let tally = Mutex::new(Tally::default());
    let work = |worker: usize| {
        let (pair, next, tally) = (&pair, &next, &tally);
        async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= first + count {
                    return;
                }
                one(pair, worker, seed, tally).await;
            }
        }
    };
    let workers: Vec<_> = (0..WORKERS).map(work).collect();
    futures_util::future::join_all(workers).await;
    let mut tally = tally.into_inner().expect("a tally");
    for deviation in &DEVIATIONS {
        if !occurs(&pair, deviation).await {
            tally.differences.insert(format!("no longer occurs: {}", deviation.reason), Vec::new());
        }
    }
    report(&tally, count, begun.elapsed());
    server.shutdown().await;
    tally.differences.len()
}

/// Compares the commands of kubectl; returns how many differ.
pub(crate) async fn commands(kubeconfig: &str) -> usize {
    let server = embedded().await;
    server.serve(([127, 0, 0, 1], 0).into()).await.expect("a listener");
    for client in [&real(kubeconfig).await, &server.client()] {
        prepare(client).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let own = folder.path().join("kubeconfig");
    std::fs::write(&own, server.kubeconfig().expect("a kubeconfig")).expect("a file");
    let own = own.to_str().expect("Unicode").to_owned();
    let kubeconfig = kubeconfig.to_owned();
    let compared =
        tokio::task::spawn_blocking(move || crate::kubectl::compare(&kubeconfig, &own)).await;
    server.shutdown().await;
    compared.expect("a comparison")
}

/// Whether the requests of a deviation still show it.
async fn occurs(pair: &Pair, deviation: &Deviation) -> bool {
    let theme = Theme { kinds: Vec::new(), owners: false, names: 1 };
    let played = play(pair, &world::namespace(0), &theme, &(deviation.requests)()).await;
    let explained = played.found.and_then(|(_, found)| deviations::explains(&found));
    explained.is_some_and(|it| it.reason == deviation.reason)
}

async fn one(pair: &Pair, worker: usize, seed: u64, tally: &Mutex<Tally>) {
    let namespace = world::namespace(worker);
    let (theme, requests) = generate::requests(seed);
    let played = play(pair, &namespace, &theme, &requests).await;
    tally.lock().expect("a tally").requests += played.sent;
    let Some((count, found)) = played.found else { return };
    let short = requests[..count].to_vec();
    let mut found = found;
    for _ in 0..AGAIN {
        let again = play(pair, &namespace, &theme, &short).await.found;
        let Some((_, again)) = again.filter(|(_, again)| again.kind == found.kind) else {
            tally.lock().expect("a tally").unsteady.push(seed);
            let lines = found.lines.join("\n");
            say(&format!("seed {seed}: did not differ again: {}\n{lines}", found.kind));
            return;
        };
        found = again;
    }
    if let Some(deviation) = deviations::explains(&found) {
        *tally.lock().expect("a tally").deviations.entry(deviation.reason).or_default() += 1;
        return;
    }
    let is_new = {
        let mut tally = tally.lock().expect("a tally");
        let seeds = tally.differences.entry(found.kind.clone()).or_default();
        seeds.push(seed);
        seeds.len() == 1
    };
    if is_new {
        let (requests, found) = least(pair, &namespace, &theme, (short, found)).await;
        let lines: Vec<String> = requests.iter().map(crate::request::Request::line).collect();
        show(seed, &lines, &found);
    }
}

fn show(seed: u64, requests: &[String], found: &Difference) {
    say(&format!(
        "--- seed {seed}: {}\n{}\n{}",
        found.kind,
        requests.join("\n"),
        found.lines.join("\n")
    ));
}

fn report(tally: &Tally, seeds: u64, took: Duration) {
    for (kind, seeds) in &tally.differences {
        let first = seeds.first().map_or(String::new(), |seed| format!(", first in seed {seed}"));
        say(&format!("differs {:>4} times{first}: {kind}", seeds.len()));
    }
    for (reason, count) in &tally.deviations {
        say(&format!("deviates {count:>3} times: {reason}"));
    }
    say(&format!(
        "{seeds} seeds, {} requests, {} kinds of differences in {} seeds, {} deviating seeds, \
         {} unsteady seeds, {:.0} s",
        tally.requests,
        tally.differences.len(),
        tally.differences.values().map(Vec::len).sum::<usize>(),
        tally.deviations.values().sum::<u64>(),
        tally.unsteady.len(),
        took.as_secs_f64()
    ));
}

/// Creates what every seed needs and waits until the collector knows the new kinds.
pub(crate) async fn prepare(client: &Client) {
    for (path, body) in world::objects() {
        create(client, &path, &body).await;
    }
    end_a_namespace(client).await;
    let started = Instant::now();
    let path = "/apis/diff.example/v1/plinths";
    while send(client, ("", "GET", path), (JSON, JSON, None)).await.status != 200
        || !is_emptied(client).await
        || !collects(client).await
    {
        assert!(started.elapsed() < SERVED, "the server does not serve or collect new kinds");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}

/// Creates an object that may be there already.
async fn create(client: &Client, path: &str, body: &Value) {
    let sent = ("", "POST", path);
    let made = send(client, sent, (JSON, JSON, Some(body.to_string()))).await;
    let there = made.status == 409 && made.body["reason"] == "AlreadyExists";
    assert!(made.status == 201 || there, "{path}: {}", made.body);
}

/// Makes a namespace that is being deleted and never gone.
async fn end_a_namespace(client: &Client) {
    let path = format!("/api/v1/namespaces/{}", world::ENDING);
    if send(client, ("", "GET", &path), (JSON, JSON, None)).await.status == 200 {
        return;
    }
    create(client, "/api/v1/namespaces", &world::space(world::ENDING)).await;
    create(client, &format!("{path}/configmaps"), &world::held()).await;
    let deleted = send(client, ("", "DELETE", &path), (JSON, JSON, None)).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
}

/// Whether all is gone from the namespace that ends but what is held.
async fn is_emptied(client: &Client) -> bool {
    let path = format!("/api/v1/namespaces/{}/serviceaccounts", world::ENDING);
    let accounts = send(client, ("", "GET", &path), (JSON, JSON, None)).await.body;
    accounts["items"].as_array().is_some_and(Vec::is_empty)
}

/// Whether an object whose owner never was is collected, for each of the new kinds.
async fn collects(client: &Client) -> bool {
    let namespace = world::namespace(0);
    for kind in world::KINDS.iter().filter(|kind| kind.custom) {
        let path = kind.path().replace("${ns}", &namespace);
        let body = json!({
            "apiVersion": kind.version,
            "kind": kind.singular,
            "metadata": {
                "name": "probe",
                "ownerReferences": [{
                    "apiVersion": "diff.example/v1", "kind": "Plinth", "name": "never",
                    "uid": "00000000-0000-4000-8000-000000000000",
                }],
            },
            "spec": Value::Object(serde_json::Map::new()),
        });
        send(client, ("", "POST", &path), (JSON, JSON, Some(body.to_string()))).await;
        let named = format!("{path}/probe");
        let mut there = true;
        for _ in 0..20 {
            there = send(client, ("", "GET", &named), (JSON, JSON, None)).await.status == 200;
            if !there {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        if there {
            return false;
        }
    }
    true
}
