//! The one registry of providers: what clouds, credentials and blueprints all mean by the word.

use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use usher_kernel::words;

use super::manifest::Scope;
use super::offender::shortened;

words! {
    /// A cloud provider.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Provider {
        /// Amazon Web Services.
        Aws = "aws",
        /// Microsoft Azure.
        Azure = "azure",
        /// Google Cloud.
        Gcp = "gcp",
        /// Hetzner Cloud.
        Hetzner = "hetzner",
        /// Any OpenStack cloud.
        Openstack = "openstack",
        /// This machine.
        Local = "local",
    }
}

/// A provider that is not registered.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("provider \"{text}\" is not one of aws, azure, gcp, hetzner, openstack, local")]
pub struct UnknownProvider {
    /// The offending text, shortened.
    pub text: String,
}

impl UnknownProvider {
    /// The code of the refusal.
    pub const fn code(&self) -> &'static str {
        "provider_unknown"
    }
}

/// What a provider calls its ProviderConfig.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigType {
    /// Group and version.
    pub api_version: &'static str,
    pub kind: &'static str,
    /// Whether it is namespaced.
    pub scope: Scope,
}

impl ConfigType {
    /// Its kind with the group before it.
    pub fn group_kind(&self) -> String {
        let group = self.api_version.split_once('/').map_or("", |(group, _)| group);
        format!("{group}/{}", self.kind)
    }
}

/// What a provider accepts as a tag; lengths are in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagRules {
    /// The most tags one object may carry.
    pub count_max: Option<usize>,
    /// The longest key.
    pub key_max: Option<usize>,
    /// The longest value.
    pub value_max: Option<usize>,
    /// Which characters are allowed where.
    pub syntax: TagSyntax,
    /// Beginnings of keys that the provider keeps for itself, compared in lower case.
    pub reserved: &'static [&'static str],
    /// Whether two keys that differ in case only are two keys.
    pub case_sensitive: bool,
}

/// Which characters a provider allows in tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagSyntax {
    /// Letters, digits, spaces and `_.:/=+-@` in keys and values.
    Aws,
    /// Anything but `<>%&\?/` and control characters in keys.
    Azure,
    /// `[a-z0-9_-]`, keys beginning with a letter.
    Gcp,
    /// Kubernetes labels.
    Kubernetes,
    /// Keys of letters, digits, spaces and `-_:.`.
    Openstack,
    /// Anything.
    Any,
}

impl Provider {
    /// What its ProviderConfig is called; `<provider>.crossplane.io` unless registered otherwise.
    pub const fn config_type(self) -> ConfigType {
        let (api_version, scope) = match self {
            Self::Aws => ("aws.m.upbound.io/v1beta1", Scope::Namespaced),
            Self::Azure => ("azure.m.upbound.io/v1beta1", Scope::Namespaced),
            Self::Gcp => ("gcp.m.upbound.io/v1beta1", Scope::Namespaced),
            // The provider serves no namespaced kinds.
            Self::Hetzner => ("hcloud.crossplane.io/v1beta1", Scope::Cluster),
            Self::Openstack => ("openstack.m.crossplane.io/v1beta1", Scope::Namespaced),
            Self::Local => ("local.crossplane.io/v1beta1", Scope::Namespaced),
        };
        ConfigType { api_version, kind: "ProviderConfig", scope }
    }

    /// What it accepts as a tag.
    pub const fn tag_rules(self) -> TagRules {
        match self {
            Self::Aws => TagRules {
                count_max: Some(50),
                key_max: Some(128),
                value_max: Some(256),
                syntax: TagSyntax::Aws,
                reserved: &["aws:"],
                case_sensitive: true,
            },
            Self::Azure => TagRules {
                count_max: Some(50),
                key_max: Some(512),
                value_max: Some(256),
                syntax: TagSyntax::Azure,
                reserved: &["microsoft", "azure", "windows"],
                case_sensitive: false,
            },
            Self::Gcp => TagRules {
                count_max: Some(64),
                key_max: Some(63),
                value_max: Some(63),
                syntax: TagSyntax::Gcp,
                reserved: &[],
                case_sensitive: true,
            },
            Self::Hetzner => TagRules {
                count_max: Some(64),
                key_max: None,
                value_max: Some(63),
                syntax: TagSyntax::Kubernetes,
                reserved: &["hetzner.cloud/"],
                case_sensitive: true,
            },
            Self::Openstack => TagRules {
                count_max: Some(128),
                key_max: Some(255),
                value_max: Some(255),
                syntax: TagSyntax::Openstack,
                reserved: &[],
                case_sensitive: true,
            },
            Self::Local => TagRules {
                count_max: None,
                key_max: None,
                value_max: None,
                syntax: TagSyntax::Any,
                reserved: &[],
                case_sensitive: true,
            },
        }
    }
}

impl FromStr for Provider {
    type Err = UnknownProvider;

    fn from_str(text: &str) -> Result<Self, UnknownProvider> {
        Self::ALL
            .into_iter()
            .find(|it| it.as_str() == text)
            .ok_or_else(|| UnknownProvider { text: shortened(text) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    // Requirement: C-6
    #[test]
    fn every_provider_reads_its_own_name() {
        let names: Vec<&str> = Provider::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(names, ["aws", "azure", "gcp", "hetzner", "openstack", "local"]);
        for provider in Provider::ALL {
            assert_eq!(provider.to_string().parse(), Ok(provider));
            let json = serde_json::to_string(&provider).unwrap();
            assert_eq!(json, format!("\"{}\"", provider.as_str()));
        }
    }

    // Requirement: C-6
    #[test]
    fn an_unregistered_provider_is_refused_by_name() {
        let refusal = "AWS".parse::<Provider>().unwrap_err();
        assert_eq!(refusal.code(), "provider_unknown");
        assert!(refusal.to_string().starts_with("provider \"AWS\" is not one of "));
    }

    // Requirement: R-11
    #[test]
    fn every_provider_config_has_its_own_type() {
        let table = Provider::ALL.map(|it| {
            let config = it.config_type();
            assert_eq!(config.kind, "ProviderConfig");
            (config.api_version, config.scope)
        });
        assert_eq!(
            table,
            [
                ("aws.m.upbound.io/v1beta1", Scope::Namespaced),
                ("azure.m.upbound.io/v1beta1", Scope::Namespaced),
                ("gcp.m.upbound.io/v1beta1", Scope::Namespaced),
                ("hcloud.crossplane.io/v1beta1", Scope::Cluster),
                ("openstack.m.crossplane.io/v1beta1", Scope::Namespaced),
                ("local.crossplane.io/v1beta1", Scope::Namespaced),
            ]
        );
    }

    #[test]
    fn a_config_type_is_known_by_group_and_kind() {
        let kind = Provider::Hetzner.config_type().group_kind();
        assert_eq!(kind, "hcloud.crossplane.io/ProviderConfig");
    }

    proptest! {
        // Requirement: C-6
        #[test]
        fn garbage_is_no_provider(text in any::<String>()) {
            if let Ok(provider) = text.parse::<Provider>() {
                prop_assert_eq!(provider.as_str(), text);
            }
        }
    }
}
