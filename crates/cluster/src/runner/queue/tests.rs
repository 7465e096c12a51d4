use std::time::Duration;

use super::*;
use crate::lease::{Beginning, Clock, TermControl};

/// A queue in a term, and a clock in seconds.
struct Rig {
    queue: Arc<Queue<&'static str>>,
    time: Arc<std::sync::atomic::AtomicU64>,
    _control: TermControl,
}

const DEAF: Duration = Duration::from_secs(30);

impl Rig {
    fn new() -> Self {
        let time = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let clock = Arc::clone(&time);
        let elapsed = move || Duration::from_secs(clock.load(std::sync::atomic::Ordering::SeqCst));
        let clock = Clock::new(elapsed, || Timestamp::ZERO);
        let beginning = Beginning { epoch: 1, sent: Duration::ZERO, is_clean: true };
        let (term, control) = Term::begin(clock, (Duration::MAX, Duration::MAX), beginning);
        let queue = Arc::new(Queue::new(Pace::default(), Arc::new(|| Jitter(u32::MAX))));
        queue.begin(term);
        Self { queue, time, _control: control }
    }

    fn at(&self, seconds: u64) {
        self.time.store(seconds, std::sync::atomic::Ordering::SeqCst);
    }

    /// Claims all that is due.
    fn claimed(&self) -> Vec<Claimed<&'static str>> {
        std::iter::from_fn(|| self.queue.claim()).collect()
    }

    fn names(&self) -> Vec<&'static str> {
        self.claimed().iter().map(|it| *it.key).collect()
    }

    fn release(&self, claimed: &Claimed<&'static str>, wake: Wake) -> After {
        let ended = Ended::Done { wake, acted: false, interests: Vec::new() };
        self.queue.release((&claimed.key, &claimed.claim), DEAF, ended).0
    }

    /// How many items are among the due ones; each is there once.
    fn due(&self) -> usize {
        self.queue.lock().due.len()
    }
}

/// Red by: places that are not taken back when an item is due earlier.
// Requirement: KA-29
#[test]
fn items_are_claimed_in_the_order_in_which_they_became_due() {
    let rig = Rig::new();
    for key in ["c", "a", "b"] {
        rig.queue.add(key);
    }
    rig.queue.add("a");
    assert_eq!(rig.due(), 3);
    let all = rig.claimed();
    assert_eq!(all.iter().map(|it| *it.key).collect::<Vec<_>>(), ["c", "a", "b"]);
    for (claimed, due) in all.iter().zip([30, 20, 10]) {
        rig.release(claimed, Wake::At(Timestamp::from_millis(due * 1_000)));
    }
    assert_eq!(rig.names(), [""; 0]);
    rig.at(19);
    rig.queue.wake(&"c");
    assert_eq!(rig.names(), ["b", "c"], "one was due before the other was woken");
    rig.at(99);
    assert_eq!((rig.names(), rig.due()), (vec!["a"], 0));
}

// Requirement: KA-26
#[test]
fn an_item_that_runs_is_not_claimed_again_and_its_wake_ups_are_kept() {
    let rig = Rig::new();
    rig.queue.add("a");
    let claimed = rig.claimed().remove(0);
    rig.at(1_000);
    rig.queue.wake(&"a");
    rig.queue.add("a");
    rig.queue.wake_all();
    assert_eq!(rig.names(), [""; 0], "although its lease in the queue has ended");
    assert_eq!(rig.release(&claimed, Wake::Never), After::Queued);
    let claimed = rig.claimed().remove(0);
    assert_eq!(rig.release(&claimed, Wake::OnChange), After::Queued);
    assert_eq!((rig.names(), rig.due()), (vec![], 0), "at rest");
}

/// Red by: an item that is forgotten although it was created anew during its step.
// Requirement: KA-26
#[test]
fn an_item_that_is_gone_is_forgotten_unless_it_was_woken() {
    let rig = Rig::new();
    rig.queue.add("a");
    let claimed = rig.claimed().remove(0);
    rig.queue.wake(&"a");
    let gone = || Ended::Gone;
    let released = rig.queue.release((&claimed.key, &claimed.claim), DEAF, gone());
    assert_eq!(released.0, After::Queued);
    let claimed = rig.claimed().remove(0);
    let released = rig.queue.release((&claimed.key, &claimed.claim), DEAF, gone());
    assert_eq!((released.0, rig.queue.len()), (After::Forgotten, 0));
    (claimed.wake)();
    assert_eq!(rig.due(), 0, "a late wake-up does no harm");
}

// Requirement: KA-28
#[test]
fn a_parked_item_is_not_due_before_it_is_unparked() {
    let rig = Rig::new();
    rig.queue.add("a");
    let claimed = rig.claimed().remove(0);
    let trouble = Trouble::Corrupt { what: "a row".into() };
    let ended = Ended::Failed { trouble, interests: None };
    let (after, _) = rig.queue.release((&claimed.key, &claimed.claim), DEAF, ended);
    assert_eq!(after, After::Parked);
    rig.queue.wake(&"a");
    assert_eq!((rig.names(), rig.due()), (vec![], 0));
    rig.queue.unpark(&"a");
    assert_eq!(rig.names(), ["a"]);
}

// Requirement: KA-31
#[test]
fn nothing_is_left_of_a_term_that_ended() {
    let rig = Rig::new();
    rig.queue.add("a");
    rig.queue.add("b");
    let claimed = rig.queue.claim().expect("an item");
    rig.queue.end();
    assert_eq!((rig.queue.len(), rig.due()), (0, 0));
    assert_eq!(rig.release(&claimed, Wake::Now), After::Forgotten);
    rig.queue.add("c");
    rig.queue.wake(&"a");
    assert_eq!((rig.queue.len(), rig.due()), (0, 0), "without a term there is no time");
}
