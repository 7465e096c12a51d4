//! A server with few descriptors under half-open and slow connections.

use std::cell::Cell;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;
use usher_wire::http::REGISTER_PATH;

use crate::caller::Caller;
use crate::many::walk_all;
use crate::sizes::size;
use crate::test_server::{PATIENCE, TestServer};
use crate::together::side_by_side;

/// How often a slow connection sends a byte, and one that was closed is opened again.
const DRIP: Duration = Duration::from_secs(1);
/// From here on the soak's promises are asserted, which depend on the machine.
const SOAK_SECONDS: u64 = 60;
const READY_MAX: Duration = Duration::from_secs(1);
const CUT_MAX: Duration = Duration::from_secs(15);

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
    opened: Cell<u64>,
    cut: Cell<u64>,
    longest: Cell<Duration>,
    asked: Cell<u64>,
    slowest: Cell<Duration>,
    ended: Cell<bool>,
}

/// Keeps one connection open until the flood ends.
async fn attack(port: u16, number: u64, figures: &Figures) {
    let (text, drips) = opening(number);
    while !figures.ended.get() {
        if let Ok(mut stream) = TcpStream::connect(("127.0.0.1", port)).await {
            figures.opened.set(figures.opened.get() + 1);
            let begun = Instant::now();
            let _ = stream.write_all(text.as_bytes()).await;
            let mut answer = [0; 512];
            loop {
                tokio::select! {
                    read = stream.read(&mut answer) => if !matches!(read, Ok(1..)) { break },
                    () = sleep(DRIP) => {
                        if figures.ended.get() { return }
                        if drips && stream.write_all(b"x").await.is_err() { break }
                    }
                }
            }
            figures.cut.set(figures.cut.get() + 1);
            figures.longest.set(figures.longest.get().max(begun.elapsed()));
        }
        sleep(DRIP).await;
    }
}

/// Asks whether the server is ready until the flood ends.
async fn probe(caller: &Caller, figures: &Figures) {
    while !figures.ended.get() {
        let begun = Instant::now();
        let answer = caller.ask("GET", "/readyz", None).await;
        assert_eq!(answer.map(|(status, _)| status), Some(200), "{figures:?}");
        figures.asked.set(figures.asked.get() + 1);
        figures.slowest.set(figures.slowest.get().max(begun.elapsed()));
        sleep(Duration::from_millis(50)).await;
    }
}

/// Walks, and goes on until the flood has lasted long enough.
async fn work(caller: &Caller, (walks, lasts): (u64, Duration), figures: &Figures) {
    let begun = Instant::now();
    // Every connection of the flood has been opened once.
    while figures.opened.get() < size("USHER_SOAK_CONNECTIONS", 500) {
        assert!(begun.elapsed() < PATIENCE, "{figures:?}");
        sleep(Duration::from_millis(20)).await;
    }
    let walked = walk_all(caller, walks).await;
    sleep(lasts.saturating_sub(begun.elapsed())).await;
    figures.ended.set(true);
    caller.all_was_told(&walked).await;
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
    let (caller, figures) = (server.caller(), Figures::default());
    let flood = side_by_side((0..connections).map(|it| attack(caller.port, it, &figures)));
    let lasts = Duration::from_secs(seconds);
    tokio::join!(flood, probe(caller, &figures), work(caller, (walks, lasts), &figures));
    caller.nothing_is_left_inside().await;
    println!(
        "{connections} connections for {seconds} s: {} opened, {} cut, the longest after {:?}; \
         {walks} walks; {} probes, the slowest {:?}",
        figures.opened.get(),
        figures.cut.get(),
        figures.longest.get(),
        figures.asked.get(),
        figures.slowest.get(),
    );
    if seconds >= SOAK_SECONDS {
        assert!(figures.slowest.get() < READY_MAX, "{figures:?}");
        assert!(figures.longest.get() < CUT_MAX, "{figures:?}");
    }
    assert!(!server.said().contains("Too many open files"), "{}", server.said());
}
