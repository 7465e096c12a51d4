//! What becomes of denied deletions.

use super::*;

/// What becomes of a recorded deletion, with what its effects need.
#[derive(Debug, PartialEq)]
enum Deal {
    Settle(Outcome),
    HandOver(UsageKey, Uid),
    Replay(Option<String>),
}

fn deal(seen: &Observed) -> Option<Deal> {
    let (denied, verdict) = next(&seen.denied)?;
    match verdict.attempt {
        facts::Attempt::None | facts::Attempt::Unknown => None,
        facts::Attempt::Settled => verdict.outcome.map(Deal::Settle),
        facts::Attempt::HandOver => {
            denied.holder.clone().map(|(usage, uid)| Deal::HandOver(usage, uid))
        }
        facts::Attempt::Due | facts::Attempt::Begun => Some(Deal::Replay(denied.revision.clone())),
    }
}

/// The outcome of a recorded deletion once nothing is held, in a changed world.
fn dealt(
    bend: impl FnOnce(&mut Attempt),
    turn: impl FnOnce(&mut Usage, &mut Snapshot),
) -> Option<Deal> {
    let mut attempt = attempt("db-1");
    bend(&mut attempt);
    let (mut usage, mut snapshot) = (usage(releasing), snapshot());
    usage.status.attempts = vec![attempt];
    turn(&mut usage, &mut snapshot);
    deal(&seen(&usage, rows(), &snapshot))
}

fn collected(owners: &[&str]) -> Origin {
    Origin::Collected { owners: owners.iter().map(|it| Uid::new(*it)).collect() }
}

#[test]
fn a_denied_deletion_is_replayed_when_the_use_is_over() {
    assert_eq!(dealt(|_| {}, |_, _| {}), Some(Deal::Replay(None)));
    let held = |it: &mut Usage, _: &mut Snapshot| it.status.phase = Phase::Protected;
    assert_eq!(dealt(|_| {}, held), None, "not while it is held");
    let by_collector = dealt(|it| it.origin = collected(&[]), |_, _| {});
    assert_eq!(by_collector, Some(Deal::Replay(Some("1".to_owned()))), "as it was seen");
    let mut with_fact = usage(releasing);
    for (progress, fact) in
        [(Progress::Recorded, facts::Attempt::Due), (Progress::Begun, facts::Attempt::Begun)]
    {
        with_fact.status.attempts = vec![Attempt { progress, ..attempt("db-1") }];
        assert_eq!(fate(&seen(&with_fact, rows(), &snapshot())), fact);
    }
}

// Requirement: G-8
#[test]
fn a_void_denied_deletion_is_settled() {
    let settled = |outcome| Some(Deal::Settle(outcome));
    let withdrawn = |it: &mut Attempt| it.progress = Progress::Withdrawn { at: START };
    assert_eq!(dealt(withdrawn, |_, _| {}), settled(Outcome::Withdrawn));
    assert_eq!(dealt(|it| it.expires_at = NOW, |_, _| {}), settled(Outcome::Expired));
    let owners = |it: &mut Attempt| it.origin = collected(&["xr"]);
    assert_eq!(dealt(owners, |_, _| {}), settled(Outcome::OwnersChanged));
    let silent = |it: &mut Usage, _: &mut Snapshot| spec(it).replay = false;
    assert_eq!(dealt(|_| {}, silent), settled(Outcome::NotReplayed));
}

#[test]
fn a_denied_deletion_of_what_is_gone_or_going_is_done() {
    let done = Some(Deal::Settle(Outcome::Deleted));
    for found in [Found::Absent, Found::KindRemoved, leaving("db-1", None), object("db-2", None)] {
        let turn = |_: &mut Usage, it: &mut Snapshot| stand(it, "db", Ok(found.clone()));
        assert_eq!(dealt(|_| {}, turn), done, "{found:?}");
    }
}

// Requirement: G-7
#[test]
fn a_denied_deletion_is_handed_to_a_usage_that_still_holds() {
    let with =
        |others: Vec<Other>| dealt(|_| {}, move |_, it: &mut Snapshot| it.others = Ok(others));
    let to = |number: usize| {
        Some(Deal::HandOver(usage_key(&format!("o{number}")), Uid::new(format!("o-{number}"))))
    };
    assert_eq!(with(vec![holder(2, "db"), holder(1, "db")]), to(1));
    assert_eq!(with(vec![holder(1, "else")]), Some(Deal::Replay(None)));
    let knowing = |progress| {
        let attempts = [(Uid::new("db-1"), progress)].into();
        vec![holder(1, "db"), Other { attempts, ..holder(2, "db") }]
    };
    let handed = Some(Deal::Settle(Outcome::HandedOver));
    assert_eq!(with(knowing(Progress::Recorded)), handed);
    assert_eq!(with(knowing(Progress::Withdrawn { at: NOW })), handed, "it is void");
    assert_eq!(with(knowing(Progress::Withdrawn { at: START })), to(1), "it was requested again");
    let silent = |it: &mut Usage, snapshot: &mut Snapshot| {
        spec(it).replay = false;
        snapshot.others = Ok(vec![holder(1, "db")]);
    };
    assert_eq!(dealt(|_| {}, silent), to(1), "the last holder decides");
}

#[test]
fn what_can_be_dealt_with_comes_before_what_is_unknown() {
    let unknown = |_: &mut Usage, it: &mut Snapshot| stand(it, "db", Err(Unknown::Unreachable));
    assert_eq!(dealt(|_| {}, unknown), None);
    let blind = usage(|it| {
        releasing(it);
        let elsewhere =
            Attempt { object: key("else"), propagation: Propagation::Orphan, ..attempt("else-1") };
        it.status.attempts = vec![elsewhere, attempt("db-1")];
    });
    let seen = seen(&blind, rows(), &snapshot());
    assert_eq!(fate(&seen), facts::Attempt::Due);
    assert_eq!(next(&seen.denied).unwrap().0.uid, Uid::new("db-1"));
}
