//! From raw answers to facts and sightings: every judgement of trust in one place.
//!
//! **Invariants**
//! - Unknown is not absent: a missing answer stays `Unknown` in the facts and changes no row.
//! - A user is one uid. With `Once` another object under its name is another user; with `Always`
//!   it takes the place of the one that is gone.
//! - A row of a mark is seen as long as the object with that uid may carry our mark.
//! - What is recorded is held or released by the record: what a snapshot resolves counts from the
//!   next one.

mod user;

use std::collections::BTreeSet;

use usher_kernel::{
    Answer, Name, NameLedger, NameState, Observation, Row, Sighting, Uid, Unknown, Visibility,
};

use super::aggregate::{Resolved, Usage};
use super::attempt::{Attempt, Origin, Progress};
use super::facts::{Blocking, Excess, Facts, Of, Resolution};
use super::reference::{ObjectKey, Reference, Role, UsageKey};
use super::refusal::Refusal;
use super::replay::{self, Age, Denied, Holders, Policy};
use super::selector::{Candidates, Meant, resolve};
use super::snapshot::{Found, Object, Other, Probe, Reading, Snapshot, is_counted};
use crate::object::authority::Authority;

/// One observation: facts to branch on, sightings to record, and what the verbs need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// What the references mean, if that is known.
    pub meant: Option<Meant>,
    /// Why they cannot be used.
    pub refusal: Option<Refusal>,
    /// The held objects whose deletion was seen to be refused while marked.
    pub proven: BTreeSet<Uid>,
    /// The object to mark.
    pub unmarked: Option<(ObjectKey, Uid)>,
    /// The object whose owners need not wait for it.
    pub blocking: Option<(ObjectKey, Uid)>,
    /// The object to take a mark off, and that mark.
    pub excess: Option<(ObjectKey, Uid, String)>,
    /// The recorded deletions of objects that are not held.
    pub denied: Vec<Denied>,
}

impl Observation for Observed {
    fn sightings(&self) -> &[Sighting] {
        &self.sightings
    }

    fn visibility(&self) -> Visibility {
        self.facts.visibility
    }
}

/// Judges one snapshot.
pub fn fold(usage: &Usage, name_ledger: &NameLedger, snapshot: &Snapshot) -> Observed {
    let judge = Judge { usage, name_ledger, snapshot };
    let (resolution, meant, refusal) = judge.resolution();
    let targets: Vec<Target> = usage.targets().iter().map(|it| judge.target(it)).collect();
    let foremost = targets.iter().max_by_key(|it| needs(it.of));
    let of = foremost.map_or(Of::Unresolved, |it| it.of);
    let unmarked = foremost.filter(|it| matches!(it.of, Of::Unmarked | Of::Outlived));
    let unmarked = unmarked.and_then(|it| it.object.clone());
    let (excess_fact, excess, mut sightings) = judge.excess();
    sightings.extend(targets.iter().filter_map(|it| it.sighting.clone()));
    let (by, user_sightings) = judge.by();
    sightings.extend(user_sightings);
    let blocking = judge.blocking();
    let facts = Facts {
        visibility: judge.visibility(),
        resolution,
        of,
        by,
        blocking: if blocking.is_some() { Blocking::Owners } else { Blocking::None },
        excess: excess_fact,
    };
    let proven = targets.into_iter().filter_map(|it| it.proven).collect();
    let denied = judge.denied();
    Observed { facts, sightings, meant, refusal, proven, unmarked, blocking, excess, denied }
}

#[derive(Clone, Copy)]
struct Judge<'a> {
    usage: &'a Usage,
    name_ledger: &'a NameLedger,
    snapshot: &'a Snapshot,
}

/// One held object, judged.
struct Target {
    of: Of,
    object: Option<(ObjectKey, Uid)>,
    proven: Option<Uid>,
    sighting: Option<Sighting>,
}

/// Which of several objects needs something first.
const fn needs(of: Of) -> u8 {
    match of {
        Of::Unrecorded => 10,
        Of::Unmarked => 9,
        Of::Outlived => 8,
        Of::Unknown => 7,
        Of::Marked => 6,
        Of::Allowed => 5,
        Of::KindRemoved => 4,
        Of::Absent => 3,
        Of::Leaving => 2,
        Of::Proven => 1,
        Of::Unresolved => 0,
    }
}

impl Judge<'_> {
    /// The worst reason for an unknown answer in this snapshot.
    fn visibility(&self) -> Visibility {
        let snapshot = self.snapshot;
        let unknowns = [
            snapshot.of_candidates.as_ref().err(),
            snapshot.by_candidates.as_ref().err(),
            snapshot.consents.as_ref().err(),
            snapshot.circle.as_ref().err(),
            snapshot.others.as_ref().err(),
        ];
        let objects = snapshot.objects.values().filter_map(|it| it.as_ref().err());
        let probes = snapshot.probes.values().filter_map(|it| it.as_ref().err());
        let worst = unknowns.into_iter().flatten().chain(objects).chain(probes).max();
        let replaced = snapshot.authority == Authority::Replaced;
        Visibility::judge(replaced, snapshot.guard_tripped, worst.copied())
    }

    /// The object under a name that is on record with this uid. Another world, or one that forgot,
    /// answers nothing: an object that it shows may be one that is long gone. With the
    /// mass-deletion guard tripped what is on record is not taken for gone or replaced.
    fn reading(&self, key: &ObjectKey, known: Option<&Uid>) -> Reading<&Found> {
        if self.snapshot.authority == Authority::Replaced {
            return Err(Unknown::ClusterReplaced);
        }
        let found = match self.snapshot.objects.get(key) {
            None => return Err(Unknown::Unreachable),
            Some(Err(why)) => return Err(*why),
            Some(Ok(found)) => found,
        };
        let missed = match found {
            Found::Absent | Found::KindRemoved => true,
            Found::Present(object) => known.is_some_and(|it| *it != object.uid),
        };
        if missed && self.snapshot.guard_tripped { Err(Unknown::GuardTripped) } else { Ok(found) }
    }

    /// The other Usages. With the mass-deletion guard tripped a list may lack those that hold.
    fn others(&self) -> Reading<&[Other]> {
        if self.snapshot.guard_tripped {
            return Err(Unknown::GuardTripped);
        }
        self.snapshot.others.as_deref().map_err(|why| *why)
    }

    fn sighting(&self, name: Name, answer: Answer) -> Sighting {
        Sighting { plural: None, name, answer, by: self.snapshot.by.clone(), at: self.snapshot.at }
    }

    /// What the references mean, and whether that is what is recorded. A Usage being deleted
    /// resolves nothing any more, but gives way in a circle like any other.
    fn resolution(&self) -> (Resolution, Option<Meant>, Option<Refusal>) {
        if self.usage.deleting {
            let status = &self.usage.status;
            return match (&self.snapshot.circle, &status.of) {
                (Ok(Some(_)), Some(of)) if !of.found.is_empty() => {
                    let of = Resolved { from: of.from.clone(), found: vec![] };
                    let meant = Meant { of, by: status.by.clone() };
                    (Resolution::Changed, Some(meant), None)
                }
                (Ok(_) | Err(_), _) => (Resolution::Same, None, None),
            };
        }
        let spec = match &self.usage.spec {
            Ok(spec) => spec,
            Err(refusal) => return (Resolution::Refused, None, Some(refusal.clone())),
        };
        let snapshot = self.snapshot;
        let reading =
            (&snapshot.of_candidates, &snapshot.by_candidates, snapshot.consents, &snapshot.circle);
        let (Ok(of), Ok(by), Ok(consents), Ok(circle)) = reading else {
            return (Resolution::Unknown, None, None);
        };
        // With the mass-deletion guard tripped a list may lack what is meant.
        let listed = spec.of.is_selector() || spec.by.as_ref().is_some_and(Reference::is_selector);
        if listed && snapshot.guard_tripped {
            return (Resolution::Unknown, None, None);
        }
        let mut meant = match resolve(self.usage, spec, Candidates { of, by }) {
            Ok(meant) => meant,
            Err(refusal) => return (Resolution::Refused, None, Some(refusal)),
        };
        if circle.is_some() {
            meant.of.found.clear();
        }
        let status = &self.usage.status;
        let of_changed = status.of.as_ref() != Some(&meant.of);
        if of_changed && !consents && !meant.of.found.is_empty() {
            let namespace = spec.of.namespace.clone();
            return (Resolution::Refused, None, Some(Refusal::ConsentMissing(namespace)));
        }
        if of_changed || status.by != meant.by {
            return (Resolution::Changed, Some(meant), None);
        }
        match circle {
            None => (Resolution::Same, None, None),
            Some(circle) => (Resolution::Refused, None, Some(Refusal::Circle(circle.clone()))),
        }
    }

    fn recorded(&self, role: Role, key: &ObjectKey) -> Option<&Row> {
        self.name_ledger.latest(&role.name(key))
    }

    /// The uid of the object under a name, as far as recorded.
    fn known(&self, role: Role, key: &ObjectKey) -> Option<&Uid> {
        let row = self.recorded(role, key).filter(|it| it.state == NameState::Seen);
        row.and_then(|it| it.uid.as_ref())
    }

    /// One object that is meant; it counts only while the Usage holds.
    fn target(&self, key: &ObjectKey) -> Target {
        let of = |of| Target { of, object: None, proven: None, sighting: None };
        if !self.usage.status.phase.holds() {
            return of(Of::Unresolved);
        }
        let reading = match self.reading(key, self.known(Role::Mark, key)) {
            Err(why) => {
                // What is not known is neither exposed nor proven anew.
                let proven = self.recorded(Role::Mark, key).and_then(|it| it.uid.clone());
                let proven = proven.filter(|it| self.usage.status.proven.contains(it));
                let sighting = self.sighting(Role::Mark.name(key), Answer::Unknown(why));
                return Target { proven, sighting: Some(sighting), ..of(Of::Unknown) };
            }
            Ok(reading) => reading,
        };
        let (fact, answer) = match reading {
            Found::Absent => (Of::Absent, Answer::Absent { settled: false }),
            Found::KindRemoved => (Of::KindRemoved, Answer::Absent { settled: false }),
            Found::Present(object) => {
                let answer = Answer::Present { uid: object.uid.clone(), ours: true };
                (self.judge_existing(key, object), answer)
            }
        };
        let sighting = Some(self.sighting(Role::Mark.name(key), answer));
        let uid = match reading {
            Found::Present(object) => Some(object.uid.clone()),
            Found::Absent | Found::KindRemoved => None,
        };
        let proven = uid.clone().filter(|_| matches!(fact, Of::Proven | Of::Outlived));
        Target { of: fact, object: uid.map(|it| (key.clone(), it)), proven, sighting }
    }

    fn judge_existing(&self, key: &ObjectKey, object: &Object) -> Of {
        if object.deleting {
            return Of::Leaving;
        }
        if self.known(Role::Mark, key) != Some(&object.uid) {
            return Of::Unrecorded;
        }
        let proven = self.usage.status.proven.contains(&object.uid);
        let Some(mark) = &object.mark else { return Of::Unmarked };
        let counted = match self.others() {
            Ok(others) => is_counted(self.usage, key, mark, others),
            Err(_) if mark == self.usage.mark() => true,
            Err(_) => return Of::Unknown,
        };
        match (counted, proven) {
            (false, true) => Of::Outlived,
            (false, false) => Of::Unmarked,
            (true, true) => Of::Proven,
            (true, false) => match self.snapshot.probes.get(key) {
                Some(Ok(Probe::Refused)) => Of::Proven,
                Some(Ok(Probe::Allowed)) => Of::Allowed,
                Some(Err(_)) | None => Of::Marked,
            },
        }
    }

    /// A held object whose deletion was requested and that makes its owners wait. A client that
    /// deletes an owner in the foreground makes the collector request it; a use has precedence over
    /// that request.
    fn blocking(&self) -> Option<(ObjectKey, Uid)> {
        let mut attempts = self.usage.status.attempts.iter();
        let attempt = attempts.find(|it| {
            let blocks = match self.reading(&it.object, Some(&it.uid)) {
                Ok(Found::Present(object)) => object.uid == it.uid && object.blocks,
                Ok(Found::Absent | Found::KindRemoved) | Err(_) => false,
            };
            blocks && self.usage.holds(&it.object)
        })?;
        Some((attempt.object.clone(), attempt.uid.clone()))
    }

    /// Marks on what is not held: those that only this Usage accounts for are removed, those of
    /// objects that others hold are kept.
    fn excess(&self) -> (Excess, Option<(ObjectKey, Uid, String)>, Vec<Sighting>) {
        let (mut fact, mut first, mut sightings) = (Excess::None, None, Vec::new());
        for (key, row) in self.unheld() {
            let (answer, mark) = self.leftover(&key, row);
            if let Answer::Unknown(_) = &answer
                && fact == Excess::None
            {
                fact = Excess::Unknown;
            }
            if let (Some(mark), Some(uid)) = (mark, row.uid.clone()) {
                fact = Excess::Marked;
                first.get_or_insert((key, uid, mark));
            }
            sightings.push(self.sighting(row.name.clone(), answer));
        }
        (fact, first, sightings)
    }

    /// Every open row of a mark on an object that is not to be held.
    fn unheld(&self) -> Vec<(ObjectKey, &Row)> {
        let open = self.name_ledger.rows().iter().filter(|it| !it.state.is_settled());
        let marks = open.filter_map(|row| Some((Role::Mark.key(&row.name)?, row)));
        marks.filter(|(key, _)| !self.usage.holds(key)).collect()
    }

    /// What is left of our mark on an object, and the mark to take off. What was only intended was
    /// never marked: the uid is recorded first.
    fn leftover(&self, key: &ObjectKey, row: &Row) -> (Answer, Option<String>) {
        let none = (Answer::Absent { settled: true }, None);
        if row.state == NameState::Intended {
            return none;
        }
        let object = match self.reading(key, row.uid.as_ref()) {
            Err(why) => return (Answer::Unknown(why), None),
            Ok(Found::Absent | Found::KindRemoved) => return none,
            Ok(Found::Present(object)) => object,
        };
        let Some(mark) = &object.mark else { return none };
        if row.uid.as_ref() != Some(&object.uid) {
            return none;
        }
        match self.others() {
            Err(why) => (Answer::Unknown(why), None),
            Ok(others) if others.iter().any(|it| it.holds.contains(key)) => none,
            Ok(_) => {
                let answer = Answer::Present { uid: object.uid.clone(), ours: true };
                (answer, Some(mark.clone()))
            }
        }
    }

    /// The recorded deletions of objects that are not held.
    fn denied(&self) -> Vec<Denied> {
        let attempts = self.usage.status.attempts.iter();
        attempts.filter(|it| !self.usage.holds(&it.object)).map(|it| self.denial(it)).collect()
    }

    fn denial(&self, attempt: &Attempt) -> Denied {
        let (object, revision) = self.denied_object(attempt);
        let (holders, holder) = self.holders(attempt);
        let facts = replay::Facts {
            progress: match attempt.progress {
                Progress::Recorded => replay::Progress::Recorded,
                Progress::Begun => replay::Progress::Begun,
                Progress::Withdrawn { .. } => replay::Progress::Withdrawn,
            },
            object,
            age: if attempt.expires_at <= self.snapshot.at { Age::Expired } else { Age::Current },
            holders,
            policy: if self.usage.replays() { Policy::On } else { Policy::Off },
        };
        Denied { uid: attempt.uid.clone(), facts, holder, revision }
    }

    /// The object whose deletion was denied, and its revision where the owners matter.
    fn denied_object(&self, attempt: &Attempt) -> (replay::Object, Option<String>) {
        let object = match self.reading(&attempt.object, Some(&attempt.uid)) {
            Err(_) => return (replay::Object::Unknown, None),
            Ok(Found::Present(it)) if it.uid == attempt.uid && !it.deleting => it,
            Ok(Found::Present(_) | Found::Absent | Found::KindRemoved) => {
                return (replay::Object::Gone, None);
            }
        };
        match &attempt.origin {
            Origin::Asked => (replay::Object::Present, None),
            Origin::Collected { owners } if *owners == object.owners => {
                (replay::Object::Present, Some(object.revision.clone()))
            }
            Origin::Collected { .. } => (replay::Object::OwnersChanged, None),
        }
    }

    /// The other Usages that hold an object, and the one of them that a deletion is handed to.
    fn holders(&self, attempt: &Attempt) -> (Holders, Option<(UsageKey, Uid)>) {
        let Ok(others) = self.others() else { return (Holders::Unknown, None) };
        let holding = || others.iter().filter(|it| it.holds.contains(&attempt.object));
        let first = holding().min_by_key(|it| &it.uid);
        let holders = match first {
            None => Holders::None,
            Some(_) if holding().any(|it| it.knows(attempt)) => Holders::Informed,
            Some(_) => Holders::Uninformed,
        };
        (holders, first.map(|it| (it.usage.clone(), it.uid.clone())))
    }
}

#[cfg(test)]
mod tests;
