//! A server that is killed during concurrent writes keeps every acknowledged write.
//!
//! The test starts itself again in a folder that makes it the victim: a server that serves TLS. 64
//! clients write to it over TLS until it is killed; then it is started again and everything is
//! compared with what the clients were answered. `USHER_SOAK_ROUNDS` says for how many rounds.

#![expect(clippy::expect_used, clippy::panic, reason = "tests fail by panicking")]

mod writer;

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::ListParams;
use kube_client::config::{KubeConfigOptions, Kubeconfig};
use usher_apiserver::ApiServer;

use writer::Writer;

const WRITERS: usize = 64;
/// The default number of rounds.
const ROUNDS: usize = 3;
/// The number of responses before the kill, per round.
const ANSWERS: [usize; 7] = [200, 1, 77, 500, 1000, 9, 311];
/// In a folder with this file the test program is the victim.
const VICTIM: &str = "victim";
const FILE: &str = "cluster";
const KUBECONFIG: &str = "kubeconfig";
const SERVING: &str = "serving";

// Requirement: AK-12
#[tokio::test(flavor = "multi_thread")]
async fn every_acknowledged_write_survives_a_kill() {
    if Path::new(VICTIM).exists() {
        return victim().await;
    }
    let rounds = rounds();
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join(VICTIM), "").expect("a folder for the victim");
    let mut writers: Vec<Writer> = (0..WRITERS).map(Writer::new).collect();
    let (mut newest, mut answered, mut found) = (0, 0, 0);
    for round in 0..rounds {
        let answers = ANSWERS[round % ANSWERS.len()];
        let head = head(&writers);
        assert!(head >= newest, "revisions went back from {newest} to {head}");
        newest = head;
        writers = killed(folder.path(), writers, answers).await;
        answered += writers.iter().map(|writer| writer.answered.len()).sum::<usize>();
        let mut given: Vec<u64> =
            writers.iter().flat_map(|writer| writer.answered.clone()).collect();
        given.sort_unstable();
        let repeated = given.windows(2).find(|pair| pair[0] == pair[1]);
        assert_eq!(repeated, None, "a revision was given twice");
        let first = given.first().copied().unwrap_or(u64::MAX);
        assert!(first > newest, "revision {first} was given again, {newest} was there before");
        found += checked(folder.path(), &mut writers).await;
        let last = given.last().copied().unwrap_or_default();
        println!("round {}: {} answers, revisions {first}..={last}", round + 1, given.len());
    }
    println!(
        "{rounds} rounds, {WRITERS} clients: {answered} writes answered, all kept; {found} more \
         were kept without an answer"
    );
}

#[expect(clippy::disallowed_methods, reason = "how long to soak is said to the test alone")]
fn rounds() -> usize {
    let rounds = std::env::var("USHER_SOAK_ROUNDS").ok();
    rounds.map_or(ROUNDS, |rounds| rounds.parse().expect("a number of rounds"))
}

/// The newest acknowledged revision.
fn head(writers: &[Writer]) -> u64 {
    writers.iter().map(|writer| writer.newest).max().unwrap_or_default()
}

/// Serves until it is killed.
async fn victim() {
    let server = ApiServer::builder().file(FILE).build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a listener");
    let kubeconfig = server.kubeconfig().expect("a kubeconfig");
    std::fs::write(KUBECONFIG, kubeconfig).expect("a kubeconfig");
    let mut out = std::io::stdout().lock();
    writeln!(out, "\n{SERVING}").and_then(|()| out.flush()).expect("a listener");
    drop(out);
    std::future::pending::<()>().await;
}

/// Starts a victim and waits until it serves.
fn start(folder: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "every_acknowledged_write_survives_a_kill", "--nocapture"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a victim");
    let mut lines = BufReader::new(child.stdout.take().expect("its words")).lines();
    let serves = lines.any(|line| line.expect("a line") == SERVING);
    assert!(serves, "the victim does not serve");
    child
}

/// Lets all writers write until there are enough responses, and kills the victim.
async fn killed(folder: &Path, writers: Vec<Writer>, answers: usize) -> Vec<Writer> {
    let mut child = start(folder);
    let count = Arc::new(AtomicUsize::new(0));
    let enough = Arc::new(tokio::sync::Notify::new());
    let kubeconfig = std::fs::read_to_string(folder.join(KUBECONFIG)).expect("a kubeconfig");
    let mut tasks = Vec::new();
    for mut writer in writers {
        let api = api(&kubeconfig).await;
        let (count, enough) = (count.clone(), enough.clone());
        tasks.push(tokio::spawn(async move {
            writer.answered.clear();
            while writer.write(&api).await {
                if count.fetch_add(1, Ordering::SeqCst) + 1 == answers {
                    enough.notify_one();
                }
            }
            writer
        }));
    }
    enough.notified().await;
    child.kill().expect("killed");
    child.wait().expect("its end");
    let mut writers = Vec::new();
    for task in tasks {
        writers.push(task.await.expect("a writer"));
    }
    writers
}

async fn api(kubeconfig: &str) -> Api<ConfigMap> {
    let config = Kubeconfig::from_yaml(kubeconfig).expect("a kubeconfig");
    let options = KubeConfigOptions::default();
    let config = kube_client::Config::from_custom_kubeconfig(config, &options).await;
    let client = kube_client::Client::try_from(config.expect("a configuration"));
    Api::default_namespaced(client.expect("a client"))
}

/// Compares what a new server finds with what was answered; returns how many writes it found that
/// were not acknowledged.
async fn checked(folder: &Path, writers: &mut [Writer]) -> usize {
    let server = ApiServer::builder().file(folder.join(FILE)).build().await.expect("a server");
    let maps: Api<ConfigMap> = Api::default_namespaced(server.client());
    let list = maps.list(&ListParams::default()).await.expect("a list");
    let found = writers.iter_mut().map(|writer| writer.compare(&list.items)).sum();
    let ours: usize = writers.iter().map(|writer| writer.objects.len()).sum();
    assert_eq!(list.items.len(), ours, "there are unknown objects");
    server.shutdown().await;
    found
}
