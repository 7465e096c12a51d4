//! Long-running operations of a cloud, as state: they are polled with each snapshot, never awaited.

use serde::{Deserialize, Serialize};

use crate::object::closed::closed_set;

closed_set! {
    /// The progress of an operation.
    "operation state" Progress {
        /// It runs.
        Running = "running",
        /// It ended well.
        Done = "done",
        /// It ended badly.
        Failed = "failed",
    }
}

/// One operation on our cloud object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// What the cloud calls it; recorded, so that it is found again after a restart.
    pub name: String,
    pub progress: Progress,
}

/// The operation that counts: one that runs, or else the newest.
pub fn counted(newest_first: &[Operation]) -> Option<&Operation> {
    let mut running = newest_first.iter().filter(|it| it.progress == Progress::Running);
    running.next().or(newest_first.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    // Requirement: I-22
    #[test]
    fn one_that_runs_counts_before_the_newest() {
        let it = |name: &str, progress| Operation { name: name.to_owned(), progress };
        let older = it("1", Progress::Running);
        let newest = it("2", Progress::Failed);
        assert_eq!(counted(&[]), None);
        assert_eq!(counted(&[newest.clone(), older.clone()]), Some(&older));
        let ended = it("1", Progress::Done);
        assert_eq!(counted(&[newest.clone(), ended]), Some(&newest));
    }
}
