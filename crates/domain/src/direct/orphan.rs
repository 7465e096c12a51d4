//! What is written down when a direct resource is released although its cloud object may exist.

use serde::{Deserialize, Serialize};
use usher_kernel::{NameLedger, Timestamp};

use super::aggregate::ObjectKey;
use super::mark::Binding;
use super::policy::Policy;
use super::proof::Outcome;
use crate::object::offender::shortened;

/// Everything that was known of a cloud object that may be left behind. Only the rules write one; a
/// store reads back what they wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrphanRecord {
    object: ObjectKey,
    binding: Binding,
    kind: String,
    outcome: Outcome,
    /// Every name that the ledger ever had for it.
    names: Vec<String>,
    evidence: Evidence,
    at: Timestamp,
}

/// What the last snapshot knew beside the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// The policy that was read.
    pub policy: Option<Policy>,
    /// The stamp as it was found, shortened.
    pub stamp: Option<String>,
    /// The references of the spec, as it spells them.
    pub references: Vec<String>,
    /// The identity that the spec resolves to, if it resolves.
    pub spec: Option<String>,
    /// What carries our mark.
    pub found: Vec<String>,
    /// The operator that requested it, if any.
    pub ordered: Option<String>,
}

impl OrphanRecord {
    /// The record of an object that ends like this.
    pub(super) fn new(
        (object, binding, kind): (&ObjectKey, Binding, &str),
        outcome: Outcome,
        name_ledger: &NameLedger,
        evidence: Evidence,
        at: Timestamp,
    ) -> Self {
        let names =
            name_ledger.rows().iter().map(|it| format!("{}/{}", it.name.place, it.name.name));
        Self {
            object: object.clone(),
            binding,
            kind: kind.to_owned(),
            outcome,
            names: names.collect(),
            evidence: Evidence { stamp: evidence.stamp.map(|it| shortened(&it)), ..evidence },
            at,
        }
    }

    /// How the resource ended.
    pub const fn outcome(&self) -> Outcome {
        self.outcome
    }

    /// The object it was, and what its cloud object was marked with.
    pub const fn owner(&self) -> &Binding {
        &self.binding
    }

    /// Every name that the ledger ever had for it.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What the last snapshot knew.
    pub const fn evidence(&self) -> &Evidence {
        &self.evidence
    }
}
