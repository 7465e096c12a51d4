//! Many simulated nodes in one process: each finds its boot record in the world, enrols with its
//! token, sends heartbeats, and leaves when it is drained.
//!
//! For servers with `local.agent=external`. After the enrolment a node runs the agent's own code;
//! only its identity is not kept on the disk.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep, timeout};
use usher_agent::client::Client;
use usher_agent::heartbeat::EnrolledNode;
use usher_agent::identity::Node;
use usher_agent::lock::Lock;
use usher_agent::pace::Pace;
use usher_agent::settings::Settings;
use usher_agent::{Ending, VERSION};
use usher_wire::http::{REGISTER_PATH, RegisterRequest, RegisterResponse, Secret};

/// The lock of a simulated node next to its boot record. A supervisor ignores it.
const LOCK: &str = "simulated.lock";
/// Short intervals: all nodes are on this machine.
const PACE: Pace = Pace {
    first: Duration::from_millis(100),
    max: Duration::from_secs(1),
    call: Duration::from_secs(3),
    silence: Duration::from_secs(30),
};

/// How many nodes reached which stage.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Nodes that found their boot record.
    pub(crate) booted: AtomicU64,
    /// Nodes that enrolled.
    pub(crate) enrolled: AtomicU64,
    /// Nodes that were refused, or whose folder was removed before they enrolled.
    pub(crate) refused: AtomicU64,
    /// Nodes that left.
    pub(crate) left: AtomicU64,
}

/// What nodes do after the enrolment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    /// They send heartbeats, and leave when they are drained.
    Lively,
    /// Nothing.
    Silent,
}

/// The running nodes, by the names of their folders.
pub(crate) type Running = Arc<Mutex<BTreeMap<String, AbortHandle>>>;

/// The nodes of one world, until it is dropped.
pub(crate) struct FakeAgents {
    pub(crate) counts: Arc<Counts>,
    pub(crate) running: Running,
    watching: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Drop for FakeAgents {
    fn drop(&mut self) {
        self.watching.abort();
        self.stop.send_replace(true);
        for node in self.running.lock().unwrap().values() {
            node.abort();
        }
    }
}

impl FakeAgents {
    /// Runs a node for every boot record in the world of this data directory, present and future.
    pub(crate) fn gather(data: &Path) -> Self {
        Self::new(data, Manner::Lively)
    }

    /// The same with nodes that enrol and send no heartbeats.
    pub(crate) fn gather_silent(data: &Path) -> Self {
        Self::new(data, Manner::Silent)
    }

    fn new(data: &Path, manner: Manner) -> Self {
        let folder = data.join("world/process");
        fs::create_dir_all(&folder).unwrap();
        let (stop, stopped) = watch::channel(false);
        let (counts, running) = (Arc::<Counts>::default(), Running::default());
        let records = (folder, Arc::clone(&running));
        let watching = tokio::spawn(run(records, manner, Arc::clone(&counts), stopped));
        Self { counts, running, watching, stop }
    }
}

/// Starts a node for every record that appears.
async fn run(
    (folder, running): (PathBuf, Running),
    manner: Manner,
    counts: Arc<Counts>,
    stop: watch::Receiver<bool>,
) {
    let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
    let flags = WatchFlags::MOVED_TO | WatchFlags::MOVED_FROM;
    inotify::add_watch(&events, &folder, flags).unwrap();
    #[expect(deprecated, reason = "its successor is unsafe; this descriptor never changes")]
    let events: AsyncFd<OwnedFd> = AsyncFd::new(events).unwrap();
    let mut known = BTreeSet::new();
    // A record created during the listing is also reported by inotify; it is booted once.
    let mut boot = |name: &str, there: bool| {
        if name.starts_with('.') {
            return;
        }
        if !there {
            known.remove(name);
            return;
        }
        if !known.insert(name.to_owned()) {
            return;
        }
        counts.booted.fetch_add(1, Ordering::Relaxed);
        let node = live((folder.join(name), manner), Arc::clone(&counts), stop.clone());
        let node = tokio::spawn(node).abort_handle();
        running.lock().unwrap().insert(name.to_owned(), node);
    };
    for entry in fs::read_dir(&folder).unwrap() {
        boot(&entry.unwrap().file_name().into_string().unwrap(), true);
    }
    loop {
        let mut ready = events.readable().await.unwrap();
        ready.clear_ready();
        let mut buffer = [const { MaybeUninit::uninit() }; 4096];
        let mut reader = inotify::Reader::new(events.get_ref(), &mut buffer);
        while let Ok(event) = reader.next() {
            assert!(!event.events().contains(ReadFlags::QUEUE_OVERFLOW), "inotify overflowed");
            let name = event.file_name().and_then(|it| it.to_str().ok()).unwrap();
            boot(name, event.events().contains(ReadFlags::MOVED_TO));
        }
    }
}

/// The lifecycle of one node.
async fn live(
    (folder, manner): (PathBuf, Manner),
    counts: Arc<Counts>,
    stop: watch::Receiver<bool>,
) {
    let Some((client, node)) = enrol(&folder).await else {
        counts.refused.fetch_add(1, Ordering::Relaxed);
        return;
    };
    counts.enrolled.fetch_add(1, Ordering::Relaxed);
    if manner == Manner::Silent {
        return;
    }
    let Ok(lock) = Lock::take(&folder.join(LOCK)) else { return };
    let in_flight = folder.join("in-flight");
    let enrolled = EnrolledNode::new(client, node, in_flight, PACE);
    if matches!(enrolled.run(&lock, stop).await, Ok(Ending::Left)) {
        counts.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// Enrols with the boot record; `None` if it is gone or invalid.
async fn enrol(folder: &Path) -> Option<(Client, Node)> {
    let settings = Settings::read(&folder.join("agent.json")).ok()?;
    let token_file = folder.join(&settings.token_file);
    let token = fs::read_to_string(&token_file).ok()?;
    let client = Client::new(&settings).ok()?;
    let (mut nonce, mut key) = ([0; 24], [0; 32]);
    SystemRandom::new().fill(&mut nonce).unwrap();
    SystemRandom::new().fill(&mut key).unwrap();
    let request = RegisterRequest {
        project_id: settings.project_id,
        resource_id: settings.resource_id,
        bootstrap_token: Secret::new(token.trim()),
        nonce: URL_SAFE_NO_PAD.encode(nonce),
        public_key: STANDARD.encode(key),
        agent_version: VERSION.to_owned(),
    };
    let mut failures = 0;
    while folder.exists() {
        match timeout(PACE.call, client.post(REGISTER_PATH, None, &request)).await {
            Ok(Ok(RegisterResponse { node_id, node_secret, heartbeat_ms })) => {
                let _ = fs::remove_file(&token_file);
                return Some((client, Node { id: node_id, secret: node_secret, heartbeat_ms }));
            }
            Ok(Err(why)) if why.is_final() => return None,
            Ok(Err(_)) | Err(_) => {
                failures += 1;
                sleep(PACE.jittered(failures)).await;
            }
        }
    }
    None
}
