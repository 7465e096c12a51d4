//! The object that holds a record.

use std::fmt::{self, Display, Write as _};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use usher_domain::object::label::is_dns_subdomain;
use usher_domain::object::name::LABEL_ORPHAN;
use usher_kernel::{Uid, Version};

use crate::pin;

/// How many bytes of a hash tell objects apart.
const HASH_BYTES: usize = 16;

/// A record as the API has it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct RecordObject {
    pub metadata: ObjectMeta,
    pub spec: Spec,
}

/// What a record says.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Spec {
    pub of: Of,
    /// The term in which it was last written.
    pub epoch: u64,
    pub phase: String,
    pub reason: String,
    /// Why the last step failed; empty if it did not.
    pub trouble: String,
    pub target: Target,
    /// State and name ledger, as versioned JSON.
    pub data: String,
}

/// The object that a record is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(default)]
pub struct Of {
    pub group: String,
    /// The plural under which its kind is served.
    pub resource: String,
    pub kind: String,
    pub namespace: String,
    pub name: String,
    pub uid: Uid,
}

/// What a record protects, as far as it can be selected by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Target(String);

impl RecordObject {
    /// The version that a commit compares; `None` if it was not answered by an API server.
    pub fn version(&self) -> Option<Version> {
        let version = self.metadata.resource_version.as_deref().and_then(pin::revision);
        version.map(Version)
    }

    /// Whether the object ended although something of it may be left behind.
    pub fn is_orphan(&self) -> bool {
        self.metadata.labels.as_ref().is_some_and(|it| it.contains_key(LABEL_ORPHAN))
    }
}

impl Of {
    /// The name of the record: derived, so that it is known before the record is created, and no
    /// two objects share one.
    pub fn record_name(&self) -> String {
        let plain = format!("{}-{}", self.kind.to_lowercase(), self.uid);
        if is_dns_subdomain(&plain) {
            return plain;
        }
        format!("record-{}", hash(&[&self.group, &self.kind, &self.uid.0]))
    }

    /// Whether a record of that object is one of this. Its name and its plural are not compared:
    /// the uid says which object it is.
    pub fn is_same(&self, other: &Self) -> bool {
        (&self.group, &self.kind, &self.uid) == (&other.group, &other.kind, &other.uid)
    }
}

impl Default for Of {
    fn default() -> Self {
        let [group, resource, kind, namespace, name] = std::array::from_fn(|_| String::new());
        Self { group, resource, kind, namespace, name, uid: Uid::new("") }
    }
}

impl Display for Of {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.kind)?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        let space = if self.namespace.is_empty() { "" } else { "/" };
        write!(f, " {}{space}{} with uid {}", self.namespace, self.name, self.uid)
    }
}

impl Target {
    /// The target of a record that protects these objects.
    pub fn of<T: Display>(objects: impl IntoIterator<Item = T>) -> Self {
        let mut objects = objects.into_iter();
        match (objects.next(), objects.next()) {
            (None, _) => Self::default(),
            (Some(one), None) => Self(hash(&[&one.to_string()])),
            (Some(_), Some(_)) => Self("many".to_owned()),
        }
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A hash of texts, each of them delimited.
fn hash(texts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for text in texts {
        hasher.update(text.len().to_be_bytes());
        hasher.update(text);
    }
    let mut text = String::new();
    for byte in hasher.finalize().iter().take(HASH_BYTES) {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(kind: &str, uid: &str) -> Of {
        Of { kind: kind.to_owned(), uid: Uid::new(uid), ..Of::default() }
    }

    // Requirement: KR-4
    #[test]
    fn a_record_is_named_by_kind_and_uid_within_the_limits_of_names() {
        let uid = "0f6a4b1e-8c1d-4c57-9a52-7c0a8a3c1b11";
        assert_eq!(of("Usage", uid).record_name(), format!("usage-{uid}"));
        let long = "x".repeat(300);
        let odd = [("Usage", "A b"), ("Usage", "UPPER"), ("Usage", "a/../b"), ("Usage", &long)];
        let mut names: Vec<String> = odd.map(|(kind, uid)| of(kind, uid).record_name()).into();
        names
            .extend([of("Usage", "upper"), of("ClusterUsage", "UPPER")].map(|it| it.record_name()));
        assert!(names.iter().all(|it| is_dns_subdomain(it) && it.len() < 100), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), 6, "each object has a record of its own");
    }

    // Requirement: KR-4
    #[test]
    fn a_target_is_empty_a_hash_or_many() {
        assert_eq!(Target::of::<&str>([]).as_str(), "");
        let (one, two) = (Target::of(["a"]), Target::of(["b"]));
        assert!(one != two && one == Target::of(["a"]) && one.as_str().len() == 2 * HASH_BYTES);
        assert_eq!(Target::of(["a", "b"]).as_str(), "many");
    }
}
