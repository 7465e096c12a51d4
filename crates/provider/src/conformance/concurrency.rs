//! Concurrent calls.

use std::collections::BTreeSet;

use tonic::{Code, Status};
use usher_wire::fleet::{MachineState as State, TransitionAck};

use super::lifecycle::at_origin;
use super::probe::{Metadata, NotPassed, Outcome, Probe, at_once, ensure, metadata};
use crate::state::{Kind, Token};

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        401 => one_operation(probe, Kind::Create).await,
        402 => one_operation(probe, Kind::Configure).await,
        403 => one_operation(probe, Kind::Drain).await,
        404 => race(probe).await,
        405 => stale_epoch(probe).await,
        406 => two_connections(probe).await,
        407 => many_machines(probe, 8).await,
        408 => whole_snapshots(probe).await,
        409 => one_operation(probe, Kind::Delete).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

/// Sixteen concurrent calls of one verb, each from a shard of its own.
async fn concurrent_calls(
    probe: &mut Probe,
    kind: Kind,
    id: &str,
) -> Vec<Result<TransitionAck, Status>> {
    let (shard, probe, id) = (probe.unknown_name(), probe.clone(), id.to_owned());
    at_once(16, move |index| {
        let (mut probe, id) = (probe.clone(), id.clone());
        let token = Token { shard: format!("{shard}-{index}"), epoch: 1, sequence: 1 };
        async move { probe.call(kind, &id, token).await }
    })
    .await
}

/// Concurrent calls of one verb are one operation.
pub(super) async fn one_operation(probe: &mut Probe, kind: Kind) -> Outcome {
    let id = at_origin(probe, kind).await?;
    let mut operations = BTreeSet::new();
    for answer in concurrent_calls(probe, kind, &id).await {
        operations.insert(answer?.operation_id);
    }
    ensure(operations.len() == 1, || format!("{operations:?} for one verb"))?;
    probe.settle(&id, kind.goal()).await.map(|_| ())
}

async fn race(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", Metadata::new()).await?;
    let (shard, racer, name) = (probe.unknown_name(), probe.clone(), id.clone());
    let answers = at_once(8, move |index| {
        let (mut probe, id) = (racer.clone(), name.clone());
        let kind = if index % 2 == 0 { Kind::Drain } else { Kind::Configure };
        let token = Token { shard: format!("{shard}-{index}"), epoch: 1, sequence: 1 };
        async move { probe.call(kind, &id, token).await }
    })
    .await;
    for answer in answers {
        let fenced = answer.is_err_and(|it| it.code() == Code::FailedPrecondition);
        ensure(!fenced, || "a racing call was fenced".to_owned())?;
    }
    let now = probe.rest(&id).await?;
    let bound = now.state() == State::Configured && now.cluster == "c";
    let free = now.state() == State::Idle && now.cluster.is_empty();
    ensure(bound || free, || format!("it ended as {now:?}"))
}

async fn stale_epoch(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let shard = probe.unknown_name();
    let first = Token { shard: shard.clone(), epoch: 5, sequence: 0 };
    probe.configure_as(&id, ("live", Metadata::new()), first).await?;
    let (racer, name) = (probe.clone(), id.clone());
    let answers = at_once(16, move |index| {
        let (mut probe, id, shard) = (racer.clone(), name.clone(), shard.clone());
        let count = i64::try_from(index).unwrap_or_default();
        async move {
            let stale_epoch = index % 2 == 0;
            let epoch = if stale_epoch { 4 } else { 5 };
            let token = Token { shard, epoch, sequence: count + 1 };
            let cluster = if stale_epoch { "dead" } else { "live" };
            let answer = probe.configure_as(&id, (cluster, Metadata::new()), token).await;
            (stale_epoch, answer)
        }
    })
    .await;
    for (stale_epoch, answer) in answers {
        let fenced = matches!(&answer, Err(it) if it.code() == Code::FailedPrecondition);
        ensure(!stale_epoch || fenced, || {
            format!("a call of an old epoch was accepted: {answer:?}")
        })?;
    }
    let cluster = probe.rest(&id).await?.cluster;
    ensure(cluster == "live", || format!("bound to {cluster}"))
}

async fn two_connections(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let mut other = Probe::clone(probe);
    other.client = probe.other.clone();
    let shard = probe.unknown_name();
    let token = |sequence| Token { shard: shard.clone(), epoch: 1, sequence };
    let here = probe.create_as(&id, token(5)).await?.operation_id;
    let old = other.create_as(&id, token(4)).await;
    ensure(old.is_err_and(|it| it.code() == Code::FailedPrecondition), || {
        "the other connection has its own marks".to_owned()
    })?;
    let there = other.create_as(&id, token(6)).await?.operation_id;
    ensure(here == there, || format!("{here} here, {there} there"))
}

/// Concurrent Creates of several machines have one operation each.
pub(super) async fn many_machines(probe: &mut Probe, count: usize) -> Outcome {
    let mut ids = Vec::new();
    for _ in 0..count {
        ids.push(probe.slot().await?);
    }
    let (shard, asker, names) = (probe.unknown_name(), probe.clone(), ids.clone());
    let answers = at_once(count, move |index| {
        let (mut probe, id) = (asker.clone(), names[index].clone());
        let sequence = i64::try_from(index).unwrap_or_default();
        let token = Token { shard: shard.clone(), epoch: 1, sequence };
        async move { probe.create_as(&id, token).await }
    })
    .await;
    let mut operations = BTreeSet::new();
    for answer in answers {
        operations.insert(answer?.operation_id);
    }
    ensure(operations.len() == count, || format!("{} operations", operations.len()))?;
    for id in ids {
        probe.settle(&id, State::Idle).await?;
    }
    Ok(())
}

async fn whole_snapshots(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    for round in 0..4 {
        let with = metadata(&[("round", &round.to_string())]);
        probe.configure(&id, "c", with.clone()).await?;
        let (reader, name) = (probe.clone(), id.clone());
        let seen = at_once(16, move |_| {
            let (mut probe, id) = (reader.clone(), name.clone());
            async move { probe.get(&id).await }
        })
        .await;
        for machine in seen {
            let machine = machine?;
            let whole = machine.cluster == "c" && machine.shard_metadata == with;
            ensure(whole && machine.host.is_some(), || format!("half a machine: {machine:?}"))?;
        }
        probe.settle(&id, State::Configured).await?;
        probe.drive(Kind::Drain, &id).await?;
    }
    Ok(())
}
