//! The objects of this world, as they lie on the disk.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use usher_domain::broker::snapshot;
use usher_domain::object::name;
use usher_kernel::{Timestamp, Uid};

/// The kinds of objects, each a folder of the world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Once it is gone, nothing is made under it.
    Anchor,
    /// What a resource declares: the XR of this world.
    Substrate,
    /// What a substrate is composed of.
    Part,
    /// A ProviderConfig.
    ProviderConfig,
    /// The order to materialise its Secret; nobody here follows it.
    ExternalSecret,
}

impl Kind {
    /// Every kind, owners before what they own.
    pub const ALL: [Self; 5] =
        [Self::Anchor, Self::Substrate, Self::Part, Self::ProviderConfig, Self::ExternalSecret];

    /// The name of its folder.
    pub const fn folder(self) -> &'static str {
        match self {
            Self::Anchor => "anchor",
            Self::Substrate => "substrate",
            Self::Part => "part",
            Self::ProviderConfig => "provider-config",
            Self::ExternalSecret => "external-secret",
        }
    }
}

/// What a substrate is composed of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// A folder that outlives what runs on the machine.
    Disk,
    /// A process with an agent.
    Machine,
}

impl Sort {
    /// Every sort.
    pub const ALL: [Self; 2] = [Self::Disk, Self::Machine];

    /// The word for it in the names of parts.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Machine => "machine",
        }
    }

    /// The kind in the identity ledger.
    pub fn ledger_kind(self) -> String {
        let kind = match self {
            Self::Disk => "Disk",
            Self::Machine => "Machine",
        };
        format!("local.{}/{kind}", name::SUFFIX)
    }

    /// The sort whose kind in the identity ledger this is.
    pub fn from_ledger(kind: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|it| it.ledger_kind() == kind)
    }
}

/// One object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Object {
    /// Its name.
    pub name: String,
    /// Which incarnation of the name it is.
    pub uid: Uid,
    /// Its kind in the identity ledger.
    pub ledger_kind: String,
    /// Where it lives in the identity ledger.
    pub place: String,
    /// Whose it says it is.
    pub labels: BTreeMap<String, String>,
    /// What it belongs to.
    pub owner: Option<Owner>,
    /// The revision of the world at which it was last written.
    pub revision: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was asked to go.
    pub deleting_at: Option<Timestamp>,
    /// What it should be, as rendered.
    pub manifest: Value,
    /// What only a substrate has.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub substrate: Option<Substrate>,
    /// What only a part has whose machine is a fleet's; nothing while that is on its way.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub footing: Option<Footing>,
}

/// How the machine of a part is, where a fleet has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Footing {
    /// No machine is free.
    Waiting,
    /// It is a node.
    Stands,
    /// Its provider gave up on it.
    Failed {
        /// Why.
        message: String,
    },
}

/// What an object belongs to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Owner {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// The only incarnation that owns.
    pub uid: Uid,
}

/// What only a substrate has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Substrate {
    /// What its machine is started with, if it has one.
    pub boot: Option<Boot>,
    /// What it is composed of, written before any of it is made.
    pub parts: Vec<Reference>,
    /// How it is.
    pub condition: Condition,
}

/// One part that a substrate announces.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reference {
    /// What it is.
    pub sort: Sort,
    /// Its name.
    pub name: String,
}

/// What a machine is started with. It holds the token.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Boot {
    /// The agent's settings.
    pub settings: Value,
    /// The bootstrap token.
    pub token: String,
}

impl fmt::Debug for Boot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Boot").field("settings", &self.settings).finish_non_exhaustive()
    }
}

/// How a substrate is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "state")]
pub enum Condition {
    /// Neither ready nor failed.
    Converging,
    /// All parts stand.
    Ready,
    /// It never will be.
    Failed {
        /// Why.
        message: String,
    },
}

impl Object {
    /// Whether it carries the labels of this life.
    pub fn is_of(&self, installation: &str, life: &str) -> bool {
        self.label(name::LABEL_RESOURCE_ID) == Some(life)
            && self.label(name::LABEL_INSTALLATION) == Some(installation)
    }

    /// The text of a label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels.get(key).map(String::as_str)
    }

    /// The object as a look reports it.
    pub fn looked_at(&self) -> snapshot::Object {
        snapshot::Object {
            uid: self.uid.clone(),
            installation: self.label(name::LABEL_INSTALLATION).map(str::to_owned),
            record_id: self.label(name::LABEL_RESOURCE_ID).map(str::to_owned),
            owner: self.owner.as_ref().map(|it| it.uid.clone()),
            deleting: self.deleting_at.is_some(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: LW-16
    #[test]
    fn a_boot_record_never_prints_its_token() {
        let boot = Boot { settings: Value::Null, token: "ubt_canary".to_owned() };
        assert!(!format!("{boot:?}").contains("canary"));
    }

    #[test]
    fn the_ledger_tells_the_sorts_apart() {
        for sort in Sort::ALL {
            assert_eq!(Sort::from_ledger(&sort.ledger_kind()), Some(sort));
        }
        assert_eq!(Sort::from_ledger("Token"), None);
    }
}
