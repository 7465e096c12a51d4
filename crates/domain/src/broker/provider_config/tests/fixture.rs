//! Rows and snapshots that the tests start from.

use usher_kernel::Uid;

use super::super::*;
use crate::broker::fixture::{G1, NOW, installation, uuid};
use crate::broker::snapshot;
use crate::object::authority::Authority;

pub(super) fn config(bend: impl FnOnce(&mut ProviderConfig)) -> ProviderConfig {
    let mut config = ProviderConfig {
        id: ProviderConfigId::from_uuid(uuid(7)),
        installation: installation(),
        world: "local".to_owned(),
        namespace: "ns".to_owned(),
        provider: Provider::Local,
        credential: CredentialId::from_uuid(uuid(5)),
        coordinates: KvCoordinates::new("secret", "clouds/main").unwrap(),
        users: 1,
        phase: Phase::Pending,
        generation: G1,
        grace_until: None,
    };
    bend(&mut config);
    config
}

pub(super) fn out(generation: Generation) -> ProviderConfig {
    config(|it| {
        it.phase = Phase::Leaving;
        it.users = 0;
        it.generation = generation;
    })
}

pub(super) fn object(uid: &str, owner: Option<&str>) -> snapshot::Object {
    snapshot::Object {
        uid: Uid::new(uid),
        installation: Some(installation().to_string()),
        record_id: Some(config(|_| ()).id.to_string()),
        owner: owner.map(Uid::new),
        deleting: false,
    }
}

pub(super) fn found(uid: &str, owner: &str) -> Found {
    Found { object: object(uid, Some(owner)), drifted: false, revision: format!("r-{uid}") }
}

pub(super) fn bent(bend: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = Snapshot {
        by: "cluster".to_owned(),
        at: NOW,
        authority: Authority::Pinned,
        guard_tripped: false,
        namespace_ready: Ok(true),
        anchors: Ok([].into()),
        config: Ok(None),
        external_secret: Ok(None),
        secret: Ok(None),
    };
    bend(&mut snapshot);
    snapshot
}
