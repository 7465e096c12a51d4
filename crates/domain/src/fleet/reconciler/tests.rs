use usher_kernel::{Decision, Lifecycle, Unknown, Wake};

use super::*;
use crate::fleet::accept::{Raw, Report};
use crate::fleet::aggregate::{Target, Wanted};
use crate::fleet::facts::CommandState;
use crate::fleet::fixture::{
    FRESH, LAST, NOW, START, binding, cluster, machine, raw, record, report, resource, snapshot,
    state, wanted,
};
use crate::fleet::observe::fold;
use crate::fleet::snapshot::Snapshot;

fn decide(machine: &Machine, snapshot: &Snapshot) -> Decision<MachineReconciler> {
    let reconciler = MachineReconciler::default();
    reconciler.decide(&record(machine.clone()), &fold(machine, snapshot), NOW)
}

fn seen(machine: &Machine, report: Report) -> Decision<MachineReconciler> {
    decide(machine, &snapshot(Some(report)))
}

// Requirement: F-14
#[test]
fn the_settings_are_the_documented_ones() {
    let MachineReconciler { interval, deadlines } = MachineReconciler::default();
    assert_eq!(interval, Duration::from_secs(30));
    let Deadlines { create, configure, drain, delete, failed, released } = deadlines;
    let minutes = [create, configure, drain, delete, failed].map(|it| it.as_secs() / 60);
    assert_eq!(minutes, [10, 10, 15, 10, 10]);
    assert_eq!(released, Duration::from_secs(1));
}

// Requirement: F-7
#[test]
fn a_command_is_recorded_with_its_token_before_it_is_sent() {
    let it = wanted(Phase::Idle, Target::Bind(binding("a")));
    let recorded = seen(&it, report(Phase::Idle));
    assert_eq!(recorded.effect, None);
    assert_eq!((recorded.next.phase(), recorded.next.fields().token), (Phase::Configuring, FRESH));
    assert_eq!(recorded.wake, Wake::Now);
    let sent = seen(&recorded.next, report(Phase::Idle));
    let metadata = binding("a").assignment.encode();
    let verb = Verb::Configure { cluster: cluster("a"), metadata };
    assert_eq!(sent.effect, Some(Effect { machine: it.id().clone(), token: FRESH, verb }));
    assert_eq!((sent.next.fields().command, sent.event), (CommandState::Sent, None));
}

#[test]
fn each_passing_phase_sends_its_verb() {
    let cases = [
        (Phase::Creating, Target::Bind(binding("a")), EffectKind::Create),
        (Phase::Configuring, Target::Bind(binding("a")), EffectKind::Configure),
        (Phase::Draining, Target::Unbound, EffectKind::Drain),
        (Phase::Deleting, Target::Release, EffectKind::Delete),
        (Phase::Failed, Target::Release, EffectKind::Salvage),
    ];
    for (phase, target, kind) in cases {
        let it = wanted(phase, target);
        let it = it.changed(|it| it.command = CommandState::Recorded);
        let effect = seen(&it, report(phase)).effect.unwrap();
        assert_eq!((effect.kind(), effect.token), (kind, LAST));
    }
    let it = wanted(Phase::Draining, Target::Unbound).changed(|it| {
        it.command = CommandState::Recorded;
        it.wanted.grace = Duration::from_secs(10);
    });
    let effect = seen(&it, report(Phase::Draining)).effect.unwrap();
    assert_eq!(effect.verb, Verb::Drain { grace: Duration::from_secs(10) });
}

// Requirement: F-35
#[test]
fn every_crossing_is_emitted_for_the_cluster_it_concerns() {
    let reported = |machine: &Machine, report| seen(machine, report).event.unwrap();
    let drained = reported(&wanted(Phase::Draining, Target::Unbound), report(Phase::Idle));
    let expected = Event {
        kind: EventType::Moved,
        from: Phase::Draining,
        to: Phase::Idle,
        cluster: Some(cluster("a")),
        error: None,
    };
    assert_eq!(drained, expected, "the one that it was bound to");
    let begun = reported(&wanted(Phase::Idle, Target::Bind(binding("b"))), report(Phase::Idle));
    assert_eq!(begun.cluster, Some(cluster("b")), "the one that it is bound to");
    let failed = reported(&wanted(Phase::Configuring, Target::Unbound), report(Phase::Failed));
    assert_eq!(failed.error.as_deref(), Some("no quota"));
    let gone = decide(&wanted(Phase::Configured, Target::Unbound), &snapshot(None)).event.unwrap();
    assert_eq!(
        (gone.kind, gone.to, gone.cluster),
        (EventType::Gone, Phase::Gone, Some(cluster("a")))
    );
}

// Requirement: F-36
#[test]
fn every_requeue_has_its_wake_up() {
    let poll = Wake::At(NOW.after(Duration::from_secs(30)));
    let steady = wanted(Phase::Configured, Target::Bind(binding("a")));
    assert_eq!(seen(&steady, report(Phase::Configured)).wake, Wake::OnChange);
    let waiting = wanted(Phase::Draining, Target::Unbound);
    assert_eq!(seen(&waiting, report(Phase::Draining)).wake, poll);
    let failed = wanted(Phase::Failed, Target::Release);
    let deadline = START.after(Duration::from_mins(10)).after(Duration::from_millis(1));
    assert_eq!(seen(&failed, report(Phase::Failed)).wake, Wake::At(deadline));
    assert_eq!(decide(&steady, &snapshot(None)).wake, Wake::Never);
    let unanswered = Snapshot { reading: Err(Unknown::Unreachable), ..snapshot(None) };
    assert_eq!(decide(&steady, &unanswered).wake, poll, "an incomplete snapshot is requeued");
}

// Requirement: F-12
#[test]
fn a_transient_error_does_not_change_the_machine() {
    for phase in Phase::ALL.iter().filter(|it| **it != Phase::Gone) {
        let it = machine(|it| it.state = state(*phase));
        let unanswered = Snapshot { reading: Err(Unknown::Unreachable), ..snapshot(None) };
        let decision = decide(&it, &unanswered);
        assert_eq!((decision.next, decision.effect, decision.event), (it, None, None), "{phase}");
    }
}

// Requirement: F-13
#[test]
fn a_failed_machine_is_cleaned_up_after_its_deadline_unless_it_is_held() {
    let late = START.after(Duration::from_mins(11));
    let reconciler = MachineReconciler::default();
    let decide = |machine: &Machine| {
        let seen = fold(machine, &snapshot(Some(report(Phase::Failed))));
        reconciler.decide(&record(machine.clone()), &seen, late)
    };
    let failed = wanted(Phase::Failed, Target::Release);
    let recorded = decide(&failed);
    assert_eq!(
        (recorded.reason, recorded.next.fields().command),
        (Reason::CleaningUp, CommandState::Recorded)
    );
    assert_eq!(recorded.next.phase(), Phase::Failed, "it has not moved yet");
    assert_eq!(decide(&recorded.next).effect.map(|it| it.kind()), Some(EffectKind::Salvage));
    let kept = wanted(Phase::Failed, Target::Bind(binding("a")));
    let kept = kept.changed(|it| it.holder = Some(resource(1)));
    assert_eq!((decide(&kept).reason, decide(&kept).effect), (Reason::FailedAndHeld, None));
    let back = seen(&failed, report(Phase::Speculative));
    assert_eq!((back.next.phase(), back.reason), (Phase::Speculative, Reason::Recovered));
}

// Requirement: F-13
#[test]
fn a_failed_machine_that_is_unused_is_salvaged_without_a_wait() {
    let held = wanted(Phase::Failed, Target::Release);
    let held = held.changed(|it| it.holder = Some(resource(1)));
    let at = |after: Duration| {
        let seen = fold(&held, &snapshot(Some(report(Phase::Failed))));
        MachineReconciler::default().decide(&record(held.clone()), &seen, START.after(after))
    };
    let early = at(Duration::ZERO);
    assert_eq!((early.reason, early.next.fields().command), (Reason::Failed, CommandState::None));
    let late = at(Duration::from_secs(2));
    assert_eq!(
        (late.reason, late.next.fields().command),
        (Reason::CleaningUp, CommandState::Recorded)
    );
    let sent = seen(&late.next, report(Phase::Failed));
    assert_eq!(sent.effect.map(|it| it.kind()), Some(EffectKind::Salvage));
    let leaving = seen(&held, report(Phase::Deleting));
    assert_eq!(leaving.next.phase(), Phase::Deleting);
    assert_eq!(leaving.next.fields().holder, Some(resource(1)), "until nothing is left");
}

// Requirement: L-23
#[test]
fn an_end_is_on_record_with_its_evidence() {
    let it = wanted(Phase::Idle, Target::Unbound);
    let decision = decide(&it, &snapshot(None));
    assert_eq!(decision.next.phase(), Phase::Gone);
    let state: Vec<_> = decision.rows.iter().map(|it| it.state.as_str()).collect();
    assert_eq!(state, ["gone"]);
    let again = decide(&decision.next, &snapshot(Some(report(Phase::Idle))));
    assert_eq!((again.next, again.effect, again.event), (decision.next, None, None));
    assert!(again.rows.is_empty(), "what reappears is another machine");
    assert_eq!(Wanted::of(Target::Unbound).cluster(), None);
}

// Requirement: F-46
#[test]
fn a_machine_whose_offer_cannot_be_read_is_followed_all_the_same() {
    type Bend = fn(&mut Raw);
    let bends: [Bend; 6] = [
        |it| it.price_per_hour = f64::NAN,
        |it| it.interruption_probability = -1.0,
        |it| it.instance_type = String::new(),
        |it| it.capacity_type = 0,
        |it| drop(it.labels.insert("x".repeat(1_000), String::new())),
        |it| drop(it.allocatable.insert("cpu".to_owned(), "many".to_owned())),
    ];
    for bend in bends {
        let mut bent = raw(Phase::Idle);
        bend(&mut bent);
        let it = wanted(Phase::Draining, Target::Release);
        let seen = Snapshot { reading: Ok(Some(Report::read(&bent))), ..snapshot(None) };
        let left = decide(&it, &seen).next;
        assert_eq!(left.phase(), Phase::Idle, "the drain ends");
        let seen = Snapshot { stamp: left.fields().token, ..seen };
        let ordered = decide(&left, &seen).next;
        assert_eq!(ordered.phase(), Phase::Deleting, "the host is given back");
        let sent = decide(&ordered, &seen).effect.map(|it| it.kind());
        assert_eq!(sent, Some(EffectKind::Delete), "the recorded command is sent");
    }
}

// Requirement: F-46
#[test]
fn a_machine_that_failed_without_a_reason_is_given_back_like_any_other() {
    let seen = Raw { last_error: String::new(), ..raw(Phase::Failed) };
    let seen = Snapshot { reading: Ok(Some(Report::read(&seen))), ..snapshot(None) };
    let failed = decide(&wanted(Phase::Configured, Target::Unbound), &seen).next;
    assert_eq!(failed.phase(), Phase::Failed);
    let overdue = failed.changed(|it| it.phase_since = START);
    let seen = Snapshot { stamp: overdue.fields().token, ..seen };
    let reconciler = MachineReconciler {
        deadlines: Deadlines { failed: Duration::ZERO, ..Deadlines::default() },
        ..MachineReconciler::default()
    };
    let decision = reconciler.decide(&record(overdue), &fold(&failed, &seen), NOW);
    assert_eq!(decision.reason, Reason::CleaningUp);
}
