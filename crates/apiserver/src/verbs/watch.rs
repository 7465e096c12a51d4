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
use crate::controllers::until;
use crate::core::Core;
use crate::faults::Fault;
use crate::http::body::{self, Broken, Chunk};
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
    let disturbance = Disturbance::of(&call.fault);
    let due = disturbance.due(now);
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
            .filter(|(key, entry)| (!named || **key == *prefix) && selection.matches(entry));
        ready.extend(meant.map(|(_, entry)| (due, WatchEvent::Added(entry))));
        if bookmarks && initial.is_some() {
            ready.push_back((due, WatchEvent::Bookmark(listing.revision, true)));
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
            disturbance,
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

/// What an injected fault does to a watch.
#[derive(Default)]
struct Disturbance {
    /// The events that are left.
    left: Option<usize>,
    /// Whether the watch breaks in the event after them, instead of ending.
    breaks: bool,
    /// Whether it is broken.
    broken: bool,
    delay: Option<Duration>,
}

impl Disturbance {
    fn of(fault: &Fault) -> Self {
        match fault {
            Fault::EndWatchAfter(events) => Self { left: Some(*events), ..Self::default() },
            Fault::BreakWatchAfter(events) => {
                Self { left: Some(*events), breaks: true, ..Self::default() }
            }
            Fault::DelayEvents(delay) => Self { delay: Some(*delay), ..Self::default() },
            Fault::None
            | Fault::Refuse(_)
            | Fault::RetryAfter { .. }
            | Fault::LoseAnswer(_)
            | Fault::NeverAnswer
            | Fault::Delay(_)
            | Fault::ReadBehind(_) => Self::default(),
        }
    }

    /// When an event that happens now is delivered; `None` for at once.
    fn due(&self, now: Instant) -> Option<Instant> {
        // An instant that the clock cannot hold is after the end of every watch.
        self.delay.map(|delay| now.checked_add(delay).unwrap_or(now + MAX_TIMEOUT * 2))
    }

    fn is_over(&self) -> bool {
        self.left == Some(0) && !self.breaks
    }
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
    /// A delayed event.
    Due,
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
    /// The events to deliver, and when.
    ready: VecDeque<(Option<Instant>, WatchEvent)>,
    view: EventWriter,
    bookmarks: bool,
    ends: Instant,
    next_bookmark: Instant,
    ending: watch::Receiver<bool>,
    kinds: watch::Receiver<u64>,
    core: Arc<Core>,
    disturbance: Disturbance,
}

struct EventWriter {
    resource: Arc<Resource>,
    form: Form,
    query: Query,
    /// Whether the columns of a table were sent.
    headed: bool,
}

async fn step(mut source: Source) -> (Source, Chunk) {
    let chunk = match &mut source {
        Source::Error(refusal) => {
            refusal.take().map(|refusal| Ok(line("ERROR", &write_object(&refusal.to_status()))))
        }
        Source::Live(watcher) => watcher.next().await,
    };
    (source, chunk)
}

impl Watcher {
    /// The next lines, or the end.
    async fn next(&mut self) -> Chunk {
        if self.disturbance.broken {
            // The half event is sent before the connection closes.
            tokio::task::yield_now().await;
            return Some(Err(Broken));
        }
        loop {
            if self.disturbance.is_over() {
                return None;
            }
            let lines = self.due_lines();
            if !lines.is_empty() {
                return Some(Ok(Bytes::from(lines)));
            }
            if !self.refill().await {
                return None;
            }
        }
    }

    /// The lines of the events that are due.
    fn due_lines(&mut self) -> Vec<u8> {
        let mut out = Vec::new();
        let now = self.disturbance.delay.map(|_| Instant::now());
        while let Some((_, event)) = self.ready.pop_front_if(|(due, _)| *due <= now) {
            let line = self.view.write(&event);
            match self.disturbance.left.as_mut() {
                Some(0) => {
                    out.extend(line.iter().take(line.len() / 2));
                    self.disturbance.broken = true;
                    break;
                }
                Some(left) => *left -= 1,
                None => {}
            }
            out.extend_from_slice(&line);
            if self.disturbance.is_over() {
                break;
            }
        }
        out
    }

    /// Waits for events; false at the end of the watch.
    async fn refill(&mut self) -> bool {
        let next_due = self.ready.front().and_then(|(due, _)| *due);
        let woken = tokio::select! {
            biased;
            _ = self.ending.wait_for(|ending| *ending) => WakeUp::Over,
            () = until(next_due), if next_due.is_some() => WakeUp::Due,
            changes = self.cursor.next(BATCH) => changes.map_or(WakeUp::Over, WakeUp::Changes),
            () = tokio::time::sleep_until(self.ends) => WakeUp::Over,
            () = tokio::time::sleep_until(self.next_bookmark), if self.bookmarks => {
                WakeUp::Bookmark
            }
            _ = self.kinds.changed() => WakeUp::Kinds,
        };
        match woken {
            WakeUp::Over => false,
            WakeUp::Due => true,
            WakeUp::Kinds => self.still_served(),
            WakeUp::Bookmark => {
                self.next_bookmark = next_bookmark(self.next_bookmark, self.ends);
                // Reading advances the cursor even without changes.
                let Ok(changes) = self.cursor.ready(BATCH) else { return false };
                self.take(&changes);
                let due = self.disturbance.due(Instant::now());
                self.ready.push_back((due, WatchEvent::Bookmark(self.cursor.revision(), false)));
                true
            }
            WakeUp::Changes(changes) => {
                self.take(&changes);
                true
            }
        }
    }

    fn take(&mut self, changes: &[Arc<Change>]) {
        let due = self.disturbance.due(Instant::now());
        let given: Vec<WatchEvent> =
            changes.iter().filter_map(|change| self.event_for(change)).collect();
        self.ready.extend(given.into_iter().map(|event| (due, event)));
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
        let matching = |entry: &Arc<Entry>| self.selection.matches(entry);
        let before = change.old.as_ref().is_some_and(matching);
        let after = change.new.as_ref().is_some_and(matching);
        match (before, after, &change.new) {
            (false, true, Some(entry)) => Some(WatchEvent::Added(entry.clone())),
            (true, true, Some(entry)) => Some(WatchEvent::Modified(entry.clone())),
            (true, false, None) => change.gone.clone().map(WatchEvent::Deleted),
            (true, false, Some(_)) => {
                let last = change.old.as_ref()?.restamped(change.revision);
                Some(WatchEvent::Deleted(Arc::new(last)))
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
