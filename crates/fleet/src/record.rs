//! A provider's record as the domain reads it, and how it is compared with a row.
//!
//! [`Report::read`] alone validates a record. One that cannot be decoded still has an id in most
//! cases; then it counts as inconsistent, and the list around it stays
//! valid.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use prost::Message as _;
use usher_domain::fleet::accept::{Raw, Report};
use usher_domain::fleet::aggregate::{Host, Machine, Offer};
use usher_domain::fleet::facts::CommandState;
use usher_domain::fleet::ident::{ClusterId, MachineId};
use usher_domain::fleet::phase::Phase;
use usher_wire::fleet;

/// What is left of a record that cannot be decoded: its id, unchecked.
#[derive(Clone, PartialEq, Eq, prost::Message)]
struct Stump {
    #[prost(bytes = "vec", tag = "1")]
    id: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// It was decoded.
    Whole(Box<Raw>),
    /// Only its id was decoded.
    Broken(MachineId),
    /// Nothing was decoded: its machine is unknown.
    Lost,
}

/// A digest of everything that decides whether a record has news of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mark(u64);

/// Converts a record for the domain.
pub fn raw(machine: fleet::Machine) -> Raw {
    let amounts = |it: Option<fleet::Resources>| it.map(|it| it.resources).unwrap_or_default();
    Raw {
        id: machine.id,
        state: machine.state,
        host: machine.host.map(|it| (it.provider, it.r#ref)),
        instance_type: machine.instance_type,
        zone: machine.zone,
        capacity_type: machine.capacity_type,
        price_per_hour: machine.price_per_hour,
        interruption_probability: machine.interruption_probability,
        resources: amounts(machine.resources),
        allocatable: amounts(machine.allocatable),
        labels: machine.labels,
        last_error: machine.last_error,
        cluster: machine.cluster,
        shard_metadata: machine.shard_metadata,
    }
}

/// Decodes one record of a list.
pub fn decode(bytes: &[u8]) -> Entry {
    if let Ok(machine) = fleet::Machine::decode(bytes) {
        return Entry::Whole(Box::new(raw(machine)));
    }
    let stump = Stump::decode(bytes).ok().and_then(|it| String::from_utf8(it.id).ok());
    match stump.and_then(|it| it.parse().ok()) {
        Some(id) => Entry::Broken(id),
        None => Entry::Lost,
    }
}

impl Mark {
    /// The digest of no row.
    pub const NONE: Self = Self(0);

    pub fn of_row(machine: &Machine) -> Self {
        let (state, offer) = (machine.state(), &machine.fields().offer);
        let cluster = state.binding().map(|it| &it.cluster);
        let offer = offer.known().filter(|_| offer.is_read());
        Self::of(machine.phase(), cluster, state.host(), offer)
    }

    pub fn of_report(report: &Report) -> Self {
        Self::of(report.phase(), report.cluster(), report.host(), report.offer().ok())
    }

    fn of(
        phase: Phase,
        cluster: Option<&ClusterId>,
        host: Option<&Host>,
        offer: Option<&Offer>,
    ) -> Self {
        // A provider may or may not report the host of a machine in deletion.
        let host = host.filter(|_| phase != Phase::Deleting);
        let mut hasher = DefaultHasher::new();
        (phase as u8).hash(&mut hasher);
        cluster.map(ClusterId::as_str).hash(&mut hasher);
        host.map(|it| (&it.provider, &it.reference)).hash(&mut hasher);
        offer.is_some().hash(&mut hasher);
        if let Some(it) = offer {
            (&it.instance_type, &it.zone, it.capacity as u8, &it.labels).hash(&mut hasher);
            it.price.get().to_bits().hash(&mut hasher);
            it.interruption.get().to_bits().hash(&mut hasher);
            for (name, amount) in it.allocatable.iter() {
                (name, amount).hash(&mut hasher);
            }
        }
        Self(hasher.finish())
    }
}

/// Whether any record of this machine is worth a step, also one without news.
pub fn is_open(machine: &Machine) -> bool {
    machine.fields().command != CommandState::None || machine.fields().disputed.is_some()
}

#[cfg(test)]
mod tests {
    use usher_domain::fleet::accept::adopt;

    use super::*;

    fn machine() -> fleet::Machine {
        fleet::Machine {
            id: "m".to_owned(),
            state: fleet::MachineState::Configured as i32,
            host: Some(fleet::HostRef { provider: "p".to_owned(), r#ref: "h".to_owned() }),
            instance_type: "t".to_owned(),
            zone: "z".to_owned(),
            capacity_type: fleet::CapacityType::Spot as i32,
            price_per_hour: 0.5,
            interruption_probability: 0.25,
            cluster: "a".to_owned(),
            ..fleet::Machine::default()
        }
    }

    fn report(machine: fleet::Machine) -> Report {
        Report::read(&raw(machine)).unwrap()
    }

    // Requirement: F-63
    #[test]
    fn a_record_with_one_invalid_string_still_has_its_id() {
        let whole = machine().encode_to_vec();
        assert_eq!(decode(&whole), Entry::Whole(Box::new(raw(machine()))));
        let broken: Vec<u8> = [&whole[..], &[0x2a, 1, 0xff]].concat();
        assert_eq!(decode(&broken), Entry::Broken("m".parse().unwrap()), "its zone is not UTF-8");
        let bad_id = [0x0a, 2, 0xff, 0xfe];
        assert_eq!(decode(&bad_id), Entry::Lost);
        assert_eq!(decode(&[0xff; 9]), Entry::Lost);
    }

    // Requirement: F-71
    #[test]
    fn a_record_without_news_has_the_mark_of_its_row() {
        let owner = "s".parse().unwrap();
        let now = usher_kernel::Timestamp::from_millis(1);
        let row = |it: &Report| adopt(it, "p", &owner, now).unwrap().machine;
        let same = report(machine());
        assert_eq!(Mark::of_report(&same), Mark::of_row(&row(&same)));
        let changes: [fn(&mut fleet::Machine); 7] = [
            |it| it.price_per_hour = 0.75,
            |it| it.price_per_hour = -1.0,
            |it| it.interruption_probability = 0.5,
            |it| drop(it.labels.insert("a".to_owned(), "b".to_owned())),
            |it| it.set_state(fleet::MachineState::Draining),
            |it| "b".clone_into(&mut it.cluster),
            |it| it.host.as_mut().unwrap().r#ref.push('2'),
        ];
        for (index, change) in changes.into_iter().enumerate() {
            let mut other = machine();
            change(&mut other);
            let other = report(other);
            assert_ne!(Mark::of_report(&other), Mark::of_row(&row(&same)), "{index}");
            assert_eq!(Mark::of_report(&other), Mark::of_row(&row(&other)), "{index}");
        }
    }
}
