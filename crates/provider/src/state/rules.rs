//! What is granted, what it changes, and how it ends.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use usher_wire::fleet::{HostRef, Machine, MachineState, Resources};

use super::entry::{Entry, Mark, Pending, Record};
use super::verb::{Kind, TransitionRequest, Verb};
use super::{HostedMachine, ProviderState, Refusal};

/// What a machine may need to join.
const BLOB_BYTES_MAX: usize = 8 << 20;
/// What may be kept with a binding. It comes back with every list, which is one message.
const METADATA_BYTES_MAX: usize = 5 << 19;

/// A granted question.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// The operation.
    pub operation: String,
    /// The machine as it is now.
    pub machine: Machine,
    /// What is to be done, unless that was asked for before.
    pub work: Option<Work>,
}

/// What a question changes, and what is answered when that is written down.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// To be written down before anything is said.
    pub entry: Option<Entry>,
    /// What is said.
    pub result: Result<Accepted, Refusal>,
}

/// What is to be done to a machine.
#[derive(Clone, PartialEq)]
pub struct Work {
    /// The same each time it is tried.
    pub operation: String,
    /// The verb.
    pub kind: Kind,
    /// The machine as it was when that began.
    pub machine: Machine,
    /// What it needs to join.
    pub blob: Bytes,
    /// How long its work may take to end.
    pub grace: Duration,
    /// The operation of its last Create, if one ever began.
    pub made_by: Option<String>,
}

/// How work ended.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum VerbOutcome {
    /// It is made: the host, and what is known better now.
    Created { host: HostRef, resources: Option<Resources>, allocatable: Option<Resources> },
    /// It is done.
    Done,
    /// It failed.
    Failed(String),
}

impl Work {
    /// What is being done to a machine.
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
        let mut entry = self.marked(request);
        let result = match self.judge(request) {
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

    /// Ends an operation; nothing if it is not the one in hand any more.
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
            VerbOutcome::Created { .. } | VerbOutcome::Done => settle(&mut record, kind, outcome),
        }
        self.change(record)
    }

    /// Notes that a host vanished; nothing if the machine does not stand as it did when that was
    /// found: elsewhere by now, or not bound any more and so without what a node has.
    pub(crate) fn mark_lost(&mut self, machine: &HostedMachine, why: String) -> Option<Entry> {
        let slot = self.slots.get(machine.machine.as_str())?;
        if HostedMachine::of(&slot.record).as_ref() != Some(machine) {
            return None;
        }
        let mut record = Record::clone(&slot.record);
        fail(record.machine.get_or_insert_default(), why);
        self.change(record)
    }

    /// Takes over what is offered: a new machine as it is, of a known one what may change by
    /// itself. Nothing if nothing did.
    pub(crate) fn offer(&mut self, offered: Machine) -> Option<Entry> {
        let Some(slot) = self.slots.get(offered.id.as_str()) else {
            return self.change(Record { machine: Some(offered), ..Record::default() });
        };
        let mut record = Record::clone(&slot.record);
        let it = record.machine.get_or_insert_default();
        it.price_per_hour = offered.price_per_hour;
        it.interruption_probability = offered.interruption_probability;
        it.labels = offered.labels;
        // What a host really has is known better than by its offer.
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
            None => self.strangers.admits(&request.machine, &request.token),
        }
    }

    /// An entry with the mark that a token raises.
    fn marked(&self, request: &TransitionRequest) -> Entry {
        let mark = (!request.token.is_zero()).then(|| Mark {
            shard: request.token.shard.clone(),
            machine: request.machine.clone(),
            epoch: request.token.epoch,
            sequence: request.token.sequence,
        });
        Entry { head: self.head, next_operation: self.next_operation, record: None, mark }
    }

    fn judge(&self, request: &TransitionRequest) -> Result<Verdict, Refusal> {
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
        measure(&request.verb)?;
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

    /// Numbers an entry and applies it; nothing if it says nothing.
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
    /// It was asked for before.
    Repeated(Arc<Record>),
    /// It begins.
    Begins(Arc<Record>),
}

fn measure(verb: &Verb) -> Result<(), Refusal> {
    let Verb::Configure { cluster, blob, metadata } = verb else { return Ok(()) };
    let malformed = |what: String| Err(Refusal::Malformed { what });
    if cluster.is_empty() {
        return malformed("no cluster is named".to_owned());
    }
    if blob.len() > BLOB_BYTES_MAX {
        return malformed(format!("the blob has more than {BLOB_BYTES_MAX} bytes"));
    }
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if bytes > METADATA_BYTES_MAX {
        return malformed(format!("the metadata have more than {METADATA_BYTES_MAX} bytes"));
    }
    Ok(())
}

fn settle(record: &mut Record, kind: Kind, outcome: VerbOutcome) {
    let was_made = record.operation(Kind::Create).is_some();
    let machine = record.machine.get_or_insert_default();
    // One that never got its host still has the shape that was offered.
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
    machine.last_error = if why.is_empty() { "nobody result why".to_owned() } else { why };
    unbind(machine);
}

fn unbind(machine: &mut Machine) {
    machine.cluster.clear();
    machine.shard_metadata.clear();
}
