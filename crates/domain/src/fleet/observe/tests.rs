use super::*;
use crate::fleet::aggregate::{State, Target};
use crate::fleet::fixture::{
    LAST, binding, host, machine, raw, report, report_for, snapshot, state, wanted,
};
use crate::fleet::phase::Phase;

fn facts(machine: &Machine, snapshot: &Snapshot) -> Facts {
    fold(machine, snapshot).facts
}

#[test]
fn each_phase_is_reported_with_its_record() {
    let it = machine(|_| ());
    for phase in Phase::ALL.iter().filter(|it| **it != Phase::Gone) {
        let seen = fold(&it, &snapshot(Some(report(*phase))));
        assert_eq!(seen.facts.report, Reported::of(*phase));
        assert_eq!(seen.report, Some(report(*phase)));
        let present = Answer::Present { uid: Uid::new("m1"), ours: true };
        assert_eq!(seen.sightings[0].answer, present);
    }
}

// Requirement: F-18
#[test]
fn only_a_question_about_this_machine_makes_it_absent() {
    let it = machine(|_| ());
    let get = snapshot(None);
    assert_eq!(facts(&it, &get).report, Reported::Absent);
    assert_eq!(fold(&it, &get).sightings[0].answer, Answer::Absent { settled: true });
    for source in [Source::List, Source::Acknowledgement] {
        let snapshot = Snapshot { source, ..get.clone() };
        assert_eq!(facts(&it, &snapshot).report, Reported::Missing, "{source:?}");
        let unknown = Answer::Unknown(Unknown::Unreachable);
        assert_eq!(fold(&it, &snapshot).sightings[0].answer, unknown);
    }
    let listed = Snapshot { listing: Listing::Names, ..get.clone() };
    assert_eq!(facts(&it, &listed).report, Reported::Unknown, "the last list names it");
    let guarded = Snapshot { listing: Listing::Distrusted, ..get };
    let unknown = Answer::Unknown(Unknown::GuardTripped);
    assert_eq!(fold(&it, &guarded).sightings[0].answer, unknown);
}

// Requirement: F-74
#[test]
fn what_another_provider_says_is_not_about_this_machine() {
    let it = machine(|_| ());
    for reading in [None, Some(report(Phase::Idle)), Some(report(Phase::Failed))] {
        let elsewhere = Snapshot { by: "q".to_owned(), ..snapshot(reading) };
        let seen = fold(&it, &elsewhere);
        assert_eq!((seen.facts.report, seen.report), (Reported::Unknown, None));
        assert_eq!(seen.sightings[0].answer, Answer::Unknown(Unknown::Unreachable));
    }
}

// Requirement: F-8
#[test]
fn a_snapshot_from_before_the_last_command_says_nothing() {
    let it = wanted(Phase::Draining, Target::Unbound);
    let early = Token { sequence: LAST.sequence - 1, ..LAST };
    for source in [Source::List, Source::Get, Source::Acknowledgement] {
        let snapshot =
            Snapshot { source, stamp: early, ..snapshot(Some(report(Phase::Configured))) };
        let seen = fold(&it, &snapshot);
        assert_eq!((seen.facts.report, seen.report), (Reported::Stale, None), "{source:?}");
        let gone = Snapshot { source, stamp: early, ..self::snapshot(None) };
        assert_eq!(facts(&it, &gone).report, Reported::Stale, "nor that it is gone");
    }
    let old = Snapshot { stamp: Token { epoch: 0, sequence: 99 }, ..snapshot(None) };
    assert_eq!(facts(&it, &old).report, Reported::Stale, "a snapshot of an older epoch");
}

// Requirement: F-8
#[test]
fn an_unsent_command_makes_no_snapshot_of_its_machine_stale() {
    let recorded = machine(|it| {
        it.state = state(Phase::Draining);
        it.command = CommandState::Recorded;
    });
    let early = Token { sequence: LAST.sequence - 1, ..LAST };
    let get = Snapshot { stamp: early, ..snapshot(Some(report(Phase::Configured))) };
    assert_eq!(facts(&recorded, &get).report, Reported::Configured);
    let list = Snapshot { source: Source::List, ..get };
    assert_eq!(facts(&recorded, &list).report, Reported::Stale);
}

// Requirement: F-16
#[test]
fn a_cluster_is_ours_requested_or_anothers() {
    let bound = wanted(Phase::Configured, Target::Unbound);
    let asked = machine(|it| {
        it.state = State::Idle { host: host(), asked: Some(binding("b")) };
    });
    let cases = [
        (&bound, "a", Bound::Ours),
        (&bound, "b", Bound::Other),
        (&asked, "b", Bound::Asked),
        (&asked, "a", Bound::Other),
    ];
    for (machine, cluster, expected) in cases {
        let seen = facts(machine, &snapshot(Some(report_for(Phase::Configured, cluster))));
        assert_eq!(seen.binding, expected, "{cluster}");
    }
    assert_eq!(facts(&bound, &snapshot(Some(report(Phase::Idle)))).binding, Bound::None);
}

// Requirement: F-37
#[test]
fn a_record_that_is_refused_or_anothers_is_malformed() {
    let it = machine(|_| ());
    let refusal = Refusal::Quantity("x".to_owned());
    let refused = Snapshot { reading: Ok(Some(Err(refusal))), ..snapshot(None) };
    assert_eq!(facts(&it, &refused).report, Reported::Malformed);
    let other = Report::read(&Raw { id: "m2".to_owned(), ..raw(Phase::Idle) }).unwrap();
    assert_eq!(facts(&it, &snapshot(Some(other))).report, Reported::Malformed);
    let unanswered = Snapshot { reading: Err(Unknown::Unreachable), ..snapshot(None) };
    assert_eq!(facts(&it, &unanswered).report, Reported::Unknown);
}

#[test]
fn the_stricter_restriction_is_reported_first() {
    let it = machine(|_| ());
    let mut snapshot = snapshot(Some(report(Phase::Idle)));
    assert_eq!(facts(&it, &snapshot).restriction, Restriction::None);
    snapshot.listing = Listing::Distrusted;
    assert_eq!(facts(&it, &snapshot).restriction, Restriction::GuardTripped);
    snapshot.paused = true;
    assert_eq!(facts(&it, &snapshot).restriction, Restriction::Paused);
    snapshot.superseded = true;
    assert_eq!(facts(&it, &snapshot).restriction, Restriction::Superseded);
}

use crate::fleet::accept::Raw;
use crate::fleet::refusal::Refusal;
