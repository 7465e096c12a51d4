//! Cursors into the changes of one resource.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Shared};

/// The requested revision is compacted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The requested revision.
    pub(crate) asked: u64,
    /// The oldest available revision.
    pub(crate) oldest: u64,
}

/// Iterates over the changes of one resource, each once and in order.
pub(crate) struct Cursor {
    shared: Arc<Shared>,
    table: Arc<str>,
    at: u64,
    changed: watch::Receiver<u64>,
}

impl Cursor {
    pub(super) fn new(shared: Arc<Shared>, table: &Arc<str>, after: u64) -> Result<Self, TooOld> {
        let mut state = shared.write();
        let found = state.table(table);
        if after < found.floor {
            return Err(TooOld { asked: after, oldest: found.floor });
        }
        let changed = found.changed.subscribe();
        drop(state);
        Ok(Self::at(shared, table.clone(), after, changed))
    }

    pub(super) fn at(
        shared: Arc<Shared>,
        table: Arc<str>,
        at: u64,
        changed: watch::Receiver<u64>,
    ) -> Self {
        Self { shared, table, at, changed }
    }

    /// The last revision that was returned.
    pub(crate) fn revision(&self) -> u64 {
        self.at
    }

    /// The next changes, at most `most`; waits for the first.
    ///
    /// *Errors*: the reader has fallen behind the ring and missed changes.
    pub(crate) async fn next(&mut self, most: usize) -> Result<Vec<Arc<Change>>, TooOld> {
        loop {
            self.changed.borrow_and_update();
            let ready = self.ready(most)?;
            if !ready.is_empty() {
                return Ok(ready);
            }
            if self.changed.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// The available changes, without waiting.
    pub(crate) fn ready(&mut self, most: usize) -> Result<Vec<Arc<Change>>, TooOld> {
        self.ready_until(u64::MAX, most)
    }

    /// The available changes up to a revision.
    pub(crate) fn ready_until(
        &mut self,
        last: u64,
        most: usize,
    ) -> Result<Vec<Arc<Change>>, TooOld> {
        let state = self.shared.read();
        let Some(table) = state.tables.get(&self.table) else { return Ok(Vec::new()) };
        if self.at < table.floor {
            return Err(TooOld { asked: self.at, oldest: table.floor });
        }
        let meant = table.after(self.at).take_while(|change| change.revision <= last);
        let ready: Vec<_> = meant.take(most).cloned().collect();
        self.at = match ready.last() {
            Some(last) if ready.len() == most => last.revision,
            Some(_) | None => state.published.min(last).max(self.at),
        };
        Ok(ready)
    }
}
