//! How long the log, the idempotency keys and machines that are gone are kept.

use std::time::Duration;

/// The retention settings.
///
/// Events are deleted from the beginning of the log, only when they are older than `events`, and
/// only when they were delivered to every sink. A sink that is down or parked keeps them;
/// [`Swept::held_by`] names it. A machine that is gone is deleted once no event names it. The audit
/// log is never deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long events are kept at least.
    pub events: Duration,
    /// How many rows one transaction removes at most.
    pub batch: u32,
    /// How long to wait when there is nothing left to delete.
    pub rest: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { events: Duration::from_hours(30 * 24), batch: 1_000, rest: Duration::from_mins(10) }
    }
}

/// What one sweep deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    /// So many events.
    pub events: u64,
    /// So many idempotency keys.
    pub keys: u64,
    /// So many machines that are gone.
    pub machines: u64,
    /// The sink that keeps events which are old enough.
    pub held_by: Option<String>,
    /// Whether there may be more to delete.
    pub more: bool,
}

impl Swept {
    /// When to sweep again.
    pub const fn next(&self, retention: &Retention) -> Duration {
        if self.more { Duration::ZERO } else { retention.rest }
    }
}
