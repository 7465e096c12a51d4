//! One process: each number of clients, in process and over TLS, durable and in memory.

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use bytes::Bytes;
use usher_apiserver::ApiServer;

use crate::caller::{Caller, Endpoint};
use crate::clients::{Rates, measure};
use crate::machine;
use crate::thing::{self, THINGS};
use crate::watcher::Watcher;

const CLIENTS: [usize; 3] = [1, 16, 64];

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// How long objects are created; the other operations use these objects.
    creates: Duration,
    /// The number of objects whose memory is measured.
    objects: usize,
}

/// Prints the table.
pub(crate) async fn run(quick: bool) {
    let size = if quick {
        Size { creates: Duration::from_millis(400), objects: 4000 }
    } else {
        Size { creates: Duration::from_secs(3), objects: 15_000 }
    };
    let folder = tempfile::tempdir_in(".").expect("a folder");
    println!("cores: {}", std::thread::available_parallelism().map_or(0, usize::from));
    start(folder.path()).await;
    // First, because freed memory would be reused.
    memory_per_object(size.objects).await;
    let sync = machine::sync(folder.path());
    println!("one write and sync of 4 KiB: {} us", sync.as_micros());
    println!();
    let [creates, gets, applies] = ["creates", "gets", "applies"];
    println!("{:<32}{creates:>9}{:>7}{gets:>9}{applies:>9}{:>9}", "per second", "cores", "deletes");
    let (mut durable, mut memory) = (0.0, 0.0);
    for kept in [false, true] {
        for wire in [false, true] {
            for clients in CLIENTS {
                let file = kept.then(|| folder.path().join(format!("{wire}-{clients}")));
                let rates = cell(file.as_deref(), wire, clients, size.creates).await;
                let store = if kept { "durable" } else { "in memory" };
                let way = if wire { "HTTPS" } else { "in process" };
                let name = format!(
                    "{store}, {way}, {clients} client{}",
                    if clients == 1 { "" } else { "s" }
                );
                let Rates { creates, gets, applies, deletes, cores } = rates;
                println!(
                    "{name:<32}{creates:>9.0}{cores:>7.2}{gets:>9.0}{applies:>9.0}{deletes:>9.0}"
                );
                if !wire && clients == 64 {
                    *(if kept { &mut durable } else { &mut memory }) = creates;
                }
            }
        }
    }
    println!();
    print_ceiling(durable, memory, 64.0 / sync.as_secs_f64());
}

/// What syncs and the server itself would allow, and how much of it durable creates reach. No file
/// makes the server faster than it is without one, so the lower of the two is the ceiling.
fn print_ceiling(durable: f64, memory: f64, syncs: f64) {
    let share = |bound: f64| durable / bound;
    println!("64 clients by one sync: {syncs:.0}/s; durable creates are {:.2} of it", share(syncs));
    println!("64 clients in memory: {memory:.0}/s; durable creates are {:.2} of it", share(memory));
    let ceiling = syncs.min(memory);
    println!("the ceiling is {ceiling:.0}/s; durable creates are {:.2} of it", share(ceiling));
}

/// Measures the time to the first response and the memory of an idle server.
async fn start(folder: &Path) {
    for file in [None, Some(folder.join("start"))] {
        let started = Instant::now();
        let mut builder = ApiServer::builder();
        if let Some(file) = &file {
            builder = builder.file(file);
        }
        let server = builder.build().await.expect("a server");
        server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a endpoint");
        let mut caller = Endpoint::of(&server).connect().await;
        let answer = caller.call("GET", "/api/v1/namespaces", Bytes::new()).await;
        let took = started.elapsed();
        assert_eq!(answer.0, 200);
        let name = if file.is_some() { "durable" } else { "in memory" };
        let idle = machine::resident() / 1024 / 1024;
        println!(
            "{name}: first answer over HTTPS {:.1} ms after the start, idle with {idle} MB",
            took.as_secs_f64() * 1000.0
        );
        server.shutdown().await;
    }
}

/// One row: a server, its clients, and one watch of everything.
async fn cell(file: Option<&Path>, wire: bool, clients: usize, creates: Duration) -> Rates {
    let mut builder = ApiServer::builder();
    if let Some(file) = file {
        builder = builder.file(file);
    }
    let server = builder.build().await.expect("a server");
    server.serve(SocketAddr::from(([127, 0, 0, 1], 0))).await.expect("a endpoint");
    thing::define(&mut Caller::inside(&server)).await;
    let endpoint = Endpoint::of(&server);
    let mut callers = Vec::new();
    for _ in 0..clients {
        let caller = if wire { endpoint.connect().await } else { Caller::inside(&server) };
        callers.push(caller);
    }
    let witness = if wire { endpoint.connect().await } else { Caller::inside(&server) };
    let watcher = Watcher::start(witness).await;
    let (rates, writes) = measure(callers, creates).await;
    watcher.saw(writes).await;
    server.shutdown().await;
    rates
}

/// Measures the memory per object.
async fn memory_per_object(objects: usize) {
    let server = ApiServer::builder().build().await.expect("a server");
    thing::define(&mut Caller::inside(&server)).await;
    let mut caller = Caller::inside(&server);
    let before = machine::resident();
    for index in 0..objects {
        let body = thing::large(&format!("w-{index}"), 0);
        assert_eq!(caller.call("POST", THINGS, body).await.0, 201);
    }
    let grown = machine::resident().saturating_sub(before);
    println!("{objects} objects of 1 kB: {} bytes of memory each", grown / objects);
    server.shutdown().await;
}
