//! The size of the change log on disk.

use std::collections::VecDeque;

use super::durability::Record;
use super::table::RING_CHANGES;

/// Changes beyond the limit before a compaction.
const CHANGES_SLACK: usize = 1024;
/// The maximum size of the changes in a file; a compaction keeps half of it.
const BYTES_MAX: usize = 256 << 20;

/// The changes in the log: each revision and its size, oldest first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    changes: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Backlog {
    /// The backlog of a loaded log.
    pub(super) fn of(log: &[Record]) -> Self {
        let mut backlog = Self::default();
        for record in log {
            backlog.push(record);
        }
        backlog
    }

    /// Adds a committed change.
    pub(super) fn push(&mut self, record: &Record) {
        let bytes = record.new.as_ref().map_or(0, bytes::Bytes::len);
        self.changes.push_back((record.revision, bytes));
        self.bytes += bytes;
    }

    /// The revision to compact to, if enough changes have accumulated.
    pub(super) fn forget(&mut self) -> Option<u64> {
        let is_long = self.changes.len() > RING_CHANGES + CHANGES_SLACK;
        let is_heavy = self.bytes > BYTES_MAX;
        if !is_long && !is_heavy {
            return None;
        }
        let bytes = if is_heavy { BYTES_MAX / 2 } else { BYTES_MAX };
        let mut last = None;
        while self.changes.len() > RING_CHANGES || self.bytes > bytes {
            let Some((revision, weight)) = self.changes.pop_front() else { break };
            self.bytes -= weight;
            last = Some(revision);
        }
        last
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn record(revision: u64, bytes: usize) -> Record {
        let (table, key): (Arc<str>, Arc<str>) = ("t".into(), "k".into());
        Record { revision, table, key, old: None, new: Some(vec![0; bytes].into()) }
    }

    /// Red by: a log that is bounded by its length alone, or compacts too early.
    // Requirement: AK-32
    #[test]
    fn a_log_is_compacted_by_count_and_by_size() {
        let most = (RING_CHANGES + CHANGES_SLACK) as u64;
        let mut long = Backlog::of(&(1..=most).map(|it| record(it, 1)).collect::<Vec<_>>());
        assert_eq!(long.forget(), None);
        long.push(&record(most + 1, 1));
        assert_eq!(long.forget(), Some(CHANGES_SLACK as u64 + 1), "as many stay as are wanted");
        assert_eq!(long.forget(), None);
        let quarter = BYTES_MAX / 4;
        let mut heavy = Backlog::of(&[]);
        for revision in 1..=4 {
            heavy.push(&record(revision, quarter));
        }
        assert_eq!(heavy.forget(), None);
        heavy.push(&record(5, quarter));
        assert_eq!(heavy.forget(), Some(3), "half of the weight stays");
        assert_eq!(heavy.bytes, 2 * quarter);
    }
}
