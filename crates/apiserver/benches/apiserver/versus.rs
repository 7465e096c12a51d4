//! Every server in turn, by the same program.

use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use serde_json::json;

use crate::caller::{Caller, Endpoint};
use crate::fanout::{self, Fanout};
use crate::load::{self, Clients, LISTED, Work};
use crate::side::{Running, Side};
use crate::{report, thing};

/// How much is done.
#[derive(Debug, Clone, Copy)]
struct Size {
    /// How long the clients repeat a kind of request.
    time: Duration,
    /// How many objects there are when memory is measured.
    objects: usize,
    /// How long a server is left alone before its memory is measured.
    settle: Duration,
}

/// What was measured of one server.
#[derive(Debug, Clone)]
pub(crate) struct Figures {
    pub(crate) name: String,
    pub(crate) is_embedded: bool,
    pub(crate) is_durable: bool,
    pub(crate) start: Duration,
    pub(crate) idle: usize,
    pub(crate) creates: f64,
    pub(crate) gets: f64,
    pub(crate) lists: f64,
    /// The size of one list.
    pub(crate) list_bytes: usize,
    pub(crate) fanout: Fanout,
    pub(crate) filled: Option<Filled>,
}

/// The memory with many objects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Filled {
    pub(crate) objects: usize,
    pub(crate) resident: usize,
    /// What each object added to the idle server.
    pub(crate) per_object: usize,
}

/// Measures the embedded server, durable and in memory, and then those of the file.
pub(crate) async fn run(sides: Option<&str>, quick: bool) {
    let size = if quick {
        Size { time: Duration::from_millis(500), objects: 10_000, settle: Duration::from_secs(1) }
    } else {
        Size { time: Duration::from_secs(6), objects: 100_000, settle: Duration::from_secs(5) }
    };
    // On the disk of the working copy: a folder in memory would make syncs free.
    let folder = tempfile::tempdir_in(".").expect("a folder");
    let embedded = [true, false].map(|durable| Side::embedded(folder.path(), durable));
    let mut all: Vec<(Side, bool)> = embedded.into_iter().map(|side| (side, true)).collect();
    if let Some(path) = sides {
        let text = std::fs::read_to_string(path).expect("the file of the servers");
        let others: Vec<Side> = serde_json::from_str(&text).expect("servers");
        all.extend(others.into_iter().map(|side| (side, false)));
    }
    let mut figures = Vec::new();
    for (side, is_embedded) in &all {
        println!("measuring {}", side.name);
        figures.push(measure(side, *is_embedded, (size, folder.path())).await);
    }
    report::print(&figures, crate::machine::sync(folder.path()));
}

/// Starts a server and measures it.
async fn measure(side: &Side, is_embedded: bool, (plan, folder): (Size, &Path)) -> Figures {
    let server = side.start(folder).await;
    tokio::time::sleep(plan.settle).await;
    let idle = server.resident();
    let endpoint = &server.endpoint;
    let mut caller = endpoint.connect().await;
    thing::define(&mut caller).await;
    let mut clients = Clients::connect(endpoint).await;
    let creates = clients.work(Work::Create(plan.time)).await;
    let gets = clients.work(Work::Get(plan.time)).await;
    let fanout = fanout::measure(endpoint, &mut clients).await;
    let filled = fill(side, &server, (plan, idle, creates.requests)).await;
    // The connections may have been closed while they were idle.
    let lists = Clients::connect(endpoint).await.work(Work::List(plan.time)).await;
    Figures {
        name: side.name.clone(),
        is_embedded,
        is_durable: side.is_durable,
        start: server.took,
        idle,
        creates: creates.rate(),
        gets: gets.rate(),
        lists: lists.rate(),
        list_bytes: lists.bytes / lists.requests.max(1),
        fanout,
        filled,
    }
}

/// Creates the objects that are listed, and where memory is measured all that are missing.
async fn fill(
    side: &Side,
    server: &Running,
    (plan, idle, there): (Size, usize, usize),
) -> Option<Filled> {
    let missing = if side.is_filled { plan.objects.saturating_sub(there) } else { 0 };
    let missing = missing.max(LISTED);
    namespaces(&server.endpoint, missing).await;
    Clients::connect(&server.endpoint).await.work(Work::Fill(missing)).await;
    if !side.is_filled {
        return None;
    }
    tokio::time::sleep(plan.settle).await;
    let resident = server.resident();
    let objects = there + missing;
    Some(Filled { objects, resident, per_object: resident.saturating_sub(idle) / objects })
}

async fn namespaces(endpoint: &Endpoint, objects: usize) {
    let mut caller: Caller = endpoint.connect().await;
    for index in (0..objects).step_by(LISTED) {
        let namespace = json!({
            "apiVersion": "v1", "kind": "Namespace",
            "metadata": {"name": load::namespace(index)},
        });
        let body = Bytes::from(namespace.to_string());
        assert_eq!(caller.call("POST", "/api/v1/namespaces", body).await.0, 201);
    }
}
