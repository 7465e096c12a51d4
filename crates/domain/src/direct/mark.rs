//! The ownership mark of a cloud object, and the idempotency token of a create.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use usher_kernel::Uid;
use uuid::{Builder, Uuid};

use crate::object::id::{BadId, InstallationId};
use crate::object::offender::shortened;

/// The id that every repetition of one create carries, so that a cloud does it at most once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RequestId(Uuid);

impl RequestId {
    /// The request of one attempt: derived, so that it is known before it is sent and the same
    /// after a crash.
    pub fn of(binding: &Binding, attempt: u32) -> Self {
        let digest = Sha256::new()
            .chain_update(b"usher direct request\0")
            .chain_update(binding.installation.as_uuid().as_bytes())
            .chain_update(attempt.to_be_bytes())
            .chain_update(binding.object.0.as_bytes())
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        Self(Builder::from_custom_bytes(bytes).into_uuid())
    }
}

impl fmt::Display for RequestId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.hyphenated().fmt(f)
    }
}

impl FromStr for RequestId {
    type Err = BadId;

    fn from_str(text: &str) -> Result<Self, BadId> {
        let bad = || BadId { text: shortened(text) };
        let uuid = Uuid::try_parse(text).map_err(|_| bad())?;
        if uuid.hyphenated().to_string() != text {
            return Err(bad());
        }
        Ok(Self(uuid))
    }
}

/// What a recorded identity is bound to: one Kubernetes object in one installation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Binding {
    pub installation: InstallationId,
    /// The uid of the Kubernetes object.
    pub object: Uid,
}

/// The mark of ownership on a cloud object, as its labels say it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Mark {
    pub owner: Binding,
    /// The request that created it.
    pub request: RequestId,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direct::fixture::binding;

    // Requirement: I-21
    #[test]
    fn a_request_is_one_per_object_and_attempt() {
        let one = RequestId::of(&binding(), 1);
        assert_eq!(one, RequestId::of(&binding(), 1));
        let other = Binding { object: Uid::new("other"), ..binding() };
        assert_ne!(one, RequestId::of(&other, 1));
        assert_ne!(one, RequestId::of(&binding(), 2));
        assert_eq!(one.to_string().parse(), Ok(one));
    }

    #[test]
    fn only_the_canonical_text_is_a_request() {
        let text = RequestId::of(&binding(), 1).to_string();
        for bad in ["", "x", &text.to_uppercase(), &text.replace('-', "")] {
            assert!(bad.parse::<RequestId>().is_err(), "{bad}");
        }
    }
}
