//! What an agent sends to enrol: token text, nonce and public key, as checked data.
//!
//! It is among the shared objects because rendering writes the token, tokens verify it, and
//! peers remember nonce and key, and none of them imports another.
//!
//! **Invariants**
//! - A token text is printable ASCII of one fixed shape, so no document can be broken by it.
//! - No refusal repeats a token.

use std::fmt;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{Generation, Timestamp, coded};

use super::id::TokenId;
use super::manifest::SecretText;
use super::offender::shortened;
use super::text::checked_texts;

/// What every token text begins with.
pub const TOKEN_PREFIX: &str = "ubt_";
/// The length of the id inside a token text.
const TOKEN_ID_LENGTH: usize = 36;
/// The length of 32 bytes in unpadded base64url.
const TOKEN_SECRET_LENGTH: usize = 43;
/// The length of every token text.
pub const TOKEN_LENGTH: usize = TOKEN_PREFIX.len() + TOKEN_ID_LENGTH + 1 + TOKEN_SECRET_LENGTH;
/// The shortest nonce.
pub const NONCE_MIN: usize = 16;
/// The longest nonce.
pub const NONCE_MAX: usize = 64;

/// What a write of a resource does to its tokens: the broker decides it, the tokens follow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenChange {
    /// The generation whose substrate became ready, and when: its token's lifetime starts.
    pub ready: Option<(Generation, Timestamp)>,
    /// Whether teardown began: what was not redeemed is revoked.
    pub teardown_began: bool,
}

coded! {
    /// A text that is no bootstrap token. It never repeats the text.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
    pub enum BadToken {
        /// Not 84 characters long.
        #[error("bootstrap token has the wrong length")]
        Length = "token_length",
        /// Does not begin as tokens do.
        #[error("bootstrap token has the wrong prefix")]
        Prefix = "token_prefix",
        /// The id inside is no id.
        #[error("bootstrap token has an invalid id")]
        Id = "token_id",
        /// The secret part is not 32 bytes in base64url.
        #[error("bootstrap token has an invalid secret part")]
        Secret = "token_secret",
    }
}

/// The plaintext of a bootstrap token: `ubt_<token id>_<43 base64url>`.
#[derive(Clone)]
pub struct TokenText {
    id: TokenId,
    text: SecretText,
}

impl TokenText {
    /// The text of a token from its id and its secret part.
    pub fn compose(id: TokenId, secret: &[u8; 32]) -> Self {
        let text = format!("{TOKEN_PREFIX}{id}_{}", URL_SAFE_NO_PAD.encode(secret));
        Self { id, text: SecretText::new(text) }
    }

    /// Which token it claims to be.
    pub const fn id(&self) -> TokenId {
        self.id
    }

    /// The text, for the one place that must write or hash it.
    pub fn expose(&self) -> &str {
        self.text.expose()
    }
}

impl fmt::Debug for TokenText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenText({}, redacted)", self.id)
    }
}

impl FromStr for TokenText {
    type Err = BadToken;

    fn from_str(text: &str) -> Result<Self, BadToken> {
        if text.len() != TOKEN_LENGTH {
            return Err(BadToken::Length);
        }
        let rest = text.strip_prefix(TOKEN_PREFIX).ok_or(BadToken::Prefix)?;
        let (id, rest) = rest.split_at_checked(TOKEN_ID_LENGTH).ok_or(BadToken::Id)?;
        let id: TokenId = id.parse().map_err(|_| BadToken::Id)?;
        let secret = rest.strip_prefix('_').ok_or(BadToken::Secret)?;
        let bytes = URL_SAFE_NO_PAD.decode(secret).map_err(|_| BadToken::Secret)?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| BadToken::Secret)?;
        Ok(Self::compose(id, &bytes))
    }
}

/// A text that is no nonce.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("nonce \"{text}\" is not {NONCE_MIN} to {NONCE_MAX} letters, digits, '-' or '_'")]
pub struct BadNonce {
    /// The offending text, shortened.
    pub text: String,
}

impl BadNonce {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "nonce_invalid"
    }
}

/// What an agent chose once for its registration, so that a repetition is recognised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Nonce(String);

impl FromStr for Nonce {
    type Err = BadNonce;

    fn from_str(text: &str) -> Result<Self, BadNonce> {
        let inner = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
        if !(NONCE_MIN..=NONCE_MAX).contains(&text.len()) || !text.bytes().all(inner) {
            return Err(BadNonce { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

coded! {
    /// A text that is no public key.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum BadPublicKey {
        /// Not 32 bytes in base64.
        #[error("public key \"{0}\" is not 32 bytes in base64")]
        Encoding(String) = "public_key_encoding",
        /// All bytes are zero.
        #[error("public key \"{0}\" is zero")]
        Zero(String) = "public_key_zero",
    }
}

/// The public key of a peer: 32 bytes, not all zero.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PublicKey([u8; 32]);

impl PublicKey {
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&STANDARD.encode(self.0))
    }
}

impl FromStr for PublicKey {
    type Err = BadPublicKey;

    fn from_str(text: &str) -> Result<Self, BadPublicKey> {
        let bad = || BadPublicKey::Encoding(shortened(text));
        let bytes = STANDARD.decode(text).map_err(|_| bad())?;
        let bytes: [u8; 32] = bytes.try_into().map_err(|_| bad())?;
        if bytes == [0; 32] {
            return Err(BadPublicKey::Zero(shortened(text)));
        }
        Ok(Self(bytes))
    }
}

checked_texts!(Nonce: BadNonce);

impl TryFrom<String> for PublicKey {
    type Error = BadPublicKey;

    fn try_from(text: String) -> Result<Self, BadPublicKey> {
        text.parse()
    }
}

impl From<PublicKey> for String {
    fn from(key: PublicKey) -> Self {
        key.to_string()
    }
}

/// Which key a token was derived with; says nothing about the key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct KeyId(String);

impl KeyId {
    /// The id as it was stored.
    pub fn from_stored(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text: 16 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use uuid::Uuid;

    const TEXT: &str =
        "ubt_01890a5d-ac96-774b-bcce-b302099a8057__-8BAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4";

    #[test]
    fn a_token_text_is_read_and_written_alike() {
        let token: TokenText = TEXT.parse().unwrap();
        assert_eq!(TEXT.len(), 84);
        assert_eq!(TOKEN_LENGTH, 84);
        assert_eq!(token.expose(), TEXT);
        assert_eq!(token.id().to_string(), "01890a5d-ac96-774b-bcce-b302099a8057");
    }

    // Requirement: E-13
    #[test]
    fn a_hostile_token_text_is_refused_by_the_part_that_is_wrong() {
        let cases = [
            (String::new(), BadToken::Length),
            (TEXT[1..].to_owned(), BadToken::Length),
            (format!("{TEXT}A"), BadToken::Length),
            (TEXT.replace("ubt_", "UBT_"), BadToken::Prefix),
            (TEXT.replace("ac96-", "AC96-"), BadToken::Id),
            (TEXT.replace("57__", "57-_"), BadToken::Secret),
            (TEXT.replace("QYH", "Q'H"), BadToken::Secret),
            (TEXT.replace("QYH", "Q\nH"), BadToken::Secret),
            // The last character carries four bits; the others must be zero.
            (TEXT.replace("HR4", "HR5"), BadToken::Secret),
        ];
        for (text, refusal) in cases {
            assert_eq!(text.parse::<TokenText>().unwrap_err(), refusal, "{text}");
        }
    }

    // Requirement: E-13
    #[test]
    fn refusals_have_codes_and_repeat_no_token() {
        let codes = [BadToken::Length, BadToken::Prefix, BadToken::Id, BadToken::Secret]
            .map(|it| it.code());
        assert_eq!(codes, ["token_length", "token_prefix", "token_id", "token_secret"]);
        let refusal = TEXT.replace("HR4", "HR5").parse::<TokenText>().unwrap_err();
        assert_eq!(refusal.to_string(), "bootstrap token has an invalid secret part");
    }

    #[test]
    fn debug_names_the_token_and_hides_the_secret() {
        let token: TokenText = TEXT.parse().unwrap();
        let shown = format!("{token:?}");
        assert_eq!(shown, "TokenText(01890a5d-ac96-774b-bcce-b302099a8057, redacted)");
    }

    // Requirement: E-14
    #[test]
    fn nonces_are_sixteen_to_sixty_four_plain_characters() {
        for text in ["n".repeat(16), "N-_9".repeat(16)] {
            assert_eq!(text.parse::<Nonce>().unwrap().as_str(), text);
        }
        for text in ["n".repeat(15), "n".repeat(65), format!("{}é", "n".repeat(16))] {
            let refusal = text.parse::<Nonce>().unwrap_err();
            assert_eq!(refusal, BadNonce { text: shortened(&text) });
            assert_eq!(refusal.code(), "nonce_invalid");
        }
    }

    // Requirement: E-14
    #[test]
    fn a_public_key_is_thirty_two_bytes_and_not_zero() {
        let text = STANDARD.encode([7; 32]);
        let key: PublicKey = text.parse().unwrap();
        assert_eq!(key.as_bytes(), &[7; 32]);
        assert_eq!(key.to_string(), text);
        for bytes in [vec![7; 31], vec![7; 33]] {
            let refusal = STANDARD.encode(bytes).parse::<PublicKey>().unwrap_err();
            assert_eq!(refusal.code(), "public_key_encoding");
        }
        assert_eq!("\"".parse::<PublicKey>().unwrap_err().code(), "public_key_encoding");
        let zero = STANDARD.encode([0; 32]).parse::<PublicKey>().unwrap_err();
        assert_eq!(zero.code(), "public_key_zero");
    }

    // Requirement: E-14
    #[test]
    fn stored_nonces_and_keys_are_checked_again_when_read() {
        let nonce: Nonce = serde_json::from_str("\"nnnnnnnnnnnnnnnn\"").unwrap();
        assert_eq!(serde_json::to_string(&nonce).unwrap(), "\"nnnnnnnnnnnnnnnn\"");
        assert!(serde_json::from_str::<Nonce>("\"n\"").is_err());
        let text = format!("\"{}\"", STANDARD.encode([7; 32]));
        let key: PublicKey = serde_json::from_str(&text).unwrap();
        assert_eq!(serde_json::to_string(&key).unwrap(), text);
        assert!(serde_json::from_str::<PublicKey>("\"\"").is_err());
    }

    proptest! {
        // Requirement: E-13
        #[test]
        fn garbage_is_refused(text in any::<String>(), near in "ubt_[0-9a-f-]{36}_.{40,46}") {
            prop_assert!(text.parse::<TokenText>().is_err());
            if let Ok(token) = near.parse::<TokenText>() {
                prop_assert_eq!(token.expose(), near);
            }
            if let Ok(nonce) = text.parse::<Nonce>() {
                prop_assert_eq!(nonce.as_str(), text.as_str());
            }
            if let Ok(key) = text.parse::<PublicKey>() {
                prop_assert_eq!(key.to_string(), text);
            }
        }

        #[test]
        fn every_composed_token_is_read_back(id in 1_u128.., secret in any::<[u8; 32]>()) {
            let id = TokenId::from_uuid(Uuid::from_u128(id));
            let token = TokenText::compose(id, &secret);
            let read: TokenText = token.expose().parse().unwrap();
            prop_assert_eq!(read.id(), id);
            prop_assert_eq!(read.expose(), token.expose());
        }
    }
}
