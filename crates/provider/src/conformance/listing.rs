//! Lists and cursors.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use usher_wire::fleet::{ListFilter, MachineState as State};

use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure};
use crate::state::Kind;

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        901 => filters(probe).await,
        902 => caps(probe).await,
        903 => delta(probe).await,
        904 => unchanged(probe, Duration::ZERO).await,
        905 => forward(probe).await,
        906 => garbage(probe).await,
        907 => pages(probe, 7).await,
        908 => unchanged(probe, Duration::from_millis(750)).await,
        909 => altered(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

async fn filters(probe: &mut Probe) -> Outcome {
    probe.bound("c", Metadata::new()).await?;
    probe.idle().await?;
    let sets: [&[State]; 4] = [
        &[State::Idle],
        &[State::Configured],
        &[State::Speculative, State::Idle],
        &[State::Deleting, State::Creating],
    ];
    let all = probe.all().await?;
    for states in sets {
        let found = probe.of_states(states, 0).await?;
        let ids: BTreeSet<&str> = found.iter().map(|it| it.id.as_str()).collect();
        let matching = all.iter().filter(|it| states.contains(&it.state()));
        let expected: BTreeSet<&str> = matching.map(|it| it.id.as_str()).collect();
        ensure(ids == expected && ids.len() == found.len(), || {
            format!("{} machines for {states:?}, not {}", found.len(), expected.len())
        })?;
    }
    Ok(())
}

async fn caps(probe: &mut Probe) -> Outcome {
    let all = probe.all().await?.len();
    for most in [1, 2, 5] {
        let cap = usize::try_from(most).unwrap_or_default();
        let found = probe.of_states(&[], most).await?.len();
        ensure(found == cap.min(all), || format!("{found} machines for a limit of {most}"))?;
    }
    let found = probe.of_states(&[], 0).await?.len();
    ensure(found == all, || format!("{found} of {all} without a limit"))
}

async fn cursor(probe: &mut Probe) -> Outcome<Bytes> {
    let revision = probe.list(ListFilter::default()).await?.revision;
    if revision.is_empty() {
        return Err(NotPassed::Skipped("the provider has no cursors".to_owned()));
    }
    Ok(revision)
}

async fn delta(probe: &mut Probe) -> Outcome {
    let before = cursor(probe).await?;
    let id = probe.idle().await?;
    let delta = probe.since(&before, 0).await?;
    ensure(delta.revision != before, || "the revision did not change".to_owned())?;
    let ids: Vec<&str> = delta.machines.iter().map(|it| it.id.as_str()).collect();
    ensure(ids == [id.as_str()], || format!("the delta is {ids:?}, not {id}"))
}

async fn unchanged(probe: &mut Probe, time: Duration) -> Outcome {
    let before = cursor(probe).await?;
    sleep(time).await;
    let delta = probe.since(&before, 0).await?;
    ensure(delta.machines.is_empty(), || format!("{} machines changed", delta.machines.len()))?;
    ensure(delta.revision == before, || "the revision changed by itself".to_owned())
}

async fn forward(probe: &mut Probe) -> Outcome {
    let mut cursors = vec![cursor(probe).await?];
    let id = probe.slot().await?;
    for kind in [Kind::Create, Kind::Configure, Kind::Drain] {
        probe.drive(kind, &id).await?;
        let last = cursors.last().cloned().unwrap_or_default();
        cursors.push(probe.since(&last, 0).await?.revision);
    }
    let mut changes = Vec::new();
    for it in &cursors {
        changes.push(probe.since(it, 0).await?.machines.len());
    }
    let falling = changes.windows(2).all(|pair| pair[0] >= pair[1]);
    let distinct = cursors.iter().collect::<BTreeSet<_>>().len() == cursors.len();
    ensure(falling && distinct && changes.last() == Some(&0), || format!("{changes:?}"))
}

async fn garbage(probe: &mut Probe) -> Outcome {
    let all = probe.all().await?.len();
    let large = vec![b'9'; 4_096];
    let texts: [&[u8]; 5] = [b"garbage", b"-1", b"\xff\xfe\0", b"99999999999999999999", &large];
    for text in texts {
        let found = probe.since(&Bytes::copy_from_slice(text), 0).await?.machines.len();
        ensure(found == all, || format!("{found} of {all} machines for an invalid cursor"))?;
    }
    Ok(())
}

/// Reads pages until one is empty: every machine must be listed once.
pub(super) async fn pages(probe: &mut Probe, most: i32) -> Outcome {
    let all: BTreeSet<String> = probe.all().await?.into_iter().map(|it| it.id).collect();
    let mut seen: Vec<String> = Vec::new();
    let mut since = Bytes::new();
    for _ in 0..=all.len() + 1 {
        let page = probe.since(&since, most).await?;
        let head_echo =
            since.is_empty() && probe.since(&page.revision, 0).await?.machines.is_empty();
        let short = page.machines.len() < usize::try_from(most).unwrap_or_default();
        if page.machines.is_empty() {
            break;
        }
        seen.extend(page.machines.into_iter().map(|it| it.id));
        if head_echo && !short && seen.len() < all.len() {
            return Err(NotPassed::Failed(
                "a limited list returns the head as its cursor and loses the rest".into(),
            ));
        }
        since = page.revision;
    }
    let distinct: BTreeSet<String> = seen.iter().cloned().collect();
    ensure(distinct.len() == seen.len(), || "a page repeats a machine".to_owned())?;
    ensure(distinct == all, || format!("{} of {} machines", distinct.len(), all.len()))
}

async fn altered(probe: &mut Probe) -> Outcome {
    let exact = cursor(probe).await?;
    let all = probe.all().await?.len();
    ensure(probe.since(&exact, 0).await?.machines.is_empty(), || {
        "the delta is not empty".to_owned()
    })?;
    let variants = [
        [&exact[..], b"!"].concat(),
        [b"~", &exact[..]].concat(),
        [&exact[..], &[0, 0xff]].concat(),
    ];
    for altered in variants {
        let found = probe.since(&Bytes::from(altered), 0).await?.machines.len();
        ensure(found == all, || format!("{found} of {all} for an altered cursor"))?;
    }
    let mut flipped = exact.to_vec();
    if let Some(last) = flipped.last_mut() {
        *last ^= 1;
    }
    probe.since(&Bytes::from(flipped), 0).await.map(|_| ())
}
