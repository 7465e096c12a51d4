//! What every ledger of one record promises, wherever the record is kept.
//!
//! Each promise begins with a record that was never written, and panics with a sentence if it is
//! broken. A step that fails says which kind of trouble it met: the pace of the next one depends on
//! it.

#![expect(clippy::expect_used, reason = "a broken promise fails the test")]

use std::time::Duration;

use usher_kernel::{Condition, Ledger, NameState, Retry, SETTLED_KEPT, Trouble, Version};

pub use super::lamp::{Burns, Lamp, Phase, Reason, State};
use super::lamp::{dark, decision, flame, lit, row};

/// What other clients and the cluster do to the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meddling {
    /// Requests that write are carried out, and their answers are lost.
    LoseAnswers,
    /// Requests that write are lost, and so are their answers.
    LoseRequests,
    /// Requests that write are refused for so long.
    Busy(Duration),
    /// Requests that write are forbidden.
    Forbid,
    /// No request is answered.
    Hide,
    /// Ends all of the above.
    Mend,
    /// Takes a backup.
    Backup,
    /// Restores it.
    Restore,
    /// Removes the record.
    Remove,
    /// Makes the record unreadable.
    Spoil,
}

/// A ledger under test, with access from outside.
pub trait TestLedger {
    /// The ledger as one step of the lease holder opens it, in a term with this epoch.
    fn open(&self, epoch: u64) -> impl Ledger<Lamp>;

    /// The same, of a lease holder whose term has ended.
    fn open_late(&self, epoch: u64) -> impl Ledger<Lamp>;

    /// The same, after the object of the record is gone.
    fn open_without_object(&self, epoch: u64) -> impl Ledger<Lamp>;

    /// How many requests that write were sent.
    fn writes(&self) -> u64;

    /// Does something to the record; false if that cannot be done here.
    fn meddle(&self, meddling: Meddling) -> impl Future<Output = bool>;
}

macro_rules! promises {
    ($($name:ident,)+) => {
        /// The names of all promises.
        pub const PROMISES: &[&str] = &[$(stringify!($name),)+];

        /// Tries one promise; false if it needs what this ledger's world cannot do.
        pub async fn keep(promise: &str, ledger: &impl TestLedger) -> bool {
            match promise {
                $(stringify!($name) => $name(ledger).await,)+
                _ => panic!("there is no promise {promise}"),
            }
        }
    };
}

promises! {
    a_record_begins_with_the_initial_state,
    nothing_is_recorded_of_an_object_that_is_gone,
    a_record_outlives_its_object,
    a_commit_writes_state_names_and_reason,
    a_commit_over_an_old_version_writes_nothing,
    of_two_first_commits_one_is_written,
    a_commit_needs_the_version_that_was_loaded,
    a_reason_is_written_although_nothing_else_changed,
    a_condition_that_is_shown_is_not_written_again,
    an_older_term_neither_reads_nor_writes,
    a_term_that_ended_sends_nothing,
    a_commit_whose_answer_was_lost_is_done,
    a_commit_that_did_not_arrive_is_repeated_by_the_next_step,
    a_refusal_sets_the_pace_and_writes_nothing,
    a_record_that_cannot_be_read_is_not_absent,
    a_record_that_is_older_than_before_is_not_read,
    a_record_that_is_missing_in_an_older_state_is_not_absent,
    a_record_that_was_removed_begins_again,
    a_record_that_is_unreadable_is_left_alone,
    settled_names_that_nothing_means_are_bounded,
    a_record_that_would_not_fit_is_left_as_it_was,
}

async fn a_record_begins_with_the_initial_state(test: &impl TestLedger) -> bool {
    let ledger = test.open(1);
    let record = ledger.load().await.expect("it answers").expect("the object is there");
    assert_eq!((&record.state, record.version), (&dark(), Version(0)));
    assert_eq!(record.name_ledger.rows(), [], "no name was used");
    assert_eq!(test.writes(), 0, "loading writes nothing");
    true
}

async fn nothing_is_recorded_of_an_object_that_is_gone(test: &impl TestLedger) -> bool {
    assert_eq!(test.open_without_object(1).load().await, Ok(None));
    assert_eq!(test.writes(), 0);
    true
}

async fn a_record_outlives_its_object(test: &impl TestLedger) -> bool {
    committed(test, 1, &lit("a")).await;
    let record = test.open_without_object(1).load().await.expect("it answers");
    assert_eq!(record.expect("the record is there").state, lit("a"));
    true
}

async fn a_commit_writes_state_names_and_reason(test: &impl TestLedger) -> bool {
    let first = test.open(1);
    let loaded = first.load().await.expect("it answers").expect("it is there");
    let mut decided = decision(&lit("a"));
    decided.rows = vec![row("x", NameState::Seen, 1)];
    decided.event = Some(Burns);
    first.commit(loaded.version, &decided).await.expect("nothing stands against it");
    let second = test.open(1);
    let record = second.load().await.expect("it answers").expect("it is there");
    assert_eq!((&record.state, record.name_ledger.rows()), (&lit("a"), &decided.rows[..]));
    assert!(record.version > loaded.version, "every write raises the version");
    let shown = Condition { reason: Some(Reason::Burning), trouble: None };
    assert!(second.condition().is_none_or(|it| it == shown), "{:?}", second.condition());
    let mut next = decision(&dark());
    next.rows = vec![row("y", NameState::Seen, 2)];
    second.commit(record.version, &next).await.expect("nothing stands against it");
    let record = load(test, 1).await.expect("it answers").expect("it is there");
    let rows = [row("x", NameState::Seen, 1), row("y", NameState::Seen, 2)];
    assert_eq!((&record.state, record.name_ledger.rows()), (&dark(), &rows[..]));
    true
}

async fn a_commit_over_an_old_version_writes_nothing(test: &impl TestLedger) -> bool {
    committed(test, 1, &dark()).await;
    let (slow, fast) = (test.open(1), test.open(1));
    let seen = slow.load().await.expect("it answers").expect("it is there");
    fast.load().await.expect("it answers");
    fast.commit(seen.version, &decision(&lit("fast"))).await.expect("nothing stands against it");
    let mut late = decision(&lit("slow"));
    late.rows = vec![row("x", NameState::Seen, 1)];
    assert_eq!(slow.commit(seen.version, &late).await, Err(Trouble::Conflict));
    let record = load(test, 1).await.expect("it answers").expect("it is there");
    assert_eq!((record.state, record.name_ledger.rows().len()), (lit("fast"), 0));
    true
}

async fn of_two_first_commits_one_is_written(test: &impl TestLedger) -> bool {
    let (slow, fast) = (test.open(1), test.open(1));
    let seen = slow.load().await.expect("it answers").expect("it is there");
    fast.load().await.expect("it answers");
    fast.commit(seen.version, &decision(&lit("fast"))).await.expect("nothing stands against it");
    assert_eq!(slow.commit(seen.version, &decision(&lit("slow"))).await, Err(Trouble::Conflict));
    assert_eq!(state(test, 1).await, lit("fast"));
    true
}

async fn a_commit_needs_the_version_that_was_loaded(test: &impl TestLedger) -> bool {
    let before = committed(test, 1, &dark()).await;
    let ledger = test.open(1);
    ledger.load().await.expect("it answers");
    let wrong = Version(before.0 + 1_000_000);
    assert_eq!(ledger.commit(wrong, &decision(&lit("a"))).await, Err(Trouble::Conflict));
    assert_eq!(state(test, 1).await, dark());
    true
}

async fn a_reason_is_written_although_nothing_else_changed(test: &impl TestLedger) -> bool {
    let before = committed(test, 1, &lit("a")).await;
    let ledger = test.open(1);
    ledger.load().await.expect("it answers");
    let trouble = Trouble::unavailable("the wick").to_string();
    let shown = Condition { reason: Some(Reason::Lighting), trouble: Some(trouble) };
    ledger.report(&shown).await.expect("nothing stands against it");
    let again = test.open(1);
    let record = again.load().await.expect("it answers").expect("it is there");
    assert_eq!((&record.state, record.name_ledger.rows()), (&lit("a"), &[][..]));
    assert_eq!(again.condition(), Some(shown));
    assert!(record.version > before, "every write raises the version");
    let ended = Condition { reason: Some(Reason::Burning), trouble: None };
    again.report(&ended).await.expect("nothing stands against it");
    again.commit(record.version, &decision(&dark())).await.expect_err("it has moved since");
    let last = test.open(1);
    last.load().await.expect("it answers");
    assert_eq!(last.condition(), Some(ended));
    true
}

async fn a_condition_that_is_shown_is_not_written_again(test: &impl TestLedger) -> bool {
    committed(test, 1, &lit("a")).await;
    let ledger = test.open(1);
    ledger.load().await.expect("it answers");
    let long = Condition { reason: Some(Reason::Lighting), trouble: Some("ü".repeat(5_000)) };
    ledger.report(&long).await.expect("nothing stands against it");
    let writes = test.writes();
    let again = test.open(1);
    again.load().await.expect("it answers");
    again.report(&long).await.expect("nothing stands against it");
    assert_eq!(test.writes(), writes, "although it is shown in short");
    true
}

async fn an_older_term_neither_reads_nor_writes(test: &impl TestLedger) -> bool {
    committed(test, 1, &dark()).await;
    let overtaken = test.open(1);
    let seen = overtaken.load().await.expect("it answers").expect("it is there");
    let newest = committed(test, 2, &lit("new")).await;
    let late = overtaken.commit(seen.version, &decision(&lit("old"))).await;
    assert_eq!(late, Err(Trouble::Conflict));
    let again = test.open(1);
    assert_eq!(again.load().await, Err(Trouble::Conflict), "no effect follows it");
    assert_eq!(again.commit(newest, &decision(&lit("old"))).await, Err(Trouble::Conflict));
    assert_eq!(state(test, 2).await, lit("new"));
    assert_eq!(state(test, 3).await, lit("new"), "a newer term continues");
    true
}

async fn a_term_that_ended_sends_nothing(test: &impl TestLedger) -> bool {
    committed(test, 1, &dark()).await;
    let ledger = test.open_late(1);
    let seen = ledger.load().await.expect("reading is allowed").expect("it is there");
    let writes = test.writes();
    let late = ledger.commit(seen.version, &decision(&lit("late"))).await;
    assert!(matches!(late, Err(Trouble::Unavailable { .. })), "{late:?}");
    let again = test.open_late(1);
    again.load().await.expect("reading is allowed");
    let shown = Condition { reason: Some(Reason::Burning), trouble: None };
    let late = again.report(&shown).await;
    assert!(matches!(late, Err(Trouble::Unavailable { .. })), "{late:?}");
    assert_eq!((test.writes(), state(test, 1).await), (writes, dark()));
    true
}

async fn a_commit_whose_answer_was_lost_is_done(test: &impl TestLedger) -> bool {
    let ledger = test.open(1);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    if !test.meddle(Meddling::LoseAnswers).await {
        return false;
    }
    let first = ledger.commit(seen.version, &decision(&lit("first"))).await;
    assert_eq!(first, Ok(()), "the record says that it was created");
    let ledger = test.open(1);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    let second = ledger.commit(seen.version, &decision(&lit("second"))).await;
    assert_eq!(second, Ok(()), "the record says that it was changed");
    let shown = Condition { reason: Some(Reason::Lighting), trouble: None };
    assert_eq!(ledger.report(&shown).await, Ok(()), "over the version that was written");
    test.meddle(Meddling::Mend).await;
    assert_eq!(state(test, 1).await, lit("second"));
    true
}

async fn a_commit_that_did_not_arrive_is_repeated_by_the_next_step(test: &impl TestLedger) -> bool {
    for next in [lit("first"), lit("second")] {
        let ledger = test.open(1);
        let seen = ledger.load().await.expect("it answers").expect("it is there");
        if !test.meddle(Meddling::LoseRequests).await {
            return false;
        }
        let lost = ledger.commit(seen.version, &decision(&next)).await;
        assert!(matches!(lost, Err(Trouble::Unavailable { .. })), "its outcome is open: {lost:?}");
        test.meddle(Meddling::Mend).await;
        let again = load(test, 1).await.expect("it answers").expect("it is there");
        assert_eq!(again, seen, "nothing was written");
        committed(test, 1, &next).await;
        assert_eq!(state(test, 1).await, next);
    }
    true
}

async fn a_refusal_sets_the_pace_and_writes_nothing(test: &impl TestLedger) -> bool {
    let after = Duration::from_secs(7);
    let cases =
        [(Meddling::Busy(after), Retry::BackOff { after }), (Meddling::Forbid, Retry::Slow)];
    for created in [false, true] {
        if created {
            committed(test, 1, &dark()).await;
        }
        for (meddling, pace) in cases {
            let ledger = test.open(1);
            let seen = ledger.load().await.expect("it answers").expect("it is there");
            if !test.meddle(meddling).await {
                return false;
            }
            let refused = ledger.commit(seen.version, &decision(&lit("a"))).await;
            let trouble = refused.expect_err("it was refused");
            assert_eq!(trouble.retry(), pace, "{trouble}");
            test.meddle(Meddling::Mend).await;
            assert_eq!(load(test, 1).await.expect("it answers"), Some(seen));
        }
    }
    true
}

async fn a_record_that_cannot_be_read_is_not_absent(test: &impl TestLedger) -> bool {
    committed(test, 1, &lit("a")).await;
    if !test.meddle(Meddling::Hide).await {
        return false;
    }
    for hidden in [test.open(1).load().await, test.open_without_object(1).load().await] {
        assert!(matches!(hidden, Err(Trouble::Unavailable { .. })), "{hidden:?}");
    }
    test.meddle(Meddling::Mend).await;
    assert_eq!(state(test, 1).await, lit("a"));
    true
}

async fn a_record_that_is_older_than_before_is_not_read(test: &impl TestLedger) -> bool {
    committed(test, 1, &lit("first")).await;
    if !test.meddle(Meddling::Backup).await {
        return false;
    }
    many_commits(test).await;
    test.meddle(Meddling::Restore).await;
    let older = load(test, 1).await;
    assert!(matches!(older, Err(Trouble::Unavailable { .. })), "a newer one was seen: {older:?}");
    true
}

async fn a_record_that_is_missing_in_an_older_state_is_not_absent(test: &impl TestLedger) -> bool {
    if !test.meddle(Meddling::Backup).await {
        return false;
    }
    many_commits(test).await;
    test.meddle(Meddling::Restore).await;
    let absent = load(test, 1).await;
    assert!(matches!(absent, Err(Trouble::Unavailable { .. })), "it was seen before: {absent:?}");
    true
}

async fn a_record_that_was_removed_begins_again(test: &impl TestLedger) -> bool {
    committed(test, 1, &lit("a")).await;
    let ledger = test.open(1);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    if !test.meddle(Meddling::Remove).await {
        return false;
    }
    let late = ledger.commit(seen.version, &decision(&dark())).await;
    assert_eq!(late, Err(Trouble::Conflict), "nothing is created over a version that was loaded");
    let again = load(test, 1).await.expect("it answers").expect("the object is there");
    assert_eq!((again.state, again.version), (dark(), Version(0)));
    committed(test, 1, &lit("b")).await;
    assert_eq!(state(test, 1).await, lit("b"));
    true
}

async fn a_record_that_is_unreadable_is_left_alone(test: &impl TestLedger) -> bool {
    let before = committed(test, 1, &lit("a")).await;
    if !test.meddle(Meddling::Spoil).await {
        return false;
    }
    let writes = test.writes();
    let ledger = test.open(1);
    let spoiled = ledger.load().await;
    assert!(matches!(spoiled, Err(Trouble::Corrupt { .. })), "{spoiled:?}");
    assert_eq!(ledger.commit(before, &decision(&dark())).await, Err(Trouble::Conflict));
    assert_eq!(test.writes(), writes, "nothing is written over it");
    true
}

async fn settled_names_that_nothing_means_are_bounded(test: &impl TestLedger) -> bool {
    for batch in 0..4_u32 {
        let ledger = test.open(1);
        let seen = ledger.load().await.expect("it answers").expect("it is there");
        let mut decided = decision(&lit(&format!("{batch}")));
        let gone = (0..20).map(|it| 20 * batch + it);
        decided.rows = gone.map(|it| row(&format!("gone-{it}"), NameState::Gone, it)).collect();
        decided.rows.push(row(&format!("seen-{batch}"), NameState::Seen, 0));
        decided.rows.push(row(flame(), NameState::Gone, 0));
        ledger.commit(seen.version, &decided).await.expect("nothing stands against it");
    }
    let record = load(test, 1).await.expect("it answers").expect("it is there");
    let rows = record.name_ledger.rows();
    let named = |name: &str| rows.iter().any(|it| it.name.name == name);
    assert_eq!(rows.len(), SETTLED_KEPT + 4 + 1, "open names and meant names stay: {rows:?}");
    assert!(named("gone-79") && !named("gone-0") && named("seen-0") && named(flame()), "{rows:?}");
    true
}

async fn a_record_that_would_not_fit_is_left_as_it_was(test: &impl TestLedger) -> bool {
    let before = committed(test, 1, &lit("a")).await;
    let ledger = test.open(1);
    ledger.load().await.expect("it answers");
    let writes = test.writes();
    let much = lit(&"x".repeat(300 * 1024));
    let refused = ledger.commit(before, &decision(&much)).await;
    assert!(matches!(refused, Err(Trouble::Rejected { .. })), "{refused:?}");
    assert_eq!((test.writes(), state(test, 1).await), (writes, lit("a")));
    true
}

/// Commits a state; the version before the next step.
async fn committed(test: &impl TestLedger, epoch: u64, next: &State) -> Version {
    let ledger = test.open(epoch);
    let seen = ledger.load().await.expect("it answers").expect("it is there");
    ledger.commit(seen.version, &decision(next)).await.expect("nothing stands against it");
    load(test, epoch).await.expect("it answers").expect("it is there").version
}

/// So many that nothing else in the world writes as often.
async fn many_commits(test: &impl TestLedger) {
    for number in 0..50 {
        committed(test, 1, &lit(&number.to_string())).await;
    }
}

async fn state(test: &impl TestLedger, epoch: u64) -> State {
    load(test, epoch).await.expect("it answers").expect("it is there").state
}

async fn load(
    test: &impl TestLedger,
    epoch: u64,
) -> Result<Option<usher_kernel::Record<State>>, Trouble> {
    test.open(epoch).load().await
}
