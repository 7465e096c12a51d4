//! How far an answer counts: shared by every reconciler that observes a world.

use usher_kernel::{Answer, Generation, Name, NameLedger, Sighting, Timestamp, Unknown};

use super::facts::Anchor;
use super::render::anchor::is_anchor;
use super::snapshot::{Object, Reading};
use crate::object::authority::Authority;
use crate::object::id::InstallationId;

/// A name that every generation shares, and the answer for it.
pub(super) struct Shared<'a> {
    /// The name in each generation, the current one last.
    pub(super) names: Vec<Name>,
    /// The object under it.
    pub(super) reading: Reading<Option<&'a Object>>,
    /// Whether absence counts as the end of a name that was only intended.
    pub(super) settled: bool,
    /// Whether every generation counts, and not the current one alone.
    pub(super) showing_out: bool,
}

/// The owner of the object under a shared name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Claim {
    /// Unknown.
    Unknown,
    /// No object has the name.
    Absent,
    /// Foreign, or of an older generation: it holds the name until it is collected.
    Foreign,
    /// Ours, under the name of its generation.
    Ours(Name),
}

/// The authority that answered, and what is on record.
#[derive(Clone, Copy)]
pub(super) struct Witness<'a> {
    pub(super) name_ledger: &'a NameLedger,
    pub(super) authority: Authority,
    /// Whether the mass-deletion guard is tripped.
    pub(super) held: bool,
    pub(super) by: &'a str,
    pub(super) at: Timestamp,
}

impl Object {
    /// Whether it carries the labels of this installation and record.
    pub fn is_labelled(&self, installation: InstallationId, record_id: &str) -> bool {
        self.record_id.as_deref() == Some(record_id)
            && self.installation.as_deref() == Some(installation.to_string().as_str())
    }
}

impl Witness<'_> {
    /// What our own records say; no world has to be trusted for it.
    pub(super) fn own(&self, name: Name, answer: Answer) -> Sighting {
        Sighting { plural: None, name, answer, by: "usher".to_owned(), at: self.at }
    }

    /// What the world said, as far as it counts. If it is not the pinned world, only an object on
    /// record does; if too much vanished at once, an object on record is not taken for gone.
    pub(super) fn sighting(&self, name: Name, answer: Answer) -> Sighting {
        let recorded = self.name_ledger.latest(&name).and_then(|row| row.uid.as_ref());
        let on_record = self.name_ledger.seen(&name).is_some();
        let same = matches!(&answer, Answer::Present { uid, .. } if recorded == Some(uid));
        let unanswered = matches!(&answer, Answer::Unknown(_));
        let answer = if unanswered || same {
            answer
        } else if self.authority == Authority::Replaced {
            Answer::Unknown(Unknown::ClusterReplaced)
        } else if self.held && on_record {
            Answer::Unknown(Unknown::GuardTripped)
        } else {
            answer
        };
        Sighting { plural: None, name, answer, by: self.by.to_owned(), at: self.at }
    }

    /// Whether this very object is on record as ours.
    pub(super) fn is_recorded(&self, name: &Name, object: &Object) -> bool {
        self.name_ledger.seen(name).is_some_and(|row| row.uid.as_ref() == Some(&object.uid))
    }

    /// The generation that an object under a shared name belongs to: the one that recorded this
    /// very object or, if it carries our labels, the one whose recorded anchor owns it.
    pub(super) fn owning(
        &self,
        names: &[Name],
        object: &Object,
        labelled: bool,
    ) -> Option<Generation> {
        let is_owner = |name: &Name| labelled && is_anchor(name);
        self.owned_by(names, object, is_owner)
    }

    /// The generation that recorded this very object or, failing that, the one of the row among
    /// those that may own it whose uid its owner has.
    pub(super) fn owned_by(
        &self,
        names: &[Name],
        object: &Object,
        is_owner: impl Fn(&Name) -> bool,
    ) -> Option<Generation> {
        let recorded = names.iter().find(|name| self.is_recorded(name, object));
        recorded.map(|name| name.generation).or_else(|| {
            let owner = object.owner.as_ref()?;
            let owners = self.name_ledger.rows().iter().filter(|row| is_owner(&row.name));
            let row = owners.rev().find(|row| row.uid.as_ref() == Some(owner))?;
            Some(row.name.generation)
        })
    }

    /// Judges a shared name: its owner, and the sighting of each generation. `owning` finds the
    /// generation that an object belongs to.
    pub(super) fn claim(
        &self,
        shared: Shared<'_>,
        owning: impl Fn(&[Name], &Object) -> Option<Generation>,
    ) -> (Claim, Vec<Sighting>) {
        let Shared { names, reading, settled, showing_out } = shared;
        let found = match reading {
            Ok(found) => found,
            Err(why) => {
                let reported =
                    names.last().map(|it| self.sighting(it.clone(), Answer::Unknown(why)));
                return (Claim::Unknown, reported.into_iter().collect());
            }
        };
        let current = names.last().map(|it| it.generation);
        let owning = found.and_then(|it| owning(&names, it));
        let counted = if showing_out { owning.or(current) } else { current };
        let sightings = self.shared(names, found, owning, settled);
        let counted = sightings.iter().find(|it| Some(it.name.generation) == counted);
        let claim = counted.map_or(Claim::Unknown, |counted| match (&counted.answer, found) {
            (Answer::Unknown(_), _) => Claim::Unknown,
            (Answer::Present { ours: true, .. }, _) => Claim::Ours(counted.name.clone()),
            (Answer::Absent { .. } | Answer::Announced, None) => Claim::Absent,
            (
                Answer::Absent { .. } | Answer::Announced | Answer::Present { ours: false, .. },
                _,
            ) => Claim::Foreign,
        });
        (claim, sightings)
    }

    /// The sighting of each generation for a name that all of them share: an object of
    /// one is the absence of the others, and a foreign one is foreign to all.
    pub(super) fn shared(
        &self,
        names: Vec<Name>,
        found: Option<&Object>,
        owning: Option<Generation>,
        settled: bool,
    ) -> Vec<Sighting> {
        let tell = |name: Name| {
            let answer = match found {
                Some(it) if owning.is_none_or(|owning| owning == name.generation) => {
                    Answer::Present { uid: it.uid.clone(), ours: owning.is_some() }
                }
                Some(_) | None => Answer::Absent { settled },
            };
            self.sighting(name, answer)
        };
        names.into_iter().map(tell).collect()
    }

    /// Judges one anchor: ours if this very object is on record, or by its labels.
    pub(super) fn anchor(
        &self,
        name: Name,
        reading: Reading<Option<&Object>>,
        settled: bool,
        is_ours: impl Fn(&Object) -> bool,
    ) -> (Anchor, Sighting) {
        let found = reading.ok().flatten();
        let answer = match reading {
            Err(why) => Answer::Unknown(why),
            Ok(None) => Answer::Absent { settled },
            Ok(Some(it)) => {
                let ours = self.is_recorded(&name, it) || is_ours(it);
                Answer::Present { uid: it.uid.clone(), ours }
            }
        };
        let sighting = self.sighting(name, answer);
        let fact = match (&sighting.answer, found) {
            (Answer::Unknown(_), _) | (Answer::Present { .. }, None) => Anchor::Unknown,
            (Answer::Absent { .. } | Answer::Announced, _) => Anchor::Absent,
            (Answer::Present { ours: false, .. }, Some(_)) => Anchor::Foreign,
            (Answer::Present { ours: true, .. }, Some(it)) if it.deleting => Anchor::Leaving,
            (Answer::Present { ours: true, .. }, Some(it)) => {
                if self.is_recorded(&sighting.name, it) { Anchor::Ours } else { Anchor::Unrecorded }
            }
        };
        (fact, sighting)
    }
}

/// During teardown, an anchor that still exists counts before one that does not.
pub(super) fn worst_anchor(anchors: impl Iterator<Item = Anchor>) -> Anchor {
    let rank = |anchor: &Anchor| match anchor {
        Anchor::Unknown => 5,
        Anchor::Ours => 4,
        Anchor::Unrecorded => 3,
        Anchor::Leaving => 2,
        Anchor::Foreign => 1,
        Anchor::Absent => 0,
    };
    anchors.max_by_key(rank).unwrap_or(Anchor::Absent)
}
