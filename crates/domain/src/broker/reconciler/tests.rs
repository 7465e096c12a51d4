//! What a decision makes of a verdict: the next row, names, a time and a reason.

use usher_kernel::{Answer, Decision, Lifecycle, Row, Sighting, Uid, Wake};

use super::*;
use crate::blueprint::MeshRole;
use crate::broker::aggregate::Fields;
use crate::broker::facts::{Anchor, Config, Facts, Gate, GenerationState, Node, Protection, Token};
use crate::broker::fixture::{
    G1, G2, NOTHING, NOW, START, gone, intended, leaving, part, record, resource, seen,
};

/// A decision, in parts that can be compared.
type Parts = (Resource, Vec<Row>, Option<Effect>, Option<Event>, Wake, Reason);

fn observed(facts: Facts) -> Observed {
    Observed { facts, sightings: vec![], failure: None }
}

fn decide(record: &Record<Resource>, seen: &Observed, now: Timestamp) -> Parts {
    let decision = Broker::default().decide(record, seen, now);
    let Decision { next, rows, effect, event, wake, reason } = decision;
    (next, rows, effect, event, wake, reason)
}

/// A resource with its recorded anchor and XR.
fn recorded(bend: impl FnOnce(&mut Fields)) -> Record<Resource> {
    let it = resource(|fields| {
        fields.generation_state = GenerationState::Live;
        bend(fields);
    });
    let rows = [seen(it.anchor_name(G1), "a"), seen(it.xr_name(G1), "x")];
    record(it, rows)
}

/// Its substrate, as the rules see it.
const UP: Facts = Facts { anchor: Anchor::Ours, token: Token::Issued, xr: Xr::Ready, ..NOTHING };

// Requirement: W-8
#[test]
fn the_settings_are_the_documented_ones() {
    let deadlines = Deadlines {
        provisioning: Duration::from_mins(30),
        enrolment: Duration::from_mins(15),
        drain: Duration::from_mins(5),
        teardown: Duration::from_mins(30),
    };
    assert_eq!(Broker::default(), Broker { interval: Duration::from_secs(30), deadlines });
}

// Requirement: W-8, B-26
#[test]
fn every_requeue_has_its_wake_up() {
    let quiet = NOW.after(Duration::from_secs(7));
    let ready = |it: &mut Fields| it.phase = Phase::Ready;
    let asked = |it: &mut Fields| {
        it.phase = Phase::Deprovisioning;
        it.deletion_requested_at = Some(START);
    };
    let cases = [
        (
            recorded(|_| ()),
            Facts { anchor: Anchor::Unrecorded, xr: Xr::Converging, ..UP },
            Wake::Now,
        ),
        (
            recorded(|_| ()),
            Facts { gate: Gate::NotReady, xr: Xr::Converging, ..UP },
            Wake::At(NOW.after(Duration::from_secs(30))),
        ),
        (
            recorded(|it| {
                asked(it);
                it.grace_until = Some(quiet);
            }),
            NOTHING,
            Wake::At(quiet),
        ),
        (recorded(ready), Facts { node: Node::Live, ..UP }, Wake::OnChange),
        (record(leaving(Phase::Deprovisioning).abandoned(START), []), NOTHING, Wake::Never),
    ];
    for (record, facts, wake) in cases {
        assert_eq!(decide(&record, &observed(facts), NOW).4, wake, "{facts:?}");
    }
}

// Requirement: B-24
#[test]
fn a_deadline_changes_the_reason_when_it_passes_and_requeues_at_that_time() {
    let minutes = Duration::from_mins;
    let asked = |phase| {
        move |it: &mut Fields| {
            it.phase = phase;
            it.deletion_requested_at = Some(START);
        }
    };
    let drained = Facts { node: Node::Live, ..UP };
    let going = Facts { xr: Xr::Deleting, ..UP };
    let pending = recorded(|it| it.generation_state = GenerationState::Leaving);
    let provisioning = recorded(|it| it.phase = Phase::Provisioning);
    let converging = Facts { xr: Xr::Converging, ..UP };
    let enrolling = recorded(|it| it.phase = Phase::Enrolling);
    let draining = recorded(asked(Phase::Deregistering));
    let leaving = recorded(asked(Phase::Deprovisioning));
    let cases = [
        (pending, drained, minutes(30), Reason::DrainingNode, Reason::DrainOverdue),
        (
            provisioning,
            converging,
            minutes(30),
            Reason::WaitingForSubstrate,
            Reason::ProvisioningOverdue,
        ),
        (enrolling, UP, minutes(15), Reason::WaitingForNode, Reason::EnrolmentOverdue),
        (draining, drained, minutes(5), Reason::DrainingNode, Reason::DrainOverdue),
        (leaving, going, minutes(30), Reason::WaitingForDeletion, Reason::TeardownOverdue),
    ];
    for (record, facts, deadline, waiting, overdue) in cases {
        let seen = observed(facts);
        let (due, moment) = (START.after(deadline), Duration::from_micros(1));
        let before = START.after(deadline.checked_sub(moment).unwrap());
        let (.., wake, reason) = decide(&record, &seen, before);
        assert_eq!((wake, reason), (Wake::At(due), waiting), "just before it");
        let (next, .., wake, reason) = decide(&record, &seen, due);
        assert_eq!((next.phase(), reason), (record.state.phase(), overdue), "at the deadline");
        assert_eq!(wake, Wake::At(due.after(Broker::default().interval)), "after it");
    }
}

// Requirement: B-24
#[test]
fn a_phase_that_was_just_entered_is_not_overdue() {
    let seen = observed(Facts { xr: Xr::Converging, ..UP });
    let late = START.after(Duration::from_hours(2));
    let (next, .., reason) = decide(&recorded(|_| ()), &seen, late);
    assert_eq!((next.phase(), reason), (Phase::Provisioning, Reason::WaitingForSubstrate));
}

// Requirement: B-24
#[test]
fn only_waiting_reasons_become_overdue() {
    let mapped = [
        (Reason::WaitingForSubstrate, Reason::ProvisioningOverdue),
        (Reason::WaitingForNode, Reason::EnrolmentOverdue),
        (Reason::DrainingNode, Reason::DrainOverdue),
        (Reason::WaitingForDeletion, Reason::TeardownOverdue),
        (Reason::WaitingForComposedResources, Reason::TeardownOverdue),
    ];
    for reason in Reason::ALL {
        let overdue = mapped.iter().find(|(waiting, _)| waiting == reason);
        assert_eq!(reason.overdue(), overdue.map_or(*reason, |it| it.1), "{reason}");
    }
}

fn addressed(kind: EffectKind, rows: Vec<Row>) -> Option<Effect> {
    let second = resource(|it| {
        it.generation = G2;
        it.generation_state = GenerationState::Leaving;
    });
    let effect = address(kind, &second, &NameLedger::new(rows));
    assert!(effect.as_ref().is_none_or(|it| it.kind() == kind), "{effect:?} is no {kind}");
    effect
}

// Requirement: B-22, T-23, T-24, M-7
#[test]
fn every_verb_is_addressed_by_the_rows() {
    let it = resource(|it| it.generation = G2);
    let [anchor, xr] = [it.anchor_name(G2), it.xr_name(G2)];
    let uid = Uid::new;
    let token = |generation| name::token(it.id(), generation);
    let anchors = vec![seen(anchor.clone(), "a2"), seen(it.anchor_name(G1), "a1")];
    let xrs = vec![
        seen(part("p", G1), "p"),
        seen(xr.clone(), "x2"),
        seen(it.xr_name(G1), "x1"),
        seen(it.anchor_name(G1), "a1"),
    ];
    let peers = vec![
        seen(it.token_name(G1), "t1"),
        seen(it.peer_name(G2), "n2"),
        gone(it.peer_name(G1), "n1"),
    ];
    let create = Effect::Apply { xr: xr.clone(), uid: None, anchor: uid("a2") };
    let update = Effect::Apply { xr: xr.clone(), uid: Some(uid("x2")), anchor: uid("a2") };
    let both = vec![seen(anchor.clone(), "a2"), seen(xr.clone(), "x2")];
    let cases = [
        (EffectKind::CreateAnchor, vec![], Effect::CreateAnchor { anchor: anchor.clone() }),
        (EffectKind::IssueToken, vec![], Effect::IssueToken { token: token(G2), generation: G2 }),
        (EffectKind::Apply, vec![seen(anchor, "a2"), intended(xr.clone())], create),
        (EffectKind::Apply, both, update),
        (EffectKind::DeregisterNode, peers, Effect::DeregisterNode { token: token(G2) }),
        (
            EffectKind::ReleaseProtection,
            xrs.clone(),
            Effect::ReleaseProtection { xr: it.xr_name(G1), uid: uid("x1") },
        ),
        (
            EffectKind::DeleteSubstrate,
            xrs,
            Effect::DeleteSubstrate { xr: it.xr_name(G1), uid: uid("x1") },
        ),
        (
            EffectKind::DeleteAnchor,
            anchors,
            Effect::DeleteAnchor { anchor: it.anchor_name(G1), uid: uid("a1") },
        ),
    ];
    for (kind, rows, effect) in cases {
        assert_eq!(addressed(kind, rows), Some(effect), "{kind}");
    }
}

#[test]
fn an_incomplete_snapshot_is_requeued() {
    let it = resource(|_| ());
    let (answer, by) = (Answer::Unknown(usher_kernel::Unknown::Unreachable), "cluster".to_owned());
    let missed = Sighting { plural: None, name: it.xr_name(G1), answer, by, at: NOW };
    let failed = resource(|it| it.phase = Phase::Failed);
    let facts = Facts { xr: Xr::Ready, ..NOTHING };
    let wake = |sightings| {
        let seen = Observed { facts, sightings, failure: None };
        Broker::default().decide(&record(failed.clone(), []), &seen, NOW).wake
    };
    assert_eq!(wake(vec![]), Wake::OnChange);
    assert_eq!(wake(vec![missed]), Wake::At(NOW.after(Duration::from_secs(30))));
}

#[test]
fn while_converging_only_the_anchor_of_the_generation_is_released() {
    let it = resource(|it| it.generation = G2);
    let old = seen(it.anchor_name(G1), "a1");
    let both = NameLedger::new([old.clone(), seen(it.anchor_name(G2), "a2")]);
    let effect = Effect::DeleteAnchor { anchor: it.anchor_name(G2), uid: Uid::new("a2") };
    assert_eq!(address(EffectKind::DeleteAnchor, &it, &both), Some(effect));
    assert_eq!(address(EffectKind::DeleteAnchor, &it, &NameLedger::new([old])), None);
}

// Requirement: L-6, B-7
#[test]
fn a_verb_on_an_object_not_recorded_as_ours_is_not_applied() {
    let it = resource(|it| it.generation = G2);
    let [anchor, xr, peer] = [it.anchor_name(G2), it.xr_name(G2), it.peer_name(G2)];
    let cases = [
        (EffectKind::Apply, vec![seen(xr.clone(), "x")], "no anchor is recorded"),
        (EffectKind::Apply, vec![intended(anchor.clone())], "the anchor was not seen"),
        (EffectKind::Apply, vec![seen(it.anchor_name(G1), "a1")], "an older anchor"),
        (EffectKind::DeregisterNode, vec![seen(anchor.clone(), "a")], "no peer is recorded"),
        (EffectKind::DeregisterNode, vec![gone(peer, "n")], "the peer is gone"),
        (EffectKind::DeleteSubstrate, vec![seen(part("p", G2), "p")], "a part is no XR"),
        (EffectKind::DeleteSubstrate, vec![gone(xr.clone(), "x")], "the XR is gone"),
        (EffectKind::DeleteSubstrate, vec![intended(xr.clone())], "the XR was not seen"),
        (EffectKind::DeleteAnchor, vec![intended(anchor)], "the anchor was not seen"),
        (EffectKind::DeleteAnchor, vec![seen(xr, "x")], "an XR is no anchor"),
    ];
    for (kind, rows, why) in cases {
        assert_eq!(addressed(kind, rows), None, "{why}");
    }
}

#[test]
fn what_was_seen_is_recorded_before_it_is_addressed() {
    let it = leaving(Phase::Deprovisioning);
    let name = it.anchor_name(G1);
    let record = record(it, [intended(name.clone())]);
    let answer = Answer::Present { uid: Uid::new("a"), ours: true };
    let sighting =
        Sighting { plural: None, name: name.clone(), answer, by: "cluster".into(), at: NOW };
    let facts = Facts { anchor: Anchor::Unrecorded, ..NOTHING };
    let seen = Observed { facts, sightings: vec![sighting], failure: None };
    let (next, rows, effect, ..) = decide(&record, &seen, NOW);
    assert_eq!(next, record.state);
    assert_eq!(rows, record.name_ledger.absorb(&seen.sightings));
    assert_eq!(rows.len(), 1);
    assert_eq!(effect, Some(Effect::DeleteAnchor { anchor: name, uid: Uid::new("a") }));
}

// Requirement: L-5
#[test]
fn the_next_generation_records_its_names_before_it_uses_them() {
    let old = resource(|it| it.generation_state = GenerationState::Leaving);
    let record = record(old.clone(), [gone(old.anchor_name(G1), "a")]);
    let next = resource(|it| {
        it.generation = G2;
        it.updated_at = NOW;
    });
    let rows = next.intended("usher", NOW);
    let reason = Reason::GenerationReplaced;
    let expected = (next, rows, None, None, Wake::Now, reason);
    assert_eq!(decide(&record, &observed(NOTHING), NOW), expected);
}

// Requirement: B-28
#[test]
fn a_requeue_records_nothing() {
    let record = recorded(|it| it.phase = Phase::Provisioning);
    let facts = Facts { config: Config::Waiting, xr: Xr::Converging, ..UP };
    let wake = Wake::At(NOW.after(Duration::from_secs(30)));
    let reason = Reason::WaitingForProviderConfig;
    let expected = (record.state.clone(), vec![], None, None, wake, reason);
    assert_eq!(decide(&record, &observed(facts), NOW), expected);
}

// Requirement: V-2, V-5
#[test]
fn every_crossing_emits_its_own_event() {
    let ended = record(leaving(Phase::Deprovisioning), []);
    let failed = Facts { xr: Xr::Failed, ..UP };
    let cases = [
        (recorded(|_| ()), Facts { node: Node::Live, ..UP }, None, Event::Ready),
        (recorded(|_| ()), failed, Some("no quota"), Event::Failed { message: "no quota".into() }),
        (recorded(|_| ()), failed, None, Event::Failed { message: String::new() }),
        (ended, NOTHING, None, Event::Deleted { outcome: Outcome::Removed }),
    ];
    for (record, facts, failure, event) in cases {
        let seen = Observed { failure: failure.map(str::to_owned), ..observed(facts) };
        let (_, _, effect, reported, ..) = decide(&record, &seen, NOW);
        assert_eq!((reported, effect), (Some(event), None), "{facts:?}");
    }
}

// Requirement: B-29
#[test]
fn the_token_ages_from_when_its_substrate_is_first_ready() {
    let standalone = |it: &mut Fields| it.pinned.role = MeshRole::Standalone;
    let guarded = Facts { protection: Protection::Another, ..UP };
    let asked = |it: &mut Fields| {
        it.phase = Phase::Deprovisioning;
        it.deletion_requested_at = Some(START);
    };
    let cases = [
        (recorded(standalone), UP, Some(NOW), "ready"),
        (recorded(|_| ()), Facts { xr: Xr::Drifted, ..UP }, Some(NOW), "ready and drifted"),
        (recorded(|_| ()), Facts { xr: Xr::Converging, ..UP }, None, "not ready"),
        (recorded(asked), guarded, None, "ready and being deleted"),
    ];
    for (record, facts, first, why) in cases {
        let (next, ..) = decide(&record, &observed(facts), NOW);
        assert_eq!(next.fields().substrate_ready_at, first, "{why}");
    }
}
