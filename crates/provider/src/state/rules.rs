//! Which requests are accepted, what they change, and how operations end.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use usher_wire::fleet::{HostRef, Machine, MachineState, Resources};

use super::entry::{Entry, Mark, Pending, Record};
use super::verb::{Kind, TransitionRequest, Verb};
use super::{HostedMachine, ProviderState, Refusal};

/// The largest bootstrap blob.
const BLOB_BYTES_MAX: usize = 8 << 20;
/// The largest metadata of a binding. A list, which is one message, holds those of all machines.
const METADATA_BYTES_MAX: usize = 5 << 19;

/// An accepted request.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The operation id.
    pub operation: String,
    /// The machine after the request.
    pub machine: Machine,
    /// The work to do; `None` for a repeated request.
    pub work: Option<Work>,
}

/// The result of a request and the entry that must be durable before it is returned.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The entry to write; `None` if nothing changed.
    pub entry: Option<Entry>,
    /// The result for the caller.
    pub result: Result<Accepted, Refusal>,
}

/// A verb to run on a machine.
#[derive(Clone, PartialEq)]
pub struct Work {
    /// The operation id, the same for each retry.
    pub operation: String,
    /// The verb.
    pub kind: Kind,
    /// The machine when the operation began.
    pub machine: Machine,
    /// The bootstrap blob of a Configure.
    pub blob: Bytes,
    /// The grace period of a Drain.
    pub grace: Duration,
    /// The operation id of its last Create, if any.
    pub made_by: Option<String>,
}

/// How a verb ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VerbOutcome {
    /// The host was created, with the resources it has.
    Created { host: HostRef, resources: Option<Resources>, allocatable: Option<Resources> },
    /// The verb succeeded.
    Done,
    /// The verb failed with this error.
    Failed(String),
}

impl Work {
    /// The operation in progress on a machine.
    pub(super) fn of(record: &Record) -> Option<Self> {
        let pending = record.pending.as_ref()?;
        Some(Self {
            operation: pending.operation.clone(),
            kind: pending.kind()?,
            machine: record.machine(),
            blob: pending.blob.clone(),
            grace: Duration::from_secs(u64::try_from(pending.grace_seconds).unwrap_or_default()),
            made_by: record.operation(Kind::Create).map(str::to_owned),
        })
    }
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {} ({})", self.kind.as_str(), self.machine.id, self.operation)
    }
}

impl ProviderState {
    /// Decides a request and changes the state accordingly.
    pub fn decide(&mut self, request: &TransitionRequest, deletes: bool) -> Decision {
        let refused = |refusal| Decision { entry: None, result: Err(refusal) };
        if request.machine.is_empty() {
            return refused(Refusal::NoId);
        }
        if matches!(request.verb, Verb::Delete | Verb::Salvage) && !deletes {
            return refused(Refusal::Unsupported);
        }
        if !self.admits(request) {
            return refused(Refusal::Fenced { shard: request.token.shard.clone() });
        }
        let mut entry = self.raise_mark(request);
        let result = match self.check(request) {
            Ok(Verdict::Repeated(record)) => {
                let operation =
                    record.operation(request.verb.kind()).unwrap_or_default().to_owned();
                Ok(Accepted { operation, machine: record.machine(), work: None })
            }
            Ok(Verdict::Begins(record)) => {
                let record = self.begin(request, &record);
                let operation =
                    record.operation(request.verb.kind()).unwrap_or_default().to_owned();
                let work = Work::of(&record);
                let machine = record.machine();
                entry.record = Some(record);
                Ok(Accepted { operation, machine, work })
            }
            Err(refusal) => Err(refusal),
        };
        let entry = self.write(entry);
        Decision { entry, result }
    }

    /// Ends an operation; `None` if it is no longer the one in progress.
    pub(crate) fn end(
        &mut self,
        machine: &str,
        operation: &str,
        outcome: VerbOutcome,
    ) -> Option<Entry> {
        let slot = self.slots.get(machine)?;
        let pending = slot.record.pending.as_ref().filter(|it| it.operation == operation)?;
        let kind = pending.kind()?;
        let mut record = Record::clone(&slot.record);
        record.pending = None;
        match outcome {
            VerbOutcome::Failed(why) => fail(record.machine.get_or_insert_default(), why),
            VerbOutcome::Created { .. } | VerbOutcome::Done => succeed(&mut record, kind, outcome),
        }
        self.change(record)
    }

    /// Fails a machine whose host is gone; `None` if the machine has changed since the check, for
    /// example moved to another host or left its cluster.
    pub(crate) fn mark_lost(&mut self, machine: &HostedMachine, why: String) -> Option<Entry> {
        let slot = self.slots.get(machine.machine.as_str())?;
        if HostedMachine::of(&slot.record).as_ref() != Some(machine) {
            return None;
        }
        let mut record = Record::clone(&slot.record);
        fail(record.machine.get_or_insert_default(), why);
        self.change(record)
    }

    /// Adds an offered machine, or updates price, probability, labels and, without a host,
    /// resources of a known one; `None` if nothing changed.
    pub(crate) fn offer(&mut self, offered: Machine) -> Option<Entry> {
        let Some(slot) = self.slots.get(offered.id.as_str()) else {
            return self.change(Record { machine: Some(offered), ..Record::default() });
        };
        let mut record = Record::clone(&slot.record);
        let it = record.machine.get_or_insert_default();
        it.price_per_hour = offered.price_per_hour;
        it.interruption_probability = offered.interruption_probability;
        it.labels = offered.labels;
        // A host's own resources override its offer.
        if it.host.is_none() {
            it.resources = offered.resources;
            it.allocatable = offered.allocatable;
        }
        if *slot.record == record {
            return None;
        }
        self.change(record)
    }

    fn admits(&self, request: &TransitionRequest) -> bool {
        if request.token.is_zero() {
            return true;
        }
        match self.slots.get(request.machine.as_str()) {
            Some(slot) => slot.marks.admits(&request.token),
            None => self.foreign_marks.admits(&request.machine, &request.token),
        }
    }

    /// An entry that raises the mark of the request's token.
    fn raise_mark(&self, request: &TransitionRequest) -> Entry {
        let mark = (!request.token.is_zero()).then(|| Mark {
            shard: request.token.shard.clone(),
            machine: request.machine.clone(),
            epoch: request.token.epoch,
            sequence: request.token.sequence,
        });
        Entry { head: self.head, next_operation: self.next_operation, record: None, mark }
    }

    fn check(&self, request: &TransitionRequest) -> Result<Verdict, Refusal> {
        let id = || request.machine.clone();
        let slot = self.slots.get(request.machine.as_str());
        let record = &slot.ok_or_else(|| Refusal::Unknown { id: id() })?.record;
        let (kind, state) = (request.verb.kind(), record.state());
        if let Verb::Configure { cluster, .. } = &request.verb
            && [kind.passing(), kind.goal()].contains(&state)
            && record.machine.as_ref().is_some_and(|it| it.cluster != *cluster)
        {
            let bound = record.machine().cluster;
            return Err(Refusal::Bound { id: id(), asked: cluster.clone(), bound });
        }
        if [kind.passing(), kind.goal()].contains(&state) && record.operation(kind).is_some() {
            return Ok(Verdict::Repeated(Arc::clone(record)));
        }
        if state != kind.origin() {
            let state = state.as_str_name().trim_start_matches("MACHINE_STATE_");
            return Err(Refusal::Position { verb: kind.as_str(), id: id(), state });
        }
        check_size(&request.verb)?;
        Ok(Verdict::Begins(Arc::clone(record)))
    }

    fn begin(&self, request: &TransitionRequest, record: &Record) -> Record {
        let kind = request.verb.kind();
        let operation = format!("op-{:08x}-{}", self.nonce & 0xffff_ffff, self.next_operation);
        let mut record = record.clone();
        record.set_operation(kind, &operation);
        let index = u32::try_from(kind.index()).unwrap_or_default();
        let mut pending = Pending { kind: index, operation, ..Pending::default() };
        let machine = record.machine.get_or_insert_default();
        machine.set_state(kind.passing());
        machine.last_error.clear();
        match &request.verb {
            Verb::Configure { cluster, blob, metadata } => {
                pending.blob = blob.clone();
                machine.cluster.clone_from(cluster);
                machine.shard_metadata.clone_from(metadata);
            }
            Verb::Drain { grace_seconds } => pending.grace_seconds = (*grace_seconds).max(0),
            Verb::Create | Verb::Delete | Verb::Salvage => {}
        }
        record.pending = Some(pending);
        record
    }

    fn change(&mut self, record: Record) -> Option<Entry> {
        let (head, next_operation) = (self.head, self.next_operation);
        self.write(Entry { head, next_operation, record: Some(record), mark: None })
    }

    /// Assigns revision and operation numbers and applies the entry; `None` if it is empty.
    fn write(&mut self, mut entry: Entry) -> Option<Entry> {
        if let Some(record) = &mut entry.record {
            entry.head = self.head + 1;
            record.revision = entry.head;
            if record.pending.is_some() {
                entry.next_operation = self.next_operation + 1;
            }
        } else if entry.mark.is_none() {
            return None;
        }
        self.apply(entry.clone());
        Some(entry)
    }
}

enum Verdict {
    /// The same request was accepted before.
    Repeated(Arc<Record>),
    /// A new operation begins.
    Begins(Arc<Record>),
}

fn check_size(verb: &Verb) -> Result<(), Refusal> {
    let Verb::Configure { cluster, blob, metadata } = verb else { return Ok(()) };
    let malformed = |what: String| Err(Refusal::Malformed { what });
    if cluster.is_empty() {
        return malformed("the cluster is empty".to_owned());
    }
    if blob.len() > BLOB_BYTES_MAX {
        return malformed(format!("the blob exceeds {BLOB_BYTES_MAX} bytes"));
    }
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        return malformed(format!("the metadata exceed {METADATA_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn succeed(record: &mut Record, kind: Kind, outcome: VerbOutcome) {
    let was_made = record.operation(Kind::Create).is_some();
    let machine = record.machine.get_or_insert_default();
    // Without a host the machine still has its offered resources.
    let was_made = was_made && machine.host.is_some();
    machine.set_state(kind.goal());
    match kind {
        Kind::Create => {
            if let VerbOutcome::Created { host, resources, allocatable } = outcome {
                record.offered_resources.clone_from(&machine.resources);
                record.offered_allocatable.clone_from(&machine.allocatable);
                machine.host = Some(host);
                machine.resources = resources.or_else(|| machine.resources.take());
                machine.allocatable = allocatable.or_else(|| machine.allocatable.take());
            }
        }
        Kind::Configure => {}
        Kind::Drain => unbind(machine),
        Kind::Delete | Kind::Salvage => {
            unbind(machine);
            machine.host = None;
            if was_made {
                machine.resources = record.offered_resources.take();
                machine.allocatable = record.offered_allocatable.take();
            }
        }
    }
}

fn fail(machine: &mut Machine, why: String) {
    machine.set_state(MachineState::Failed);
    machine.last_error = if why.is_empty() { "unknown error".to_owned() } else { why };
    unbind(machine);
}

fn unbind(machine: &mut Machine) {
    machine.cluster.clear();
    machine.shard_metadata.clear();
}
