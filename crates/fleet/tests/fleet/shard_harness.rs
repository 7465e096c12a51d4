//! A test harness: a store, a fake provider, and a shard that can be stopped and restarted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use usher_domain::fleet::aggregate::Deadlines;
use usher_domain::fleet::ident::ShardId;
use usher_domain::fleet::phase::Phase;
use usher_domain::fleet::plan::{
    PlanConfig as PlanFigures, RawNeed, RawRequirement, Switch, Windows,
};
use usher_domain::fleet::reconciler::MachineReconciler;
use usher_domain::object::authority::MassDeletionGuard;
use usher_fleet::bootstrap::Nothing;
use usher_fleet::epoch::EpochConfig;
use usher_fleet::provider::{CallTimeouts, Provider};
use usher_fleet::shard::Shard;
use usher_fleet::tally::{Kind, Outcome, Tally};
use usher_kernel::schedule::Pace;
use usher_store::migrate::Direction;
use usher_store::{
    Cursor, LoggedEvent, MachineQuery, Place, RollUp, Settings, Store, StoredMachine,
};

use crate::fake_provider::FakeProvider;

/// How long a wait may take.
const TIMEOUT: Duration = Duration::from_mins(2);
const LONG: Duration = Duration::from_hours(1);

/// A provider, a store, and a shard between them.
pub(crate) struct ShardHarness {
    _dir: tempfile::TempDir,
    pub(crate) store: Arc<Store>,
    pub(crate) fake: FakeProvider,
    pub(crate) config: EpochConfig,
    /// Timeouts of the shard: longer than a busy machine needs to respond.
    pub(crate) timeouts: CallTimeouts,
    pub(crate) tally: Arc<Tally>,
    address: String,
    running: Option<(watch::Sender<bool>, JoinHandle<()>)>,
}

impl ShardHarness {
    /// A harness with this many slots and a running shard.
    pub(crate) async fn open(slots: usize) -> Self {
        let mut harness = Self::closed(slots).await;
        harness.start();
        harness
    }

    /// A harness whose shard does not run yet.
    pub(crate) async fn closed(slots: usize) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let place = Place::Sqlite(dir.path().join("usher.db"));
        Store::migrate(&place, Direction::Up).await.unwrap();
        let store = Arc::new(Store::open(&place, Settings::default()).await.unwrap());
        let (fake, address) = FakeProvider::open(slots).await;
        let tally = Arc::new(Tally::default());
        let config = config();
        let timeouts =
            CallTimeouts { call: Duration::from_secs(30), list: Duration::from_secs(30) };
        Self { _dir: dir, store, fake, config, timeouts, tally, address, running: None }
    }

    pub(crate) fn start(&mut self) {
        let id: ShardId = "shard-0".parse().unwrap();
        let channel = usher_wire::fleet::channel(&self.address, None).unwrap();
        let shard = Shard {
            provider: Provider::new("plant".to_owned(), id.clone(), channel, self.timeouts),
            id,
            store: Arc::clone(&self.store),
            bootstrap: Arc::new(Nothing),
            config: self.config,
            tally: Arc::clone(&self.tally),
        };
        let (stop, stopped) = watch::channel(false);
        self.running = Some((stop, tokio::spawn(shard.run(stopped))));
    }

    /// Stops the shard; it drops its memory and releases its lease.
    pub(crate) async fn stop(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            stop.send_replace(true);
            task.await.unwrap();
        }
    }

    /// Aborts the shard as a crash would; its lease is not released.
    pub(crate) async fn crash(&mut self) {
        if let Some((_, task)) = self.running.take() {
            task.abort();
            let _ = task.await;
        }
    }

    /// Sets the demand of a cluster to this many machines.
    pub(crate) async fn need(&self, cluster: &str, machines: u32, priority: i32) {
        let needs = if machines == 0 { vec![] } else { vec![need(machines, priority)] };
        let (cluster, shard) = (cluster.parse().unwrap(), "shard-0".parse().unwrap());
        let roll_up = RollUp { cluster, shard, needs };
        self.store.accept_demand(roll_up, None).await.unwrap();
    }

    /// Every row that is not gone.
    pub(crate) async fn rows(&self) -> Vec<StoredMachine> {
        self.store.machines(&MachineQuery::default(), None, 10_000).await.unwrap().machines
    }

    /// One row, by the machine's name.
    pub(crate) async fn row(&self, id: &str) -> StoredMachine {
        let found = self.store.find_machines(id, None).await.unwrap();
        found.into_iter().next().unwrap()
    }

    /// How many rows are in a phase.
    pub(crate) async fn count(&self, phase: Phase) -> usize {
        self.rows().await.iter().filter(|it| it.record.state.phase() == phase).count()
    }

    /// Waits until this many rows are in a phase.
    pub(crate) async fn until(&self, phase: Phase, count: usize) {
        self.until_rows(&format!("{count} {phase}"), |rows| {
            rows.iter().filter(|it| it.record.state.phase() == phase).count() == count
        })
        .await;
    }

    /// Waits until the rows satisfy a condition.
    pub(crate) async fn until_rows(&self, what: &str, holds: impl Fn(&[StoredMachine]) -> bool) {
        let begun = Instant::now();
        loop {
            let rows = self.rows().await;
            if holds(&rows) {
                return;
            }
            if begun.elapsed() > TIMEOUT {
                let shown = rows.iter().map(|it| (it.record.state.id(), it.record.state.phase()));
                panic!("never {what}: {:?}", shown.collect::<Vec<_>>());
            }
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Waits until all rows are in a phase; pending commands are completed meanwhile.
    pub(crate) async fn until_ended(&self, what: &str, phase: Phase) {
        self.until_rows(what, |rows| {
            self.fake.let_go();
            rows.iter().all(|it| it.record.state.phase() == phase)
        })
        .await;
    }

    /// Waits for a condition.
    pub(crate) async fn eventually(&self, what: &str, holds: impl Fn() -> bool) {
        let begun = Instant::now();
        while !holds() {
            assert!(begun.elapsed() < TIMEOUT, "never {what}");
            sleep(Duration::from_millis(10)).await;
        }
    }

    /// Every event.
    pub(crate) async fn events(&self) -> Vec<LoggedEvent> {
        self.store.events(Cursor::default(), 10_000).await.unwrap()
    }

    /// The metrics of the shard as text.
    pub(crate) fn shown(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.tally.register(&mut registry);
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        text
    }

    /// Whether the last full list is not trusted.
    pub(crate) fn is_list_quarantined(&self) -> bool {
        self.shown().contains("\nusher_fleet_list_quarantined 1\n")
    }

    /// How many reads and lists got no response so far.
    pub(crate) fn gave_up(&self) -> u64 {
        let shown = self.shown();
        let line = shown.lines().find(|it| it.starts_with("usher_fleet_unanswered_total"));
        line.and_then(|it| it.rsplit(' ').next()?.parse().ok()).unwrap_or(0)
    }

    /// No command led to an invalid row.
    pub(crate) fn no_transition_error(&self) {
        for kind in Kind::ALL {
            assert_eq!(self.tally.outcomes(kind, Outcome::TransitionError), 0, "{kind:?}");
        }
    }
}

/// A need for this many machines of four processors.
pub(crate) fn need(machines: u32, priority: i32) -> RawNeed {
    RawNeed {
        requirements: vec![RawRequirement {
            key: "node.kubernetes.io/instance-type".to_owned(),
            operator: 1,
            values: vec!["m.large".to_owned()],
        }],
        aggregate: [("cpu".to_owned(), (machines * 4).to_string())].into(),
        priority,
        ..RawNeed::default()
    }
}

fn config() -> EpochConfig {
    EpochConfig {
        reconciler: MachineReconciler {
            interval: Duration::from_millis(100),
            deadlines: Deadlines::default(),
        },
        windows: Windows { on_demand: LONG, spot: LONG },
        plan: PlanFigures { reclaim_percent: 100 },
        guard: MassDeletionGuard::default(),
        switch: Switch::Run,
        steps_max: 8,
        step_deadline: Duration::from_secs(90),
        cycle: Duration::from_millis(50),
        passing: Duration::from_millis(50),
        full_list: Duration::from_millis(500),
        lease: Duration::from_secs(2),
        request_bound: Duration::from_millis(200),
        pace: Pace {
            lease: Duration::from_secs(2),
            base: Duration::from_millis(10),
            max: Duration::from_millis(200),
        },
    }
}
