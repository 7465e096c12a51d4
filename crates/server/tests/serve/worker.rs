//! A failing item blocks no other.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::watch;
use tokio::time::sleep;
use usher_domain::object::id::{PeerId, ProjectId, ResourceId};
use usher_domain::object::name;
use usher_domain::tokens::{Outcome, Request};
use usher_kernel::{Generation, Trouble, Wake};
use usher_server::tally::{Count, Tally};
use usher_server::worker::{Steps, Worker, WorkerConfig};
use usher_store::{Error, Held, Leased, QueueStatus, Release, Store, WorkItem};
use uuid::Uuid;

use crate::test_env::{TestEnv, key};

/// Timeout of a condition.
const TIMEOUT: Duration = Duration::from_mins(2);
const STEP_DEADLINE: Duration = Duration::from_mins(10);

/// Steps that behave as the name of the resource selects.
struct Acting {
    store: Arc<Store>,
    done: Mutex<BTreeMap<String, u32>>,
}

#[async_trait]
impl Steps for Acting {
    async fn step(&self, leased: Leased, _: tokio::time::Instant) -> Result<Option<Leased>, Error> {
        let Leased { item, claim, ref record, .. } = leased;
        let (name, reason) = match record {
            Held::Resource(record) => (record.state.fields().name.clone(), "AsDeclared"),
            Held::ProviderConfig(_) => ("config".to_owned(), "AsDeclared"),
        };
        *self.done.lock().unwrap().entry(name.clone()).or_default() += 1;
        match name.as_str() {
            "panics" => panic!("a bug"),
            "hangs" => std::future::pending().await,
            "refuses" => {
                let trouble = Trouble::Rejected { what: "the cloud".to_owned() };
                self.store.postpone(item, claim, trouble, None).await?;
            }
            // It requests two more steps under its lease.
            "goes-on" if !self.done("goes-on").is_multiple_of(3) => return Ok(Some(leased)),
            _ => {
                let release = Release { item, claim, wake: Wake::OnChange, reason };
                self.store.release(release).await?;
            }
        }
        Ok(None)
    }
}

impl Acting {
    fn done(&self, name: &str) -> u32 {
        self.done.lock().unwrap().get(name).copied().unwrap_or(0)
    }
}

struct Running {
    steps: Arc<Acting>,
    tally: Arc<Tally>,
    stop: watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

fn run(env: &TestEnv, config: WorkerConfig) -> Running {
    let steps = Arc::new(Acting { store: Arc::clone(&env.store), done: Mutex::default() });
    let tally = Arc::new(Tally::default());
    let (stop, stopped) = watch::channel(false);
    let worker = Worker::new(Arc::clone(&env.store), steps.clone(), config, Arc::clone(&tally));
    let task = tokio::spawn(worker.run(stopped));
    Running { steps, tally, stop, task }
}

impl Running {
    fn done(&self, name: &str) -> u32 {
        self.steps.done(name)
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < TIMEOUT, "never: {what}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        self.task.await.unwrap();
    }
}

/// Waits until a queue entry meets a condition.
async fn until_entry(
    env: &TestEnv,
    id: ResourceId,
    holds: impl Fn(&QueueStatus) -> bool,
) -> QueueStatus {
    let begun = Instant::now();
    loop {
        let entry = env.entry(id).await;
        if holds(&entry) {
            return entry;
        }
        assert!(begun.elapsed() < TIMEOUT, "{entry:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

/// Advances the clock beyond the deadline of every running step.
async fn pass_deadline() {
    tokio::time::pause();
    tokio::time::advance(STEP_DEADLINE).await;
    tokio::time::resume();
}

/// A deadline that no step reaches by accident, however slow the machine is.
fn config() -> WorkerConfig {
    WorkerConfig { step_deadline: STEP_DEADLINE, ..WorkerConfig::default() }
}

/// Red by: steps that share a task.
// Requirement: W-13, W-14
#[tokio::test]
async fn an_item_that_panics_hangs_or_is_refused_blocks_no_other() {
    let env = TestEnv::new().await;
    let panics = env.declare("panics").await;
    let hangs = env.declare("hangs").await;
    let refuses = env.declare("refuses").await;
    let well = env.declare("well").await;
    let running = run(&env, config());
    running
        .until("all were stepped", |it| {
            ["panics", "hangs", "refuses", "well"].iter().all(|name| it.done(name) > 0)
        })
        .await;
    running.until("the bug was counted", |it| it.tally.read(Count::Panicked) > 0).await;
    let entry = until_entry(&env, panics, |it| it.entry.parked).await;
    assert!(entry.trouble.unwrap().contains("this is a bug"));
    let entry = until_entry(&env, refuses, |it| it.trouble.is_some()).await;
    assert_eq!(entry.trouble.as_deref(), Some("refused by the cloud"));
    let entry = until_entry(&env, well, |it| it.entry.due.is_none()).await;
    assert_eq!(entry.trouble, None);
    assert_eq!(running.tally.read(Count::TooSlow), 0, "its deadline has not passed");
    pass_deadline().await;
    running.until("the slow one was cut off", |it| it.tally.read(Count::TooSlow) > 0).await;
    let entry = until_entry(&env, hangs, |it| it.trouble.is_some()).await;
    assert!(!entry.entry.parked && entry.entry.due.is_some(), "{entry:?}");
    assert_eq!(running.done("panics"), 1, "a parked item is not claimed");
    running.task.abort();
}

/// Red by: a worker that only polls.
// Requirement: W-11, W-15
#[tokio::test]
async fn an_item_written_by_this_process_is_reconciled_at_once() {
    let env = TestEnv::new().await;
    let slow = WorkerConfig { due_query: Duration::from_mins(1), ..config() };
    let running = run(&env, slow);
    sleep(Duration::from_millis(50)).await;
    let id = env.declare("well").await;
    running.until("it was stepped", |it| it.done("well") == 1).await;
    sleep(Duration::from_millis(50)).await;
    assert!(env.store.wake(WorkItem::Resource(id)).await.unwrap());
    running.until("it was stepped again", |it| it.done("well") == 2).await;
    running.stop().await;
}

/// Red by: an item that needs another step and waits for its lease to expire.
// Requirement: W-16
#[tokio::test]
async fn an_item_with_more_to_do_is_stepped_again_under_its_lease() {
    let env = TestEnv::new().await;
    let id = env.declare("goes-on").await;
    let running = run(&env, config());
    running.until("it was stepped three times", |it| it.done("goes-on") == 3).await;
    running.stop().await;
    let entry = env.entry(id).await.entry;
    assert_eq!((entry.fence.0, entry.lease_until), (1, None), "one lease, released");
}

/// Red by: a stop that ignores running steps.
// Requirement: W-14
#[tokio::test]
async fn a_stopped_worker_releases_every_lease() {
    let env = TestEnv::new().await;
    let id = env.declare("hangs").await;
    let running = run(&env, config());
    running.until("it hangs", |it| it.done("hangs") > 0).await;
    assert!(env.entry(id).await.entry.lease_until.is_some());
    running.stop.send_replace(true);
    while !running.task.is_finished() {
        pass_deadline().await;
        sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(env.entry(id).await.entry.lease_until, None);
}

/// Red by: a limit that is not kept.
// Requirement: W-13
#[tokio::test]
async fn no_more_steps_run_at_a_time_than_steps_max() {
    let env = TestEnv::new().await;
    for number in 0..10 {
        env.declare(&format!("well-{number}")).await;
    }
    let running = run(&env, WorkerConfig { steps_max: 1, ..config() });
    running
        .until("all were stepped", |it| {
            (0..10).all(|number| it.done(&format!("well-{number}")) == 1)
        })
        .await;
    running.stop().await;
}

/// A request with a token that was not issued.
fn request(project: ProjectId) -> Request {
    let id = ResourceId::from_uuid(Uuid::now_v7());
    Request {
        text: key().derive(name::token(id, Generation::FIRST), Generation::FIRST),
        project,
        nonce: "nonce-nonce-nonce-1".parse().unwrap(),
        public_key: "BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc=".parse().unwrap(),
        peer: PeerId::from_uuid(Uuid::now_v7()),
    }
}

/// Red by: a refused call that occupies the worker.
// Requirement: W-17
#[tokio::test]
async fn refused_calls_do_not_block_the_worker() {
    let env = TestEnv::new().await;
    let pause = Duration::from_millis(5);
    let running = run(&env, WorkerConfig { steps_max: 1, due_query: pause, ..config() });
    let known = env.declare("known").await;
    running.until("it is stepped", |it| it.done("known") > 0).await;
    let project = env.store.resource(known).await.unwrap().state.fields().project;
    for _ in 0..100 {
        let refused = env.store.redeem(request(project)).await.unwrap();
        assert!(matches!(refused, Outcome::Refused(_)), "{refused:?}");
    }
    env.declare("later").await;
    running.until("it is stepped after all that", |it| it.done("later") > 0).await;
    running.stop().await;
}
