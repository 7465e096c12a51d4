//! Deletes events after their time to live.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use tokio::time::Instant;

use super::until;
use crate::core::Core;
use crate::store::{Cursor, Entry, Expect, Write};

const TABLE: &str = "events";
const BATCH: usize = 256;

/// Runs until shutdown. Sleeps until the next event is due.
pub(crate) async fn run(core: Arc<Core>, ttl: Duration) {
    let mut ending = core.ending.subscribe();
    let table: Arc<str> = Arc::from(TABLE);
    let (mut deadlines, mut cursor) = Deadlines::read(&core, &table, ttl);
    loop {
        let woken = tokio::select! {
            biased;
            _ = ending.wait_for(|ending| *ending) => return,
            changes = cursor.next(BATCH) => Some(changes),
            () = until(deadlines.next()) => None,
        };
        match woken {
            Some(Ok(changes)) => {
                for change in changes {
                    match &change.new {
                        Some(entry) => deadlines.begin(&change.key, entry, ttl),
                        None => deadlines.end(&change.key),
                    }
                }
            }
            Some(Err(_)) => (deadlines, cursor) = Deadlines::read(&core, &table, ttl),
            None => {
                for (key, revision) in deadlines.due(Instant::now()) {
                    let table = table.clone();
                    let expect = Expect::Revision(revision);
                    let write =
                        Write { table, key, expect, value: None, preconditions: Vec::new() };
                    // A newer write has extended its time to live.
                    let _ = core.store.write(write).await;
                }
            }
        }
    }
}

/// The expiry of each event.
#[derive(Default)]
struct Deadlines {
    due: BTreeSet<(Instant, Arc<str>)>,
    by_key: HashMap<Arc<str>, (Instant, u64)>,
}

impl Deadlines {
    /// The deadlines of the stored events.
    fn read(core: &Core, table: &Arc<str>, ttl: Duration) -> (Self, Cursor) {
        let (listing, cursor) = core.store.list_and_follow(table, "");
        let now = Timestamp::now();
        let mut deadlines = Self::default();
        for (key, entry) in &listing.objects {
            let age = written(&entry.metadata()).map_or(Duration::ZERO, |time| {
                Duration::try_from(now.duration_since(time)).unwrap_or_default()
            });
            deadlines.begin(key, entry, ttl.saturating_sub(age));
        }
        (deadlines, cursor)
    }

    fn begin(&mut self, key: &Arc<str>, entry: &Entry, left: Duration) {
        self.end(key);
        // A time to live beyond the range of the clock never ends.
        if let Some(when) = Instant::now().checked_add(left) {
            self.due.insert((when, key.clone()));
            self.by_key.insert(key.clone(), (when, entry.revision));
        }
    }

    fn end(&mut self, key: &Arc<str>) {
        if let Some((when, _)) = self.by_key.remove(key) {
            self.due.remove(&(when, key.clone()));
        }
    }

    fn next(&self) -> Option<Instant> {
        self.due.first().map(|(when, _)| *when)
    }

    /// Removes the due events; returns their keys and revisions.
    fn due(&mut self, now: Instant) -> Vec<(Arc<str>, u64)> {
        let mut due = Vec::new();
        while self.next().is_some_and(|when| when <= now) {
            if let Some((_, key)) = self.due.pop_first()
                && let Some((_, revision)) = self.by_key.remove(&key)
            {
                due.push((key, revision));
            }
        }
        due
    }
}

/// When an event was last written, by its own timestamps.
fn written(event: &Value) -> Option<Timestamp> {
    let metadata = event.get("metadata")?;
    let managed = metadata.get("managedFields").and_then(Value::as_array).into_iter().flatten();
    let times = managed.filter_map(|entry| entry.get("time"));
    let times = times.chain(metadata.get("creationTimestamp")).filter_map(Value::as_str);
    times.filter_map(|time| time.parse().ok()).max()
}
