//! One `usher provider local`, across its restarts.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tonic::{Response, Status};
use usher_wire::fleet::{
    self, Client, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter,
    Machine, MachineRef, MachineState, TransitionAck,
};

use crate::port::Port;

pub(crate) const USHER: &str = env!("CARGO_BIN_EXE_usher");

pub(crate) struct TestProvider {
    pub(crate) folder: TempDir,
    sequence: i64,
}

pub(crate) struct Running {
    pub(crate) child: Child,
    pub(crate) client: Client,
    pub(crate) address: String,
    _port: Port,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl TestProvider {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), sequence: 0 }
    }

    pub(crate) fn path(&self, below: &str) -> PathBuf {
        self.folder.path().join("place").join(below)
    }

    /// Starts it; `None` if it died at its failpoint before it listened.
    pub(crate) async fn start(&self, slots: usize, failpoint: Option<&str>) -> Option<Running> {
        let port = Port::reserve();
        let address = format!("127.0.0.1:{}", port.number());
        let mut command = Command::new(USHER);
        command
            .args(["provider", "local", "--poll-interval=1h"])
            .arg(format!("--addr={address}"))
            .arg(format!("--seed-count={slots}"))
            .arg(format!("--hosts={}", self.folder.path().join("place").display()))
            .stdin(Stdio::null())
            .stderr(Stdio::null());
        if let Some(failpoint) = failpoint {
            command.env("USHER_FAILPOINT", failpoint);
        }
        let child = command.spawn().unwrap();
        let client = fleet::client(fleet::channel(&address, None).unwrap());
        let mut running = Running { child, client, address: address.clone(), _port: port };
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

    /// The names below a folder of the provider's directory.
    pub(crate) fn names(&self, below: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(below)).unwrap();
        let mut names: Vec<String> =
            entries.map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn token(&mut self) -> i64 {
        self.sequence += 1;
        self.sequence
    }

    pub(crate) async fn create(
        &mut self,
        client: &mut Client,
        id: &str,
    ) -> Result<TransitionAck, Status> {
        let request = CreateRequest {
            machine_id: id.to_owned(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number: self.token(),
        };
        client.create(request).await.map(Response::into_inner)
    }

    pub(crate) async fn configure(
        &mut self,
        client: &mut Client,
        id: &str,
        blob: &str,
    ) -> Result<TransitionAck, Status> {
        let request = ConfigureRequest {
            machine_id: id.to_owned(),
            cluster_id: "c".to_owned(),
            bootstrap_blob: blob.to_owned().into(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number: self.token(),
            shard_metadata: BTreeMap::new(),
        };
        client.configure(request).await.map(Response::into_inner)
    }

    pub(crate) async fn drain(
        &mut self,
        client: &mut Client,
        id: &str,
        grace_period_seconds: i64,
    ) -> Result<TransitionAck, Status> {
        let request = DrainRequest {
            machine_id: id.to_owned(),
            grace_period_seconds,
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number: self.token(),
        };
        client.drain(request).await.map(Response::into_inner)
    }

    pub(crate) async fn delete(
        &mut self,
        client: &mut Client,
        id: &str,
    ) -> Result<TransitionAck, Status> {
        let request = DeleteRequest {
            machine_id: id.to_owned(),
            shard_id: "s".to_owned(),
            shard_epoch: 1,
            sequence_number: self.token(),
        };
        client.delete(request).await.map(Response::into_inner)
    }

    /// The process that holds the lock of a node.
    pub(crate) fn holder(&self, host: &str) -> Option<i32> {
        use usher_hosts::supervisor::{Holder, Units};
        let units = Units::open(self.path("process")).unwrap();
        match units.holder(host).unwrap() {
            Holder::Process(number) => Some(number),
            Holder::Free | Holder::Unidentified => None,
        }
    }
}

pub(crate) async fn all(client: &mut Client) -> Result<Vec<Machine>, Status> {
    Ok(client.list(ListFilter::default()).await?.into_inner().machines)
}

/// Polls until a machine is in a state.
pub(crate) async fn settle(client: &mut Client, id: &str, state: MachineState) -> Machine {
    let polls = async {
        loop {
            let now = client.get(MachineRef { id: id.to_owned() }).await.unwrap().into_inner();
            assert_ne!(now.state(), MachineState::Failed, "{now:?}");
            if now.state() == state {
                return now;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_mins(2), polls).await.unwrap()
}
