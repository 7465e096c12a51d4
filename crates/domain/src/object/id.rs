//! Typed ids: each kind is its own type, so that none can be used for another.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use uuid::Uuid;

use super::offender::shortened;

/// A text that is no id, or the id that means "none".
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("id \"{text}\" is not a UUID in lower case")]
pub struct BadId {
    /// The offending text, shortened.
    pub text: String,
}

macro_rules! typed_ids {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(Uuid);

        impl $name {
            /// The id with these bytes; the zero id stays recognisable by [`Self::is_zero`].
            pub const fn from_uuid(uuid: Uuid) -> Self {
                Self(uuid)
            }

            /// Whether this is the id that means "none".
            pub const fn is_zero(self) -> bool {
                self.0.is_nil()
            }

            /// The bytes.
            pub const fn as_uuid(&self) -> &Uuid {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.hyphenated().fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;

            fn from_str(text: &str) -> Result<Self, BadId> {
                parse(text).map(Self)
            }
        }
    )+};
}

typed_ids! {
    /// A provisioned resource of the broker.
    ResourceId,
    /// The tenancy resource that backs a declaration.
    TenancyId,
    /// A project.
    ProjectId,
    /// A blueprint, whatever its versions.
    BlueprintId,
    /// A published, immutable blueprint version.
    BlueprintVersionId,
    /// A cloud.
    CloudId,
    /// A cloud credential.
    CredentialId,
    /// A bootstrap token.
    TokenId,
    /// A peer of the mesh.
    PeerId,
    /// The counted row of one ProviderConfig.
    ProviderConfigId,
    /// One installation of Usher.
    InstallationId,
    /// One record of a machine: what reappears under the name of a machine that is gone is another
    /// machine.
    MachineRecordId,
    /// One row of the event log; the same in every delivery.
    EventId,
    /// One row of the audit log.
    AuditId,
    /// The token of an operator.
    OperatorTokenId,
}

/// Only the canonical form is an id: lowercase, hyphenated, not zero.
fn parse(text: &str) -> Result<Uuid, BadId> {
    let bad = || BadId { text: shortened(text) };
    let uuid = Uuid::try_parse(text).map_err(|_| bad())?;
    if uuid.is_nil() || uuid.hyphenated().to_string() != text {
        return Err(bad());
    }
    Ok(uuid)
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: A-5
    #[test]
    fn only_the_canonical_text_is_an_id() {
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        let id: ResourceId = text.parse().unwrap();
        assert_eq!(id.to_string(), text);
        assert_eq!(ResourceId::from_uuid(*id.as_uuid()), id);
        let bad = [
            "",
            "01890A5D-AC96-774B-BCCE-B302099A8057",
            "01890a5dac96774bbcceb302099a8057",
            "{01890a5d-ac96-774b-bcce-b302099a8057}",
            "00000000-0000-0000-0000-000000000000",
            "01890a5d-ac96-774b-bcce-b302099a8057 ",
        ];
        for text in bad {
            assert!(text.parse::<ResourceId>().is_err(), "{text:?}");
        }
    }

    // Requirement: C-9
    #[test]
    fn a_long_offender_is_named_shortened() {
        let offender = "é".repeat(500);
        let refusal = offender.parse::<ProjectId>().unwrap_err();
        assert_eq!(refusal.text.chars().count(), 64);
    }

    // Requirement: A-5
    #[test]
    fn zero_is_recognised() {
        assert!(ResourceId::from_uuid(Uuid::nil()).is_zero());
    }
}
