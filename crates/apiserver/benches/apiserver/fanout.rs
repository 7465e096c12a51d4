//! Many watches of the same objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::caller::{Caller, Endpoint};
use crate::load::{Clients, Work};
use crate::thing::{self, THINGS};

/// The number of watchers.
pub(crate) const WATCHERS: usize = 100;
/// How many changes are written one by one.
const SINGLE: usize = 50;
/// How many changes are written at once: few enough that no server forgets one before the slowest
/// watcher has it.
const BURST: usize = 2_000;

/// How fast changes reach all watchers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Fanout {
    /// Events per second, over all watchers, while the clients create.
    pub(crate) rate: f64,
    /// From the start of a write until the last watcher has it: the middle of many.
    pub(crate) delay: Duration,
    /// How often the server ended a watch, which then went on.
    pub(crate) ended: usize,
}

/// The events that all watchers have seen.
#[derive(Default)]
struct Seen {
    events: AtomicUsize,
    wanted: AtomicUsize,
    /// How often a watch ended and was opened again.
    ended: AtomicUsize,
    reached: Notify,
}

/// What one watcher has of its stream.
struct Watcher {
    seen: Arc<Seen>,
    /// The newest version that it saw.
    version: String,
    /// The beginning of a line.
    rest: Vec<u8>,
}

impl Seen {
    fn count(&self, events: usize) {
        let seen = self.events.fetch_add(events, Ordering::AcqRel) + events;
        if seen >= self.wanted.load(Ordering::Acquire) {
            self.reached.notify_one();
        }
    }

    /// Waits until every watcher has seen this many more changes.
    async fn all(&self, changes: usize) {
        let wanted = self.wanted.fetch_add(changes * WATCHERS, Ordering::AcqRel);
        let wanted = wanted + changes * WATCHERS;
        loop {
            let reached = self.reached.notified();
            let seen = self.events.load(Ordering::Acquire);
            assert!(seen <= wanted, "{seen} events were delivered of {wanted}");
            if seen == wanted {
                return;
            }
            reached.await;
        }
    }
}

impl Watcher {
    /// Watches for ever. A server may end the watch of a client that reads slowly; it goes on
    /// after the newest version.
    async fn run(mut self, endpoint: Endpoint, mut caller: Caller) {
        loop {
            let path = format!("{THINGS}?watch=true&resourceVersion={}", self.version);
            caller.stream(&path, |piece| self.take(piece)).await;
            self.rest.clear();
            self.seen.ended.fetch_add(1, Ordering::AcqRel);
            caller = endpoint.connect().await;
        }
    }

    /// Counts the events in a piece of the stream: each is a line.
    fn take(&mut self, piece: &[u8]) {
        const VERSION: &[u8] = b"\"resourceVersion\":\"";
        let Some(end) = piece.iter().rposition(|byte| *byte == b'\n') else {
            self.rest.extend_from_slice(piece);
            return;
        };
        let lines = piece.split(|byte| *byte == b'\n').count() - 1;
        let before = piece[..end].iter().rposition(|byte| *byte == b'\n');
        let last = if let Some(before) = before {
            &piece[before..end]
        } else {
            self.rest.extend_from_slice(&piece[..end]);
            &self.rest[..]
        };
        let at = last.windows(VERSION.len()).position(|window| window == VERSION);
        let shown = String::from_utf8_lossy(last);
        let digits = &last[at.unwrap_or_else(|| panic!("no version in {shown}")) + VERSION.len()..];
        let digits = digits.iter().take_while(|byte| byte.is_ascii_digit());
        self.version = digits.map(|byte| char::from(*byte)).collect();
        self.rest.clear();
        self.rest.extend_from_slice(&piece[end + 1..]);
        self.seen.count(lines);
    }
}

/// Measures both.
pub(crate) async fn measure(endpoint: &Endpoint, clients: &mut Clients) -> Fanout {
    let mut writer = endpoint.connect().await;
    let seen = Arc::new(Seen::default());
    let mut watchers = watch(endpoint, &mut writer, &seen).await;
    let mut delays = Vec::new();
    for index in 0..SINGLE {
        let started = Instant::now();
        let body = thing::small(&format!("single-{index}"), 0);
        assert_eq!(writer.call("POST", THINGS, body).await.0, 201);
        seen.all(1).await;
        delays.push(started.elapsed());
    }
    delays.sort_unstable();
    let started = Instant::now();
    clients.work(Work::Burst(BURST)).await;
    seen.all(BURST).await;
    let rate = (BURST * WATCHERS) as f64 / started.elapsed().as_secs_f64();
    watchers.abort_all();
    while watchers.join_next().await.is_some() {}
    Fanout { rate, delay: delays[SINGLE / 2], ended: seen.ended.load(Ordering::Acquire) }
}

/// Opens the watches from now on.
async fn watch(endpoint: &Endpoint, writer: &mut Caller, seen: &Arc<Seen>) -> JoinSet<()> {
    let (_, list) = writer.call("GET", &format!("{THINGS}?limit=1"), Bytes::new()).await;
    let list: Value = serde_json::from_slice(&list).expect("a list");
    let after = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let watcher = Watcher { seen: seen.clone(), version: after.to_owned(), rest: Vec::new() };
        watchers.spawn(watcher.run(endpoint.clone(), endpoint.connect().await));
    }
    watchers
}
