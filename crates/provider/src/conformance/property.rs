//! Random calls against reference models.

use tonic::Code;
use usher_wire::fleet::MachineState as State;

use super::fencing::oracle;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, out_of_place};
use crate::state::{Kind, Token};

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        1201 => oracle(probe, 240, 1, 1).await,
        1202 => metadata_round_trips(probe).await,
        1203 => random_verbs(probe).await,
        1204 => oracle(probe, 200, 3, 4).await,
        1205 => malformed(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

fn random_text(probe: &mut Probe) -> String {
    let length = probe.rng.below(24);
    let point = |probe: &mut Probe| u32::try_from(probe.rng.next() % 0x11_0000).unwrap_or(0x20);
    (0..length).filter_map(|_| char::from_u32(point(probe))).collect()
}

async fn metadata_round_trips(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    for round in 0..20 {
        let keys = probe.rng.below(12);
        let with: Metadata = (0..keys).map(|_| (random_text(probe), random_text(probe))).collect();
        probe.configure(&id, "c", with.clone()).await?;
        let seen = probe.settle(&id, State::Configured).await?;
        let echoed = seen.last().map(|it| it.shard_metadata.clone());
        ensure(echoed.as_ref() == Some(&with), || format!("round {round}: {echoed:?}"))?;
        probe.drive(Kind::Drain, &id).await?;
    }
    Ok(())
}

/// Random verbs: a legal one starts an operation, a repeated one returns it, any other is refused.
async fn random_verbs(probe: &mut Probe) -> Outcome {
    for _ in 0..5 {
        let id = probe.slot().await?;
        let (mut state, mut known) = (State::Speculative, Vec::new());
        for step in 0..9 {
            let kind = Kind::PUBLIC[probe.rng.below(3)];
            let token = probe.token();
            let answer = probe.call(kind, &id, token).await;
            if kind.origin() == state && kind.goal() != state {
                let operation = answer?.operation_id;
                let fresh = !known.iter().any(|(_, it)| *it == operation);
                ensure(fresh, || format!("step {step}: {operation} was reused"))?;
                known.retain(|(it, _)| *it != kind);
                known.push((kind, operation));
                state = kind.goal();
                probe.settle(&id, state).await?;
            } else if let Some((_, operation)) =
                known.iter().find(|(it, _)| *it == kind && kind.goal() == state)
            {
                let again = answer?.operation_id;
                ensure(again == *operation, || format!("step {step}: {again}"))?;
            } else {
                out_of_place(answer)?;
            }
            let now = probe.get(&id).await?.state();
            ensure(now == state, || format!("step {step}: it is {}", now.as_str_name()))?;
        }
    }
    Ok(())
}

async fn malformed(probe: &mut Probe) -> Outcome {
    let nowhere = probe.unknown_name();
    let long = "x".repeat(4_096);
    let names = ["", "\0", " ", nowhere.as_str(), long.as_str(), "../..", "\u{202e}"];
    for name in names {
        let expected = if name.is_empty() { Code::InvalidArgument } else { Code::NotFound };
        let read = probe.get(name).await.map_err(|it| it.code());
        ensure(read == Err(expected), || format!("Get of {name:?}: {read:?}"))?;
        for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
            let shard = probe.unknown_name();
            for token in [Token { shard, epoch: -1, sequence: 0 }, Token::default()] {
                let answer = probe.call(kind, name, token).await.map_err(|it| it.code());
                let code = answer.as_ref().err().copied();
                ensure(code == Some(expected), || format!("{kind:?} of {name:?}: {answer:?}"))?;
            }
        }
    }
    Ok(())
}
