//! A watcher's place in the changes of one resource.

use std::sync::Arc;

use tokio::sync::watch;

use super::{Change, Shared};

/// The changes that were asked for are forgotten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TooOld {
    /// The revision that was asked for.
    pub(crate) asked: u64,
    /// The oldest that could have been asked for.
    pub(crate) oldest: u64,
}

/// Tells every change of one resource once, in order.
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

    /// The revision up to which everything was told.
    pub(crate) fn revision(&self) -> u64 {
        self.at
    }

    /// The next changes, at most so many; waits while there are none.
    ///
    /// *Errors*: a reader slower than the ring is told so; it has missed changes.
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

    /// The next changes that are there already.
    pub(crate) fn ready(&mut self, most: usize) -> Result<Vec<Arc<Change>>, TooOld> {
        self.ready_until(u64::MAX, most)
    }

    /// The next changes that are there already, none after a revision.
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
