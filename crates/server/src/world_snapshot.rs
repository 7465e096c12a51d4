//! A compact snapshot of a world, to decide which records must be reconciled.
//!
//! It takes a few bytes per object: a world of many objects is compared while the server starts.

use std::collections::BTreeSet;

use usher_domain::broker::aggregate::Resource;
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config::{self, ProviderConfig};
use usher_domain::broker::world::Presence;
use usher_kernel::{NameLedger, NameState, Record, Uid};
use uuid::Uuid;

/// The objects of a world, sorted by owner.
#[derive(Debug)]
pub(super) struct WorldSnapshot(Vec<Presence>);

impl WorldSnapshot {
    pub(super) fn new(mut listed: Vec<Presence>) -> Self {
        listed.sort_unstable_by_key(|it| it.owner);
        Self(listed)
    }

    pub(super) const fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether a resource must be reconciled: it is in transition, or the world differs from its
    /// record.
    pub(super) fn disagrees(&self, record: &Record<Resource>) -> bool {
        let objects = self.of(record.state.id().as_uuid());
        match record.state.phase() {
            Phase::Pending
            | Phase::Provisioning
            | Phase::Enrolling
            | Phase::Deregistering
            | Phase::Deprovisioning => true,
            Phase::Deleted => !objects.is_empty(),
            Phase::Ready => {
                objects.iter().any(|it| it.is_converging)
                    || !is_recorded(&record.name_ledger, objects)
            }
            Phase::Failed => !is_recorded(&record.name_ledger, objects),
        }
    }

    /// Whether a ProviderConfig must be reconciled.
    pub(super) fn disagrees_with_config(&self, record: &Record<ProviderConfig>) -> bool {
        let objects = self.of(record.state.id.as_uuid());
        match record.state.phase {
            provider_config::Phase::Pending | provider_config::Phase::Leaving => true,
            provider_config::Phase::Ready => !is_recorded(&record.name_ledger, objects),
            provider_config::Phase::Gone => !objects.is_empty(),
        }
    }

    fn of(&self, owner: &Uuid) -> &[Presence] {
        let begin = self.0.partition_point(|it| it.owner < *owner);
        let all = self.0.get(begin..).unwrap_or_default();
        let end = all.partition_point(|it| it.owner == *owner);
        all.get(..end).unwrap_or_default()
    }
}

fn made_here(uid: &Uid) -> Option<Uuid> {
    uid.0.parse().ok()
}

/// Whether exactly the objects that are recorded as seen exist, and none is being deleted.
fn is_recorded(name_ledger: &NameLedger, objects: &[Presence]) -> bool {
    let outside = |kind: &str| kind.contains('/') || kind.contains("Anchor");
    let seen = name_ledger
        .rows()
        .iter()
        .filter(|row| row.state == NameState::Seen && outside(&row.name.kind));
    let seen: Option<BTreeSet<Uuid>> =
        seen.filter_map(|row| row.uid.as_ref()).map(made_here).collect();
    let present: Option<BTreeSet<Uuid>> = objects.iter().map(|it| it.uid).collect();
    seen.is_some() && seen == present && objects.iter().all(|it| !it.is_deleting)
}

#[cfg(test)]
mod tests {
    use usher_kernel::{Generation, Name, Row, Timestamp};

    use super::*;

    const OWNER: Uuid = Uuid::from_u128(7);
    const OTHER: Uuid = Uuid::from_u128(8);

    fn seen(kind: &str, uid: &str) -> Row {
        let (place, name) = ("ns".to_owned(), format!("{kind}-{uid}"));
        let name = Name { kind: kind.to_owned(), place, name, generation: Generation::FIRST };
        let row = Row::intended(name, "test", Timestamp::ZERO);
        Row { state: NameState::Seen, uid: Some(Uid::new(uid)), ..row }
    }

    fn present(owner: Uuid, uid: u128) -> Presence {
        Presence {
            owner,
            uid: Some(Uuid::from_u128(uid)),
            is_deleting: false,
            is_converging: false,
        }
    }

    /// Red by: a world that changed without a watch and is taken for unchanged.
    #[test]
    fn a_world_matches_if_exactly_the_recorded_objects_exist() {
        let uid = |it: u128| Uuid::from_u128(it).to_string();
        let token = seen("Token", "t");
        let name_ledger =
            NameLedger::new([seen("ClusterAnchor", &uid(1)), seen("x/Y", &uid(2)), token]);
        let whole = [present(OWNER, 1), present(OWNER, 2)];
        assert!(is_recorded(&name_ledger, &whole), "kinds of the control plane are ignored");
        assert!(!is_recorded(&name_ledger, &whole[..1]), "one is gone");
        assert!(!is_recorded(&name_ledger, &[whole[0], present(OWNER, 3)]), "one was replaced");
        assert!(
            !is_recorded(&name_ledger, &[whole[0], whole[1], present(OWNER, 3)]),
            "one was added"
        );
        assert!(!is_recorded(
            &name_ledger,
            &[whole[0], Presence { is_deleting: true, ..whole[1] }]
        ));
        assert!(
            !is_recorded(&name_ledger, &[whole[0], Presence { uid: None, ..whole[1] }]),
            "unreadable"
        );
        let foreign = NameLedger::new([seen("x/Y", "not made here")]);
        let unreadable = Presence { uid: None, ..whole[0] };
        assert!(!is_recorded(&foreign, &[unreadable]), "two unknown uids are not equal");
    }

    #[test]
    fn each_record_is_compared_with_its_own_objects() {
        let all = WorldSnapshot(vec![present(OWNER, 1), present(OWNER, 2), present(OTHER, 3)]);
        assert_eq!(all.of(&OWNER), &all.0[..2]);
        assert_eq!(all.of(&OTHER), &all.0[2..]);
        for unknown in [Uuid::nil(), Uuid::max()] {
            assert_eq!(all.of(&unknown), []);
        }
    }
}
