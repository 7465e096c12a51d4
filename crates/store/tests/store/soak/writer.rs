//! The process that is killed: several tasks that declare, claim, commit, wake, retire and end.
//!
//! A commit to version `v` writes three marks in one transaction: the phase is `Ready` if `v` is
//! even, `Ready` is emitted with it then, and the evidence of the first name is `v`.

use std::io::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use usher_domain::broker::phase::Phase;
use usher_domain::object::id::ResourceId;
use usher_kernel::schedule::Pace;
use usher_kernel::{Trouble, Wake};
use usher_sim::rng::Rng;
use usher_store::{Command, Held, Leased, Place, Release, Settings, Store, WorkItem};
use uuid::Uuid;

use super::Bend;
use super::journal::Line;
use crate::declare::{World, ending, marked};
use crate::test_store::TestDatabase;
use crate::variable;

/// How many tasks write.
const TASKS: u64 = 6;
/// How many resources they are about.
const RESOURCES: usize = 24;
/// Leases end within a round, so that some are given twice.
const PACE: Pace = Pace {
    lease: Duration::from_millis(40),
    base: Duration::from_millis(2),
    max: Duration::from_millis(20),
};

struct Writer {
    world: World,
    test_database: Arc<TestDatabase>,
    bend: Option<Bend>,
    known: Arc<Mutex<Vec<ResourceId>>>,
    random: Rng,
}

fn say(line: &Line) {
    // One write per line: a killed process wrote whole lines, and at most one partial line at the
    // end.
    let _ = std::io::stdout().write_all(line.to_string().as_bytes());
    let _ = std::io::stdout().flush();
}

impl Writer {
    async fn write(&mut self) {
        match self.random.below(10) {
            0 => self.declare().await,
            1 => self.retire().await,
            2 | 3 => self.wake().await,
            _ => self.work().await,
        }
    }

    fn one(&mut self) -> Option<ResourceId> {
        let known = self.known.lock().unwrap();
        let place = self.random.below(known.len().max(1) as u64);
        known.get(usize::try_from(place).unwrap()).copied()
    }

    async fn declare(&mut self) {
        let name = format!("n{}", Uuid::now_v7().simple());
        if let Ok(made) = self.world.try_declare(&name).await {
            say(&Line::Accepted(made.id()));
            let mut known = self.known.lock().unwrap();
            known.push(made.id());
            if known.len() > RESOURCES {
                known.remove(0);
            }
        }
    }

    async fn retire(&mut self) {
        let Some(id) = self.one() else { return };
        if self.random.percent(30)
            && self.world.store.command(id, Command::Deprovision, None).await.is_ok()
        {
            say(&Line::Retired(id));
        }
    }

    async fn wake(&mut self) {
        let Some(id) = self.one() else { return };
        let item = WorkItem::Resource(id);
        if matches!(self.world.store.wake(item).await, Ok(true)) {
            say(&Line::Woken(item));
        }
    }

    async fn work(&mut self) {
        let Ok(batch) = self.world.store.claim_due(3).await else { return };
        for leased in batch.leased {
            let (claim, micros) = (leased.claim, leased.now.as_micros());
            let (fence, seq) = (claim.fence.0.cast_signed(), claim.wake_seq.cast_signed());
            say(&Line::Leased(leased.item, [fence, seq, micros, claim.until.as_micros()]));
            if self.bend == Some(Bend::DoubleLease) && self.random.percent(20) {
                self.test_database.execute("UPDATE queue SET lease_until = NULL, due = 0").await;
            }
            self.step(leased).await;
        }
    }

    async fn step(&mut self, leased: Leased) {
        let Held::Resource(record) = &leased.record else {
            return self.give_back(&leased).await;
        };
        let id = record.state.id();
        let leaving = record.state.deletion_requested_at().is_some();
        let mut write = match (leased.item, leaving) {
            (WorkItem::Resource(_), false) => marked(record),
            (WorkItem::Resource(_), true) if record.state.phase() != Phase::Deleted => {
                ending(record)
            }
            _ => return self.give_back(&leased).await,
        };
        let version = write.version.next().0;
        let rides = self.random.percent(50);
        if rides {
            say(&Line::Returning(leased.item, leased.claim.fence.0));
            write.release = Some(self.release(&leased).await);
        }
        let acknowledge = || {
            let line = if leaving { Line::Ended } else { Line::Committed };
            say(&line(id, version));
        };
        let later = write.event.take_if(|_| self.bend == Some(Bend::TellLater) && !leaving);
        if self.bend == Some(Bend::AckEarly) {
            acknowledge();
        }
        if self.world.store.commit(write).await.is_err() {
            return;
        }
        if later.is_some() {
            self.tell(id, version).await;
        }
        acknowledge();
        if !rides {
            self.give_back(&leased).await;
        }
    }

    /// Writes an event past the store, in a transaction of its own.
    async fn tell(&self, id: ResourceId, version: u64) {
        tokio::time::sleep(Duration::from_millis(3)).await;
        let [event, id] = [Uuid::now_v7(), *id.as_uuid()].map(|it| self.test_database.id(it));
        let now = if self.test_database.is_postgres() { "now()" } else { "0" };
        self.test_database
            .execute(&format!(
                "INSERT INTO events (epoch, id, resource, project, version, type, occurred_at, data)
                SELECT 1, {event}, {id}, project, {version}, 'broker.ProvisionedResourceReady',
                    {now}, '{{\"generation\": 1}}' FROM resources WHERE id = {id}"
            ))
            .await;
    }

    async fn release(&mut self, leased: &Leased) -> Release {
        let (item, mut claim) = (leased.item, leased.claim);
        if self.bend == Some(Bend::LoseWakeUp)
            && let Ok(Some(entry)) = self.world.store.entry(item).await
        {
            claim.wake_seq = entry.wake_seq;
        }
        let wake = if self.random.percent(60) { Wake::OnChange } else { Wake::Now };
        let reason =
            if matches!(item, WorkItem::Tombstone(_)) { "NothingReturned" } else { "AsDeclared" };
        Release { item, claim, wake, reason }
    }

    async fn give_back(&mut self, leased: &Leased) {
        // Some are never released, as if their worker had died.
        if self.random.percent(10) {
            return;
        }
        say(&Line::Returning(leased.item, leased.claim.fence.0));
        // A lease that cannot be released ends by itself.
        if self.random.percent(20) {
            let trouble = Trouble::unavailable("the outside".to_owned());
            let _ = self.world.store.postpone(leased.item, leased.claim, trouble, None).await;
        } else {
            let release = self.release(leased).await;
            let _ = self.world.store.release(release).await;
        }
    }
}

/// Not a test of its own: what the killed process does, if it is one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_until_killed() {
    let Some(path) = variable("USHER_SOAK_PLACE") else { return };
    let place = match variable("USHER_SOAK_KIND").as_deref() {
        Some("postgres") => Place::Postgres(path),
        _ => Place::Sqlite(path.into()),
    };
    let round: u64 = variable("USHER_SOAK_ROUND").unwrap().parse().unwrap();
    let bend = variable("USHER_SOAK_BEND").as_deref().and_then(Bend::read);
    let settings = Settings { pace: PACE, ..Settings::default() };
    let store = Arc::new(Store::open(&place, settings).await.unwrap());
    let world = World::new(&store).await;
    let (known, test_database) = (Arc::default(), Arc::new(TestDatabase::borrowed(place)));
    let mut tasks = tokio::task::JoinSet::new();
    for task in 0..TASKS {
        let mut writer = Writer {
            world: world.clone(),
            test_database: Arc::clone(&test_database),
            bend,
            known: Arc::clone(&known),
            random: Rng::new(round * TASKS + task),
        };
        tasks.spawn(async move {
            loop {
                writer.write().await;
            }
        });
    }
    // No task ends by itself, unless something is wrong.
    let ended = tasks.join_next().await;
    panic!("a task has ended: {ended:?}");
}
