//! What holds of any snapshot of any ProviderConfig, whatever the rules say.

use proptest::prelude::*;
use proptest::sample::select;
use usher_kernel::{Decision, Lifecycle, NameLedger, NameState, Record, Uid, Version};

use super::*;
use crate::broker::facts::Anchor;
use crate::broker::fixture::{G1, G2, NOW, installation, uuid};
use crate::broker::laws::{any_authority, any_name_ledger, any_object, any_reading, by_generation};
use crate::broker::render::anchor::is_anchor;
use crate::broker::snapshot;
use crate::object::authority::Authority;

fn id() -> ProviderConfigId {
    ProviderConfigId::from_uuid(uuid(7))
}

fn any_record() -> impl Strategy<Value = Record<ProviderConfig>> {
    let quiet = prop::option::of(select(vec![NOW, Timestamp::from_millis(90_000)]));
    let provider = select(vec![Provider::Local, Provider::Hetzner]);
    let state = (select(Phase::ALL.to_vec()), select(vec![G1, G2]), 0_u32..2, quiet, provider);
    let state =
        state.prop_map(|(phase, generation, users, grace_until, provider)| ProviderConfig {
            id: id(),
            installation: installation(),
            world: "local".to_owned(),
            namespace: "ns".to_owned(),
            provider,
            credential: CredentialId::from_uuid(uuid(5)),
            coordinates: KvCoordinates::new("secret", "clouds/main").unwrap(),
            users,
            phase,
            generation,
            grace_until,
        });
    state.prop_flat_map(|state| {
        let generations = (1..=state.generation.0).map(Generation);
        let names = generations.flat_map(|it| {
            let written = [state.config_name(it), state.external_secret_name(it)];
            written.into_iter().chain([state.anchor_name(it), state.secret_name(it)])
        });
        let ledgers = any_name_ledger(names.collect());
        ledgers.prop_map(move |name_ledger| Record {
            version: Version(1),
            state: state.clone(),
            name_ledger,
        })
    })
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let object = || any_object(id().to_string());
    let found = || {
        let found = (object(), any::<bool>(), select(vec!["r1", "r2"]));
        let found = found.prop_map(|(object, drifted, revision)| Found {
            object,
            drifted,
            revision: revision.to_owned(),
        });
        any_reading(prop::option::of(found))
    };
    (
        any_authority(),
        prop::bool::weighted(0.1),
        any_reading(prop::bool::weighted(0.8)),
        any_reading(by_generation(object())),
        (found(), found(), found()),
    )
        .prop_map(|(authority, guard_tripped, namespace_ready, anchors, found)| Snapshot {
            by: "cluster".to_owned(),
            at: NOW,
            authority,
            guard_tripped,
            namespace_ready,
            anchors,
            config: found.0,
            external_secret: found.1,
            secret: found.2,
        })
}

/// What a snapshot says of an object that is no anchor.
fn reading<'a>(snapshot: &'a Snapshot, name: &Name) -> &'a snapshot::Reading<Option<Found>> {
    match name.kind.as_str() {
        KIND_SECRET => &snapshot.secret,
        KIND_EXTERNAL_SECRET => &snapshot.external_secret,
        _ => &snapshot.config,
    }
}

fn decide(
    record: &Record<ProviderConfig>,
    snapshot: &Snapshot,
) -> (ProviderConfig, Vec<Row>, Option<Verb>) {
    let seen = fold(&record.state, &record.name_ledger, snapshot);
    assert_eq!(
        seen,
        fold(&record.state, &record.name_ledger, snapshot),
        "the same snapshot, the same facts"
    );
    let Decision { next, rows, effect, .. } =
        ProviderConfigReconciler::default().decide(record, &seen, NOW);
    (next, rows, effect)
}

fn is_seen(name_ledger: &NameLedger, name: &Name, uid: &Uid) -> bool {
    name_ledger.seen(name).is_some_and(|row| row.uid.as_ref() == Some(uid))
}

proptest! {
    #[test]
    fn no_name_is_gone_without_an_answer(record in any_record(), snapshot in any_snapshot()) {
        let (_, rows, _) = decide(&record, &snapshot);
        for row in rows.iter().filter(|row| row.state == NameState::Gone) {
            let anchors = snapshot.anchors.is_ok();
            let reading =
                if is_anchor(&row.name) { anchors } else { reading(&snapshot, &row.name).is_ok() };
            prop_assert!(reading && snapshot.authority == Authority::Pinned, "{row:?}");
        }
    }

    // Requirement: P-7
    #[test]
    fn only_what_is_seen_is_deleted_and_only_in_teardown(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let (_, rows, verb) = decide(&record, &snapshot);
        let after = record.name_ledger.with(&rows);
        let taken = match &verb {
            Some(Verb::Delete { object, uid, revision }) => {
                let found = reading(&snapshot, object).clone().unwrap().unwrap();
                prop_assert_eq!((uid, revision), (&found.object.uid, &found.revision));
                Some((object, uid))
            }
            Some(Verb::DeleteAnchor { anchor, uid }) => Some((anchor, uid)),
            Some(Verb::CreateAnchor { .. } | Verb::Apply { .. }) | None => None,
        };
        if let Some((name, uid)) = taken {
            prop_assert!(is_seen(&after, name, uid), "{verb:?}");
            let anchor = fold(&record.state, &record.name_ledger, &snapshot).facts.anchor;
            let by_itself = is_anchor(name) && anchor == Anchor::Leaving;
            prop_assert!(record.state.is_tearing_down() || by_itself, "{verb:?}");
            prop_assert_eq!(snapshot.authority, Authority::Pinned);
        }
    }

    // Requirement: P-11
    #[test]
    fn nothing_ends_before_the_grace_is_over(record in any_record(), snapshot in any_snapshot()) {
        let before = &record.state;
        let (next, rows, verb) = decide(&record, &snapshot);
        if before.is_tearing_down() && !before.is_grace_over(NOW) {
            let kept = !matches!(verb, Some(Verb::DeleteAnchor { .. }));
            prop_assert!(kept && next.phase == before.phase, "{verb:?}");
            let ended = |it: &&Row| it.state == NameState::Gone && it.uid.is_none();
            prop_assert_eq!(rows.iter().find(ended), None, "an intended name is not gone yet");
        }
    }

    #[test]
    fn only_what_is_written_is_applied_and_what_was_never_seen_is_created(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let (_, rows, verb) = decide(&record, &snapshot);
        let after = record.name_ledger.with(&rows);
        if let Some(Verb::Apply { objects, anchor }) = verb {
            let it = &record.state;
            let generation = it.generation;
            let names: Vec<_> = objects.iter().map(|it| it.0.clone()).collect();
            let written = [it.external_secret_name(generation), it.config_name(generation)];
            prop_assert_eq!(names, written);
            prop_assert!(is_seen(&after, &it.anchor_name(generation), &anchor));
            for (name, uid) in objects {
                let recorded = after.seen(&name).and_then(|row| row.uid.clone());
                prop_assert_eq!(recorded, uid);
            }
        }
    }

    // Requirement: P-5
    #[test]
    fn a_decision_keeps_the_promises_of_the_row(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let before = &record.state;
        let (next, rows, verb) = decide(&record, &snapshot);
        let begun = next.generation != before.generation;
        let promised = ProviderConfig {
            phase: next.phase,
            generation: if begun { before.generation.next() } else { before.generation },
            grace_until: before.grace_until.filter(|_| !begun),
            ..before.clone()
        };
        prop_assert_eq!(&next, &promised, "nothing else moves");
        prop_assert!(!begun || (before.is_tearing_down() && before.users > 0 && verb.is_none()));
        prop_assert!(!before.is_tearing_down() || next.is_tearing_down() || begun, "sticky");
        let settled = record.name_ledger.with(&rows).is_settled();
        prop_assert!(next.phase != Phase::Gone || before.phase == Phase::Gone || settled);
    }

    /// The first snapshot may record the anchor that proves, in the second, the owner of the
    /// objects under it.
    // Requirement: L-18
    #[test]
    fn an_unchanging_world_is_recorded_after_two_snapshots(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let observed = |name_ledger: NameLedger| {
            let seen = fold(&record.state, &name_ledger, &snapshot);
            name_ledger.with(&name_ledger.absorb(&seen.sightings))
        };
        let after = observed(observed(record.name_ledger.clone()));
        prop_assert_eq!(observed(after.clone()), after);
    }
}
