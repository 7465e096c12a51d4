//! One Usage: what was declared, what became of it, and the deletions to replay.
//!
//! The Usage is an object of the API server and its own ledger: the reconciler writes the status
//! and, by a verb of its own, finalizer and owner references; nothing else.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use usher_kernel::{Timestamp, Uid};

use super::attempt::Attempt;
use super::facts::{Finalizer, Intent, Owners, Resolve, RowFacts};
use super::phase::Phase;
use super::reference::{ObjectKey, Reference, UsageKey, UsageKind};
use super::refusal::Refusal;

/// One Usage as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its kind, namespace and name.
    pub key: UsageKey,
    /// Which incarnation of that name.
    pub uid: Uid,
    /// When it was created.
    pub created_at: Timestamp,
    /// Whether it is being deleted.
    pub deleting: bool,
    /// Whether our finalizer holds it.
    pub finalizer: bool,
    pub owners: Vec<OwnerReference>,
    /// What was declared, or why that cannot be used.
    pub spec: Result<Spec, Refusal>,
    /// What became of it.
    pub status: Status,
}

/// An owner of a Usage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnerReference {
    /// The owner.
    pub uid: Uid,
    pub controller: bool,
    /// Whether it waits for the Usage when it is deleted in the foreground.
    pub blocks: bool,
}

/// What was declared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spec {
    /// What is used.
    pub of: Reference,
    /// Its users.
    pub by: Option<Reference>,
    /// Why it is protected.
    pub reason: Option<String>,
    /// How often the references are resolved.
    pub resolve: Resolve,
    /// Whether a denied deletion is repeated when this Usage ends the protection.
    pub replay: bool,
}

/// What became of a Usage: the part that the reconciler writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    /// Where it is.
    pub phase: Phase,
    /// What is used, as resolved.
    pub of: Option<Resolved>,
    /// Its users, as resolved.
    pub by: Option<Resolved>,
    /// The used objects whose deletion was seen to be refused while marked.
    pub proven: BTreeSet<Uid>,
    /// The deletions that were denied.
    pub attempts: Vec<Attempt>,
}

/// What a reference was found to mean.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolved {
    /// The reference: another one is resolved anew.
    pub from: Reference,
    /// The objects.
    pub found: Vec<ObjectKey>,
}

impl Default for Status {
    fn default() -> Self {
        Self {
            phase: Phase::Pending,
            of: None,
            by: None,
            proven: BTreeSet::new(),
            attempts: vec![],
        }
    }
}

impl Usage {
    /// The facts of the row.
    pub fn facts(&self) -> RowFacts {
        let waiting = self.owners.iter().any(|it| it.blocks);
        RowFacts {
            phase: self.status.phase,
            intent: if self.deleting { Intent::Requested } else { Intent::None },
            finalizer: if self.finalizer { Finalizer::On } else { Finalizer::Off },
            resolve: self.spec.as_ref().map_or(Resolve::Once, |it| it.resolve),
            owners: if waiting { Owners::Waiting } else { Owners::Free },
        }
    }

    /// What is used, as far as it is resolved.
    pub fn targets(&self) -> &[ObjectKey] {
        self.status.of.as_ref().map_or(&[], |it| &it.found)
    }

    /// Its users, as far as resolved.
    pub fn users(&self) -> &[ObjectKey] {
        self.status.by.as_ref().map_or(&[], |it| &it.found)
    }

    /// Whether it holds this object.
    pub fn holds(&self, object: &ObjectKey) -> bool {
        self.status.phase.holds() && self.targets().contains(object)
    }

    /// Whether a user, resolved or not, is declared.
    pub fn has_user(&self) -> bool {
        self.status.by.is_some() || self.spec.as_ref().is_ok_and(|it| it.by.is_some())
    }

    /// Whether it repeats a denied deletion. A declaration that cannot be read repeats nothing.
    pub fn replays(&self) -> bool {
        self.spec.as_ref().is_ok_and(|it| it.replay)
    }

    /// The uid of its controller.
    pub fn controller(&self) -> Option<&Uid> {
        self.owners.iter().find(|it| it.controller).map(|it| &it.uid)
    }

    /// The other namespace whose objects it names, and which has to consent.
    pub fn foreign_namespace(&self) -> Option<&str> {
        let of = &self.spec.as_ref().ok()?.of;
        let elsewhere = self.key.kind == UsageKind::Usage && of.namespace != self.key.namespace;
        elsewhere.then_some(of.namespace.as_str())
    }

    /// The attempt on this object.
    pub fn attempt(&self, uid: &Uid) -> Option<&Attempt> {
        self.status.attempts.iter().find(|it| it.uid == *uid)
    }

    /// The mark it writes: a label value that names it.
    pub fn mark(&self) -> &str {
        &self.uid.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::usage::fixture::{key, usage};

    #[test]
    fn a_usage_holds_only_what_it_resolved_and_only_while_it_does() {
        let held = usage(|_| {});
        assert!(held.holds(&key("db")));
        assert!(!held.holds(&key("app")), "a user is not held");
        let over = usage(|it| it.status.phase = Phase::Releasing);
        assert!(!over.holds(&key("db")));
        let unresolved = usage(|it| it.status.of = None);
        assert!(!unresolved.holds(&key("db")));
    }

    #[test]
    fn the_facts_are_those_of_the_object() {
        let plain = usage(|_| {}).facts();
        let expected = RowFacts {
            phase: Phase::Protected,
            intent: Intent::None,
            finalizer: Finalizer::On,
            resolve: Resolve::Once,
            owners: Owners::Free,
        };
        assert_eq!(plain, expected);
        let owner = OwnerReference { uid: Uid::new("xr"), controller: true, blocks: true };
        let bent = usage(|it| {
            it.deleting = true;
            it.finalizer = false;
            it.owners = vec![owner];
            it.spec = Err(Refusal::PurposeMissing);
        });
        let expected = RowFacts {
            intent: Intent::Requested,
            finalizer: Finalizer::Off,
            owners: Owners::Waiting,
            ..expected
        };
        assert_eq!(bent.facts(), expected);
        assert_eq!(bent.controller(), Some(&Uid::new("xr")));
        assert!(!bent.replays() && bent.has_user());
    }

    #[test]
    fn only_a_namespaced_usage_needs_the_consent_of_another_namespace() {
        assert_eq!(usage(|_| {}).foreign_namespace(), None);
        let elsewhere = |it: &mut Usage| {
            if let Ok(spec) = &mut it.spec {
                spec.of.namespace = "other".to_owned();
            }
        };
        assert_eq!(usage(elsewhere).foreign_namespace(), Some("other"));
        let cluster = usage(|it| {
            elsewhere(it);
            it.key.kind = UsageKind::ClusterUsage;
        });
        assert_eq!(cluster.foreign_namespace(), None);
    }
}
