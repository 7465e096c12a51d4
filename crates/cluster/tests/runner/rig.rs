//! A server with our namespace, clocks, and what runs for the length of a test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use hyper::Request;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use usher_apiserver::{ApiServer, User};
use usher_cluster::client::{Bounds, Client};
use usher_cluster::lease::{Beginning, Clock, Term, TermControl};
use usher_cluster::read::Cluster;
use usher_cluster::runner::{Config, ItemWaker, ObjectRunner, Tally};
use usher_cluster::watches::{self, Watches};
use usher_kernel::Timestamp;
use usher_kernel::schedule::Jitter;

use crate::item::{Key, TestItem};

pub(crate) const SPACES: &str = "/api/v1/namespaces";
pub(crate) const MAPS: &str = "/api/v1/namespaces/work/configmaps";
pub(crate) const MERGE: &str = "application/merge-patch+json";
/// As long as the rules allow by default.
pub(crate) const BOUNDS: (Duration, Duration) = (Duration::from_secs(18), Duration::from_secs(10));

/// A server with our namespace and one to work in.
pub(crate) async fn server() -> ApiServer {
    let server = ApiServer::builder().build().await.expect("a server");
    for name in ["usher-system", "work"] {
        space(&admin(&server), name).await;
    }
    server
}

pub(crate) async fn space(client: &Client, name: &str) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    done(client, ("POST", SPACES), &body).await;
}

pub(crate) fn admin(server: &ApiServer) -> Client {
    Client::over(server.client(), Bounds::default())
}

/// An administrator by another name, as faults and audit lines see it.
pub(crate) fn named(server: &ApiServer, name: &str) -> Client {
    let user = User::with_groups(name, &["system:masters"]);
    Client::over(server.client_as(user), Bounds::default())
}

/// A request that has to succeed.
pub(crate) async fn done(client: &Client, (method, path): (&str, &str), body: &Value) -> Value {
    let answer = call(client, (method, path), body).await;
    answer.unwrap_or_else(|failure| panic!("{method} {path}: {failure:?}"))
}

pub(crate) async fn call(
    client: &Client,
    (method, path): (&str, &str),
    body: &Value,
) -> Result<Value, usher_cluster::answer::Failure> {
    let text = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
    let media = if method == "PATCH" { MERGE } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header("content-type", media);
    let bytes = client.send(Ok(request.body(text).expect("a request"))).await?;
    Ok(serde_json::from_slice(&bytes).expect("JSON"))
}

pub(crate) async fn create(client: &Client, name: &str) {
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"goal": "1"},
    });
    done(client, ("POST", MAPS), &map).await;
}

pub(crate) async fn set_goal(client: &Client, name: &str, goal: usize) {
    let patch = json!({"data": {"goal": goal.to_string()}});
    done(client, ("PATCH", &format!("{MAPS}/{name}")), &patch).await;
}

/// How many requests were answered, by verb and resource.
pub(crate) fn count(server: &ApiServer, verb: &str, resource: &str) -> u64 {
    let counters = server.counters();
    let meant = counters.iter().filter(|(key, _)| key.verb == verb && key.resource == resource);
    meant.map(|(_, count)| count).sum()
}

/// Waits until a condition holds.
pub(crate) async fn until(condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let patience = Duration::from_mins(20);
    tokio::time::timeout(patience, waiting).await.expect("the condition in time");
}

/// Lets everything happen that is on its way.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// A clock that follows the timers of the test, and what it is ahead of them.
#[derive(Clone)]
pub(crate) struct TestClock {
    start: Instant,
    ahead: Arc<AtomicU64>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), ahead: Arc::default() }
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.start.elapsed() + Duration::from_secs(self.ahead.load(Ordering::SeqCst))
    }

    pub(crate) fn since(&self, before: Duration) -> Duration {
        self.elapsed().saturating_sub(before)
    }

    /// The process was suspended for so long: its timers did not count it.
    pub(crate) fn suspend(&self, seconds: u64) {
        self.ahead.fetch_add(seconds, Ordering::SeqCst);
    }

    pub(crate) fn clock(&self) -> Clock {
        let (one, other) = (self.clone(), self.clone());
        let epoch = Timestamp::from_millis(1_800_000_000_000);
        Clock::new(move || one.elapsed(), move || epoch.after(other.elapsed()))
    }
}

/// A term that is renewed by the test.
pub(crate) fn term(clock: &TestClock, epoch: u64, is_clean: bool) -> (Term, TermControl) {
    let beginning = Beginning { epoch, sent: clock.elapsed(), is_clean };
    Term::begin(clock.clock(), BOUNDS, beginning)
}

/// A term that does not have to be renewed.
pub(crate) fn long_term(clock: &TestClock, epoch: u64, is_clean: bool) -> (Term, TermControl) {
    let beginning = Beginning { epoch, sent: clock.elapsed(), is_clean };
    Term::begin(clock.clock(), (Duration::from_hours(1_000), BOUNDS.1), beginning)
}

/// A runner with what it runs on.
pub(crate) struct TestRunner {
    pub(crate) item: Arc<TestItem>,
    pub(crate) waker: ItemWaker<Key>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) watches: Arc<Watches>,
    pub(crate) terms: watch::Sender<Option<Term>>,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) task: JoinHandle<()>,
}

impl TestRunner {
    pub(crate) async fn start(item: TestItem) -> Self {
        Self::with(item, Config::default()).await
    }

    pub(crate) async fn with(item: TestItem, config: Config) -> Self {
        let cluster = Cluster::open(item.client.clone()).await.expect("a cluster");
        let jitter = Arc::new(|| Jitter(u32::MAX));
        let settings = watches::Settings { jitter, ..watches::Settings::default() };
        let watches = Arc::new(Watches::start(Arc::new(cluster), settings));
        let (item, tally) = (Arc::new(item), Arc::<Tally>::default());
        let runner =
            ObjectRunner::new(Arc::clone(&item), Arc::clone(&watches), config, Arc::clone(&tally));
        let runner = runner.expect("a runner");
        let waker = runner.item_waker();
        let ((terms, lease), (stop, stopped)) = (watch::channel(None), watch::channel(false));
        let task = tokio::spawn(runner.run(lease, stopped));
        Self { item, waker, tally, watches, terms, stop, task }
    }

    /// Begins a term that does not have to be renewed.
    pub(crate) fn begin(&self, clock: &TestClock, epoch: u64) -> TermControl {
        let (term, control) = long_term(clock, epoch, true);
        self.terms.send_replace(Some(term));
        control
    }

    /// Waits until an item was stepped so often.
    pub(crate) async fn stepped(&self, name: &str, times: usize) {
        until(async || self.item.steps_of(name) >= times).await;
    }
}
