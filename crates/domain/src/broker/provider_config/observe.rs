//! From raw answers to the facts of a ProviderConfig.

use std::collections::BTreeMap;

use usher_kernel::{Generation, Name, NameLedger, Observation, Sighting, Timestamp, Visibility};

use super::facts::{Facts, Object};
use super::{KIND_EXTERNAL_SECRET, ProviderConfig};
use crate::broker::facts::{Anchor, Gate};
use crate::broker::snapshot;
use crate::broker::snapshot::Reading;
use crate::broker::witness::{Claim, Shared, Witness, worst_anchor};
use crate::object::authority::Authority;

/// The unjudged answers of one snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// The authority that answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether the world is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub guard_tripped: bool,
    /// The namespace's readiness.
    pub namespace_ready: Reading<bool>,
    /// Every anchor under our names or with our label, by generation.
    pub anchors: Reading<BTreeMap<Generation, snapshot::Object>>,
    /// The object under the ProviderConfig's name.
    pub config: Reading<Option<Found>>,
    /// The object under the ExternalSecret's name.
    pub external_secret: Reading<Option<Found>>,
    /// The object under the Secret's name; it is not rendered, so it never drifts.
    pub secret: Reading<Option<Found>>,
}

/// One of the objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub object: snapshot::Object,
    /// Whether it differs from what would be rendered.
    pub drifted: bool,
    /// The revision it was read at.
    pub revision: String,
}

/// One observation: facts to branch on, sightings to record, the revisions to insist on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// Existing objects of ours, in the order of their deletion, and the revision it was read at.
    pub existing: Vec<(Name, String)>,
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
pub fn fold(config: &ProviderConfig, name_ledger: &NameLedger, snapshot: &Snapshot) -> Observed {
    let held = snapshot.guard_tripped;
    let witness = Witness {
        name_ledger,
        authority: snapshot.authority,
        held,
        by: &snapshot.by,
        at: snapshot.at,
    };
    let judge = Judge { config, snapshot, witness };
    let (anchor, mut sightings) = judge.anchor();
    let [written, external_secret] = judge.written();
    // The ExternalSecret proves the owner of the Secret, though it is recorded with this very
    // commit.
    let known = name_ledger.with(&name_ledger.absorb(&external_secret.sightings));
    let secret =
        Judge { witness: Witness { name_ledger: &known, ..witness }, ..judge }.materialised();
    let parts = [written, external_secret, secret];
    let object = together([parts[0].fact, parts[1].fact, parts[2].fact], config.is_tearing_down());
    let mut existing = Vec::new();
    for part in parts {
        sightings.extend(part.sightings);
        existing.extend(part.existing);
    }
    let gate = match snapshot.namespace_ready {
        Ok(true) => Gate::Ready,
        Ok(false) => Gate::NotReady,
        Err(_) => Gate::Unknown,
    };
    let facts = Facts { visibility: visibility(snapshot, held), gate, anchor, object };
    Observed { facts, sightings, existing }
}

fn visibility(snapshot: &Snapshot, held: bool) -> Visibility {
    let unknowns = [
        snapshot.namespace_ready.as_ref().err(),
        snapshot.anchors.as_ref().err(),
        snapshot.config.as_ref().err(),
        snapshot.external_secret.as_ref().err(),
        snapshot.secret.as_ref().err(),
    ];
    let worst = unknowns.into_iter().flatten().max().copied();
    Visibility::judge(snapshot.authority == Authority::Replaced, held, worst)
}

#[derive(Clone, Copy)]
struct Judge<'a> {
    config: &'a ProviderConfig,
    snapshot: &'a Snapshot,
    witness: Witness<'a>,
}

/// One of the objects, judged.
struct Part {
    fact: Object,
    sightings: Vec<Sighting>,
    existing: Option<(Name, String)>,
}

impl Judge<'_> {
    /// Whether absence of a name that we alone create counts as its end.
    fn settled(&self) -> bool {
        let quiet = self.config.is_grace_over(self.snapshot.at);
        self.config.is_tearing_down() && quiet && !self.witness.held
    }

    fn carries_our_labels(&self, object: &snapshot::Object) -> bool {
        object.is_labelled(self.config.installation, &self.config.id.to_string())
    }

    fn generations(&self) -> impl Iterator<Item = Generation> + use<> {
        (Generation::FIRST.0..=self.config.generation.0).map(Generation)
    }

    /// During teardown, any anchor that still exists counts before one that does not.
    fn anchor(&self) -> (Anchor, Vec<Sighting>) {
        let judged = self.generations().map(|generation| {
            let reading = match &self.snapshot.anchors {
                Err(why) => Err(*why),
                Ok(anchors) => Ok(anchors.get(&generation)),
            };
            let name = self.config.anchor_name(generation);
            self.witness.anchor(name, reading, self.settled(), |it| self.carries_our_labels(it))
        });
        let (facts, sightings): (Vec<Anchor>, Vec<Sighting>) = judged.unzip();
        let anchor = if self.config.is_tearing_down() {
            worst_anchor(facts.into_iter())
        } else {
            facts.last().copied().unwrap_or(Anchor::Absent)
        };
        (anchor, sightings)
    }

    /// The ProviderConfig and the ExternalSecret: ours by our labels and a recorded anchor.
    fn written(&self) -> [Part; 2] {
        let owning = |names: &[Name], it: &snapshot::Object| {
            self.witness.owning(names, it, self.carries_our_labels(it))
        };
        let config = self.names(|it| self.config.config_name(it));
        let external_secret = self.names(|it| self.config.external_secret_name(it));
        [
            self.part(config, &self.snapshot.config, owning),
            self.part(external_secret, &self.snapshot.external_secret, owning),
        ]
    }

    /// The Secret: ours by a recorded ExternalSecret as its owner, whatever its labels.
    fn materialised(&self) -> Part {
        let owning = |names: &[Name], it: &snapshot::Object| {
            self.witness.owned_by(names, it, |name| name.kind == KIND_EXTERNAL_SECRET)
        };
        self.part(self.names(|it| self.config.secret_name(it)), &self.snapshot.secret, owning)
    }

    fn names(&self, name: impl Fn(Generation) -> Name) -> Vec<Name> {
        self.generations().map(name).collect()
    }

    fn part(
        &self,
        names: Vec<Name>,
        reading: &Reading<Option<Found>>,
        owning: impl Fn(&[Name], &snapshot::Object) -> Option<Generation>,
    ) -> Part {
        let (showing_out, settled) = (self.config.is_tearing_down(), self.settled());
        let found = reading.as_ref().map(Option::as_ref).map_err(|why| *why);
        let reading = found.map(|it| it.map(|it| &it.object));
        let shared = Shared { names, reading, settled, showing_out };
        let (claim, sightings) = self.witness.claim(shared, owning);
        let (fact, existing) = match (claim, found) {
            (Claim::Unknown, _) | (Claim::Ours(_), Ok(None) | Err(_)) => (Object::Unknown, None),
            (Claim::Absent, _) => (Object::Absent, None),
            (Claim::Foreign, _) => (Object::Foreign, None),
            (Claim::Ours(name), Ok(Some(it))) => {
                let recorded = self.witness.is_recorded(&name, &it.object);
                (existing(it, recorded), Some((name, it.revision.clone())))
            }
        };
        Part { fact, sightings, existing }
    }
}

/// One fact for the ProviderConfig, the ExternalSecret and the Secret.
///
/// During teardown every existing object counts, and an object being deleted is awaited before the
/// next is requested. Otherwise both that are written must be there; the Secret is another
/// controller's work and counts only where its name is taken.
fn together([config, external_secret, secret]: [Object; 3], showing_out: bool) -> Object {
    let worst = |facts: [Object; 3], foreign| {
        facts.into_iter().max_by_key(|it| rank(*it, foreign)).unwrap_or(Object::Unknown)
    };
    if showing_out {
        return worst([config, external_secret, secret], 1);
    }
    let taken = if secret == Object::Foreign { secret } else { Object::Absent };
    let fact = worst([config, external_secret, taken], 6);
    let one_is_missing = fact == Object::Present && config != external_secret;
    if one_is_missing { Object::Drifted } else { fact }
}

/// Which fact counts before which; how much a foreign object does depends on whether it is in
/// teardown.
const fn rank(object: Object, foreign: u8) -> u8 {
    match object {
        Object::Unknown => 7,
        Object::Foreign => foreign,
        Object::Deleting => 5,
        Object::Unrecorded => 4,
        Object::Drifted => 3,
        Object::Present => 2,
        Object::Absent => 0,
    }
}

fn existing(it: &Found, recorded: bool) -> Object {
    if it.object.deleting {
        Object::Deleting
    } else if !recorded {
        Object::Unrecorded
    } else if it.drifted {
        Object::Drifted
    } else {
        Object::Present
    }
}
