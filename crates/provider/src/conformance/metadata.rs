//! The metadata of a binding.

use usher_wire::fleet::{ListFilter, MachineState as State};

use super::matrix::large_metadata;
use super::probe::{Metadata, NotPassed, Outcome, Probe, ensure, machine, metadata};
use crate::state::Kind;

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        501 => unusual(probe).await,
        502 => replaced(probe).await,
        503 => large_metadata(probe, 256, 8 << 10).await,
        504 => seen_at_once(probe).await,
        505 => not_aliased(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

/// Fifty-five keys that an implementation might trim, fold, escape, drop or interpret.
pub(super) fn unusual_metadata() -> Metadata {
    let mut unusual = metadata(&[
        ("", "an empty key"),
        ("empty", ""),
        (" ", " "),
        ("\0", "\0\0"),
        ("\n\r\t", "\u{1b}[31m"),
        ("a/b/c", "../../etc"),
        ("UPPER", "Upper"),
        ("upper", "upper"),
        ("\u{e9}", "composed"),
        ("e\u{301}", "decomposed"),
        ("\u{202e}left", "\u{feff}"),
        ("\u{10ffff}", "\u{1f600}"),
        ("{\"json\":", "[1,2"),
        ("key=value", "a=b&c=d"),
        ("bigfleet.lucy.sh/assigned-priority", "not a number"),
    ]);
    unusual.extend((0..40).map(|it| (format!("key-{it}\u{7f}"), "\u{7f}".repeat(it))));
    unusual
}

async fn unusual(probe: &mut Probe) -> Outcome {
    let unusual = unusual_metadata();
    let id = probe.bound("c", unusual.clone()).await?;
    let got = probe.get(&id).await?.shard_metadata;
    ensure(got == unusual, || "Get returned other metadata".to_owned())?;
    let all = probe.list(ListFilter::default()).await?.machines;
    let listed = all.into_iter().find(|it| it.id == id).map(|it| it.shard_metadata);
    ensure(listed == Some(unusual), || "List returned other metadata".to_owned())
}

async fn replaced(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", metadata(&[("a", "1"), ("b", "2")])).await?;
    probe.drive(Kind::Drain, &id).await?;
    let left = probe.get(&id).await?.shard_metadata;
    ensure(left.is_empty(), || format!("{left:?} stayed after Drain"))?;
    let next = metadata(&[("b", "3")]);
    probe.configure(&id, "c", next.clone()).await?;
    probe.settle(&id, State::Configured).await?;
    let now = probe.get(&id).await?.shard_metadata;
    ensure(now == next, || format!("{now:?} instead of {next:?}"))
}

async fn seen_at_once(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let with = metadata(&[("a", "1")]);
    let ack = machine(probe.configure(&id, "c", with.clone()).await?)?;
    let now = probe.get(&id).await?;
    for it in [ack, now] {
        ensure(it.shard_metadata == with, || format!("{:?}", it.shard_metadata))?;
    }
    Ok(())
}

async fn not_aliased(probe: &mut Probe) -> Outcome {
    let id = probe.idle().await?;
    let mut with = metadata(&[("a", "1")]);
    probe.configure(&id, "c", with.clone()).await?;
    let mut seen = probe.get(&id).await?;
    seen.shard_metadata.clear();
    with.insert("b".to_owned(), "2".to_owned());
    // Other metadata do not make it a new request.
    probe.configure(&id, "c", with).await?;
    let now = probe.settle(&id, State::Configured).await?;
    let kept = now.last().map(|it| it.shard_metadata.clone()).unwrap_or_default();
    ensure(kept == metadata(&[("a", "1")]), || format!("{kept:?}"))
}
