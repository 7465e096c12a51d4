//! Watches: a cursor, serialized as lines of JSON.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::time::Instant;

use super::list;
use super::select::Selection;
use crate::core::Core;
use crate::faults::Fault;
use crate::http::body;
use crate::http::negotiate::{Form, negotiate};
use crate::http::route::Place;
use crate::http::{Answer, Call, JSON, Query};
use crate::kinds::Resource;
use crate::serialize::write_object;
use crate::status::Refusal;
use crate::store::{Change, Cursor, Entry, TooOld};
use crate::view;

/// Changes per read.
const BATCH: usize = 100;
/// The interval of bookmarks.
const BOOKMARK_INTERVAL: Duration = Duration::from_mins(1);
/// The last bookmark comes this long before the end of a watch.
const LAST_BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// The default timeout of a watch.
const DEFAULT_TIMEOUT: Duration = Duration::from_mins(45);
/// The maximum timeout of a watch: larger numbers overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_hours(24);

/// Serves a watch.
pub(super) async fn watch(
    core: &Arc<Core>,
    call: &Call,
    place: &Place,
    resource: &Arc<Resource>,
) -> Result<Answer, Refusal> {
    let query = &call.query;
    let form = negotiate(&call.accept)?;
    let timeout = query.number("timeoutSeconds")?;
    query.number("limit")?;
    list::check(query, true)?;
    let selection = Selection::read(query, resource)?;
    let version = version(query)?;
    let initial = query.get("sendInitialEvents");
    let from_start = initial.map_or(version == 0, |given| given == "true");
    let bookmarks = query.flag("allowWatchBookmarks");
    let prefix = if place.name.is_empty() {
        resource.prefix(&place.namespace)
    } else {
        resource.key(&place.namespace, &place.name).to_string()
    };
    let named = !place.name.is_empty();
    let now = Instant::now();
    let ends = now + lifetime(timeout);
    let mut ready = VecDeque::new();
    let view =
        EventWriter { resource: resource.clone(), form, query: query.clone(), headed: false };
    if from_start && version > core.store.head() {
        list::reached(core, version).await?;
    }
    let cursor = if from_start {
        let (listing, cursor) = core.store.list_and_follow(&resource.table, &prefix);
        let meant = listing
            .objects
            .into_iter()
            .filter(|(key, entry)| (!named || **key == *prefix) && selection.matches(&entry.value));
        ready.extend(meant.map(|(_, entry)| WatchEvent::Added(entry)));
        if bookmarks && initial.is_some() {
            ready.push_back(WatchEvent::Bookmark(listing.revision, true));
        }
        Ok(cursor)
    } else if version == 0 {
        Ok(core.store.list_and_follow(&resource.table, &prefix).1)
    } else {
        core.store.cursor(&resource.table, version)
    };
    let source = match cursor {
        Err(too_old) => Source::Error(Some(expired(too_old))),
        Ok(cursor) => Source::Live(Box::new(Watcher {
            cursor,
            prefix,
            named,
            selection,
            ready,
            view,
            bookmarks,
            ends,
            next_bookmark: next_bookmark(now, ends),
            ending: core.ending.subscribe(),
            kinds: core.registry.changes(),
            core: core.clone(),
            left: limit_of(&call.fault),
        })),
    };
    let body = body::unfold(source, step);
    Ok(Answer {
        code: 200,
        content_type: JSON.to_owned(),
        body,
        warnings: Vec::new(),
        retry_after: None,
    })
}

/// How long a watch lasts that asks for so many seconds.
fn lifetime(asked: Option<i64>) -> Duration {
    let seconds = asked.and_then(|it| u64::try_from(it).ok()).filter(|it| *it > 0);
    seconds.map_or(DEFAULT_TIMEOUT, Duration::from_secs).min(MAX_TIMEOUT)
}

/// At each interval, and once before the end.
fn next_bookmark(now: Instant, ends: Instant) -> Instant {
    let regular = now + BOOKMARK_INTERVAL;
    let last = ends.checked_sub(LAST_BOOKMARK_BEFORE_END).filter(|last| *last > now);
    last.map_or(regular, |last| last.min(regular))
}

/// The number of events after which a fault ends the watch.
fn limit_of(fault: &Fault) -> Option<usize> {
    if let Fault::EndWatchAfter(events) = fault { Some(*events) } else { None }
}

fn version(query: &Query) -> Result<u64, Refusal> {
    let Some(given) = query.get("resourceVersion") else { return Ok(0) };
    list::parse_version(given)
        .map_err(|why| Refusal::bare(format!("resourceVersion: Invalid value: \"{given}\": {why}")))
}

fn expired(too_old: TooOld) -> Refusal {
    Refusal::expired(format!("too old resource version: {} ({})", too_old.asked, too_old.oldest))
}

enum Source {
    Error(Option<Refusal>),
    Live(Box<Watcher>),
}

/// An event of a watch.
enum WatchEvent {
    Added(Arc<Entry>),
    Modified(Arc<Entry>),
    Deleted(Arc<Entry>),
    /// A bookmark: its revision, and whether it ends the initial events.
    Bookmark(u64, bool),
}

/// Why a wait ended.
enum WakeUp {
    Over,
    Kinds,
    Bookmark,
    Changes(Vec<Arc<Change>>),
}

struct Watcher {
    cursor: Cursor,
    prefix: String,
    /// Whether a single object is watched, whose key is the prefix.
    named: bool,
    selection: Selection,
    ready: VecDeque<WatchEvent>,
    view: EventWriter,
    bookmarks: bool,
    ends: Instant,
    next_bookmark: Instant,
    ending: watch::Receiver<bool>,
    kinds: watch::Receiver<u64>,
    core: Arc<Core>,
    left: Option<usize>,
}

struct EventWriter {
    resource: Arc<Resource>,
    form: Form,
    query: Query,
    /// Whether the columns of a table were sent.
    headed: bool,
}

async fn step(mut source: Source) -> (Source, Option<Bytes>) {
    let chunk = match &mut source {
        Source::Error(refusal) => {
            refusal.take().map(|refusal| line("ERROR", &write_object(&refusal.to_status())))
        }
        Source::Live(watcher) => watcher.next().await,
    };
    (source, chunk)
}

impl Watcher {
    /// The next lines, or the end.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.left == Some(0) {
                return None;
            }
            if !self.ready.is_empty() {
                let mut out = Vec::new();
                while let Some(given) = self.ready.pop_front() {
                    out.extend_from_slice(&self.view.write(&given));
                    if let Some(left) = self.left.as_mut() {
                        *left -= 1;
                        if *left == 0 {
                            break;
                        }
                    }
                }
                return Some(Bytes::from(out));
            }
            if !self.refill().await {
                return None;
            }
        }
    }

    /// Waits for events; false at the end of the watch.
    async fn refill(&mut self) -> bool {
        let woken = tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => WakeUp::Over,
            changes = self.cursor.next(BATCH) => changes.map_or(WakeUp::Over, WakeUp::Changes),
            () = tokio::time::sleep_until(self.ends) => WakeUp::Over,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                WakeUp::Bookmark
            }
            _ = self.kinds.changed() => WakeUp::Kinds,
        };
        match woken {
            WakeUp::Over => false,
            WakeUp::Kinds => self.still_served(),
            WakeUp::Bookmark => {
                self.next_bookmark = next_bookmark(self.next_bookmark, self.ends);
                // Reading advances the cursor even without changes.
                let Ok(changes) = self.cursor.ready(BATCH) else { return false };
                self.take(&changes);
                self.ready.push_back(WatchEvent::Bookmark(self.cursor.revision(), false));
                true
            }
            WakeUp::Changes(changes) => {
                self.take(&changes);
                true
            }
        }
    }

    fn take(&mut self, changes: &[Arc<Change>]) {
        let given: Vec<WatchEvent> =
            changes.iter().filter_map(|change| self.event_for(change)).collect();
        self.ready.extend(given);
    }

    /// A watch ends with its CRD.
    fn still_served(&mut self) -> bool {
        let resource = &self.view.resource;
        let Some(custom) = resource.custom() else { return true };
        let now = self.core.resource(&resource.group, &resource.version, &resource.plural);
        now.is_some_and(|now| now.custom().is_some_and(|now| now.uid == custom.uid))
    }

    fn event_for(&self, change: &Change) -> Option<WatchEvent> {
        let meant = change.key.starts_with(&self.prefix)
            && (!self.named || change.key.len() == self.prefix.len());
        if !meant {
            return None;
        }
        let matching = |value: &Value| self.selection.matches(value);
        let before = change.old.as_ref().is_some_and(|entry| matching(&entry.value));
        let after = change.new.as_ref().is_some_and(|entry| matching(&entry.value));
        match (before, after, &change.new) {
            (false, true, Some(entry)) => Some(WatchEvent::Added(entry.clone())),
            (true, true, Some(entry)) => Some(WatchEvent::Modified(entry.clone())),
            (true, false, None) => change.gone.clone().map(WatchEvent::Deleted),
            (true, false, Some(_)) => {
                let mut value = change.old.as_ref()?.value.clone();
                value["metadata"]["resourceVersion"] = json!(change.revision.to_string());
                Some(WatchEvent::Deleted(Arc::new(Entry::new(change.revision, value))))
            }
            (false, _, _) | (true, true, None) => None,
        }
    }
}

impl EventWriter {
    fn write(&mut self, event: &WatchEvent) -> Bytes {
        match event {
            WatchEvent::Added(entry) => line("ADDED", &self.object(entry)),
            WatchEvent::Modified(entry) => line("MODIFIED", &self.object(entry)),
            WatchEvent::Deleted(entry) => line("DELETED", &self.object(entry)),
            WatchEvent::Bookmark(revision, end) => {
                line("BOOKMARK", &write_object(&self.bookmark(*revision, *end)))
            }
        }
    }

    fn object(&mut self, entry: &Entry) -> Bytes {
        let first = !std::mem::replace(&mut self.headed, true);
        view::event(&self.resource, entry, (&self.form, &self.query), first)
    }

    fn bookmark(&mut self, revision: u64, end: bool) -> Value {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let mut object = json!({
            "kind": self.resource.kind,
            "apiVersion": self.resource.api_version(),
            "metadata": metadata,
        });
        if self.resource.custom().is_none() {
            view::bare_builtin(&self.resource, &mut object);
        }
        view::bookmark(object, &self.form)
    }
}

fn line(kind: &str, object: &[u8]) -> Bytes {
    let mut text = format!("{{\"type\":\"{kind}\",\"object\":").into_bytes();
    text.extend_from_slice(object);
    text.extend_from_slice(b"}\n");
    Bytes::from(text)
}
