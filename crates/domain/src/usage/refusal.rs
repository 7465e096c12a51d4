//! The closed set of refusals around Usages: what was wrong, with what, and what to do.

use thiserror::Error;
use usher_kernel::coded;

use super::reference::ObjectKey;
use crate::object::name::USAGE_API_VERSION;

coded! {
    /// Why a Usage, a command or a request is refused. The wire code is [`Refusal::code`]; each
    /// has a page.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// The document is of another kind.
        #[error("\"{0}\" is not a Usage or ClusterUsage of {USAGE_API_VERSION}")]
        NotAUsage(String) = "usage_kind",
        /// A field is missing.
        #[error("usage field \"{0}\" is missing")]
        FieldMissing(&'static str) = "usage_field_missing",
        /// A field has an invalid value.
        #[error("usage field \"{field}\" is \"{text}\" and not {}", accepted(field))]
        FieldInvalid {
            /// Its path.
            field: &'static str,
            /// Its value, shortened.
            text: String,
        } = "usage_field_invalid",
        /// A list is longer than its bound.
        #[error("usage field \"{field}\" has more than {max} entries")]
        TooMany {
            /// Its path.
            field: &'static str,
            /// The bound.
            max: usize,
        } = "usage_too_many",
        /// A reference has neither a name nor a selector, or both.
        #[error("usage field \"{0}\" needs either resourceRef or resourceSelector")]
        ReferenceAmbiguous(&'static str) = "usage_reference_ambiguous",
        /// A selector would match every object of its kind.
        #[error("the selector of usage field \"{0}\" is empty and would match every object")]
        SelectorEmpty(&'static str) = "usage_selector_empty",
        /// Neither a user nor a reason is given.
        #[error("usage has neither \"spec.by\" nor \"spec.reason\"")]
        PurposeMissing = "usage_purpose_missing",
        /// The kind is not served, so its scope is not known.
        #[error("kind \"{0}\" is not served by the API server")]
        KindUnknown(String) = "usage_kind_unknown",
        /// Objects of this kind cannot be protected by admission, or not by a Usage.
        #[error("kind \"{0}\" is not supported in a usage")]
        KindUnsupported(String) = "usage_kind_unsupported",
        /// A namespaced Usage names a cluster-scoped kind.
        #[error("kind \"{0}\" is cluster-scoped: protect it with a ClusterUsage")]
        ScopeUnsupported(String) = "usage_scope_unsupported",
        /// A ClusterUsage gives no namespace for a namespaced kind.
        #[error("usage field \"{0}\" needs a namespace: its kind is namespaced")]
        NamespaceMissing(&'static str) = "usage_namespace_missing",
        /// A cluster-scoped kind is given a namespace.
        #[error("usage field \"{0}\" has a namespace: its kind is cluster-scoped")]
        NamespaceSuperfluous(&'static str) = "usage_namespace_superfluous",
        /// The user is in another namespace.
        #[error("\"spec.by\" is in namespace \"{0}\" and not in the one of the usage")]
        UserElsewhere(String) = "usage_user_elsewhere",
        /// An object in another namespace would be protected for a reason alone.
        #[error("protecting an object in namespace \"{0}\" needs \"spec.by\"")]
        UserRequired(String) = "usage_user_required",
        /// The other namespace does not consent.
        #[error("namespace \"{0}\" does not consent to usages from this namespace")]
        ConsentMissing(String) = "usage_consent_missing",
        /// An object would use itself.
        #[error("object \"{0}\" cannot use itself")]
        UsesItself(String) = "usage_uses_itself",
        /// The Usage would close a cycle in which no object could ever be deleted.
        #[error("usage would close the cycle {0}")]
        Circle(String) = "usage_circle",
        /// The object is in use.
        #[error("cannot delete \"{0}\": it is in use")]
        InUse(String) = "in_use",
        /// The namespace contains objects that are in use, or resources that are not torn down.
        #[error("cannot delete namespace \"{0}\": objects in it are in use")]
        NamespaceInUse(String) = "namespace_in_use",
        /// The mark would be removed from an object that is in use.
        #[error("cannot remove the mark from \"{0}\": it is in use")]
        MarkInUse(String) = "mark_in_use",
        /// No such deletion is recorded.
        #[error("recorded deletion of \"{0}\" not found")]
        AttemptNotFound(String) = "attempt_not_found",
        /// The recorded deletion is being replayed.
        #[error("cannot withdraw the deletion of \"{0}\": its replay has begun")]
        ReplayBegun(String) = "replay_begun",
    }
}

impl Refusal {
    /// The object is in use.
    pub(super) fn in_use(object: &ObjectKey) -> Self {
        Self::InUse(object.to_string())
    }
}

/// What a field of a Usage must be, by the last part of its path.
fn accepted(field: &str) -> &'static str {
    match field.rsplit('.').next() {
        Some("apiVersion") => "version or group/version",
        Some("kind") => "a kind (letters and digits, first a letter; at most 63)",
        Some("name") => "the name of an object (no '/' and '%'; at most 253)",
        Some("namespace") => "a DNS label that fits the scope of the usage",
        Some("matchLabels") => "an object of label keys and label values",
        Some("matchExpressions") => "a list of label requirements (key, operator, values)",
        Some("resourceSelector") => "an object (selection: First or All)",
        Some("reason") => "a string of at most 1024 characters",
        Some("resolve") => "Once or Always",
        Some("replayDeletion") => "true or false",
        _ => "an object",
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
            (
                Refusal::NotAUsage(x()),
                "usage_kind",
                "\"x\" is not a Usage or ClusterUsage of protection.usher.dev/v1alpha1",
            ),
            (
                Refusal::FieldMissing(field),
                "usage_field_missing",
                "usage field \"spec.of\" is missing",
            ),
            (
                Refusal::FieldInvalid { field, text: x() },
                "usage_field_invalid",
                "usage field \"spec.of\" is \"x\" and not an object",
            ),
            (
                Refusal::TooMany { field, max: 3 },
                "usage_too_many",
                "usage field \"spec.of\" has more than 3 entries",
            ),
            (
                Refusal::ReferenceAmbiguous(field),
                "usage_reference_ambiguous",
                "usage field \"spec.of\" needs either resourceRef or resourceSelector",
            ),
            (
                Refusal::SelectorEmpty(field),
                "usage_selector_empty",
                "the selector of usage field \"spec.of\" is empty and would match every object",
            ),
            (
                Refusal::PurposeMissing,
                "usage_purpose_missing",
                "usage has neither \"spec.by\" nor \"spec.reason\"",
            ),
            (
                Refusal::KindUnknown(x()),
                "usage_kind_unknown",
                "kind \"x\" is not served by the API server",
            ),
            (
                Refusal::KindUnsupported(x()),
                "usage_kind_unsupported",
                "kind \"x\" is not supported in a usage",
            ),
            (
                Refusal::ScopeUnsupported(x()),
                "usage_scope_unsupported",
                "kind \"x\" is cluster-scoped: protect it with a ClusterUsage",
            ),
        ]
    }

    /// Refusals of its meaning, and of later requests.
    fn of_a_request() -> Vec<Case> {
        let field = "spec.of";
        vec![
            (
                Refusal::NamespaceMissing(field),
                "usage_namespace_missing",
                "usage field \"spec.of\" needs a namespace: its kind is namespaced",
            ),
            (
                Refusal::NamespaceSuperfluous(field),
                "usage_namespace_superfluous",
                "usage field \"spec.of\" has a namespace: its kind is cluster-scoped",
            ),
            (
                Refusal::UserElsewhere(x()),
                "usage_user_elsewhere",
                "\"spec.by\" is in namespace \"x\" and not in the one of the usage",
            ),
            (
                Refusal::UserRequired(x()),
                "usage_user_required",
                "protecting an object in namespace \"x\" needs \"spec.by\"",
            ),
            (
                Refusal::ConsentMissing(x()),
                "usage_consent_missing",
                "namespace \"x\" does not consent to usages from this namespace",
            ),
            (Refusal::UsesItself(x()), "usage_uses_itself", "object \"x\" cannot use itself"),
            (Refusal::Circle(x()), "usage_circle", "usage would close the cycle x"),
            (Refusal::InUse(x()), "in_use", "cannot delete \"x\": it is in use"),
            (
                Refusal::NamespaceInUse(x()),
                "namespace_in_use",
                "cannot delete namespace \"x\": objects in it are in use",
            ),
            (
                Refusal::MarkInUse(x()),
                "mark_in_use",
                "cannot remove the mark from \"x\": it is in use",
            ),
            (
                Refusal::AttemptNotFound(x()),
                "attempt_not_found",
                "recorded deletion of \"x\" not found",
            ),
            (
                Refusal::ReplayBegun(x()),
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
