//! What the broker reads from other contexts: small views, read once in one snapshot.

use serde_json::Value;

use crate::blueprint::{CompositeType, InjectionStrategy, MeshRole, ParameterSchema};
use crate::object::id::{BlueprintVersionId, CloudId, CredentialId, ProviderConfigId};
use crate::object::kv::KvCoordinates;
use crate::object::provider::Provider;

/// Everything a declaration is resolved against. What is missing was not found.
#[derive(Clone, Debug, PartialEq)]
pub struct Views {
    /// The published blueprint version.
    pub blueprint: Option<BlueprintView>,
    pub credential: Option<CredentialView>,
    /// The credential's cloud.
    pub cloud: Option<CloudView>,
    /// Where the project is placed.
    pub assignment: Option<AssignmentView>,
    /// The row of the ProviderConfig for that place and credential, if there is one.
    pub provider_config: Option<ProviderConfigId>,
    /// Whether another resource of the project, not deleted, has the name.
    pub name_in_use: bool,
}

/// A published blueprint version.
#[derive(Clone, Debug, PartialEq)]
pub struct BlueprintView {
    /// Which one.
    pub version: BlueprintVersionId,
    /// The XR's type, read from the XRD.
    pub composite: CompositeType,
    /// The parameters it takes.
    pub schema: ParameterSchema,
    /// How a token reaches the machine.
    pub strategy: InjectionStrategy,
    /// Whether there is a machine to reach.
    pub role: MeshRole,
    /// The providers it runs on.
    pub providers: Vec<Provider>,
}

/// What a declaration needs of a credential: never its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CredentialView {
    /// Which one.
    pub id: CredentialId,
    pub cloud: CloudId,
    /// Where its value lies.
    pub coordinates: KvCoordinates,
    /// Whether the project may use it, judged by the credential's own context.
    pub usable: Result<(), Denied>,
}

/// A refusal of another context, with its own message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    pub code: &'static str,
    pub text: String,
}

/// A cloud.
#[derive(Clone, Debug, PartialEq)]
pub struct CloudView {
    /// Which one.
    pub id: CloudId,
    pub provider: Provider,
    /// Its endpoint, without secrets.
    pub endpoint: Value,
}

/// Where a project is placed. A namespace that is not ready is no reason to refuse.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssignmentView {
    pub world: String,
    /// The namespace there.
    pub namespace: String,
}
