//! Idempotency keys: a request that is repeated is answered again and not done again.
//!
//! **Invariants**
//! - A key belongs to one caller in one project; no caller sees another's.
//! - The same key with another request is refused, never answered with the first one's answer.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use usher_kernel::{Timestamp, coded};

use crate::object::id::ProjectId;
use crate::object::offender::shortened;
use crate::object::text::checked_texts;

/// The longest key.
pub const LENGTH_MAX: usize = 255;

/// What a caller chose to recognise its request by.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(String);

coded! {
    /// Why a key is refused.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// The text is no key.
        #[error("idempotency key \"{0}\" is not 1 to {LENGTH_MAX} visible ASCII characters")]
        Invalid(String) = "idempotency_key_invalid",
        /// It was used before, for something else.
        #[error("idempotency key \"{0}\" was used for another request")]
        Reused(String) = "idempotency_key_reused",
    }
}

impl FromStr for Key {
    type Err = Refusal;

    fn from_str(text: &str) -> Result<Self, Refusal> {
        let visible = text.bytes().all(|byte| byte.is_ascii_graphic());
        if !(1..=LENGTH_MAX).contains(&text.len()) || !visible {
            return Err(Refusal::Invalid(shortened(text)));
        }
        Ok(Self(text.to_owned()))
    }
}

checked_texts!(Key: Refusal);

/// The owner of the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope {
    pub caller: String,
    pub project: ProjectId,
}

/// The request, as a SHA-256.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// The digest of a request, in its one spelling.
    pub fn of(request: &[u8]) -> Self {
        Self(Sha256::digest(request).into())
    }

    /// The digest as it was stored.
    pub const fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The bytes to store.
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

/// A key that was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Used {
    /// The digest of the request.
    pub digest: Digest,
    /// The id of what it made.
    pub answer: String,
    /// Until when it is remembered.
    pub expires_at: Timestamp,
}

/// What to do with a request with a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is new: do it, and remember.
    Fresh,
    /// It was done: answer with this again.
    Replay(String),
}

/// Judges a request by what is remembered of its key.
pub fn judge(
    key: &Key,
    digest: Digest,
    used: Option<&Used>,
    now: Timestamp,
) -> Result<Verdict, Refusal> {
    match used {
        Some(used) if now < used.expires_at && used.digest != digest => {
            Err(Refusal::Reused(key.to_string()))
        }
        Some(used) if now < used.expires_at => Ok(Verdict::Replay(used.answer.clone())),
        Some(_) | None => Ok(Verdict::Fresh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_micros(5);
    const LATER: Timestamp = Timestamp::from_micros(6);

    #[test]
    fn a_key_is_visible_ascii() {
        for text in ["a", "01890a5d-ac96-774b-bcce-b302099a8057", &"k".repeat(255)] {
            assert_eq!(text.parse::<Key>().unwrap().as_str(), text);
        }
        for text in ["", "a b", "é", "a\n", &"k".repeat(256)] {
            let refusal = text.parse::<Key>().unwrap_err();
            assert_eq!(refusal, Refusal::Invalid(shortened(text)));
            assert_eq!(refusal.code(), "idempotency_key_invalid");
        }
    }

    #[test]
    fn a_repeated_request_is_answered_and_another_one_refused() {
        let key: Key = "k".parse().unwrap();
        let (same, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let used = |expires_at| Used { digest: same, answer: "id".into(), expires_at };
        assert_eq!(judge(&key, same, None, NOW), Ok(Verdict::Fresh));
        assert_eq!(judge(&key, same, Some(&used(LATER)), NOW), Ok(Verdict::Replay("id".into())));
        let refusal = judge(&key, other, Some(&used(LATER)), NOW).unwrap_err();
        assert_eq!(refusal.code(), "idempotency_key_reused");
        assert_eq!(judge(&key, other, Some(&used(NOW)), NOW), Ok(Verdict::Fresh), "forgotten");
    }

    #[test]
    fn a_digest_is_kept_as_it_was() {
        let digest = Digest::of(b"request");
        assert_eq!(Digest::from_bytes(*digest.as_bytes()), digest);
    }
}
