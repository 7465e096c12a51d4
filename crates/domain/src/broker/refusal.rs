//! The broker's closed set of refusals: what was wrong, with what, and what to do.

use thiserror::Error;
use usher_kernel::coded;

use crate::blueprint::parameter::BadValues;
use crate::object::offender::shortened;

coded! {
    /// Why a command or a row is refused. The wire code is [`Refusal::code`]; each has a page.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum Refusal {
        /// A value breaks an invariant of the aggregate.
        #[error("invalid {what}")]
        InvalidInput {
            /// The offending field.
            what: String,
        } = "invalid_input",
        /// The blueprint version is not published.
        #[error("blueprint version \"{what}\" not found")]
        BlueprintNotFound {
            /// The requested object.
            what: String,
        } = "blueprint_not_found",
        /// The credential's cloud is not in the inventory.
        #[error("cloud \"{what}\" not found")]
        CloudNotFound {
            /// The requested object.
            what: String,
        } = "cloud_not_found",
        /// The credential does not exist.
        #[error("credential \"{what}\" not found")]
        CredentialNotFound {
            /// The requested object.
            what: String,
        } = "credential_not_found",
        /// The project is not placed on any world.
        #[error("project \"{what}\" has no placement")]
        AssignmentNotFound {
            /// The project.
            what: String,
        } = "assignment_not_found",
        /// The parameters do not fit the blueprint's schema.
        #[error(transparent)]
        ParameterValuesInvalid(#[from] BadValues) = "parameter_values_invalid",
        /// There is no such resource.
        #[error("provisioned resource \"{what}\" not found")]
        ProvisionedResourceNotFound {
            /// The requested object.
            what: String,
        } = "provisioned_resource_not_found",
        /// The project's namespace is not ready, for callers that insist on it.
        #[error("namespace \"{what}\" is not ready")]
        NamespaceNotReady {
            /// The namespace.
            what: String,
        } = "namespace_not_ready",
        /// The node could not be torn down; the substrate was not touched.
        #[error("failed to deregister the node of \"{what}\"")]
        NodeDeregistrationFailed {
            /// The resource.
            what: String,
        } = "node_deregistration_failed",
        /// The project may not use the credential, for the reason its own context gives.
        #[error("{text}")]
        CredentialDenied {
            /// The code of that refusal.
            code: &'static str,
            /// Its text.
            text: String,
        } = { code => code },
        /// The blueprint does not run on the credential's provider.
        #[error("the blueprint does not support provider \"{what}\"")]
        ProviderUnsupported {
            /// The provider.
            what: String,
        } = "provider_unsupported",
        /// Another resource of the project has the name.
        #[error("name \"{what}\" is in use")]
        NameInUse {
            /// The name.
            what: String,
        } = "name_in_use",
        /// The command does not fit the phase.
        #[error("cannot replace a resource that is \"{phase}\"")]
        NotReplaceable {
            /// The phase.
            phase: String,
        } = "not_replaceable",
        /// A peer is live, so nothing may be abandoned.
        #[error("cannot abandon \"{what}\" while its node is registered")]
        PeerLive {
            /// The resource.
            what: String,
        } = "peer_live",
        /// Only what was abandoned can be reaped.
        #[error("\"{what}\" was not abandoned and cannot be reaped")]
        NotAbandoned {
            /// The resource.
            what: String,
        } = "not_abandoned",
        /// A reason must be given.
        #[error("abandoning \"{what}\" needs a reason")]
        ReasonRequired {
            /// The resource.
            what: String,
        } = "reason_required",
    }
}

impl Refusal {
    /// A name that is not a DNS label.
    pub fn bad_name(text: &str) -> Self {
        let (text, rule) = (shortened(text), "lower case, digits, '-'; at most 63");
        Self::InvalidInput { what: format!("name \"{text}\": not a DNS label ({rule})") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every refusal and its code.
    fn codes() -> [(Refusal, &'static str); 16] {
        let what = || String::from("x");
        let text = String::from("credential \"x\" has expired");
        [
            (Refusal::InvalidInput { what: what() }, "invalid_input"),
            (Refusal::BlueprintNotFound { what: what() }, "blueprint_not_found"),
            (Refusal::CloudNotFound { what: what() }, "cloud_not_found"),
            (Refusal::CredentialNotFound { what: what() }, "credential_not_found"),
            (Refusal::AssignmentNotFound { what: what() }, "assignment_not_found"),
            (Refusal::from(BadValues::Missing(what())), "parameter_values_invalid"),
            (
                Refusal::ProvisionedResourceNotFound { what: what() },
                "provisioned_resource_not_found",
            ),
            (Refusal::NamespaceNotReady { what: what() }, "namespace_not_ready"),
            (Refusal::NodeDeregistrationFailed { what: what() }, "node_deregistration_failed"),
            (Refusal::CredentialDenied { code: "credential_expired", text }, "credential_expired"),
            (Refusal::ProviderUnsupported { what: what() }, "provider_unsupported"),
            (Refusal::NameInUse { what: what() }, "name_in_use"),
            (Refusal::NotReplaceable { phase: what() }, "not_replaceable"),
            (Refusal::PeerLive { what: what() }, "peer_live"),
            (Refusal::NotAbandoned { what: what() }, "not_abandoned"),
            (Refusal::ReasonRequired { what: what() }, "reason_required"),
        ]
    }

    /// What each of them says.
    const WORDS: [&str; 16] = [
        "invalid x",
        "blueprint version \"x\" not found",
        "cloud \"x\" not found",
        "credential \"x\" not found",
        "project \"x\" has no placement",
        "parameter \"x\" is required",
        "provisioned resource \"x\" not found",
        "namespace \"x\" is not ready",
        "failed to deregister the node of \"x\"",
        "credential \"x\" has expired",
        "the blueprint does not support provider \"x\"",
        "name \"x\" is in use",
        "cannot replace a resource that is \"x\"",
        "cannot abandon \"x\" while its node is registered",
        "\"x\" was not abandoned and cannot be reaped",
        "abandoning \"x\" needs a reason",
    ];

    // Requirement: A-18
    #[test]
    fn codes_and_words_are_the_contract() {
        for ((refusal, code), words) in codes().iter().zip(WORDS) {
            assert_eq!((refusal.code(), refusal.to_string().as_str()), (*code, words));
        }
    }

    // Requirement: A-18
    #[test]
    fn no_two_refusals_share_a_code() {
        let unique: std::collections::BTreeSet<_> = codes().iter().map(|it| it.0.code()).collect();
        assert_eq!(unique.len(), codes().len());
    }
}
