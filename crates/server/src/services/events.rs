//! The event log, by page and as a stream.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::watch;
use usher_api::ports::{Answer, Events, Failure, Feed};
use usher_api::views::{Cursor, LogEntry, Subject};
use usher_store::{About, Store};

use super::{Services, bad_cursor, failure};

/// Events per batch of a stream.
const BATCH: u32 = 100;

#[async_trait]
impl Events for Services {
    async fn page(&self, after: Option<Cursor>, limit: u32) -> Answer<Vec<LogEntry>> {
        let after = read(after.as_ref())?.unwrap_or(usher_store::Cursor::START);
        let batch = self.store.events(after, limit).await.map_err(failure)?;
        Ok(batch.into_iter().map(shown).collect())
    }

    async fn follow(&self, after: Option<Cursor>) -> Answer<Box<dyn Feed>> {
        let cursor = match read(after.as_ref())? {
            Some(cursor) => {
                // An expired cursor is refused before the stream begins.
                self.store.events(cursor, 1).await.map_err(failure)?;
                cursor
            }
            None => self.store.log_end().await.map_err(failure)?,
        };
        Ok(Box::new(Reader { store: Arc::clone(&self.store), cursor, stop: self.stop.clone() }))
    }
}

struct Reader {
    store: Arc<Store>,
    cursor: usher_store::Cursor,
    stop: watch::Receiver<bool>,
}

#[async_trait]
impl Feed for Reader {
    async fn next(&mut self) -> Answer<Vec<LogEntry>> {
        let mut follower = self.store.follow(self.cursor);
        let batch = tokio::select! {
            _ = self.stop.wait_for(|it| *it) => {
                return Err(Failure::Unavailable { what: "a server that is stopping".to_owned() });
            }
            batch = follower.next(BATCH) => batch.map_err(failure)?,
        };
        self.cursor = follower.cursor();
        Ok(batch.into_iter().map(shown).collect())
    }
}

fn read(cursor: Option<&Cursor>) -> Answer<Option<usher_store::Cursor>> {
    cursor.map(|it| it.0.parse().map_err(|_| bad_cursor(&it.0))).transpose()
}

fn shown(it: usher_store::LoggedEvent) -> LogEntry {
    LogEntry {
        cursor: Cursor(it.cursor.to_string()),
        id: it.id,
        event_type: it.about.word(),
        subject: match it.about {
            About::Resource { id, project, .. } => Subject::Resource(id, project),
            About::Machine { id, .. } => Subject::Machine(id),
        },
        version: it.version,
        occurred_at: it.occurred_at,
        data: it.data,
    }
}
