//! A provider that is killed at every failpoint and at random moments while it works.
//!
//! `USHER_SOAK_PROVIDER_KILLS` is the number of kills per failpoint, and of random kills.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tokio::net::TcpSocket;
use tonic::{Response, Status};
use usher_failpoint::Failpoint;
use usher_provider::fake::Rng;
use usher_wire::fleet::{
    Client, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine,
    MachineState as State, TransitionAck,
};

use super::server;

const MACHINES: usize = 6;

/// One provider across its restarts.
struct TestProvider {
    folder: TempDir,
    rng: Rng,
    sequence: i64,
    /// The last acknowledged operation id, by machine and verb.
    acknowledged: BTreeMap<(String, &'static str), String>,
    operations: BTreeSet<String>,
}

struct Running {
    child: Child,
    client: Client,
    _port: TcpSocket,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TestProvider {
    fn new(seed: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (acknowledged, operations) = (BTreeMap::new(), BTreeSet::new());
        Self { folder, rng: Rng::new(seed), sequence: 0, acknowledged, operations }
    }

    fn hosts(&self) -> PathBuf {
        self.folder.path().join("hosts")
    }

    async fn start(&mut self, failpoint: Option<String>) -> Option<Running> {
        // Reserved while it runs, so that no other test is given the port.
        let port = TcpSocket::new_v4().unwrap();
        port.set_reuseaddr(true).unwrap();
        port.bind(([127, 0, 0, 1], 0).into()).unwrap();
        let address = port.local_addr().unwrap().to_string();
        let mut command = Command::new(env!("CARGO_BIN_EXE_usher-provider-fake"));
        command
            .args(["--use-fake-backend", "--fake-latency=0ms:8ms", "--poll-interval=1h"])
            .arg(format!("--addr={address}"))
            .arg(format!("--seed-count={MACHINES}"))
            .arg(format!("--state={}", self.folder.path().join("state").display()))
            .arg(format!("--fake-hosts={}", self.hosts().display()))
            .arg(format!("--fake-seed={}", self.rng.next() >> 1))
            // Small, so that snapshots are frequent.
            .arg("--snapshot-after-bytes=2000")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        if let Some(failpoint) = failpoint {
            command.arg("--failpoint").arg(failpoint);
        }
        let child = command.spawn().unwrap();
        let mut running = Running { child, client: server::client(&address), _port: port };
        for _ in 0..12_000 {
            if tokio::net::TcpStream::connect(&address).await.is_ok() {
                return Some(running);
            }
            if running.child.try_wait().unwrap().is_some() {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the provider does not listen");
    }

    async fn all(client: &mut Client) -> Result<Vec<Machine>, Status> {
        let list = client.list(ListFilter::default()).await.map(Response::into_inner)?;
        Ok(list.machines)
    }

    /// Calls the next verb of one machine; an error means that the provider died.
    async fn step(&mut self, client: &mut Client) -> Result<(), Status> {
        let all = Self::all(client).await?;
        let at = self.rng.below(all.len());
        let machine = &all[at];
        let id = machine.id.clone();
        let deletes = self.rng.chance(0.4);
        let (word, answer) = match machine.state() {
            State::Speculative => ("create", self.create(client, &id).await),
            State::Idle if deletes => ("delete", self.delete(client, &id).await),
            State::Idle => ("configure", self.configure(client, &id).await),
            State::Configured => ("drain", self.drain(client, &id).await),
            State::Creating | State::Configuring | State::Draining | State::Deleting => {
                return Ok(());
            }
            State::Failed | State::Unspecified => panic!("{machine:?}"),
        };
        let ack = answer?;
        if self.operations.insert(ack.operation_id.clone()) {
            self.acknowledged.insert((id, word), ack.operation_id);
        }
        Ok(())
    }

    fn token(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence
    }

    async fn create(&mut self, client: &mut Client, id: &str) -> Result<TransitionAck, Status> {
        let sequence_number = self.token();
        let request = CreateRequest {
            machine_id: id.to_owned(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number,
        };
        client.create(request).await.map(Response::into_inner)
    }

    async fn configure(&mut self, client: &mut Client, id: &str) -> Result<TransitionAck, Status> {
        let sequence_number = self.token();
        let request = ConfigureRequest {
            machine_id: id.to_owned(),
            cluster_id: "c".to_owned(),
            bootstrap_blob: vec![7; 100].into(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number,
            shard_metadata: BTreeMap::from([("k".to_owned(), sequence_number.to_string())]),
        };
        client.configure(request).await.map(Response::into_inner)
    }

    async fn drain(&mut self, client: &mut Client, id: &str) -> Result<TransitionAck, Status> {
        let sequence_number = self.token();
        let request = DrainRequest {
            machine_id: id.to_owned(),
            grace_period_seconds: 0,
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number,
        };
        client.drain(request).await.map(Response::into_inner)
    }

    async fn delete(&mut self, client: &mut Client, id: &str) -> Result<TransitionAck, Status> {
        let sequence_number = self.token();
        let request = DeleteRequest {
            machine_id: id.to_owned(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number,
        };
        client.delete(request).await.map(Response::into_inner)
    }

    /// Waits for stable states and compares recorded hosts with existing ones.
    async fn examine(&mut self, what: &str) {
        let mut running = self.start(None).await.expect("it starts");
        let rests = async {
            loop {
                let all = Self::all(&mut running.client).await.unwrap();
                let passing =
                    [State::Creating, State::Configuring, State::Draining, State::Deleting];
                if !all.iter().any(|it| passing.contains(&it.state())) {
                    return all;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let all = tokio::time::timeout(Duration::from_mins(2), rests).await.unwrap();
        assert_eq!(all.len(), MACHINES, "{what}");
        let failed = all.iter().find(|it| it.state() == State::Failed);
        assert_eq!(failed, None, "{what}: an interrupted verb failed");
        let recorded: BTreeSet<String> =
            all.iter().filter_map(|it| it.host.clone()).map(|it| it.r#ref).collect();
        let existing = fs::read_dir(self.hosts()).unwrap();
        let existing: BTreeSet<String> =
            existing.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        assert_eq!(existing, recorded, "{what}: existing and recorded hosts");
        for machine in &all {
            let created = self.acknowledged.get(&(machine.id.clone(), "create"));
            if let (Some(host), Some(operation)) = (&machine.host, created) {
                let newer = !self.operations.contains(host.r#ref.trim_start_matches("host-"));
                assert!(
                    newer || host.r#ref == format!("host-{operation}"),
                    "{what}: {host:?} is not of {operation}"
                );
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the length of the soak is a setting of the test")]
fn kills() -> u64 {
    let text = std::env::var("USHER_SOAK_PROVIDER_KILLS").ok();
    text.and_then(|it| it.parse().ok()).unwrap_or(2)
}

// Requirement: PM-10
#[tokio::test]
async fn a_kill_at_any_failpoint_leaks_no_host() {
    let mut provider = TestProvider::new(11);
    for point in Failpoint::ALL.iter().filter(|it| it.as_str().starts_with("provider-")) {
        for passing in 1..=kills() {
            let armed = format!("{point}:{}", passing * 3);
            if let Some(mut running) = provider.start(Some(armed.clone())).await {
                let mut died = false;
                for _ in 0..2_000 {
                    let mut client = running.client.clone();
                    if provider.step(&mut client).await.is_err() {
                        died = true;
                        break;
                    }
                }
                assert!(died, "{armed} was never passed");
                running.child.wait().unwrap();
            }
            provider.examine(&armed).await;
        }
    }
}

// Requirement: PM-10
#[tokio::test]
async fn a_kill_at_any_moment_leaks_no_host() {
    let mut provider = TestProvider::new(12);
    for round in 0..kills() * 3 {
        let mut running = provider.start(None).await.expect("it starts");
        let steps = 5 + provider.rng.below(60);
        for _ in 0..steps {
            let mut client = running.client.clone();
            provider.step(&mut client).await.unwrap();
        }
        running.child.kill().unwrap();
        running.child.wait().unwrap();
        provider.examine(&format!("round {round}")).await;
    }
}
