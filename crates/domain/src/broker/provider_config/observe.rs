//! From raw answers to the facts of a ProviderConfig's life.

use std::collections::BTreeMap;

use usher_kernel::{Answer, Book, Generation, Name, Sighting, Timestamp};

use super::ProviderConfig;
use super::facts::{Facts, Object};
use crate::broker::facts::{Anchor, Gate, Sight};
use crate::broker::look;
use crate::broker::look::Heard;
use crate::broker::witness::{Witness, worst_anchor};
use crate::object::authority::Authority;

/// Everything one look saw, unjudged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// Who answered.
    pub by: String,
    /// When.
    pub at: Timestamp,
    /// Whether the world is the pinned one.
    pub authority: Authority,
    /// Whether too much vanished at once.
    pub rail_tripped: bool,
    /// The namespace's readiness.
    pub namespace_ready: Heard<bool>,
    /// Every anchor under our names or with our label, by generation.
    pub anchors: Heard<BTreeMap<Generation, look::Object>>,
    /// What stands under the name.
    pub object: Heard<Option<ConfigObject>>,
}

/// The ProviderConfig, together with its Secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigObject {
    /// The object.
    pub object: look::Object,
    /// Whether it, or its Secret, differs from what would be rendered.
    pub drifted: bool,
    /// The revision it was read at.
    pub revision: String,
}

/// One observation: facts to branch on, sightings to record, the revision to insist on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// The revision the object was read at.
    pub revision: Option<String>,
}

/// Judges one look.
pub fn fold(config: &ProviderConfig, book: &Book, look: &Look) -> Observed {
    let held = look.rail_tripped && !config.is_showing_out();
    let witness = Witness { book, authority: look.authority, held, by: &look.by, at: look.at };
    let is_ours = |it: &look::Object| it.is_labelled(config.installation, &config.id.to_string());
    let anchors: Vec<(Anchor, Sighting)> = generations(config)
        .map(|generation| {
            let heard = match &look.anchors {
                Err(why) => Err(*why),
                Ok(anchors) => Ok(anchors.get(&generation)),
            };
            let settled = config.is_showing_out();
            witness.anchor(config.anchor_name(generation), heard, settled, is_ours)
        })
        .collect();
    let anchor = if config.is_showing_out() {
        worst_anchor(anchors.iter().map(|it| it.0))
    } else {
        anchors.last().map_or(Anchor::Absent, |it| it.0)
    };
    let (object, sighting) = object(config, &witness, look, &is_ours);
    let mut sightings: Vec<Sighting> = anchors.into_iter().map(|it| it.1).collect();
    sightings.extend(sighting);
    let gate = match look.namespace_ready {
        Ok(true) => Gate::Ready,
        Ok(false) => Gate::NotReady,
        Err(_) => Gate::Unknown,
    };
    let revision = match &look.object {
        Ok(Some(it)) => Some(it.revision.clone()),
        Ok(None) | Err(_) => None,
    };
    Observed {
        facts: Facts { sight: sight(look, held), gate, anchor, object },
        sightings,
        revision,
    }
}

fn sight(look: &Look, held: bool) -> Sight {
    let unknowns = [
        look.namespace_ready.as_ref().err(),
        look.anchors.as_ref().err(),
        look.object.as_ref().err(),
    ];
    let worst = unknowns.into_iter().flatten().max().copied();
    Sight::judge(look.authority, held, worst)
}

fn object(
    config: &ProviderConfig,
    witness: &Witness<'_>,
    look: &Look,
    is_ours: &impl Fn(&look::Object) -> bool,
) -> (Object, Vec<Sighting>) {
    let current = config.generation;
    let found = match &look.object {
        Err(why) => {
            let name = config.config_name(current);
            return (Object::Unknown, vec![witness.sighting(name, Answer::Unknown(*why))]);
        }
        Ok(found) => found.as_ref(),
    };
    let showing_out = config.is_showing_out();
    let object = found.map(|it| &it.object);
    let names: Vec<Name> = generations(config).map(|it| config.config_name(it)).collect();
    let owning = object.and_then(|it| witness.owning(&names, it, is_ours(it)));
    let sightings = witness.shared(names, object, owning, showing_out);
    let counted = if showing_out { owning.unwrap_or(current) } else { current };
    let counted = sightings.iter().find(|it| it.name.generation == counted);
    let fact = match (counted.map(|it| &it.answer), found) {
        (None | Some(Answer::Unknown(_)), _) | (Some(Answer::Present { .. }), None) => {
            Object::Unknown
        }
        (Some(Answer::Absent { .. } | Answer::Announced), None) => Object::Absent,
        // An object of an older generation holds the name until it is collected.
        (
            Some(Answer::Absent { .. } | Answer::Announced | Answer::Present { ours: false, .. }),
            Some(_),
        ) => Object::Foreign,
        (Some(Answer::Present { ours: true, .. }), Some(it)) => standing(
            it,
            counted.is_some_and(|counted| witness.is_recorded(&counted.name, &it.object)),
        ),
    };
    (fact, sightings)
}

fn generations(config: &ProviderConfig) -> impl Iterator<Item = Generation> + use<> {
    (Generation::FIRST.0..=config.generation.0).map(Generation)
}

fn standing(it: &ConfigObject, recorded: bool) -> Object {
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
