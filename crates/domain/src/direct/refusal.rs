//! The closed set of refusals of direct resources: what was wrong, and with what.

use thiserror::Error;

use super::identity::BadIdentity;
use super::recorded::Unbound;
use super::reference::BadReference;

/// Why an object, a row or a command is refused. The wire code is [`Refusal::code`].
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A value breaks an invariant of the row.
    #[error("cannot accept field \"{what}\"")]
    InvalidInput {
        /// The offending field.
        what: String,
    },
    /// The metadata of an object is not what an API server writes.
    #[error("cannot read metadata \"{what}\"")]
    MetadataMalformed {
        /// The offending member.
        what: String,
    },
    /// An identity cannot be read.
    #[error(transparent)]
    Identity(#[from] BadIdentity),
    /// A reference cannot be read.
    #[error(transparent)]
    Reference(#[from] BadReference),
    /// A stamp is no record of this object.
    #[error(transparent)]
    Stamp(#[from] Unbound),
    /// Only what is being deleted can be given up.
    #[error("cannot abandon \"{what}\": its deletion was not asked for")]
    NotLeaving {
        /// The object.
        what: String,
    },
    /// A reason must be given.
    #[error("cannot abandon \"{what}\" without a reason")]
    ReasonRequired {
        /// The object.
        what: String,
    },
}

impl Refusal {
    /// The stable code on the wire and the name of the page that explains it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidInput { .. } => "invalid_input",
            Self::MetadataMalformed { .. } => "metadata_malformed",
            Self::Identity(inner) => inner.code(),
            Self::Reference(inner) => inner.code(),
            Self::Stamp(inner) => inner.code(),
            Self::NotLeaving { .. } => "not_leaving",
            Self::ReasonRequired { .. } => "reason_required",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_are_the_contract() {
        let what = || String::from("x");
        let cases = [
            (Refusal::InvalidInput { what: what() }, "invalid_input", "cannot accept field \"x\""),
            (
                Refusal::MetadataMalformed { what: what() },
                "metadata_malformed",
                "cannot read metadata \"x\"",
            ),
            (
                BadIdentity { text: what() }.into(),
                "identity_malformed",
                "cannot read identity \"x\"",
            ),
            (
                BadReference::Empty.into(),
                "reference_empty",
                "cannot read reference: it names nothing",
            ),
            (
                Unbound::Foreign { text: what() }.into(),
                "identity_foreign",
                "cannot use the recorded identity \"x\": it is bound to another object",
            ),
            (
                Refusal::NotLeaving { what: what() },
                "not_leaving",
                "cannot abandon \"x\": its deletion was not asked for",
            ),
            (
                Refusal::ReasonRequired { what: what() },
                "reason_required",
                "cannot abandon \"x\" without a reason",
            ),
        ];
        for (refusal, code, words) in cases {
            assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, words));
        }
    }
}
