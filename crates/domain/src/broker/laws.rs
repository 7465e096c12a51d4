//! What holds of any snapshot of any resource, whatever the rules say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use usher_kernel::{
    Decision, Evidence, Generation, Lifecycle, Name, NameLedger, NameState, Record, Row, Timestamp,
    Uid, Unknown, Version,
};

use super::aggregate::{Fields, KIND_PEER, Resource};
use super::effect::Effect;
use super::event::{Event, Outcome};
use super::facts::GenerationState;
use super::fixture::{G1, G2, NOW, START, fields, installation, part, peer_id};
use super::observe::fold;
use super::phase::Phase;
use super::reconciler::Broker;
use super::render::anchor::is_anchor;
use super::snapshot::{
    ComposedSnapshot, ComposedState, Condition, Guard, Object, Peer, PeerState, Reading, Snapshot,
    TokenState, XrObject,
};
use super::tombstone::Tombstone;
use crate::blueprint::MeshRole;
use crate::object::authority::Authority;

/// Few uids, so that they collide often.
pub(super) fn any_uid() -> impl Strategy<Value = Uid> {
    select(vec!["a", "b", "x", "y"]).prop_map(Uid::new)
}

pub(super) fn any_reading<T: std::fmt::Debug + Clone>(
    answer: impl Strategy<Value = T>,
) -> impl Strategy<Value = Reading<T>> {
    let why = select(vec![Unknown::Unreachable, Unknown::Forbidden, Unknown::ClusterReplaced]);
    prop_oneof![6 => answer.prop_map(Ok), 1 => why.prop_map(Err)]
}

pub(super) fn any_authority() -> impl Strategy<Value = Authority> {
    prop_oneof![6 => Just(Authority::Pinned), 1 => Just(Authority::Replaced)]
}

/// An object with or without the labels of this resource.
pub(super) fn any_object(record_id: String) -> impl Strategy<Value = Object> {
    let ours = prop_oneof![4 => Just(Some(installation().to_string())), 1 => Just(None)];
    let record_id = prop_oneof![4 => Just(Some(record_id)), 1 => Just(Some("another".to_owned()))];
    (any_uid(), ours, record_id, prop::option::of(any_uid()), any::<bool>()).prop_map(
        |(uid, installation, record_id, owner, deleting)| Object {
            uid,
            installation,
            record_id,
            owner,
            deleting,
        },
    )
}

/// Rows in any state under some of these names.
pub(super) fn any_name_ledger(names: Vec<Name>) -> impl Strategy<Value = NameLedger> {
    let state = || {
        let state = (select(NameState::ALL.to_vec()), any_uid());
        prop::option::weighted(0.8, state)
    };
    let states = prop::collection::vec(state(), names.len());
    states.prop_map(move |states| {
        let rows = names.iter().cloned().zip(states).filter_map(|(name, state)| {
            let (state, uid) = state?;
            let uid = match state {
                NameState::Seen | NameState::Gone => Some(uid),
                NameState::Intended | NameState::Foreign | NameState::Abandoned => None,
            };
            let evidence = Evidence::new("given", "given", START);
            Some(Row { name, plural: None, incarnation: 1, state, uid, evidence })
        });
        NameLedger::new(rows)
    })
}

fn any_resource() -> impl Strategy<Value = Resource> {
    let times = || prop::option::of(select(vec![START, NOW, Timestamp::from_millis(90_000)]));
    (
        select(Phase::ALL.to_vec()),
        select(GenerationState::ALL.to_vec()),
        select(MeshRole::ALL.to_vec()),
        select(vec![G1, G2]),
        times(),
        times(),
    )
        .prop_map(|(phase, generation_state, role, generation, asked, grace_until)| {
            let mut fields =
                Fields { phase, generation, generation_state, grace_until, ..fields() };
            fields.pinned.role = role;
            fields.deletion_requested_at =
                if phase.is_leaving() { asked.or(Some(START)) } else { asked };
            fields.outcome = (phase == Phase::Deleted).then_some(Outcome::Removed);
            Resource::hydrate(fields).unwrap()
        })
}

fn names(resource: &Resource) -> Vec<Name> {
    let generations = (1..=resource.generation().0).map(Generation);
    let of_one = |it| {
        [
            resource.anchor_name(it),
            resource.xr_name(it),
            resource.token_name(it),
            resource.peer_name(it),
            part("p", it),
            part("q", it),
        ]
    };
    generations.flat_map(of_one).collect()
}

fn any_record() -> impl Strategy<Value = Record<Resource>> {
    any_resource().prop_flat_map(|state| {
        let ledgers = any_name_ledger(names(&state));
        ledgers.prop_map(move |name_ledger| Record {
            version: Version(1),
            state: state.clone(),
            name_ledger,
        })
    })
}

fn any_xr() -> impl Strategy<Value = XrObject> {
    let condition = prop_oneof![
        Just(Condition::Converging),
        Just(Condition::Ready),
        Just(Condition::Failed { message: "no quota".to_owned() }),
    ];
    let object = any_object(fields().id.to_string());
    (object, condition, any::<bool>()).prop_map(|(object, condition, drifted)| XrObject {
        object,
        condition,
        drifted,
    })
}

fn any_composed() -> impl Strategy<Value = Vec<ComposedSnapshot>> {
    let state = prop_oneof![
        (any_uid(), any::<bool>()).prop_map(|(uid, ours)| ComposedState::Present { uid, ours }),
        Just(ComposedState::Absent),
        Just(ComposedState::KindRemoved),
    ];
    let one = prop::option::of((any_reading(state), any::<bool>()));
    prop::collection::vec(one, 4).prop_map(|looks| {
        let names = [part("p", G1), part("q", G1), part("p", G2), part("q", G2)];
        let both = names.into_iter().zip(looks);
        both.filter_map(|(name, snapshot)| {
            let (reading, referred) = snapshot?;
            Some(ComposedSnapshot { plural: None, name, reading, referred })
        })
        .collect()
    })
}

/// A map from some of the two generations.
pub(super) fn by_generation<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = BTreeMap<Generation, T>> {
    prop::collection::btree_map(select(vec![G1, G2]), value, 0..=2)
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let peer = select(vec![PeerState::Registered, PeerState::Lost, PeerState::Deregistered]);
    let peer = peer.prop_map(|state| Peer { id: peer_id(9), state });
    let token = select(vec![
        TokenState::Redeemable,
        TokenState::Consumed,
        TokenState::Expired,
        TokenState::Revoked,
    ]);
    let guard = prop_oneof![
        4 => Just(Guard::None),
        1 => Just(Guard::Ours),
        1 => Just(Guard::Another)
    ];
    let own = (by_generation(token), any_reading(by_generation(peer)), any_reading(guard));
    let anchors = any_reading(by_generation(any_object(fields().id.to_string())));
    let world = (
        any_authority(),
        prop::bool::weighted(0.1),
        any_reading(prop::bool::weighted(0.8)),
        anchors,
        any_reading(prop::option::of(any_xr())),
    );
    let rest = (any_composed(), any_reading(Just(())), any::<bool>());
    (world, rest, own).prop_map(|(world, rest, own)| {
        let (authority, guard_tripped, namespace_ready, anchors, xr) = world;
        let (composed, composed_listed, config_ready) = rest;
        let (tokens, peers, protection) = own;
        Snapshot {
            by: "cluster".to_owned(),
            at: NOW,
            authority,
            guard_tripped,
            namespace_ready,
            anchors,
            config_ready,
            xr,
            composed,
            composed_listed,
            tokens,
            peers,
            protection,
        }
    })
}

/// Whether no authority answered for the name, or none whose answer counts.
fn is_unknown(resource: &Resource, snapshot: &Snapshot, name: &Name) -> bool {
    if name.kind == KIND_PEER {
        return snapshot.peers.is_err();
    }
    let reading = if is_anchor(name) {
        snapshot.anchors.is_ok()
    } else if *name == resource.xr_name(name.generation) {
        snapshot.xr.is_ok()
    } else {
        snapshot.composed.iter().any(|it| it.name == *name && it.reading.is_ok())
    };
    let world = name.place == resource.pinned().namespace;
    world && (!reading || snapshot.authority == Authority::Replaced)
}

/// The object that an effect deletes.
fn taken(effect: &Effect) -> Option<(&Name, &Uid)> {
    match effect {
        Effect::DeleteSubstrate { xr, uid } => Some((xr, uid)),
        Effect::DeleteAnchor { anchor, uid } => Some((anchor, uid)),
        Effect::CreateAnchor { .. }
        | Effect::IssueToken { .. }
        | Effect::Apply { .. }
        | Effect::DeregisterNode { .. }
        | Effect::ReleaseProtection { .. } => None,
    }
}

/// Whether this snapshot proves the object ours: it was on record, or it carries our labels and,
/// being no anchor, the uid of an anchor on record as its owner.
fn is_proven(record: &Record<Resource>, snapshot: &Snapshot, name: &Name, uid: &Uid) -> bool {
    let on_record = record.name_ledger.seen(name).is_some_and(|row| row.uid.as_ref() == Some(uid));
    let (installation, record_id) = (installation(), record.state.id().to_string());
    let anchors = snapshot.anchors.iter().flatten().map(|(generation, it)| (Some(*generation), it));
    let xrs = snapshot.xr.iter().flatten().map(|it| (None, &it.object));
    let by_labels = anchors.chain(xrs).any(|(generation, it)| {
        let owned = record
            .name_ledger
            .rows()
            .iter()
            .any(|row| is_anchor(&row.name) && row.uid.is_some() && row.uid == it.owner);
        let fits = match generation {
            Some(generation) => record.state.anchor_name(generation) == *name,
            None => name.kind == record.state.pinned().composite.group_kind() && owned,
        };
        fits && it.uid == *uid && it.is_labelled(installation, &record_id)
    });
    on_record || by_labels
}

fn is_seen(record: &Record<Resource>, rows: &[Row], name: &Name, uid: &Uid) -> bool {
    let after = record.name_ledger.with(rows);
    after.seen(name).is_some_and(|row| row.uid.as_ref() == Some(uid))
}

/// A decision, in parts that can be compared.
fn decide(
    record: &Record<Resource>,
    snapshot: &Snapshot,
) -> (Resource, Vec<Row>, Option<Effect>, Option<Event>) {
    let seen = fold(&record.state, &record.name_ledger, snapshot);
    assert_eq!(
        seen,
        fold(&record.state, &record.name_ledger, snapshot),
        "the same snapshot, the same facts"
    );
    let Decision { next, rows, effect, event, .. } = Broker::default().decide(record, &seen, NOW);
    (next, rows, effect, event)
}

proptest! {
    // Requirement: K-13
    #[test]
    fn the_same_record_and_snapshot_give_the_same_decision(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        prop_assert_eq!(decide(&record, &snapshot), decide(&record, &snapshot));
    }

    // Requirement: L-2
    #[test]
    fn no_name_is_gone_without_an_answer(record in any_record(), snapshot in any_snapshot()) {
        let (_, rows, ..) = decide(&record, &snapshot);
        for row in rows.iter().filter(|row| row.state == NameState::Gone) {
            prop_assert!(!is_unknown(&record.state, &snapshot, &row.name), "{row:?}");
        }
    }

    // Requirement: L-6
    #[test]
    fn only_what_is_seen_and_ours_is_deleted(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let (_, rows, effect, _) = decide(&record, &snapshot);
        if let Some((name, uid)) = effect.as_ref().and_then(taken) {
            prop_assert!(is_seen(&record, &rows, name, uid), "{effect:?}");
            prop_assert!(is_proven(&record, &snapshot, name, uid), "{effect:?}");
            prop_assert_eq!(snapshot.authority, Authority::Pinned);
        }
    }

    // Requirement: T-2
    #[test]
    fn no_substrate_is_deleted_under_a_registered_peer(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let (_, _, effect, _) = decide(&record, &snapshot);
        let standalone = record.state.pinned().role == MeshRole::Standalone;
        let issues = matches!(effect, Some(Effect::IssueToken { .. }));
        prop_assert!(!standalone || !issues, "a standalone resource redeems no token");
        // No node registers without a token: a standalone resource has no peer to wait for.
        if let (Some(Effect::DeleteSubstrate { .. }), false) = (effect, standalone) {
            let left = |peer: &Peer| peer.state == PeerState::Deregistered;
            prop_assert!(snapshot.peers.is_ok_and(|peers| peers.values().all(left)));
        }
    }

    // Requirement: K-14, L-11, T-1
    #[test]
    fn a_decision_keeps_the_promises_of_the_row(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let before = &record.state;
        let (next, rows, effect, event) = decide(&record, &snapshot);
        prop_assert!(effect.is_none() || event.is_none(), "{effect:?} {event:?}");
        prop_assert_eq!(next.deletion_requested_at(), before.deletion_requested_at());
        let ahead = next.generation().0.checked_sub(before.generation().0);
        prop_assert!(ahead.is_some_and(|by| by <= 1), "generations are torn down one by one");
        prop_assert!(before.deletion_requested_at().is_none() || next.phase().is_leaving());
        prop_assert!(before.phase() != Phase::Deleted || next == *before, "Deleted is for good");
        prop_assert!(next.fields().updated_at >= before.fields().updated_at);
        let settled = record.name_ledger.with(&rows).is_settled();
        let ends = next.phase() == Phase::Deleted && before.phase() != Phase::Deleted;
        prop_assert!(!ends || settled, "it ends when every name has");
        prop_assert_eq!(Resource::hydrate(next.fields().clone()), Ok(next));
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

    // Requirement: T-17
    #[test]
    fn a_tombstone_only_deletes(record in any_record(), snapshot in any_snapshot()) {
        let state = record.state.retired(None, NOW).abandoned(NOW);
        let record = Record { state, ..record };
        let seen = fold(&record.state, &record.name_ledger, &snapshot);
        let decision = Tombstone::default().decide(&record, &seen, NOW);
        prop_assert_eq!(&decision.next, &record.state);
        let releases = matches!(decision.effect, Some(Effect::ReleaseProtection { .. }));
        let taken = decision.effect.as_ref().and_then(taken);
        prop_assert_eq!(decision.effect.is_some() && !releases, taken.is_some());
        if let Some((name, uid)) = taken {
            prop_assert!(is_seen(&record, &decision.rows, name, uid), "{:?}", decision.effect);
            prop_assert!(is_proven(&record, &snapshot, name, uid), "{:?}", decision.effect);
        }
    }
}
