//! Many watches of the same objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
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
}

/// The events that all watchers have seen.
#[derive(Default)]
struct Seen {
    events: AtomicUsize,
    wanted: AtomicUsize,
    /// A watch that ended.
    ended: AtomicBool,
    reached: Notify,
}

impl Seen {
    /// Counts the events in a piece of a stream: each is a line.
    fn count(&self, piece: &[u8]) {
        let lines = piece.iter().filter(|byte| **byte == b'\n').count();
        let seen = self.events.fetch_add(lines, Ordering::AcqRel) + lines;
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
            assert!(!self.ended.load(Ordering::Acquire), "a watch has ended");
            assert!(seen <= wanted, "{seen} events were delivered of {wanted}");
            if seen == wanted {
                return;
            }
            reached.await;
        }
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
    Fanout { rate, delay: delays[SINGLE / 2] }
}

/// Opens the watches from now on.
async fn watch(endpoint: &Endpoint, writer: &mut Caller, seen: &Arc<Seen>) -> JoinSet<()> {
    let (_, list) = writer.call("GET", &format!("{THINGS}?limit=1"), Bytes::new()).await;
    let list: Value = serde_json::from_slice(&list).expect("a list");
    let after = list["metadata"]["resourceVersion"].as_str().expect("a version");
    let path = format!("{THINGS}?watch=true&resourceVersion={after}");
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let (caller, path, seen) = (endpoint.connect().await, path.clone(), seen.clone());
        watchers.spawn(async move {
            caller.stream(&path, |piece| seen.count(piece)).await;
            seen.ended.store(true, Ordering::Release);
            seen.reached.notify_one();
        });
    }
    watchers
}
