//! What an operator can request, and what is refused.

use super::*;
use crate::broker::fixture::{G1, NOW, START, gone, leaving, record, resource, seen};
use usher_kernel::{Evidence, NameState};

const BOUND: Duration = Duration::from_secs(10);
const IDLE: Outstanding = Outstanding { may_act_until: None, request_bound: BOUND };

fn until(millis: i64) -> Outstanding {
    Outstanding { may_act_until: Some(Timestamp::from_millis(millis)), request_bound: BOUND }
}

// Requirement: T-11
#[test]
fn the_in_flight_grace_ends_one_request_timeout_after_the_last_lease() {
    let cases = [
        (IDLE, None, "no lease is held"),
        (until(49_999), None, "requests of the last holder have timed out"),
        (until(50_000), None, "the last request ends now"),
        (until(50_001), Some(Timestamp::from_millis(60_001)), "a request may still arrive"),
        (until(60_001), Some(Timestamp::from_millis(70_001)), "the lease is outstanding"),
    ];
    for (outstanding, quiet, why) in cases {
        let change = deprovision(&resource(|_| ()), &outstanding, NOW);
        assert_eq!(change.next.fields().grace_until, quiet, "{why}");
        let change = replace(&resource(|_| ()), &outstanding, NOW).unwrap();
        assert_eq!(change.next.fields().grace_until, quiet, "{why}");
    }
}

/// Red by: an in-flight grace that outlasts the lease it waits for, or one that is lengthened.
// Requirement: T-11
#[test]
fn a_worker_that_released_its_lease_cleanly_is_not_waited_for() {
    let at = |millis| Some(Timestamp::from_millis(millis));
    let cases = [
        (at(70_001), IDLE, None, "the lease was released"),
        (at(70_001), until(49_000), None, "requests of an older holder have timed out"),
        (at(70_001), until(55_000), at(65_000), "an older request may still arrive"),
        (at(70_001), until(60_001), at(70_001), "the lease was not released"),
        (at(70_001), until(90_000), at(70_001), "a later lease is not waited for"),
        (None, until(60_001), None, "no grace was set"),
    ];
    for (quiet, others, expected, why) in cases {
        let it = resource(|it| it.grace_until = quiet);
        assert_eq!(it.with_grace(&others, NOW).fields().grace_until, expected, "{why}");
    }
}

// Requirement: A-12, V-4
#[test]
fn deletion_is_accepted_from_every_phase_and_emitted_once() {
    for phase in
        [Phase::Pending, Phase::Provisioning, Phase::Enrolling, Phase::Ready, Phase::Failed]
    {
        let it = resource(|it| it.phase = phase);
        let next = it.retired(None, NOW);
        let change = deprovision(&it, &IDLE, NOW);
        let event = Some(Event::Deleting);
        assert_eq!(change, Change { next: next.clone(), rows: vec![], event }, "{phase}");
        let again = deprovision(&next, &until(90_000), NOW.after(BOUND));
        assert_eq!(again, Change { next, rows: vec![], event: None }, "{phase}, requested again");
    }
}

// Requirement: A-14
#[test]
fn a_replacement_is_accepted_in_the_converge_phases() {
    for phase in [Phase::Pending, Phase::Provisioning, Phase::Enrolling, Phase::Ready] {
        let it = resource(|it| it.phase = phase);
        let change = replace(&it, &IDLE, NOW).unwrap();
        let next = it.replaced(None, NOW);
        assert_eq!(change, Change { next: next.clone(), rows: vec![], event: None }, "{phase}");
        assert_eq!(next.generation_state(), GenerationState::Leaving);
        let again = replace(&next, &until(90_000), NOW.after(BOUND)).unwrap();
        assert_eq!(again, Change { next, rows: vec![], event: None }, "{phase}, requested again");
    }
}

// Requirement: A-14
#[test]
fn a_replacement_is_refused_where_nothing_shall_follow() {
    let deleted = leaving(Phase::Deprovisioning).abandoned(NOW);
    let cases = [
        (resource(|it| it.phase = Phase::Failed), "Failed"),
        (leaving(Phase::Deregistering), "Deregistering"),
        (leaving(Phase::Deprovisioning), "Deprovisioning"),
        (deleted, "Deleted"),
        (leaving(Phase::Ready), "Ready"),
    ];
    for (it, phase) in cases {
        let refusal = Refusal::NotReplaceable { phase: phase.to_owned() };
        assert_eq!(replace(&it, &IDLE, NOW), Err(refusal), "{phase}");
    }
}

// Requirement: A-15
#[test]
fn abandon_needs_a_reason_and_no_node() {
    let record = record(leaving(Phase::Deregistering), []);
    let what = record.state.id().to_string();
    for reason in ["", " \n"] {
        let refusal = Refusal::ReasonRequired { what: what.clone() };
        assert_eq!(abandon(&record, false, ("admin", reason), NOW), Err(refusal), "{reason:?}");
    }
    let refusal = Refusal::PeerLive { what };
    assert_eq!(abandon(&record, true, ("admin", "burned down"), NOW), Err(refusal));
}

// Requirement: A-16, V-5
#[test]
fn abandon_closes_open_names_and_emits_an_event() {
    let it = leaving(Phase::Deprovisioning);
    let open = seen(it.xr_name(G1), "x");
    let record = record(it.clone(), [gone(it.anchor_name(G1), "a"), open.clone()]);
    let evidence = Evidence::new("admin", "burned down", NOW);
    let change = Change {
        next: it.abandoned(NOW),
        rows: vec![Row { state: NameState::Abandoned, evidence, ..open }],
        event: Some(Event::Deleted { outcome: Outcome::Abandoned }),
    };
    assert_eq!(abandon(&record, false, ("admin", "burned down"), NOW), Ok(change));
}

// Requirement: A-17
#[test]
fn abandon_of_a_deleted_resource_changes_and_emits_nothing() {
    let it = leaving(Phase::Deprovisioning).abandoned(START);
    let record = record(it.clone(), [seen(it.xr_name(G1), "x")]);
    let change = Change { next: it, rows: vec![], event: None };
    assert_eq!(abandon(&record, false, ("admin", "again"), NOW), Ok(change));
}

// Requirement: L-25
#[test]
fn only_an_abandoned_resource_is_put_back_into_teardown() {
    let it = leaving(Phase::Deprovisioning);
    let refused = Err(Refusal::NotAbandoned { what: it.id().to_string() });
    assert_eq!(reap(&record(it.clone(), []), "admin", NOW), refused);
    let living = record(it.clone(), [seen(it.xr_name(G1), "x")]);
    let given_up = abandon(&living, false, ("admin", "lost"), START).unwrap();
    let given_up = record(given_up.next, given_up.rows);
    let Change { next, rows, event } = reap(&given_up, "admin", NOW).unwrap();
    assert_eq!(next.fields().outcome, Some(Outcome::Removed));
    assert_eq!((next.phase(), event), (Phase::Deleted, None));
    let evidence = Evidence::new("admin", "reaped", NOW);
    assert_eq!(rows, vec![Row { evidence, ..seen(it.xr_name(G1), "x") }]);
    assert_eq!(rows[0].state, NameState::Seen);
}
