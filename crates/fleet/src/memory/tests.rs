use std::collections::BTreeMap;

use usher_domain::fleet::accept::{Report, adopt};
use usher_domain::fleet::list::Credence;
use usher_domain::object::authority::MassDeletionGuard;
use uuid::Uuid;

use super::*;
use crate::lists::{Scope, Taken, Wrong, read};
use crate::record::Entry as Record;

fn at(second: i64) -> Timestamp {
    Timestamp::from_millis(second * 1_000)
}

fn record_id(number: u128) -> MachineRecordId {
    MachineRecordId::from_uuid(Uuid::from_u128(number))
}

fn raw(number: u128, state: i32) -> Raw {
    Raw {
        id: format!("m{number}"),
        state,
        host: (state == 3).then(|| ("p".to_owned(), format!("h{number}"))),
        instance_type: "t".to_owned(),
        zone: "z".to_owned(),
        capacity_type: 3,
        resources: BTreeMap::from([("cpu".to_owned(), "4".to_owned())]),
        ..Raw::default()
    }
}

fn machine(number: u128) -> Machine {
    let report = Report::read(&raw(number, 3)).unwrap();
    adopt(&report, "p", &"s".parse().unwrap(), at(1)).unwrap().machine
}

fn memory(machines: u128) -> Memory {
    let mut memory = Memory::new("s".parse().unwrap(), Windows::default(), 1);
    for number in 0..machines {
        memory.note(record_id(number), Version(1), &machine(number));
    }
    memory
}

fn whole(number: u128) -> Record {
    Record::Whole(Box::new(raw(number, 3)))
}

fn take_in(memory: &mut Memory, entries: Vec<Record>, scope: Scope) -> Taken {
    let stamp = memory.stamp();
    memory.take_in(read(entries), (scope, stamp), Some(MassDeletionGuard::default()), at(9))
}

// Requirement: F-70
#[test]
fn one_step_per_machine_runs_at_a_time_and_no_wake_up_is_lost() {
    let mut memory = memory(3);
    assert_eq!(memory.claim(9, at(5)), []);
    memory.wake(Slot(1), at(5));
    memory.wake(Slot(1), at(4));
    let turns = memory.claim(9, at(5));
    assert_eq!(turns, [DueMachine { slot: Slot(1), record_id: record_id(1), attempts: 1 }]);
    memory.wake(Slot(1), at(6));
    assert_eq!(memory.claim(9, at(6)), [], "its step runs");
    memory.finish(Slot(1), None, true, at(7));
    assert_eq!(memory.claim(9, at(7)).len(), 1, "it was woken during the step");
    memory.finish(Slot(1), Some(at(20)), false, at(8));
    assert_eq!((memory.claim(9, at(19)).len(), memory.next_due()), (0, Some(at(20))));
    let again = memory.claim(9, at(20));
    assert_eq!(again[0].attempts, 2, "the last attempt failed");
}

// Requirement: F-81
#[test]
fn a_message_does_not_shorten_the_back_off_of_a_failed_step() {
    let mut memory = memory(1);
    let mail = |memory: &mut Memory, at| {
        let (source, stamp) = (Source::Acknowledgement, memory.stamp());
        memory.post(Slot(0), Message { source, stamp, answer: ProviderAnswer::Broken }, at);
    };
    mail(&mut memory, at(1));
    assert_eq!(memory.claim(9, at(1)).len(), 1);
    mail(&mut memory, at(2));
    memory.finish(Slot(0), Some(at(20)), false, at(3));
    assert_eq!(memory.next_due(), Some(at(20)), "it keeps its back-off");
    assert_eq!(memory.claim(9, at(20)).len(), 1);
    memory.finish(Slot(0), Some(at(90)), true, at(21));
    assert_eq!(memory.next_due(), Some(at(21)), "the message is handled");
    assert_eq!(memory.claim(9, at(21)).len(), 1);
    memory.wake(Slot(0), at(22));
    memory.finish(Slot(0), None, false, at(23));
    assert_eq!(memory.next_due(), Some(at(23)), "no wake-up is lost");
}

// Requirement: F-70
#[test]
fn no_more_steps_run_than_allowed() {
    let mut memory = memory(5);
    (0..5).for_each(|it| memory.wake(Slot(it), at(1)));
    assert_eq!(memory.claim(2, at(2)).len(), 2);
    assert_eq!((memory.claim(2, at(2)).len(), memory.load(at(2))), (0, (2, 3)));
    memory.finish(Slot(0), None, true, at(2));
    assert_eq!(memory.claim(2, at(2)).len(), 1);
}

#[test]
fn an_older_version_changes_nothing_and_a_gone_machine_is_removed() {
    let mut memory = memory(2);
    let idle = machine(0);
    memory.note(record_id(0), Version(5), &idle);
    memory.note(record_id(0), Version(4), &machine(0));
    assert_eq!(memory.known(Slot(0)), Some((record_id(0), Version(5))));
    assert_eq!(memory.phases()[Phase::Idle as usize], 2);
    let mut fields = idle.fields().clone();
    fields.state = usher_domain::fleet::aggregate::State::Gone;
    memory.note(record_id(0), Version(6), &Machine::hydrate(fields).unwrap());
    assert_eq!((memory.machines(), memory.known(Slot(0))), (1, None));
    assert_eq!(memory.phases().iter().sum::<usize>(), 1);
}

// Requirement: F-71
#[test]
fn a_list_notifies_only_machines_that_it_has_news_of() {
    let mut memory = memory(20);
    let all = (0..20).map(whole).collect();
    let taken = take_in(&mut memory, all, Scope::Full);
    assert_eq!((taken.credence, taken.notified, taken.new.len()), (Some(Credence::Whole), 0, 0));
    let mut changed = raw(7, 3);
    changed.price_per_hour = 9.0;
    let delta = vec![Record::Whole(Box::new(changed)), whole(3)];
    let taken = take_in(&mut memory, delta, Scope::Delta);
    assert_eq!((taken.credence, taken.notified), (None, 1));
    assert_eq!(memory.claim(9, at(9))[0].slot, Slot(7));
    assert_eq!(memory.listing(Slot(3)), Listing::Names);
}

// Requirement: F-64
#[test]
fn a_missing_machine_is_read_by_id_unless_too_many_are_missing() {
    let mut memory = memory(100);
    let taken = take_in(&mut memory, (1..100).map(whole).collect(), Scope::Full);
    assert_eq!((taken.credence, taken.notified), (Some(Credence::Whole), 1));
    assert_eq!(memory.listing(Slot(0)), Listing::Lacks);
    let message = memory.take_message(Slot(0), &machine(0)).unwrap();
    assert_eq!((message.source, message.answer), (Source::List, ProviderAnswer::Missing));
    let taken = take_in(&mut memory, (50..100).map(whole).collect(), Scope::Full);
    assert_eq!((taken.credence, taken.notified), (Some(Credence::TooSmall), 0));
    assert_eq!(memory.listing(Slot(99)), Listing::Distrusted);
    let taken = take_in(&mut memory, vec![], Scope::Full);
    assert_eq!(taken.credence, Some(Credence::TooSmall));
}

// Requirement: F-65
#[test]
fn a_record_without_an_id_makes_the_next_list_a_full_one() {
    let mut memory = memory(1);
    let entries = vec![whole(0), Record::Lost, Record::Broken("m9".parse().unwrap()), whole(0)];
    let taken = take_in(&mut memory, entries, Scope::Full);
    assert_eq!((taken.credence, taken.is_lossy), (Some(Credence::Cut), true));
    let wrong = [Wrong::Undecodable, Wrong::Undecodable, Wrong::Repeated];
    assert_eq!(taken.refused, wrong);
    assert_eq!(taken.unread.len(), 1, "it is read by id");
}

// Requirement: F-65
#[test]
fn a_list_older_than_the_last_command_causes_a_read_by_id() {
    let mut memory = memory(1);
    let stamp = memory.stamp();
    let mut fields = machine(0).fields().clone();
    fields.token = memory.reserve();
    let ordered = Machine::hydrate(fields).unwrap();
    memory.note(record_id(0), Version(2), &ordered);
    let list = vec![Record::Whole(Box::new(raw(0, 1)))];
    let taken = memory.take_in(read(list), (Scope::Delta, stamp), None, at(9));
    assert_eq!(taken.notified, 1);
    assert_eq!(memory.claim(9, at(9)).len(), 1);
    assert_eq!(memory.take_message(Slot(0), &ordered), None, "the list is older");
}

/// Red by: a response to a command that replaces a message of a list.
#[test]
fn a_list_before_the_response_to_a_command_causes_a_read_by_id() {
    let mut memory = memory(1);
    let stamp = memory.stamp();
    let mut fields = machine(0).fields().clone();
    fields.token = memory.reserve();
    let ordered = Machine::hydrate(fields).unwrap();
    memory.note(record_id(0), Version(2), &ordered);
    let list = vec![Record::Whole(Box::new(raw(0, 1)))];
    memory.take_in(read(list), (Scope::Delta, stamp), None, at(9));
    let answer = ProviderAnswer::Record(Box::new(raw(0, 3)));
    let source = Source::Acknowledgement;
    let answer = Message { source, stamp: ordered.fields().token, answer };
    memory.post(Slot(0), answer.clone(), at(9));
    memory.claim(9, at(9));
    assert_eq!(memory.take_message(Slot(0), &ordered), Some(answer));
    memory.finish(Slot(0), None, true, at(9));
    assert_eq!(memory.claim(9, at(9)).len(), 1, "it is due again");
    assert_eq!(memory.take_message(Slot(0), &ordered), None);
}

/// Red by: a change of a machine in transition that is listed once and not trusted then.
#[test]
fn a_list_overtaken_by_its_machine_causes_a_read_by_id() {
    let mut memory = memory(1);
    let list = vec![Record::Whole(Box::new(raw(0, 1)))];
    assert_eq!(take_in(&mut memory, list.clone(), Scope::Delta).notified, 1);
    let mut fields = machine(0).fields().clone();
    fields.token = memory.reserve();
    let moved = Machine::hydrate(fields).unwrap();
    assert_eq!(memory.claim(9, at(9)).len(), 1);
    assert_eq!(memory.take_message(Slot(0), &moved), None, "it may be older than the change");
    memory.settle(moved.fields().token);
    memory.finish(Slot(0), None, true, at(9));
    assert_eq!(take_in(&mut memory, list, Scope::Delta).notified, 1);
    assert!(memory.take_message(Slot(0), &moved).is_some(), "this one began after it");
}

#[test]
fn a_command_without_a_response_is_outstanding_until_it_cannot_arrive() {
    let mut memory = memory(1);
    let token = memory.reserve();
    memory.settle_at(token, Slot(0), at(10));
    memory.settle_overdue(at(9));
    assert!(memory.stamp() < token);
    memory.settle_overdue(at(10));
    assert_eq!(memory.stamp(), token);
}
