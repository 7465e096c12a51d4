//! The faults injected into a verb; every verb of every table must meet each of them.

use crate::words::{Words as _, words};

words! {
    /// A fault injected into a verb.
    InjectedFault {
        /// The worker dies before the verb.
        CrashBefore = "crash before",
        /// The worker dies after the verb and before the commit.
        CrashAfter = "crash after",
        /// The verb is done and its answer is lost.
        AnswerLost = "answer lost",
        /// The driver sleeps beyond its lease and then does the verb.
        LateDriver = "late driver",
    }
}

pub const INJECTED_FAULTS: usize = 4;

/// The verb, by its place in the world's table, and the injected fault that a seed insists on.
pub fn target(seed: u64, pairs: usize) -> (usize, InjectedFault) {
    let cells = u64::try_from(pairs * INJECTED_FAULTS).unwrap_or(1).max(1);
    let cell = usize::try_from(seed % cells).unwrap_or(0);
    (cell / INJECTED_FAULTS, InjectedFault::ALL[cell % INJECTED_FAULTS])
}
