//! Salvage, which leaves FAILED. It is not part of the public service, so only a provider that
//! claims it is checked. The candidate runs as in the fault profile.

use tonic::Code;
use usher_wire::fleet::{Machine, MachineState as State};

use super::concurrency::one_operation;
use super::failure::fails;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, out_of_place, refused};
use crate::state::{Kind, Token};

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        1301 => again(probe).await,
        1302 => elsewhere(probe).await,
        1303 => one_operation(probe, Kind::Salvage).await,
        1304 => fenced(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

/// Fails unless the machine has no host, binding or error.
fn is_bare(machine: &Machine) -> Outcome {
    let left = machine.host.is_some()
        || !machine.cluster.is_empty()
        || !machine.shard_metadata.is_empty()
        || !machine.last_error.is_empty();
    ensure(!left, || format!("not clean: {machine:?}"))
}

async fn again(probe: &mut Probe) -> Outcome {
    let failed = fails(probe, "fault-error").await?;
    probe.drive(Kind::Salvage, &failed.id).await?;
    is_bare(&probe.get(&failed.id).await?)?;
    for kind in Kind::PUBLIC {
        probe.drive(kind, &failed.id).await?;
    }
    is_bare(&probe.get(&failed.id).await?)
}

async fn elsewhere(probe: &mut Probe) -> Outcome {
    let bound = probe.bound("c", Metadata::new()).await?;
    let machines = [probe.slot().await?, probe.idle().await?, bound];
    for id in machines {
        let before = probe.get(&id).await?;
        let token = probe.token();
        out_of_place(probe.call(Kind::Salvage, &id, token).await)?;
        let after = probe.get(&id).await?;
        ensure(after == before, || format!("{after:?}"))?;
    }
    Ok(())
}

async fn fenced(probe: &mut Probe) -> Outcome {
    let failed = fails(probe, "fault-error").await?;
    let (shard, epoch) = (probe.unknown_name(), 7);
    let token = |sequence| Token { shard: shard.clone(), epoch, sequence };
    // A refused verb raises the mark.
    out_of_place(probe.call(Kind::Drain, &failed.id, token(9)).await)?;
    let late = probe.call(Kind::Salvage, &failed.id, token(9)).await;
    refused(late, &[Code::FailedPrecondition])?;
    let after = probe.get(&failed.id).await?;
    ensure(after == failed, || format!("{after:?}"))?;
    probe.call(Kind::Salvage, &failed.id, token(10)).await?;
    probe.settle(&failed.id, State::Speculative).await.map(|_| ())
}
