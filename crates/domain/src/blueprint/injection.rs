//! How a bootstrap token reaches the machine, and whether there is a machine to reach.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::{coded, words};

use crate::object::offender::shortened;

words! {
    /// Where the token is written into the XR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum InjectionStrategy {
        /// A whole `#cloud-config` document in `spec.userData`.
        CloudInitUserData = "cloud-init-user-data",
        /// The values of a Helm release in `spec.parameters.helmValues`.
        HelmValues = "helm-values",
        /// The bare token in `spec.parameters.providerSecret`.
        ProviderSecret = "provider-secret",
    }
}

words! {
    /// Whether what is provisioned joins the mesh.
    #[derive(
        Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
    )]
    #[serde(rename_all = "kebab-case")]
    pub enum MeshRole {
        /// It runs an agent that enrols.
        #[default]
        Node = "node",
        /// There is nothing to enrol; no token is written.
        Standalone = "standalone",
    }
}

coded! {
    /// A word outside a closed set.
    #[derive(Clone, Debug, PartialEq, Eq, Error)]
    pub enum UnknownWord {
        /// No such strategy.
        #[error("injection strategy \"{0}\" is unknown")]
        InjectionStrategy(String) = "injection_strategy_unknown",
        /// No such role.
        #[error("mesh role \"{0}\" is unknown")]
        MeshRole(String) = "mesh_role_unknown",
    }
}

impl FromStr for InjectionStrategy {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or_else(|| UnknownWord::InjectionStrategy(shortened(text)))
    }
}

impl FromStr for MeshRole {
    type Err = UnknownWord;

    fn from_str(text: &str) -> Result<Self, UnknownWord> {
        Self::ALL
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or_else(|| UnknownWord::MeshRole(shortened(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Requirement: X-9
    #[test]
    fn every_strategy_and_role_reads_its_own_word() {
        let words = InjectionStrategy::ALL.map(InjectionStrategy::as_str);
        assert_eq!(words, ["cloud-init-user-data", "helm-values", "provider-secret"]);
        assert_eq!(MeshRole::ALL.map(MeshRole::as_str), ["node", "standalone"]);
        for it in InjectionStrategy::ALL {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(serde_json::to_string(&it).unwrap(), format!("\"{it}\""));
        }
        for it in MeshRole::ALL {
            assert_eq!(it.to_string().parse(), Ok(it));
            assert_eq!(serde_json::to_string(&it).unwrap(), format!("\"{it}\""));
        }
    }

    #[test]
    fn a_mesh_role_is_node_by_default() {
        assert_eq!(MeshRole::default(), MeshRole::Node);
    }

    // Requirement: X-9
    #[test]
    fn other_words_are_refused() {
        let strategy = "cloud-init".parse::<InjectionStrategy>().unwrap_err();
        assert_eq!(strategy.code(), "injection_strategy_unknown");
        assert_eq!(strategy.to_string(), "injection strategy \"cloud-init\" is unknown");
        let role = "Node".parse::<MeshRole>().unwrap_err();
        assert_eq!(role.code(), "mesh_role_unknown");
        assert_eq!(role.to_string(), "mesh role \"Node\" is unknown");
    }

    proptest! {
        // Requirement: X-9
        #[test]
        fn garbage_is_refused(text in any::<String>()) {
            if let Ok(it) = text.parse::<InjectionStrategy>() {
                prop_assert_eq!(it.as_str(), text.as_str());
            }
            if let Ok(it) = text.parse::<MeshRole>() {
                prop_assert_eq!(it.as_str(), text.as_str());
            }
        }
    }
}
