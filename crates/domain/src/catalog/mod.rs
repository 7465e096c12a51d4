//! The catalog: blueprints and their published versions, which never change.

pub mod lint;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use usher_kernel::Timestamp;

use crate::blueprint::{InjectionStrategy, MeshRole, ParameterSchema};
use crate::object::id::{BlueprintId, BlueprintVersionId};
use crate::object::provider::Provider;
use crate::object::slug::Slug;

/// A blueprint, whatever its versions.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blueprint {
    pub id: BlueprintId,
    /// What it is called.
    pub name: Slug,
}

/// A published version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BlueprintVersion {
    pub id: BlueprintVersionId,
    pub blueprint: BlueprintId,
    /// What the version is called; unique in its blueprint.
    pub version: String,
    /// The XRD, as it was imported.
    pub xrd: Value,
    /// The composition, as it was imported.
    pub composition: Value,
    /// The parameters it takes.
    pub schema: ParameterSchema,
    /// How a token reaches the machine.
    pub strategy: InjectionStrategy,
    /// Whether there is a machine to reach.
    pub role: MeshRole,
    /// The providers it runs on.
    pub providers: Vec<Provider>,
    /// When it was published.
    pub published_at: Timestamp,
}

/// A bundle to be published: one version of one blueprint.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    /// The blueprint; made if there is none.
    pub blueprint: Slug,
    /// What the version is called.
    pub version: String,
    pub xrd: Value,
    pub composition: Value,
    /// The parameters it takes.
    pub schema: ParameterSchema,
    /// How a token reaches the machine.
    pub strategy: InjectionStrategy,
    /// Whether there is a machine to reach.
    pub role: MeshRole,
    /// The providers it runs on.
    pub providers: Vec<Provider>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_with_an_unsound_schema_cannot_be_read() {
        let value = |name: &str| {
            serde_json::json!({
                "id": "01890a5d-ac96-774b-bcce-b302099a8057",
                "blueprint": "01890a5d-ac96-774b-bcce-b302099a8058",
                "version": "1.0.0", "xrd": {}, "composition": {},
                "schema": { "parameters": [{ "name": name, "type": "string" }] },
                "strategy": "cloud-init-user-data", "role": "node", "providers": ["local"],
                "published_at": 1,
            })
        };
        let version: BlueprintVersion = serde_json::from_value(value("size")).unwrap();
        assert_eq!(version.providers, [Provider::Local]);
        assert!(serde_json::from_value::<BlueprintVersion>(value("helmValues")).is_err());
    }
}
