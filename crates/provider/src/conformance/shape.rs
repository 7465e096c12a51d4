//! The fields of a machine.

use std::collections::BTreeSet;

use usher_wire::fleet::{CapacityType, Machine, MachineState as State};

use super::probe::{NotPassed, Outcome, Probe, ensure, metadata};
use crate::state::Kind;

/// Fields that must not be labels.
const FIELDS: [&str; 9] = [
    "instance-type",
    "instance_type",
    "instanceType",
    "zone",
    "availability-zone",
    "availability_zone",
    "capacity-type",
    "capacity_type",
    "capacityType",
];

pub(super) async fn run(id: u16, probe: &mut Probe) -> Outcome {
    match id {
        801..=806 => {
            probe.idle().await?;
            probe.bound("c", metadata(&[("k", "v")])).await?;
            let all = probe.all().await?;
            ensure(!all.is_empty(), || "there are no machines".to_owned())?;
            examine(id, &all)
        }
        807 => delete_clears(probe).await,
        _ => Err(NotPassed::unknown(id)),
    }
}

pub(super) fn examine(id: u16, all: &[Machine]) -> Outcome {
    if id == 805 {
        let names: BTreeSet<&str> =
            all.iter().filter_map(|it| it.host.as_ref()).map(|it| it.provider.as_str()).collect();
        let one = names.len() == 1 && !names.contains("");
        return ensure(one, || format!("hosts of {names:?}"));
    }
    for it in all {
        let error = match id {
            801 => top_level(it),
            802 => cost(it),
            803 => binding(it),
            804 => quantities(it),
            _ => complete(it),
        };
        ensure(error.is_none(), || format!("{}: {}", it.id, error.unwrap_or_default()))?;
    }
    Ok(())
}

fn top_level(it: &Machine) -> Option<&'static str> {
    let hidden = it.labels.keys().any(|key| FIELDS.contains(&key.as_str()));
    if it.state() == State::Unspecified {
        return Some("no state");
    }
    if it.instance_type.is_empty() {
        return Some("no instance type");
    }
    hidden.then_some("a label that is a field")
}

fn cost(it: &Machine) -> Option<&'static str> {
    let (price, chance) = (it.price_per_hour, it.interruption_probability);
    if !price.is_finite() || price < 0.0 {
        return Some("invalid price");
    }
    if !(0.0..=1.0).contains(&chance) {
        return Some("invalid interruption probability");
    }
    (it.capacity_type() == CapacityType::Spot && chance <= 0.0)
        .then_some("spot without an interruption probability")
}

fn binding(it: &Machine) -> Option<&'static str> {
    let host = it.host.as_ref().is_some_and(|it| !it.r#ref.is_empty());
    let bound = !it.cluster.is_empty();
    let fits = match it.state() {
        State::Unspecified => false,
        State::Speculative | State::Creating => !host && !bound,
        State::Idle | State::Deleting => host && !bound,
        State::Configuring | State::Configured | State::Draining => host && bound,
        State::Failed => !it.last_error.is_empty(),
    };
    (!fits).then_some("host and cluster do not fit the state")
}

fn quantities(it: &Machine) -> Option<&'static str> {
    let resources = it.resources.iter().chain(&it.allocatable).flat_map(|it| it.resources.values());
    resources.into_iter().any(|it| !is_quantity(it)).then_some("an unreadable quantity")
}

fn is_quantity(text: &str) -> bool {
    const SUFFIXES: [&str; 13] =
        ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "m", "k", "M", "G", "T", "P", "E"];
    let number = SUFFIXES.iter().find_map(|it| text.strip_suffix(it)).unwrap_or(text);
    number.parse::<f64>().is_ok_and(|it| it.is_finite() && it >= 0.0)
        && number.chars().all(|it| it.is_ascii_digit() || it == '.')
}

/// Every machine has a capacity type, and every host a zone.
fn complete(it: &Machine) -> Option<&'static str> {
    if it.capacity_type() == CapacityType::Unspecified {
        return Some("no capacity type");
    }
    (it.host.is_some() && it.zone.is_empty()).then_some("a host without a zone")
}

async fn delete_clears(probe: &mut Probe) -> Outcome {
    let id = probe.bound("c", metadata(&[("k", "v")])).await?;
    probe.drive(Kind::Drain, &id).await?;
    probe.drive(Kind::Delete, &id).await?;
    let now = probe.get(&id).await?;
    let clear = now.host.is_none() && now.cluster.is_empty() && now.shard_metadata.is_empty();
    ensure(clear, || format!("{now:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_parse_as_in_kubernetes() {
        for text in ["4", "0.5", "16Gi", "250m", "3k", "2M", "1G", "0"] {
            assert!(is_quantity(text), "{text}");
        }
        for text in ["", "Gi", "-1", "1 Gi", "abc", "1e400", "NaN", "inf", "1GiB"] {
            assert!(!is_quantity(text), "{text}");
        }
    }
}
