//! Verbs in the wrong state, repeated, or with extreme numbers.

use tonic::Code;
use usher_wire::fleet::{ConfigureRequest, MachineState as State};

use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, metadata, out_of_place, refused};
use crate::state::{Kind, Token};

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        201 => create_of_bound(probe).await,
        202 => configure_of_slot(probe).await,
        203 => drain_of_idle(probe).await,
        204 => delete_out_of_place(probe).await,
        205 => at_goal(probe).await,
        206 => repeated(probe).await,
        207 => unknown(probe).await,
        208 => empty_id(probe).await,
        209 => large_metadata(probe, 512, 1 << 10).await,
        210 => negative_grace(probe).await,
        211 => negative_token(probe).await,
        212 => largest_token(probe).await,
        213 => large_blob(probe).await,
        214 => new_cycles(probe).await,
        215 => unknown_without_delete(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

async fn create_of_bound(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", Metadata::new()).await?;
    out_of_place(probe.create(&id).await)?;
    unmoved(probe, &id, State::Configured).await
}

async fn configure_of_slot(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    out_of_place(probe.configure(&id, "c", Metadata::new()).await)?;
    unmoved(probe, &id, State::Speculative).await
}

async fn drain_of_idle(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    if let Err(status) = probe.drain(&id, 0).await {
        let fenced = status.code() == Code::FailedPrecondition;
        ensure(!fenced, || "fenced".to_owned())?;
    }
    unmoved(probe, &id, State::Idle).await
}

async fn delete_out_of_place(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", Metadata::new()).await?;
    out_of_place(probe.delete(&id).await)?;
    unmoved(probe, &id, State::Configured).await
}

async fn unmoved(probe: &mut Probe, id: &str, state: State) -> Outcome {
    let now = probe.get(id).await?.state();
    ensure(now == state, || format!("{id} is {} now", now.as_str_name()))
}

async fn at_goal(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        probe.drive(kind, &id).await?;
        let before = probe.get(&id).await?;
        let token = probe.token();
        probe.call(kind, &id, token).await?;
        let after = probe.get(&id).await?;
        ensure(after == before, || format!("{} in its target state had an effect", kind.as_str()))?;
    }
    Ok(())
}

async fn repeated(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let token = probe.token();
        let first = probe.call(kind, &id, token).await?.operation_id;
        ensure(!first.is_empty(), || "an operation without an id".to_owned())?;
        let token = probe.token();
        let during = probe.call(kind, &id, token).await?.operation_id;
        probe.settle(&id, kind.goal()).await?;
        let token = probe.token();
        let after = probe.call(kind, &id, token).await?.operation_id;
        let same = first == during && first == after;
        ensure(same, || format!("{}: {first}, {during}, {after}", kind.as_str()))?;
    }
    Ok(())
}

async fn unknown(probe: &mut Probe) -> Outcome {
    let id = probe.unknown_name();
    refused(probe.get(&id).await, &[Code::NotFound])?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let token = probe.token();
        refused(probe.call(kind, &id, token).await, &[Code::NotFound])?;
    }
    Ok(())
}

async fn unknown_without_delete(probe: &mut Probe) -> Outcome {
    let id = probe.unknown_name();
    refused(probe.get(&id).await, &[Code::NotFound])?;
    refused(probe.delete(&id).await, &[Code::NotFound])
}

async fn empty_id(probe: &mut Probe) -> Outcome {
    refused(probe.get("").await, &[Code::InvalidArgument])?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        let token = probe.token();
        refused(probe.call(kind, "", token).await, &[Code::InvalidArgument])?;
    }
    Ok(())
}

/// Binds with many large values: they are returned unchanged, or refused as invalid.
pub(super) async fn large_metadata(probe: &mut Probe, keys: usize, bytes: usize) -> Outcome {
    let id = probe.idle().await?;
    let value = "x".repeat(bytes);
    let large: Metadata = (0..keys).map(|it| (format!("key-{it}"), value.clone())).collect();
    match probe.configure(&id, "c", large.clone()).await {
        Err(status) if status.code() == Code::InvalidArgument => {
            return unmoved(probe, &id, State::Idle).await;
        }
        Err(status) => return Err(status.into()),
        Ok(_) => {}
    }
    probe.settle(&id, State::Configured).await?;
    let echoed = probe.get(&id).await?.shard_metadata;
    ensure(echoed == large, || format!("{} of {keys} keys were returned", echoed.len()))?;
    // Large metadata would slow down every later list.
    probe.drive(Kind::Drain, &id).await.map(|_| ())
}

async fn negative_grace(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", Metadata::new()).await?;
    let code = probe.drain(&id, -1).await.map_err(|it| it.code());
    match code {
        Ok(_) => probe.settle(&id, State::Idle).await.map(|_| ()),
        Err(Code::InvalidArgument) => unmoved(probe, &id, State::Configured).await,
        Err(code) => Err(NotPassed::Failed(format!("refused with {code:?}"))),
    }
}

async fn negative_token(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let shard = probe.unknown_name();
    let token = |epoch, sequence| Token { shard: shard.clone(), epoch, sequence };
    probe.create_as(&id, token(0, -5)).await?;
    refused(probe.create_as(&id, token(0, -5)).await, &[Code::FailedPrecondition])?;
    refused(probe.create_as(&id, token(-1, 9)).await, &[Code::FailedPrecondition])?;
    probe.create_as(&id, token(0, -4)).await?;
    probe.create_as(&id, token(1, -9)).await?;
    Ok(())
}

async fn largest_token(probe: &mut Probe) -> Outcome {
    let id = probe.slot().await?;
    let token = Token { shard: probe.unknown_name(), epoch: i64::MAX, sequence: i64::MAX };
    probe.create_as(&id, token.clone()).await?;
    refused(probe.create_as(&id, token.clone()).await, &[Code::FailedPrecondition])?;
    let less = Token { sequence: i64::MAX - 1, ..token };
    refused(probe.create_as(&id, less).await, &[Code::FailedPrecondition])
}

async fn large_blob(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let token = probe.token();
    let request = ConfigureRequest {
        machine_id: id.clone(),
        cluster_id: "c".to_owned(),
        bootstrap_blob: vec![b'x'; 3 << 20].into(),
        shard_id: token.shard,
        shard_epoch: token.epoch,
        sequence_number: token.sequence,
        shard_metadata: metadata(&[("k", "v")]),
    };
    match probe.client.configure(request).await {
        Ok(_) => probe.settle(&id, State::Configured).await.map(|_| ()),
        Err(status) => {
            let known = [Code::InvalidArgument, Code::ResourceExhausted].contains(&status.code());
            ensure(known, || format!("refused with {:?}", status.code()))?;
            unmoved(probe, &id, State::Idle).await
        }
    }
}

async fn new_cycles(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..3 {
        for kind in [Kind::Configure, Kind::Drain] {
            let operation = probe.drive(kind, &id).await?.operation_id;
            ensure(seen.insert(operation.clone()), || format!("{operation} was reused"))?;
        }
    }
    Ok(())
}
