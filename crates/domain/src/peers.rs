//! Peers of the mesh: how they register, their liveness, and how they are torn down.
//!
//! ```text
//!   registered ──cordon──▶ cordoned ──(it left)─ revoke key──▶ draining ──▶ deregistered
//!                              │                                ├ acknowledged, or 10 s, or force
//!                              └──── 30 s of grace ─────────────┴──▶ deregistered by us
//! ```
//!
//! **Invariants**
//! - A deregistered peer has a revoked key: the type has no place for another.
//! - Force skips acknowledgements and nothing else, and is recorded.
//! - A peer is lost by silence after a heartbeat was received, or after a server began to expect
//!   it because no present server hears it; until then it is unknown.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Generation, Timestamp, coded, words};

use crate::object::enrolment::{Nonce, PublicKey};
use crate::object::id::{PeerId, ProjectId, ResourceId, TokenId};

/// A peer of the mesh.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Peer {
    pub id: PeerId,
    /// The identity it registered with.
    pub registration: Registration,
    /// When.
    pub registered_at: Timestamp,
    /// Its drain stage.
    pub stage: Stage,
    /// The operator that requested that no peer be awaited.
    pub forced: Option<Forced>,
}

/// What an agent registers with.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registration {
    /// The token it redeemed.
    pub token: TokenId,
    pub resource: ResourceId,
    pub generation: Generation,
    /// The project it joined.
    pub project: ProjectId,
    pub nonce: Nonce,
    /// Its key.
    pub public_key: PublicKey,
}

/// The drain stage of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stage {
    /// It is in.
    Registered,
    /// It gets nothing new.
    Cordoned {
        /// Since when.
        since: Timestamp,
    },
    /// Its key is revoked, and the others get a new snapshot.
    Draining {
        /// When it was cordoned.
        since: Timestamp,
        /// When its key was revoked.
        key_revoked_at: Timestamp,
    },
    /// It is out.
    Deregistered {
        /// When its key was revoked.
        key_revoked_at: Timestamp,
        /// When it was deregistered.
        at: Timestamp,
        /// What ended the waiting.
        cause: Cause,
    },
}

impl Stage {
    /// Every word, in the order in which a peer passes them.
    pub const WORDS: [&str; 4] = ["registered", "cordoned", "draining", "deregistered"];

    /// The word for it in rows and answers.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Registered => "registered",
            Self::Cordoned { .. } => "cordoned",
            Self::Draining { .. } => "draining",
            Self::Deregistered { .. } => "deregistered",
        }
    }
}

words! {
    /// What ended the waiting for acknowledgements.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    pub enum Cause {
        /// Every survivor acknowledged.
        Acknowledged = "acknowledged",
        /// Some did not in time.
        TimedOut = "timed_out",
        /// The whole drain took longer than its grace.
        GraceElapsed = "grace_elapsed",
        /// It was requested.
        Forced = "forced",
    }
}

/// The request that no peer be awaited.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forced {
    /// The operator that requested it.
    pub by: String,
    /// When.
    pub at: Timestamp,
}

/// A registration that was answered with yes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registered {
    pub peer: Peer,
    /// Whether it was registered before and repeated its request.
    pub replayed: bool,
}

coded! {
    /// Why a registration is refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
    pub enum Refusal {
        /// Another agent registered with the token.
        #[error("the bootstrap token is already consumed")]
        TokenConsumed = "token_consumed",
        /// Another agent used the same nonce.
        #[error("the nonce was used with another key")]
        NonceCollision = "nonce_collision",
        /// The peer is being drained.
        #[error("the node is being drained")]
        Leaving = "peer_leaving",
    }
}

/// Registers an agent; `existing` is the peer that its token became, if any.
pub fn register(
    existing: Option<&Peer>,
    id: PeerId,
    wanted: &Registration,
    now: Timestamp,
) -> Result<Registered, Refusal> {
    let Some(peer) = existing else {
        let registration = wanted.clone();
        let stage = Stage::Registered;
        let peer = Peer { id, registration, registered_at: now, stage, forced: None };
        return Ok(Registered { peer, replayed: false });
    };
    if peer.registration != *wanted {
        let same_nonce = peer.registration.nonce == wanted.nonce;
        let same_key = peer.registration.public_key == wanted.public_key;
        return Err(match (same_nonce, same_key) {
            (true, false) => Refusal::NonceCollision,
            (true, true) | (false, _) => Refusal::TokenConsumed,
        });
    }
    match peer.stage {
        Stage::Registered => Ok(Registered { peer: peer.clone(), replayed: true }),
        Stage::Cordoned { .. } | Stage::Draining { .. } | Stage::Deregistered { .. } => {
            Err(Refusal::Leaving)
        }
    }
}

/// How long a drain waits for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainTimeouts {
    /// For acknowledgements, from the revocation of the key.
    pub acknowledgements: Duration,
    /// For the whole drain, from the cordon.
    pub grace: Duration,
}

impl Default for DrainTimeouts {
    fn default() -> Self {
        Self { acknowledgements: Duration::from_secs(10), grace: Duration::from_secs(30) }
    }
}

/// Another peer, as far as a drain cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Survivor {
    /// Which.
    pub id: PeerId,
    /// The newest snapshot of the mesh it acknowledged.
    pub acknowledged: u64,
    pub liveness: Liveness,
}

/// What is known of the others while a peer drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Others<'a> {
    /// The first snapshot without the draining peer, once it is published.
    pub snapshot: Option<u64>,
    /// The other peers.
    pub survivors: &'a [Survivor],
    /// Whether the draining peer itself is done: it said goodbye, or is lost.
    pub left: bool,
}

impl Others<'_> {
    /// Whether every peer that can has acknowledged; a lost one cannot.
    pub fn have_acknowledged(&self) -> bool {
        self.survivors
            .iter()
            .filter(|it| it.liveness != Liveness::Lost)
            .all(|it| self.snapshot.is_some_and(|snapshot| it.acknowledged >= snapshot))
    }
}

/// The next thing to do for a peer that must be removed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum DrainStep {
    /// Give it nothing new.
    Cordon,
    /// Revoke its key and publish a snapshot without it.
    RevokeKey,
    /// Requeue, at the latest at that time.
    Wait {
        /// When waiting ends by itself.
        until: Timestamp,
    },
    /// Deregister it, and revoke its key if that is still to do.
    Deregister(Cause),
    /// It is out.
    Done,
}

impl Peer {
    /// Requests that no peer be awaited; the first request is the recorded one.
    #[must_use]
    pub fn force(&self, by: &str, now: Timestamp) -> Self {
        let forced_now = || Forced { by: by.to_owned(), at: now };
        Self { forced: Some(self.forced.clone().unwrap_or_else(forced_now)), ..self.clone() }
    }

    /// What to do next to show the peer out.
    pub fn drain(&self, others: &Others<'_>, timeouts: DrainTimeouts, now: Timestamp) -> DrainStep {
        match self.stage {
            Stage::Registered => DrainStep::Cordon,
            Stage::Cordoned { since } if now >= since.after(timeouts.grace) => {
                DrainStep::Deregister(Cause::GraceElapsed)
            }
            Stage::Cordoned { .. } if others.left => DrainStep::RevokeKey,
            // Work in flight may still end; without a key it could not.
            Stage::Cordoned { since } => DrainStep::Wait { until: since.after(timeouts.grace) },
            Stage::Draining { since, key_revoked_at } => {
                let graced = since.after(timeouts.grace);
                let timed_out = key_revoked_at.after(timeouts.acknowledgements);
                if others.have_acknowledged() {
                    DrainStep::Deregister(Cause::Acknowledged)
                } else if self.forced.is_some() {
                    DrainStep::Deregister(Cause::Forced)
                } else if now >= graced {
                    DrainStep::Deregister(Cause::GraceElapsed)
                } else if now >= timed_out {
                    DrainStep::Deregister(Cause::TimedOut)
                } else {
                    DrainStep::Wait { until: graced.min(timed_out) }
                }
            }
            Stage::Deregistered { .. } => DrainStep::Done,
        }
    }

    /// The peer after a step was done; a step that does not fit its stage changes nothing.
    #[must_use]
    pub fn advance(&self, step: DrainStep, now: Timestamp) -> Self {
        let stage = match (self.stage, step) {
            (Stage::Registered, DrainStep::Cordon) => Stage::Cordoned { since: now },
            (Stage::Cordoned { since }, DrainStep::RevokeKey) => {
                Stage::Draining { since, key_revoked_at: now }
            }
            (Stage::Cordoned { .. }, DrainStep::Deregister(cause)) => {
                Stage::Deregistered { key_revoked_at: now, at: now, cause }
            }
            (Stage::Draining { key_revoked_at, .. }, DrainStep::Deregister(cause)) => {
                Stage::Deregistered { key_revoked_at, at: now, cause }
            }
            (
                stage,
                DrainStep::Cordon
                | DrainStep::RevokeKey
                | DrainStep::Wait { .. }
                | DrainStep::Deregister(_)
                | DrainStep::Done,
            ) => stage,
        };
        Self { stage, ..self.clone() }
    }

    /// Whether it is out, with its key revoked.
    pub const fn is_gone(&self) -> bool {
        match self.stage {
            Stage::Deregistered { .. } => true,
            Stage::Registered | Stage::Cordoned { .. } | Stage::Draining { .. } => false,
        }
    }
}

words! {
    /// The liveness of a peer.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Liveness {
        /// It is.
        Live = "live",
        /// It was, and is no more.
        Lost = "lost",
        /// No present server received a heartbeat.
        Unknown = "unknown",
    }
}

/// How often a peer calls, and how many calls it may miss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The time between two calls.
    pub interval: Duration,
    /// It is lost after missing this many.
    pub missed_max: u32,
}

impl Default for Heartbeat {
    fn default() -> Self {
        Self { interval: Duration::from_secs(10), missed_max: 3 }
    }
}

impl Heartbeat {
    /// The liveness of a peer, by its last heartbeat since this process started.
    pub fn liveness(&self, last_heartbeat: Option<Timestamp>, now: Timestamp) -> Liveness {
        let Some(reading) = last_heartbeat else { return Liveness::Unknown };
        if now.since(reading) >= self.interval.saturating_mul(self.missed_max) {
            return Liveness::Lost;
        }
        Liveness::Live
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use uuid::Uuid;

    const START: Timestamp = Timestamp::from_micros(1_000_000);

    fn at(seconds: u64) -> Timestamp {
        START.after(Duration::from_secs(seconds))
    }

    fn just_before(time: Timestamp) -> Timestamp {
        Timestamp::from_micros(time.as_micros() - 1)
    }

    fn id(n: u128) -> PeerId {
        PeerId::from_uuid(Uuid::from_u128(n))
    }

    fn registration() -> Registration {
        Registration {
            token: TokenId::from_uuid(Uuid::from_u128(1)),
            resource: ResourceId::from_uuid(Uuid::from_u128(2)),
            generation: Generation::FIRST,
            project: ProjectId::from_uuid(Uuid::from_u128(3)),
            nonce: "nonce-nonce-nonce".parse().unwrap(),
            public_key: STANDARD.encode([5; 32]).parse().unwrap(),
        }
    }

    fn peer(stage: Stage) -> Peer {
        let fresh = register(None, id(7), &registration(), START).unwrap().peer;
        Peer { stage, ..fresh }
    }

    fn draining() -> Peer {
        peer(Stage::Draining { since: at(0), key_revoked_at: at(1) })
    }

    fn out(cause: Cause) -> Stage {
        Stage::Deregistered { key_revoked_at: at(1), at: at(2), cause }
    }

    fn survivor(acknowledged: u64, liveness: Liveness) -> Survivor {
        Survivor { id: id(8), acknowledged, liveness }
    }

    const SILENT: Others<'static> = Others {
        snapshot: None,
        survivors: &[Survivor {
            id: PeerId::from_uuid(Uuid::from_u128(8)),
            acknowledged: u64::MAX,
            liveness: Liveness::Unknown,
        }],
        left: true,
    };
    const NO_HOLDER: Others<'static> = Others { snapshot: None, survivors: &[], left: true };

    // Requirement: L-13, M-1
    #[test]
    fn a_peer_is_drained_in_order() {
        let timeouts = DrainTimeouts::default();
        let mut it = peer(Stage::Registered);
        let mut seen = Vec::new();
        for second in 0..5 {
            let step = it.drain(&NO_HOLDER, timeouts, at(second));
            seen.push((it.stage.as_str(), step));
            it = it.advance(step, at(second));
        }
        assert_eq!(
            seen,
            [
                ("registered", DrainStep::Cordon),
                ("cordoned", DrainStep::RevokeKey),
                ("draining", DrainStep::Deregister(Cause::Acknowledged)),
                ("deregistered", DrainStep::Done),
                ("deregistered", DrainStep::Done),
            ]
        );
        assert_eq!(it.stage, out(Cause::Acknowledged));
        assert!(it.is_gone());
    }

    // Requirement: M-2
    #[test]
    fn acknowledgements_are_waited_for_ten_seconds() {
        let until = at(11);
        let timeouts = DrainTimeouts::default();
        let wait = draining().drain(&SILENT, timeouts, just_before(until));
        assert_eq!(wait, DrainStep::Wait { until });
        let over = draining().drain(&SILENT, timeouts, until);
        assert_eq!(over, DrainStep::Deregister(Cause::TimedOut));
    }

    // Requirement: M-2
    #[test]
    fn after_thirty_seconds_of_grace_the_control_plane_deregisters_by_itself() {
        let timeouts = DrainTimeouts::default();
        let cordoned = peer(Stage::Cordoned { since: at(0) });
        assert_eq!(cordoned.drain(&SILENT, timeouts, just_before(at(30))), DrainStep::RevokeKey);
        let step = cordoned.drain(&SILENT, timeouts, at(30));
        assert_eq!(step, DrainStep::Deregister(Cause::GraceElapsed));
        let stage =
            Stage::Deregistered { key_revoked_at: at(30), at: at(30), cause: Cause::GraceElapsed };
        assert_eq!(cordoned.advance(step, at(30)).stage, stage);
        let late = peer(Stage::Draining { since: at(0), key_revoked_at: at(25) });
        let wait = late.drain(&SILENT, timeouts, just_before(at(30)));
        assert_eq!(wait, DrainStep::Wait { until: at(30) });
        let step = late.drain(&SILENT, timeouts, at(30));
        assert_eq!(step, DrainStep::Deregister(Cause::GraceElapsed));
    }

    // Requirement: M-12
    #[test]
    fn work_in_flight_is_waited_for_before_the_key_is_revoked() {
        let timeouts = DrainTimeouts::default();
        let cordoned = peer(Stage::Cordoned { since: at(0) });
        let busy = Others { left: false, ..NO_HOLDER };
        let wait = DrainStep::Wait { until: at(30) };
        assert_eq!(cordoned.drain(&busy, timeouts, just_before(at(30))), wait);
        assert_eq!(cordoned.force("ann", at(1)).drain(&busy, timeouts, at(1)), wait);
        assert_eq!(cordoned.drain(&NO_HOLDER, timeouts, at(1)), DrainStep::RevokeKey);
        let over = cordoned.drain(&busy, timeouts, at(30));
        assert_eq!(over, DrainStep::Deregister(Cause::GraceElapsed));
    }

    // Requirement: M-3
    #[test]
    fn force_skips_acknowledgements_only_and_is_recorded() {
        let timeouts = DrainTimeouts::default();
        let forced = draining().force("ann", at(2)).force("bob", at(3));
        assert_eq!(forced.forced, Some(Forced { by: "ann".into(), at: at(2) }));
        let step = forced.drain(&SILENT, timeouts, at(2));
        assert_eq!(step, DrainStep::Deregister(Cause::Forced));
        let after = forced.advance(step, at(2));
        assert_eq!(after.stage, out(Cause::Forced));
        assert_eq!(after.forced, forced.forced);
        let step = forced.drain(&NO_HOLDER, timeouts, at(2));
        assert_eq!(step, DrainStep::Deregister(Cause::Acknowledged));
        let early = peer(Stage::Registered).force("ann", at(0));
        assert_eq!(early.drain(&SILENT, timeouts, at(0)), DrainStep::Cordon);
        let early = peer(Stage::Cordoned { since: at(0) }).force("ann", at(0));
        assert_eq!(early.drain(&SILENT, timeouts, at(0)), DrainStep::RevokeKey);
    }

    // Requirement: M-4
    #[test]
    fn every_reachable_peer_must_acknowledge_the_snapshot() {
        let acknowledged = |snapshot, survivors: &[Survivor]| {
            Others { snapshot, survivors, left: true }.have_acknowledged()
        };
        let live = |number| survivor(number, Liveness::Live);
        assert!(acknowledged(None, &[]));
        assert!(acknowledged(Some(5), &[live(5), live(6)]));
        assert!(!acknowledged(Some(5), &[live(5), live(4)]));
        assert!(!acknowledged(None, &[live(5)]));
        assert!(acknowledged(Some(5), &[live(5), survivor(0, Liveness::Lost)]));
        assert!(!acknowledged(Some(5), &[live(5), survivor(0, Liveness::Unknown)]));
    }

    // Requirement: M-1, M-7
    #[test]
    fn a_step_that_does_not_fit_changes_nothing() {
        let stages = [
            Stage::Registered,
            Stage::Cordoned { since: at(0) },
            Stage::Draining { since: at(0), key_revoked_at: at(1) },
            out(Cause::TimedOut),
        ];
        let steps = [
            DrainStep::Cordon,
            DrainStep::RevokeKey,
            DrainStep::Wait { until: at(9) },
            DrainStep::Deregister(Cause::Forced),
            DrainStep::Done,
        ];
        let mut moves = Vec::new();
        for stage in stages {
            for step in steps {
                let after = peer(stage).advance(step, at(2)).stage;
                if after != stage {
                    moves.push((stage.as_str(), after.as_str()));
                }
            }
        }
        let expected = [
            ("registered", "cordoned"),
            ("cordoned", "draining"),
            ("cordoned", "deregistered"),
            ("draining", "deregistered"),
        ];
        assert_eq!(moves, expected);
        assert_eq!(stages.map(|it| peer(it).is_gone()), [false, false, false, true]);
    }

    // Requirement: M-5
    #[test]
    fn the_same_agent_is_registered_once() {
        let first = register(None, id(7), &registration(), at(0)).unwrap();
        assert!(!first.replayed);
        assert_eq!(first.peer.registered_at, at(0));
        assert_eq!(first.peer.stage, Stage::Registered);
        let again = register(Some(&first.peer), id(9), &registration(), at(5)).unwrap();
        assert_eq!(again, Registered { peer: first.peer, replayed: true });
    }

    // Requirement: M-5
    #[test]
    fn another_agent_with_the_same_token_is_refused() {
        let first = peer(Stage::Registered);
        let refused = |wanted: &Registration| {
            register(Some(&first), id(9), wanted, at(5)).unwrap_err().code()
        };
        let other_key = STANDARD.encode([6; 32]).parse().unwrap();
        let other_key = Registration { public_key: other_key, ..registration() };
        assert_eq!(refused(&other_key), "nonce_collision");
        let other_nonce = "other-other-other".parse().unwrap();
        let other_nonce = Registration { nonce: other_nonce, ..registration() };
        assert_eq!(refused(&other_nonce), "token_consumed");
        let other_life = Registration { generation: Generation(2), ..registration() };
        assert_eq!(refused(&other_life), "token_consumed");
    }

    // Requirement: M-5
    #[test]
    fn a_peer_being_drained_does_not_register_again() {
        let stages = [
            Stage::Cordoned { since: at(0) },
            Stage::Draining { since: at(0), key_revoked_at: at(1) },
            out(Cause::Acknowledged),
        ];
        for stage in stages {
            let refusal = register(Some(&peer(stage)), id(7), &registration(), at(5)).unwrap_err();
            assert_eq!(refusal, Refusal::Leaving);
            assert_eq!(refusal.code(), "peer_leaving");
        }
    }

    // Requirement: M-6
    #[test]
    fn three_missed_calls_make_a_peer_lost() {
        let heartbeat = Heartbeat::default();
        assert_eq!(heartbeat.liveness(Some(at(0)), just_before(at(30))), Liveness::Live);
        assert_eq!(heartbeat.liveness(Some(at(0)), at(30)), Liveness::Lost);
        assert_eq!(heartbeat.liveness(Some(at(9)), at(0)), Liveness::Live);
    }

    // Requirement: M-6
    #[test]
    fn after_a_restart_every_peer_is_unknown_and_none_is_lost() {
        assert_eq!(Heartbeat::default().liveness(None, at(1_000_000)), Liveness::Unknown);
    }

    #[test]
    fn causes_and_liveness_have_words() {
        let causes = Cause::ALL.map(Cause::as_str);
        assert_eq!(causes, ["acknowledged", "timed_out", "grace_elapsed", "forced"]);
        let words = [Liveness::Live, Liveness::Lost, Liveness::Unknown].map(Liveness::as_str);
        assert_eq!(words, ["live", "lost", "unknown"]);
        let (since, key_revoked_at, at, cause) = (START, START, START, Cause::Forced);
        let stages = [
            Stage::Registered,
            Stage::Cordoned { since },
            Stage::Draining { since, key_revoked_at },
            Stage::Deregistered { key_revoked_at, at, cause },
        ];
        assert_eq!(stages.map(Stage::as_str), Stage::WORDS);
    }

    // Requirement: M-10
    #[test]
    fn a_peer_survives_storage() {
        let it = draining().force("ann", at(2));
        let text = serde_json::to_string(&it).unwrap();
        assert_eq!(serde_json::from_str::<Peer>(&text).unwrap(), it);
    }

    proptest! {
        // Requirement: M-2
        #[test]
        fn every_drain_ends_within_its_grace(
            pauses in prop::collection::vec(0_u64..12, 40), force_at in 0_usize..40,
            published in any::<Option<u64>>(), acknowledged in any::<u64>(), left in any::<bool>(),
        ) {
            let survivors = [survivor(acknowledged, Liveness::Live)];
            let others = Others { snapshot: published, survivors: &survivors, left };
            let mut it = peer(Stage::Registered);
            let mut now = START;
            let mut cordoned_at = None;
            for (index, pause) in pauses.into_iter().enumerate() {
                if index == force_at {
                    it = it.force("ann", now);
                }
                let overdue = cordoned_at
                    .is_some_and(|since: Timestamp| now >= since.after(Duration::from_secs(30)));
                let step = it.drain(&others, DrainTimeouts::default(), now);
                it = it.advance(step, now);
                if step == DrainStep::Cordon {
                    cordoned_at = Some(now);
                }
                prop_assert!(!overdue || it.is_gone());
                now = now.after(Duration::from_secs(pause));
            }
            if let Stage::Deregistered { key_revoked_at, at, .. } = it.stage {
                prop_assert!(key_revoked_at <= at);
            }
        }
    }
}
