//! Every name Usher gives to something outside, derived in one place.

use sha2::{Digest, Sha256};
use usher_kernel::Generation;
use uuid::Builder;

use super::id::{ProjectId, ProviderConfigId, ResourceId, TokenId};

/// The suffix, spelled once.
macro_rules! suffix {
    () => {
        "usher.dev"
    };
}

/// The suffix of every group, label, annotation and finalizer of ours.
pub const SUFFIX: &str = suffix!();
/// The field manager of every apply.
pub const FIELD_MANAGER: &str = "usher-broker";
/// Label: the record an object belongs to.
pub const LABEL_RESOURCE_ID: &str = concat!(suffix!(), "/resource-id");
/// Label: which installation an object belongs to.
pub const LABEL_INSTALLATION: &str = concat!(suffix!(), "/installation");
/// Label: the object is in use.
pub const LABEL_IN_USE: &str = concat!(suffix!(), "/in-use");
/// Annotation: a person's note that allows the deletion of an object in use.
pub const ANNOTATION_BREAK_GLASS: &str = concat!(suffix!(), "/break-glass");
/// Annotation of a namespace: the namespaces whose Usages may protect the objects in it.
pub const ANNOTATION_USAGE_CONSENT: &str = concat!(suffix!(), "/usage-consent");
/// Annotation of a recorded cluster: resets its mass-deletion guard; the value is a person's note.
pub const ANNOTATION_RESET_GUARD: &str = concat!(suffix!(), "/reset-guard");
/// Annotation of a recorded cluster: accepts the cluster that answers now; the value is a person's
/// note.
pub const ANNOTATION_RESET_PIN: &str = concat!(suffix!(), "/reset-pin");
/// Annotation of our Lease: the epoch of its holder.
pub const ANNOTATION_LEASE_EPOCH: &str = concat!(suffix!(), "/lease-epoch");
/// Annotation of our Lease: when its holder released it with nothing left on its way.
pub const ANNOTATION_LEASE_RELEASED: &str = concat!(suffix!(), "/lease-released");
/// Finalizer of Usages.
pub const FINALIZER_USAGE: &str = concat!(suffix!(), "/usage");
/// Finalizer of anchors.
pub const FINALIZER_ANCHOR: &str = concat!(suffix!(), "/anchor");
/// Finalizer of direct resources.
pub const FINALIZER_DIRECT: &str = concat!(suffix!(), "/direct");
/// Annotation: what becomes of the cloud object when a direct resource is deleted.
pub const ANNOTATION_DELETION_POLICY: &str = concat!(suffix!(), "/deletion-policy");
/// Annotation: the stamp of a direct resource, its recorded identity outside of its status.
pub const ANNOTATION_IDENTITY: &str = concat!(suffix!(), "/identity");
/// Label: the record of an object that ended although something of it may be left behind.
pub const LABEL_ORPHAN: &str = concat!(suffix!(), "/orphan");
/// Annotation of our definitions: their version, so that an older program leaves them alone.
pub const ANNOTATION_DEFINITIONS: &str = concat!(suffix!(), "/definitions");
/// The version in which every group of ours is served.
pub const API_VERSION: &str = "v1alpha1";
/// The group of anchors.
pub const BROKER_GROUP: &str = concat!("broker.", suffix!());
/// The API version of anchors.
pub const ANCHOR_API_VERSION: &str = concat!("broker.", suffix!(), "/v1alpha1");

/// The group of Usages.
pub const PROTECTION_GROUP: &str = concat!("protection.", suffix!());
/// The API version of Usages.
pub const USAGE_API_VERSION: &str = concat!("protection.", suffix!(), "/v1alpha1");
/// The group of records.
pub const RECORDS_GROUP: &str = concat!("records.", suffix!());
/// The API version of records.
pub const RECORD_API_VERSION: &str = concat!("records.", suffix!(), "/v1alpha1");
/// The field manager that owns our definitions.
pub const DEFINITIONS_OWNER: &str = "usher-definitions";
/// Our own namespace on a cluster.
pub const SYSTEM_NAMESPACE: &str = "usher-system";
/// What the namespace of every project begins with.
pub const NAMESPACE_PREFIX: &str = "usher-project-";

/// The name of a resource's XR: never supplied by a caller, the same in every generation.
pub fn xr(resource: ResourceId) -> String {
    format!("pr-{resource}")
}

/// The name of the anchor of one generation.
pub fn anchor(resource: ResourceId, generation: Generation) -> String {
    format!("pr-{resource}-{generation}")
}

/// The name of a ProviderConfig.
pub fn provider_config(id: ProviderConfigId) -> String {
    format!("pc-{id}")
}

/// The name of the anchor of one generation of a ProviderConfig.
pub fn provider_config_anchor(id: ProviderConfigId, generation: Generation) -> String {
    format!("pc-{id}-{generation}")
}

/// The name of the Secret of a ProviderConfig, and of the ExternalSecret that makes it. Two
/// ProviderConfigs may use one credential and never one Secret: each is deleted with its own.
pub fn provider_config_secret(id: ProviderConfigId) -> String {
    format!("cloud-credentials-{id}")
}

/// The namespace of a project.
pub fn namespace(project: ProjectId) -> String {
    format!("{NAMESPACE_PREFIX}{project}")
}

/// The id of the bootstrap token of one generation: derived, so that it is known before the first
/// request and a repeated request means the same token.
pub fn token(resource: ResourceId, generation: Generation) -> TokenId {
    let digest = Sha256::new()
        .chain_update(b"usher token id\0")
        .chain_update(resource.as_uuid().as_bytes())
        .chain_update(generation.0.to_be_bytes())
        .finalize();
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    TokenId::from_uuid(Builder::from_custom_bytes(bytes).into_uuid())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: N-3, E-11
    #[test]
    fn a_token_id_is_one_per_resource_and_generation() {
        let one = ResourceId::from_uuid(Uuid::from_bytes([1; 16]));
        let two = ResourceId::from_uuid(Uuid::from_bytes([2; 16]));
        let ids = [token(one, Generation(1)), token(one, Generation(2)), token(two, Generation(1))];
        assert_eq!(ids[0], token(one, Generation(1)));
        assert!(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
        let text = ids[0].to_string();
        assert_eq!(text.parse(), Ok(ids[0]), "a valid id: {text}");
    }
    use uuid::Uuid;

    // Requirement: N-6
    #[test]
    fn names_of_ours_end_or_begin_with_the_one_suffix() {
        let names = [
            LABEL_RESOURCE_ID,
            LABEL_INSTALLATION,
            LABEL_IN_USE,
            FINALIZER_ANCHOR,
            FINALIZER_DIRECT,
            ANNOTATION_DELETION_POLICY,
            ANNOTATION_IDENTITY,
            ANNOTATION_RESET_GUARD,
            ANNOTATION_RESET_PIN,
            LABEL_ORPHAN,
            ANNOTATION_DEFINITIONS,
        ];
        assert!(names.iter().all(|it| it.starts_with(SUFFIX)), "{names:?}");
        assert_eq!(ANCHOR_API_VERSION, "broker.usher.dev/v1alpha1");
        assert_eq!(LABEL_RESOURCE_ID, "usher.dev/resource-id");
        let groups = [
            (ANCHOR_API_VERSION, BROKER_GROUP),
            (USAGE_API_VERSION, PROTECTION_GROUP),
            (RECORD_API_VERSION, RECORDS_GROUP),
        ];
        for (version, group) in groups {
            assert_eq!(version, format!("{group}/{API_VERSION}"));
        }
    }

    // Requirement: N-1, N-5
    #[test]
    fn derived_names_are_dns_labels() {
        for bytes in [[0xff; 16], [1; 16]] {
            let uuid = Uuid::from_bytes(bytes);
            let resource = ResourceId::from_uuid(uuid);
            let config = ProviderConfigId::from_uuid(uuid);
            let last = Generation(u32::MAX);
            let names = [
                xr(resource),
                anchor(resource, last),
                provider_config(config),
                provider_config_anchor(config, last),
                provider_config_secret(config),
                namespace(ProjectId::from_uuid(uuid)),
            ];
            assert_eq!(names[0].len(), 39);
            for name in names {
                assert!(name.len() <= 63, "{name}");
                let inner = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
                assert!(name.chars().all(inner) && !name.ends_with('-'), "{name}");
            }
        }
    }
}
