//! A reader of the event log, later than it is written.

use usher_kernel::Version;

use crate::broker::check::Checker;
use crate::broker::state::State;
use crate::sim_world::SimWorld as _;

/// How many rows are read at a time.
const PAGE: usize = 2;

/// A reader with a cursor: it asks for the rows after the last one it read.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    cursor: u64,
    seen: Vec<(usize, Version)>,
}

impl State {
    /// The reader reads now and then.
    pub(crate) fn read_events(&mut self) {
        if self.base.rng.percent(20) {
            self.read_page();
        }
    }

    /// Reads one page; `false` if there was nothing to read.
    fn read_page(&mut self) -> bool {
        let cursor = self.reader.cursor;
        let mut rows: Vec<_> = self.store.events.iter().filter(|it| it.number > cursor).collect();
        rows.sort_by_key(|it| it.number);
        rows.truncate(PAGE);
        for row in &rows {
            self.reader.cursor = row.number;
            self.reader.seen.push((row.resource, row.version));
        }
        !rows.is_empty()
    }

    /// In the end the reader has seen every row once, each resource's in the order of versions.
    pub(crate) fn check_reader(&mut self) {
        while self.read_page() {}
        let seen = &self.reader.seen;
        let rows = self.store.events.iter();
        let missed = rows.clone().find(|row| {
            let same = seen.iter().filter(|it| **it == (row.resource, row.version));
            same.count() != 1
        });
        let missed = missed.map(|row| format!("an event of resource {}", row.resource));
        let unordered = (0..self.store.resources.len()).find(|index| {
            let versions: Vec<Version> =
                seen.iter().filter(|it| it.0 == *index).map(|it| it.1).collect();
            !versions.is_sorted()
        });
        let unordered = unordered.map(|index| format!("the order of resource {index}"));
        if let Some(what) = missed.or(unordered) {
            self.wrong(Checker::OneEventPerCrossing, format!("a reader missed {what}"));
        }
    }
}
