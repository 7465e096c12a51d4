//! Simulated time and the settings of the simulated queue.

use std::time::Duration;

use usher_kernel::Timestamp;
use usher_kernel::schedule::Pace;

/// A moment of simulated time, in milliseconds.
pub type Tick = i64;

/// How long a lease runs.
pub const LEASE: Tick = 40;
/// How long a request may outlive its worker's lease.
pub const REQUEST_BOUND: Tick = 10;
/// How long a well-behaved driver works on one step.
pub const STEP_DEADLINE: Tick = 25;
/// The longest rest of a row that passes.
pub const INTERVAL: Tick = 25;
/// When the last fault may happen.
pub const FAULTS_END: Tick = 420;
/// When a run without faults must have ended as wished.
pub const GIVE_UP: Tick = 6_000;

/// The settings of the simulated queue.
pub const PACE: Pace = Pace {
    lease: Duration::from_millis(LEASE.unsigned_abs()),
    base: Duration::from_millis(2),
    max: Duration::from_millis(30),
};

/// Simulated time as the database reports it.
pub fn timestamp(tick: Tick) -> Timestamp {
    Timestamp::from_millis(tick + 1_000)
}

/// A simulated span.
pub fn millis(ticks: Tick) -> Duration {
    Duration::from_millis(ticks.unsigned_abs())
}
