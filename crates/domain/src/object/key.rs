//! The keys of an installation: every secret it issues is derived from one of them.
//!
//! ```text
//!   root ──HKDF-SHA-256, one label per purpose──┬─▶ bootstrap tokens
//!                                               ├─▶ node secrets
//!                                               └─▶ receipts
//!   current ──rotate──▶ previous ──no open token and no live node names it──▶ retired
//! ```
//!
//! **Invariants**
//! - The database records key ids, never keys; the key file holds keys and no states.
//! - A secret for one purpose is of no use for another one.

use std::fmt;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hkdf::Hkdf;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use thiserror::Error;
use usher_kernel::{Generation, Timestamp};

use super::closed::closed_set;
use super::enrolment::{KeyId, TokenText};
use super::id::{PeerId, TokenId};
use super::manifest::SecretText;

/// What every secret of a node begins with.
pub const NODE_SECRET_PREFIX: &str = "uns_";

const BOOTSTRAP_TOKENS: &[u8] = b"usher bootstrap tokens";
const NODE_SECRETS: &[u8] = b"usher node secrets";
const RECEIPTS: &[u8] = b"usher receipts";

closed_set! {
    /// What a key is used for.
    "key state" KeyState {
        /// New secrets are derived with it.
        Current = "current",
        /// Secrets that were derived with it are valid.
        Previous = "previous",
        /// No valid secret names it: it may be removed from the key file.
        Retired = "retired",
    }
}

/// What is recorded of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRecord {
    pub id: KeyId,
    pub state: KeyState,
    pub current_since: Timestamp,
    /// When the next key became current.
    pub superseded_at: Option<Timestamp>,
    pub retired_at: Option<Timestamp>,
}

/// A key of an installation, as the keys derived from it.
#[derive(Clone)]
pub struct ServerKey {
    id: KeyId,
    tokens: [u8; 32],
    nodes: [u8; 32],
    receipts: [u8; 32],
}

/// The key was never filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("cannot use server key: it is zero")]
pub struct ZeroKey;

impl ServerKey {
    /// A key from 32 random bytes.
    pub fn new(root: [u8; 32]) -> Result<Self, ZeroKey> {
        if root == [0; 32] {
            return Err(ZeroKey);
        }
        let hkdf = Hkdf::<Sha256>::new(None, &root);
        let derive = |label: &[u8]| {
            let mut key = [0; 32];
            hkdf.expand(label, &mut key).map(|()| key).map_err(|_| ZeroKey)
        };
        Ok(Self {
            id: id(&root),
            tokens: derive(BOOTSTRAP_TOKENS)?,
            nodes: derive(NODE_SECRETS)?,
            receipts: derive(RECEIPTS)?,
        })
    }

    /// The id of this key.
    pub const fn id(&self) -> &KeyId {
        &self.id
    }

    /// The text of a token: the same for the same id and generation, for ever.
    pub fn derive(&self, id: TokenId, generation: Generation) -> TokenText {
        let generation = generation.0.to_be_bytes();
        TokenText::compose(id, &mac(&self.tokens, &[id.as_uuid().as_bytes(), &generation]))
    }

    /// What a registered node calls with: `uns_<43 base64url>`, the same for ever.
    pub fn node_secret(&self, node: PeerId) -> SecretText {
        let secret = URL_SAFE_NO_PAD.encode(mac(&self.nodes, &[node.as_uuid().as_bytes()]));
        SecretText::new(format!("{NODE_SECRET_PREFIX}{secret}"))
    }

    /// Whether a text is a node's secret, in a time that does not depend on where they differ.
    pub fn is_node_secret(&self, node: PeerId, text: &SecretText) -> bool {
        let hash = |it: &SecretText| Sha256::digest(it.expose());
        hash(&self.node_secret(node)).ct_eq(&hash(text)).into()
    }

    /// The message authentication code of a receipt, in base64url.
    pub fn seal(&self, receipt: &[u8]) -> String {
        URL_SAFE_NO_PAD.encode(mac(&self.receipts, &[receipt]))
    }

    /// Whether a code is the one of a receipt, in a time that does not depend on where they differ.
    pub fn is_seal(&self, receipt: &[u8], code: &str) -> bool {
        self.seal(receipt).as_bytes().ct_eq(code.as_bytes()).into()
    }
}

impl fmt::Debug for ServerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServerKey({}, redacted)", self.id.as_str())
    }
}

fn id(root: &[u8; 32]) -> KeyId {
    let hash = Sha256::new().chain_update(b"usher server key id\0").chain_update(root);
    let mut text = String::with_capacity(16);
    for byte in hash.finalize().iter().take(8) {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    KeyId::from_stored(text)
}

fn mac(key: &[u8; 32], parts: &[&[u8]]) -> [u8; 32] {
    // HMAC fills a short key with zeros up to its block; done here, nothing can fail.
    let mut block = [0; 64];
    block[..32].copy_from_slice(key);
    let mut mac = Hmac::<Sha256>::new(&block.into());
    for part in parts {
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    fn key(byte: u8) -> ServerKey {
        ServerKey::new([byte; 32]).unwrap()
    }

    fn node(n: u128) -> PeerId {
        PeerId::from_uuid(Uuid::from_u128(n))
    }

    // Requirement: M-15
    #[test]
    fn a_node_has_one_secret_and_no_other_opens() {
        let secret = key(7).node_secret(node(1));
        assert_eq!(secret.expose(), "uns_9Lr3chSR4WbiVSdtKywYOLS0b6-uriSqYH7yWZ75IfM");
        assert!(key(7).is_node_secret(node(1), &secret));
        assert!(!key(7).is_node_secret(node(2), &secret));
        assert!(!key(8).is_node_secret(node(1), &secret));
        assert!(!key(7).is_node_secret(node(1), &SecretText::new("")));
    }

    // Requirement: E-3
    #[test]
    fn key_ids_are_stable_and_a_zero_key_is_no_key() {
        assert_eq!(key(7).id().as_str(), "a130668f1499ee36");
        assert_eq!(KeyId::from_stored("a130668f1499ee36"), *key(7).id());
        assert_ne!(key(8).id(), key(7).id());
        assert_eq!(ServerKey::new([0; 32]).unwrap_err(), ZeroKey);
        assert_eq!(ZeroKey.to_string(), "cannot use server key: it is zero");
    }

    /// Red by: one key for several purposes, so that a token could be passed off as a receipt.
    // Requirement: E-20
    #[test]
    fn every_purpose_has_its_own_key() {
        let ServerKey { tokens, nodes, receipts, .. } = key(7);
        assert!(tokens != nodes && nodes != receipts && receipts != tokens);
        let sealed = key(7).seal(node(1).as_uuid().as_bytes());
        assert!(!key(7).node_secret(node(1)).expose().contains(&sealed));
    }

    // Requirement: E-24
    #[test]
    fn a_changed_receipt_does_not_fit_its_seal() {
        let seal = key(7).seal(b"receipt");
        assert_eq!(seal, "dQF0XFLNcK9yxRn-9ny-Jo8JebZ_obEIw0FuU7mbiKw");
        assert!(key(7).is_seal(b"receipt", &seal));
        assert!(!key(7).is_seal(b"Receipt", &seal));
        assert!(!key(8).is_seal(b"receipt", &seal));
        assert!(!key(7).is_seal(b"receipt", ""));
    }
}
