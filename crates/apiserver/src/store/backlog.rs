//! How much of the log a keeper keeps, by count and by weight.

use std::collections::VecDeque;

use super::durability::Record;
use super::table::RING_CHANGES;

/// How many changes more than are wanted gather before the oldest are forgotten.
const CHANGES_SLACK: usize = 1024;
/// What the changes in a file may weigh; half of it stays when they do.
const BYTES_MAX: usize = 256 << 20;

/// The changes that a keeper has not forgotten: each revision and what it weighs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    changes: VecDeque<(u64, usize)>,
    bytes: usize,
}

impl Backlog {
    /// What a keeper remembers at the start.
    pub(super) fn of(log: &[Record]) -> Self {
        let mut backlog = Self::default();
        for record in log {
            backlog.push(record);
        }
        backlog
    }

    /// A change that was kept.
    pub(super) fn push(&mut self, record: &Record) {
        let bytes = record.new.as_ref().map_or(0, bytes::Bytes::len);
        self.changes.push_back((record.revision, bytes));
        self.bytes += bytes;
    }

    /// Up to which revision is to be forgotten, if enough gathered to make it worth it.
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

    /// Red by: a log that is bounded by its length alone, or forgets before that is worth it.
    // Requirement: AK-32
    #[test]
    fn a_long_log_and_a_heavy_one_are_cut() {
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
