//! What Lease and runner promise together, on any cluster: on the embedded server in paused time,
//! and on the cluster that `USHER_TEST_KUBECONFIG` names.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use usher_cluster::client::{Access, Bounds, Client};
use usher_cluster::lease::{Clock, Elector, LeaseName, Settings, Term, Times};
use usher_cluster::read::Cluster;
use usher_cluster::runner::{Config, ObjectRunner, Tally};
use usher_cluster::watches::{self, Watches};
use usher_kernel::schedule::Jitter;

use crate::item::TestItem;
use crate::rig::{self, SPACES, TestClock, call, done, until};

const OBJECTS: usize = 40;

/// A process with an elector and a runner.
struct Process {
    lease: watch::Receiver<Option<Term>>,
    stop: watch::Sender<bool>,
    stop_elector: watch::Sender<bool>,
    runner: JoinHandle<()>,
    elector: JoinHandle<()>,
}

impl Process {
    async fn start(client: &Client, space: &str, identity: &str, clock: &Clock) -> Self {
        let times = times();
        let name = LeaseName { namespace: space.to_owned(), name: "usher".to_owned() };
        let settings = Settings { name, identity: identity.to_owned(), times };
        let elector = Elector::new(client.clone(), settings, clock.clone());
        let (elector, lease) = elector.expect("an elector");
        let cluster = Cluster::open(client.clone()).await.expect("a cluster");
        let jitter = Arc::new(|| Jitter(u32::MAX / 2));
        let settings = watches::Settings { jitter, ..watches::Settings::default() };
        let watches = Arc::new(Watches::start(Arc::new(cluster), settings));
        let item = Arc::new(TestItem::new(client.clone()).within(space));
        let runner = ObjectRunner::new(item, watches, Config::default(), Arc::<Tally>::default());
        let ((stop, stopped), (stop_elector, elector_stopped)) =
            (watch::channel(false), watch::channel(false));
        let runner = tokio::spawn(runner.expect("a runner").run(lease.clone(), stopped));
        let elector = tokio::spawn(elector.run(elector_stopped));
        Self { lease, stop, stop_elector, runner, elector }
    }

    fn epoch(&self) -> Option<u64> {
        self.lease.borrow().as_ref().filter(|it| !it.has_ended()).map(Term::epoch)
    }

    async fn end(self) {
        self.stop.send_replace(true);
        self.runner.await.expect("the end of a runner");
        self.stop_elector.send_replace(true);
        self.elector.await.expect("the end of an elector");
    }

    async fn kill(self) {
        self.elector.abort();
        self.runner.abort();
        let _ = tokio::join!(self.elector, self.runner);
    }
}

fn times() -> Times {
    Times::of(Duration::from_secs(15)).expect("times")
}

/// Every object has this goal, and each was written in this term.
async fn converged(client: &Client, maps: &str, (goal, epoch): (usize, Option<u64>)) {
    let (goal, epoch) = (goal.to_string(), epoch.map(|it| it.to_string()));
    until(async || {
        let Ok(list) = call(client, ("GET", maps), &Value::Null).await else { return false };
        let items = list["items"].as_array().cloned().unwrap_or_default();
        let ours: Vec<&Value> = items.iter().filter(|it| it["data"]["goal"].is_string()).collect();
        let is_done = |it: &&Value| {
            let data = &it["data"];
            let of_term = epoch.as_ref().is_none_or(|epoch| data["epoch"] == *epoch);
            data["done"] == goal && of_term
        };
        ours.len() == OBJECTS && ours.iter().all(is_done)
    })
    .await;
}

async fn set_goals(client: &Client, maps: &str, goal: usize) {
    for number in 0..OBJECTS {
        let patch = json!({"data": {"goal": goal.to_string()}});
        done(client, ("PATCH", &format!("{maps}/m{number}")), &patch).await;
    }
}

async fn contract(client: &Client, space: &str, clock: &Clock) {
    rig::space(client, space).await;
    let maps = format!("{SPACES}/{space}/configmaps");
    for number in 0..OBJECTS {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("m{number}")},
            "data": {"goal": "1"},
        });
        done(client, ("POST", &maps), &map).await;
    }
    let mut epochs = BTreeSet::new();
    let mut holder = Process::start(client, space, "p0", clock).await;
    until(async || holder.epoch().is_some()).await;
    converged(client, &maps, (1, holder.epoch())).await;
    for round in 1..=4 {
        let other = Process::start(client, space, &format!("p{round}"), clock).await;
        let before = holder.epoch().expect("a term");
        assert!(epochs.insert(before), "epoch {before} was there before");
        assert_eq!(epochs.last(), Some(&before), "epochs grow");
        set_goals(client, &maps, round * 2).await;
        converged(client, &maps, (round * 2, Some(before))).await;
        assert_eq!(other.epoch(), None, "one holds the Lease");
        if round % 2 == 0 {
            holder.kill().await;
        } else {
            holder.end().await;
        }
        set_goals(client, &maps, round * 2 + 1).await;
        until(async || other.epoch().is_some()).await;
        converged(client, &maps, (round * 2 + 1, None)).await;
        holder = other;
    }
    holder.end().await;
    done(client, ("DELETE", &format!("{SPACES}/{space}")), &Value::Null).await;
}

// Requirement: KA-34
#[tokio::test(start_paused = true)]
async fn objects_are_stepped_by_one_process_after_another() {
    let server = usher_apiserver::ApiServer::builder().build().await.expect("a server");
    let bounds = Bounds { request: times().request(), ..Bounds::default() };
    let client = Client::over(server.client(), bounds);
    contract(&client, "usher-test", &TestClock::new().clock()).await;
}

// Requirement: KA-34
#[tokio::test]
async fn objects_are_stepped_by_one_process_after_another_on_a_real_cluster() {
    let Some(file) = std::env::var_os("USHER_TEST_KUBECONFIG") else {
        println!("skipped: USHER_TEST_KUBECONFIG names no cluster");
        return;
    };
    let access = Access::Kubeconfig { file: file.into(), context: None };
    let bounds = Bounds { request: times().request(), ..Bounds::default() };
    let client = Client::connect(&access, bounds).await.expect("a cluster");
    let clock = Clock::system();
    let space = format!("usher-test-{}", clock.wall().as_micros());
    contract(&client, &space, &clock).await;
}
