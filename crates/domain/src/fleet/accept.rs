//! Parses a provider's record of a machine, once, or refuses it by field.

use std::collections::BTreeMap;

use usher_kernel::{Row, Timestamp};

use super::aggregate::{
    CapacityType, Fields, Host, Machine, Offer, Offering, State, Target, Wanted,
};
use super::binding::{Assignment, Binding};
use super::facts::CommandState;
use super::ident::{ClusterId, LENGTH_MAX, MachineId, ShardId};
use super::issue::Token;
use super::money::{Price, Probability};
use super::phase::Phase;
use super::quantity::Resources;
use super::refusal::Refusal;
use crate::object::offender::shortened;

/// The most labels that are read.
pub const LABELS_MAX: usize = 128;
/// The longest error that is kept, in characters.
pub const ERROR_MAX: usize = 512;
/// What is kept where a provider does not say why a machine failed.
pub const NO_REASON: &str = "no reason given";

/// A machine as sent on the wire.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Raw {
    /// The provider's name for it.
    pub id: String,
    /// The number of its state.
    pub state: i32,
    /// The provider of its host, and its name there.
    pub host: Option<(String, String)>,
    pub instance_type: String,
    pub zone: String,
    /// The number of its capacity type.
    pub capacity_type: i32,
    /// What an hour costs.
    pub price_per_hour: f64,
    /// The chance that its host is preempted.
    pub interruption_probability: f64,
    /// What it has.
    pub resources: BTreeMap<String, String>,
    /// What can be used of that; where nothing is said, all of it.
    pub allocatable: BTreeMap<String, String>,
    /// Whatever else can be matched.
    pub labels: BTreeMap<String, String>,
    /// Why it failed.
    pub last_error: String,
    /// The cluster it is bound to.
    pub cluster: String,
    /// What the provider keeps beside the binding.
    pub shard_metadata: BTreeMap<String, String>,
}

/// A machine as its provider sees it: a record whose parts agree. Its offer is judged apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub(super) id: MachineId,
    pub(super) phase: Phase,
    pub(super) host: Option<Host>,
    pub(super) binding: Option<Binding>,
    pub(super) error: String,
    pub(super) offer: Result<Offer, Refusal>,
}

impl Report {
    /// Reads a record, or says what is wrong with it.
    pub fn read(raw: &Raw) -> Result<Self, Refusal> {
        let phase = phase(raw.state)?;
        let id: MachineId = raw.id.parse()?;
        let host = host(raw, phase)?;
        let binding = binding(raw, phase)?;
        let said = if raw.last_error.is_empty() { NO_REASON } else { &raw.last_error };
        let error: String = said.chars().take(ERROR_MAX).collect();
        Ok(Self { id, phase, host, binding, error, offer: offer(raw) })
    }

    /// The provider's name for it.
    pub const fn id(&self) -> &MachineId {
        &self.id
    }

    /// Where the provider sees it.
    pub const fn phase(&self) -> Phase {
        self.phase
    }

    /// What it offers, or why that cannot be read.
    pub const fn offer(&self) -> Result<&Offer, &Refusal> {
        self.offer.as_ref()
    }

    /// The host the provider names.
    pub const fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The cluster the provider sees it bound to.
    pub fn cluster(&self) -> Option<&ClusterId> {
        self.binding.as_ref().map(|it| &it.cluster)
    }
}

/// A machine that was seen for the first time, to be written with the row of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The machine, to be left as it was found.
    pub machine: Machine,
    /// The row of its name.
    pub row: Row,
}

/// Takes over a machine that no row knows. Where it is bound its assignment is read from the echo;
/// its declared state is its current one until a plan changes that.
pub fn adopt(
    report: &Report,
    provider: &str,
    owner: &ShardId,
    now: Timestamp,
) -> Result<Adopted, Refusal> {
    let state = found(report)?;
    let target = match (report.phase, &report.binding) {
        (Phase::Configuring | Phase::Configured, Some(binding)) => Target::Bind(binding.clone()),
        (Phase::Speculative | Phase::Deleting | Phase::Failed | Phase::Gone, _) => Target::Release,
        (
            Phase::Creating
            | Phase::Idle
            | Phase::Draining
            | Phase::Configuring
            | Phase::Configured,
            _,
        ) => Target::Unbound,
    };
    let machine = Machine::hydrate(Fields {
        id: report.id.clone(),
        provider: provider.to_owned(),
        owner: owner.clone(),
        holder: None,
        offer: Offering::Unread.after(report.offer.as_ref().ok()),
        state,
        wanted: Wanted::of(target),
        token: Token::default(),
        command: CommandState::None,
        commanded_at: Timestamp::ZERO,
        disputed: None,
        phase_since: now,
    })?;
    let row = machine.intended(now);
    Ok(Adopted { machine, row })
}

/// The state that a report describes; its parts agree, or it was refused.
fn found(report: &Report) -> Result<State, Refusal> {
    let no_host = || Refusal::MachineHost(String::new());
    let no_cluster = || Refusal::MachineBinding(String::new());
    let host = || report.host.clone().ok_or_else(no_host);
    let binding = || report.binding.clone().ok_or_else(no_cluster);
    Ok(match report.phase {
        Phase::Speculative => State::Speculative,
        Phase::Creating => State::Creating,
        Phase::Idle => State::Idle { host: host()?, asked: None },
        Phase::Configuring => State::Configuring { host: host()?, binding: binding()? },
        Phase::Configured => State::Configured { host: host()?, binding: binding()? },
        Phase::Draining => State::Draining { host: host()?, binding: binding()? },
        Phase::Deleting => State::Deleting { host: report.host.clone(), asked: None },
        Phase::Failed => State::Failed {
            host: report.host.clone(),
            binding: report.binding.clone(),
            error: report.error.clone(),
        },
        Phase::Gone => return Err(Refusal::MachineState(Phase::Gone.to_string())),
    })
}

fn phase(number: i32) -> Result<Phase, Refusal> {
    let known = usize::try_from(number).ok().and_then(|it| it.checked_sub(1));
    let phase = known.and_then(|it| Phase::ALL.get(it)).filter(|it| **it != Phase::Gone);
    phase.copied().ok_or_else(|| Refusal::MachineState(number.to_string()))
}

fn host(raw: &Raw, phase: Phase) -> Result<Option<Host>, Refusal> {
    let host = raw.host.as_ref().filter(|it| !it.0.is_empty() || !it.1.is_empty());
    let text = host.map_or(String::new(), |it| shortened(&it.1));
    let fits = match phase {
        Phase::Speculative | Phase::Creating => host.is_none(),
        Phase::Idle | Phase::Configuring | Phase::Configured | Phase::Draining => host.is_some(),
        Phase::Deleting | Phase::Failed | Phase::Gone => true,
    };
    let is_long = |it: &(String, String)| it.0.len().max(it.1.len()) > 2 * LENGTH_MAX;
    if !fits || host.is_some_and(is_long) {
        return Err(Refusal::MachineHost(text));
    }
    Ok(host.map(|(provider, reference)| Host {
        provider: provider.clone(),
        reference: reference.clone(),
    }))
}

fn binding(raw: &Raw, phase: Phase) -> Result<Option<Binding>, Refusal> {
    let fits = match phase {
        Phase::Configuring | Phase::Configured | Phase::Draining => !raw.cluster.is_empty(),
        Phase::Speculative | Phase::Creating | Phase::Idle | Phase::Deleting | Phase::Gone => {
            raw.cluster.is_empty()
        }
        Phase::Failed => true,
    };
    if !fits {
        return Err(Refusal::MachineBinding(shortened(&raw.cluster)));
    }
    if raw.cluster.is_empty() {
        return Ok(None);
    }
    let assignment = Assignment::decode(&raw.shard_metadata);
    Ok(Some(Binding { cluster: raw.cluster.parse()?, assignment }))
}

fn offer(raw: &Raw) -> Result<Offer, Refusal> {
    let within = |what, text: &String, least: usize| {
        let fits = (least..=LENGTH_MAX).contains(&text.len());
        if fits { Ok(text.clone()) } else { Err(Refusal::MachineField(what)) }
    };
    let fits = |text: &String| text.len() <= 2 * LENGTH_MAX;
    let labels = raw.labels.iter().all(|(key, value)| fits(key) && fits(value));
    if !labels || raw.labels.len() > LABELS_MAX {
        return Err(Refusal::MachineField("labels"));
    }
    let resources = Resources::parse(&raw.resources)?;
    let allocatable = Resources::parse(&raw.allocatable)?;
    Ok(Offer {
        instance_type: within("instance_type", &raw.instance_type, 1)?,
        zone: within("zone", &raw.zone, 0)?,
        capacity: match raw.capacity_type {
            1 => CapacityType::BareMetal,
            2 => CapacityType::Reserved,
            3 => CapacityType::OnDemand,
            4 => CapacityType::Spot,
            _ => return Err(Refusal::MachineField("capacity_type")),
        },
        price: Price::new(raw.price_per_hour)?,
        interruption: Probability::new(raw.interruption_probability)?,
        allocatable: if raw.allocatable.is_empty() { resources } else { allocatable },
        labels: raw.labels.clone(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::fixture::{NOW, START, binding as bound, host as a_host, raw, shard};

    // Requirement: F-37
    #[test]
    fn each_state_has_the_parts_that_belong_to_it() {
        for (index, phase) in Phase::ALL.iter().take(8).enumerate() {
            let report = Report::read(&raw(*phase)).unwrap();
            assert_eq!((report.phase(), index), (*phase, *phase as usize));
            assert_eq!(report.cluster().is_some(), phase.is_bound() || *phase == Phase::Failed);
        }
    }

    // Requirement: F-37
    #[test]
    fn a_record_whose_parts_disagree_is_refused_by_name() {
        type Bend = fn(&mut Raw);
        let bends: [(Phase, &str, Bend); 9] = [
            (Phase::Idle, "machine_state", |it| it.state = 0),
            (Phase::Idle, "machine_state", |it| it.state = 9),
            (Phase::Idle, "machine_state", |it| it.state = -1),
            (Phase::Idle, "fleet_name", |it| it.id = String::new()),
            (Phase::Idle, "machine_host", |it| it.host = None),
            (Phase::Idle, "machine_host", |it| it.host = Some((String::new(), String::new()))),
            (Phase::Speculative, "machine_host", |it| {
                it.host = Some(("p".to_owned(), "h".to_owned()));
            }),
            (Phase::Draining, "machine_binding", |it| it.cluster = String::new()),
            (Phase::Idle, "machine_binding", |it| it.cluster = "a".to_owned()),
        ];
        for (phase, code, bend) in bends {
            let mut bent = raw(phase);
            bend(&mut bent);
            let refusal = Report::read(&bent).unwrap_err();
            assert_eq!(refusal.code(), code, "{refusal}");
        }
    }

    // Requirement: F-37
    #[test]
    fn an_offer_that_cannot_be_read_is_refused_by_name_and_apart() {
        type Bend = fn(&mut Raw);
        let bends: [(&str, Bend); 6] = [
            ("machine_field", |it| it.instance_type = String::new()),
            ("machine_field", |it| it.capacity_type = 0),
            ("machine_field", |it| drop(it.labels.insert("x".repeat(1_000), String::new()))),
            ("price", |it| it.price_per_hour = f64::NAN),
            ("interruption_probability", |it| it.interruption_probability = 1.5),
            ("quantity", |it| drop(it.resources.insert("cpu".to_owned(), "-1".to_owned()))),
        ];
        for (code, bend) in bends {
            let mut bent = raw(Phase::Idle);
            bend(&mut bent);
            let report = Report::read(&bent).unwrap();
            assert_eq!(report.offer().unwrap_err().code(), code);
            let found = adopt(&report, "p", &shard(), NOW).unwrap().machine;
            assert_eq!(found.fields().offer, Offering::Unread);
        }
    }

    // Requirement: F-46
    #[test]
    fn a_failure_without_a_reason_is_a_failure() {
        let silent = Raw { last_error: String::new(), ..raw(Phase::Failed) };
        assert_eq!(Report::read(&silent).unwrap().error, NO_REASON);
    }

    #[test]
    fn usable_resources_default_to_all_resources() {
        let mut it = raw(Phase::Idle);
        let report = Report::read(&it).unwrap();
        assert_eq!(report.offer().unwrap().allocatable, Resources::parse(&it.resources).unwrap());
        it.allocatable = BTreeMap::from([("cpu".to_owned(), "3".to_owned())]);
        let report = Report::read(&it).unwrap();
        assert_eq!(report.offer().unwrap().allocatable, Resources::parse(&it.allocatable).unwrap());
    }

    // Requirement: L-23
    #[test]
    fn a_machine_is_taken_over_as_it_is_found() {
        let cases = [
            (Phase::Speculative, Target::Release),
            (Phase::Creating, Target::Unbound),
            (Phase::Idle, Target::Unbound),
            (Phase::Configuring, Target::Bind(bound("a"))),
            (Phase::Configured, Target::Bind(bound("a"))),
            (Phase::Draining, Target::Unbound),
            (Phase::Deleting, Target::Release),
            (Phase::Failed, Target::Release),
        ];
        for (phase, target) in cases {
            let report = Report::read(&raw(phase)).unwrap();
            let Adopted { machine, row } = adopt(&report, "p", &shard(), NOW).unwrap();
            assert_eq!((machine.phase(), &machine.wanted().target), (phase, &target));
            assert_eq!((row.name, row.evidence.at), (machine.name(), NOW));
            assert!(machine.fields().command == CommandState::None && NOW > START);
            let host = machine.state().host();
            assert!(host.is_none_or(|it| *it == a_host()), "{phase}");
        }
    }

    fn any_raw() -> impl Strategy<Value = Raw> {
        let texts = || prop::collection::btree_map(".{0,8}", ".{0,8}", 0..3);
        let names = (".{0,8}", ".{0,8}", ".{0,8}", ".{0,8}", prop::option::of((".*", ".*")));
        let config = (-2..12_i32, -2..7_i32, any::<f64>(), any::<f64>());
        (names, config, (texts(), texts(), texts(), texts()), ".*").prop_map(
            |((id, instance_type, zone, cluster, host), config, texts, last_error)| Raw {
                id,
                state: config.0,
                host,
                instance_type,
                zone,
                capacity_type: config.1,
                price_per_hour: config.2,
                interruption_probability: config.3,
                resources: texts.0,
                allocatable: texts.1,
                labels: texts.2,
                last_error,
                cluster,
                shard_metadata: texts.3,
            },
        )
    }

    proptest! {
        // Requirement: F-37
        #[test]
        fn any_record_is_a_report_or_a_refusal(raw in any_raw()) {
            if let Ok(report) = Report::read(&raw) {
                prop_assert!(adopt(&report, "p", &shard(), NOW).is_ok(), "{raw:?}");
            }
        }
    }
}
