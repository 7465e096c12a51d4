//! Fencing tokens.

use std::collections::HashMap;

use tonic::Code;
use usher_wire::fleet::MachineState as State;

use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, out_of_place, refused};
use crate::state::{Kind, Token};

const FENCED: &[Code] = &[Code::FailedPrecondition];

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        301 => before_not_found(probe).await,
        302 => isolation(probe).await,
        303 => ladder(probe).await,
        305 => reads(probe).await,
        306 => before_repetition(probe, Kind::Configure).await,
        307 => before_repetition(probe, Kind::Drain).await,
        308 => without_token(probe).await,
        309 => session(probe).await,
        310 => new_epoch(probe).await,
        311 => raised_by_refusal(probe).await,
        312 => oracle(probe, 80, 1, 1).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

fn token(shard: &str, epoch: i64, sequence: i64) -> Token {
    Token { shard: shard.to_owned(), epoch, sequence }
}

async fn before_not_found(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.unknown_name(), probe.unknown_name());
    refused(probe.create_as(&id, token(&shard, 5, 5)).await, &[Code::NotFound])?;
    refused(probe.create_as(&id, token(&shard, 5, 4)).await, FENCED)?;
    refused(probe.create_as(&id, token(&shard, 5, 5)).await, FENCED)
}

async fn isolation(probe: &mut Probe) -> Outcome {
    let mut picked = Vec::new();
    for _ in 0..3 {
        let found = probe.of_states(&[State::Speculative], 1).await?;
        picked.extend(found.into_iter().map(|it| it.id));
    }
    for id in &picked {
        probe.mark_used(id);
    }
    let [one, two, ..] = &picked[..] else {
        return Err(NotPassed::Skipped("no slots are left".to_owned()));
    };
    ensure(one != two, || "limited lists always return the same machine".to_owned())?;
    let (a, b) = (probe.unknown_name(), probe.unknown_name());
    probe.create_as(one, token(&a, 9, 9)).await?;
    refused(probe.create_as(one, token(&a, 1, 1)).await, FENCED)?;
    probe.create_as(one, token(&b, 1, 1)).await?;
    probe.create_as(two, token(&a, 1, 1)).await?;
    Ok(())
}

async fn ladder(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.slot().await?, probe.unknown_name());
    let steps = [
        (2, 10, true),
        (2, 10, false),
        (2, 9, false),
        (1, 99, false),
        (2, 11, true),
        (3, 0, true),
        (2, 12, false),
        (3, 1, true),
        (10, -1, true),
        (9, i64::MAX, false),
    ];
    for (epoch, sequence, passes) in steps {
        let answer = probe.create_as(&id, token(&shard, epoch, sequence)).await;
        expect(answer, passes, || format!("token {epoch}.{sequence}"))?;
    }
    Ok(())
}

/// Fails unless the fence let the call pass, or refused it, as expected.
fn expect<T>(
    answer: Result<T, tonic::Status>,
    passes: bool,
    what: impl FnOnce() -> String,
) -> Outcome {
    let fenced = answer.is_err_and(|it| it.code() == Code::FailedPrecondition);
    let word = if passes { "fenced and should pass" } else { "passed and should be fenced" };
    ensure(fenced != passes, || format!("{} was {word}", what()))
}

async fn reads(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.slot().await?, probe.unknown_name());
    probe.create_as(&id, token(&shard, 9, 9)).await?;
    refused(probe.create_as(&id, token(&shard, 1, 1)).await, FENCED)?;
    probe.get(&id).await?;
    let listed = probe.all().await?.iter().any(|it| it.id == id);
    ensure(listed, || "the machine is missing from the list".to_owned())
}

async fn before_repetition(probe: &mut Probe, kind: Kind) -> Outcome {
    let id = probe.bound("c", Metadata::new()).await?;
    let shard = probe.unknown_name();
    if kind == Kind::Drain {
        probe.drain_as(&id, 0, token(&shard, 4, 4)).await?;
        probe.settle(&id, State::Idle).await?;
    } else {
        probe.call(kind, &id, token(&shard, 4, 4)).await?;
    }
    refused(probe.call(kind, &id, token(&shard, 4, 3)).await, FENCED)?;
    probe.call(kind, &id, token(&shard, 4, 5)).await?;
    Ok(())
}

async fn without_token(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.slot().await?, probe.unknown_name());
    probe.create_as(&id, token(&shard, 9, 9)).await?;
    probe.create_as(&id, Token::default()).await?;
    probe.create_as(&id, Token::default()).await?;
    refused(probe.create_as(&id, token(&shard, 9, 9)).await, FENCED)
}

async fn session(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.slot().await?, probe.unknown_name());
    for (index, kind) in (1..).zip([Kind::Create, Kind::Configure, Kind::Drain]) {
        probe.call(kind, &id, token(&shard, 1, index)).await?;
        probe.settle(&id, kind.goal()).await?;
    }
    Ok(())
}

async fn new_epoch(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.idle().await?, probe.unknown_name());
    probe.call(Kind::Delete, &id, token(&shard, 1, 50)).await?;
    probe.settle(&id, State::Speculative).await?;
    probe.create_as(&id, token(&shard, 2, 0)).await?;
    probe.settle(&id, State::Idle).await?;
    for kind in Kind::PUBLIC {
        refused(probe.call(kind, &id, token(&shard, 1, 51)).await, FENCED)?;
    }
    let now = probe.get(&id).await?.state();
    ensure(now == State::Idle, || format!("the old epoch made it {}", now.as_str_name()))
}

async fn raised_by_refusal(probe: &mut Probe) -> Outcome {
    let (id, shard) = (probe.slot().await?, probe.unknown_name());
    let drained = probe.drain_as(&id, 0, token(&shard, 3, 7)).await;
    out_of_place(drained)?;
    refused(probe.create_as(&id, token(&shard, 3, 7)).await, FENCED)?;
    refused(probe.create_as(&id, token(&shard, 3, 6)).await, FENCED)?;
    probe.create_as(&id, token(&shard, 3, 8)).await?;
    Ok(())
}

/// Random tokens of some shards for some machines, against a naive fence.
pub(super) async fn oracle(
    probe: &mut Probe,
    steps: usize,
    shards: usize,
    machines: usize,
) -> Outcome {
    let mut ids = Vec::new();
    for _ in 0..machines {
        ids.push(probe.slot().await?);
    }
    let names: Vec<String> = (0..shards).map(|_| probe.unknown_name()).collect();
    let mut marks: HashMap<(usize, usize), (i64, i64)> = HashMap::new();
    for step in 0..steps {
        let (shard, machine) = (probe.rng.below(shards), probe.rng.below(machines));
        let number = |most: usize| i64::try_from(most).unwrap_or_default() - 3;
        let (epoch, sequence) = (number(probe.rng.below(9)), number(probe.rng.below(12)));
        let kind = Kind::PUBLIC[probe.rng.below(3)];
        let mark = marks.get(&(shard, machine));
        let passes = mark.is_none_or(|mark| (epoch, sequence) > *mark);
        let answer = probe.call(kind, &ids[machine], token(&names[shard], epoch, sequence)).await;
        expect(answer, passes, || format!("step {step}, token {epoch}.{sequence}"))?;
        if passes {
            marks.insert((shard, machine), (epoch, sequence));
        }
    }
    Ok(())
}
