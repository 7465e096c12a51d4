//! A server that is killed while many write has every write it answered.
//!
//! The test starts itself again in a folder that makes it the victim, reads what the victim was
//! answered, kills it, and looks into the file.

#![expect(clippy::expect_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

use k8s_openapi::api::core::v1::ConfigMap;
use kube_client::Api;
use kube_client::api::{ListParams, PostParams};
use usher_apiserver::ApiServer;

const WRITERS: usize = 8;
/// After how many answers each victim is killed.
const KILLS: [usize; 5] = [1, 9, 40, 3, 77];
/// In a folder with this file the test is the victim; the file says how its objects are called.
const VICTIM: &str = "victim";
const FILE: &str = "cluster";

#[tokio::test(flavor = "multi_thread")]
async fn every_answered_write_survives_a_kill() {
    if let Ok(round) = std::fs::read_to_string(VICTIM) {
        return victim(Path::new(FILE), &round).await;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mut answered: BTreeMap<String, u64> = BTreeMap::new();
    for (round, answers) in KILLS.into_iter().enumerate() {
        let newest = answered.values().copied().max().unwrap_or_default();
        for (name, version) in killed(folder.path(), round, answers) {
            assert!(version > newest, "revision {version} was given again");
            answered.insert(name, version);
        }
        let server = ApiServer::builder().file(folder.path().join(FILE)).build().await;
        let server = server.expect("a server");
        let api: Api<ConfigMap> = Api::default_namespaced(server.client());
        let list = api.list(&ListParams::default()).await.expect("a list");
        let kept: BTreeMap<String, u64> = list.items.iter().map(named).collect();
        for (name, version) in &answered {
            assert_eq!(kept.get(name), Some(version), "{name} was answered and is not there");
        }
        server.shutdown().await;
    }
    let answers: usize = KILLS.iter().sum();
    assert!(answered.len() >= answers, "only {} writes were answered", answered.len());
}

/// Writes until it is killed, and says what was answered.
async fn victim(file: &Path, round: &str) {
    let server = ApiServer::builder().file(file).build().await.expect("a server");
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let api: Api<ConfigMap> = Api::default_namespaced(server.client());
        let round = round.to_owned();
        writers.push(tokio::spawn(async move {
            for index in 0_u64.. {
                let mut map = ConfigMap::default();
                map.metadata.name = Some(format!("m-{round}-{writer}-{index}"));
                let made = api.create(&PostParams::default(), &map).await.expect("made");
                let (name, version) = named(&made);
                let line = format!("{name} {version}\n");
                std::io::stdout().lock().write_all(line.as_bytes()).expect("a listener");
            }
        }));
    }
    for writer in writers {
        writer.await.expect("a writer");
    }
}

fn named(map: &ConfigMap) -> (String, u64) {
    let metadata = &map.metadata;
    let version = metadata.resource_version.as_deref().and_then(|text| text.parse().ok());
    (metadata.name.clone().expect("a name"), version.expect("a version"))
}

/// What a victim was answered until it was killed.
fn killed(folder: &Path, round: usize, answers: usize) -> Vec<(String, u64)> {
    std::fs::write(folder.join(VICTIM), round.to_string()).expect("a folder for the victim");
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "every_answered_write_survives_a_kill", "--nocapture"])
        .current_dir(folder)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a victim");
    let mut lines = BufReader::new(child.stdout.take().expect("its words")).lines();
    let words = lines.by_ref().map(|line| line.expect("a line"));
    let mut told: Vec<String> = words.filter(|line| line.starts_with("m-")).take(answers).collect();
    child.kill().expect("killed");
    child.wait().expect("its end");
    told.extend(lines.map_while(Result::ok));
    let read = |line: String| {
        let (name, version) = line.strip_prefix("m-").and(line.split_once(' '))?;
        Some((name.to_owned(), version.parse().ok()?))
    };
    told.into_iter().filter_map(read).collect()
}
