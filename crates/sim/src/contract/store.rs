//! What every store promises: the one in memory that simulations use, and the real ones.
//!
//! Each promise begins with a fresh store and panics with a sentence if it is broken.

#![expect(clippy::expect_used, reason = "a broken promise fails the test")]

use std::time::Duration;

use usher_domain::broker::event::{Event, EventType, Outcome};
use usher_domain::broker::ledger::{Command, Held, RememberedKey, WorkItem};
use usher_domain::broker::phase::Phase;
use usher_domain::broker::provider_config;
use usher_domain::object::idempotency;
use usher_domain::tokens;
use usher_kernel::{Generation, NameState, Trouble, Version, Wake};

use super::port::{No, Port};
use super::queue::{
    a_claim_takes_no_more_than_it_asked_for, a_lease_that_ended_is_given_again_and_counted,
    a_rest_without_a_timer_ends_with_a_wake_up, a_wake_up_during_a_step_is_never_lost,
    an_overtaken_lease_holder_changes_nothing, nothing_is_claimed_twice_under_a_live_lease,
    trouble_sets_the_pace,
};
use super::turns::{
    accepted, claim, claim_or_leased, commit, config_id, config_step, declare, end, give_back,
    pages, resource, step, token_request, types, unknown, walk_config_to_ready, work_item,
};

/// Longer than any lease or back-off.
pub(super) const LONG: Duration = Duration::from_hours(1);

/// One promise: its name, and how it is tried.
pub type Promise = (&'static str, fn(&mut dyn Port));

macro_rules! promises {
    ($($name:ident,)+) => {
        /// Every promise.
        pub const PROMISES: &[Promise] = &[$((stringify!($name), $name),)+];
    };
}

promises! {
    what_was_accepted_is_there_with_its_names_its_event_and_its_turn,
    a_name_is_taken_until_its_holder_is_deleted,
    the_first_provider_config_is_made_once_and_counts_its_users,
    a_key_is_remembered_until_it_ends,
    a_claim_brings_the_record_and_the_present,
    nothing_is_claimed_twice_under_a_live_lease,
    a_claim_takes_no_more_than_it_asked_for,
    a_lease_that_ended_is_given_again_and_counted,
    an_overtaken_lease_holder_changes_nothing,
    a_commit_writes_state_names_and_event_with_one_version,
    a_commit_on_an_old_version_writes_nothing,
    a_commit_gives_the_lease_back_only_if_it_is_told_to,
    a_wake_up_during_a_step_is_never_lost,
    a_rest_without_a_timer_ends_with_a_wake_up,
    trouble_sets_the_pace,
    a_row_that_breaks_its_rules_is_parked_and_stops_no_other,
    deletion_is_told_once_and_wins,
    deletion_waits_for_requests_that_may_still_arrive,
    a_token_is_issued_once_and_not_while_leaving,
    a_token_becomes_one_peer_and_wakes_its_life,
    no_node_enrols_after_deletion_was_accepted,
    an_end_releases_what_was_held_and_begins_a_tombstone,
    a_provider_config_that_is_ready_wakes_its_users,
    a_peer_that_moved_wakes_its_life,
    what_was_given_up_can_be_taken_back,
    a_reader_reads_every_event_once_and_in_order,
    a_label_wakes_its_resource_or_tombstone,
    nothing_is_found_that_is_not_there,
}

fn what_was_accepted_is_there_with_its_names_its_event_and_its_turn(port: &mut dyn Port) {
    let made = declare(port, 1);
    let record = port.resource(made.id()).expect("it is there");
    assert_eq!((record.version, &record.state), (Version(1), &made));
    let intended = made.intended("usher", made.fields().created_at);
    assert_eq!(record.name_ledger.rows(), intended, "its names are recorded before they are used");
    assert_eq!(types(port), [(made.id(), EventType::Requested, Version(1))]);
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert!(entry.due.is_some_and(|due| due <= port.now()), "it is due at once");
    assert_eq!((entry.attempts, entry.lease_until, entry.parked), (0, None, false));
}

fn a_name_is_taken_until_its_holder_is_deleted(port: &mut dyn Port) {
    let late = accepted(port, (1, 1)).expect("the name is free");
    let first = declare(port, 1);
    assert!(accepted(port, (1, 2)).is_err(), "the name is in use");
    assert_eq!(port.accept(late, None), Err(No::Moved), "the name was taken since");
    end(port, first.id());
    let second = accepted(port, (1, 3)).expect("the name is free again");
    port.accept(second, None).expect("nothing has moved");
}

fn the_first_provider_config_is_made_once_and_counts_its_users(port: &mut dyn Port) {
    let late = accepted(port, (1, 1)).expect("it is accepted");
    let first = declare(port, 2);
    assert!(late.new_provider_config.is_some(), "there was none");
    assert_eq!(port.accept(late, None), Err(No::Moved), "another declaration made it since");
    declare(port, 3);
    let config = port.config(config_id(&first)).expect("it is there");
    assert_eq!((config.state.users, config.version), (2, Version(2)));
    assert!(!config.name_ledger.rows().is_empty(), "its names are recorded");
    let entry = port.entry(WorkItem::ProviderConfig(config_id(&first))).expect("it answers");
    assert!(entry.expect("it has a turn").due.is_some(), "and it is due");
}

fn a_key_is_remembered_until_it_ends(port: &mut dyn Port) {
    let scope = idempotency::Scope { caller: "ann".to_owned(), project: port.ids().project };
    let key: idempotency::Key = "k1".parse().expect("a key");
    let (digest, keep) = (idempotency::Digest::of(b"it"), LONG / 2);
    let remembered = RememberedKey { scope: scope.clone(), key: key.clone(), digest, keep };
    let judged = |port: &mut dyn Port| {
        let command = super::turns::command(port, 1);
        let asked = Some((scope.clone(), key.clone()));
        let snapshot = port.snapshot(&command, asked).expect("it answers");
        idempotency::judge(&key, digest, snapshot.used.as_ref(), snapshot.now)
    };
    assert_eq!(judged(port), Ok(idempotency::Verdict::Fresh));
    let first = accepted(port, (1, 1)).expect("it is accepted");
    let id = first.resource.id();
    port.accept(first, Some(remembered.clone())).expect("nothing has moved");
    assert_eq!(judged(port), Ok(idempotency::Verdict::Replay(id.to_string())));
    let again = accepted(port, (2, 2)).expect("it is accepted");
    assert_eq!(port.accept(again.clone(), Some(remembered.clone())), Err(No::Moved));
    assert_eq!(types(port).len(), 1, "nothing of it was written");
    port.pass(LONG);
    assert_eq!(judged(port), Ok(idempotency::Verdict::Fresh), "it has ended");
    port.accept(again, Some(remembered)).expect("the key is free again");
}

fn a_claim_brings_the_record_and_the_present(port: &mut dyn Port) {
    let made = declare(port, 1);
    let before = port.now();
    let leased = claim(port, work_item(&made));
    let record = port.resource(made.id()).expect("it is there");
    assert_eq!(leased.record, Held::Resource(Box::new(record)));
    assert!(before <= leased.now && leased.now <= port.now(), "by the clock of the store");
    assert!(leased.now < leased.claim.until, "the lease runs");
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert_eq!(entry.lease_until, Some(leased.claim.until));
    assert_eq!((entry.fence, entry.wake_seq), (leased.claim.fence, leased.claim.wake_seq));
    let config = claim_or_leased(port, WorkItem::ProviderConfig(config_id(&made)));
    assert!(config, "the ProviderConfig has its turn, too");
}

fn a_commit_writes_state_names_and_event_with_one_version(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    let mut write = step(&leased, Phase::Ready, Some(Event::Ready));
    let row = resource(&leased).name_ledger.rows().first().expect("it has names").clone();
    write.rows = vec![usher_kernel::Row { state: NameState::Seen, ..row }];
    let (next, rows) = (write.next.clone(), write.rows.clone());
    port.commit(write).expect("the version holds");
    let record = port.resource(made.id()).expect("it is there");
    assert_eq!((record.version, record.state), (Version(2), next));
    assert_eq!(record.name_ledger.rows().first(), rows.first(), "a known name is written over");
    assert_eq!(record.name_ledger.rows().len(), resource(&leased).name_ledger.rows().len());
    assert_eq!(types(port).last(), Some(&(made.id(), EventType::Ready, Version(2))));
}

fn a_commit_on_an_old_version_writes_nothing(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    commit(port, step(&leased, Phase::Provisioning, None));
    let (before, entry) = (port.resource(made.id()), port.entry(work_item(&made)));
    let mut late = step(&leased, Phase::Ready, Some(Event::Ready));
    let row = resource(&leased).name_ledger.rows().first().expect("it has names").clone();
    late.rows = vec![usher_kernel::Row { state: NameState::Seen, ..row }];
    late.release = Some(give_back(&leased, Wake::Now));
    assert_eq!(port.commit(late), Err(No::Conflict));
    assert_eq!(port.resource(made.id()), before, "neither state nor names");
    assert_eq!(port.entry(work_item(&made)), entry, "nor the queue");
    assert_eq!(types(port).len(), 1, "nor an event");
}

fn a_commit_gives_the_lease_back_only_if_it_is_told_to(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    commit(port, step(&leased, Phase::Provisioning, None));
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert_eq!(entry.lease_until, Some(leased.claim.until), "its effect is under way");
    let record = port.resource(made.id()).expect("it is there");
    let mut write = super::turns::write(&record, Phase::Enrolling, None);
    write.release = Some(give_back(&leased, Wake::OnChange));
    commit(port, write);
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert_eq!((entry.lease_until, entry.due, entry.attempts), (None, None, 0));
}

fn a_row_that_breaks_its_rules_is_parked_and_stops_no_other(port: &mut dyn Port) {
    let (bad, good) = (declare(port, 1), declare(port, 2));
    port.spoil(bad.id());
    let batch = port.claim_due(64).expect("it answers");
    let parked: Vec<WorkItem> = batch.parked.iter().map(|it| it.0).collect();
    assert_eq!(parked, [work_item(&bad)]);
    assert!(batch.leased.iter().any(|it| it.item == work_item(&good)), "other records continue");
    assert!(batch.leased.iter().all(|it| it.item != work_item(&bad)));
    let entry = port.entry(work_item(&bad)).expect("it answers").expect("it has a turn");
    assert!(entry.parked && entry.lease_until.is_none());
    assert_eq!(port.resource(bad.id()).err(), Some(No::Corrupt), "such a row is not handed out");
    assert_eq!(port.order(bad.id(), Command::Deprovision).err(), Some(No::Corrupt));
}

fn deletion_is_told_once_and_wins(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    let asked = port.order(made.id(), Command::Deprovision).expect("it is known");
    assert!(asked.deletion_requested_at().is_some());
    let late = step(&leased, Phase::Ready, Some(Event::Ready));
    assert_eq!(port.commit(late), Err(No::Conflict), "a step that began before it comes too late");
    port.release(give_back(&leased, Wake::Never)).expect("it is accepted");
    claim(port, work_item(&made));
    let again = port.order(made.id(), Command::Deprovision).expect("it is known");
    assert_eq!(again, asked, "asking again changes nothing");
    let emitted = [
        (made.id(), EventType::Requested, Version(1)),
        (made.id(), EventType::Deleting, Version(2)),
    ];
    assert_eq!(types(port), emitted);
    assert_eq!(port.order(made.id(), Command::Replace), Err(No::Refused("not_replaceable")));
}

fn deletion_waits_for_requests_that_may_still_arrive(port: &mut dyn Port) {
    let (released, held) = (declare(port, 1), declare(port, 2));
    let batch = port.claim_due(64).expect("it answers").leased;
    let leased = |it| batch.iter().find(|found| found.item == it).expect("it was due");
    port.release(give_back(leased(work_item(&released)), Wake::OnChange)).expect("it is accepted");
    let until = leased(work_item(&held)).claim.until;
    let grace = |port: &mut dyn Port, id| {
        port.order(id, Command::Deprovision).expect("it is known").fields().grace_until
    };
    assert_eq!(grace(port, released.id()), None, "no request is outstanding");
    let grace = grace(port, held.id());
    assert!(
        grace.is_some_and(|it| until < it),
        "{grace:?}: longer than the lease, until {until:?}"
    );
    let unmoved = leased(work_item(&held));
    port.postpone(work_item(&held), unmoved.claim, &Trouble::Conflict).expect("it is accepted");
    let next = claim(port, work_item(&held));
    let grace = resource(&next).state.fields().grace_until;
    assert_eq!(grace, None, "a lease that was given back is not waited for");
    let trouble = Trouble::unavailable("the outside".to_owned());
    let lost = declare(port, 3);
    let leased = claim(port, work_item(&lost));
    port.order(lost.id(), Command::Deprovision).expect("it is known");
    port.postpone(work_item(&lost), leased.claim, &trouble).expect("it is accepted");
    let next = claim(port, work_item(&lost));
    let grace = resource(&next).state.fields().grace_until;
    assert!(grace.is_some_and(|it| next.now < it), "its last request may still arrive: {grace:?}");
}

fn a_token_is_issued_once_and_not_while_leaving(port: &mut dyn Port) {
    let made = declare(port, 1);
    let first = Generation::FIRST;
    port.issue(made.id(), first).expect("it may enrol");
    let tokens = port.tokens(made.id()).expect("it answers");
    port.issue(made.id(), first).expect("asking again is answered");
    assert_eq!(port.tokens(made.id()), Ok(tokens.clone()), "and changes nothing");
    assert_eq!(tokens.len(), 1);
    assert_eq!(port.issue(made.id(), first.next()), Err(No::Leaving), "not for another generation");
    port.order(made.id(), Command::Deprovision).expect("it is known");
    let other = declare(port, 2);
    port.order(other.id(), Command::Deprovision).expect("it is known");
    assert_eq!(port.issue(other.id(), first), Err(No::Leaving));
    assert_eq!(port.tokens(other.id()), Ok(vec![]));
}

fn a_token_becomes_one_peer_and_wakes_its_life(port: &mut dyn Port) {
    let made = declare(port, 1);
    port.issue(made.id(), Generation::FIRST).expect("it may enrol");
    let leased = claim(port, work_item(&made));
    let mine = token_request(port, made.id(), 1);
    let peer = match port.redeem(&mine) {
        Ok(tokens::Outcome::Redeemed(by)) => Some(by.peer),
        Ok(tokens::Outcome::Replayed(_) | tokens::Outcome::Refused(_)) | Err(_) => None,
    };
    assert_eq!(peer, Some(mine.peer), "the token is good");
    assert_eq!(port.redeem(&mine), Ok(tokens::Outcome::Replayed(mine.peer)), "it asks again");
    let other = token_request(port, made.id(), 2);
    let refused = tokens::Outcome::Refused(tokens::Refusal::Consumed);
    assert_eq!(port.redeem(&other), Ok(refused), "another agent comes too late");
    let peers = port.peers(made.id()).expect("it answers");
    assert_eq!(peers.iter().map(|it| it.id).collect::<Vec<_>>(), [mine.peer]);
    port.release(give_back(&leased, Wake::Never)).expect("it is accepted");
    claim(port, work_item(&made));
}

fn no_node_enrols_after_deletion_was_accepted(port: &mut dyn Port) {
    let made = declare(port, 1);
    port.issue(made.id(), Generation::FIRST).expect("it may enrol");
    let request = token_request(port, made.id(), 1);
    port.order(made.id(), Command::Deprovision).expect("it is known");
    let outcome = port.redeem(&request).expect("it answers");
    assert!(matches!(outcome, tokens::Outcome::Refused(_)), "{outcome:?}");
    assert_eq!(port.peers(made.id()), Ok(vec![]));
    let tokens = port.tokens(made.id()).expect("it answers");
    assert!(tokens.iter().all(|it| it.revoked_at.is_some()), "and the token is withdrawn");
}

fn an_end_releases_what_was_held_and_begins_a_tombstone(port: &mut dyn Port) {
    let (first, second) = (declare(port, 1), declare(port, 2));
    let config = WorkItem::ProviderConfig(config_id(&first));
    let leased = claim(port, config);
    end(port, first.id());
    assert_eq!(port.config(config_id(&first)).expect("it is there").state.users, 1);
    let tombstone = WorkItem::Tombstone(first.id());
    assert!(port.entry(tombstone).expect("it answers").is_some(), "a tombstone watches");
    assert_eq!(port.entry(WorkItem::Tombstone(second.id())), Ok(None));
    let emitted = types(port).into_iter().filter(|it| it.1 == EventType::Deleted).count();
    assert_eq!(emitted, 1);
    // A ProviderConfig with users is idle; its last user's deletion wakes it under its lease.
    let entry = port.entry(config).expect("it answers").expect("it is in the queue");
    assert_eq!(entry.wake_seq, leased.claim.wake_seq);
    end(port, second.id());
    port.release(give_back(&leased, Wake::Never)).expect("it is accepted");
    claim(port, config);
}

fn a_provider_config_that_is_ready_wakes_its_users(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    port.release(give_back(&leased, Wake::OnChange)).expect("it is accepted");
    let ready = walk_config_to_ready(port, config_id(&made));
    assert_eq!(ready.state.phase, provider_config::Phase::Ready);
    claim(port, work_item(&made));
    let late = config_step(&ready, provider_config::Phase::Gone);
    port.commit_config(late.clone()).expect("the version holds");
    assert_eq!(port.commit_config(late), Err(No::Conflict));
}

fn a_peer_that_moved_wakes_its_life(port: &mut dyn Port) {
    let made = declare(port, 1);
    port.issue(made.id(), Generation::FIRST).expect("it may enrol");
    let request = token_request(port, made.id(), 1);
    let _ = port.redeem(&request).expect("it answers");
    let leased = claim(port, work_item(&made));
    let before = port.peers(made.id()).expect("it answers").remove(0);
    let after = before.advance(usher_domain::peers::DrainStep::Cordon, leased.now);
    port.move_peer(&before, &after).expect("it is where it was");
    assert_eq!(port.peers(made.id()), Ok(vec![after.clone()]));
    assert_eq!(port.move_peer(&before, &after), Err(No::Conflict), "it has moved");
    port.release(give_back(&leased, Wake::Never)).expect("it is accepted");
    claim(port, work_item(&made));
}

fn what_was_given_up_can_be_taken_back(port: &mut dyn Port) {
    let made = declare(port, 1);
    let (by, reason) = ("admin".to_owned(), "given up".to_owned());
    let abandon = Command::Abandon { by: by.clone(), reason };
    let reap = || Command::Reap { by: by.clone() };
    assert_eq!(port.order(made.id(), reap()), Err(No::Refused("not_abandoned")));
    let given_up = port.order(made.id(), abandon).expect("no node is registered");
    assert_eq!(given_up.fields().outcome, Some(Outcome::Abandoned));
    let record = port.resource(made.id()).expect("it is there");
    let states = record.name_ledger.rows().iter().map(|it| it.state);
    assert!(states.clone().all(|it| it == NameState::Abandoned), "it is the record of orphans");
    assert_eq!(port.entry(WorkItem::Tombstone(made.id())), Ok(None), "nothing is watched");
    assert_eq!(port.config(config_id(&made)).expect("it is there").state.users, 0);
    port.order(made.id(), reap()).expect("it was given up");
    claim(port, WorkItem::Tombstone(made.id()));
    let emitted: Vec<EventType> = types(port).into_iter().map(|it| it.1).collect();
    assert_eq!(emitted, [EventType::Requested, EventType::Deleted], "nothing is emitted again");
}

fn a_reader_reads_every_event_once_and_in_order(port: &mut dyn Port) {
    let made: Vec<_> = (1..=4).map(|number| declare(port, number)).collect();
    let early = pages(port, None, 3);
    assert_eq!(early.len(), 4);
    for it in &made {
        port.order(it.id(), Command::Deprovision).expect("it is known");
    }
    let place = early.last().map(|it| it.place.clone());
    let late = pages(port, place.as_deref(), 3);
    assert_eq!(late.len(), 4, "a reader that read so far reads the rest");
    let all: Vec<_> = early.into_iter().chain(late).collect();
    assert_eq!(pages(port, None, 64), all, "and a new reader the same");
    for it in &made {
        let mine = all.iter().filter(|event| event.resource == it.id());
        let versions: Vec<Version> = mine.map(|event| event.version).collect();
        assert_eq!(versions, [Version(1), Version(2)]);
    }
}

fn a_label_wakes_its_resource_or_tombstone(port: &mut dyn Port) {
    let (dead, alive) = (declare(port, 1), declare(port, 2));
    end(port, dead.id());
    let seq = |port: &mut dyn Port, work_item| {
        port.entry(work_item).expect("it answers").expect("it has a turn").wake_seq
    };
    let items = [WorkItem::Resource(dead.id()), WorkItem::Tombstone(dead.id()), work_item(&alive)];
    // A lease holder must see that they were woken; what is due without a lease is so already.
    assert!(port.wake_label(alive.id()).expect("it answers"));
    port.claim_due(64).expect("it answers");
    let before = items.map(|it| seq(port, it));
    assert!(port.wake_label(dead.id()).expect("it answers"));
    assert!(port.wake_label(alive.id()).expect("it answers"));
    let woken = items.map(|it| seq(port, it));
    assert_eq!(woken, [before[0], before[1] + 1, before[2] + 1]);
    port.wake_all().expect("it answers");
    let all = items.map(|it| seq(port, it));
    assert_eq!(all, [woken[0], woken[1] + 1, woken[2] + 1], "nothing wakes the dead");
}

fn nothing_is_found_that_is_not_there(port: &mut dyn Port) {
    let id = unknown();
    assert_eq!(port.wake(WorkItem::Resource(id)), Ok(false));
    assert_eq!(port.wake_label(id), Ok(false));
    assert_eq!(port.entry(WorkItem::Tombstone(id)), Ok(None));
    let missing = No::Refused("provisioned_resource_not_found");
    assert_eq!(port.resource(id).err(), Some(missing.clone()));
    assert_eq!(port.order(id, Command::Deprovision).err(), Some(missing));
    assert_eq!(port.claim_due(64).expect("it answers").leased, []);
    assert_eq!(port.events(None, 64), Ok(vec![]));
}
