//! The broker's simulated world on the real SQLite adapter.
//!
//! Everything outside the store is simulated, as in every simulated run; the store is a file, its
//! clock is the real one, and a tick is a millisecond of it. Drivers die before and after commits,
//! outlive their leases and lose answers as the seed decides. Besides, commits are dropped by
//! their callers half-way, or the whole process dies in the middle of one and opens the file again.
//! The checkers are the broker's; they judge what is read back from the file. Which
//! faults hit a commit depends on the clock, so two runs of a seed are not identical.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::{Builder, Runtime};
use usher_kernel::Timestamp;
use usher_sim::broker::state::{State, ids};
use usher_sim::clock::{PACE, REQUEST_BOUND, millis};
use usher_sim::contract::port::No;
use usher_sim::rng::Rng;
use usher_sim::scenario::{Verdict, run_world};
use usher_store::migrate::Direction;
use usher_store::{Error, Place, ResourceWrite, Settings, Store};
use uuid::Uuid;

use crate::asked;
use crate::declare::World;
use crate::real::{Real, no};
use crate::test_store::{Folder, TestDatabase};

/// How many runs the tests simulate, unless it is set otherwise.
const SEEDS: u64 = 300;
/// How many runs wait for their clocks at the same time.
const AT_ONCE: usize = 16;
/// The most turns of the runtime that a commit is waited for before it is dropped.
const TURNS_MAX: u64 = 40;

/// What is broken on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bend {
    /// Versions are not compared.
    SkipVersion,
    /// The event is written by a second transaction, which a crash prevents.
    TellLater,
    /// Names are written by a second transaction, which a crash prevents.
    NameLater,
}

/// The faults of one run's commits.
pub(crate) struct FaultPhase {
    rng: Rng,
    next: Instant,
    bend: Option<Bend>,
    counts: Arc<FaultCounts>,
}

/// The faults of the commits of many runs, counted.
#[derive(Debug, Default)]
pub(crate) struct FaultCounts {
    given_up: AtomicU64,
    crashed: AtomicU64,
    was_done: AtomicU64,
}

enum Fate {
    Answered,
    GivenUp(u64),
    Crash(u64),
}

impl FaultPhase {
    /// Waits for the next tick; a late run does not wait.
    #[expect(clippy::disallowed_methods, reason = "the store's clock is the real one")]
    pub(crate) fn wait(&mut self, tick: Duration) {
        let now = Instant::now();
        if let Some(rest) = self.next.checked_duration_since(now) {
            std::thread::sleep(rest);
        }
        self.next = self.next.max(now) + tick;
    }

    /// SQLite's clock is that of its process, in whole milliseconds.
    pub(crate) fn now() -> Timestamp {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
        Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap())
    }

    fn fate(&mut self) -> Fate {
        let turns = self.rng.below(TURNS_MAX);
        match self.rng.below(100) {
            0..=5 => Fate::GivenUp(turns),
            6..=8 => Fate::Crash(turns),
            _ => Fate::Answered,
        }
    }
}

impl Real {
    /// Breaks an invariant on purpose, if this run is for that.
    pub(crate) fn bent(&self, mut write: ResourceWrite) -> ResourceWrite {
        match self.faults.as_ref().and_then(|it| it.bend) {
            None => {}
            Some(Bend::SkipVersion) => {
                let record = self.run(self.store.resource(write.next.id())).unwrap();
                write.version = record.version;
            }
            Some(Bend::TellLater) => write.event = None,
            Some(Bend::NameLater) => write.rows.clear(),
        }
        write
    }

    /// Commits, unless a fault is injected.
    pub(crate) fn risk(
        &mut self,
        commit: impl AsyncFnOnce(&Store) -> Result<(), Error>,
    ) -> Result<(), No> {
        let fate = self.faults.as_mut().map_or(Fate::Answered, FaultPhase::fate);
        let (turns, crashes) = match fate {
            Fate::Answered => (u64::MAX, false),
            Fate::GivenUp(turns) => (turns, false),
            Fate::Crash(turns) => (turns, true),
        };
        let answer = self.runtime.block_on(async {
            let mut commit = pin!(commit(&self.store));
            for _ in 0..turns {
                tokio::select! {
                    biased;
                    answer = &mut commit => return Some(answer),
                    () = tokio::task::yield_now(), if turns < u64::MAX => {}
                }
            }
            None
        });
        if let Some(faults) = &self.faults {
            let counts = if crashes { &faults.counts.crashed } else { &faults.counts.given_up };
            counts.fetch_add(u64::from(turns < u64::MAX), Ordering::Relaxed);
            faults.counts.was_done.fetch_add(u64::from(answer.is_some()), Ordering::Relaxed);
        }
        if crashes {
            self.reopen();
            return Err(No::Unavailable("the process died".to_owned()));
        }
        let Some(answer) = answer else {
            // A later write finds it done or not done.
            self.run(self.store.wake_labels(vec![Uuid::max()]))?;
            return Err(No::Unavailable("the answer".to_owned()));
        };
        answer.map_err(|error| no(&error))
    }

    /// The process dies, whatever it is doing, and another one opens the file.
    fn reopen(&mut self) {
        let (runtime, place) = (runtime(), self.database.place.clone());
        // The tasks of a runtime end with it, in the middle of whatever they do.
        self.runtime = Arc::new(runtime);
        let opened = self.runtime.block_on(async {
            loop {
                match Store::open(&place, settings()).await {
                    // The thread of the dead writer may take a moment to close the file.
                    Err(Error::InUse { .. }) => tokio::task::yield_now().await,
                    other => return other,
                }
            }
        });
        self.store = Arc::new(opened.unwrap());
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn settings() -> Settings {
    Settings {
        pace: PACE,
        request_bound: millis(REQUEST_BOUND),
        connections_max: 1,
        ..Settings::default()
    }
}

/// A database with everything that a declaration refers to, and its lock file, created once.
fn template() -> &'static [(&'static str, Vec<u8>); 2] {
    static TEMPLATE: OnceLock<[(&str, Vec<u8>); 2]> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let folder = Folder::in_memory();
        let place = Place::Sqlite(folder.0.join("usher.db"));
        runtime().block_on(async {
            Store::migrate(&place, Direction::Up).await.unwrap();
            let store = Arc::new(Store::open(&place, settings()).await.unwrap());
            World::on(&store, &ids()).await;
            store.close().await;
        });
        let read = |name| (name, std::fs::read(folder.0.join(name)).unwrap());
        ["usher.db", "usher.db.lock"].map(read)
    })
}

/// Simulates the run of a seed on a file of its own.
fn live(seed: u64, bend: Option<Bend>, counts: &Arc<FaultCounts>) -> Verdict {
    let database = TestDatabase::file_in(Folder::in_memory());
    let Place::Sqlite(path) = &database.place else { panic!("it is a file") };
    for (name, bytes) in template() {
        std::fs::write(path.with_file_name(name), bytes).unwrap();
    }
    let runtime = Arc::new(runtime());
    let opened = runtime.block_on(Store::open(&database.place, settings())).unwrap();
    let counts = Arc::clone(counts);
    let faults = Some(FaultPhase { rng: Rng::new(seed), next: Instant::now(), bend, counts });
    let (ids, database) = (ids(), Arc::new(database));
    let real = Real { runtime, store: Arc::new(opened), ids, database, faults };
    run_world(State::on(seed, Box::new(real), true))
}

/// Simulates many runs; the first that went wrong, with its log.
fn live_many(items: u64, bend: Option<Bend>) -> (Option<(u64, Verdict)>, u64, Arc<FaultCounts>) {
    let (next, counts, count) =
        (AtomicU64::new(0), Arc::new(FaultCounts::default()), AtomicU64::new(0));
    let wrong = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= items || wrong.lock().unwrap().is_some() {
                        return;
                    }
                    let verdict = live(seed, bend, &counts);
                    count.fetch_add(1, Ordering::Relaxed);
                    if verdict.wrong.is_some() {
                        wrong.lock().unwrap().get_or_insert((seed, verdict));
                    }
                }
            });
        }
    });
    (wrong.into_inner().unwrap(), count.into_inner(), counts)
}

/// Red by: each of the bends below.
// Requirement: Q-27
#[test]
fn simulated_runs_on_sqlite_converge() {
    let begun = Instant::now();
    let (wrong, lived, counts) = live_many(asked("USHER_SIMULATED_LIVES", SEEDS), None);
    if let Some((seed, verdict)) = wrong {
        let story = verdict.story.join("\n");
        panic!("seed {seed}: {:?}\n{story}", verdict.wrong);
    }
    let took = begun.elapsed().as_secs();
    eprintln!("{lived} runs on SQLite in {took} s, none wrong; {counts:?}");
    let count = |it: &AtomicU64| it.load(Ordering::Relaxed);
    assert!(
        count(&counts.crashed) >= lived / 10 && count(&counts.given_up) >= lived / 10,
        "{counts:?}"
    );
}

/// Red by: checkers that ignore what is in the file.
// Requirement: Q-27
#[test]
fn what_is_broken_on_purpose_is_noticed_on_sqlite() {
    for bend in [Bend::SkipVersion, Bend::TellLater, Bend::NameLater] {
        let (wrong, ..) = live_many(SEEDS, Some(bend));
        assert!(wrong.is_some(), "{bend:?} is not noticed");
        let (seed, verdict) = wrong.unwrap();
        eprintln!("{bend:?}: seed {seed}: {:?}", verdict.wrong);
    }
}
