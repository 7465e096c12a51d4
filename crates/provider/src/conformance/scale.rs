//! Many machines, and the latency of calls.

use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::Instant;
use usher_wire::fleet::{ListFilter, MachineState as State};

use super::concurrency::many_machines;
use super::listing::pages;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure};
use super::shape::examine;
use crate::state::Kind;

pub(super) async fn run(id: u16, probe: &mut Probe, soak: Duration) -> Outcome {
    match id {
        1101 => full(probe).await,
        1102 => delta(probe).await,
        1103 => pages(probe, 500).await,
        1104 => churn(probe, soak).await,
        1105 => conserved(probe).await,
        1106 => in_time(probe).await,
        1107 => full_in_time(probe).await,
        1108 => many_machines(probe, 16).await,
        1109 => drift(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

async fn full(probe: &mut Probe) -> Outcome {
    let all = probe.all().await?;
    let ids: BTreeSet<&str> = all.iter().map(|it| it.id.as_str()).collect();
    ensure(ids.len() == all.len(), || "a machine is listed twice".to_owned())?;
    for behaviour in [801, 802, 803, 806] {
        examine(behaviour, &all)?;
    }
    ensure(all.iter().all(|it| !it.zone.is_empty()), || "a machine has no zone".to_owned())
}

async fn delta(probe: &mut Probe) -> Outcome {
    let mut ids = BTreeSet::new();
    for _ in 0..20 {
        ids.insert(probe.idle().await?);
    }
    let before = probe.list(ListFilter::default()).await?.revision;
    for id in &ids {
        probe.configure(id, "c", Metadata::new()).await?;
    }
    for id in &ids {
        probe.settle(id, State::Configured).await?;
    }
    let delta = probe.since(&before, 0).await?.machines;
    let changed: BTreeSet<String> = delta.iter().map(|it| it.id.clone()).collect();
    ensure(changed == ids && delta.len() == 20, || format!("{} changed, not 20", delta.len()))
}

async fn churn(probe: &mut Probe, soak: Duration) -> Outcome {
    let mut ids = Vec::new();
    for _ in 0..8 {
        ids.push(probe.idle().await?);
    }
    let until = Instant::now() + soak;
    let mut rounds = 0;
    while rounds == 0 || Instant::now() < until {
        for kind in [Kind::Configure, Kind::Drain] {
            for id in &ids {
                let token = probe.token();
                probe.call(kind, id, token).await?;
            }
            for id in &ids {
                probe.settle(id, kind.goal()).await?;
            }
        }
        rounds += 1;
    }
    for id in &ids {
        let now = probe.get(id).await?;
        let clean = now.cluster.is_empty() && now.shard_metadata.is_empty();
        ensure(clean && now.state() == State::Idle, || format!("{now:?}"))?;
    }
    Ok(())
}

async fn conserved(probe: &mut Probe) -> Outcome {
    let before: BTreeSet<String> = probe.all().await?.into_iter().map(|it| it.id).collect();
    for _ in 0..4 {
        let id = probe.idle().await?;
        probe.drive(Kind::Delete, &id).await?;
    }
    let after: BTreeSet<String> = probe.all().await?.into_iter().map(|it| it.id).collect();
    ensure(after == before, || format!("{} machines, and there were {}", after.len(), before.len()))
}

fn p99(mut times: Vec<Duration>) -> Duration {
    times.sort();
    let index = (times.len() * 99).div_ceil(100).saturating_sub(1);
    times.get(index).copied().unwrap_or_default()
}

async fn in_time(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let (mut gets, mut creates, mut lists) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..120 {
        let begun = Instant::now();
        probe.get(&id).await?;
        gets.push(begun.elapsed());
        let slot = probe.slot().await?;
        let begun = Instant::now();
        probe.create(&slot).await?;
        creates.push(begun.elapsed());
    }
    for _ in 0..60 {
        let begun = Instant::now();
        probe.of_states(&[State::Idle], 0).await?;
        lists.push(begun.elapsed());
    }
    let limits = [("Get", gets, 250), ("Create", creates, 250), ("List", lists, 2_000)];
    for (what, times, most) in limits {
        let p99 = p99(times);
        ensure(p99 <= Duration::from_millis(most), || format!("{what} takes {p99:?} at p99"))?;
    }
    Ok(())
}

async fn full_in_time(probe: &mut Probe) -> Outcome {
    let begun = Instant::now();
    probe.all().await?;
    let took = begun.elapsed();
    ensure(took <= Duration::from_secs(3), || format!("a full list takes {took:?}"))
}

async fn drift(probe: &mut Probe) -> Outcome {
    let before = probe.of_states(&[State::Speculative], 0).await?;
    let used = probe.idle().await?;
    probe.drive(Kind::Delete, &used).await?;
    let after = probe.of_states(&[State::Speculative], 0).await?;
    let same = |it: &&usher_wire::fleet::Machine| it.id != used && !after.contains(it);
    let drifted = before.iter().find(same);
    ensure(drifted.is_none(), || format!("{drifted:?} changed"))
}
