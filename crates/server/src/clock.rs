//! The clock of this machine, read in one place.

use std::time::{SystemTime, UNIX_EPOCH};

use usher_kernel::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::ZERO.after(since)
}
