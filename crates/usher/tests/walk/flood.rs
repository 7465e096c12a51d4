//! A server with few descriptors under half-open and slow connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::sleep;
use usher_wire::http::REGISTER_PATH;

use crate::caller::Caller;
use crate::many::walk_all;
use crate::sizes::size;
use crate::test_server::{TIMEOUT, TestServer};

/// How often a slow connection sends a byte, and one that was closed is opened again.
const DRIP: Duration = Duration::from_secs(1);
/// From here on the soak's promises are asserted, which depend on the machine.
const SOAK_SECONDS: u64 = 60;
const READY_MAX_MS: u64 = 1_000;
const CUT_MAX_MS: u64 = 15_000;

/// What a connection of the flood sends first; then it sends a byte now and then, or nothing.
fn opening(number: u64) -> (String, bool) {
    let body = format!("POST {REGISTER_PATH} HTTP/1.1\r\nhost: a\r\ncontent-length: 999\r\n\r\n{{");
    match number % 4 {
        0 => (body, false),
        1 => (body, true),
        2 => ("GET /readyz HTTP/1.1\r\n".to_owned(), true),
        _ => (String::new(), false),
    }
}

/// The figures of a flood.
#[derive(Debug, Default)]
struct Figures {
    opened: AtomicU64,
    cut: AtomicU64,
    longest_ms: AtomicU64,
    probes: AtomicU64,
    slowest_ms: AtomicU64,
    ended: AtomicBool,
}

impl Figures {
    fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }
}

fn add(count: &AtomicU64) {
    count.fetch_add(1, Ordering::Relaxed);
}

fn keep_longest(longest_ms: &AtomicU64, begun: Instant) {
    let took = u64::try_from(begun.elapsed().as_millis()).unwrap();
    longest_ms.fetch_max(took, Ordering::Relaxed);
}

/// Keeps one connection open until the flood ends.
async fn attack(port: u16, number: u64, figures: Arc<Figures>) {
    let (text, drips) = opening(number);
    while !figures.has_ended() {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            add(&figures.opened);
            let begun = Instant::now();
            let _ = stream.write_all(text.as_bytes()).await;
            let mut answer = [0; 512];
            loop {
                tokio::select! {
                    read = stream.read(&mut answer) => if !matches!(read, Ok(1..)) { break },
                    () = sleep(DRIP) => {
                        if figures.has_ended() { return }
                        if drips && stream.write_all(b"x").await.is_err() { break }
                    }
                }
            }
            add(&figures.cut);
            keep_longest(&figures.longest_ms, begun);
        }
        sleep(DRIP).await;
    }
}

/// Asks whether the server is ready until the flood ends.
async fn probe(caller: &Caller, figures: &Figures) {
    while !figures.has_ended() {
        let begun = Instant::now();
        // A client that is slower than hundreds of newer connections may lose its own, and asks
        // again.
        while caller.ask("GET", "/readyz", None).await.is_none_or(|(status, _)| status != 200) {
            assert!(begun.elapsed() < TIMEOUT, "{figures:?}");
        }
        add(&figures.probes);
        keep_longest(&figures.slowest_ms, begun);
        sleep(Duration::from_millis(50)).await;
    }
}

/// Walks, and goes on until the flood has lasted long enough.
async fn work(caller: &Caller, (walks, lasts): (u64, Duration), figures: &Figures) {
    let begun = Instant::now();
    // Every connection of the flood has been opened once.
    while figures.opened.load(Ordering::Relaxed) < size("USHER_SOAK_CONNECTIONS", 500) {
        assert!(begun.elapsed() < TIMEOUT, "{figures:?}");
        sleep(Duration::from_millis(20)).await;
    }
    let walked = walk_all(caller, walks).await;
    sleep(lasts.saturating_sub(begun.elapsed())).await;
    figures.ended.store(true, Ordering::Relaxed);
    caller.expect_all_events(&walked).await;
}

/// Red by: a server without limits of connections, or without descriptors for its own files.
// Requirement: CN-6
#[tokio::test]
async fn a_flooded_server_is_ready_and_its_walks_end() {
    let connections = size("USHER_SOAK_CONNECTIONS", 500);
    let seconds = size("USHER_SOAK_FLOOD_SECONDS", 1);
    let walks = size("USHER_SOAK_FLOOD_WALKS", 2);
    let hard = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: hard, maximum: hard }).unwrap();
    let server = TestServer::up_within(size("USHER_SOAK_DESCRIPTORS", 256), &[]).await;
    let (caller, figures) = (server.caller(), Arc::<Figures>::default());
    let mut flood = JoinSet::new();
    for number in 0..connections {
        flood.spawn(attack(caller.port, number, Arc::clone(&figures)));
    }
    let work = work(caller, (walks, Duration::from_secs(seconds)), &figures);
    tokio::join!(probe(caller, &figures), work);
    flood.join_all().await;
    caller.nothing_is_left_inside().await;
    let read = |count: &AtomicU64| count.load(Ordering::Relaxed);
    let (longest, slowest) = (read(&figures.longest_ms), read(&figures.slowest_ms));
    println!(
        "flood: {connections} connections for {seconds} s, {} opened, {} cut, the longest after \
         {longest} ms; {walks} walks; {} probes, the slowest {slowest} ms",
        read(&figures.opened),
        read(&figures.cut),
        read(&figures.probes),
    );
    assert!(!server.said().contains("Too many open files"), "{}", server.said());
    if seconds >= SOAK_SECONDS {
        assert!(slowest < READY_MAX_MS && longest < CUT_MAX_MS, "{figures:?}");
    }
}
