//! The elector: who holds the Lease, from when, and until when it may send.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use usher_apiserver::{ApiServer, Builder, Fault};
use usher_cluster::client::{Bounds, Client};
use usher_cluster::lease::{
    Beginning, Clock, Elector, LeaseName, Settings, Term, Times, TimesError,
};
use usher_kernel::Timestamp;

use crate::rig::{BOUNDS, TestClock, admin, call, count, done, named, server, settle, until};

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/usher-system/leases";
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/usher-system/leases/usher";

/// A process that wants the Lease.
struct Process {
    lease: watch::Receiver<Option<Term>>,
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

fn settings(identity: &str) -> Settings {
    let name = LeaseName { namespace: "usher-system".into(), name: "usher".into() };
    Settings { name, identity: identity.into(), times: Times::default() }
}

fn elector(
    client: Client,
    identity: &str,
    clock: Clock,
) -> (Elector, watch::Receiver<Option<Term>>) {
    Elector::new(client, settings(identity), clock).expect("an elector")
}

impl Process {
    fn start(server: &ApiServer, identity: &str, clock: &TestClock) -> Self {
        let (elector, lease) = elector(named(server, identity), identity, clock.clock());
        let (stop, stopped) = watch::channel(false);
        Self { lease, stop, task: tokio::spawn(elector.run(stopped)) }
    }

    fn holds(&self) -> bool {
        self.lease.borrow().as_ref().is_some_and(|it| !it.has_ended())
    }

    fn may_send(&self) -> bool {
        self.lease.borrow().as_ref().is_some_and(|it| it.may_send().is_ok())
    }

    fn term(&self) -> Term {
        self.lease.borrow().clone().expect("a term")
    }

    async fn holding(&self) -> Term {
        until(async || self.holds()).await;
        self.term()
    }

    /// It is killed: nothing is released.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
    }

    async fn end(self) {
        self.stop.send_replace(true);
        self.task.await.expect("the end of an elector");
    }
}

/// A server whose Lease is there and was never held.
async fn installed() -> ApiServer {
    let server = server().await;
    let (elector, _) = elector(admin(&server), "installer", TestClock::new().clock());
    elector.install().await.expect("a Lease");
    elector.install().await.expect("a Lease that is there already");
    server
}

/// Requests are refused for a user and a verb.
fn refuse(server: &ApiServer, user: &'static str, verbs: &'static [&'static str], fault: Fault) {
    server.set_faults(move |asked| {
        let is_meant = asked.user == user && verbs.contains(&asked.verb.as_str());
        if is_meant { fault.clone() } else { Fault::None }
    });
}

// Requirement: KA-18
#[tokio::test(start_paused = true)]
async fn a_client_that_waits_longer_than_a_request_may_take_is_refused() {
    let server = server().await;
    let bounds = Bounds { request: Duration::from_secs(11), ..Bounds::default() };
    let client = Client::over(server.client(), bounds);
    let refused = Elector::new(client, settings("a"), Clock::system()).map(|_| ());
    let [client, request] = [11, 10].map(Duration::from_secs);
    assert_eq!(refused, Err(TimesError::Client { client, request }));
}

/// Red by: a Lease that is created at once where it is absent.
// Requirement: KA-19
#[tokio::test(start_paused = true)]
async fn an_absent_lease_is_waited_for_and_an_installed_one_is_not() {
    let (bare, clock) = (server().await, TestClock::new());
    let one = Process::start(&bare, "one", &clock);
    let term = one.holding().await;
    assert!(clock.elapsed() >= Duration::from_secs(30), "{:?}", clock.elapsed());
    assert!(term.heard_until().is_some(), "a holder may have been there");
    let (installed, clock) = (installed().await, TestClock::new());
    let one = Process::start(&installed, "one", &clock);
    let term = one.holding().await;
    assert!(clock.elapsed() < Duration::from_secs(1), "{:?}", clock.elapsed());
    assert_eq!(term.heard_until(), None, "nothing ever acted");
    let lease = done(&admin(&installed), ("GET", LEASE), &Value::Null).await;
    assert_eq!(lease["spec"]["holderIdentity"], "one");
    assert_eq!(lease["spec"]["leaseDurationSeconds"], 30);
    assert_eq!(lease["metadata"]["annotations"]["usher.dev/lease-epoch"], term.epoch().to_string());
}

/// Red by: an absence of before the last term that counts as waited for.
// Requirement: KA-19
#[tokio::test(start_paused = true)]
async fn a_lease_that_is_absent_again_is_waited_for_again() {
    let (server, clock) = (server().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let first = one.holding().await;
    refuse(&server, "one", &["patch", "list", "watch"], Fault::Refuse(500));
    let two = Process::start(&server, "two", &clock);
    two.holding().await;
    until(async || first.has_ended()).await;
    done(&admin(&server), ("DELETE", LEASE), &Value::Null).await;
    server.clear_faults();
    for _ in 0..1_000 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(!(one.may_send() && two.may_send()), "both may send");
    }
}

// Requirement: KA-19
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_missing_is_no_lease() {
    let server = ApiServer::builder().build().await.expect("a server");
    let (elector, _) = elector(admin(&server), "installer", TestClock::new().clock());
    assert!(elector.install().await.is_err());
    let one = Process::start(&server, "one", &TestClock::new());
    tokio::time::sleep(Duration::from_hours(1)).await;
    assert!(!one.holds());
    crate::rig::space(&admin(&server), "usher-system").await;
    one.holding().await;
}

/// Red by: a poll of the processes that wait, or a write beside the renewals.
// Requirement: KA-20
#[tokio::test(start_paused = true)]
async fn at_rest_the_holder_writes_once_per_renewal_and_others_watch() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let epoch = one.holding().await.epoch();
    let two = Process::start(&server, "two", &clock);
    settle().await;
    let leases = "leases.coordination.k8s.io";
    let counts = || {
        ["patch", "watch", "list", "get", "create", "update"]
            .map(|verb| count(&server, verb, leases))
    };
    let before = counts();
    tokio::time::sleep(Duration::from_hours(1)).await;
    let after = counts();
    let [patches, watches, rest @ ..]: [u64; 6] = std::array::from_fn(|it| after[it] - before[it]);
    assert!((355..=361).contains(&patches), "{patches} renewals in an hour");
    assert!((10..=15).contains(&watches), "{watches} watches in an hour");
    assert_eq!(rest, [0; 4]);
    assert!(!two.holds());
    assert_eq!(one.term().epoch(), epoch, "one term all the time");
}

// Requirement: KA-21
#[tokio::test(start_paused = true)]
async fn a_released_lease_is_taken_at_once() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let first = one.holding().await;
    let two = Process::start(&server, "two", &clock);
    settle().await;
    let epoch = first.epoch();
    drop(first);
    one.end().await;
    let stopped = clock.elapsed();
    let second = two.holding().await;
    assert!(clock.since(stopped) < Duration::from_secs(1));
    assert!(second.epoch() > epoch);
    assert_eq!(second.heard_until(), None, "nothing of the first is on its way");
}

/// Red by: a release while a step still runs.
// Requirement: KA-21
#[tokio::test(start_paused = true)]
async fn a_lease_is_released_when_its_term_is_used_no_more() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let term = one.holding().await;
    let two = Process::start(&server, "two", &clock);
    settle().await;
    one.stop.send_replace(true);
    tokio::time::sleep(Duration::from_secs(20)).await;
    assert!(one.lease.borrow().is_none(), "it is withdrawn");
    assert!(term.may_send().is_ok(), "and renewed while a step uses it");
    assert!(!two.holds());
    term.note_unanswered();
    drop(term);
    tokio::time::sleep(Duration::from_secs(5)).await;
    assert!(!two.holds(), "an unanswered request may still arrive");
    let second = two.holding().await;
    assert_eq!(second.heard_until(), None);
    one.task.await.expect("its end");
}

/// Red by: a release although a step never ends.
// Requirement: KA-21
#[tokio::test(start_paused = true)]
async fn a_lease_whose_term_stays_in_use_expires() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let leaked = one.holding().await;
    let two = Process::start(&server, "two", &clock);
    settle().await;
    one.end().await;
    assert!(leaked.has_ended() && leaked.may_send().is_err());
    let second = two.holding().await;
    assert!(second.heard_until().is_some());
}

/// Red by: a successor that counts from a time which another process wrote.
// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn a_successor_waits_a_whole_lease_by_its_own_clock() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let first = one.holding().await;
    let renewal = json!({"spec": {"renewTime": "2001-01-01T00:00:00.000000Z"}});
    tokio::time::sleep(Duration::from_secs(15)).await;
    one.kill().await;
    assert!(first.has_ended(), "with its process");
    done(&admin(&server), ("PATCH", LEASE), &renewal).await;
    let killed = clock.elapsed();
    // It sees the Lease for the first time, and cannot know since when it is unchanged.
    let two = Process::start(&server, "two", &clock);
    let second = two.holding().await;
    let waited = clock.since(killed);
    assert!(waited >= Duration::from_secs(30), "{waited:?}");
    assert!(waited < Duration::from_secs(33), "{waited:?}");
    assert!(second.epoch() > first.epoch());
    assert!(second.heard_until().is_some(), "it was not released");
}

// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn a_successor_waits_as_long_as_the_holder_says_that_its_lease_lasts() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    one.holding().await;
    one.kill().await;
    let longer = json!({"spec": {"leaseDurationSeconds": 90}});
    done(&admin(&server), ("PATCH", LEASE), &longer).await;
    let (two, killed) = (Process::start(&server, "two", &clock), clock.elapsed());
    two.holding().await;
    assert!(clock.since(killed) >= Duration::from_secs(90));
}

/// Red by: a term that is judged by timers, which do not count a suspension.
// Requirement: KA-23
#[tokio::test(start_paused = true)]
async fn a_suspended_process_learns_it_before_it_sends() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let term = one.holding().await;
    settle().await;
    assert!(term.may_send().is_ok());
    clock.suspend(19);
    assert!(term.may_send().is_err(), "before any timer ran");
    assert!(!term.has_ended(), "it is renewed in time");
    until(async || one.may_send()).await;
    assert_eq!(one.term().epoch(), term.epoch(), "nothing was lost");
    clock.suspend(31);
    until(async || term.has_ended()).await;
    assert!(term.may_send().is_err());
    let next = one.holding().await;
    assert!(next.epoch() > term.epoch(), "another term");
    assert!(term.may_send().is_err(), "a term that ended stays ended");
}

/// Red by: a request that continues after its process was suspended.
// Requirement: KA-23
#[tokio::test(start_paused = true)]
async fn a_request_that_a_suspension_interrupts_is_dropped() {
    let clock = TestClock::new();
    let (term, control) = crate::rig::term(&clock, 1, true);
    assert_eq!(term.send(async { 7 }).await, Ok(7));
    let has_gone_on = Arc::new(AtomicBool::new(false));
    let gone_on = Arc::clone(&has_gone_on);
    let suspended = clock.clone();
    let sent = term.send(async move {
        suspended.suspend(11);
        tokio::task::yield_now().await;
        gone_on.store(true, Ordering::SeqCst);
    });
    assert!(sent.await.is_err());
    assert!(!has_gone_on.load(Ordering::SeqCst));
    let ending = async {
        tokio::task::yield_now().await;
        control.end();
    };
    let (sent, ()) = tokio::join!(term.send(std::future::pending::<()>()), ending);
    assert!(sent.is_err(), "it ends with its term");
}

/// Red by: a time of sending that is read after the check.
// Requirement: KA-23
#[tokio::test(start_paused = true)]
async fn a_process_that_is_suspended_between_check_and_request_sends_nothing() {
    for reads in 1..=2 {
        let left = Arc::new(AtomicI64::new(i64::MAX));
        let counted = Arc::clone(&left);
        let elapsed = move || {
            let is_suspended = counted.fetch_sub(1, Ordering::SeqCst) <= 0;
            Duration::from_secs(if is_suspended { 61 } else { 1 })
        };
        let clock = Clock::new(elapsed, || Timestamp::ZERO);
        let beginning = Beginning { epoch: 1, sent: Duration::from_secs(1), is_clean: true };
        let (term, _control) = Term::begin(clock, BOUNDS, beginning);
        left.store(reads, Ordering::SeqCst);
        let was_sent = AtomicBool::new(false);
        let sent = term.send(async { was_sent.store(true, Ordering::SeqCst) });
        assert!(sent.await.is_err());
        assert!(!was_sent.load(Ordering::SeqCst), "suspended after {reads} reads of the clock");
    }
}

/// Red by: a request that counts as answered because the future that sent it was dropped.
// Requirement: KA-21
#[tokio::test(start_paused = true)]
async fn a_request_whose_future_was_dropped_may_still_arrive() {
    let clock = TestClock::new();
    let (term, mut control) = crate::rig::term(&clock, 1, true);
    let sending = term.send(std::future::pending::<()>());
    assert!(tokio::time::timeout(Duration::from_secs(1), sending).await.is_err());
    drop(term);
    let dropped = clock.elapsed();
    control.settled().await;
    assert!(clock.since(dropped) >= BOUNDS.1);
}

/// Red by: requests that are sent for the whole lease; a successor before the lease ended.
// Requirement: KA-22, KA-23
#[tokio::test(start_paused = true)]
async fn a_holder_that_cannot_renew_stops_before_its_successor_begins() {
    for fault in [Fault::Refuse(500), Fault::Refuse(403), Fault::NeverAnswer, Fault::Refuse(409)] {
        let (server, clock) = (installed().await, TestClock::new());
        let one = Process::start(&server, "one", &clock);
        let first = one.holding().await;
        let two = Process::start(&server, "two", &clock);
        settle().await;
        refuse(&server, "one", &["patch"], fault.clone());
        let (mut last_sent, mut taken) = (Duration::ZERO, None);
        let begun = clock.elapsed();
        while taken.is_none() {
            if one.may_send() {
                last_sent = clock.elapsed();
            }
            taken = two.holds().then(|| clock.elapsed());
            assert!(!(taken.is_some() && one.may_send()), "{fault:?}: both may send");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let gap = taken.unwrap_or_default().saturating_sub(last_sent);
        assert!(gap >= Duration::from_secs(10), "{fault:?}: a request may take 10 s, {gap:?}");
        assert!(
            last_sent.saturating_sub(begun) <= Duration::from_secs(28),
            "{fault:?}: {last_sent:?}"
        );
        assert!(first.may_send().is_err(), "{fault:?}");
        assert!(two.term().epoch() > first.epoch());
    }
}

/// Red by: a renewal whose answer was lost, taken for another holder's.
// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_is_lost_keeps_the_term() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let term = one.holding().await;
    let lost = Arc::new(AtomicBool::new(false));
    let every_other = Arc::clone(&lost);
    server.set_faults(move |asked| {
        let is_lost = asked.verb == "patch" && !every_other.fetch_xor(true, Ordering::SeqCst);
        if is_lost { Fault::LoseAnswer(504) } else { Fault::None }
    });
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(one.may_send());
    }
    assert_eq!(one.term().epoch(), term.epoch());
}

/// Red by: a holder that creates the Lease again, or that does not wait after it was deleted.
// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn a_holder_whose_lease_is_deleted_or_taken_stops() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "one", &clock);
    let first = one.holding().await;
    done(&admin(&server), ("DELETE", LEASE), &Value::Null).await;
    until(async || first.has_ended()).await;
    let ended = clock.elapsed();
    let second = one.holding().await;
    assert!(clock.since(ended) >= Duration::from_secs(29));
    assert!(second.epoch() > first.epoch());
    let taken = json!({"spec": {"holderIdentity": "someone", "leaseTransitions": 77}});
    done(&admin(&server), ("PATCH", LEASE), &taken).await;
    until(async || second.has_ended()).await;
    let third = one.holding().await;
    assert!(third.epoch() > second.epoch());
}

/// Red by: a process that takes another one with its own identity for itself.
// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn two_processes_with_one_identity_do_not_share_a_term() {
    let (server, clock) = (installed().await, TestClock::new());
    let one = Process::start(&server, "same", &clock);
    one.holding().await;
    let two = Process::start(&server, "same", &clock);
    for _ in 0..600 {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(one.may_send() && !two.holds());
    }
}

/// Red by: epochs counted in the object alone, which goes back with the cluster.
// Requirement: KA-24
#[tokio::test(start_paused = true)]
async fn epochs_grow_over_a_cluster_that_is_restored_and_no_two_may_send() {
    let (server, clock) = (installed().await, TestClock::new());
    let older = server.snapshot();
    let one = Process::start(&server, "one", &clock);
    let two = Process::start(&server, "two", &clock);
    until(async || one.holds() || two.holds()).await;
    let (one, two) = if one.holds() { (one, two) } else { (two, one) };
    settle().await;
    let mut held = server.snapshot();
    let mut epoch = one.term().epoch();
    for snapshot in [older, std::mem::take(&mut held)] {
        let before = if one.holds() { one.term() } else { two.term() };
        let builder: Builder = ApiServer::builder().snapshot(snapshot);
        server.rebuild(builder).await.expect("an older cluster");
        for _ in 0..2_000 {
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert!(!(one.may_send() && two.may_send()), "both may send");
        }
        assert!(before.has_ended(), "its Lease is of before its term");
        drop(before);
        until(async || one.holds() || two.holds()).await;
        let now = if one.holds() { one.term() } else { two.term() };
        assert!(now.epoch() > epoch, "{} after {epoch}", now.epoch());
        epoch = now.epoch();
    }
}

// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn a_process_without_the_right_to_watch_takes_over_all_the_same() {
    let (server, clock) = (installed().await, TestClock::new());
    refuse(&server, "two", &["watch"], Fault::Refuse(403));
    let one = Process::start(&server, "one", &clock);
    one.holding().await;
    let two = Process::start(&server, "two", &clock);
    tokio::time::sleep(Duration::from_mins(10)).await;
    assert!(!two.holds());
    one.kill().await;
    two.holding().await;
}

/// Red by: a take-over that compares nothing.
// Requirement: KA-22
#[tokio::test(start_paused = true)]
async fn of_twenty_processes_one_may_send_whatever_happens_to_its_holder() {
    let (server, clock) = (installed().await, TestClock::new());
    let names: Vec<String> = (0..20).map(|it| format!("p{it}")).collect();
    let mut all: Vec<Process> =
        names.iter().map(|name| Process::start(&server, name, &clock)).collect();
    let mut epoch = 0;
    for round in 0..6 {
        let mut next = None;
        while next.is_none() {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let may_send = all.iter().filter(|it| it.may_send()).count();
            assert!(may_send <= 1, "{may_send} may send");
            next = all.iter().position(Process::may_send);
        }
        let holder = all.swap_remove(next.unwrap_or_default());
        let now = holder.term().epoch();
        assert!(now > epoch, "{now} after {epoch}");
        epoch = now;
        if round % 2 == 0 { holder.kill().await } else { holder.end().await }
    }
    let leases = call(&admin(&server), ("GET", LEASES), &Value::Null).await.expect("a list");
    assert_eq!(leases["items"].as_array().map(Vec::len), Some(1));
    assert!(leases["items"][0]["spec"]["leaseTransitions"].as_u64() >= Some(6));
}
