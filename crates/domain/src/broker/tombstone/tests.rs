//! What reappears is recorded, deleted and requeued.

use usher_kernel::{Answer, Decision, Lifecycle, Row, Sighting, Uid, Wake};

use super::*;
use crate::broker::facts::GenerationState;
use crate::broker::fixture::{G1, NOTHING, NOW, START, gone, intended, record, resource, seen};
use crate::broker::phase::Phase;

/// A decision, in parts that can be compared.
type Parts = (Resource, Vec<Row>, Option<Effect>, Wake, Reason);

fn deleted() -> Resource {
    resource(|it| {
        it.phase = Phase::Deleted;
        it.generation_state = GenerationState::Live;
        it.deletion_requested_at = Some(START);
        it.outcome = Some(Outcome::Removed);
    })
}

fn decide(rows: Vec<Row>, seen: &Observed) -> Parts {
    let decision = Tombstone::default().decide(&record(deleted(), rows), seen, NOW);
    let Decision { next, rows, effect, event, wake, reason } = decision;
    assert!(event.is_none(), "a tombstone emits no event");
    (next, rows, effect, wake, reason)
}

fn observed(facts: Facts) -> Observed {
    Observed { facts, sightings: vec![], failure: None }
}

fn soon() -> Wake {
    Wake::At(NOW.after(Duration::from_secs(30)))
}

// Requirement: T-16
#[test]
fn a_tombstone_is_requeued_without_a_timer() {
    let rows = vec![gone(deleted().xr_name(G1), "x")];
    let expected = (deleted(), vec![], None, Wake::OnChange, Reason::NothingReturned);
    assert_eq!(decide(rows, &observed(NOTHING)), expected);
}

// Requirement: T-15
#[test]
fn what_reappeared_is_recorded_and_deleted() {
    let name = deleted().xr_name(G1);
    let rows = vec![gone(name.clone(), "x")];
    let answer = Answer::Present { uid: Uid::new("y"), ours: true };
    let sighting =
        Sighting { plural: None, name: name.clone(), answer, by: "cluster".into(), at: NOW };
    let facts = Facts { xr: Xr::Converging, ..NOTHING };
    let observed = Observed { facts, sightings: vec![sighting], failure: None };
    let recorded = usher_kernel::NameLedger::new(rows.clone()).absorb(&observed.sightings);
    assert_eq!(recorded.len(), 1);
    let effect = Effect::DeleteSubstrate { xr: name, uid: Uid::new("y") };
    let expected = (deleted(), recorded, Some(effect), soon(), Reason::RemovingSubstrate);
    assert_eq!(decide(rows, &observed), expected);
}

#[test]
fn our_own_guard_on_what_reappeared_is_released_first() {
    let name = deleted().xr_name(G1);
    let facts = Facts { xr: Xr::Ready, protection: Protection::Ours, ..NOTHING };
    let effect = Effect::ReleaseProtection { xr: name.clone(), uid: Uid::new("x") };
    let expected = (deleted(), vec![], Some(effect), soon(), Reason::ReleasingProtection);
    assert_eq!(decide(vec![seen(name, "x")], &observed(facts)), expected);
}

// Requirement: T-15
#[test]
fn an_anchor_that_reappeared_is_deleted() {
    let name = deleted().anchor_name(G1);
    let effect = Effect::DeleteAnchor { anchor: name.clone(), uid: Uid::new("a") };
    let facts = observed(Facts { anchor: Anchor::Ours, ..NOTHING });
    let expected = (deleted(), vec![], Some(effect), soon(), Reason::RemovingAnchor);
    assert_eq!(decide(vec![seen(name, "a")], &facts), expected);
}

// Requirement: T-17
#[test]
fn an_object_not_recorded_as_ours_is_not_touched() {
    let rows = vec![intended(deleted().xr_name(G1)), intended(deleted().anchor_name(G1))];
    let xr = observed(Facts { xr: Xr::Ready, ..NOTHING });
    let expected = (deleted(), vec![], None, soon(), Reason::RemovingSubstrate);
    assert_eq!(decide(rows.clone(), &xr), expected);
    let anchor = observed(Facts { anchor: Anchor::Unrecorded, ..NOTHING });
    let expected = (deleted(), vec![], None, soon(), Reason::RemovingAnchor);
    assert_eq!(decide(rows, &anchor), expected);
}

// Requirement: T-16
#[test]
fn a_tombstone_is_requeued_while_it_waits() {
    let cases = [
        (Facts { xr: Xr::Deleting, ..NOTHING }, Reason::WaitingForDeletion),
        (Facts { composed: Composed::Present, ..NOTHING }, Reason::WaitingForDeletion),
        (Facts { xr: Xr::Ready, protection: Protection::Another, ..NOTHING }, Reason::InUse),
        (Facts { xr: Xr::Unknown, ..NOTHING }, Reason::Unreachable),
        (Facts { visibility: Visibility::ClusterReplaced, ..NOTHING }, Reason::ClusterReplaced),
    ];
    for (facts, reason) in cases {
        let expected = (deleted(), vec![], None, soon(), reason);
        assert_eq!(decide(vec![], &observed(facts)), expected, "{facts:?}");
    }
}

// Requirement: T-28
#[test]
fn an_anchor_held_by_our_finalizer_is_released() {
    let name = deleted().anchor_name(G1);
    let effect = Effect::DeleteAnchor { anchor: name.clone(), uid: Uid::new("a") };
    let facts = observed(Facts { anchor: Anchor::Leaving, ..NOTHING });
    let expected = (deleted(), vec![], Some(effect), soon(), Reason::RemovingAnchor);
    assert_eq!(decide(vec![seen(name, "a")], &facts), expected);
}

#[test]
fn what_reappeared_is_recorded_before_it_is_deleted() {
    let facts = Facts { xr: Xr::Ready, composed: Composed::Unrecorded, ..NOTHING };
    let expected = (deleted(), vec![], None, Wake::Now, Reason::RecordingComposedResources);
    assert_eq!(decide(vec![seen(deleted().xr_name(G1), "x")], &observed(facts)), expected);
}

// Requirement: T-20
#[test]
fn an_abandoned_name_is_not_touched() {
    let given_up = resource(|it| {
        it.phase = Phase::Deleted;
        it.deletion_requested_at = Some(START);
        it.outcome = Some(Outcome::Abandoned);
    });
    let rows = vec![seen(given_up.xr_name(G1), "x")];
    let facts = Facts { xr: Xr::Ready, protection: Protection::Ours, ..NOTHING };
    let decision = Tombstone::default().decide(&record(given_up, rows), &observed(facts), NOW);
    assert_eq!(decision.effect, None);
    assert_eq!((decision.wake, decision.reason), (Wake::OnChange, Reason::NothingReturned));
}

// Requirement: T-19
#[test]
fn a_tombstone_expires_when_it_was_kept_and_nothing_exists() {
    let tombstone = Tombstone::default();
    let rows = || vec![gone(deleted().xr_name(G1), "x")];
    let end = START.after(Duration::from_hours(24));
    let before = START.after(Duration::from_hours(24) - Duration::from_micros(1));
    assert!(!tombstone.is_over(&record(deleted(), rows()), before), "a moment too early");
    assert!(tombstone.is_over(&record(deleted(), rows()), end));
    let back = vec![seen(deleted().xr_name(G1), "x")];
    assert!(!tombstone.is_over(&record(deleted(), back), end), "something reappeared");
    let leaving = crate::broker::fixture::leaving(Phase::Deprovisioning);
    assert!(!tombstone.is_over(&record(leaving, rows()), end), "it has not ended yet");
}
