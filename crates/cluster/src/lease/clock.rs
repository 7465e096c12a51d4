//! The clock of a lease: it goes on while the process is suspended, and while the machine sleeps.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use nix::time::{ClockId, clock_gettime};
use usher_kernel::Timestamp;

/// Where a lease reads the time. Durations are measured by `elapsed` alone; `wall` is only what
/// people and records are shown.
#[derive(Clone)]
pub struct Clock {
    elapsed: Arc<dyn Fn() -> Duration + Send + Sync>,
    wall: Arc<dyn Fn() -> Timestamp + Send + Sync>,
}

impl Clock {
    /// The clocks of this machine.
    pub fn system() -> Self {
        Self::new(since_boot, wall)
    }

    /// Clocks that are handed in: `elapsed` never goes back, and never stands still.
    pub fn new(
        elapsed: impl Fn() -> Duration + Send + Sync + 'static,
        wall: impl Fn() -> Timestamp + Send + Sync + 'static,
    ) -> Self {
        Self { elapsed: Arc::new(elapsed), wall: Arc::new(wall) }
    }

    pub fn elapsed(&self) -> Duration {
        (self.elapsed)()
    }

    pub fn wall(&self) -> Timestamp {
        (self.wall)()
    }
}

impl std::fmt::Debug for Clock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Clock({:?})", self.elapsed())
    }
}

/// The monotonic clock stands still while the machine sleeps, and the term of another machine does
/// not.
fn since_boot() -> Duration {
    // A clock that cannot be read has passed every deadline: nothing is sent.
    clock_gettime(ClockId::CLOCK_BOOTTIME).map_or(Duration::MAX, Duration::from)
}

fn wall() -> Timestamp {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.after(now)
}
