//! Every judgement of ownership and trust.

use std::collections::BTreeMap;

use usher_kernel::Unknown::{self, ClusterReplaced, Forbidden, Unreachable};
use usher_kernel::{NameState, Row, Visibility};

use super::*;
use crate::broker::aggregate::Fields;
use crate::broker::facts::GenerationState;
use crate::broker::fixture::{
    G1, G2, NOTHING, NOW, START, foreign, gone, intended, leaving, object, part, resource, seen,
    snapshot, xr,
};
use crate::broker::phase::Phase;
use crate::broker::snapshot::{ComposedSnapshot, Reading};
use crate::object::authority::Authority;

fn bent(bend: impl FnOnce(&mut Snapshot)) -> Snapshot {
    let mut snapshot = snapshot();
    bend(&mut snapshot);
    snapshot
}

fn facts(resource: &Resource, rows: impl IntoIterator<Item = Row>, snapshot: &Snapshot) -> Facts {
    fold(resource, &NameLedger::new(rows), snapshot).facts
}

/// The answers about the names of one kind, oldest generation first.
fn answers(
    resource: &Resource,
    name_ledger: &NameLedger,
    snapshot: &Snapshot,
    kind: &str,
) -> Vec<(Generation, Answer)> {
    let sightings = fold(resource, name_ledger, snapshot).sightings;
    let wanted = sightings.into_iter().filter(|it| it.name.kind == kind);
    wanted.map(|it| (it.name.generation, it.answer)).collect()
}

fn present(uid: &str, ours: bool) -> Answer {
    Answer::Present { uid: Uid::new(uid), ours }
}

/// The kind of an anchor in a namespace.
const ANCHOR: &str = "Anchor";
const OPEN: Answer = Answer::Absent { settled: false };
const SETTLED: Answer = Answer::Absent { settled: true };

fn second(bend: impl FnOnce(&mut Fields)) -> Resource {
    resource(|it| {
        it.generation = G2;
        bend(it);
    })
}

fn xr_kind() -> String {
    resource(|_| ()).pinned().composite.group_kind()
}

// Requirement: O-2, M-8
#[test]
fn a_complete_snapshot_of_nothing_is_absence() {
    let it = resource(|_| ());
    let name_ledger = NameLedger::new(it.intended("usher", START));
    let folded = fold(&it, &name_ledger, &snapshot());
    assert_eq!(folded.facts, NOTHING);
    let sighting =
        |name, answer, by: &str| Sighting { plural: None, name, answer, by: by.into(), at: NOW };
    let sightings = vec![
        sighting(it.anchor_name(G1), OPEN, "cluster"),
        sighting(it.xr_name(G1), OPEN, "cluster"),
        sighting(it.token_name(G1), OPEN, "usher"),
    ];
    assert_eq!(folded.sightings, sightings);
    assert_eq!(folded.failure, None);
}

// Requirement: O-2
#[test]
fn every_simple_answer_has_its_fact() {
    let it = resource(|_| ());
    let guard = |guard: Reading<Guard>| bent(|snapshot| snapshot.protection = guard);
    let gate = |gate: Reading<bool>| bent(|snapshot| snapshot.namespace_ready = gate);
    let away = Visibility::Unreachable;
    let cases = [
        (gate(Ok(false)), Facts { gate: Gate::NotReady, ..NOTHING }),
        (gate(Err(Unreachable)), Facts { gate: Gate::Unknown, visibility: away, ..NOTHING }),
        (
            bent(|snapshot| snapshot.config_ready = false),
            Facts { config: Config::Waiting, ..NOTHING },
        ),
        (guard(Ok(Guard::Ours)), Facts { protection: Protection::Ours, ..NOTHING }),
        (guard(Ok(Guard::Another)), Facts { protection: Protection::Another, ..NOTHING }),
        (
            guard(Err(Unreachable)),
            Facts { protection: Protection::Unknown, visibility: away, ..NOTHING },
        ),
        (
            bent(|snapshot| snapshot.guard_tripped = true),
            Facts { visibility: Visibility::GuardTripped, ..NOTHING },
        ),
    ];
    for (snapshot, expected) in cases {
        assert_eq!(facts(&it, [], &snapshot), expected, "{snapshot:?}");
    }
}

/// A snapshot in which one part did not answer.
fn blinded(part_of: &str, why: Unknown) -> Snapshot {
    bent(|snapshot| match part_of {
        "gate" => snapshot.namespace_ready = Err(why),
        "anchors" => snapshot.anchors = Err(why),
        "xr" => snapshot.xr = Err(why),
        "listing" => snapshot.composed_listed = Err(why),
        "part" => {
            let (name, reading) = (part("p", G1), Err(why));
            snapshot.composed.push(ComposedSnapshot {
                plural: None,
                name,
                reading,
                referred: true,
            });
        }
        "peers" => snapshot.peers = Err(why),
        "protection" => snapshot.protection = Err(why),
        other => panic!("no such part: {other}"),
    })
}

// Requirement: O-1
#[test]
fn a_missing_answer_is_unknown_and_names_its_cause() {
    let it = leaving(Phase::Deprovisioning);
    let sights = [
        (Unreachable, Visibility::Unreachable),
        (Forbidden, Visibility::Forbidden),
        (ClusterReplaced, Visibility::ClusterReplaced),
    ];
    for (why, visibility) in sights {
        let nothing = Facts { visibility, ..NOTHING };
        let cases = [
            ("gate", Facts { gate: Gate::Unknown, ..nothing }),
            ("anchors", Facts { anchor: Anchor::Unknown, ..nothing }),
            ("xr", Facts { xr: Xr::Unknown, ..nothing }),
            ("listing", Facts { composed: Composed::Unknown, ..nothing }),
            ("part", Facts { composed: Composed::Unknown, ..nothing }),
            ("peers", Facts { node: Node::Unknown, ..nothing }),
            ("protection", Facts { protection: Protection::Unknown, ..nothing }),
        ];
        for (blind, expected) in cases {
            assert_eq!(facts(&it, [], &blinded(blind, why)), expected, "{blind} {why:?}");
        }
    }
}

// Requirement: L-2
#[test]
fn a_missing_answer_changes_no_row() {
    let it = leaving(Phase::Deprovisioning);
    let rows = [
        seen(it.anchor_name(G1), "a"),
        seen(it.xr_name(G1), "x"),
        seen(part("p", G1), "p"),
        seen(it.peer_name(G1), "n"),
    ];
    let name_ledger = NameLedger::new(rows);
    let mut blind = bent(|snapshot| {
        snapshot.anchors = Err(Unreachable);
        snapshot.xr = Err(Forbidden);
        snapshot.peers = Err(Unreachable);
    });
    let reading = Err(Unreachable);
    blind.composed.push(ComposedSnapshot {
        plural: None,
        name: part("p", G1),
        reading,
        referred: false,
    });
    assert_eq!(name_ledger.absorb(&fold(&it, &name_ledger, &blind).sightings), vec![]);
}

// Requirement: L-9, L-10, D-14
#[test]
fn an_anchor_is_ours_by_its_labels_and_recorded_by_its_uid() {
    let it = resource(|_| ());
    let name = it.anchor_name(G1);
    let other = |bend: fn(&mut Object)| {
        let mut object = object("a", None);
        bend(&mut object);
        object
    };
    let intent = || intended(name.clone());
    let plain = || object("a", None);
    let going = other(|it| it.deleting = true);
    let cases = [
        (intent(), plain(), Anchor::Unrecorded, "seen for the first time"),
        (seen(name.clone(), "a"), plain(), Anchor::Ours, "recorded"),
        (gone(name.clone(), "a"), plain(), Anchor::Unrecorded, "the row says it is gone"),
        (seen(name.clone(), "b"), plain(), Anchor::Unrecorded, "another was recorded"),
        (seen(name.clone(), "a"), going.clone(), Anchor::Leaving, "being deleted"),
        (intent(), going, Anchor::Leaving, "being deleted, not recorded"),
        (
            seen(name.clone(), "a"),
            other(|it| it.record_id = None),
            Anchor::Ours,
            "on record, stripped",
        ),
        (
            seen(name.clone(), "b"),
            other(|it| it.record_id = None),
            Anchor::Foreign,
            "another, stripped",
        ),
        (intent(), other(|it| it.record_id = None), Anchor::Foreign, "no resource"),
        (
            intent(),
            other(|it| it.record_id = Some("x".into())),
            Anchor::Foreign,
            "another resource",
        ),
        (intent(), other(|it| it.installation = None), Anchor::Foreign, "no installation"),
        (
            intent(),
            other(|it| it.installation = Some("x".into())),
            Anchor::Foreign,
            "another installation",
        ),
    ];
    for (row, anchor, expected, why) in cases {
        let snapshot = bent(|snapshot| snapshot.anchors = Ok(BTreeMap::from([(G1, anchor)])));
        assert_eq!(facts(&it, [row], &snapshot).anchor, expected, "{why}");
    }
}

// Requirement: O-14
#[test]
fn while_converging_only_the_current_anchor_counts() {
    let rows = |it: &Resource| [seen(it.anchor_name(G1), "a1"), seen(it.anchor_name(G2), "a2")];
    let old = bent(|snapshot| snapshot.anchors = Ok(BTreeMap::from([(G1, object("a1", None))])));
    let converging = second(|_| ());
    assert_eq!(facts(&converging, rows(&converging), &old).anchor, Anchor::Absent);
    let replacing = second(|it| it.generation_state = GenerationState::Leaving);
    assert_eq!(facts(&replacing, rows(&replacing), &old).anchor, Anchor::Ours, "every one counts");
    let name_ledger = NameLedger::new(rows(&converging));
    let reported = answers(&converging, &name_ledger, &old, ANCHOR);
    assert_eq!(reported, vec![(G1, present("a1", true)), (G2, OPEN)], "each one is recorded");
}

// Requirement: O-14
#[test]
fn the_worst_anchor_is_the_hardest_to_delete() {
    let ranking = [
        Anchor::Absent,
        Anchor::Foreign,
        Anchor::Leaving,
        Anchor::Unrecorded,
        Anchor::Ours,
        Anchor::Unknown,
    ];
    assert_eq!(worst_anchor([].into_iter()), Anchor::Absent, "none");
    for (rank, worse) in ranking.iter().enumerate() {
        for better in &ranking[..=rank] {
            assert_eq!(worst_anchor([*worse, *better].into_iter()), *worse, "{worse} {better}");
            assert_eq!(worst_anchor([*better, *worse].into_iter()), *worse, "{better} {worse}");
        }
    }
}

/// A converging resource with a recorded anchor, and rows beside it.
fn anchored(rows: impl IntoIterator<Item = Row>) -> Vec<Row> {
    let mut all = vec![seen(resource(|_| ()).anchor_name(G1), "a")];
    all.extend(rows);
    all
}

// Requirement: L-8, L-10, O-11, O-16
#[test]
fn an_xr_is_ours_by_labels_and_by_the_recorded_anchor_as_owner() {
    let it = resource(|_| ());
    let name = it.xr_name(G1);
    let plain = |condition| xr("x", "a", condition);
    let drifted = XrObject { drifted: true, ..plain(Condition::Ready) };
    let unready = XrObject { drifted: true, ..plain(Condition::Converging) };
    let mut going = plain(Condition::Ready);
    going.object.deleting = true;
    let mut unlabelled = plain(Condition::Ready);
    unlabelled.object.record_id = None;
    let mut unowned = plain(Condition::Ready);
    unowned.object.owner = None;
    let failed = Condition::Failed { message: String::new() };
    let recorded = || seen(name.clone(), "x");
    let intent = || intended(name.clone());
    let cases = [
        (intent(), plain(Condition::Converging), Xr::Converging, "seen for the first time"),
        (recorded(), plain(Condition::Converging), Xr::Converging, "recorded"),
        (recorded(), plain(Condition::Ready), Xr::Ready, "ready"),
        (recorded(), drifted, Xr::Drifted, "ready and drifted"),
        (recorded(), unready, Xr::Converging, "drift counts once it is ready"),
        (recorded(), plain(failed), Xr::Failed, "failed"),
        (recorded(), going.clone(), Xr::Deleting, "being deleted"),
        (seen(name.clone(), "y"), plain(Condition::Ready), Xr::Replaced, "another was recorded"),
        (gone(name.clone(), "y"), plain(Condition::Ready), Xr::Replaced, "another was recorded"),
        (
            Row { incarnation: 2, ..recorded() },
            plain(Condition::Ready),
            Xr::Ready,
            "the same object, back again",
        ),
        (seen(name.clone(), "y"), going, Xr::Deleting, "a replacement being deleted"),
        (recorded(), unlabelled.clone(), Xr::Ready, "on record, its labels taken off"),
        (recorded(), unowned.clone(), Xr::Ready, "on record, its owner taken off"),
        (seen(name.clone(), "y"), unlabelled.clone(), Xr::Foreign, "another is on record"),
        (gone(name.clone(), "x"), unlabelled.clone(), Xr::Foreign, "gone by the record"),
        (intent(), unlabelled, Xr::Foreign, "our anchor, but not our labels"),
        (intent(), unowned, Xr::Foreign, "our labels, but no owner"),
        (intent(), xr("x", "b", Condition::Ready), Xr::Foreign, "our labels, another owner"),
        (intent(), xr("x", "p", Condition::Ready), Xr::Foreign, "owned by what is no anchor"),
    ];
    for (row, found, expected, why) in cases {
        let snapshot = bent(|snapshot| snapshot.xr = Ok(Some(found)));
        let rows = anchored([row, seen(part("p", G1), "p")]);
        assert_eq!(facts(&it, rows, &snapshot).xr, expected, "{why}");
    }
}

#[test]
fn a_second_object_of_a_generation_counts_as_replaced_for_good() {
    let it = resource(|it| it.generation_state = GenerationState::Live);
    let name = it.xr_name(G1);
    let second = Row { incarnation: 2, ..seen(name.clone(), "x") };
    let rows = anchored([gone(name, "y"), second]);
    let snapshot = bent(|snapshot| snapshot.xr = Ok(Some(xr("x", "a", Condition::Ready))));
    assert_eq!(facts(&it, rows, &snapshot).xr, Xr::Replaced);
}

// Requirement: O-8
#[test]
fn behind_a_tripped_guard_nothing_on_record_is_taken_for_gone() {
    let tripped = |change: fn(&mut Snapshot)| {
        bent(|snapshot| {
            snapshot.guard_tripped = true;
            change(snapshot);
        })
    };
    let blank = tripped(|_| ());
    let another = tripped(|snapshot| snapshot.xr = Ok(Some(xr("y", "a", Condition::Ready))));
    let it = resource(|it| it.generation_state = GenerationState::Live);
    let rows = || anchored([seen(it.xr_name(G1), "x")]);
    for snapshot in [&blank, &another] {
        let seen = fold(&it, &NameLedger::new(rows()), snapshot);
        assert_eq!((seen.facts.visibility, seen.facts.xr), (Visibility::GuardTripped, Xr::Unknown));
        let changed = NameLedger::new(rows()).absorb(&seen.sightings);
        assert!(changed.iter().all(|row| row.state != NameState::Gone), "{changed:?}");
    }
    let fresh = resource(|_| ());
    let intent = || anchored([intended(fresh.xr_name(G1))]);
    assert_eq!(facts(&fresh, intent(), &blank).xr, Xr::Absent, "it was never there");
    let asked = leaving(Phase::Deprovisioning);
    let seen = facts(&asked, rows(), &blank);
    assert_eq!(
        (seen.visibility, seen.xr),
        (Visibility::GuardTripped, Xr::Unknown),
        "nor what is being deleted"
    );
    let never = NameLedger::new([intended(asked.xr_name(G1)), intended(asked.anchor_name(G1))]);
    let settled = never.absorb(&fold(&asked, &never, &blank).sightings);
    assert_eq!(settled, vec![], "and no name ends that was only intended");
}

#[test]
fn a_standalone_resource_has_no_node_even_if_peers_are_unknown() {
    let unanswered = bent(|snapshot| snapshot.peers = Err(Unknown::Unreachable));
    let it = resource(|it| it.pinned.role = MeshRole::Standalone);
    assert_eq!(facts(&it, vec![], &unanswered).node, Node::None);
}

// Requirement: O-15
#[test]
fn an_xr_of_an_older_anchor_holds_the_name_and_counts_in_teardown() {
    let rows = |it: &Resource| {
        [
            gone(it.anchor_name(G1), "a1"),
            gone(it.xr_name(G1), "x0"),
            seen(it.anchor_name(G2), "a2"),
            intended(it.xr_name(G2)),
        ]
    };
    let late = bent(|snapshot| snapshot.xr = Ok(Some(xr("x1", "a1", Condition::Ready))));
    let converging = second(|_| ());
    assert_eq!(facts(&converging, rows(&converging), &late).xr, Xr::Foreign, "it holds the name");
    let name_ledger = NameLedger::new(rows(&converging));
    let reported = answers(&converging, &name_ledger, &late, &xr_kind());
    assert_eq!(reported, vec![(G1, present("x1", true)), (G2, OPEN)], "it is the old one's");
    let replacing = second(|it| it.generation_state = GenerationState::Leaving);
    assert_eq!(facts(&replacing, rows(&replacing), &late).xr, Xr::Replaced, "it must be deleted");
    let same = bent(|snapshot| snapshot.xr = Ok(Some(xr("x0", "a1", Condition::Ready))));
    assert_eq!(facts(&replacing, rows(&replacing), &same).xr, Xr::Ready, "it must be deleted");
    let current = bent(|snapshot| snapshot.xr = Ok(Some(xr("x2", "a2", Condition::Ready))));
    for it in [&converging, &replacing] {
        assert_eq!(facts(it, rows(it), &current).xr, Xr::Ready, "the current one");
        let reported = answers(it, &NameLedger::new(rows(it)), &current, &xr_kind());
        let absent = Answer::Absent { settled: it.is_tearing_down() };
        assert_eq!(reported, vec![(G1, absent), (G2, present("x2", true))]);
    }
}

// Requirement: L-7
#[test]
fn a_foreign_xr_is_foreign_to_every_generation() {
    let it = second(|_| ());
    let rows = [gone(it.xr_name(G1), "x1"), foreign(it.xr_name(G2))];
    let snapshot = bent(|snapshot| snapshot.xr = Ok(Some(xr("y", "b", Condition::Ready))));
    let reported = answers(&it, &NameLedger::new(rows), &snapshot, &xr_kind());
    assert_eq!(reported, vec![(G1, present("y", false)), (G2, present("y", false))]);
}

// Requirement: O-21
#[test]
fn an_unknown_xr_is_unknown_once() {
    let it = second(|_| ());
    let reported = answers(&it, &NameLedger::default(), &blinded("xr", Forbidden), &xr_kind());
    assert_eq!(reported, vec![(G2, Answer::Unknown(Forbidden))]);
}

// Requirement: O-4
#[test]
fn in_a_replaced_world_only_recorded_uids_count() {
    let it = leaving(Phase::Deprovisioning);
    let unknown = || Answer::Unknown(ClusterReplaced);
    let rows = anchored([seen(it.xr_name(G1), "x"), seen(part("p", G1), "p")]);
    let name_ledger = NameLedger::new(rows.clone());
    let composed =
        |reading| ComposedSnapshot { plural: None, name: part("p", G1), reading, referred: true };
    let nothing = bent(|snapshot| {
        snapshot.authority = Authority::Replaced;
        snapshot.composed = vec![composed(Ok(ComposedState::Absent))];
    });
    let blind = Facts {
        visibility: Visibility::ClusterReplaced,
        anchor: Anchor::Unknown,
        xr: Xr::Unknown,
        composed: Composed::Unknown,
        ..NOTHING
    };
    let folded = fold(&it, &name_ledger, &nothing);
    assert_eq!(folded.facts, blind, "absence is unknown");
    assert!(folded.sightings.iter().all(|sighting| sighting.answer == unknown()));
    let with = |anchor: &str, uid: &str, child: &str| {
        let state = ComposedState::Present { uid: Uid::new(child), ours: true };
        bent(|snapshot| {
            snapshot.authority = Authority::Replaced;
            snapshot.anchors = Ok(BTreeMap::from([(G1, object(anchor, None))]));
            snapshot.xr = Ok(Some(xr(uid, "a", Condition::Ready)));
            snapshot.composed = vec![composed(Ok(state))];
        })
    };
    assert_eq!(facts(&it, rows.clone(), &with("b", "y", "q")), blind, "others are unknown");
    let recorded =
        Facts { anchor: Anchor::Ours, xr: Xr::Ready, composed: Composed::Present, ..blind };
    assert_eq!(facts(&it, rows, &with("a", "x", "p")), recorded, "what is on record counts");
    let refused = bent(|snapshot| {
        snapshot.authority = Authority::Replaced;
        snapshot.xr = Err(Forbidden);
    });
    let reported = answers(&it, &name_ledger, &refused, &xr_kind());
    assert_eq!(reported, vec![(G1, Answer::Unknown(Forbidden))], "the cause is kept");
}

// Requirement: L-14
#[test]
fn absence_settles_only_in_teardown_after_the_grace() {
    let asked = |quiet: Option<_>| {
        resource(|it| {
            it.deletion_requested_at = Some(START);
            it.grace_until = quiet;
        })
    };
    let later = NOW.after(std::time::Duration::from_micros(1));
    let cases = [
        (resource(|_| ()), OPEN, "wanted"),
        (resource(|it| it.grace_until = Some(NOW)), OPEN, "not in teardown, grace is over"),
        (asked(Some(later)), OPEN, "in teardown, a request of a worker may still arrive"),
        (asked(Some(NOW)), SETTLED, "in teardown, the grace is over"),
        (asked(None), SETTLED, "in teardown, no lease was held"),
        (resource(|it| it.generation_state = GenerationState::Leaving), SETTLED, "being replaced"),
    ];
    for (it, expected, why) in cases {
        for kind in [ANCHOR.to_owned(), xr_kind()] {
            let reported = answers(&it, &NameLedger::default(), &snapshot(), &kind);
            assert_eq!(reported, vec![(G1, expected.clone())], "{why}");
        }
    }
}

// Requirement: O-12
#[test]
fn a_failure_message_is_reported_up_to_a_bound() {
    let it = resource(|_| ());
    let failed = |message: String| {
        let found = xr("x", "a", Condition::Failed { message });
        fold(&it, &NameLedger::default(), &bent(|snapshot| snapshot.xr = Ok(Some(found)))).failure
    };
    assert_eq!(failed("no quota".into()), Some("no quota".into()));
    let long = "é".repeat(1_024);
    assert_eq!(failed(long.clone()), Some(long.clone()), "as long as the bound");
    assert_eq!(failed(format!("{long}!")), Some(long), "cut at the bound, in characters");
    let ready = bent(|snapshot| snapshot.xr = Ok(Some(xr("x", "a", Condition::Ready))));
    assert_eq!(fold(&it, &NameLedger::default(), &ready).failure, None, "not failed");
    assert_eq!(
        fold(&it, &NameLedger::default(), &blinded("xr", Unreachable)).failure,
        None,
        "unknown"
    );
}

#[test]
fn a_snapshot_that_missed_an_answer_is_incomplete() {
    let it = resource(|_| ());
    let blind = |snapshot: &Snapshot| fold(&it, &NameLedger::default(), snapshot).is_incomplete();
    assert!(!blind(&snapshot()));
    assert!(blind(&bent(|snapshot| snapshot.xr = Err(Unreachable))));
    assert!(blind(&bent(|snapshot| snapshot.anchors = Err(Forbidden))));
    let older = bent(|snapshot| snapshot.authority = Authority::Replaced);
    assert!(blind(&older), "an older list may hide what is not recorded");
}
