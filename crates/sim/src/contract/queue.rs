//! What every store promises of its queue.

#![expect(clippy::expect_used, reason = "a broken promise fails the test")]

use usher_domain::broker::ledger::{Command, ResourceWrite};
use usher_domain::broker::phase::Phase;
use usher_kernel::{Trouble, Wake};

use super::port::{No, Port};
use super::store::LONG;
use super::turns::{claim, commit, declare, give_back, step, work_item};

pub(super) fn nothing_is_claimed_twice_under_a_live_lease(port: &mut dyn Port) {
    for number in 1..=3 {
        declare(port, number);
    }
    let first = port.claim_due(64).expect("it answers").leased;
    assert_eq!(first.len(), 4, "three resources and their ProviderConfig");
    for it in &first {
        assert!(port.wake(it.item).expect("it answers"));
    }
    assert_eq!(port.claim_due(64).expect("it answers").leased, [], "although they were woken");
}

pub(super) fn a_claim_takes_no_more_than_it_asked_for(port: &mut dyn Port) {
    declare(port, 1);
    declare(port, 2);
    assert_eq!(port.claim_due(2).expect("it answers").leased.len(), 2);
    assert_eq!(port.claim_due(2).expect("it answers").leased.len(), 1, "and none is hidden");
}

pub(super) fn a_lease_that_ended_is_given_again_and_counted(port: &mut dyn Port) {
    let made = declare(port, 1);
    let first = claim(port, work_item(&made));
    assert_eq!(first.claim.attempt, 1);
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert_eq!(entry.attempts, 1, "counted at the claim, although it was not given back");
    assert!(entry.due >= entry.lease_until, "it is due when its lease has ended");
    port.pass(LONG);
    let second = claim(port, work_item(&made));
    assert_eq!(second.claim.attempt, 2);
    assert!(first.claim.fence < second.claim.fence);
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert!(entry.unreturned_until.is_some(), "a request of the first lease may still arrive");
}

pub(super) fn an_overtaken_lease_holder_changes_nothing(port: &mut dyn Port) {
    let made = declare(port, 1);
    let first = claim(port, work_item(&made));
    port.pass(LONG);
    let second = claim(port, work_item(&made));
    let before = port.entry(work_item(&made)).expect("it answers");
    let late = give_back(&first, Wake::Now);
    port.release(late).expect("it is accepted");
    assert_eq!(port.entry(work_item(&made)).expect("it answers"), before, "by its release");
    let trouble = Trouble::Corrupt { what: "late".to_owned() };
    port.postpone(work_item(&made), first.claim, &trouble).expect("it is accepted");
    assert_eq!(port.entry(work_item(&made)).expect("it answers"), before, "by its trouble");
    let kept = step(&first, Phase::Provisioning, None);
    let given = ResourceWrite { lease: None, release: Some(late), ..kept.clone() };
    let written = [kept, given].map(|it| port.commit(it));
    assert_eq!(written, [Err(No::Conflict), Err(No::Conflict)], "although the version holds");
    assert_eq!(port.entry(work_item(&made)).expect("it answers"), before, "by its commit");
    commit(port, step(&second, Phase::Provisioning, None));
}

pub(super) fn a_wake_up_during_a_step_is_never_lost(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    assert!(port.wake(work_item(&made)).expect("it answers"));
    port.release(give_back(&leased, Wake::Never)).expect("it is accepted");
    let leased = claim(port, work_item(&made));
    assert!(port.wake(work_item(&made)).expect("it answers"));
    let mut write = step(&leased, Phase::Provisioning, None);
    write.release = Some(give_back(&leased, Wake::OnChange));
    commit(port, write);
    let leased = claim(port, work_item(&made));
    assert!(port.wake(work_item(&made)).expect("it answers"));
    let trouble = Trouble::Rejected { what: "the outside".to_owned() };
    port.postpone(work_item(&made), leased.claim, &trouble).expect("it is accepted");
    claim(port, work_item(&made));
}

pub(super) fn a_rest_without_a_timer_ends_with_a_wake_up(port: &mut dyn Port) {
    let made = declare(port, 1);
    let leased = claim(port, work_item(&made));
    port.release(give_back(&leased, Wake::OnChange)).expect("it is accepted");
    port.pass(LONG);
    let due = |port: &mut dyn Port| {
        let batch = port.claim_due(64).expect("it answers");
        batch.leased.iter().any(|it| it.item == work_item(&made))
    };
    assert!(!due(port), "it was not woken");
    assert!(port.wake(work_item(&made)).expect("it answers"));
    let leased = claim(port, work_item(&made));
    let at = port.now().after(LONG / 2);
    port.release(give_back(&leased, Wake::At(at))).expect("it is accepted");
    assert!(!due(port), "its time has not come");
    port.pass(LONG);
    assert!(due(port), "its time has come");
}

pub(super) fn trouble_sets_the_pace(port: &mut dyn Port) {
    let made = declare(port, 1);
    let what = "the outside".to_owned();
    let leased = claim(port, work_item(&made));
    port.postpone(work_item(&made), leased.claim, &Trouble::Conflict).expect("it is accepted");
    let leased = claim(port, work_item(&made));
    assert_eq!(leased.claim.attempt, 2, "at once, and still counted");
    let rejected = Trouble::Rejected { what: what.clone() };
    port.postpone(work_item(&made), leased.claim, &rejected).expect("it is accepted");
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert_eq!(entry.lease_until, None);
    assert!(entry.due.is_some_and(|due| leased.now < due), "it is slow");
    assert!(entry.unreturned_until.is_some(), "its last request may still arrive");
    port.pass(LONG);
    let leased = claim(port, work_item(&made));
    port.postpone(work_item(&made), leased.claim, &Trouble::Corrupt { what }).expect("it is taken");
    assert!(port.wake(work_item(&made)).expect("it answers"));
    let entry = port.entry(work_item(&made)).expect("it answers").expect("it has a turn");
    assert!(entry.parked && entry.lease_until.is_none());
    port.pass(LONG);
    let batch = port.claim_due(64).expect("it answers");
    assert!(batch.leased.iter().all(|it| it.item != work_item(&made)), "a wake-up is no repair");
    port.order(made.id(), Command::Retry).expect("it is known");
    claim(port, work_item(&made));
}
