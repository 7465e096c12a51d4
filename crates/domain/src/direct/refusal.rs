//! The closed set of refusals of direct resources: what was wrong, and with what.

use thiserror::Error;
use usher_kernel::coded;

use super::identity::BadIdentity;
use super::recorded::Unbound;
use super::reference::BadReference;

coded! {
    /// Why an object, a row or a command is refused. The wire code is [`Refusal::code`].
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// A value breaks an invariant of the row.
        #[error("invalid field \"{0}\": it must be {rule}", rule = accepted(.0))]
        InvalidInput(String) = "invalid_input",
        /// The metadata of an object is not what an API server writes.
        #[error("field \"{0}\" of the object is missing or of the wrong type")]
        MetadataMalformed(String) = "metadata_malformed",
        /// An identity cannot be read.
        #[error(transparent)]
        Identity(#[from] BadIdentity) = (inner => inner.code()),
        /// A reference cannot be read.
        #[error(transparent)]
        Reference(#[from] BadReference) = (inner => inner.code()),
        /// The recorded identity on the object does not belong to it.
        #[error(transparent)]
        Stamp(#[from] Unbound) = (inner => inner.code()),
        /// Only an object that is being deleted can be abandoned.
        #[error("cannot abandon \"{0}\": its deletion was not requested")]
        NotLeaving(String) = "not_leaving",
        /// A reason must be given.
        #[error("cannot abandon \"{0}\" without a reason")]
        ReasonRequired(String) = "reason_required",
    }
}

/// What a field of a row must be.
fn accepted(field: &str) -> &'static str {
    match field {
        "namespace" => "a DNS label",
        "name" => "a DNS subdomain",
        "uid" | "kind" => "non-empty",
        "installation" => "a UUID other than zero",
        "generation" | "attempt" => "at least 1",
        "created_at" => "a time other than zero",
        "updated_at" | "phase_since" => "at or after created_at",
        "deletion_seen_at" => "set exactly in Deleting and Deleted",
        "asked_at" => "absent before Deleting",
        "outcome" => "set in Deleted and absent before Deleting",
        "orphan" => "the record that the outcome needs, or absent",
        _ => "valid",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_and_words_are_the_contract() {
        let what = || String::from("x");
        let cases = [
            (
                Refusal::InvalidInput("name".to_owned()),
                "invalid_input",
                "invalid field \"name\": it must be a DNS subdomain",
            ),
            (
                Refusal::MetadataMalformed(what()),
                "metadata_malformed",
                "field \"x\" of the object is missing or of the wrong type",
            ),
            (
                BadIdentity { text: what() }.into(),
                "identity_malformed",
                "identity \"x\" does not fit its kind (segments joined by '/'; at most 1024)",
            ),
            (
                BadReference::Empty.into(),
                "reference_empty",
                "reference has neither \"external\" nor \"name\"",
            ),
            (
                Unbound::Foreign(what()).into(),
                "identity_foreign",
                "recorded identity \"x\" is bound to another object",
            ),
            (
                Refusal::NotLeaving(what()),
                "not_leaving",
                "cannot abandon \"x\": its deletion was not requested",
            ),
            (
                Refusal::ReasonRequired(what()),
                "reason_required",
                "cannot abandon \"x\" without a reason",
            ),
        ];
        for (refusal, code, words) in cases {
            assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, words));
        }
    }
}
