//! A failing substrate. The candidate runs with its fake backend and a short timeout per verb.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use usher_wire::fleet::{Machine, MachineState as State};

use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, out_of_place};
use crate::fake::FAULT_LABEL;
use crate::state::Kind;

/// The timeout of each verb in this profile.
pub(super) const TRANSITION_TIMEOUT: Duration = Duration::from_secs(2);

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        701 => fails(probe, "fault-error").await.map(|_| ()),
        702 => create_fails(probe).await,
        703 => fails(probe, "fault-timeout").await.map(|_| ()),
        704 => late(probe).await,
        705 => terminal(probe).await,
        706 => drain_fails(probe).await,
        707 => readable(probe).await,
        708 => never_ready(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

/// Waits for FAILED; fails if the machine becomes CONFIGURED.
async fn failed(probe: &mut Probe, id: &str) -> Outcome<Machine> {
    let until = Instant::now() + TRANSITION_TIMEOUT * 5;
    loop {
        let now = probe.get(id).await?;
        if now.state() == State::Failed {
            ensure(!now.last_error.is_empty(), || "FAILED without an error".to_owned())?;
            return Ok(now);
        }
        let wrong = now.state() == State::Configured;
        ensure(!wrong, || format!("{id} became CONFIGURED"))?;
        let state = now.state().as_str_name();
        ensure(Instant::now() < until, || format!("{id} is {state}, not FAILED"))?;
        sleep(Duration::from_millis(20)).await;
    }
}

pub(super) async fn fails(probe: &mut Probe, cluster: &str) -> Outcome<Machine> {
    let id = probe.idle().await?;
    probe.configure(&id, cluster, Metadata::new()).await?;
    failed(probe, &id).await
}

async fn create_fails(probe: &mut Probe) -> Outcome {
    let slots = probe.of_states(&[State::Speculative], 0).await?;
    let faulty = slots.into_iter().find(|it| it.labels.contains_key(FAULT_LABEL));
    let Some(faulty) = faulty else {
        return Err(NotPassed::Skipped(format!("no slot has the label {FAULT_LABEL}")));
    };
    probe.create(&faulty.id).await?;
    failed(probe, &faulty.id).await.map(|_| ())
}

async fn late(probe: &mut Probe) -> Outcome {
    let before = fails(probe, "fault-slow-ok").await?;
    sleep(TRANSITION_TIMEOUT).await;
    let after = probe.get(&before.id).await?;
    ensure(after == before, || format!("the late result changed it: {after:?}"))
}

async fn terminal(probe: &mut Probe) -> Outcome {
    let before = fails(probe, "fault-error").await?;
    for kind in Kind::PUBLIC {
        let token = probe.token();
        out_of_place(probe.call(kind, &before.id, token).await)?;
    }
    let after = probe.get(&before.id).await?;
    ensure(after == before, || format!("{after:?}"))
}

async fn drain_fails(probe: &mut Probe) -> Outcome {
    let id = probe.bound("fault-drain-error", Metadata::new()).await?;
    probe.drain(&id, 0).await?;
    failed(probe, &id).await.map(|_| ())
}

async fn readable(probe: &mut Probe) -> Outcome {
    let before = fails(probe, "fault-error").await?;
    let listed = probe.of_states(&[State::Failed], 0).await?;
    ensure(listed.contains(&before), || "it is not listed".to_owned())?;
    for _ in 0..6 {
        sleep(Duration::from_millis(50)).await;
        let now = probe.get(&before.id).await?;
        ensure(now == before, || format!("it changed: {now:?}"))?;
    }
    Ok(())
}

async fn never_ready(probe: &mut Probe) -> Outcome {
    fails(probe, "fault-readiness-block").await.map(|_| ())
}
