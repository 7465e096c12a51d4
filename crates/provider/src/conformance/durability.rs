//! Crashes: the candidate is killed and started again on the same state.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use tonic::Code;
use usher_wire::fleet::{self, Machine, MachineState as State};

use super::boot::{Boot, Running};
use super::metadata::hostile_metadata;
use super::probe::{Metadata, Outcome, Probe, Stop, ensure, refused};
use crate::state::{Kind, Token};

const SEEDS: usize = 64;

/// What is known of a candidate before it is killed.
pub(super) struct Before {
    running: Running,
    probe: Probe,
    fenced: (String, Token),
    repeated: Vec<(String, Kind, String)>,
    bound: (String, Metadata),
    all: Vec<Machine>,
    interrupted: String,
    operations: BTreeSet<String>,
    cursor: Bytes,
}

/// What is known of it after.
pub(super) struct After {
    _running: Running,
    probe: Probe,
    before: Known,
}

struct Known {
    fenced: (String, Token),
    repeated: Vec<(String, Kind, String)>,
    bound: (String, Metadata),
    all: Vec<Machine>,
    interrupted: String,
    operations: BTreeSet<String>,
    cursor: Bytes,
}

fn trouble(why: impl std::fmt::Display) -> Stop {
    Stop::Failed(why.to_string())
}

pub(super) fn probe(address: &str, seed: u64, name: &str) -> Outcome<Probe> {
    let channel = || fleet::channel(address, None).map_err(trouble);
    Ok(Probe::new([channel()?, channel()?], seed, name))
}

/// Starts a candidate and puts it through some lives.
pub(super) async fn before(boot: &Boot, state: &Path, seed: u64) -> Outcome<Before> {
    let running = boot.start(SEEDS, Some(state), &[]).await.map_err(trouble)?;
    let mut probe = probe(&running.address, seed, "durable")?;
    let mut operations = BTreeSet::new();
    let mut repeated = Vec::new();
    let fenced = (probe.slot().await?, Token { shard: probe.stranger(), epoch: 7, sequence: 7 });
    operations.insert(probe.create_as(&fenced.0, fenced.1.clone()).await?.operation_id);
    probe.settle(&fenced.0, State::Idle).await?;
    let id = probe.slot().await?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let operation = probe.drive(kind, &id).await?.operation_id;
        operations.insert(operation.clone());
        repeated.push((id.clone(), kind, operation));
    }
    let with = hostile_metadata();
    let bound = (probe.bound("kept", with.clone()).await?, with);
    let cursor = probe.list(fleet::ListFilter::default()).await?.revision;
    let all = probe.all().await?;
    // The last thing before the crash is asked for and not waited for.
    let interrupted = probe.slot().await?;
    operations.insert(probe.create(&interrupted).await?.operation_id);
    Ok(Before { running, probe, fenced, repeated, bound, all, interrupted, operations, cursor })
}

/// Kills it and starts it again.
pub(super) async fn after(boot: &Boot, state: &Path, it: Before) -> Outcome<After> {
    let Before { running, fenced, repeated, bound, all, interrupted, operations, cursor, .. } = it;
    running.kill().await.map_err(trouble)?;
    let running = boot.start(SEEDS, Some(state), &[]).await.map_err(trouble)?;
    let mut probe = it.probe;
    let again = self::probe(&running.address, 0, "durable")?;
    (probe.client, probe.other) = (again.client, again.other);
    let before = Known { fenced, repeated, bound, all, interrupted, operations, cursor };
    Ok(After { _running: running, probe, before })
}

pub(super) async fn run(id: u16, after: &mut After) -> Outcome {
    let After { probe, before, .. } = after;
    match id {
        1001 => marks(probe, before).await,
        1002 => operations(probe, before).await,
        1003 => binding(probe, before).await,
        1004 => inventory(probe, before).await,
        1005 => cursors(probe, before).await,
        1006 => interrupted(probe, before).await,
        1007 => stranger(probe).await,
        _ => Err(Stop::Skipped("nobody wrote it".to_owned())),
    }
}

async fn marks(probe: &mut Probe, before: &Known) -> Outcome {
    let (id, token) = &before.fenced;
    refused(probe.create_as(id, token.clone()).await, &[Code::FailedPrecondition])?;
    let next = Token { sequence: token.sequence + 1, ..token.clone() };
    probe.create_as(id, next).await.map(|_| ()).map_err(Into::into)
}

async fn operations(probe: &mut Probe, before: &Known) -> Outcome {
    for (id, kind, operation) in &before.repeated {
        if kind.goal() != State::Idle {
            continue;
        }
        let token = probe.token();
        let again = probe.call(*kind, id, token).await?.operation_id;
        ensure(again == *operation, || format!("{} is {again} now", kind.as_str()))?;
    }
    Ok(())
}

async fn binding(probe: &mut Probe, before: &Known) -> Outcome {
    let (id, with) = &before.bound;
    let now = probe.get(id).await?;
    let same = now.cluster == "kept" && now.shard_metadata == *with;
    ensure(same && now.state() == State::Configured, || format!("{now:?}"))
}

async fn inventory(probe: &mut Probe, before: &Known) -> Outcome {
    let now = probe.all().await?;
    let others = |all: &[Machine]| {
        let all = all.iter().filter(|it| it.id != before.interrupted).cloned();
        let mut all: Vec<Machine> = all.collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    };
    let (old, new) = (others(&before.all), others(&now));
    ensure(old == new, || format!("{} machines, and there were {}", new.len(), old.len()))
}

async fn cursors(probe: &mut Probe, before: &Known) -> Outcome {
    let delta = probe.since(&before.cursor, 0).await?;
    let covered = delta.machines.iter().any(|it| it.id == before.interrupted);
    ensure(covered, || "what changed before the crash is in no delta after it".to_owned())?;
    let id = probe.slot().await?;
    let fresh = probe.drive(Kind::Create, &id).await?.operation_id;
    ensure(!before.operations.contains(&fresh), || format!("{fresh} came again"))?;
    let delta = probe.since(&delta.revision, 0).await?;
    ensure(delta.machines.iter().any(|it| it.id == id), || "the delta is empty".to_owned())
}

async fn interrupted(probe: &mut Probe, before: &Known) -> Outcome {
    let now = probe.rest(&before.interrupted).await?;
    let rests = [State::Idle, State::Speculative, State::Failed].contains(&now.state());
    ensure(rests, || format!("{now:?}"))?;
    let told = now.state() != State::Failed || !now.last_error.is_empty();
    ensure(told, || "FAILED without a reason".to_owned())
}

async fn stranger(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let token = Token { shard: probe.stranger(), epoch: 1, sequence: 1 };
    probe.create_as(&id, token).await.map(|_| ()).map_err(Into::into)
}
