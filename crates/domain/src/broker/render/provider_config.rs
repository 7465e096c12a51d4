//! The ProviderConfig of a credential in a namespace, and the source of its Secret.
//!
//! Only coordinates are written: the credential's value never enters this program.

use serde_json::{Map, Value, json};
use usher_kernel::{Generation, Uid};

use super::anchor::{self, OwnerLabels};
use crate::object::id::ProviderConfigId;
use crate::object::kv::{KvCoordinates, SECRET_KEY};
use crate::object::manifest::Manifest;
use crate::object::name;
use crate::object::provider::Provider;

/// What a ProviderConfig is made from.
#[derive(Clone, Copy, Debug)]
pub struct ProviderConfig<'a> {
    /// Its row.
    pub id: ProviderConfigId,
    pub generation: Generation,
    /// The owner written on the objects.
    pub labels: OwnerLabels,
    /// The cloud provider.
    pub provider: Provider,
    /// The project's namespace, where the Secret always is.
    pub namespace: &'a str,
    /// The cloud's endpoint document; holds nothing secret.
    pub endpoint: &'a Map<String, Value>,
    /// Where the credential lies.
    pub credential: &'a KvCoordinates,
    /// The uid of the generation's anchor.
    pub anchor: &'a Uid,
}

/// The ProviderConfig; `seen` is the uid it is applied onto, absent for the first create.
pub fn provider_config(it: &ProviderConfig<'_>, seen: Option<&Uid>) -> Manifest {
    let kind = it.provider.config_type();
    let bare = Manifest::new(kind.api_version, kind.kind, &name::provider_config(it.id));
    let placed = anchor::placed(bare, kind.scope, it.namespace);
    let manifest = belonging(it, placed, seen).with(
        "spec",
        "credentials",
        json!({
            "source": "Secret",
            "secretRef": {
                "namespace": it.namespace,
                "name": name::provider_config_secret(it.id),
                "key": SECRET_KEY,
            },
        }),
    );
    if it.endpoint.is_empty() {
        return manifest;
    }
    manifest.with("spec", "endpoint", Value::Object(it.endpoint.clone()))
}

/// The ExternalSecret that materialises the Secret from the store called `store`, for exactly as
/// long.
pub fn external_secret(it: &ProviderConfig<'_>, store: &str, seen: Option<&Uid>) -> Manifest {
    let secret = name::provider_config_secret(it.id);
    let key = format!("{}/{}", it.credential.mount(), it.credential.path());
    let bare = Manifest::new("external-secrets.io/v1", "ExternalSecret", &secret)
        .in_namespace(it.namespace);
    belonging(it, bare, seen).with_top(
        "spec",
        json!({
            "refreshInterval": "1h",
            "secretStoreRef": { "kind": "ClusterSecretStore", "name": store },
            "target": { "name": secret, "creationPolicy": "Owner" },
            "data": [{
                "secretKey": SECRET_KEY,
                "remoteRef": { "key": key, "property": SECRET_KEY },
            }],
        }),
    )
}

fn belonging(it: &ProviderConfig<'_>, manifest: Manifest, seen: Option<&Uid>) -> Manifest {
    let name = name::provider_config_anchor(it.id, it.generation);
    let owner = anchor::owner(name, it.provider.config_type().scope, it.anchor);
    let manifest = it.labels.mark(manifest).owned_by(&owner);
    match seen {
        Some(uid) => manifest.for_uid(uid),
        None => manifest,
    }
}
