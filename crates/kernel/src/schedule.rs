//! The due-queue's rules: which worker may work on an item, and when.
//!
//! Pure functions on one entry; a store keeps entries and runs these rules, or their SQL twin.
//!
//! **Invariants**
//! - A lease is never given while another one runs.
//! - A wake-up during a step makes the item due again, whatever the step decided; only an item that
//!   is parked waits for a person.
//! - Attempts are counted at the claim, so that an item which kills its worker backs off too.
//! - A worker with an old fence changes nothing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::id::Fence;
use crate::lifecycle::Wake;
use crate::time::Timestamp;
use crate::trouble::{Retry, Trouble};

/// One item of the due-queue.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// When to reconcile next; `None` is a requeue without a timer.
    pub due: Option<Timestamp>,
    /// Until when a worker holds it.
    pub lease_until: Option<Timestamp>,
    /// When the last lease ended that was not released, or ended in a failure: its worker's last
    /// request may still arrive.
    pub unreturned_until: Option<Timestamp>,
    /// The fence of the newest claim.
    pub fence: Fence,
    /// Claims since the last step that was finished.
    pub attempts: u32,
    /// Grows with every wake-up.
    pub wake_seq: u64,
    /// Set when only an operator makes it due again.
    pub parked: bool,
}

/// What a worker holds while it works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The fence of this claim.
    pub fence: Fence,
    /// The wake-ups that had happened when it was claimed.
    pub wake_seq: u64,
    /// Which attempt this is, from one.
    pub attempt: u32,
    /// When the lease ends.
    pub until: Timestamp,
}

/// The settings of the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// How long a lease runs.
    pub lease: Duration,
    /// The first back-off.
    pub base: Duration,
    /// The longest back-off.
    pub max: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(30),
            base: Duration::from_secs(1),
            max: Duration::from_mins(5),
        }
    }
}

/// A random share handed in by the caller: `0` is none of the back-off, `u32::MAX` all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Jitter(pub u32);

impl Entry {
    /// A new item, due at once.
    pub const fn new(now: Timestamp) -> Self {
        Self {
            due: Some(now),
            lease_until: None,
            unreturned_until: None,
            fence: Fence(0),
            attempts: 0,
            wake_seq: 0,
            parked: false,
        }
    }

    /// Whether a lease is outstanding.
    pub fn is_leased(&self, now: Timestamp) -> bool {
        self.lease_until.is_some_and(|until| now < until)
    }

    /// Until when a worker holds it, or held it and did not release it cleanly.
    pub fn may_act_until(&self) -> Option<Timestamp> {
        self.lease_until.max(self.unreturned_until)
    }

    /// Takes the lease if the record is due and no worker holds it.
    ///
    /// Until it is released, the item is due again only when the lease has ended and its back-off
    /// has passed: an item that kills its workers backs off too.
    pub fn claim(&mut self, pace: &Pace, jitter: Jitter, now: Timestamp) -> Option<Claim> {
        let due = self.due.is_some_and(|due| due <= now);
        if self.parked || !due || self.is_leased(now) {
            return None;
        }
        self.unreturned_until = self.may_act_until();
        self.fence = self.fence.next();
        self.attempts = self.attempts.saturating_add(1);
        let until = now.after(pace.lease);
        self.lease_until = Some(until);
        self.due = Some(until.after(back_off(pace, self.attempts, jitter)));
        Some(Claim { fence: self.fence, wake_seq: self.wake_seq, attempt: self.attempts, until })
    }

    /// Gives the lease back after a finished step.
    pub fn release(&mut self, claim: &Claim, wake: Wake, now: Timestamp) {
        if self.fence != claim.fence {
            return;
        }
        self.lease_until = None;
        self.attempts = 0;
        let due = match wake {
            Wake::Now => Some(now),
            Wake::At(at) => Some(at),
            Wake::OnChange | Wake::Never => None,
        };
        self.due = if self.wake_seq == claim.wake_seq { due } else { Some(now) };
    }

    /// Gives the lease back after trouble.
    pub fn postpone(
        &mut self,
        claim: &Claim,
        trouble: &Trouble,
        pace: &Pace,
        (jitter, now): (Jitter, Timestamp),
    ) {
        if self.fence != claim.fence {
            return;
        }
        self.lease_until = None;
        // A request whose answer was not received may still be in flight. A row that moved is no
        // such request: everything outside was answered before.
        if *trouble != Trouble::Conflict {
            self.unreturned_until = self.unreturned_until.max(Some(now));
        }
        let Some(pause) = pause(trouble.retry(), pace, (self.attempts, jitter)) else {
            self.parked = true;
            self.due = None;
            return;
        };
        let woken = self.wake_seq != claim.wake_seq;
        self.due = Some(if woken { now } else { now.after(pause) });
    }

    /// Ends a lease whose holder is known to be gone. It was not released cleanly, and the
    /// back-off of its claim stays.
    pub fn end_lease(&mut self, now: Timestamp) {
        let Some(until) = self.lease_until.filter(|until| now < *until) else { return };
        self.lease_until = Some(now);
        self.due = self.due.map(|due| if due < until { due } else { now.after(due.since(until)) });
    }

    /// Makes the item due now, also while a worker holds it.
    pub fn wake(&mut self, now: Timestamp) {
        self.wake_seq += 1;
        self.due = Some(self.due.map_or(now, |due| due.min(now)));
    }

    /// Unparks an item, by command.
    pub fn unpark(&mut self, now: Timestamp) {
        self.parked = false;
        self.wake(now);
    }
}

/// How often a conflict is tried again at once before it backs off.
const CONFLICTS_AT_ONCE: u32 = 3;

/// How long to wait after trouble; `None` is until an operator says so. What the other side asks
/// for is honoured up to the longest back-off.
pub fn pause(retry: Retry, pace: &Pace, (attempts, jitter): (u32, Jitter)) -> Option<Duration> {
    match retry {
        Retry::AtOnce => Some(match attempts.saturating_sub(CONFLICTS_AT_ONCE) {
            0 => Duration::ZERO,
            more => back_off(pace, more, jitter),
        }),
        Retry::BackOff { after } => Some(back_off(pace, attempts, jitter).max(after.min(pace.max))),
        Retry::Slow => Some(pace.max),
        Retry::Park => None,
    }
}

/// Exponential back-off with full jitter: anything from nothing to the whole pause.
pub fn back_off(pace: &Pace, attempts: u32, jitter: Jitter) -> Duration {
    let doublings = attempts.saturating_sub(1).min(31);
    let whole = pace.base.saturating_mul(1 << doublings).min(pace.max);
    let micros = whole.as_micros() * u128::from(jitter.0) / u128::from(u32::MAX);
    Duration::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        lease: Duration::from_secs(30),
        base: Duration::from_secs(1),
        max: Duration::from_mins(5),
    };

    fn at(secs: i64) -> Timestamp {
        Timestamp::from_millis(secs * 1_000)
    }

    fn unreachable() -> Trouble {
        Trouble::unavailable("cluster")
    }

    // Requirement: K-1, W-1
    #[test]
    fn a_lease_is_given_once_until_it_ends() {
        let mut entry = Entry::new(at(0));
        let first = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        assert_eq!(entry.claim(&PACE, Jitter(0), at(29)), None, "the lease still runs");
        let second = entry.claim(&PACE, Jitter(0), at(30)).unwrap();
        assert!(first.fence < second.fence);
        assert_eq!((first.attempt, second.attempt), (1, 2), "counted at the claim");
    }

    // Requirement: W-6
    #[test]
    fn a_lease_whose_holder_is_gone_ends_and_keeps_its_back_off() {
        let mut entry = Entry::new(at(0));
        entry.claim(&PACE, Jitter(u32::MAX), at(0)).unwrap();
        entry.end_lease(at(10));
        assert_eq!(entry.claim(&PACE, Jitter(0), at(10)), None, "it backs off");
        assert_eq!(entry.may_act_until(), Some(at(10)), "the lease was not released");
        entry.claim(&PACE, Jitter(0), at(11)).unwrap();
        entry.wake(at(12));
        let woken = entry.clone();
        entry.end_lease(at(13));
        assert_eq!(entry.due, woken.due, "a wake-up stays");
        let ended = entry.clone();
        entry.end_lease(at(14));
        assert_eq!(entry, ended, "what has ended does not end again");
    }

    #[test]
    fn an_item_that_kills_its_workers_backs_off() {
        let mut entry = Entry::new(at(0));
        let whole = Jitter(u32::MAX);
        entry.claim(&PACE, whole, at(0)).unwrap();
        assert_eq!(entry.claim(&PACE, whole, at(30)), None, "its first back-off is a second");
        entry.claim(&PACE, whole, at(31)).unwrap();
        assert_eq!(entry.claim(&PACE, whole, at(62)), None, "its second one is two");
        assert_eq!(entry.claim(&PACE, whole, at(63)).unwrap().attempt, 3);
        entry.wake(at(64));
        assert!(entry.claim(&PACE, whole, at(93)).is_some(), "a wake-up waits for the lease only");
    }

    // Requirement: W-6
    #[test]
    fn a_lease_that_was_not_released_is_remembered() {
        let mut entry = Entry::new(at(0));
        assert_eq!(entry.may_act_until(), None);
        entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        assert_eq!(entry.may_act_until(), Some(at(30)), "a worker holds it");
        let second = entry.claim(&PACE, Jitter(0), at(35)).unwrap();
        assert_eq!(entry.may_act_until(), Some(at(65)));
        entry.release(&second, Wake::Now, at(36));
        assert_eq!(entry.may_act_until(), Some(at(30)), "the first lease was never released");
    }

    #[test]
    fn a_lease_released_after_a_failure_is_remembered() {
        let mut entry = Entry::new(at(0));
        let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        entry.postpone(&claim, &unreachable(), &PACE, (Jitter(0), at(7)));
        assert_eq!(entry.may_act_until(), Some(at(7)), "its last request may be in flight");
        let claim = entry.claim(&PACE, Jitter(0), at(8)).unwrap();
        entry.release(&claim, Wake::OnChange, at(9));
        assert_eq!(entry.may_act_until(), Some(at(7)), "a step that ended cleanly adds nothing");
    }

    // Requirement: W-2
    #[test]
    fn nothing_is_claimed_before_it_is_due() {
        let mut entry = Entry::new(at(10));
        assert_eq!(entry.claim(&PACE, Jitter(0), at(9)), None);
        assert!(entry.claim(&PACE, Jitter(0), at(10)).is_some());
    }

    // Requirement: W-3
    #[test]
    fn a_finished_step_is_requeued_as_it_decided() {
        let cases = [
            (Wake::Now, Some(at(1))),
            (Wake::At(at(7)), Some(at(7))),
            (Wake::OnChange, None),
            (Wake::Never, None),
        ];
        for (wake, due) in cases {
            let mut entry = Entry::new(at(0));
            let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
            entry.release(&claim, wake, at(1));
            assert_eq!((entry.due, entry.lease_until, entry.attempts), (due, None, 0), "{wake:?}");
        }
    }

    // Requirement: K-2
    #[test]
    fn a_wake_up_during_a_step_is_never_lost() {
        for wake in [Wake::OnChange, Wake::Never, Wake::At(at(99)), Wake::Now] {
            let mut entry = Entry::new(at(0));
            let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
            entry.wake(at(1));
            entry.release(&claim, wake, at(2));
            assert_eq!(entry.due, Some(at(2)), "{wake:?}");
        }
        let mut entry = Entry::new(at(0));
        let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        entry.wake(at(1));
        entry.postpone(&claim, &unreachable(), &PACE, (Jitter(u32::MAX), at(2)));
        assert_eq!(entry.due, Some(at(2)), "also when the step failed");
    }

    // Requirement: W-4
    #[test]
    fn a_wake_up_of_an_idle_item_makes_it_due() {
        let mut entry = Entry::new(at(0));
        let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        entry.release(&claim, Wake::OnChange, at(1));
        assert_eq!(entry.claim(&PACE, Jitter(0), at(1_000)), None);
        entry.wake(at(1_000));
        assert!(entry.claim(&PACE, Jitter(0), at(1_000)).is_some());
    }

    /// Red by: a row that moved taken for a request that may still arrive.
    // Requirement: T-11
    #[test]
    fn a_lease_that_ends_in_a_conflict_is_released_cleanly() {
        for (trouble, unreturned_until) in [(Trouble::Conflict, None), (unreachable(), Some(at(1)))]
        {
            let mut entry = Entry::new(at(0));
            let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
            entry.postpone(&claim, &trouble, &PACE, (Jitter(0), at(1)));
            assert_eq!(entry.may_act_until(), unreturned_until, "{trouble}");
        }
    }

    // Requirement: W-4
    #[test]
    fn a_wake_up_never_postpones() {
        let mut entry = Entry::new(at(5));
        entry.wake(at(9));
        assert_eq!(entry.due, Some(at(5)));
    }

    // Requirement: W-5
    #[test]
    fn a_worker_with_an_old_fence_changes_nothing() {
        let mut entry = Entry::new(at(0));
        let late = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        let _newer = entry.claim(&PACE, Jitter(0), at(31)).unwrap();
        let before = entry.clone();
        entry.release(&late, Wake::Never, at(32));
        entry.postpone(&late, &unreachable(), &PACE, (Jitter(0), at(32)));
        assert_eq!(entry, before);
    }

    // Requirement: K-15
    #[test]
    fn trouble_sets_the_pace() {
        let what = String::from("x");
        let cases = [
            (Trouble::Conflict, Some(at(1))),
            (unreachable(), Some(at(2))),
            (Trouble::Rejected { what: what.clone() }, Some(at(301))),
            (Trouble::Corrupt { what }, None),
        ];
        for (trouble, due) in cases {
            let mut entry = Entry::new(at(0));
            let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
            entry.postpone(&claim, &trouble, &PACE, (Jitter(u32::MAX), at(1)));
            assert_eq!((entry.due, entry.lease_until), (due, None), "{trouble}");
            assert_eq!(entry.attempts, 1, "trouble keeps the count");
        }
    }

    // Requirement: K-21
    /// Red by: a server that asks for a delay and gets the next request at once.
    #[test]
    fn a_requested_back_off_is_waited_for() {
        let secs = Duration::from_secs;
        for (after, due) in [(0, 1), (1, 2), (77, 78), (900, 301)] {
            let trouble = Trouble::Unavailable { what: "x".into(), after: Some(secs(after)) };
            let mut entry = Entry::new(at(0));
            let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
            entry.postpone(&claim, &trouble, &PACE, (Jitter(0), at(1)));
            assert_eq!(entry.due, Some(at(due)), "{after}");
        }
        let long = Retry::BackOff { after: secs(1) };
        let longest = pause(long, &PACE, (9, Jitter(u32::MAX)));
        assert_eq!(longest, Some(secs(256)), "a longer back-off stays");
    }

    // Requirement: K-22
    /// Red by: two writers that keep each other busy without a pause.
    #[test]
    fn a_conflict_backs_off_after_three() {
        let mut entry = Entry::new(at(0));
        let mut now = at(0);
        let mut pauses = Vec::new();
        for _ in 0..5 {
            let claim = entry.claim(&PACE, Jitter(0), now).unwrap();
            entry.postpone(&claim, &Trouble::Conflict, &PACE, (Jitter(u32::MAX), now));
            let due = entry.due.unwrap();
            pauses.push(due.since(now).as_secs());
            now = due;
        }
        assert_eq!(pauses, [0, 0, 0, 1, 2]);
        let claim = entry.claim(&PACE, Jitter(0), now).unwrap();
        entry.release(&claim, Wake::Now, now);
        let claim = entry.claim(&PACE, Jitter(0), now).unwrap();
        entry.postpone(&claim, &Trouble::Conflict, &PACE, (Jitter(u32::MAX), now));
        assert_eq!(entry.due, Some(now), "a finished step begins the count anew");
    }

    // Requirement: W-7, A-23
    #[test]
    fn a_parked_item_waits_for_an_operator() {
        let mut entry = Entry::new(at(0));
        let claim = entry.claim(&PACE, Jitter(0), at(0)).unwrap();
        entry.postpone(&claim, &Trouble::Corrupt { what: "row".into() }, &PACE, (Jitter(0), at(1)));
        entry.wake(at(2));
        assert_eq!(entry.claim(&PACE, Jitter(0), at(2)), None, "a wake-up is not a repair");
        entry.unpark(at(3));
        assert!(entry.claim(&PACE, Jitter(0), at(3)).is_some());
    }

    // Requirement: K-3
    #[test]
    fn back_off_doubles_up_to_its_end_and_takes_any_share() {
        let whole = |attempts| back_off(&PACE, attempts, Jitter(u32::MAX)).as_secs();
        assert_eq!([1, 2, 3, 9, 10, 400].map(whole), [1, 2, 4, 256, 300, 300]);
        assert_eq!(back_off(&PACE, 5, Jitter(0)), Duration::ZERO);
        let half = back_off(&PACE, 1, Jitter(u32::MAX / 2));
        assert_eq!(half.as_millis(), 499);
    }
}
