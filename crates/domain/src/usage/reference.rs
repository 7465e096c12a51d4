//! How a Usage names things: objects by group, kind, namespace and name, or by a selector.
//!
//! The version of an apiVersion never distinguishes two objects, so it is kept in references (for
//! the client that reads the object) and left out of keys.

use std::fmt;

use serde::{Deserialize, Serialize};
use usher_kernel::{Generation, Name};

use crate::object::closed::closed_set;
use crate::object::label::LabelKey;

/// One object, whatever its uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ObjectKey {
    /// The group; empty for the core.
    pub group: String,
    pub kind: String,
    /// The namespace; empty for cluster-scoped objects.
    pub namespace: String,
    pub name: String,
}

impl ObjectKey {
    /// Group and kind, as `group/Kind`; the core group is left out.
    pub fn group_kind(&self) -> String {
        group_kind(&self.group, &self.kind)
    }

    /// Whether this is the namespace itself.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.kind == "Namespace"
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.group_kind())?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// Group and kind, as `group/Kind`; the core group is left out.
pub(super) fn group_kind(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") }
}

closed_set! {
    /// The two kinds of Usages.
    "usage kind" UsageKind {
        /// In a namespace.
        Usage = "Usage",
        /// Cluster-scoped.
        ClusterUsage = "ClusterUsage",
    }
}

/// One Usage, whatever its uid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct UsageKey {
    /// Which of the two kinds.
    pub kind: UsageKind,
    /// The namespace; empty for a ClusterUsage.
    pub namespace: String,
    pub name: String,
}

impl fmt::Display for UsageKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ", self.kind)?;
        if !self.namespace.is_empty() {
            write!(f, "{}/", self.namespace)?;
        }
        f.write_str(&self.name)
    }
}

/// What a Usage refers to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The group; empty for the core.
    pub group: String,
    /// The version to ask for.
    pub version: String,
    pub kind: String,
    /// The namespace to search; empty for cluster-scoped objects.
    pub namespace: String,
    /// Which object, or objects, of that kind.
    pub pick: Pick,
}

impl Reference {
    /// Group and kind, as `group/Kind`; the core group is left out.
    pub fn group_kind(&self) -> String {
        group_kind(&self.group, &self.kind)
    }

    /// The object of this kind and place with this name.
    pub fn key(&self, name: &str) -> ObjectKey {
        ObjectKey {
            group: self.group.clone(),
            kind: self.kind.clone(),
            namespace: self.namespace.clone(),
            name: name.to_owned(),
        }
    }

    /// Whether objects have to be listed to know what is meant.
    pub const fn is_selector(&self) -> bool {
        match self.pick {
            Pick::Name(_) => false,
            Pick::Match(_) => true,
        }
    }
}

/// Which objects of a kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pick {
    /// The one with this name.
    Name(String),
    /// Those that match.
    Match(Selector),
}

/// Which objects match.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selector {
    /// What their labels must say, all of it.
    pub labels: Vec<Requirement>,
    /// Whether they must have the controller of the Usage.
    pub controller: bool,
    /// How many of them.
    pub selection: Selection,
}

closed_set! {
    /// How many of the objects that match.
    "selection" Selection {
        /// The oldest one; of two of one age the one whose name is first.
        First = "First",
        /// All of them.
        All = "All",
    }
}

/// What one label must say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// The label.
    pub key: LabelKey,
    /// Its requirements.
    pub operator: Operator,
    /// The values it is compared with.
    pub values: Vec<String>,
}

closed_set! {
    /// A requirement on a label.
    "operator" Operator {
        /// It has one of the values.
        In = "In",
        /// It has none of the values, or is not there.
        NotIn = "NotIn",
        /// It is there.
        Exists = "Exists",
        /// It is not there.
        DoesNotExist = "DoesNotExist",
    }
}

/// What an identity row of a Usage is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Our mark on an object.
    Mark,
    /// The object that uses.
    User,
}

impl Role {
    const fn prefix(self) -> &'static str {
        match self {
            Self::Mark => "mark ",
            Self::User => "user ",
        }
    }

    /// The name of a row.
    pub fn name(self, key: &ObjectKey) -> Name {
        Name {
            kind: format!("{}{}", self.prefix(), key.group_kind()),
            place: key.namespace.clone(),
            name: key.name.clone(),
            generation: Generation::FIRST,
        }
    }

    /// What a row of this role is about.
    pub fn key(self, name: &Name) -> Option<ObjectKey> {
        let kind = name.kind.strip_prefix(self.prefix())?;
        let (group, kind) = kind.rsplit_once('/').unwrap_or(("", kind));
        Some(ObjectKey {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: name.place.clone(),
            name: name.name.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::fixture::key;

    #[test]
    fn a_row_is_read_back_and_roles_are_distinguished() {
        let namespace =
            ObjectKey { group: String::new(), kind: "Namespace".to_owned(), ..key("x") };
        for it in [key("db"), namespace] {
            for (role, other) in [(Role::Mark, Role::User), (Role::User, Role::Mark)] {
                assert_eq!(role.key(&role.name(&it)), Some(it.clone()));
                assert_eq!(other.key(&role.name(&it)), None);
            }
        }
    }

    #[test]
    fn objects_and_usages_are_shown_with_their_place() {
        assert_eq!(key("db").to_string(), "example.org/Database ns/db");
        let cluster = ObjectKey { namespace: String::new(), group: String::new(), ..key("db") };
        assert_eq!(cluster.to_string(), "Database db");
        let usage = |kind, namespace: &str| UsageKey {
            kind,
            namespace: namespace.to_owned(),
            name: "u".to_owned(),
        };
        assert_eq!(usage(UsageKind::Usage, "ns").to_string(), "Usage ns/u");
        assert_eq!(usage(UsageKind::ClusterUsage, "").to_string(), "ClusterUsage u");
    }
}
