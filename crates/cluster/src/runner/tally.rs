//! What a runner counts.

use std::sync::atomic::{AtomicU64, Ordering};

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Terms that began.
    Terms,
    /// Lists of the sources.
    Lists,
    /// Lists that failed.
    ListsFailed,
    /// Steps that were finished.
    Steps,
    /// Steps that acted.
    Acted,
    /// Steps that failed.
    Troubles,
    /// Steps that were cut off at their deadline.
    TooSlow,
    /// Steps that panicked.
    Panicked,
    /// Items that were parked.
    Parked,
    /// Steps that were cancelled because their term ended.
    Cancelled,
    /// Steps after which an item is polled, because a kind it depends on is not heard.
    Deaf,
}

/// The counters of a runner.
#[derive(Debug, Default)]
pub struct Tally([AtomicU64; Count::ALL.len()]);

impl Count {
    /// Everything that is counted.
    pub const ALL: [Self; 11] = [
        Self::Terms,
        Self::Lists,
        Self::ListsFailed,
        Self::Steps,
        Self::Acted,
        Self::Troubles,
        Self::TooSlow,
        Self::Panicked,
        Self::Parked,
        Self::Cancelled,
        Self::Deaf,
    ];

    /// The name of the metric.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Terms => "usher_runner_terms",
            Self::Lists => "usher_runner_lists",
            Self::ListsFailed => "usher_runner_lists_failed",
            Self::Steps => "usher_runner_steps",
            Self::Acted => "usher_runner_steps_acted",
            Self::Troubles => "usher_runner_step_troubles",
            Self::TooSlow => "usher_runner_steps_too_slow",
            Self::Panicked => "usher_runner_steps_panicked",
            Self::Parked => "usher_runner_items_parked",
            Self::Cancelled => "usher_runner_steps_cancelled",
            Self::Deaf => "usher_runner_steps_deaf",
        }
    }
}

impl Tally {
    pub fn of(&self, count: Count) -> u64 {
        self.0.get(count as usize).map_or(0, |it| it.load(Ordering::Relaxed))
    }

    pub(super) fn count(&self, count: Count) {
        self.add(count, 1);
    }

    pub(super) fn add(&self, count: Count, more: usize) {
        if let Some(counter) = self.0.get(count as usize) {
            counter.fetch_add(more as u64, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_count_has_a_counter_of_its_own() {
        let tally = Tally::default();
        for (times, count) in Count::ALL.into_iter().enumerate() {
            tally.add(count, times);
        }
        for (times, count) in Count::ALL.into_iter().enumerate() {
            assert_eq!(tally.of(count), times as u64, "{}", count.as_str());
        }
    }
}
