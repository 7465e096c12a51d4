//! What the fleet's tests start from: an idle machine, records of every phase, a complete snapshot.

use std::collections::BTreeMap;

use usher_kernel::{NameLedger, Record, Timestamp, Version};
use uuid::Uuid;

use super::accept::{Raw, Report};
use super::aggregate::{Dispute, Fields, Host, Machine, Offering, State, Target, Wanted};
use super::binding::{Assignment, Binding};
use super::facts::CommandState;
use super::ident::{ClusterId, MachineId, ShardId};
use super::issue::Token;
use super::money::Penalty;
use super::phase::Phase;
use super::snapshot::{Listing, Snapshot, Source};
use crate::object::id::ResourceId;

/// When everything was found.
pub(super) const START: Timestamp = Timestamp::from_millis(1_000);
/// The present.
pub(super) const NOW: Timestamp = Timestamp::from_millis(60_000);
/// The token of the last command.
pub(super) const LAST: Token = Token { epoch: 1, sequence: 7 };
/// The token of a snapshot.
pub(super) const FRESH: Token = Token { epoch: 1, sequence: 12 };

pub(super) fn id(name: &str) -> MachineId {
    name.parse().unwrap()
}

pub(super) fn cluster(name: &str) -> ClusterId {
    name.parse().unwrap()
}

pub(super) fn shard() -> ShardId {
    "shard-0".parse().unwrap()
}

pub(super) fn resource(byte: u8) -> ResourceId {
    ResourceId::from_uuid(Uuid::from_bytes([byte; 16]))
}

pub(super) fn host() -> Host {
    Host { provider: "p".to_owned(), reference: "h1".to_owned() }
}

/// A dispute with this cluster.
pub(super) fn dispute(name: &str) -> Dispute {
    Dispute { cluster: cluster(name), host: host() }
}

/// A binding to this cluster, for a need of middling priority.
pub(super) fn binding(name: &str) -> Binding {
    let assignment = Assignment {
        priority: 100,
        interruption_penalty: Penalty::of_bucket(3).unwrap(),
        reclamation_penalty: Penalty::of_bucket(4).unwrap(),
        fingerprint: "f".to_owned(),
        group: String::new(),
    };
    Binding { cluster: cluster(name), assignment }
}

/// A record of machine `m1` in this phase; where it is bound, to cluster `a`.
pub(super) fn raw(phase: Phase) -> Raw {
    let hosted = !matches!(phase, Phase::Speculative | Phase::Creating);
    let bound = phase.is_bound() || phase == Phase::Failed;
    let texts = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    };
    Raw {
        id: "m1".to_owned(),
        state: i32::try_from(phase as usize).unwrap() + 1,
        host: hosted.then(|| ("p".to_owned(), "h1".to_owned())),
        instance_type: "small".to_owned(),
        zone: "z1".to_owned(),
        capacity_type: 3,
        price_per_hour: 0.5,
        interruption_probability: 0.0,
        resources: texts(&[("cpu", "4"), ("memory", "8Gi")]),
        allocatable: BTreeMap::new(),
        labels: texts(&[("rack", "r1")]),
        last_error: if phase == Phase::Failed { "no quota".to_owned() } else { String::new() },
        cluster: if bound { "a".to_owned() } else { String::new() },
        shard_metadata: if bound { binding("a").assignment.encode() } else { BTreeMap::new() },
    }
}

pub(super) fn report(phase: Phase) -> Report {
    Report::read(&raw(phase)).unwrap()
}

/// The same record, bound to another cluster.
pub(super) fn report_for(phase: Phase, cluster: &str) -> Report {
    Report::read(&Raw { cluster: cluster.to_owned(), ..raw(phase) }).unwrap()
}

/// The state of a row in this phase; where it is bound, to cluster `a`.
pub(super) fn state(phase: Phase) -> State {
    let (host, binding) = (host(), binding("a"));
    match phase {
        Phase::Speculative => State::Speculative,
        Phase::Creating => State::Creating,
        Phase::Idle => State::Idle { host, asked: None },
        Phase::Configuring => State::Configuring { host, binding },
        Phase::Configured => State::Configured { host, binding },
        Phase::Draining => State::Draining { host, binding },
        Phase::Deleting => State::Deleting { host: Some(host), asked: None },
        Phase::Failed => {
            let error = "no quota".to_owned();
            State::Failed { host: Some(host), binding: Some(binding), error }
        }
        Phase::Gone => State::Gone,
    }
}

/// A stored machine that differs from an idle one as said.
pub(super) fn machine(bend: impl FnOnce(&mut Fields)) -> Machine {
    let mut fields = Fields {
        id: id("m1"),
        provider: "p".to_owned(),
        owner: shard(),
        holder: None,
        offer: Offering::Read(report(Phase::Idle).offer.unwrap()),
        state: state(Phase::Idle),
        wanted: Wanted::of(Target::Unbound),
        token: LAST,
        command: CommandState::None,
        commanded_at: START,
        disputed: None,
        phase_since: START,
    };
    bend(&mut fields);
    Machine::hydrate(fields).unwrap()
}

/// A machine in this phase with this declared state.
pub(super) fn wanted(phase: Phase, target: Target) -> Machine {
    machine(|it| {
        it.state = state(phase);
        it.wanted = Wanted::of(target);
    })
}

pub(super) fn record(state: Machine) -> Record<Machine> {
    let name_ledger = NameLedger::new([state.intended(START)]);
    Record { version: Version(1), state, name_ledger }
}

/// A complete snapshot of this machine alone, no older than its last command.
pub(super) fn snapshot(reading: Option<Report>) -> Snapshot {
    Snapshot {
        by: "p".to_owned(),
        at: NOW,
        source: Source::Get,
        stamp: LAST,
        reading: Ok(reading.map(Ok)),
        listing: Listing::Lacks,
        paused: false,
        superseded: false,
        fresh: FRESH,
    }
}
