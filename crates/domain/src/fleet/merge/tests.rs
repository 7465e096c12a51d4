use super::*;
use crate::fleet::accept::Raw;
use crate::fleet::aggregate::{Offering, Wanted};
use crate::fleet::fixture::{
    FRESH, LAST, NOW, START, binding, dispute, host, machine, raw, report, report_for, snapshot,
    wanted,
};
use crate::fleet::observe::fold;
use crate::fleet::reason::Reason;
use crate::fleet::snapshot::{Snapshot, Source};

fn merged(machine: &Machine, snapshot: &Snapshot) -> Merged {
    merge(machine, &fold(machine, snapshot), &Deadlines::default(), NOW)
}

/// What becomes of a row under a question that began after all that is on record.
fn after(machine: &Machine, report: Report) -> Merged {
    merged(machine, &Snapshot { stamp: machine.fields().token, ..snapshot(Some(report)) })
}

// Requirement: F-4
#[test]
fn a_transitional_acknowledgement_clears_nothing() {
    let it = wanted(Phase::Draining, Target::Unbound).changed(|it| it.command = CommandState::Sent);
    let ack = Snapshot {
        source: Source::Acknowledgement,
        stamp: LAST,
        ..snapshot(Some(report(Phase::Draining)))
    };
    let merged = merged(&it, &ack);
    assert_eq!(merged.next.state(), it.state(), "the binding stays until it has left");
    assert_eq!(merged.next.fields().command, CommandState::None, "the command was accepted");
    assert_eq!(merged.verdict.reason, Reason::WaitingForDrain);
}

// Requirement: F-5, F-20
#[test]
fn a_drain_ends_in_idle_with_nothing_of_its_binding_left() {
    for source in [Source::Acknowledgement, Source::Get, Source::List] {
        let it =
            wanted(Phase::Draining, Target::Unbound).changed(|it| it.command = CommandState::Sent);
        let snapshot = Snapshot { source, ..snapshot(Some(report(Phase::Idle))) };
        let merged = merged(&it, &snapshot);
        let idle = State::Idle { host: host(), asked: None };
        assert_eq!(merged.next.state(), &idle, "{source:?}");
        assert_eq!(merged.verdict.reason, Reason::CommandCompleted);
        assert_eq!(merged.next.fields().phase_since, NOW);
    }
}

// Requirement: F-6
#[test]
fn an_assignment_is_kept_while_the_machine_is_bound() {
    let it = wanted(Phase::Configuring, Target::Bind(binding("a")));
    // The echo of the provider is older than what the store knows.
    let echo = Raw { shard_metadata: [].into(), ..raw(Phase::Configured) };
    let merged = after(&it, Report::read(&echo).unwrap());
    assert_eq!(merged.next.state().binding(), Some(&binding("a")));
    assert_eq!(merged.next.phase(), Phase::Configured);
}

#[test]
fn the_host_ends_with_the_deletion() {
    let it = wanted(Phase::Deleting, Target::Release).changed(|it| it.command = CommandState::Sent);
    assert_eq!(after(&it, report(Phase::Deleting)).next.state().host(), Some(&host()));
    let released = after(&it, report(Phase::Speculative)).next;
    assert_eq!(released.state(), &State::Speculative);
}

#[test]
fn an_unchanging_machine_is_described_anew() {
    let it = wanted(Phase::Configured, Target::Bind(binding("a")));
    let mut news = raw(Phase::Configured);
    news.price_per_hour = 9.0;
    news.interruption_probability = 0.25;
    news.capacity_type = 4;
    news.labels.insert("rack".to_owned(), "r2".to_owned());
    news.allocatable.insert("cpu".to_owned(), "3".to_owned());
    news.host = Some(("p".to_owned(), "h2".to_owned()));
    let report = Report::read(&news).unwrap();
    let merged = after(&it, report.clone());
    let offer = report.offer.unwrap();
    assert_eq!(merged.next.fields().offer, Offering::Read(offer.clone()));
    news.price_per_hour = f64::NAN;
    let unread = after(&merged.next, Report::read(&news).unwrap()).next;
    assert_eq!(unread.fields().offer, Offering::Kept(offer), "the last that could be read");
    assert_eq!(merged.next.state().host().unwrap().reference, "h2");
    assert_eq!((merged.verdict.event, merged.verdict.reason), (None, Reason::AsDeclared));
    let failed = wanted(Phase::Failed, Target::Release);
    let news = Raw { last_error: "still no quota".to_owned(), ..raw(Phase::Failed) };
    let merged = after(&failed, Report::read(&news).unwrap());
    assert!(
        matches!(merged.next.state(), State::Failed { error, .. } if error.starts_with("still"))
    );
}

// Requirement: F-16
#[test]
fn an_answer_with_another_cluster_is_disputed_and_nothing_is_done() {
    let it = wanted(Phase::Configuring, Target::Bind(binding("a")));
    let merged = after(&it, report_for(Phase::Configured, "b"));
    assert_eq!(merged.verdict.event, Some(EventKind::Disputed));
    assert_eq!(merged.next.fields().disputed, Some(dispute("b")));
    assert_eq!(merged.next.state(), it.state());
    let again = after(&merged.next, report_for(Phase::Configured, "c"));
    assert_eq!(again.verdict.event, None, "emitted once");
    assert_eq!(again.next.fields().disputed, Some(dispute("c")), "but kept up to date");
    let settled = after(&again.next, report(Phase::Configured));
    assert_eq!(settled.verdict.event, Some(EventKind::Settled));
    assert_eq!(settled.next.fields().disputed, None);
    assert_eq!(settled.next.phase(), Phase::Configuring, "and merged by the next step");
}

// Requirement: F-15
#[test]
fn a_late_completion_of_a_withdrawn_command_is_recognised() {
    let idle = wanted(Phase::Configuring, Target::Unbound);
    let taken_back = after(&idle, report(Phase::Idle)).next;
    assert_eq!(taken_back.state().asked(), Some(&binding("a")));
    let late = after(&taken_back, report(Phase::Configured));
    assert_eq!(late.next.state().binding(), Some(&binding("a")));
    assert_eq!(late.verdict.reason, Reason::UnexpectedTransition);
    let deleting = after(&taken_back.aimed(Wanted::of(Target::Release)), report(Phase::Idle)).next;
    assert_eq!(deleting.phase(), Phase::Deleting);
    let late = after(&deleting, report(Phase::Configuring));
    assert_eq!(late.next.state().binding(), Some(&binding("a")), "also while it is deleted");
}

// Requirement: F-10
#[test]
fn a_slow_list_does_not_revert_what_was_seen_since_it_began() {
    let it = wanted(Phase::Configuring, Target::Bind(binding("a")));
    let list = Snapshot { source: Source::List, ..snapshot(Some(report(Phase::Configuring))) };
    let configured = after(&it, report(Phase::Configured)).next;
    assert_eq!(configured.fields().token, FRESH);
    let late = merged(&configured, &list);
    assert_eq!((late.next, late.verdict.reason), (configured, Reason::StaleObservation));
}

// Requirement: F-10
#[test]
fn a_slow_list_does_not_revert_an_accepted_command() {
    let it = wanted(Phase::Creating, Target::Unbound).changed(|it| it.command = CommandState::Sent);
    let list = Snapshot { source: Source::List, ..snapshot(Some(report(Phase::Speculative))) };
    let accepted = after(&it, report(Phase::Creating)).next;
    let late = merged(&accepted, &list);
    assert_eq!((late.next, late.verdict.reason), (accepted, Reason::StaleObservation));
}

// Requirement: F-11
#[test]
fn a_command_of_an_older_epoch_gets_a_new_token_before_it_is_sent() {
    let it = wanted(Phase::Configuring, Target::Bind(binding("a")));
    let it = it.changed(|it| it.command = CommandState::Recorded);
    let fresh = crate::fleet::issue::Token { epoch: LAST.epoch + 1, sequence: 1 };
    let snapshot = Snapshot { fresh, stamp: fresh, ..snapshot(Some(report(Phase::Idle))) };
    let again = merged(&it, &snapshot);
    assert_eq!((again.verdict.effect, again.next.fields().token), (None, fresh));
    let sent = merged(&again.next, &snapshot);
    assert_eq!(sent.verdict.reason, Reason::CommandSent);
}

#[test]
fn a_lost_host_takes_its_binding_with_it() {
    for phase in [Phase::Idle, Phase::Speculative, Phase::Creating] {
        let it = wanted(Phase::Configured, Target::Bind(binding("a")));
        let merged = after(&it, report(phase));
        assert_eq!((merged.next.phase(), merged.next.state().binding()), (phase, None));
        assert_eq!(merged.verdict.reason, Reason::HostLost);
        assert_eq!(merged.verdict.event, Some(EventKind::Moved));
    }
    let it = wanted(Phase::Configured, Target::Bind(binding("a")));
    let failed = after(&it, report(Phase::Failed)).next;
    assert_eq!(failed.state().binding(), Some(&binding("a")), "until it is cleaned up");
}

// Requirement: F-7
#[test]
fn a_token_is_newer_than_the_last_whatever_the_snapshot_says() {
    let it = wanted(Phase::Idle, Target::Bind(binding("a")));
    let merged = after(&it, report(Phase::Idle));
    assert_eq!(merged.next.fields().token, FRESH);
    assert_eq!(
        (merged.next.fields().command, merged.next.fields().commanded_at),
        (CommandState::Recorded, NOW)
    );
    let hostile = Snapshot { fresh: LAST, ..snapshot(Some(report(Phase::Idle))) };
    assert_eq!(
        super::merge(&it, &fold(&it, &hostile), &Deadlines::default(), NOW).next.fields().token,
        LAST.next()
    );
    let steady = wanted(Phase::Configured, Target::Bind(binding("a")));
    assert_eq!(after(&steady, report(Phase::Configured)).next, steady, "a requeue writes nothing");
    assert_eq!(machine(|_| ()).fields().phase_since, START);
}
