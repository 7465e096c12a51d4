//! What holds of any snapshot of any Usage, whatever the rules say.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::sample::select;
use usher_kernel::{
    Decision, Evidence, Lifecycle, NameLedger, NameState, Record, Row, Timestamp, Uid, Unknown,
    Version,
};

use super::aggregate::{OwnerReference, Resolved, Spec, Status, Usage};
use super::attempt::{Attempt, Origin, Progress};
use super::effect::Effect;
use super::event::Event;
use super::facts::Resolve;
use super::fixture::{NOW, START, attempt, key, reference, usage, usage_key};
use super::observe::fold;
use super::phase::Phase;
use super::reconciler::UsageReconciler;
use super::reference::{ObjectKey, Role};
use super::refusal::Refusal;
use super::snapshot::{Found, Object, Other, Probe, Reading, Snapshot};
use crate::object::authority::Authority;

const NAMES: [&str; 4] = ["db", "old", "app", "b"];

/// Few uids, so that they collide often.
fn any_uid() -> impl Strategy<Value = Uid> {
    select(vec!["x", "y", "u-1", "o-1"]).prop_map(Uid::new)
}

fn any_reading<T: std::fmt::Debug + Clone>(
    answer: impl Strategy<Value = T>,
) -> impl Strategy<Value = Reading<T>> {
    let why = select(vec![Unknown::Unreachable, Unknown::Forbidden, Unknown::ClusterReplaced]);
    prop_oneof![8 => answer.prop_map(Ok), 1 => why.prop_map(Err)]
}

fn any_found() -> impl Strategy<Value = Found> {
    let mark = prop::option::of(select(vec!["u-1", "o-1", "true"]));
    let owners = prop::collection::vec(any_uid(), 0..2);
    let object = (any_uid(), mark, prop::bool::weighted(0.2), owners);
    let object = object.prop_map(|(uid, mark, deleting, owners)| {
        let mark = mark.map(str::to_owned);
        let blocks = !owners.is_empty();
        Found::Present(Object { uid, mark, deleting, owners, blocks, revision: "7".to_owned() })
    });
    prop_oneof![6 => object, 2 => Just(Found::Absent), 1 => Just(Found::KindRemoved)]
}

fn any_attempt() -> impl Strategy<Value = Attempt> {
    let progress =
        select(vec![Progress::Recorded, Progress::Begun, Progress::Withdrawn { at: START }]);
    let origin = prop_oneof![
        Just(Origin::Asked),
        prop::collection::vec(any_uid(), 0..2).prop_map(|owners| Origin::Collected { owners }),
    ];
    let expiry = select(vec![START, Timestamp::from_millis(90_000)]);
    (select(NAMES.to_vec()), any_uid(), progress, origin, expiry).prop_map(
        |(name, uid, progress, origin, expires_at)| Attempt {
            object: key(name),
            uid,
            progress,
            origin,
            expires_at,
            ..attempt("x")
        },
    )
}

fn any_usage() -> impl Strategy<Value = Usage> {
    let found = |names: Vec<&'static str>, of: &'static str| {
        let found = prop::sample::subsequence(names, 0..=2);
        let resolved = found.prop_map(move |found| Resolved {
            from: reference(of),
            found: found.into_iter().map(key).collect(),
        });
        prop::option::weighted(0.9, resolved)
    };
    let status = (
        select(Phase::ALL.to_vec()),
        found(vec!["db", "old"], "db"),
        found(vec!["app", "b"], "app"),
        prop::collection::btree_set(any_uid(), 0..2),
        prop::collection::vec(any_attempt(), 0..3),
    );
    let row = (any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>());
    (status, row, prop::bool::weighted(0.1)).prop_map(|(status, row, unread)| {
        let (phase, of, by, proven, attempts) = status;
        let (deleting, finalizer, always, replay, blocks) = row;
        usage(|it| {
            it.status = Status { phase, of, by, proven, attempts };
            (it.deleting, it.finalizer) = (deleting, finalizer);
            it.owners = vec![OwnerReference { uid: Uid::new("x"), controller: true, blocks }];
            let resolve = if always { Resolve::Always } else { Resolve::Once };
            it.spec = if unread {
                Err(Refusal::PurposeMissing)
            } else {
                let (of, by) = (reference("db"), Some(reference("app")));
                Ok(Spec { of, by, reason: None, resolve, replay })
            };
        })
    })
}

fn any_record() -> impl Strategy<Value = Record<Usage>> {
    let state = (select(NameState::ALL.to_vec()), any_uid());
    let states = prop::collection::vec(prop::option::weighted(0.8, state), 4);
    (any_usage(), states).prop_map(|(state, states)| {
        let roles = [Role::Mark, Role::Mark, Role::User, Role::User];
        let named = NAMES.iter().zip(roles).zip(states);
        let rows = named.filter_map(|((name, role), state)| {
            let (state, uid) = state?;
            let uid = match state {
                NameState::Seen | NameState::Gone => Some(uid),
                NameState::Intended | NameState::Foreign | NameState::Abandoned => None,
            };
            let evidence = Evidence::new("given", "given", START);
            Some(Row {
                plural: None,
                name: role.name(&key(name)),
                incarnation: 1,
                state,
                uid,
                evidence,
            })
        });
        Record { version: Version(1), state, name_ledger: NameLedger::new(rows) }
    })
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let objects = prop::collection::vec(any_reading(any_found()), 4);
    let probe = prop::option::of(any_reading(select(vec![Probe::Refused, Probe::Allowed])));
    let other = (prop::sample::subsequence(vec!["db", "old"], 0..=2), any::<bool>());
    let other = other.prop_map(|(holds, knows)| Other {
        usage: usage_key("o"),
        uid: Uid::new("o-1"),
        holds: holds.into_iter().map(key).collect(),
        attempts: knows.then(|| (Uid::new("x"), Progress::Recorded)).into_iter().collect(),
    });
    let others = any_reading(prop::collection::vec(other, 0..2));
    let world = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let circle = any_reading(prop::option::weighted(0.1, Just("a → a".to_owned())));
    (objects, probe, others, world, circle).prop_map(|(objects, probe, others, world, circle)| {
        let objects = NAMES.iter().map(|it| key(it)).zip(objects).collect();
        Snapshot {
            by: "cluster".to_owned(),
            at: NOW,
            authority: if world.0 { Authority::Replaced } else { Authority::Pinned },
            guard_tripped: world.1,
            of_candidates: Ok(vec![]),
            by_candidates: Ok(vec![]),
            consents: Ok(true),
            circle,
            objects,
            others,
            probes: probe.map(|it| (key("db"), it)).into_iter().collect::<BTreeMap<_, _>>(),
        }
    })
}

fn decide(record: &Record<Usage>, snapshot: &Snapshot) -> Decision<UsageReconciler> {
    let seen = fold(&record.state, &record.name_ledger, snapshot);
    assert_eq!(
        seen,
        fold(&record.state, &record.name_ledger, snapshot),
        "the same snapshot, the same facts"
    );
    UsageReconciler::default().decide(record, &seen, NOW)
}

fn existing<'a>(snapshot: &'a Snapshot, object: &ObjectKey) -> Option<&'a Object> {
    match snapshot.objects.get(object)?.as_ref().ok()? {
        Found::Present(it) => Some(it),
        Found::Absent | Found::KindRemoved => None,
    }
}

fn is_held_by_others(snapshot: &Snapshot, object: &ObjectKey) -> bool {
    snapshot.others.as_ref().is_ok_and(|it| it.iter().any(|it| it.holds.contains(object)))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn only_the_status_of_a_usage_is_written(record in any_record(), snapshot in any_snapshot()) {
        let it = decide(&record, &snapshot);
        let expected = Usage { status: it.next.status.clone(), ..record.state.clone() };
        prop_assert_eq!(&it.next, &expected);
        let same = it.next == record.state && it.rows.is_empty();
        let own = it.effect.as_ref().is_some_and(|it| it.kind().is_own());
        prop_assert!(!own || same, "a verb on the Usage is done alone");
        prop_assert!(it.effect.is_none() || it.event.is_none());
    }

    #[test]
    fn no_row_ends_on_an_answer_that_is_missing(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        for row in decide(&record, &snapshot).rows.iter().filter(|it| it.state == NameState::Gone) {
            let key = Role::Mark.key(&row.name).or_else(|| Role::User.key(&row.name)).unwrap();
            let reading = snapshot.objects[&key].is_ok() && snapshot.authority == Authority::Pinned;
            let only_meant = row.uid.is_none() && Role::Mark.key(&row.name).is_some();
            prop_assert!(reading || only_meant, "{row:?}");
        }
    }

    // Requirement: G-2
    #[test]
    fn an_object_is_marked_under_the_finalizer_and_at_its_recorded_uid(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        if let Some(Effect::Mark { object, uid, mark }) = decide(&record, &snapshot).effect {
            prop_assert!(record.state.finalizer && record.state.holds(&object));
            let row = record.name_ledger.seen(&Role::Mark.name(&object)).unwrap();
            prop_assert_eq!(row.uid.as_ref(), Some(&uid));
            prop_assert_eq!(&existing(&snapshot, &object).unwrap().uid, &uid);
            prop_assert_eq!(mark, record.state.mark());
        }
    }

    // Requirement: G-6
    #[test]
    fn a_mark_is_removed_only_where_no_usage_is_known_to_hold(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        if let Some(Effect::Unmark { object, uid, mark }) = decide(&record, &snapshot).effect {
            prop_assert!(!record.state.holds(&object) && snapshot.others.is_ok());
            prop_assert!(!is_held_by_others(&snapshot, &object));
            let found = existing(&snapshot, &object).unwrap();
            prop_assert_eq!((&found.uid, &found.mark), (&uid, &Some(mark)));
        }
    }

    // Requirement: G-8, G-23
    #[test]
    fn a_deletion_is_replayed_with_its_options_and_no_others(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let effect = decide(&record, &snapshot).effect;
        if let Some(Effect::Replay { object, uid, revision, .. }) = effect {
            let attempt = record.state.attempt(&uid).unwrap();
            let found = existing(&snapshot, &object).unwrap();
            prop_assert_eq!(&attempt.object, &object);
            prop_assert_eq!(&found.uid, &uid);
            prop_assert_eq!(attempt.progress, Progress::Begun);
            prop_assert!(attempt.expires_at > NOW && !found.deleting && record.state.replays());
            prop_assert!(!record.state.holds(&object) && !is_held_by_others(&snapshot, &object));
            let owners = match &attempt.origin {
                Origin::Asked => None,
                Origin::Collected { owners } => Some(owners),
            };
            prop_assert!(owners.is_none_or(|it| *it == found.owners));
            prop_assert_eq!(revision.is_some(), owners.is_some());
        }
    }

    // Requirement: G-3
    #[test]
    fn a_used_object_is_held_while_a_user_exists_or_is_unknown(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let before = &record.state;
        let next = decide(&record, &snapshot).next;
        let ends = before.status.phase.holds() && !next.status.phase.holds();
        if ends && (before.finalizer || !before.deleting) {
            for user in before.users() {
                prop_assert!(snapshot.objects[user].is_ok(), "{user} was not seen");
                let row = record.name_ledger.latest(&Role::User.name(user));
                let recorded = row.filter(|it| it.state == NameState::Seen);
                if let (Some(found), Some(row)) = (existing(&snapshot, user), recorded) {
                    prop_assert_ne!(Some(&found.uid), row.uid.as_ref(), "{} exists", user);
                }
            }
        }
    }

    // Requirement: G-2
    #[test]
    fn the_usage_is_deleted_when_it_holds_and_owes_nothing(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let it = decide(&record, &snapshot);
        if let Some(Effect::RemoveFinalizer | Effect::Retire) = it.effect {
            prop_assert_eq!(record.state.status.phase, Phase::Released);
            prop_assert!(record.state.status.attempts.is_empty());
            let rows = record.name_ledger.rows().iter();
            let marks = rows.filter(|it| Role::Mark.key(&it.name).is_some());
            let mut open = marks.filter(|it| !it.state.is_settled());
            prop_assert_eq!(open.next(), None);
        }
        if it.event == Some(Event::Protected) {
            prop_assert!(!record.state.targets().is_empty());
            for object in record.state.targets() {
                let found = existing(&snapshot, object).unwrap();
                let asked = matches!(snapshot.probes.get(object), Some(Ok(Probe::Refused)));
                prop_assert!(asked || record.state.status.proven.contains(&found.uid));
                prop_assert!(found.mark.is_some() && !found.deleting);
            }
        }
    }

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
