//! The client that behaviours use: tokens that pass the fence, machines that no other one uses.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::{Instant, sleep};
use tonic::transport::Channel;
use tonic::{Code, Response, Status};
use usher_wire::fleet::{
    Client, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest, ListFilter, Machine,
    MachineList, MachineRef, MachineState, SalvageRequest, SalvagerClient, TransitionAck, client,
};

use crate::fake::Rng;
use crate::state::{Kind, Token};

/// How long a machine may take to reach a stable state.
const SETTLE_TIMEOUT: Duration = Duration::from_secs(15);
/// How often it is read meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Why a behaviour did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NotPassed {
    /// It does not hold.
    Failed(String),
    /// It could not be exercised.
    Skipped(String),
}

pub(super) type Outcome<T = ()> = Result<T, NotPassed>;
pub(super) type Metadata = BTreeMap<String, String>;

/// The client that behaviours use.
#[derive(Clone)]
pub(super) struct Probe {
    pub(super) client: Client,
    /// On a second connection.
    pub(super) other: Client,
    salvager: SalvagerClient<Channel>,
    pub(super) rng: Rng,
    slots: Vec<String>,
    shard: String,
    sequence: i64,
}

impl NotPassed {
    /// For an id that its area does not implement.
    pub(super) fn unknown(id: u16) -> Self {
        Self::Skipped(format!("B{id} is not implemented"))
    }
}

impl From<Status> for NotPassed {
    fn from(status: Status) -> Self {
        Self::Failed(format!("refused with {:?}: {}", status.code(), status.message()))
    }
}

/// Fails with a message unless the condition holds.
pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Outcome {
    if holds { Ok(()) } else { Err(NotPassed::Failed(what())) }
}

/// Fails unless the response is a refusal with one of these codes.
pub(super) fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, codes: &[Code]) -> Outcome {
    match answer {
        Ok(granted) => Err(NotPassed::Failed(format!("accepted, expected a refusal: {granted:?}"))),
        Err(status) if codes.contains(&status.code()) => Ok(()),
        Err(status) => {
            Err(NotPassed::Failed(format!("refused with {:?}, not {codes:?}", status.code())))
        }
    }
}

/// Fails unless the response is a refusal, but not one of the fence.
pub(super) fn out_of_place<T: std::fmt::Debug>(answer: Result<T, Status>) -> Outcome {
    match answer {
        Err(status) if status.code() != Code::FailedPrecondition => Ok(()),
        Err(_) => Err(NotPassed::Failed("fenced, but the token was valid".to_owned())),
        Ok(granted) => Err(NotPassed::Failed(format!("accepted, expected a refusal: {granted:?}"))),
    }
}

pub(super) fn metadata(entries: &[(&str, &str)]) -> Metadata {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The machine of an acknowledgement.
pub(super) fn machine(ack: TransitionAck) -> Outcome<Machine> {
    ack.machine.ok_or_else(|| NotPassed::Failed("an acknowledgement without a machine".to_owned()))
}

impl Probe {
    /// A probe over two connections.
    pub(super) fn new([one, other]: [Channel; 2], seed: u64, name: &str) -> Self {
        Self {
            salvager: SalvagerClient::new(one.clone()),
            client: client(one),
            other: client(other),
            rng: Rng::new(seed),
            slots: Vec::new(),
            shard: format!("conformance-{seed}-{name}"),
            sequence: 0,
        }
    }

    /// A token that passes the fence.
    pub(super) fn token(&mut self) -> Token {
        self.sequence += 1;
        Token { shard: self.shard.clone(), epoch: 1, sequence: self.sequence }
    }

    /// A name of a shard or machine that was never used.
    pub(super) fn unknown_name(&mut self) -> String {
        format!("{}-{:x}", self.shard, self.rng.next())
    }

    pub(super) async fn get(&mut self, id: &str) -> Result<Machine, Status> {
        self.client.get(MachineRef { id: id.to_owned() }).await.map(Response::into_inner)
    }

    pub(super) async fn list(&mut self, filter: ListFilter) -> Result<MachineList, Status> {
        self.client.list(filter).await.map(Response::into_inner)
    }

    /// All machines.
    pub(super) async fn all(&mut self) -> Outcome<Vec<Machine>> {
        Ok(self.list(ListFilter::default()).await?.machines)
    }

    pub(super) async fn of_states(
        &mut self,
        states: &[MachineState],
        most: i32,
    ) -> Outcome<Vec<Machine>> {
        let states = states.iter().map(|it| i32::from(*it)).collect();
        let filter = ListFilter { states, max_results: most, ..ListFilter::default() };
        Ok(self.list(filter).await?.machines)
    }

    /// The changes after a cursor.
    pub(super) async fn since(&mut self, cursor: &Bytes, most: i32) -> Outcome<MachineList> {
        let since_revision = cursor.clone();
        let filter = ListFilter { max_results: most, since_revision, ..ListFilter::default() };
        Ok(self.list(filter).await?)
    }

    pub(super) async fn create_as(
        &mut self,
        id: &str,
        token: Token,
    ) -> Result<TransitionAck, Status> {
        let request = CreateRequest {
            machine_id: id.to_owned(),
            shard_id: token.shard,
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        self.client.create(request).await.map(Response::into_inner)
    }

    pub(super) async fn configure_as(
        &mut self,
        id: &str,
        (cluster, shard_metadata): (&str, Metadata),
        token: Token,
    ) -> Result<TransitionAck, Status> {
        let request = ConfigureRequest {
            machine_id: id.to_owned(),
            cluster_id: cluster.to_owned(),
            bootstrap_blob: "bootstrap".into(),
            shard_id: token.shard,
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
            shard_metadata,
        };
        self.client.configure(request).await.map(Response::into_inner)
    }

    pub(super) async fn drain_as(
        &mut self,
        id: &str,
        grace_period_seconds: i64,
        token: Token,
    ) -> Result<TransitionAck, Status> {
        let request = DrainRequest {
            machine_id: id.to_owned(),
            grace_period_seconds,
            shard_id: token.shard,
            shard_epoch: token.epoch,
            sequence_number: token.sequence,
        };
        self.client.drain(request).await.map(Response::into_inner)
    }

    pub(super) async fn create(&mut self, id: &str) -> Result<TransitionAck, Status> {
        let token = self.token();
        self.create_as(id, token).await
    }

    pub(super) async fn configure(
        &mut self,
        id: &str,
        cluster: &str,
        metadata: Metadata,
    ) -> Result<TransitionAck, Status> {
        let token = self.token();
        self.configure_as(id, (cluster, metadata), token).await
    }

    pub(super) async fn drain(&mut self, id: &str, grace: i64) -> Result<TransitionAck, Status> {
        let token = self.token();
        self.drain_as(id, grace, token).await
    }

    pub(super) async fn delete(&mut self, id: &str) -> Result<TransitionAck, Status> {
        let token = self.token();
        self.call(Kind::Delete, id, token).await
    }

    /// Calls a verb; Configure binds to cluster `c`.
    pub(super) async fn call(
        &mut self,
        kind: Kind,
        id: &str,
        token: Token,
    ) -> Result<TransitionAck, Status> {
        let machine_id = id.to_owned();
        let Token { shard: shard_id, epoch: shard_epoch, sequence: sequence_number } =
            token.clone();
        let answer = match kind {
            Kind::Create => return self.create_as(id, token).await,
            Kind::Configure => return self.configure_as(id, ("c", Metadata::new()), token).await,
            Kind::Drain => return self.drain_as(id, 0, token).await,
            Kind::Delete => {
                let request = DeleteRequest { machine_id, shard_id, shard_epoch, sequence_number };
                self.client.delete(request).await
            }
            Kind::Salvage => {
                let request = SalvageRequest { machine_id, shard_id, shard_epoch, sequence_number };
                self.salvager.salvage(request).await
            }
        };
        answer.map(Response::into_inner)
    }

    /// An unused slot.
    pub(super) async fn slot(&mut self) -> Outcome<String> {
        if self.slots.is_empty() {
            let found = self.of_states(&[MachineState::Speculative], 0).await?;
            let sound =
                found.into_iter().filter(|it| !it.labels.contains_key(crate::fake::FAULT_LABEL));
            self.slots = sound.map(|it| it.id).collect();
        }
        self.slots.pop().ok_or_else(|| NotPassed::Skipped("no slots are left".to_owned()))
    }

    /// Notes that a behaviour used a slot that it found by listing.
    pub(super) fn mark_used(&mut self, id: &str) {
        self.slots.retain(|it| it != id);
    }

    /// An idle machine.
    pub(super) async fn idle(&mut self) -> Outcome<String> {
        let id = self.slot().await?;
        self.create(&id).await?;
        self.settle(&id, MachineState::Idle).await?;
        Ok(id)
    }

    /// A machine bound to a cluster.
    pub(super) async fn bound(&mut self, cluster: &str, with: Metadata) -> Outcome<String> {
        let id = self.idle().await?;
        self.configure(&id, cluster, with).await?;
        self.settle(&id, MachineState::Configured).await?;
        Ok(id)
    }

    /// Waits until a machine reaches a state; returns the machine in every state seen.
    pub(super) async fn settle(&mut self, id: &str, state: MachineState) -> Outcome<Vec<Machine>> {
        let mut seen: Vec<Machine> = Vec::new();
        let until = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let now = self.get(id).await?;
            let reached = now.state();
            if seen.last().is_none_or(|it| it.state != now.state) {
                seen.push(now);
            }
            if reached == state {
                return Ok(seen);
            }
            let path = || seen.iter().map(|it| it.state().as_str_name()).collect::<Vec<_>>();
            if reached == MachineState::Failed {
                let why = seen.last().map(|it| it.last_error.clone()).unwrap_or_default();
                return Err(NotPassed::Failed(format!("{id} failed: {why}")));
            }
            ensure(Instant::now() < until, || {
                format!("{id} did not become {} in time: {:?}", state.as_str_name(), path())
            })?;
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Waits until a machine is in a stable state.
    pub(super) async fn rest(&mut self, id: &str) -> Outcome<Machine> {
        let until = Instant::now() + SETTLE_TIMEOUT;
        loop {
            let now = self.get(id).await?;
            let passing = Kind::PUBLIC.iter().any(|kind| kind.passing() == now.state());
            if !passing {
                return Ok(now);
            }
            ensure(Instant::now() < until, || format!("{id} did not reach a stable state"))?;
            sleep(POLL_INTERVAL).await;
        }
    }

    /// Calls a verb and waits for its end.
    pub(super) async fn drive(&mut self, kind: Kind, id: &str) -> Outcome<TransitionAck> {
        let token = self.token();
        let ack = self.call(kind, id, token).await?;
        self.settle(id, kind.goal()).await?;
        Ok(ack)
    }
}

/// Makes concurrent calls and returns all responses.
pub(super) async fn at_once<T, F, Fut>(count: usize, call: F) -> Vec<T>
where
    F: Fn(usize) -> Fut,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let tasks: Vec<_> = (0..count).map(|index| tokio::spawn(call(index))).collect();
    let mut answers = Vec::new();
    for task in tasks {
        answers.extend(task.await);
    }
    answers
}
