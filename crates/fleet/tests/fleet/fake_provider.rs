//! A fake provider in memory, served over gRPC and scripted by tests: synchronous or staged
//! commands, lost responses, stale, truncated or invalid lists, and no response.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::net::TcpListener;
use tokio::sync::watch;
use tonic::{Request, Response, Status};
use usher_wire::fleet::{
    CapacityProvider, CapacityType, ConfigureRequest, CreateRequest, DeleteRequest, DrainRequest,
    HostRef, ListFilter, Machine, MachineList, MachineRef, MachineState, Resources, TransitionAck,
    incoming, server,
};

/// One accepted command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    pub(crate) verb: MachineState,
    pub(crate) machine: String,
    pub(crate) operation: String,
    pub(crate) grace: i64,
}

/// The scripted behaviour.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fault of its own")]
pub(crate) struct Manners {
    /// Commands end when the test completes them, not at once.
    pub(crate) is_staged: bool,
    /// This many responses are lost after the command was done.
    pub(crate) lost_answers: u32,
    /// This many commands are refused as fenced, although they are not.
    pub(crate) fenced: u32,
    /// This many calls fail with UNAVAILABLE.
    pub(crate) failing: u32,
    /// No call gets a response.
    pub(crate) is_silent: bool,
    /// A change to every list before it is sent.
    pub(crate) bend: Option<fn(&mut Vec<Machine>)>,
    /// Lists are built and not sent.
    pub(crate) holds_lists: bool,
    /// Responses to commands are built and not sent.
    pub(crate) holds_answers: bool,
}

struct Unit {
    machine: Machine,
    changed: u64,
    operations: BTreeMap<i32, String>,
}

#[derive(Default)]
struct FakeProviderState {
    units: BTreeMap<String, Unit>,
    marks: BTreeMap<(String, String), (i64, i64)>,
    revision: u64,
    operations: u64,
    deeds: Vec<Deed>,
    manners: Manners,
    lists: u32,
    held: u32,
}

#[derive(Clone)]
pub(crate) struct FakeProvider {
    inner: Arc<Mutex<FakeProviderState>>,
    changed: Arc<watch::Sender<u64>>,
}

/// One command as received.
struct RecordedCall {
    machine: String,
    token: (String, i64, i64),
    from: MachineState,
    to: MachineState,
    binding: Option<(String, BTreeMap<String, String>)>,
    grace: i64,
}

impl FakeProvider {
    /// A listening provider with this many slots.
    pub(crate) async fn open(slots: usize) -> (Self, String) {
        let fake = Self { inner: Arc::default(), changed: Arc::new(watch::Sender::new(0)) };
        for number in 0..slots {
            fake.add(machine(&format!("m{number}")));
        }
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        fake.serve(listener);
        (fake, address)
    }

    fn serve(&self, listener: TcpListener) {
        let serving =
            tonic::transport::Server::builder().add_service(server(Arc::new(self.clone())));
        tokio::spawn(serving.serve_with_incoming(incoming(listener, None)));
    }

    pub(crate) fn add(&self, machine: Machine) {
        let mut inner = self.inner();
        inner.revision += 1;
        let changed = inner.revision;
        let operations = BTreeMap::new();
        inner.units.insert(machine.id.clone(), Unit { machine, changed, operations });
    }

    pub(crate) fn remove(&self, id: &str) {
        self.inner().units.remove(id);
    }

    /// Changes the behaviour.
    pub(crate) fn behave(&self, change: impl FnOnce(&mut Manners)) {
        change(&mut self.inner().manners);
    }

    /// Sends held responses.
    pub(crate) fn release(&self) {
        self.behave(|it| (it.holds_lists, it.holds_answers) = (false, false));
        self.changed.send_modify(|it| *it += 1);
    }

    /// How many lists were requested, and how many responses are held.
    pub(crate) fn traffic(&self) -> (u32, u32) {
        let inner = self.inner();
        (inner.lists, inner.held)
    }

    /// Changes a machine without a command.
    pub(crate) fn bend(&self, id: &str, change: impl FnOnce(&mut Machine)) {
        self.inner().touch(id, change);
    }

    /// Completes every pending command.
    pub(crate) fn let_go(&self) {
        let mut inner = self.inner();
        let ids: Vec<String> = inner.units.keys().cloned().collect();
        for id in ids {
            inner.complete(&id);
        }
    }

    pub(crate) fn machines(&self) -> Vec<Machine> {
        self.inner().units.values().map(|it| it.machine.clone()).collect()
    }

    pub(crate) fn machine(&self, id: &str) -> Machine {
        self.inner().units[id].machine.clone()
    }

    /// How many machines are in a state.
    pub(crate) fn count(&self, state: MachineState) -> usize {
        self.machines().iter().filter(|it| it.state() == state).count()
    }

    /// Every accepted command.
    pub(crate) fn deeds(&self) -> Vec<Deed> {
        self.inner().deeds.clone()
    }

    /// No operation was accepted twice.
    pub(crate) fn nothing_was_done_twice(&self) {
        let deeds = self.deeds();
        let operations: BTreeSet<&String> = deeds.iter().map(|it| &it.operation).collect();
        assert_eq!(operations.len(), deeds.len(), "{deeds:?}");
    }

    fn inner(&self) -> MutexGuard<'_, FakeProviderState> {
        self.inner.lock().unwrap()
    }

    async fn answer(&self) -> Result<(), Status> {
        if self.inner().manners.is_silent {
            // The caller times out.
            std::future::pending::<()>().await;
        }
        let mut inner = self.inner();
        if inner.manners.failing > 0 {
            inner.manners.failing -= 1;
            return Err(Status::unavailable("injected fault"));
        }
        Ok(())
    }

    async fn verb(&self, asked: RecordedCall) -> Result<Response<TransitionAck>, Status> {
        self.answer().await?;
        let (answer, holds) = self.carry_out(asked)?;
        self.hold(holds).await;
        Ok(Response::new(answer))
    }

    /// Executes a command; whether its response is held.
    fn carry_out(&self, asked: RecordedCall) -> Result<(TransitionAck, bool), Status> {
        let mut inner = self.inner();
        if inner.manners.fenced > 0 {
            inner.manners.fenced -= 1;
            return Err(Status::failed_precondition("fenced"));
        }
        let answer = inner.accept(asked)?;
        if inner.manners.lost_answers > 0 {
            inner.manners.lost_answers -= 1;
            return Err(Status::unavailable("the response was lost"));
        }
        Ok((answer, inner.manners.holds_answers))
    }

    /// The current list, and whether it is held.
    fn listed(&self, since: u64) -> (MachineList, bool) {
        let inner = self.inner();
        let changed = inner.units.values().filter(|it| it.changed > since);
        let mut machines: Vec<Machine> = changed.map(|it| it.machine.clone()).collect();
        if let Some(bend) = inner.manners.bend {
            bend(&mut machines);
        }
        let revision = inner.revision.to_string().into();
        (MachineList { machines, revision }, inner.manners.holds_lists)
    }

    /// Waits until held responses are released.
    async fn hold(&self, holds: bool) {
        if !holds {
            return;
        }
        let mut changed = self.changed.subscribe();
        self.inner().held += 1;
        let _ = changed.changed().await;
        self.inner().held -= 1;
    }
}

impl FakeProviderState {
    fn touch(&mut self, id: &str, change: impl FnOnce(&mut Machine)) {
        self.revision += 1;
        if let Some(unit) = self.units.get_mut(id) {
            change(&mut unit.machine);
            unit.changed = self.revision;
        }
    }

    fn accept(&mut self, asked: RecordedCall) -> Result<TransitionAck, Status> {
        let RecordedCall { machine: id, token, from, to, binding, grace } = asked;
        let (shard, epoch, sequence) = token;
        let mark = self.marks.entry((shard, id.clone())).or_insert((i64::MIN, 0));
        if (epoch, sequence) <= *mark {
            return Err(Status::failed_precondition("fenced"));
        }
        *mark = (epoch, sequence);
        let unit = self.units.get(&id).ok_or_else(|| Status::not_found("no such machine"))?;
        let state = unit.machine.state();
        let again = unit.operations.get(&(to as i32)).filter(|_| state == to || state == goal(to));
        if let Some(operation) = again {
            let (operation_id, machine) = (operation.clone(), Some(unit.machine.clone()));
            return Ok(TransitionAck { operation_id, machine });
        }
        if state != from {
            return Err(Status::internal("out of position"));
        }
        self.operations += 1;
        let operation = format!("op-{}", self.operations);
        let (machine, verb) = (id.clone(), to);
        self.deeds.push(Deed { verb, machine, operation: operation.clone(), grace });
        if let Some(unit) = self.units.get_mut(&id) {
            unit.operations.insert(to as i32, operation.clone());
        }
        self.touch(&id, |it| {
            it.set_state(to);
            if let Some((cluster, metadata)) = binding {
                it.cluster = cluster;
                it.shard_metadata = metadata;
            }
        });
        if !self.manners.is_staged {
            self.complete(&id);
        }
        Ok(TransitionAck {
            operation_id: operation,
            machine: Some(self.units[&id].machine.clone()),
        })
    }

    fn complete(&mut self, id: &str) {
        let state = self.units[id].machine.state();
        let host = HostRef { provider: "plant".to_owned(), r#ref: format!("host-of-{id}") };
        let end = goal(state);
        if end == MachineState::Unspecified {
            return;
        }
        self.touch(id, |it| {
            it.set_state(end);
            match state {
                MachineState::Creating => it.host = Some(host),
                MachineState::Draining => {
                    it.cluster.clear();
                    it.shard_metadata.clear();
                }
                MachineState::Deleting => it.host = None,
                MachineState::Unspecified
                | MachineState::Speculative
                | MachineState::Idle
                | MachineState::Configuring
                | MachineState::Configured
                | MachineState::Failed => {}
            }
        });
    }
}

/// The goal of a transitional state.
fn goal(state: MachineState) -> MachineState {
    match state {
        MachineState::Creating | MachineState::Draining => MachineState::Idle,
        MachineState::Configuring => MachineState::Configured,
        MachineState::Deleting => MachineState::Speculative,
        MachineState::Unspecified
        | MachineState::Speculative
        | MachineState::Idle
        | MachineState::Configured
        | MachineState::Failed => MachineState::Unspecified,
    }
}

/// A slot for a machine with four processors.
pub(crate) fn machine(id: &str) -> Machine {
    let amounts = BTreeMap::from([("cpu".to_owned(), "4".to_owned())]);
    Machine {
        id: id.to_owned(),
        state: MachineState::Speculative as i32,
        host: None,
        instance_type: "m.large".to_owned(),
        zone: "z1".to_owned(),
        capacity_type: CapacityType::OnDemand as i32,
        price_per_hour: 0.5,
        interruption_probability: 0.0,
        resources: Some(Resources { resources: amounts }),
        labels: BTreeMap::new(),
        last_error: String::new(),
        allocatable: None,
        cluster: String::new(),
        shard_metadata: BTreeMap::new(),
    }
}

#[tonic::async_trait]
impl CapacityProvider for FakeProvider {
    async fn create(
        &self,
        request: Request<CreateRequest>,
    ) -> Result<Response<TransitionAck>, Status> {
        let it = request.into_inner();
        self.verb(RecordedCall {
            machine: it.machine_id,
            token: (it.shard_id, it.shard_epoch, it.sequence_number),
            from: MachineState::Speculative,
            to: MachineState::Creating,
            binding: None,
            grace: 0,
        })
        .await
    }

    async fn configure(
        &self,
        request: Request<ConfigureRequest>,
    ) -> Result<Response<TransitionAck>, Status> {
        let it = request.into_inner();
        self.verb(RecordedCall {
            machine: it.machine_id,
            token: (it.shard_id, it.shard_epoch, it.sequence_number),
            from: MachineState::Idle,
            to: MachineState::Configuring,
            binding: Some((it.cluster_id, it.shard_metadata)),
            grace: 0,
        })
        .await
    }

    async fn drain(
        &self,
        request: Request<DrainRequest>,
    ) -> Result<Response<TransitionAck>, Status> {
        let it = request.into_inner();
        self.verb(RecordedCall {
            machine: it.machine_id,
            token: (it.shard_id, it.shard_epoch, it.sequence_number),
            from: MachineState::Configured,
            to: MachineState::Draining,
            binding: None,
            grace: it.grace_period_seconds,
        })
        .await
    }

    async fn delete(
        &self,
        request: Request<DeleteRequest>,
    ) -> Result<Response<TransitionAck>, Status> {
        let it = request.into_inner();
        self.verb(RecordedCall {
            machine: it.machine_id,
            token: (it.shard_id, it.shard_epoch, it.sequence_number),
            from: MachineState::Idle,
            to: MachineState::Deleting,
            binding: None,
            grace: 0,
        })
        .await
    }

    async fn get(&self, request: Request<MachineRef>) -> Result<Response<Machine>, Status> {
        self.answer().await?;
        let inner = self.inner();
        let unit = inner.units.get(&request.into_inner().id);
        let machine = unit.ok_or_else(|| Status::not_found("no such machine"))?.machine.clone();
        Ok(Response::new(machine))
    }

    async fn list(&self, request: Request<ListFilter>) -> Result<Response<MachineList>, Status> {
        self.inner().lists += 1;
        self.answer().await?;
        let since = String::from_utf8_lossy(&request.into_inner().since_revision).into_owned();
        let (list, holds) = self.listed(since.parse().unwrap_or(0));
        self.hold(holds).await;
        Ok(Response::new(list))
    }
}
