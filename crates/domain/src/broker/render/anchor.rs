//! Anchors: objects created under one are garbage collected with it.

use serde_json::json;
use usher_kernel::{Name, Uid};
use uuid::Uuid;

use crate::object::id::{InstallationId, ProviderConfigId, ResourceId};
use crate::object::manifest::{Manifest, Owner, Scope};
use crate::object::name;

/// The record an object belongs to, as written on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerLabels {
    id: Uuid,
    installation: InstallationId,
}

impl OwnerLabels {
    /// A resource.
    pub const fn of_resource(id: ResourceId, installation: InstallationId) -> Self {
        Self { id: *id.as_uuid(), installation }
    }

    /// A ProviderConfig.
    pub const fn of_provider_config(id: ProviderConfigId, installation: InstallationId) -> Self {
        Self { id: *id.as_uuid(), installation }
    }

    /// Writes the owning record onto an object.
    #[must_use]
    pub fn mark(self, manifest: Manifest) -> Manifest {
        manifest
            .labelled(name::LABEL_RESOURCE_ID, &self.id.hyphenated().to_string())
            .labelled(name::LABEL_INSTALLATION, &self.installation.to_string())
    }
}

/// The kind of an anchor: cluster-scoped objects cannot be owned by namespaced ones.
pub const fn kind(scope: Scope) -> &'static str {
    match scope {
        Scope::Namespaced => "Anchor",
        Scope::Cluster => "ClusterAnchor",
    }
}

/// Whether a name in the identity ledger is an anchor's.
pub fn is_anchor(name: &Name) -> bool {
    [kind(Scope::Namespaced), kind(Scope::Cluster)].contains(&name.kind.as_str())
}

/// The anchor of one generation; `namespace` counts for a namespaced one only.
pub fn anchor(labels: OwnerLabels, name: &str, scope: Scope, namespace: &str) -> Manifest {
    let bare = Manifest::new(name::ANCHOR_API_VERSION, kind(scope), name).with(
        "metadata",
        "finalizers",
        json!([name::FINALIZER_ANCHOR]),
    );
    placed(labels.mark(bare), scope, namespace)
}

/// The reference by which an object belongs to its anchor.
pub fn owner(name: String, scope: Scope, uid: &Uid) -> Owner {
    Owner {
        api_version: name::ANCHOR_API_VERSION.to_owned(),
        kind: kind(scope).to_owned(),
        name,
        uid: uid.clone(),
    }
}

pub(super) fn placed(manifest: Manifest, scope: Scope, namespace: &str) -> Manifest {
    match scope {
        Scope::Namespaced => manifest.in_namespace(namespace),
        Scope::Cluster => manifest,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: R-3
    #[test]
    fn an_anchor_has_the_namespace_of_its_objects() {
        let installation = InstallationId::from_uuid(Uuid::from_u128(2));
        let labels =
            OwnerLabels::of_resource(ResourceId::from_uuid(Uuid::from_u128(1)), installation);
        let near = anchor(labels, "pr-1-g1", Scope::Namespaced, "ns");
        assert_eq!(near.kind(), "Anchor");
        assert_eq!(near.namespace(), Some("ns"));
        let bytes = concat!(
            r#"{"apiVersion":"broker.usher.dev/v1alpha1","kind":"ClusterAnchor","metadata":{"#,
            r#""finalizers":["usher.dev/anchor"],"labels":{"#,
            r#""usher.dev/installation":"00000000-0000-0000-0000-000000000002","#,
            r#""usher.dev/resource-id":"00000000-0000-0000-0000-000000000001"},"#,
            r#""name":"pr-1-g1"}}"#
        );
        let wide = anchor(labels, "pr-1-g1", Scope::Cluster, "ns");
        assert_eq!(String::from_utf8(wide.canonical_bytes()).unwrap(), bytes);
    }

    #[test]
    fn a_provider_config_has_its_own_labels() {
        let installation = InstallationId::from_uuid(Uuid::from_u128(2));
        let config = ProviderConfigId::from_uuid(Uuid::from_u128(3));
        let marked = OwnerLabels::of_provider_config(config, installation)
            .mark(Manifest::new("v1", "K", "n"));
        let labels = &marked.as_value()["metadata"]["labels"];
        assert_eq!(labels["usher.dev/resource-id"], "00000000-0000-0000-0000-000000000003");
    }
}
