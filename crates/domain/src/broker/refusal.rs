//! The broker's closed set of refusals: what was wrong, with what, and what to do.

use thiserror::Error;

use crate::blueprint::parameter::BadValues;

/// Why a command or a row is refused. The wire code is [`Refusal::code`]; each has a page.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Refusal {
    /// A value breaks an invariant of the aggregate.
    #[error("cannot accept field \"{what}\"")]
    InvalidInput {
        /// The offending field.
        what: String,
    },
    /// The blueprint version is not published.
    #[error("cannot find blueprint version \"{what}\"")]
    BlueprintNotFound {
        /// What was asked for.
        what: String,
    },
    /// The credential's cloud is not in the inventory.
    #[error("cannot find cloud \"{what}\"")]
    CloudNotFound {
        /// What was asked for.
        what: String,
    },
    /// The credential does not exist.
    #[error("cannot find credential \"{what}\"")]
    CredentialNotFound {
        /// What was asked for.
        what: String,
    },
    /// The project is not placed on any world.
    #[error("cannot find a placement of project \"{what}\"")]
    AssignmentNotFound {
        /// The project.
        what: String,
    },
    /// The parameters do not fit the blueprint's schema.
    #[error(transparent)]
    ParameterValuesInvalid(#[from] BadValues),
    /// There is no such resource.
    #[error("cannot find provisioned resource \"{what}\"")]
    ProvisionedResourceNotFound {
        /// What was asked for.
        what: String,
    },
    /// The project's namespace is not ready, for callers that insist on it.
    #[error("cannot use namespace \"{what}\" before it is ready")]
    NamespaceNotReady {
        /// The namespace.
        what: String,
    },
    /// The node could not be shown out; the substrate was not touched.
    #[error("cannot deregister the node of \"{what}\"")]
    NodeDeregistrationFailed {
        /// The resource.
        what: String,
    },
    /// The project may not use the credential, for the reason its own context gives.
    #[error("{text}")]
    CredentialDenied {
        /// The code of that refusal.
        code: &'static str,
        /// Its text.
        text: String,
    },
    /// The blueprint does not run on the credential's provider.
    #[error("cannot use the blueprint on provider \"{what}\"")]
    ProviderUnsupported {
        /// The provider.
        what: String,
    },
    /// Another resource of the project has the name.
    #[error("cannot take name \"{what}\": it is in use")]
    NameInUse {
        /// The name.
        what: String,
    },
    /// The command does not fit the phase.
    #[error("cannot replace a resource that is \"{phase}\"")]
    NotReplaceable {
        /// The phase.
        phase: String,
    },
    /// A peer is live, so nothing may be given up.
    #[error("cannot abandon \"{what}\" while its node is registered")]
    PeerLive {
        /// The resource.
        what: String,
    },
    /// Only what was given up can be taken back.
    #[error("cannot reap \"{what}\": it was not abandoned")]
    NotAbandoned {
        /// The resource.
        what: String,
    },
    /// A reason must be given.
    #[error("cannot abandon \"{what}\" without a reason")]
    ReasonRequired {
        /// The resource.
        what: String,
    },
}

impl Refusal {
    /// The stable code on the wire and the name of the page that explains it.
    pub const fn code(&self) -> &'static str {
        match self {
            Self::InvalidInput { .. } => "invalid_input",
            Self::BlueprintNotFound { .. } => "blueprint_not_found",
            Self::CloudNotFound { .. } => "cloud_not_found",
            Self::CredentialNotFound { .. } => "credential_not_found",
            Self::AssignmentNotFound { .. } => "assignment_not_found",
            Self::ParameterValuesInvalid(_) => "parameter_values_invalid",
            Self::ProvisionedResourceNotFound { .. } => "provisioned_resource_not_found",
            Self::NamespaceNotReady { .. } => "namespace_not_ready",
            Self::NodeDeregistrationFailed { .. } => "node_deregistration_failed",
            Self::CredentialDenied { code, .. } => code,
            Self::ProviderUnsupported { .. } => "provider_unsupported",
            Self::NameInUse { .. } => "name_in_use",
            Self::NotReplaceable { .. } => "not_replaceable",
            Self::PeerLive { .. } => "peer_live",
            Self::NotAbandoned { .. } => "not_abandoned",
            Self::ReasonRequired { .. } => "reason_required",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every refusal and its code.
    fn codes() -> [(Refusal, &'static str); 16] {
        let what = || String::from("x");
        let text = String::from("cannot use credential \"x\": it ran out");
        [
            (Refusal::InvalidInput { what: what() }, "invalid_input"),
            (Refusal::BlueprintNotFound { what: what() }, "blueprint_not_found"),
            (Refusal::CloudNotFound { what: what() }, "cloud_not_found"),
            (Refusal::CredentialNotFound { what: what() }, "credential_not_found"),
            (Refusal::AssignmentNotFound { what: what() }, "assignment_not_found"),
            (Refusal::from(BadValues::Missing { name: what() }), "parameter_values_invalid"),
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
        "cannot accept field \"x\"",
        "cannot find blueprint version \"x\"",
        "cannot find cloud \"x\"",
        "cannot find credential \"x\"",
        "cannot find a placement of project \"x\"",
        "cannot use parameters: \"x\" is required",
        "cannot find provisioned resource \"x\"",
        "cannot use namespace \"x\" before it is ready",
        "cannot deregister the node of \"x\"",
        "cannot use credential \"x\": it ran out",
        "cannot use the blueprint on provider \"x\"",
        "cannot take name \"x\": it is in use",
        "cannot replace a resource that is \"x\"",
        "cannot abandon \"x\" while its node is registered",
        "cannot reap \"x\": it was not abandoned",
        "cannot abandon \"x\" without a reason",
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
