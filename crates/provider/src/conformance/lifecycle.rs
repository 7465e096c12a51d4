//! States and their order.

use std::time::Duration;

use tokio::time::sleep;
use usher_wire::fleet::{Machine, MachineState as State};

use super::failure::fails;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, machine, metadata};
use crate::state::Kind;

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        101 => round_trips(probe).await,
        103 => only_passing(probe, Kind::Configure).await,
        104 => only_passing(probe, Kind::Drain).await,
        105 => neighbours(probe).await,
        106 => cluster_while_bound(probe).await,
        107 => host_by_state(probe).await,
        108 => no_moves_at_rest(probe).await,
        109 => deleting(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

async fn round_trips(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let before = probe.get(&id).await?;
    for round in 0..4 {
        probe.configure(&id, "c", metadata(&[("round", &round.to_string())])).await?;
        probe.settle(&id, State::Configured).await?;
        probe.drive(Kind::Drain, &id).await?;
        let after = probe.get(&id).await?;
        ensure(after == before, || format!("round {round} left {after:?}, not {before:?}"))?;
    }
    Ok(())
}

/// A machine in the state where a verb begins.
pub(super) async fn at_origin(probe: &mut Probe, kind: Kind) -> Outcome<String> {
    match kind {
        Kind::Create => probe.slot().await,
        Kind::Configure | Kind::Delete => probe.idle().await,
        Kind::Drain => probe.bound("c", Metadata::new()).await,
        Kind::Salvage => Ok(fails(probe, "fault-error").await?.id),
    }
}

/// The acknowledgement and every read show the transient state or the target.
async fn passing(probe: &mut Probe, kind: Kind) -> Outcome<Vec<Machine>> {
    let id = at_origin(probe, kind).await?;
    let token = probe.token();
    let ack = machine(probe.call(kind, &id, token).await?)?;
    let mut seen = vec![ack];
    seen.extend(probe.settle(&id, kind.goal()).await?);
    for it in &seen {
        let legal = [kind.passing(), kind.goal()].contains(&it.state());
        ensure(legal, || format!("seen {} during {}", it.state().as_str_name(), kind.as_str()))?;
    }
    Ok(seen)
}

async fn only_passing(probe: &mut Probe, kind: Kind) -> Outcome {
    for it in passing(probe, kind).await? {
        if it.state() == kind.passing() {
            ensure(it.cluster == "c", || format!("{} without its cluster", kind.as_str()))?;
        }
    }
    Ok(())
}

async fn neighbours(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let mut seen = vec![State::Speculative];
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let token = probe.token();
        seen.push(machine(probe.call(kind, &id, token).await?)?.state());
        let path = probe.settle(&id, kind.goal()).await?;
        seen.extend(path.iter().map(Machine::state));
    }
    seen.dedup();
    for pair in seen.windows(2) {
        let legal = Kind::PUBLIC.iter().any(|kind| {
            let path = [kind.origin(), kind.passing(), kind.goal()];
            path.windows(2).any(|step| step == pair) || pair == [path[0], path[2]]
        });
        ensure(legal, || format!("{pair:?} is no legal transition"))?;
    }
    for stable in [State::Idle, State::Configured] {
        ensure(seen.contains(&stable), || format!("{} was skipped", stable.as_str_name()))?;
    }
    Ok(())
}

async fn cluster_while_bound(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let ack = machine(probe.configure(&id, "c", Metadata::new()).await?)?;
    ensure(ack.cluster == "c", || "the acknowledgement has no cluster".to_owned())?;
    for it in probe.settle(&id, State::Configured).await? {
        ensure(it.cluster == "c", || format!("no cluster in {}", it.state().as_str_name()))?;
    }
    probe.drive(Kind::Drain, &id).await?;
    let after = probe.get(&id).await?;
    ensure(after.cluster.is_empty(), || format!("still bound to {} after Drain", after.cluster))
}

async fn host_by_state(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let has = |it: &Machine| it.host.as_ref().is_some_and(|it| !it.r#ref.is_empty());
    ensure(!has(&probe.get(&id).await?), || "a slot has a host".to_owned())?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        probe.drive(kind, &id).await?;
        let now = probe.get(&id).await?;
        ensure(has(&now), || format!("no host in {}", now.state().as_str_name()))?;
    }
    Ok(())
}

async fn no_moves_at_rest(probe: &mut Probe) -> Outcome {
    let bound = probe.bound("c", Metadata::new()).await?;
    let (idle, slot) = (probe.idle().await?, probe.slot().await?);
    for id in [slot, idle, bound] {
        let before = probe.get(&id).await?;
        for _ in 0..6 {
            sleep(Duration::from_millis(50)).await;
            let now = probe.get(&id).await?;
            ensure(now == before, || format!("{id} changed by itself to {now:?}"))?;
        }
    }
    Ok(())
}

async fn deleting(probe: &mut Probe) -> Outcome {
    let seen = passing(probe, Kind::Delete).await?;
    let last = seen.last().cloned().unwrap_or_default();
    ensure(last.host.is_none_or(|it| it.r#ref.is_empty()), || "the host stayed".to_owned())
}
