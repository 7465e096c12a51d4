//! Following the log: the one reader behind every consumer of events.

use std::time::Duration;

use crate::error::Error;
use crate::port::{Cursor, LoggedEvent};
use crate::signal::Signal;
use crate::store::Store;

/// How soon to read again a row that an open transaction could still precede.
const SOON: Duration = Duration::from_millis(5);
/// The longest such pause.
const SOON_MAX: Duration = Duration::from_secs(1);

/// A reader of the log that waits for more.
///
/// *Flow*: it reads after its cursor; if there is nothing, it waits until this process writes an
/// event. *Guarantees*: nothing is skipped, nothing comes twice, and while idle nothing is queried,
/// but on PostgreSQL, where other processes write too, one cheap query per
/// [`crate::Settings::log_poll`]. *Caveat*: a transaction that stays open anywhere on the server
/// delays later events; until it ends the reader polls, at most once a second.
#[derive(Debug)]
pub struct Follower<'s> {
    store: &'s Store,
    cursor: Cursor,
    signal: Signal,
    /// Whether this process has written something that the reader has not returned yet.
    written: bool,
}

/// What a reader of the log receives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct News {
    /// The new events.
    pub events: Vec<LoggedEvent>,
    /// Whether this process has written something, with or without an event.
    pub written: bool,
}

impl<'s> Follower<'s> {
    /// A reader that begins after this place.
    pub(crate) fn new(store: &'s Store, after: Cursor) -> Self {
        Self { store, cursor: after, signal: store.signals().log(), written: false }
    }

    /// Everything up to this place was read.
    pub const fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Continues after another cursor.
    pub const fn seek(&mut self, after: Cursor) {
        self.cursor = after;
    }

    /// As [`Follower::next`], but also returns when this process has written something without an
    /// event.
    pub async fn next_or_written(&mut self, count: u32) -> Result<News, Error> {
        let mut soon = SOON;
        loop {
            let events = self.read(count).await?;
            if !events.is_empty() || self.written {
                return Ok(News { events, written: std::mem::take(&mut self.written) });
            }
            if self.store.is_held_back(self.cursor).await? {
                tokio::time::sleep(soon).await;
                soon = (soon * 2).min(SOON_MAX);
                continue;
            }
            soon = SOON;
            self.written = wait(&mut self.signal, self.store.log_poll()).await;
        }
    }

    /// The next rows, up to so many, as soon as there are any.
    ///
    /// Cancel-safe: nothing is lost if it is dropped while it waits.
    pub async fn next(&mut self, count: u32) -> Result<Vec<LoggedEvent>, Error> {
        let mut soon = SOON;
        loop {
            self.signal.clear();
            let events = self.read(count).await?;
            if !events.is_empty() {
                return Ok(events);
            }
            if self.store.is_held_back(self.cursor).await? {
                tokio::time::sleep(soon).await;
                soon = (soon * 2).min(SOON_MAX);
                continue;
            }
            soon = SOON;
            // Either way the loop reads again.
            _ = wait(&mut self.signal, self.store.log_poll()).await;
        }
    }
}

impl Follower<'_> {
    async fn read(&mut self, count: u32) -> Result<Vec<LoggedEvent>, Error> {
        let events = self.store.events(self.cursor, count).await?;
        if let Some(last) = events.last() {
            self.cursor = last.cursor;
        }
        Ok(events)
    }
}

/// Ends with the signal, or after the pause if there is one; whether it was the signal.
pub(crate) async fn wait(signal: &mut Signal, poll: Option<Duration>) -> bool {
    if let Some(pause) = poll {
        return tokio::time::timeout(pause, signal.wait()).await.is_ok();
    }
    signal.wait().await;
    true
}
