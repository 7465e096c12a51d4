//! Bootstrap tokens: derived, never stored; redeemed once; gone when they cannot be redeemed any
//! more.
//!
//! ```text
//!   issued ──redeem──▶ consumed ··· the same nonce and key again: the same answer
//!     ├──── revoke ──▶ revoked
//!     └──── min(first Ready + lifetime, issued + 24 h) ──▶ expired
//! ```
//!
//! **Invariants**
//! - The text is a keyed hash of token id and generation, so it can be written again after a crash
//!   without having been kept; only a verifier is stored.
//! - Verifying takes the same time for every wrong text.
//! - No branch but [`Outcome::Redeemed`] consumes a token.
//! - One (resource, generation) has one token id: there is never a second live token.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use usher_kernel::{Generation, Timestamp, coded};

use crate::object::enrolment::{KeyId, Nonce, PublicKey, TokenChange, TokenText};
use crate::object::id::{PeerId, ProjectId, ResourceId, TokenId};
use crate::object::key::ServerKey;
use crate::object::name;

/// No token is valid longer than this after its issue.
pub const AGE_MAX: Duration = Duration::from_hours(24);
/// The shortest lifetime.
pub const LIFETIME_MIN: Duration = Duration::from_mins(5);
/// The longest lifetime.
pub const LIFETIME_MAX: Duration = Duration::from_hours(24);

/// What is stored of a token's text: its SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Verifier([u8; 32]);

impl Verifier {
    /// The verifier of a text.
    pub fn of(text: &TokenText) -> Self {
        Self(Sha256::digest(text.expose()).into())
    }

    /// The verifier as it was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Whether the text is the one, in a time that does not depend on where they differ.
    pub fn accepts(&self, text: &TokenText) -> bool {
        self.0.ct_eq(&Self::of(text).0).into()
    }
}

/// How long a token may be redeemed after its substrate was first Ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "Duration", into = "Duration")]
pub struct Lifetime(Duration);

/// A lifetime outside the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "cannot use token lifetime \"{} s\": it is not within 300 s and 86400 s",
    lifetime.as_secs()
)]
pub struct BadLifetime {
    /// The requested lifetime.
    pub lifetime: Duration,
}

impl BadLifetime {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "token_lifetime"
    }
}

impl Lifetime {
    /// A lifetime within five minutes and a day.
    pub fn new(lifetime: Duration) -> Result<Self, BadLifetime> {
        if !(LIFETIME_MIN..=LIFETIME_MAX).contains(&lifetime) {
            return Err(BadLifetime { lifetime });
        }
        Ok(Self(lifetime))
    }

    /// The span.
    pub const fn as_duration(self) -> Duration {
        self.0
    }
}

impl Default for Lifetime {
    fn default() -> Self {
        Self(Duration::from_hours(1))
    }
}

impl TryFrom<Duration> for Lifetime {
    type Error = BadLifetime;

    fn try_from(lifetime: Duration) -> Result<Self, BadLifetime> {
        Self::new(lifetime)
    }
}

impl From<Lifetime> for Duration {
    fn from(lifetime: Lifetime) -> Self {
        lifetime.0
    }
}

/// The redeemer of a token, and how it is recognised again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consumption {
    /// The peer it became.
    pub peer: PeerId,
    /// The nonce it sent.
    pub nonce: Nonce,
    /// The key it sent.
    pub public_key: PublicKey,
    /// When.
    pub at: Timestamp,
}

/// What is stored of a token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: TokenId,
    /// The resource it enrols.
    pub resource: ResourceId,
    /// The project it enrols into.
    pub project: ProjectId,
    /// The generation it belongs to.
    pub generation: Generation,
    /// The key it was derived with.
    pub key_id: KeyId,
    /// What a text is checked against.
    pub verifier: Verifier,
    /// When it was issued.
    pub issued_at: Timestamp,
    /// When its substrate was first Ready.
    pub first_ready_at: Option<Timestamp>,
    /// How long it is valid from then on.
    pub lifetime: Lifetime,
    /// Its redeemer.
    pub consumed: Option<Consumption>,
    /// When it was withdrawn.
    pub revoked_at: Option<Timestamp>,
}

/// What a token is issued for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Issue {
    /// The resource it enrols.
    pub resource: ResourceId,
    /// The project it enrols into.
    pub project: ProjectId,
    /// The generation it belongs to.
    pub generation: Generation,
    /// How long it is valid.
    pub lifetime: Lifetime,
}

/// The state of the token's resource in the transaction that redeems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourceView {
    /// The current generation.
    pub generation: Generation,
    /// Whether deletion was requested.
    pub deletion_requested: bool,
    /// Whether the current generation is being torn down to make room for the next.
    pub replacing: bool,
}

/// What an agent asks for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The token it sends.
    pub text: TokenText,
    /// The project it believes to enrol into.
    pub project: ProjectId,
    pub nonce: Nonce,
    /// Its key.
    pub public_key: PublicKey,
    /// The peer it becomes if the answer is yes.
    pub peer: PeerId,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub enum Outcome {
    /// Yes: the token is consumed once this is stored with it.
    Redeemed(Consumption),
    /// The same agent repeated its request: it is still this peer.
    Replayed(PeerId),
    /// No.
    Refused(Refusal),
}

coded! {
    /// Why a token is not redeemed.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
    pub enum Refusal {
        /// It is not the text that was issued.
        #[error("cannot redeem token: it is not the one that was issued")]
        WrongVerifier = "token_unknown",
        /// It belongs to another project.
        #[error("cannot redeem token: it belongs to another project")]
        ProjectMismatch = "project_mismatch",
        /// It was withdrawn.
        #[error("cannot redeem token: it is revoked")]
        Revoked = "token_revoked",
        /// Its resource is being torn down.
        #[error("cannot redeem token: its resource is leaving")]
        Leaving = "resource_leaving",
        /// Another agent used the same nonce.
        #[error("cannot redeem token: its nonce was used with another key")]
        NonceCollision = "nonce_collision",
        /// Another agent redeemed it.
        #[error("cannot redeem token: it is consumed")]
        Consumed = "token_consumed",
        /// Its time has passed.
        #[error("cannot redeem token: it has expired")]
        Expired = "token_expired",
    }
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 7] = [
        Self::WrongVerifier,
        Self::ProjectMismatch,
        Self::Revoked,
        Self::Leaving,
        Self::NonceCollision,
        Self::Consumed,
        Self::Expired,
    ];
}

coded! {
    /// Why a token is not revoked.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Error)]
    pub enum RevokeRefusal {
        /// It became a peer: drain that.
        #[error("cannot revoke token: it is consumed")]
        Consumed = "token_consumed",
        /// It already is.
        #[error("cannot revoke token: it is revoked")]
        Revoked = "token_revoked",
    }
}

impl Token {
    /// The record of a generation's token; the text is derived again whenever it is written.
    pub fn issue(key: &ServerKey, to: Issue, now: Timestamp) -> Self {
        let id = name::token(to.resource, to.generation);
        Self {
            id,
            resource: to.resource,
            project: to.project,
            generation: to.generation,
            key_id: key.id().clone(),
            verifier: Verifier::of(&key.derive(id, to.generation)),
            issued_at: now,
            first_ready_at: None,
            lifetime: to.lifetime,
            consumed: None,
            revoked_at: None,
        }
    }

    /// The token once its substrate is Ready; only the first time counts.
    #[must_use]
    pub fn ready(&self, now: Timestamp) -> Self {
        Self { first_ready_at: self.first_ready_at.or(Some(now)), ..self.clone() }
    }

    /// The moment from which it can no longer be redeemed.
    pub fn expires_at(&self) -> Timestamp {
        let hard = self.issued_at.after(AGE_MAX);
        self.first_ready_at.map_or(hard, |at| hard.min(at.after(self.lifetime.0)))
    }

    /// Whether its time has passed.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        now >= self.expires_at()
    }

    /// Whether it can still be redeemed; if not, the token is gone.
    pub fn is_redeemable(&self, resource: ResourceView, now: Timestamp) -> bool {
        self.consumed.is_none()
            && self.revoked_at.is_none()
            && !self.is_leaving(resource)
            && !self.is_expired(now)
    }

    /// Answers an agent that sends a token.
    pub fn redeem(&self, request: &Request, resource: ResourceView, now: Timestamp) -> Outcome {
        if !self.verifier.accepts(&request.text) {
            return Outcome::Refused(Refusal::WrongVerifier);
        }
        if request.project != self.project {
            return Outcome::Refused(Refusal::ProjectMismatch);
        }
        if self.revoked_at.is_some() {
            return Outcome::Refused(Refusal::Revoked);
        }
        let again = self.consumed.as_ref().map(|it| again(it, request));
        // A node whose answer was lost must learn its identity to deregister.
        if let Some(replayed @ Outcome::Replayed(_)) = again {
            return replayed;
        }
        if self.is_leaving(resource) {
            return Outcome::Refused(Refusal::Leaving);
        }
        if let Some(refused) = again {
            return refused;
        }
        if self.is_expired(now) {
            return Outcome::Refused(Refusal::Expired);
        }
        Outcome::Redeemed(Consumption {
            peer: request.peer,
            nonce: request.nonce.clone(),
            public_key: request.public_key.clone(),
            at: now,
        })
    }

    /// Withdraws a token that was not redeemed.
    pub fn revoke(&self, now: Timestamp) -> Result<Self, RevokeRefusal> {
        if self.consumed.is_some() {
            return Err(RevokeRefusal::Consumed);
        }
        if self.revoked_at.is_some() {
            return Err(RevokeRefusal::Revoked);
        }
        Ok(Self { revoked_at: Some(now), ..self.clone() })
    }

    fn is_leaving(&self, resource: ResourceView) -> bool {
        resource.deletion_requested || resource.replacing || resource.generation != self.generation
    }
}

/// A lost answer is repeated, even if expired or in teardown: it grants nothing new.
fn again(consumed: &Consumption, request: &Request) -> Outcome {
    let same_nonce = consumed.nonce == request.nonce;
    let same_key = consumed.public_key == request.public_key;
    match (same_nonce, same_key) {
        (true, true) => Outcome::Replayed(consumed.peer),
        (true, false) => Outcome::Refused(Refusal::NonceCollision),
        (false, _) => Outcome::Refused(Refusal::Consumed),
    }
}

/// The tokens of a resource that change with a write of it, as they are after the write.
pub fn changed(tokens: &[Token], change: TokenChange, now: Timestamp) -> Vec<Token> {
    let after = |token: &Token| {
        let ready = change.ready.filter(|(generation, _)| token.generation == *generation);
        let started = ready.map_or_else(|| token.clone(), |(_, at)| token.ready(at));
        let revoked = if change.teardown_began { started.revoke(now).ok() } else { None };
        let after = revoked.unwrap_or(started);
        (after != *token).then_some(after)
    };
    tokens.iter().filter_map(after).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;
    use uuid::Uuid;

    const ISSUED: Timestamp = Timestamp::from_micros(1_000_000);
    const TICK: Duration = Duration::from_micros(1);

    fn key(byte: u8) -> ServerKey {
        ServerKey::new([byte; 32]).unwrap()
    }

    fn resource() -> ResourceId {
        ResourceId::from_uuid(Uuid::from_u128(1))
    }

    fn project(n: u128) -> ProjectId {
        ProjectId::from_uuid(Uuid::from_u128(n))
    }

    fn peer(n: u128) -> PeerId {
        PeerId::from_uuid(Uuid::from_u128(n))
    }

    fn token() -> Token {
        let to = Issue {
            resource: resource(),
            project: project(2),
            generation: Generation::FIRST,
            lifetime: Lifetime::default(),
        };
        Token::issue(&key(7), to, ISSUED)
    }

    fn request() -> Request {
        Request {
            text: key(7).derive(token().id, Generation::FIRST),
            project: project(2),
            nonce: "nonce-nonce-nonce".parse().unwrap(),
            public_key: STANDARD.encode([5; 32]).parse().unwrap(),
            peer: peer(3),
        }
    }

    fn consumed() -> Token {
        match token().redeem(&request(), staying(), ISSUED) {
            Outcome::Redeemed(consumption) => Token { consumed: Some(consumption), ..token() },
            other @ (Outcome::Replayed(_) | Outcome::Refused(_)) => panic!("{other:?}"),
        }
    }

    const fn staying() -> ResourceView {
        ResourceView { generation: Generation::FIRST, deletion_requested: false, replacing: false }
    }

    fn leaving() -> [ResourceView; 3] {
        [
            ResourceView { deletion_requested: true, ..staying() },
            ResourceView { replacing: true, ..staying() },
            ResourceView { generation: Generation(2), ..staying() },
        ]
    }

    // Requirement: R-20, E-1
    #[test]
    fn the_text_is_the_keyed_hash_of_id_and_generation() {
        let id: TokenId = "01890a5d-ac96-774b-bcce-b302099a8057".parse().unwrap();
        assert_eq!(
            key(7).derive(id, Generation(1)).expose(),
            "ubt_01890a5d-ac96-774b-bcce-b302099a8057_p6vSt69ISW0imaHoTTOUMBo2AcLNCcAq1GyCuWCKseM"
        );
        let verifier = Verifier::of(&key(7).derive(id, Generation(1)));
        assert_eq!(
            STANDARD.encode(verifier.as_bytes()),
            "ey0F86V9cyM8jz+QM1oMhBWKvRPQO3Y2FdYmfZK/1Es="
        );
        assert_eq!(Verifier::from_bytes(*verifier.as_bytes()), verifier);
    }

    // Requirement: E-3
    #[test]
    fn token_ids_are_stable() {
        let id = name::token(resource(), Generation(1));
        assert_eq!(id.to_string(), "c383d5ff-1de8-8f86-9dba-bf0db40e1b78");
    }

    // Requirement: E-1
    #[test]
    fn another_key_id_or_generation_is_another_text() {
        let id = token().id;
        let texts = [
            key(7).derive(id, Generation(1)),
            key(8).derive(id, Generation(1)),
            key(7).derive(id, Generation(2)),
            key(7).derive(name::token(resource(), Generation(2)), Generation(1)),
        ];
        for (index, text) in texts.iter().enumerate() {
            assert_eq!(token().verifier.accepts(text), index == 0);
        }
    }

    // Requirement: E-5
    #[test]
    fn lifetimes_are_five_minutes_to_a_day() {
        for good in [LIFETIME_MIN, LIFETIME_MAX] {
            assert_eq!(Lifetime::new(good).unwrap().as_duration(), good);
        }
        for bad in [LIFETIME_MIN.checked_sub(TICK).unwrap(), LIFETIME_MAX + TICK] {
            let refusal = Lifetime::new(bad).unwrap_err();
            assert_eq!(refusal, BadLifetime { lifetime: bad });
            assert_eq!(refusal.code(), "token_lifetime");
        }
        assert_eq!(LIFETIME_MIN.as_secs(), 300);
        assert_eq!(LIFETIME_MAX.as_secs(), 86_400);
        assert_eq!(Lifetime::default().as_duration().as_secs(), 3_600);
        assert_eq!(
            BadLifetime { lifetime: Duration::from_secs(7) }.to_string(),
            "cannot use token lifetime \"7 s\": it is not within 300 s and 86400 s"
        );
    }

    // Requirement: E-4
    #[test]
    fn a_token_expires_a_lifetime_after_ready_and_a_day_after_issue() {
        let hour = Duration::from_hours(1);
        assert_eq!(token().expires_at(), ISSUED.after(24 * hour));
        let early = token().ready(ISSUED.after(hour));
        assert_eq!(early.expires_at(), ISSUED.after(2 * hour));
        assert_eq!(early.ready(ISSUED.after(9 * hour)).expires_at(), ISSUED.after(2 * hour));
        let late = token().ready(ISSUED.after(24 * hour));
        assert_eq!(late.expires_at(), ISSUED.after(24 * hour));
        let end = early.expires_at();
        assert!(early.is_expired(end));
        assert!(!early.is_expired(Timestamp::from_micros(end.as_micros() - 1)));
    }

    // Requirement: E-4
    #[test]
    fn a_token_is_redeemed_from_issue_on() {
        let after = consumed();
        let expected = Consumption {
            peer: peer(3),
            nonce: request().nonce,
            public_key: request().public_key,
            at: ISSUED,
        };
        assert_eq!(after, Token { consumed: Some(expected), ..token() });
    }

    // Requirement: E-6
    #[test]
    fn a_lost_answer_is_given_again_even_after_expiry() {
        let again = Request { peer: peer(9), ..request() };
        let late = ISSUED.after(2 * AGE_MAX);
        assert_eq!(consumed().redeem(&again, staying(), late), Outcome::Replayed(peer(3)));
    }

    /// Red by: a node that is refused its lost answer and is drained without knowing.
    // Requirement: E-6
    #[test]
    fn a_lost_answer_is_repeated_during_teardown() {
        for view in leaving() {
            let again = consumed().redeem(&request(), view, ISSUED);
            assert_eq!(again, Outcome::Replayed(peer(3)), "{view:?}");
        }
    }

    // Requirement: E-6
    #[test]
    fn every_refusal_has_its_cause() {
        let refused =
            |token: &Token, request: &Request, view, now| match token.redeem(request, view, now) {
                Outcome::Refused(refusal) => refusal,
                other @ (Outcome::Redeemed(_) | Outcome::Replayed(_)) => panic!("{other:?}"),
            };
        let other_text = Request { text: key(8).derive(token().id, Generation(1)), ..request() };
        let other_project = Request { project: project(9), ..request() };
        let other_nonce = Request { nonce: "other-other-other".parse().unwrap(), ..request() };
        let other_key =
            Request { public_key: STANDARD.encode([6; 32]).parse().unwrap(), ..request() };
        let revoked = token().revoke(ISSUED).unwrap();
        let (here, now, end) = (staying(), ISSUED, token().expires_at());
        assert_eq!(refused(&token(), &other_text, here, now), Refusal::WrongVerifier);
        assert_eq!(refused(&token(), &other_project, here, now), Refusal::ProjectMismatch);
        assert_eq!(refused(&revoked, &request(), here, now), Refusal::Revoked);
        for view in leaving() {
            assert_eq!(refused(&token(), &request(), view, now), Refusal::Leaving);
            assert_eq!(refused(&consumed(), &other_nonce, view, now), Refusal::Leaving);
        }
        assert_eq!(refused(&consumed(), &other_key, here, now), Refusal::NonceCollision);
        assert_eq!(refused(&consumed(), &other_nonce, here, now), Refusal::Consumed);
        assert_eq!(refused(&token(), &request(), here, end), Refusal::Expired);
    }

    #[test]
    fn refusals_have_codes() {
        assert_eq!(
            Refusal::ALL.map(|it| it.code()),
            [
                "token_unknown",
                "project_mismatch",
                "token_revoked",
                "resource_leaving",
                "nonce_collision",
                "token_consumed",
                "token_expired",
            ]
        );
        assert_eq!(RevokeRefusal::Consumed.code(), "token_consumed");
        assert_eq!(RevokeRefusal::Revoked.code(), "token_revoked");
    }

    // Requirement: E-12
    #[test]
    fn only_an_open_token_is_revoked() {
        let revoked = token().revoke(ISSUED).unwrap();
        assert_eq!(revoked, Token { revoked_at: Some(ISSUED), ..token() });
        assert_eq!(revoked.revoke(ISSUED), Err(RevokeRefusal::Revoked));
        assert_eq!(consumed().revoke(ISSUED), Err(RevokeRefusal::Consumed));
    }

    // Requirement: L-12
    #[test]
    fn a_token_counts_as_gone_once_it_cannot_be_redeemed() {
        let end = token().expires_at();
        let before = Timestamp::from_micros(end.as_micros() - 1);
        assert!(token().is_redeemable(staying(), before));
        assert!(!token().is_redeemable(staying(), end));
        assert!(!consumed().is_redeemable(staying(), ISSUED));
        assert!(!token().revoke(ISSUED).unwrap().is_redeemable(staying(), ISSUED));
        for view in leaving() {
            assert!(!token().is_redeemable(view, ISSUED));
        }
    }

    // Requirement: E-2
    #[test]
    fn nothing_shows_key_or_text() {
        let text = request().text;
        let secret = &text.expose()[41..];
        let shown = [
            format!("{:?}", key(7)),
            format!("{:#?}", request()),
            format!("{:#?}", token()),
            format!("{:#?}", token().redeem(&request(), staying(), ISSUED)),
        ];
        for shown in shown {
            assert!(!shown.contains(secret), "{shown}");
            assert!(!shown.contains("7, 7, 7"), "{shown}");
        }
        assert_eq!(format!("{:?}", key(7)), "ServerKey(a130668f1499ee36, redacted)");
    }

    // Requirement: E-2
    #[test]
    fn a_record_survives_storage() {
        let text = serde_json::to_string(&consumed()).unwrap();
        assert_eq!(serde_json::from_str::<Token>(&text).unwrap(), consumed());
    }

    proptest! {
        #[test]
        fn every_derived_text_is_a_legal_token_of_its_own(
            resource in 1_u128.., generation in any::<u32>(), bytes in any::<[u8; 32]>(),
        ) {
            let Ok(key) = ServerKey::new(bytes) else { return Ok(()) };
            let resource = ResourceId::from_uuid(Uuid::from_u128(resource));
            let id = name::token(resource, Generation(generation));
            prop_assert_eq!(id.as_uuid().get_version_num(), 8);
            prop_assert!(id.to_string().parse::<TokenId>().is_ok());
            let text = key.derive(id, Generation(generation));
            let read: TokenText = text.expose().parse().unwrap();
            prop_assert!(Verifier::of(&text).accepts(&read));
            prop_assert_ne!(id, name::token(resource, Generation(generation.wrapping_add(1))));
        }

        // Requirement: E-7
        #[test]
        fn redeemable_and_redeem_agree(
            revoked in any::<bool>(), used in any::<bool>(), deletion in any::<bool>(),
            replacing in any::<bool>(), generation in 1_u32..3, hours in 0_u32..30,
        ) {
            let mut it = if used { consumed() } else { token() };
            if revoked {
                it.revoked_at = Some(ISSUED);
            }
            let generation = Generation(generation);
            let view = ResourceView { generation, deletion_requested: deletion, replacing };
            let now = ISSUED.after(hours * Duration::from_hours(1));
            let redeemed = matches!(it.redeem(&request(), view, now), Outcome::Redeemed(_));
            prop_assert_eq!(redeemed, it.is_redeemable(view, now));
        }
    }

    #[test]
    fn the_current_token_starts_its_lifetime_and_open_ones_are_revoked() {
        let [old, current] =
            [1, 2].map(|number| Token { generation: Generation(number), ..token() });
        let tokens = [old.revoke(ISSUED).unwrap(), current.clone()];
        let now = ISSUED.after(TICK);
        let after = |it: TokenChange| changed(&tokens, it, now);
        let nothing = TokenChange::default();
        assert_eq!(after(nothing), []);
        let ready = TokenChange { ready: Some((Generation(2), now)), ..nothing };
        assert_eq!(after(ready), [current.ready(now)], "only the current one");
        let began = TokenChange { teardown_began: true, ..nothing };
        assert_eq!(after(began), [current.revoke(now).unwrap()], "only what is open");
        let both = TokenChange { teardown_began: true, ..ready };
        assert_eq!(after(both), [current.ready(now).revoke(now).unwrap()]);
    }
}
