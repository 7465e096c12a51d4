//! What a cluster needs, as it rolls it up: read once, or refused by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::fleet::aggregate::Offer;
use crate::fleet::binding::Assignment;
use crate::fleet::ident::LENGTH_MAX;
use crate::fleet::money::{Penalty, effective_cost};
use crate::fleet::quantity::Resources;
use crate::fleet::refusal::Refusal;
use crate::object::closed::closed_set;
use crate::object::offender::shortened;

/// The key that is answered by the instance type.
const KEY_INSTANCE_TYPE: &str = "node.kubernetes.io/instance-type";
/// The key that is answered by the zone.
const KEY_ZONE: &str = "topology.kubernetes.io/zone";
/// The most requirements of one need, and the most values of one requirement.
const LIST_MAX: usize = 256;

/// A need as sent on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawNeed {
    /// What its machines must be.
    pub requirements: Vec<RawRequirement>,
    /// How much of everything it needs in sum.
    pub aggregate: BTreeMap<String, String>,
    /// What each single machine must have.
    pub min_unit: BTreeMap<String, String>,
    pub priority: i32,
    /// The keys over which it would be spread.
    pub spread: Vec<String>,
    /// What an interruption costs it, as a bucket.
    pub interruption_bucket: i32,
    /// What a reclamation costs it, as a bucket.
    pub reclamation_bucket: i32,
    /// The group of needs, or nothing.
    pub group: String,
}

/// A requirement as sent on the wire.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawRequirement {
    pub key: String,
    /// The number of its operator.
    pub operator: i32,
    pub values: Vec<String>,
}

closed_set! {
    /// How a requirement asks.
    "operator" Operator {
        /// The value is one of these.
        In = "In",
        /// The value is none of these, or there is none.
        NotIn = "NotIn",
        /// There is a value.
        Exists = "Exists",
        /// There is no value.
        DoesNotExist = "DoesNotExist",
    }
}

/// One requirement.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requirement {
    pub key: String,
    /// How it asks.
    pub operator: Operator,
    /// What for.
    pub values: BTreeSet<String>,
}

/// Which machines can serve a need, and what they cost it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Profile {
    /// What its machines must be.
    pub requirements: Vec<Requirement>,
    /// What each single machine must have.
    pub min_unit: Resources,
    /// What an interruption costs it.
    pub interruption_penalty: Penalty,
}

/// One need of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// Which machines can serve it.
    pub profile: Profile,
    /// How much of everything it needs in sum.
    pub aggregate: Resources,
    /// What a machine that serves it receives.
    pub assignment: Assignment,
}

impl Need {
    /// Reads a need, or says what is wrong with it. Gangs and spread are not served.
    pub fn read(raw: &RawNeed) -> Result<Self, Refusal> {
        if let Some(key) = raw.spread.first() {
            return Err(Refusal::Spread(shortened(key)));
        }
        if raw.requirements.len() > LIST_MAX || raw.group.len() > LENGTH_MAX {
            return Err(Refusal::Requirement(shortened(&raw.group)));
        }
        let requirements: Result<BTreeSet<_>, _> =
            raw.requirements.iter().map(Requirement::read).collect();
        let aggregate = Resources::parse(&raw.aggregate)?;
        if aggregate.is_nothing() {
            return Err(Refusal::NeedEmpty);
        }
        let profile = Profile {
            requirements: requirements?.into_iter().collect(),
            min_unit: Resources::parse(&raw.min_unit)?,
            interruption_penalty: Penalty::of_bucket(raw.interruption_bucket)?,
        };
        let mut assignment = Assignment {
            priority: raw.priority,
            interruption_penalty: profile.interruption_penalty,
            reclamation_penalty: Penalty::of_bucket(raw.reclamation_bucket)?,
            fingerprint: String::new(),
            group: raw.group.clone(),
        };
        assignment.fingerprint = fingerprint(&profile, &assignment);
        Ok(Self { profile, aggregate, assignment })
    }
}

impl Requirement {
    fn read(raw: &RawRequirement) -> Result<Self, Refusal> {
        let bad = || Refusal::Requirement(shortened(&raw.key));
        let operator = match raw.operator {
            1 => Operator::In,
            2 => Operator::NotIn,
            3 => Operator::Exists,
            4 => Operator::DoesNotExist,
            5 => return Err(Refusal::Gang(shortened(&raw.key))),
            _ => return Err(bad()),
        };
        let listed = match operator {
            Operator::In | Operator::NotIn => !raw.values.is_empty(),
            Operator::Exists | Operator::DoesNotExist => raw.values.is_empty(),
        };
        let fits = |text: &String| text.len() <= 2 * LENGTH_MAX;
        let sound = !raw.key.is_empty() && fits(&raw.key) && raw.values.iter().all(fits);
        if !listed || !sound || raw.values.len() > LIST_MAX {
            return Err(bad());
        }
        Ok(Self { key: raw.key.clone(), operator, values: raw.values.iter().cloned().collect() })
    }

    fn holds(&self, offer: &Offer) -> bool {
        let own = match self.key.as_str() {
            KEY_INSTANCE_TYPE => Some(&offer.instance_type),
            KEY_ZONE => Some(&offer.zone).filter(|it| !it.is_empty()),
            _ => None,
        };
        let value = own.or_else(|| offer.labels.get(&self.key));
        match self.operator {
            Operator::In => value.is_some_and(|it| self.values.contains(it)),
            Operator::NotIn => value.is_none_or(|it| !self.values.contains(it)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

impl Profile {
    /// Whether such a machine can serve.
    pub fn fits(&self, offer: &Offer) -> bool {
        offer.allocatable.covers(&self.min_unit)
            && self.requirements.iter().all(|it| it.holds(offer))
    }

    /// What such a machine costs with the interruptions that are to be expected.
    pub(super) fn cost(&self, offer: &Offer) -> f64 {
        effective_cost(offer.price, offer.interruption, self.interruption_penalty)
    }
}

/// The same text for the same need, however much of it there is.
fn fingerprint(profile: &Profile, assignment: &Assignment) -> String {
    let mut digest = Sha256::new();
    let mut part = |text: &str| {
        digest.update(text.len().to_be_bytes());
        digest.update(text.as_bytes());
    };
    for it in &profile.requirements {
        part(&it.key);
        part(it.operator.as_str());
        it.values.iter().for_each(|value| part(value));
    }
    for (name, amount) in profile.min_unit.iter() {
        part(name);
        part(&format!("{amount:?}"));
    }
    part(&assignment.priority.to_string());
    part(&assignment.interruption_penalty.to_string());
    part(&assignment.reclamation_penalty.to_string());
    part(&assignment.group);
    let bytes = digest.finalize();
    bytes.iter().take(16).fold(String::with_capacity(32), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::fleet::accept::Report;
    use crate::fleet::fixture::raw;
    use crate::fleet::phase::Phase;

    fn requirement(key: &str, operator: i32, values: &[&str]) -> RawRequirement {
        let values = values.iter().map(|it| (*it).to_owned()).collect();
        RawRequirement { key: key.to_owned(), operator, values }
    }

    fn need(requirements: Vec<RawRequirement>) -> RawNeed {
        let aggregate = BTreeMap::from([("cpu".to_owned(), "4".to_owned())]);
        RawNeed { requirements, aggregate, ..RawNeed::default() }
    }

    // Requirement: F-39
    #[test]
    fn each_operator_has_its_own_semantics() {
        let offer = Report::read(&raw(Phase::Idle)).unwrap().offer.unwrap();
        let cases = [
            (requirement(KEY_INSTANCE_TYPE, 1, &["small", "large"]), true),
            (requirement(KEY_INSTANCE_TYPE, 2, &["small"]), false),
            (requirement(KEY_ZONE, 1, &["z2"]), false),
            (requirement(KEY_ZONE, 3, &[]), true),
            (requirement("rack", 1, &["r1"]), true),
            (requirement("rack", 4, &[]), false),
            (requirement("gpu", 2, &["none"]), true),
            (requirement("gpu", 3, &[]), false),
            (requirement("gpu", 4, &[]), true),
        ];
        for (requirement, expected) in cases {
            let read = Need::read(&need(vec![requirement.clone()])).unwrap();
            assert_eq!(read.profile.fits(&offer), expected, "{requirement:?}");
        }
    }

    #[test]
    fn a_machine_must_have_the_smallest_unit() {
        let offer = Report::read(&raw(Phase::Idle)).unwrap().offer.unwrap();
        let of = |cpu: &str| {
            let min_unit = BTreeMap::from([("cpu".to_owned(), cpu.to_owned())]);
            Need::read(&RawNeed { min_unit, ..need(vec![]) }).unwrap().profile.fits(&offer)
        };
        assert!(of("4") && !of("4.5"));
    }

    // Requirement: F-39
    #[test]
    fn an_invalid_need_is_refused_by_name() {
        let cases = [
            (need(vec![requirement("zone", 5, &[])]), "gang_unsupported"),
            (RawNeed { spread: vec!["zone".to_owned()], ..need(vec![]) }, "spread_unsupported"),
            (need(vec![requirement("", 3, &[])]), "need_requirement"),
            (need(vec![requirement("a", 0, &[])]), "need_requirement"),
            (need(vec![requirement("a", 1, &[])]), "need_requirement"),
            (need(vec![requirement("a", 3, &["x"])]), "need_requirement"),
            (RawNeed::default(), "need_empty"),
            (RawNeed { interruption_bucket: 28, ..need(vec![]) }, "penalty"),
        ];
        for (raw, code) in cases {
            assert_eq!(Need::read(&raw).unwrap_err().code(), code, "{raw:?}");
        }
    }

    #[test]
    fn a_fingerprint_distinguishes_needs_and_not_amounts() {
        let read = |raw: &RawNeed| Need::read(raw).unwrap().assignment.fingerprint;
        let one = need(vec![requirement("a", 3, &[]), requirement("b", 1, &["x"])]);
        let mut more = one.clone();
        more.aggregate.insert("cpu".to_owned(), "400".to_owned());
        more.requirements.reverse();
        assert_eq!(read(&one), read(&more));
        let others = [
            need(vec![requirement("a", 3, &[])]),
            RawNeed { priority: 1, ..one.clone() },
            RawNeed { group: "g".to_owned(), ..one.clone() },
            RawNeed { reclamation_bucket: 9, ..one.clone() },
        ];
        for other in others {
            assert_ne!(read(&one), read(&other));
        }
        assert_eq!(read(&one).len(), 32);
    }

    proptest! {
        // Requirement: F-39
        #[test]
        fn any_need_is_read_or_refused(
            requirements in prop::collection::vec(
                (".{0,6}", -1..8_i32, prop::collection::vec(".{0,4}", 0..3)), 0..3),
            texts in prop::collection::btree_map(".{0,4}", ".{0,6}", 0..3),
            (priority, one, other) in (any::<i32>(), -3..30_i32, -3..30_i32),
        ) {
            let requirements = requirements.into_iter()
                .map(|(key, operator, values)| RawRequirement { key, operator, values })
                .collect();
            let raw = RawNeed {
                requirements,
                aggregate: texts.clone(),
                min_unit: texts,
                priority,
                interruption_bucket: one,
                reclamation_bucket: other,
                ..RawNeed::default()
            };
            let _ = Need::read(&raw);
        }
    }
}
