//! The closed set of refusals around Usages: what was wrong, with what, and what to do.

use thiserror::Error;

use super::reference::ObjectKey;

/// Why a Usage, a command or a request is refused. The wire code is [`Refusal::code`]; each has a
/// page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// Not a Usage of ours.
    #[error("cannot read usage: \"{what}\" is none")]
    NotAUsage {
        /// What it says it is, shortened.
        what: String,
    },
    /// A field is missing.
    #[error("cannot read usage: \"{field}\" is missing")]
    FieldMissing {
        /// Where it should stand.
        field: &'static str,
    },
    /// A field is there and cannot be used.
    #[error("cannot read usage: \"{field}\" says \"{text}\"")]
    FieldInvalid {
        /// Where it stands.
        field: &'static str,
        /// What it says, shortened.
        text: String,
    },
    /// A list is longer than its bound.
    #[error("cannot read usage: \"{field}\" has more than {max} entries")]
    TooMany {
        /// Where it stands.
        field: &'static str,
        /// The bound.
        max: usize,
    },
    /// A reference has neither a name nor a selector, or both.
    #[error("cannot read usage: \"{field}\" needs either a name or a selector")]
    ReferenceAmbiguous {
        /// Which reference.
        field: &'static str,
    },
    /// A selector would match every object of its kind.
    #[error("cannot read usage: the selector of \"{field}\" is empty")]
    SelectorEmpty {
        /// Which reference.
        field: &'static str,
    },
    /// Neither a user nor a reason is given.
    #[error("cannot accept usage without \"by\" or \"reason\"")]
    PurposeMissing,
    /// The kind is not served, so its scope is not known.
    #[error("cannot protect or follow \"{kind}\": the kind is not served")]
    KindUnknown {
        /// The kind, shortened.
        kind: String,
    },
    /// Objects of this kind cannot be protected by admission, or not by a Usage.
    #[error("cannot use \"{kind}\" in a usage")]
    KindUnsupported {
        /// The kind, shortened.
        kind: String,
    },
    /// A namespaced Usage speaks of something beside all namespaces.
    #[error("cannot protect \"{kind}\" from a namespace: use a ClusterUsage")]
    ScopeUnsupported {
        /// The kind, shortened.
        kind: String,
    },
    /// A ClusterUsage does not say in which namespace.
    #[error("cannot accept usage: \"{field}\" needs a namespace")]
    NamespaceMissing {
        /// Which reference.
        field: &'static str,
    },
    /// Something beside all namespaces is said to be in one.
    #[error("cannot accept usage: \"{field}\" is in no namespace")]
    NamespaceSuperfluous {
        /// Which reference.
        field: &'static str,
    },
    /// The user lives in another namespace.
    #[error("cannot accept usage: its user is in namespace \"{namespace}\"")]
    UserElsewhere {
        /// Where.
        namespace: String,
    },
    /// Something in another namespace would be protected for a reason alone.
    #[error("cannot protect what is in namespace \"{namespace}\" without \"by\"")]
    UserRequired {
        /// Where.
        namespace: String,
    },
    /// The other namespace does not consent.
    #[error("cannot protect what is in namespace \"{namespace}\": it does not consent")]
    ConsentMissing {
        /// Where.
        namespace: String,
    },
    /// An object would use itself.
    #[error("cannot accept usage: \"{object}\" would use itself")]
    UsesItself {
        /// Which.
        object: String,
    },
    /// The Usage would close a circle in which nothing could ever go.
    #[error("cannot accept usage: it would close the circle {circle}")]
    Circle {
        /// The objects on it, in order.
        circle: String,
    },
    /// The object is in use.
    #[error("cannot delete \"{object}\": it is in use")]
    InUse {
        /// Which.
        object: String,
    },
    /// The namespace holds objects that are in use, or lives that go on.
    #[error("cannot delete namespace \"{namespace}\": what is in it is in use")]
    NamespaceInUse {
        /// Which.
        namespace: String,
    },
    /// The mark would be taken off an object that is in use.
    #[error("cannot take the mark off \"{object}\": it is in use")]
    MarkInUse {
        /// Which.
        object: String,
    },
    /// No such deletion is recorded.
    #[error("cannot find a recorded deletion of \"{uid}\"")]
    AttemptNotFound {
        /// The object, shortened.
        uid: String,
    },
    /// The recorded deletion is being replayed.
    #[error("cannot withdraw the deletion of \"{uid}\": its replay has begun")]
    ReplayBegun {
        /// The object, shortened.
        uid: String,
    },
}

impl Refusal {
    /// The stable code on the wire and the name of the page that explains it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::NotAUsage { .. } => "usage_kind",
            Self::FieldMissing { .. } => "usage_field_missing",
            Self::FieldInvalid { .. } => "usage_field_invalid",
            Self::TooMany { .. } => "usage_too_many",
            Self::ReferenceAmbiguous { .. } => "usage_reference_ambiguous",
            Self::SelectorEmpty { .. } => "usage_selector_empty",
            Self::PurposeMissing => "usage_purpose_missing",
            Self::KindUnknown { .. } => "usage_kind_unknown",
            Self::KindUnsupported { .. } => "usage_kind_unsupported",
            Self::ScopeUnsupported { .. } => "usage_scope_unsupported",
            Self::NamespaceMissing { .. } => "usage_namespace_missing",
            Self::NamespaceSuperfluous { .. } => "usage_namespace_superfluous",
            Self::UserElsewhere { .. } => "usage_user_elsewhere",
            Self::UserRequired { .. } => "usage_user_required",
            Self::ConsentMissing { .. } => "usage_consent_missing",
            Self::UsesItself { .. } => "usage_uses_itself",
            Self::Circle { .. } => "usage_circle",
            Self::InUse { .. } => "in_use",
            Self::NamespaceInUse { .. } => "namespace_in_use",
            Self::MarkInUse { .. } => "mark_in_use",
            Self::AttemptNotFound { .. } => "attempt_not_found",
            Self::ReplayBegun { .. } => "replay_begun",
        }
    }

    /// The object is in use.
    pub(super) fn in_use(object: &ObjectKey) -> Self {
        Self::InUse { object: object.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Case = (Refusal, &'static str, &'static str);

    fn x() -> String {
        String::from("x")
    }

    /// Refusals of what a document says, their codes and words.
    fn of_a_document() -> Vec<Case> {
        let field = "spec.of";
        vec![
            (Refusal::NotAUsage { what: x() }, "usage_kind", "cannot read usage: \"x\" is none"),
            (
                Refusal::FieldMissing { field },
                "usage_field_missing",
                "cannot read usage: \"spec.of\" is missing",
            ),
            (
                Refusal::FieldInvalid { field, text: x() },
                "usage_field_invalid",
                "cannot read usage: \"spec.of\" says \"x\"",
            ),
            (
                Refusal::TooMany { field, max: 3 },
                "usage_too_many",
                "cannot read usage: \"spec.of\" has more than 3 entries",
            ),
            (
                Refusal::ReferenceAmbiguous { field },
                "usage_reference_ambiguous",
                "cannot read usage: \"spec.of\" needs either a name or a selector",
            ),
            (
                Refusal::SelectorEmpty { field },
                "usage_selector_empty",
                "cannot read usage: the selector of \"spec.of\" is empty",
            ),
            (
                Refusal::PurposeMissing,
                "usage_purpose_missing",
                "cannot accept usage without \"by\" or \"reason\"",
            ),
            (
                Refusal::KindUnknown { kind: x() },
                "usage_kind_unknown",
                "cannot protect or follow \"x\": the kind is not served",
            ),
            (
                Refusal::KindUnsupported { kind: x() },
                "usage_kind_unsupported",
                "cannot use \"x\" in a usage",
            ),
            (
                Refusal::ScopeUnsupported { kind: x() },
                "usage_scope_unsupported",
                "cannot protect \"x\" from a namespace: use a ClusterUsage",
            ),
        ]
    }

    /// Refusals of what is meant by it, and of what is asked later.
    fn of_a_request() -> Vec<Case> {
        let field = "spec.of";
        vec![
            (
                Refusal::NamespaceMissing { field },
                "usage_namespace_missing",
                "cannot accept usage: \"spec.of\" needs a namespace",
            ),
            (
                Refusal::NamespaceSuperfluous { field },
                "usage_namespace_superfluous",
                "cannot accept usage: \"spec.of\" is in no namespace",
            ),
            (
                Refusal::UserElsewhere { namespace: x() },
                "usage_user_elsewhere",
                "cannot accept usage: its user is in namespace \"x\"",
            ),
            (
                Refusal::UserRequired { namespace: x() },
                "usage_user_required",
                "cannot protect what is in namespace \"x\" without \"by\"",
            ),
            (
                Refusal::ConsentMissing { namespace: x() },
                "usage_consent_missing",
                "cannot protect what is in namespace \"x\": it does not consent",
            ),
            (
                Refusal::UsesItself { object: x() },
                "usage_uses_itself",
                "cannot accept usage: \"x\" would use itself",
            ),
            (
                Refusal::Circle { circle: x() },
                "usage_circle",
                "cannot accept usage: it would close the circle x",
            ),
            (Refusal::InUse { object: x() }, "in_use", "cannot delete \"x\": it is in use"),
            (
                Refusal::NamespaceInUse { namespace: x() },
                "namespace_in_use",
                "cannot delete namespace \"x\": what is in it is in use",
            ),
            (
                Refusal::MarkInUse { object: x() },
                "mark_in_use",
                "cannot take the mark off \"x\": it is in use",
            ),
            (
                Refusal::AttemptNotFound { uid: x() },
                "attempt_not_found",
                "cannot find a recorded deletion of \"x\"",
            ),
            (
                Refusal::ReplayBegun { uid: x() },
                "replay_begun",
                "cannot withdraw the deletion of \"x\": its replay has begun",
            ),
        ]
    }

    fn all() -> Vec<Case> {
        of_a_document().into_iter().chain(of_a_request()).collect()
    }

    #[test]
    fn codes_and_words_are_the_contract() {
        for (refusal, code, words) in all() {
            assert_eq!((refusal.code(), refusal.to_string().as_str()), (code, words));
        }
        let unique: std::collections::BTreeSet<_> = all().iter().map(|it| it.1).collect();
        assert_eq!(unique.len(), all().len(), "no two refusals share a code");
    }
}
