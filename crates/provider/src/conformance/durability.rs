//! Crashes: the candidate is killed and restarted on the same state.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use tonic::Code;
use usher_wire::fleet::{self, Machine, MachineState as State};

use super::launcher::{Launcher, Running};
use super::metadata::unusual_metadata;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, refused};
use crate::state::{Kind, Token};

const SEEDS: usize = 64;

/// A running candidate, and what was observed before it was killed.
pub(super) struct Observed {
    running: Running,
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

fn not_passed(why: impl std::fmt::Display) -> NotPassed {
    NotPassed::Failed(why.to_string())
}

pub(super) fn probe(address: &str, seed: u64, name: &str) -> Outcome<Probe> {
    let channel = || fleet::channel(address, None).map_err(not_passed);
    Ok(Probe::new([channel()?, channel()?], seed, name))
}

/// Starts a candidate and drives some machines.
pub(super) async fn before(launcher: &Launcher, state: &Path, seed: u64) -> Outcome<Observed> {
    let running = launcher.start(SEEDS, Some(state), &[]).await.map_err(not_passed)?;
    let mut probe = probe(&running.address, seed, "durable")?;
    let mut operations = BTreeSet::new();
    let mut repeated = Vec::new();
    let fenced =
        (probe.slot().await?, Token { shard: probe.unknown_name(), epoch: 7, sequence: 7 });
    operations.insert(probe.create_as(&fenced.0, fenced.1.clone()).await?.operation_id);
    probe.settle(&fenced.0, State::Idle).await?;
    let id = probe.slot().await?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let operation = probe.drive(kind, &id).await?.operation_id;
        operations.insert(operation.clone());
        repeated.push((id.clone(), kind, operation));
    }
    let with = unusual_metadata();
    let bound = (probe.bound("kept", with.clone()).await?, with);
    let cursor = probe.list(fleet::ListFilter::default()).await?.revision;
    let all = probe.all().await?;
    // The last verb before the crash is not awaited.
    let interrupted = probe.slot().await?;
    operations.insert(probe.create(&interrupted).await?.operation_id);
    let before = Known { fenced, repeated, bound, all, interrupted, operations, cursor };
    Ok(Observed { running, probe, before })
}

/// Kills the candidate and restarts it.
pub(super) async fn after(launcher: &Launcher, state: &Path, it: Observed) -> Outcome<Observed> {
    let Observed { running, mut probe, before } = it;
    running.kill().await.map_err(not_passed)?;
    let running = launcher.start(SEEDS, Some(state), &[]).await.map_err(not_passed)?;
    let again = self::probe(&running.address, 0, "durable")?;
    (probe.client, probe.other) = (again.client, again.other);
    Ok(Observed { running, probe, before })
}

pub(super) async fn run(id: u16, after: &mut Observed) -> Outcome {
    let Observed { probe, before, .. } = after;
    match id {
        1001 => marks(probe, before).await,
        1002 => operations(probe, before).await,
        1003 => binding(probe, before).await,
        1004 => inventory(probe, before).await,
        1005 => cursors(probe, before).await,
        1006 => interrupted(probe, before).await,
        1007 => new_shard(probe).await,
        _ => Err(NotPassed::unknown(id)),
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
    ensure(covered, || "a change from before the crash is missing from the delta".to_owned())?;
    let id = probe.slot().await?;
    let fresh = probe.drive(Kind::Create, &id).await?.operation_id;
    ensure(!before.operations.contains(&fresh), || format!("{fresh} was reused"))?;
    let delta = probe.since(&delta.revision, 0).await?;
    ensure(delta.machines.iter().any(|it| it.id == id), || "the delta is empty".to_owned())
}

async fn interrupted(probe: &mut Probe, before: &Known) -> Outcome {
    let now = probe.rest(&before.interrupted).await?;
    let rests = [State::Idle, State::Speculative, State::Failed].contains(&now.state());
    ensure(rests, || format!("{now:?}"))?;
    let explained = now.state() != State::Failed || !now.last_error.is_empty();
    ensure(explained, || "FAILED without an error".to_owned())
}

async fn new_shard(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let token = Token { shard: probe.unknown_name(), epoch: 1, sequence: 1 };
    probe.create_as(&id, token).await.map(|_| ()).map_err(Into::into)
}
