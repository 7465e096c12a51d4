//! When a record is reconciled again, as rules declare it and as a queue needs it.

use std::time::Duration;

use crate::lifecycle::Wake;
use crate::time::Timestamp;

crate::words! {
    /// When the rules schedule the next step, without a clock.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub enum Requeue {
        /// At once: this step only recorded what the next one needs.
        Now = "Now",
        /// After the interval, or at the deadline of the phase if that comes first.
        Poll = "Poll",
        /// After as long as the other side requested.
        Throttle = "Throttle",
        /// After a long interval: what failed will probably fail again.
        Slow = "Slow",
        /// When no request from before the deletion can arrive any more.
        InFlightGrace = "InFlightGrace",
        /// At the deadline of the phase.
        Deadline = "Deadline",
        /// When a deleted object is due to be checked for having reappeared.
        Watch = "Watch",
        /// When something changes; no timer.
        OnChange = "OnChange",
        /// Not at all: the record has ended.
        Never = "Never",
    }
}

/// What the members of [`Requeue`] mean in one step. Times that a kind does not know are
/// `None`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The longest wait in a passing phase.
    pub interval: Duration,
    /// The wait after a failure that will probably repeat, and the longest wait that the other
    /// side may ask for; never shorter than the interval.
    pub slow: Duration,
    /// How long the other side asked us to wait.
    pub retry_after: Option<Duration>,
    /// When the phase has lasted too long.
    pub deadline: Option<Timestamp>,
    /// Until when a request from before the deletion may still arrive.
    pub in_flight_until: Option<Timestamp>,
    /// Until when a deleted object is checked for having reappeared.
    pub watch_until: Option<Timestamp>,
}

impl Requeue {
    /// The one rule about snapshots: an incomplete one is never a reason to wait without a timer,
    /// since no later change may show what it missed. A record that has ended needs none.
    #[must_use]
    pub const fn with_snapshot(self, is_incomplete: bool) -> Self {
        match self {
            Self::OnChange if is_incomplete => Self::Poll,
            Self::Now
            | Self::Poll
            | Self::Throttle
            | Self::Slow
            | Self::InFlightGrace
            | Self::Deadline
            | Self::Watch
            | Self::OnChange
            | Self::Never => self,
        }
    }

    /// When the next step is due.
    pub fn wake(self, timers: &Timers, now: Timestamp) -> Wake {
        let poll = now.after(timers.interval);
        let slow = timers.slow.max(timers.interval);
        match self {
            Self::Now => Wake::Now,
            Self::Poll => {
                let deadline = timers.deadline.filter(|due| now < *due);
                Wake::At(deadline.map_or(poll, |due| due.min(poll)))
            }
            Self::Throttle => {
                let asked = timers.retry_after.unwrap_or(timers.interval);
                Wake::At(now.after(asked.clamp(timers.interval, slow)))
            }
            Self::Slow => Wake::At(now.after(slow)),
            Self::InFlightGrace => Wake::At(timers.in_flight_until.unwrap_or(now)),
            Self::Deadline => Wake::At(timers.deadline.unwrap_or(poll)),
            Self::Watch => match timers.watch_until {
                Some(until) => Wake::At(until.min(now.after(slow)).max(now)),
                None => Wake::Now,
            },
            Self::OnChange => Wake::OnChange,
            Self::Never => Wake::Never,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_000_000);

    fn secs(secs: u64) -> Duration {
        Duration::from_secs(secs)
    }

    fn timers() -> Timers {
        Timers { interval: secs(30), slow: secs(300), ..Timers::default() }
    }

    // Requirement: K-18
    /// Red by: an incomplete snapshot that is waited on without a timer.
    #[test]
    fn an_incomplete_snapshot_is_never_waited_on_without_a_timer() {
        for requeue in Requeue::ALL {
            let wake = requeue.with_snapshot(true).wake(&timers(), NOW);
            assert_ne!(wake, Wake::OnChange, "{}", requeue.as_str());
            assert_eq!(requeue.with_snapshot(false), requeue, "a complete one changes nothing");
        }
        assert_eq!(Requeue::OnChange.with_snapshot(true), Requeue::Poll);
        assert_eq!(Requeue::Never.with_snapshot(true), Requeue::Never, "what has ended has ended");
    }

    #[test]
    fn every_requeue_has_its_time() {
        let at = |it| Wake::At(NOW.after(secs(it)));
        let cases = [
            (Requeue::Now, Wake::Now),
            (Requeue::Poll, at(30)),
            (Requeue::Throttle, at(30)),
            (Requeue::Slow, at(300)),
            (Requeue::InFlightGrace, at(0)),
            (Requeue::Deadline, at(30)),
            (Requeue::Watch, Wake::Now),
            (Requeue::OnChange, Wake::OnChange),
            (Requeue::Never, Wake::Never),
        ];
        for (requeue, wake) in cases {
            assert_eq!(requeue.wake(&timers(), NOW), wake, "{}", requeue.as_str());
        }
    }

    #[test]
    fn a_poll_ends_at_a_future_deadline() {
        let with = |deadline| Timers { deadline: Some(deadline), ..timers() };
        let poll = |deadline| Requeue::Poll.wake(&with(deadline), NOW);
        assert_eq!(poll(NOW.after(secs(7))), Wake::At(NOW.after(secs(7))));
        assert_eq!(poll(NOW.after(secs(31))), Wake::At(NOW.after(secs(30))));
        assert_eq!(poll(NOW), Wake::At(NOW.after(secs(30))), "it has passed");
    }

    #[test]
    fn a_requested_back_off_is_kept_within_bounds() {
        for (asked, waits) in [(1, 30), (77, 77), (900, 300)] {
            let timers = Timers { retry_after: Some(secs(asked)), ..timers() };
            let wake = Requeue::Throttle.wake(&timers, NOW);
            assert_eq!(wake, Wake::At(NOW.after(secs(waits))), "{asked}");
        }
    }

    #[test]
    fn a_watch_is_slow_and_ends_on_time() {
        for (until, waits) in [(900, 300), (100, 100)] {
            let timers = Timers { watch_until: Some(NOW.after(secs(until))), ..timers() };
            let wake = Requeue::Watch.wake(&timers, NOW);
            assert_eq!(wake, Wake::At(NOW.after(secs(waits))), "{until}");
        }
        let passed = Timers { watch_until: Some(Timestamp::from_millis(0)), ..timers() };
        assert_eq!(Requeue::Watch.wake(&passed, NOW), Wake::At(NOW));
    }
}
