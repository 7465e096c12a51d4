//! From raw answers to facts and sightings: every judgement of ownership and trust in one place.
//!
//! An adapter fills a [`Snapshot`] and calls [`fold`]; it judges nothing itself.
//!
//! **Invariants**
//! - Unknown is not absent: a refusal, a throttle, a failure and a lagging replica change no row.
//! - What is on record wins over what the spec says: an answer about another identity is no answer.
//! - A cloud object is ours if it is on record with its uid, or by our mark with a request of ours.
//! - A stamp counts only where the ledger names nothing, and only on the object it is bound to. It
//!   gives a name and proves nothing: every editor of the object can write one.

use std::time::Duration;

use usher_kernel::{
    Answer, Evidence as Proof, NameLedger, NameState, Observation, Record, Row, Sighting,
    Timestamp, Unknown, Visibility,
};

use super::aggregate::Resource;
use super::facts::{
    Cloud, Facts, Hold, Identity, Object, Operation, Policy as PolicyFact, Refs, RowFacts, Search,
    Stamp,
};
use super::identity::Identified;
use super::ladder::Stamped;
use super::operation::{Progress, counted};
use super::orphan::Evidence;
use super::policy::{self, Policy};
use super::recorded::Unbound;
use super::reference::Unresolved;
use super::snapshot::{self, CloudReading, Container, Found, ReadError, Snapshot};
use crate::object::authority::Authority;
use crate::object::name::FINALIZER_DIRECT;

/// One observation: facts to branch on, rows and sightings to record, and what verbs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What the identity is where the ledger names none.
    pub unrecorded: Identity,
    /// Rows that were lost and are taken over from the object's own stamp.
    pub adopted: Vec<Row>,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// The identity that this snapshot found where none was on record.
    pub found: Option<Identified>,
    /// The identity that the spec resolves to.
    pub spec: Option<Identified>,
    /// The revision of the cloud object.
    pub etag: Option<String>,
    /// The name of the newest operation.
    pub operation: Option<String>,
    /// How long the cloud asks us to wait.
    pub retry_after: Option<Duration>,
    /// When the last lease ended that was not released cleanly.
    pub may_act_until: Option<Timestamp>,
    /// What an orphan record would say.
    pub evidence: Evidence,
}

impl Observed {
    /// The facts of the row after this snapshot.
    pub fn row(&self, record: &Record<Resource>, now: Timestamp) -> RowFacts {
        let (name_ledger, _) = self.absorbed(&record.name_ledger);
        let resource = record.state.identified(self.found.clone());
        let facts = resource.facts(&name_ledger, self.unrecorded, now);
        let found = record.name_ledger.rows().is_empty() && !name_ledger.rows().is_empty();
        let identity = if found { Identity::Found } else { facts.identity };
        RowFacts { identity, ..facts }
    }
}

impl Observation for Observed {
    fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }

    fn visibility(&self) -> Visibility {
        self.facts.visibility()
    }

    /// With the rows that this snapshot takes over from the stamp.
    fn absorbed(&self, name_ledger: &NameLedger) -> (NameLedger, Vec<Row>) {
        let before = name_ledger.with(&self.adopted);
        let seen = before.absorb(&self.sightings);
        let mut rows = self.adopted.clone();
        rows.retain(|it| !seen.iter().any(|new| new.name == it.name));
        rows.extend(seen);
        (name_ledger.with(&rows), rows)
    }
}

/// Judges one snapshot.
pub fn fold(resource: &Resource, name_ledger: &NameLedger, snapshot: &Snapshot) -> Observed {
    let object = snapshot.object.as_ref().ok().and_then(Option::as_ref);
    let stamp = if name_ledger.rows().is_empty() {
        Stamped::read(resource, object, &snapshot.credential)
    } else {
        Stamped::Nothing
    };
    let unrecorded = stamp.unrecorded(resource);
    let on_record = resource.identity().cloned();
    let mut judge =
        Judge { resource, name_ledger: name_ledger.clone(), snapshot, on_record, unrecorded };
    let (search, searched) = judge.search();
    // Our mark is proof and a stamp is none: that counts only where nothing carries the mark.
    let stamp = if search == Search::None { stamp } else { Stamped::Nothing };
    let adopted: Vec<Row> = stamp.row(resource, snapshot).into_iter().collect();
    judge.name_ledger = name_ledger.with(&adopted);
    let marked = searched.as_ref().and_then(|it| Identified::of(&it.name));
    judge.on_record = judge.on_record.or(marked).or_else(|| stamp.identified());
    let operation = judge.operation();
    let (cloud, answered) = judge.cloud(operation);
    let found = judge.on_record.clone();
    let sightings: Vec<Sighting> = searched.into_iter().chain(answered).collect();
    let mut seen = Observed {
        facts: Facts {
            object: judge.object(),
            hold: judge.hold(),
            policy: judge.policy(),
            refs: judge.refs(),
            search,
            stamp: Stamp::Stale,
            operation,
            cloud,
        },
        unrecorded,
        adopted,
        sightings,
        found,
        spec: judge.spec(),
        etag: judge.found_object().and_then(|it| it.etag.clone()),
        operation: snapshot.operations.iter().flatten().next().map(|it| it.name.clone()),
        retry_after: judge.retry_after(),
        may_act_until: snapshot.may_act_until,
        evidence: judge.evidence(),
    };
    seen.facts.stamp = judge.stamp(&seen, name_ledger);
    seen
}

impl Stamped {
    fn identified(&self) -> Option<Identified> {
        match self {
            Self::Bound(it) => Some(it.identified().clone()),
            Self::Nothing | Self::Not(_) => None,
        }
    }

    /// A name that is perhaps used, whatever else the stamp says: that something was seen there and
    /// is ours, or is gone, only the cloud can say.
    fn row(&self, resource: &Resource, snapshot: &Snapshot) -> Option<Row> {
        let name = resource.name_of(&self.identified()?);
        let evidence = Proof::new("stamp", "taken over from the object", snapshot.at);
        Some(Row { evidence, ..Row::intended(name, "stamp", snapshot.at) })
    }

    fn unrecorded(&self, resource: &Resource) -> Identity {
        match self {
            Self::Not(Unbound::Foreign(_)) => Identity::BoundElsewhere,
            Self::Not(Unbound::Malformed(_)) => Identity::Malformed,
            Self::Nothing | Self::Bound(_) if resource.is_witnessed() => Identity::None,
            Self::Nothing | Self::Bound(_) => Identity::Lost,
        }
    }
}

struct Judge<'a> {
    resource: &'a Resource,
    /// The ledger, with what is taken over from the stamp.
    name_ledger: NameLedger,
    snapshot: &'a Snapshot,
    /// The identity on record, here or on the object, or found by our mark.
    on_record: Option<Identified>,
    /// What the identity is where the ledger names none.
    unrecorded: Identity,
}

impl Judge<'_> {
    fn object(&self) -> Object {
        let snapshot = self.snapshot;
        match (&snapshot.object, self.own_object()) {
            (Err(_), _) => Object::Unknown,
            (Ok(_), Some(it)) => {
                let ours = it.finalizers.iter().any(|it| it == FINALIZER_DIRECT);
                match (it.deleting, ours) {
                    (false, false) => Object::Unheld,
                    (false, true) => Object::Held,
                    (true, true) => Object::Leaving,
                    (true, false) => Object::Free,
                }
            }
            (Ok(_), None)
                if snapshot.cluster == Authority::Replaced || snapshot.cluster_guard_tripped =>
            {
                Object::Unknown
            }
            (Ok(_), None) => Object::Gone,
        }
    }

    /// The object of this resource, and not another one that has its name by now.
    fn own_object(&self) -> Option<&snapshot::Object> {
        let found = self.snapshot.object.as_ref().ok()?.as_ref()?;
        (found.uid == self.resource.object().uid).then_some(found)
    }

    fn hold(&self) -> Hold {
        let mut held = self.own_object().into_iter().flat_map(|it| &it.finalizers);
        if held.any(|it| is_hold(it)) { Hold::Another } else { Hold::None }
    }

    fn read_policy(&self) -> Option<Policy> {
        policy::read(self.own_object().and_then(|it| it.policy.as_deref())).ok()
    }

    fn policy(&self) -> PolicyFact {
        match self.read_policy() {
            None => PolicyFact::Unreadable,
            Some(Policy::Hold) => PolicyFact::Hold,
            Some(Policy::ReleaseWithRecord) => PolicyFact::Release,
            Some(Policy::Abandon) => PolicyFact::Abandon,
        }
    }

    /// Whether the object is to exist; configuration references count only then.
    fn is_wanted(&self) -> bool {
        matches!(self.object(), Object::Unheld | Object::Held)
    }

    fn spec(&self) -> Option<Identified> {
        self.snapshot.spec.clone().and_then(Result::ok)
    }

    fn refs(&self) -> Refs {
        let configuration = self.snapshot.configuration.filter(|_| self.is_wanted());
        match (&self.snapshot.spec, configuration) {
            (None, _) => Refs::Unasked,
            (Some(Err(why)), _) => unresolved(*why),
            (Some(Ok(_)), Some(Err(why))) => unresolved(why),
            (Some(Ok(it)), Some(Ok(())) | None) => {
                if self.on_record.as_ref().is_none_or(|recorded| recorded == it) {
                    Refs::Agrees
                } else {
                    Refs::Differs
                }
            }
        }
    }

    /// What carries our mark counts only where nothing is on record.
    fn search(&self) -> (Search, Option<Sighting>) {
        let lost = matches!(self.unrecorded, Identity::Lost | Identity::Malformed);
        if self.on_record.is_some() || !lost {
            return (Search::None, None);
        }
        let Some(Ok(found)) = &self.snapshot.search else {
            return (Search::Unknown, None);
        };
        if self.snapshot.authority == Authority::Replaced || self.snapshot.guard_tripped {
            return (Search::Unknown, None);
        }
        let ours = |it: &Found| it.mark.as_ref().is_some_and(|mark| self.resource.owns(mark));
        let mut ours = found.iter().filter(|(_, it)| ours(it));
        match (ours.next(), ours.next()) {
            (None, _) => (Search::None, None),
            (Some((identified, it)), None) => {
                let answer = Answer::Present { uid: it.uid.clone(), ours: true };
                let sighting = self.sighting(identified, answer);
                (Search::One, Some(sighting))
            }
            (Some(_), Some(_)) => (Search::Several, None),
        }
    }

    fn operation(&self) -> Operation {
        let Ok(operations) = &self.snapshot.operations else {
            return Operation::Unknown;
        };
        let counted = counted(operations);
        let spent = counted.map(|it| &it.name) == self.resource.fields().spent.as_ref();
        match counted.map(|it| it.progress) {
            Some(Progress::Running) => Operation::Running,
            // What a replica does not show may run all the same.
            _ if self.snapshot.authority == Authority::Replaced => Operation::Unknown,
            Some(Progress::Failed) if !spent => Operation::Failed,
            Some(Progress::Failed | Progress::Done) | None => Operation::None,
        }
    }

    /// The answer of the cloud, if it is the identity on record.
    fn asked(&self) -> Option<&CloudReading> {
        self.snapshot.cloud.as_ref().filter(|it| self.on_record.as_ref() == Some(&it.identified))
    }

    fn found_object(&self) -> Option<&Found> {
        self.asked()?.found.as_ref().ok()?.as_ref()
    }

    /// Whether absence of a name that was only intended counts as its end.
    fn is_settled(&self, operation: Operation) -> bool {
        self.resource.is_leaving()
            && self.resource.is_grace_over(self.snapshot.at)
            && !self.snapshot.guard_tripped
            && matches!(operation, Operation::None | Operation::Failed)
    }

    fn cloud(&self, operation: Operation) -> (Cloud, Option<Sighting>) {
        let Some(asked) = self.asked() else {
            return (Cloud::Unasked, None);
        };
        let row = self.name_ledger.latest(&self.resource.name_of(&asked.identified));
        let seen = row.filter(|it| it.state == NameState::Seen);
        let lagging = self.snapshot.authority == Authority::Replaced;
        // With the guard tripped what is on record is not taken for gone or replaced: nothing ends.
        let held = self.snapshot.guard_tripped && seen.is_some();
        let hidden = self.snapshot.guard_tripped && (held || self.resource.is_leaving());
        let absent = Answer::Absent { settled: self.is_settled(operation) };
        let (cloud, answer) = match (&asked.found, asked.container) {
            (Err(ReadError::Throttled { .. }), _) => {
                (Cloud::Throttled, Answer::Unknown(Unknown::Unreachable))
            }
            (Err(ReadError::Unavailable), _) => {
                (Cloud::Unavailable, Answer::Unknown(Unknown::Unreachable))
            }
            (Err(ReadError::Refused), Some(Container::Gone)) if !lagging && !hidden => {
                (Cloud::ContainerGone, absent)
            }
            (Err(ReadError::Refused), _) => (Cloud::Forbidden, Answer::Unknown(Unknown::Forbidden)),
            (Ok(None), _) if lagging => LAGGING,
            (Ok(None), _) if hidden => VANISHED,
            (Ok(None), _) => (Cloud::Absent, absent),
            (Ok(Some(it)), _) => {
                let recorded = seen.is_some_and(|row| row.uid.as_ref() == Some(&it.uid));
                match (recorded, lagging, held) {
                    (false, true, _) => LAGGING,
                    (false, false, true) => VANISHED,
                    (true, _, _) | (false, false, false) => self.present(it, recorded),
                }
            }
        };
        (cloud, Some(self.sighting(&asked.identified, answer)))
    }

    fn present(&self, it: &Found, recorded: bool) -> (Cloud, Answer) {
        let ours = recorded || it.mark.as_ref().is_some_and(|mark| self.resource.owns(mark));
        let cloud = match (ours, recorded) {
            (false, _) => Cloud::Foreign,
            (true, false) => Cloud::Unrecorded,
            (true, true) if it.leaving => Cloud::Leaving,
            (true, true) if it.drifted => Cloud::Drifted,
            (true, true) => Cloud::Ours,
        };
        (cloud, Answer::Present { uid: it.uid.clone(), ours })
    }

    fn sighting(&self, identified: &Identified, answer: Answer) -> Sighting {
        let name = self.resource.name_of(identified);
        Sighting { plural: None, name, answer, by: self.snapshot.by.clone(), at: self.snapshot.at }
    }

    fn retry_after(&self) -> Option<Duration> {
        match self.asked()?.found {
            Err(ReadError::Throttled { retry_after }) => retry_after,
            Err(ReadError::Refused | ReadError::Unavailable) | Ok(_) => None,
        }
    }

    /// Whether the object carries what will be on record after this snapshot.
    fn stamp(&self, seen: &Observed, name_ledger: &NameLedger) -> Stamp {
        let resource = self.resource.identified(seen.found.clone());
        let wanted = resource.recorded(&seen.absorbed(name_ledger).0).map(|it| it.to_text());
        let carried = self.own_object().and_then(|it| it.stamp.as_ref());
        if carried == wanted.as_ref() { Stamp::Current } else { Stamp::Stale }
    }

    fn evidence(&self) -> Evidence {
        let marked = self.snapshot.search.iter().flatten().flatten();
        let own = self.own_object();
        let spec = self.spec().filter(|_| own.is_some());
        Evidence {
            policy: own.and_then(|_| self.read_policy()),
            stamp: own.and_then(|it| it.stamp.clone().or_else(|| it.status.clone())),
            references: own.map(|_| self.snapshot.references.clone()).unwrap_or_default(),
            spec: spec.map(|it| it.identity.as_str().to_owned()),
            found: marked.map(|(it, _)| it.identity.as_str().to_owned()).collect(),
            ordered: None,
        }
    }
}

const LAGGING: (Cloud, Answer) = (Cloud::Lagging, Answer::Unknown(Unknown::ClusterReplaced));
const VANISHED: (Cloud, Answer) = (Cloud::Vanished, Answer::Unknown(Unknown::GuardTripped));

/// Whether a finalizer asks every controller to wait: a `domain/hold`.
fn is_hold(finalizer: &str) -> bool {
    finalizer.split_once('/').is_some_and(|(_, name)| name == "hold")
}

fn unresolved(why: Unresolved) -> Refs {
    match why {
        Unresolved::Invalid => Refs::Invalid,
        Unresolved::NotFound => Refs::NotFound,
        Unresolved::Terminating => Refs::Terminating,
        Unresolved::NotReady => Refs::NotReady,
        Unresolved::KindNotInstalled => Refs::KindNotInstalled,
        Unresolved::Forbidden => Refs::Forbidden,
        Unresolved::Unavailable => Refs::Unavailable,
    }
}

#[cfg(test)]
mod tests;
