//! From raw answers to facts and sightings: every judgement of ownership and trust in one place.
//!
//! An adapter fills a [`Snapshot`] and calls [`fold`]; it judges nothing itself.
//!
//! **Invariants**
//! - Unknown is not absent: a missing answer stays `Unknown` in the facts and changes no row.
//! - An object is ours if it is on record with its uid, or by our labels and a recorded anchor as
//!   its owner. Labels that were taken off an object on record make no other party its owner.
//! - In a world that is not the pinned one only an object with a recorded uid counts.
//! - While converging the current generation counts; during teardown, all of them.

use usher_kernel::{Answer, Generation, Name, NameLedger, Observation, Sighting, Uid, Visibility};

use super::aggregate::{KIND_PEER, KIND_TOKEN, Resource};
use super::facts::{Anchor, Composed, Config, Facts, Gate, Node, Protection, Token, Xr};
use super::render::anchor::is_anchor;
use super::snapshot::{
    ComposedState, Condition, Guard, Object, PeerState, Snapshot, TokenState, XrObject,
};
use super::witness::{Witness, worst_anchor};
use crate::blueprint::MeshRole;
use crate::object::authority::Authority;

/// One observation: facts to branch on, sightings to record, and the failure's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Observed {
    /// The only part a decision branches on.
    pub facts: Facts,
    /// What becomes identity rows of the same commit.
    pub sightings: Vec<Sighting>,
    /// The message of the XR's terminal condition.
    pub failure: Option<String>,
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
pub fn fold(resource: &Resource, name_ledger: &NameLedger, snapshot: &Snapshot) -> Observed {
    let finalization = resource.is_tearing_down();
    let held = snapshot.guard_tripped;
    let witness = Witness {
        name_ledger,
        authority: snapshot.authority,
        held,
        by: &snapshot.by,
        at: snapshot.at,
    };
    let judge = Judge { resource, name_ledger, snapshot, witness, finalization };
    let mut sightings = judge.anchor_sightings();
    let (xr, xr_sightings) = judge.xr();
    sightings.extend(xr_sightings);
    let (composed, composed_sightings) = judge.composed(xr);
    sightings.extend(composed_sightings);
    sightings.extend(judge.token_sightings());
    sightings.extend(judge.peer_sightings());
    let facts = Facts {
        visibility: judge.visibility(),
        gate: match snapshot.namespace_ready {
            Ok(true) => Gate::Ready,
            Ok(false) => Gate::NotReady,
            Err(_) => Gate::Unknown,
        },
        anchor: judge.anchor(),
        token: judge.token(),
        config: if snapshot.config_ready { Config::Ready } else { Config::Waiting },
        xr,
        composed,
        node: judge.node(),
        protection: match snapshot.protection {
            Ok(Guard::None) => Protection::None,
            Ok(Guard::Ours) => Protection::Ours,
            Ok(Guard::Another) => Protection::Another,
            Err(_) => Protection::Unknown,
        },
    };
    Observed { facts, sightings, failure: judge.failure() }
}

struct Judge<'a> {
    resource: &'a Resource,
    name_ledger: &'a NameLedger,
    snapshot: &'a Snapshot,
    witness: Witness<'a>,
    finalization: bool,
}

impl Judge<'_> {
    /// The worst answer that is missing.
    fn visibility(&self) -> Visibility {
        let snapshot = self.snapshot;
        let unknowns = [
            snapshot.namespace_ready.as_ref().err(),
            snapshot.anchors.as_ref().err(),
            snapshot.xr.as_ref().err(),
            snapshot.composed_listed.as_ref().err(),
            snapshot.peers.as_ref().err(),
            snapshot.protection.as_ref().err(),
        ];
        let composed = snapshot.composed.iter().filter_map(|it| it.reading.as_ref().err());
        let worst = unknowns.into_iter().flatten().chain(composed).max().copied();
        Visibility::judge(snapshot.authority == Authority::Replaced, self.witness.held, worst)
    }

    /// Whether absence of a name that we alone create counts as its end.
    fn settled(&self) -> bool {
        self.finalization && self.resource.is_grace_over(self.snapshot.at) && !self.witness.held
    }

    fn carries_our_labels(&self, object: &Object) -> bool {
        object.is_labelled(self.resource.pinned().installation, &self.resource.id().to_string())
    }

    /// The generations whose anchors and tokens this snapshot covers.
    fn generations(&self) -> impl Iterator<Item = Generation> + use<> {
        (Generation::FIRST.0..=self.resource.generation().0).map(Generation)
    }

    fn anchor_of(&self, generation: Generation) -> (Anchor, Sighting) {
        let name = self.resource.anchor_name(generation);
        let reading = match &self.snapshot.anchors {
            Err(why) => Err(*why),
            Ok(anchors) => Ok(anchors.get(&generation)),
        };
        self.witness.anchor(name, reading, self.settled(), |it| self.carries_our_labels(it))
    }

    fn anchor_sightings(&self) -> Vec<Sighting> {
        self.generations().map(|it| self.anchor_of(it).1).collect()
    }

    /// During teardown, any anchor that still exists counts before one that does not.
    fn anchor(&self) -> Anchor {
        if !self.finalization {
            return self.anchor_of(self.resource.generation()).0;
        }
        worst_anchor(self.generations().map(|it| self.anchor_of(it).0))
    }

    fn xr(&self) -> (Xr, Vec<Sighting>) {
        let current = self.resource.generation();
        let found = match &self.snapshot.xr {
            Err(why) => {
                let name = self.resource.xr_name(current);
                let answer = Answer::Unknown(*why);
                return (Xr::Unknown, vec![self.witness.sighting(name, answer)]);
            }
            Ok(found) => found.as_ref(),
        };
        let object = found.map(|it| &it.object);
        let names: Vec<Name> = self.generations().map(|it| self.resource.xr_name(it)).collect();
        let labelled = object.is_some_and(|it| self.carries_our_labels(it));
        let owning = object.and_then(|it| self.witness.owning(&names, it, labelled));
        let sightings = self.witness.shared(names, object, owning, self.settled());
        let counted = if self.finalization { owning.unwrap_or(current) } else { current };
        let counted = sightings.iter().find(|it| it.name.generation == counted);
        let fact = match (counted.map(|it| &it.answer), found) {
            (None | Some(Answer::Unknown(_)), _) | (Some(Answer::Present { .. }), None) => {
                Xr::Unknown
            }
            (Some(Answer::Absent { .. } | Answer::Announced), None) => Xr::Absent,
            // An XR of an older generation holds the name until it is collected.
            (
                Some(
                    Answer::Absent { .. } | Answer::Announced | Answer::Present { ours: false, .. },
                ),
                Some(_),
            ) => Xr::Foreign,
            (Some(Answer::Present { ours: true, .. }), Some(it)) => judge_existing(
                it,
                counted.is_some_and(|counted| self.is_replaced(&counted.name, it)),
            ),
        };
        (fact, sightings)
    }

    /// Whether another object had the name before: a second object of one generation never
    /// had that generation's token to itself.
    fn is_replaced(&self, name: &Name, found: &XrObject) -> bool {
        let mut stood = self.name_ledger.rows().iter().filter(|row| row.name == *name);
        stood.any(|row| row.uid.as_ref().is_some_and(|uid| *uid != found.object.uid))
    }

    fn composed(&self, xr: Xr) -> (Composed, Vec<Sighting>) {
        let substrate_gone = matches!(xr, Xr::Absent | Xr::Foreign);
        let mut sightings = Vec::new();
        let mut kind_removed = false;
        for it in &self.snapshot.composed {
            let new = self.name_ledger.latest(&it.name).is_none();
            let answer = match &it.reading {
                Err(why) => Answer::Unknown(*why),
                Ok(ComposedState::KindRemoved) => {
                    kind_removed = true;
                    Answer::Announced
                }
                Ok(ComposedState::Present { uid, ours }) => {
                    Answer::Present { uid: uid.clone(), ours: *ours }
                }
                Ok(ComposedState::Absent) if it.referred && new => Answer::Announced,
                Ok(ComposedState::Absent) => {
                    Answer::Absent { settled: self.settled() && substrate_gone }
                }
            };
            let sighting = self.witness.sighting(it.name.clone(), answer);
            sightings.push(Sighting { plural: it.plural.clone(), ..sighting });
        }
        let unknown = self.snapshot.composed_listed.is_err()
            || sightings.iter().any(|it| matches!(it.answer, Answer::Unknown(_)));
        let changed = self.name_ledger.absorb(&sightings);
        let open = self
            .name_ledger
            .with(&changed)
            .rows()
            .iter()
            .any(|row| is_composed(self.resource, &row.name) && !row.state.is_settled());
        let fact = if unknown {
            Composed::Unknown
        } else if changed.iter().any(|row| !row.state.is_settled()) {
            Composed::Unrecorded
        } else if kind_removed {
            Composed::KindRemoved
        } else if open {
            Composed::Present
        } else {
            Composed::None
        };
        (fact, sightings)
    }

    fn token(&self) -> Token {
        match self.snapshot.tokens.get(&self.resource.generation()) {
            None => Token::None,
            Some(TokenState::Redeemable | TokenState::Consumed) => Token::Issued,
            Some(TokenState::Expired) => Token::Expired,
            Some(TokenState::Revoked) => Token::Revoked,
        }
    }

    /// A token is gone when it can no longer be redeemed, and no agent redeems during teardown.
    fn token_sightings(&self) -> Vec<Sighting> {
        let known = self
            .generations()
            .filter(|it| self.name_ledger.latest(&self.resource.token_name(*it)).is_some());
        known
            .map(|generation| {
                let name = self.resource.token_name(generation);
                let answer = match self.snapshot.tokens.get(&generation) {
                    Some(TokenState::Redeemable) if self.resource.admits(generation) => {
                        Answer::Present { uid: Uid::new(name.name.clone()), ours: true }
                    }
                    None => Answer::Absent { settled: !self.resource.admits(generation) },
                    Some(
                        TokenState::Redeemable
                        | TokenState::Consumed
                        | TokenState::Expired
                        | TokenState::Revoked,
                    ) => Answer::Absent { settled: true },
                };
                self.witness.own(name, answer)
            })
            .collect()
    }

    fn peer_sightings(&self) -> Vec<Sighting> {
        let Ok(peers) = &self.snapshot.peers else {
            return vec![];
        };
        peers
            .iter()
            .map(|(generation, peer)| {
                let answer = match peer.state {
                    PeerState::Registered | PeerState::Lost => {
                        Answer::Present { uid: Uid::new(peer.id.to_string()), ours: true }
                    }
                    PeerState::Deregistered => Answer::Absent { settled: true },
                };
                self.witness.own(self.resource.peer_name(*generation), answer)
            })
            .collect()
    }

    fn node(&self) -> Node {
        if self.resource.pinned().role == MeshRole::Standalone {
            return Node::None;
        }
        let Ok(peers) = &self.snapshot.peers else {
            return Node::Unknown;
        };
        let current = self.resource.generation();
        let counted = peers.iter().filter(|(it, _)| self.finalization || **it == current);
        let rank = |node: &Node| match node {
            Node::Unknown => 4,
            Node::Live => 3,
            Node::Lost => 2,
            Node::Left => 1,
            Node::None => 0,
        };
        counted
            .map(|(_, peer)| match peer.state {
                PeerState::Registered => Node::Live,
                PeerState::Lost => Node::Lost,
                PeerState::Deregistered => Node::Left,
            })
            .max_by_key(rank)
            .unwrap_or(Node::None)
    }

    fn failure(&self) -> Option<String> {
        match &self.snapshot.xr {
            Ok(Some(XrObject { condition: Condition::Failed { message }, .. })) => {
                Some(message.chars().take(FAILURE_LENGTH_MAX).collect())
            }
            Ok(_) | Err(_) => None,
        }
    }
}

fn judge_existing(found: &XrObject, replaced: bool) -> Xr {
    if found.object.deleting {
        return Xr::Deleting;
    }
    if replaced {
        return Xr::Replaced;
    }
    match &found.condition {
        Condition::Failed { .. } => Xr::Failed,
        Condition::Converging => Xr::Converging,
        Condition::Ready if found.drifted => Xr::Drifted,
        Condition::Ready => Xr::Ready,
    }
}

/// How much of a failure's message is reported.
pub const FAILURE_LENGTH_MAX: usize = 1_024;

fn is_composed(resource: &Resource, name: &Name) -> bool {
    let kind = name.kind.as_str();
    !is_anchor(name)
        && kind != KIND_TOKEN
        && kind != KIND_PEER
        && *name != resource.xr_name(name.generation)
}

#[cfg(test)]
mod parts;
#[cfg(test)]
mod tests;
