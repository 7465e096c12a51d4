//! The runner over several terms: what a term that ends leaves to the next one.

use std::time::Duration;

use usher_cluster::runner::Count;

use crate::item::{Act, Key, TestItem, rest};
use crate::rig::{TestClock, TestRunner, admin, create, server, set_goal, settle, term, until};

/// Red by: a step that goes on in a term that has ended.
// Requirement: KA-31
#[tokio::test(start_paused = true)]
async fn steps_are_cancelled_when_their_term_ends_and_nothing_is_stepped_after() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let script = |_: &str, _| Act::Wait(Duration::from_secs(5));
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let control = runner.begin(&TestClock::new(), 1);
    runner.stepped("a", 1).await;
    control.end();
    runner.terms.send_replace(None);
    settle().await;
    assert_eq!(runner.tally.of(Count::Cancelled), 1);
    assert!(runner.waker.is_empty(), "nothing is known without a term");
    set_goal(&admin(&server), "a", 2).await;
    runner.waker.wake(&Key("a".into()));
    create(&admin(&server), "b").await;
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert_eq!(runner.item.steps_of("a") + runner.item.steps_of("b"), 1);
}

/// Red by: a queue that outlives its term; a predecessor's requests that are forgotten.
// Requirement: KA-31
#[tokio::test(start_paused = true)]
async fn a_new_term_lists_and_steps_everything_once() {
    let server = server().await;
    for name in ["a", "b"] {
        create(&admin(&server), name).await;
    }
    let runner = TestRunner::start(TestItem::scripted(admin(&server), |_, _| rest())).await;
    let clock = TestClock::new();
    let control = runner.begin(&clock, 1);
    settle().await;
    control.end();
    runner.terms.send_replace(None);
    settle().await;
    create(&admin(&server), "c").await;
    for (epoch, is_clean) in [(2, false), (3, true)] {
        let (next, control) = term(&clock, epoch, is_clean);
        let began = next.now();
        runner.terms.send_replace(Some(next));
        settle().await;
        for name in ["a", "b", "c"] {
            let last = runner.item.seen(name).pop().expect("a step");
            assert_eq!(last.epoch, epoch, "{name}");
            assert_eq!(last.may_act_until, (!is_clean).then_some(began), "{name}");
        }
        drop(control);
        settle().await;
    }
    assert_eq!(["a", "b", "c"].map(|it| runner.item.steps_of(it)), [3, 3, 2]);
}

/// Red by: a term that is withdrawn taken for one that has ended.
// Requirement: KA-31
#[tokio::test(start_paused = true)]
async fn running_steps_are_finished_when_the_runner_is_stopped_or_the_term_withdrawn() {
    for is_stopped in [true, false] {
        let server = server().await;
        create(&admin(&server), "a").await;
        let script = |_: &str, number| match number {
            1 => Act::Wait(Duration::from_secs(5)),
            _ => rest(),
        };
        let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
        let mut control = runner.begin(&TestClock::new(), 1);
        runner.stepped("a", 1).await;
        runner.waker.wake(&Key("a".into()));
        if is_stopped {
            runner.stop.send_replace(true);
        }
        runner.terms.send_replace(None);
        control.settled().await;
        let counts = [Count::Steps, Count::Cancelled].map(|it| runner.tally.of(it));
        assert_eq!(counts, [1, 0], "finished, and no other one begun");
        assert_eq!(runner.item.steps_of("a"), 1);
        if is_stopped {
            runner.task.await.expect("its end");
        } else {
            assert!(!runner.task.is_finished(), "it waits for another term");
        }
    }
}

/// Red by: a runner that waits for ever for a term of an elector that is gone.
// Requirement: KA-31
#[tokio::test(start_paused = true)]
async fn a_runner_ends_with_its_elector() {
    let server = server().await;
    let runner = TestRunner::start(TestItem::new(admin(&server))).await;
    let control = runner.begin(&TestClock::new(), 1);
    settle().await;
    drop(control);
    drop(runner.terms);
    runner.task.await.expect("its end");
}

/// Red by: steps that go on sending after a suspension, until a timer runs.
// Requirement: KA-23, KA-31
#[tokio::test(start_paused = true)]
async fn a_step_that_was_suspended_sends_nothing() {
    let server = server().await;
    create(&admin(&server), "a").await;
    let clock = TestClock::new();
    let suspended = clock.clone();
    let script = move |_: &str, number| {
        if number == 1 {
            suspended.suspend(19);
        }
        if number < 3 { Act::Converge } else { rest() }
    };
    let runner = TestRunner::start(TestItem::scripted(admin(&server), script)).await;
    let (next, control) = term(&clock, 1, true);
    runner.terms.send_replace(Some(next));
    runner.stepped("a", 2).await;
    settle().await;
    let patched = || crate::rig::count(&server, "patch", "configmaps");
    assert_eq!(patched(), 0);
    assert_eq!(runner.tally.of(Count::Acted), 0);
    control.renew(clock.elapsed());
    until(async || runner.item.steps_of("a") >= 3).await;
}
