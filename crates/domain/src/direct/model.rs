//! What the author of a kind of cloud object writes.

use serde_json::Value;

use super::deleter::Deleter;
use super::identity::Identity;
use super::reference::{BadReference, Declared, Resolved};

/// One kind of cloud object.
///
/// *Guarantees*: an implementation gets write-ahead identity, safe repetition and graceful
/// deletion. What it cannot do is in the types: [`Model::identify`] sees no reader, and the
/// [`Model::Deleter`] sees no spec.
pub trait Model {
    /// The kind in the identity ledger: group and kind of the Kubernetes object.
    const KIND: &'static str;
    /// What a person writes.
    type Spec;
    /// What the cloud object is called.
    type Identity: Identity;
    /// How the cloud object shall be.
    type Desired: PartialEq;
    /// Its deletion path.
    type Deleter: Deleter<Identity = Self::Identity>;

    /// Reads a spec, or refuses it.
    fn read(spec: &Value, namespace: &str) -> Result<Self::Spec, BadReference>;

    /// The references of a spec, each with what it is for.
    fn references(spec: &Self::Spec) -> Vec<Declared>;

    /// The identity that a spec resolves to, from the references that bear it.
    fn identify(spec: &Self::Spec, parents: &Resolved) -> Result<Self::Identity, BadReference>;

    /// How the cloud object shall be, from all references.
    fn desire(spec: &Self::Spec, resolved: &Resolved) -> Result<Self::Desired, BadReference>;
}
