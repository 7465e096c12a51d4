//! What holds of any snapshot of any row, whatever the rules say.

use std::time::Duration;

use proptest::prelude::*;
use proptest::sample::select;
use usher_kernel::{
    Decision, Lifecycle, NameLedger, NameState, Observation, Record, Row, Timestamp, Uid, Unknown,
    Version, Wake,
};

use super::aggregate::{Fields, History, Resource};
use super::effect::Effect;
use super::event::Event;
use super::facts::Cloud;
use super::fixture::{NOW, START, binding, credential, fields, found, identified, object};
use super::identity::Identified;
use super::mark::{Binding, Mark, RequestId};
use super::observe::fold;
use super::operation::{Operation, Progress};
use super::orphan::{Evidence, OrphanRecord};
use super::phase::Phase;
use super::proof::Outcome;
use super::reconciler::Direct;
use super::recorded::{self, Recorded};
use super::reference::Unresolved;
use super::snapshot::{CloudReading, Container, Found, Object, ReadError, Reading, Snapshot};
use crate::object::authority::Authority;
use crate::object::name::FINALIZER_DIRECT;

const LATER: Timestamp = Timestamp::from_millis(90_000);

fn any_identified() -> impl Strategy<Value = Identified> {
    select(vec!["a", "a", "b"]).prop_map(identified)
}

fn any_reading<T: Clone + std::fmt::Debug>(
    value: impl Strategy<Value = T>,
) -> impl Strategy<Value = Reading<T>> {
    let throttled = ReadError::Throttled { retry_after: Some(Duration::from_secs(7)) };
    let silence = select(vec![ReadError::Refused, throttled, ReadError::Unavailable]);
    prop_oneof![4 => value.prop_map(Ok), 1 => silence.prop_map(Err)]
}

fn any_mark() -> impl Strategy<Value = Option<Mark>> {
    let owner = select(vec!["uid-1", "uid-1", "uid-2"]);
    let mark = (owner, 1_u32..4).prop_map(|(object, attempt)| {
        let owner = Binding { object: Uid::new(object), ..binding() };
        Mark { request: RequestId::of(&owner, attempt), owner }
    });
    prop::option::weighted(0.7, mark)
}

fn any_found() -> impl Strategy<Value = Found> {
    let uid = select(vec!["c-1", "c-2"]);
    (uid, any_mark(), any::<bool>(), any::<bool>())
        .prop_map(|(uid, mark, drifted, leaving)| Found { mark, drifted, leaving, ..found(uid) })
}

fn any_stamp() -> impl Strategy<Value = Option<String>> {
    let owner = select(vec!["uid-1", "uid-2"]);
    let state = select(vec![
        recorded::IdentityState::Gone,
        recorded::IdentityState::Seen { uid: Uid::new("c-1") },
        recorded::IdentityState::Intended { request: RequestId::of(&binding(), 1) },
    ]);
    let read = (owner, state, any_identified()).prop_map(|(owner, state, at)| {
        let owner = Binding { object: Uid::new(owner), ..binding() };
        Recorded::new(owner, state, at).to_text()
    });
    prop::option::of(prop_oneof![3 => read, 1 => Just("{}".to_owned())])
}

fn any_object() -> impl Strategy<Value = Object> {
    let finalizers = prop::sample::subsequence(vec![FINALIZER_DIRECT, "a.b/hold", "a.b/c"], 0..4);
    let policies = vec![None, None, Some("release-with-record"), Some("abandon"), Some("?")];
    (any::<bool>(), finalizers, select(policies), any_stamp(), any_stamp()).prop_map(
        |(deleting, finalizers, policy, stamp, status)| Object {
            deleting,
            finalizers: finalizers.into_iter().map(str::to_owned).collect(),
            policy: policy.map(str::to_owned),
            stamp,
            status,
            ..object()
        },
    )
}

fn any_authority() -> impl Strategy<Value = Authority> {
    select(vec![Authority::Pinned, Authority::Pinned, Authority::Pinned, Authority::Replaced])
}

fn any_asked() -> impl Strategy<Value = Option<CloudReading>> {
    let container = vec![None, Some(Container::Gone), Some(Container::NameState)];
    let asked = (any_identified(), any_reading(prop::option::of(any_found())), select(container));
    prop::option::weighted(
        0.9,
        asked.prop_map(|(identified, found, container)| CloudReading {
            identified,
            found,
            container,
        }),
    )
}

fn any_snapshot() -> impl Strategy<Value = Snapshot> {
    let object = prop_oneof![
        6 => any_object().prop_map(|it| Ok(Some(it))),
        1 => Just(Ok(None)),
        1 => Just(Err(Unknown::Unreachable)),
    ];
    let unresolved = || select(Unresolved::ALL.to_vec());
    let spec = prop_oneof![any_identified().prop_map(Ok), unresolved().prop_map(Err)];
    let config = prop_oneof![3 => Just(Ok(())), 1 => unresolved().prop_map(Err)];
    let operation = select(Progress::ALL.to_vec())
        .prop_map(|progress| Operation { name: "op".to_owned(), progress });
    let guard = || prop::bool::weighted(0.1);
    let search = any_reading(prop::collection::vec((any_identified(), any_found()), 0..3));
    (
        (object, any_authority(), any_authority(), (guard(), guard())),
        (prop::option::weighted(0.8, spec), prop::option::weighted(0.8, config)),
        any_reading(prop::collection::vec(operation, 0..2)),
        (any_asked(), prop::option::of(search)),
        prop::option::of(select(vec![START, NOW])),
    )
        .prop_map(|(outside, references, operations, cloud, may_act_until)| {
            let (object, cluster, authority, (cluster_guard_tripped, guard_tripped)) = outside;
            Snapshot {
                by: "cloud".to_owned(),
                at: NOW,
                may_act_until,
                cluster,
                cluster_guard_tripped,
                object,
                credential: credential(),
                spec: references.0,
                configuration: references.1,
                references: vec![],
                authority,
                guard_tripped,
                operations,
                cloud: cloud.0,
                search: cloud.1,
            }
        })
}

fn any_fields() -> impl Strategy<Value = Fields> {
    let phase = select(Phase::ALL.to_vec());
    let outcome = prop::option::of(select(Outcome::ALL.to_vec()));
    let history = select(vec![History::Witnessed, History::Lost]);
    let time = || prop::option::of(select(vec![START, LATER]));
    (phase, outcome, history, (time(), time(), time()), (1_u32..4, any::<bool>())).prop_map(
        |(phase, outcome, history, (grace_until, watch_until, asked_at), (attempt, named))| {
            let leaving = matches!(phase, Phase::Deleting | Phase::Deleted);
            let outcome = match phase {
                Phase::Deleted => outcome.or(Some(Outcome::Deleted)),
                Phase::Deleting => outcome,
                Phase::Pending | Phase::Creating | Phase::Ready => None,
            };
            let start = fields();
            let orphan = outcome.filter(|it| it.needs_record()).map(|outcome| {
                let whose = (&start.object, binding(), start.kind.as_str());
                OrphanRecord::new(
                    whose,
                    outcome,
                    &NameLedger::default(),
                    Evidence::default(),
                    START,
                )
            });
            Fields {
                phase,
                outcome,
                orphan,
                history,
                grace_until,
                watch_until,
                attempt,
                identity: named.then(|| identified("a")),
                deletion_seen_at: leaving.then_some(START),
                asked_at: asked_at.filter(|_| leaving),
                ..start
            }
        },
    )
}

fn any_record() -> impl Strategy<Value = Record<Resource>> {
    let name_state = select(NameState::ALL.to_vec());
    (any_fields(), name_state).prop_map(|(fields, name_state)| {
        let state = Resource::hydrate(fields).unwrap();
        let row = |it: &Identified| {
            let mut row = Row::intended(state.name_of(it), "given", START);
            let seen =
                matches!(name_state, NameState::Seen | NameState::Gone | NameState::Abandoned);
            row.state = name_state;
            row.uid = seen.then(|| Uid::new("c-1"));
            row
        };
        let name_ledger = NameLedger::new(state.identity().map(row));
        Record { version: Version(1), state, name_ledger }
    })
}

fn decide(record: &Record<Resource>, snapshot: &Snapshot) -> Decision<Direct> {
    let seen = fold(&record.state, &record.name_ledger, snapshot);
    assert_eq!(
        seen,
        fold(&record.state, &record.name_ledger, snapshot),
        "the same snapshot, the same facts"
    );
    Direct::default().decide(record, &seen, NOW)
}

proptest! {
    #[test]
    fn the_same_record_and_snapshot_give_the_same_decision(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let (one, other) = (decide(&record, &snapshot), decide(&record, &snapshot));
        prop_assert_eq!(one.next, other.next);
        prop_assert_eq!((one.rows, one.effect, one.wake), (other.rows, other.effect, other.wake));
        prop_assert_eq!((one.event, one.reason), (other.event, other.reason));
    }

    // Requirement: I-32
    #[test]
    fn a_decision_keeps_the_promises_of_the_row(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let Decision { next, effect, event, wake, .. } = decide(&record, &snapshot);
        let (before, after) = (record.state.fields(), next.fields());
        prop_assert!(Resource::hydrate(after.clone()).is_ok(), "{after:?}");
        prop_assert!(effect.is_none() || event.is_none());
        prop_assert!(after.generation >= before.generation && after.attempt >= before.attempt);
        prop_assert!(before.outcome.is_none() || after.outcome == before.outcome, "sticky");
        prop_assert!(before.asked_at.is_none() || after.asked_at == before.asked_at);
        prop_assert!(before.grace_until <= after.grace_until);
        prop_assert!(wake != Wake::Never || after.phase == Phase::Deleted);
        let outcome = after.outcome;
        let reported = matches!(event, Some(Event::Deleted { outcome: it }) if Some(it) == outcome);
        let ended = before.phase != Phase::Deleted && after.phase == Phase::Deleted;
        prop_assert_eq!(reported, ended);
    }

    #[test]
    fn no_name_is_gone_without_an_answer(record in any_record(), snapshot in any_snapshot()) {
        let cloud = fold(&record.state, &record.name_ledger, &snapshot).facts.cloud;
        for row in decide(&record, &snapshot).rows {
            let known = record.name_ledger.latest(&row.name).map(|it| it.state);
            if row.state == NameState::Gone && known.is_some_and(|it| it != NameState::Gone) {
                let answered = [
                    Cloud::Absent,
                    Cloud::ContainerGone,
                    Cloud::Foreign,
                    Cloud::Unrecorded,
                ];
                prop_assert!(answered.contains(&cloud), "{row:?} on {cloud:?}");
                prop_assert_eq!(snapshot.authority, Authority::Pinned);
            }
        }
    }

    // Requirement: I-12
    #[test]
    fn only_what_is_on_record_as_ours_is_changed_or_deleted(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let Decision { rows, effect, next, .. } = decide(&record, &snapshot);
        let after = record.name_ledger.with(&rows);
        let taken = match &effect {
            Some(Effect::Update { identified, at } | Effect::Delete { identified, at }) => {
                Some((identified, at))
            }
            _ => None,
        };
        if let Some((identified, at)) = taken {
            let row = after.seen(&next.name_of(identified));
            prop_assert_eq!(row.and_then(|it| it.uid.as_ref()), Some(at.uid()));
            let found = snapshot.cloud.and_then(|it| it.found.ok()).flatten();
            prop_assert_eq!(found.map(|it| it.uid), Some(at.uid().clone()));
        }
    }

    // Requirement: I-37
    #[test]
    fn nothing_is_recorded_as_ours_without_our_mark(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let known = |row: &Row| record.name_ledger.rows().iter().any(|it| it.uid == row.uid);
        let found = snapshot.cloud.iter().flat_map(|it| it.found.iter().flatten());
        let searched = snapshot.search.iter().flatten().flatten().map(|it| &it.1);
        let found: Vec<&Found> = found.chain(searched).collect();
        for row in decide(&record, &snapshot).rows {
            if row.state == NameState::Seen && !known(&row) {
                let same = found.iter().filter(|it| row.uid.as_ref() == Some(&it.uid));
                let mut marks = same.filter_map(|it| it.mark.as_ref());
                prop_assert!(marks.any(|it| record.state.owns(it)), "{row:?}");
            }
        }
    }

    // Requirement: I-3
    #[test]
    fn a_create_has_its_name_on_record_and_on_the_object(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        if let Some(Effect::Create { identified, mark }) = decide(&record, &snapshot).effect {
            let before = record.state.name_of(&identified);
            let stamp = snapshot.object.unwrap().unwrap().stamp.unwrap();
            let stamped = Recorded::read(&stamp, &mark.owner).unwrap();
            prop_assert_eq!(stamped.identified(), &identified);
            let state = recorded::IdentityState::Intended { request: mark.request };
            prop_assert_eq!(stamped.state(), &state);
            // The name was free again, or it was on record before this snapshot.
            let known = record.name_ledger.latest(&before).map(|it| it.state);
            let open = [Some(NameState::Intended), Some(NameState::Foreign), None];
            prop_assert!(open.contains(&known), "{known:?}");
        }
    }

    // Requirement: I-10
    #[test]
    fn the_finalizer_is_removed_only_with_the_recorded_end(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let Decision { effect, next, .. } = decide(&record, &snapshot);
        if let Some(Effect::RemoveFinalizer { ended, .. }) = effect {
            prop_assert_eq!(Some(ended.clone()), record.state.ended(&record.name_ledger));
            prop_assert_eq!(next.fields().outcome, Some(ended.outcome()));
        }
    }

    // Requirement: I-38
    #[test]
    fn nothing_is_released_for_an_absence_that_does_not_count(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let untold = snapshot.cluster_guard_tripped || snapshot.cluster == Authority::Replaced;
        let absent = matches!(snapshot.object, Ok(None));
        if untold && absent && record.state.phase() != Phase::Deleted {
            let Decision { next, effect, .. } = decide(&record, &snapshot);
            prop_assert_eq!(next.phase(), record.state.phase());
            prop_assert_eq!(next.is_ended(), record.state.is_ended());
            prop_assert!(effect.is_none(), "{effect:?}");
        }
    }

    // Requirement: I-10
    #[test]
    fn a_finished_resource_has_no_open_name(record in any_record(), snapshot in any_snapshot()) {
        let Decision { rows, next, .. } = decide(&record, &snapshot);
        let after = record.name_ledger.with(&rows);
        let ended = !record.state.is_ended() && next.is_ended();
        prop_assert!(!ended || after.is_settled());
        prop_assert_eq!(ended && next.ended(&after).is_none(), false);
    }

    // Requirement: I-4
    #[test]
    fn a_copy_touches_nothing_but_its_own_finalizer(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let stamps = snapshot.object.iter().flatten().flat_map(|it| [&it.stamp, &it.status]);
        let texts: Vec<&String> = stamps.flatten().collect();
        let read = |it: &&String| Recorded::read(it, &binding());
        let foreign = |it: &&String| matches!(read(it), Err(recorded::Unbound::Foreign(_)));
        let copy = texts.iter().any(foreign) && !texts.iter().any(|it| read(it).is_ok());
        if copy && record.name_ledger.rows().is_empty() {
            let effect = decide(&record, &snapshot).effect;
            let own = matches!(effect, None | Some(Effect::RemoveFinalizer { .. }));
            prop_assert!(own, "{effect:?}");
        }
    }

    #[test]
    fn an_unchanging_world_is_recorded_after_one_snapshot(
        record in any_record(),
        snapshot in any_snapshot(),
    ) {
        let seen = fold(&record.state, &record.name_ledger, &snapshot);
        let (name_ledger, _) = seen.absorbed(&record.name_ledger);
        let state = record.state.identified(seen.found.clone());
        let again = fold(&state, &name_ledger, &snapshot);
        prop_assert_eq!(again.absorbed(&name_ledger).0, name_ledger);
    }
}
