//! The due-queue: the database's clock, wake-ups that are never lost, attempts at the claim, and
//! statements that match the kernel's rules for one entry.

use std::sync::Arc;
use std::time::Duration;

use usher_domain::broker::phase::Phase;
use usher_kernel::schedule::{Claim, Entry, Jitter, Pace};
use usher_kernel::{Timestamp, Trouble, Wake};
use usher_store::migrate::Direction;
use usher_store::{Command, Place, Release, Settings, Store, WorkItem};

use crate::declare::{World, record, write};
use crate::test_store::{TestDatabase, TestStore, on_both, on_both_with};

const REASON: &str = "AsDeclared";

fn release(item: WorkItem, claim: Claim, wake: Wake) -> Release {
    Release { item, claim, wake, reason: REASON }
}

/// Red by: a write for an external change that the next lease holder sees anyway.
#[tokio::test]
async fn an_external_change_writes_nothing_for_an_item_that_is_due() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let item = WorkItem::Resource(id);
        let before = test.store.entry(item).await.unwrap();
        assert_eq!(test.store.wake_labels(vec![*id.as_uuid()]).await.unwrap(), 1, "it is due");
        assert_eq!(test.store.entry(item).await.unwrap(), before);
        world.claim(item).await;
        let claimed = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!(test.store.wake_labels(vec![*id.as_uuid()]).await.unwrap(), 1);
        let woken = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!(woken.wake_seq, claimed.wake_seq + 1, "the lease holder must observe again");
    })
    .await;
}

/// Red by: `Utc::now()` of this process anywhere in a claim; the database is a day ahead here.
// Requirement: W-12
#[tokio::test]
async fn leases_and_the_present_come_from_the_clock_of_the_database() {
    on_both(async |test: TestStore| {
        let Place::Postgres(url) = &test.database.place else { return };
        test.database
            .execute(
                "CREATE SCHEMA ahead;
                CREATE FUNCTION ahead.statement_timestamp() RETURNS timestamptz STABLE LANGUAGE sql
                    AS $$ SELECT pg_catalog.statement_timestamp() + interval '1 day' $$",
            )
            .await;
        let here = test.store.now().await.unwrap();
        let url = format!("{url}&options=-csearch_path=public,ahead,pg_catalog");
        let ahead = Store::open(&Place::Postgres(url), Settings::default()).await.unwrap();
        let world = World::new(&Arc::new(ahead)).await;
        let resource = world.declare("web").await;
        let leased = world.claim(WorkItem::Resource(resource.id())).await;
        let day = Duration::from_hours(24);
        assert!(leased.now >= here.after(day), "the step's now is the database's");
        assert_eq!(leased.claim.until, leased.now.after(Pace::default().lease));
        assert!(resource.fields().created_at >= here.after(day));
        let entry = test.store.entry(leased.item).await.unwrap().unwrap();
        assert_eq!(entry.lease_until, Some(leased.claim.until));
    })
    .await;
}

/// Red by: a clock of this process; only ids may be minted with it.
// Requirement: W-12
#[test]
fn no_source_of_the_store_reads_the_process_clock() {
    for (path, text) in sources() {
        for clock in ["SystemTime", "Instant::now", "OffsetDateTime", "Utc::now"] {
            assert!(!text.contains(clock), "{path} reads {clock}");
        }
    }
}

/// The lock of a server's presence: each has its own number, so that no session waits for it.
const PRESENCE: &str = "pg_advisory_lock(1970497650, number::integer)";

/// Red by: another advisory lock or a notification in any statement.
// Requirement: Q-2
#[test]
fn no_statement_serialises_the_commits() {
    for (path, text) in sources() {
        let text = text.replace(PRESENCE, "");
        for word in ["pg_advisory", "pg_try_advisory", "pg_notify", "NOTIFY ", "LISTEN "] {
            assert!(!text.contains(word), "{path} holds {word}");
        }
    }
}

/// Every file of the store, with its text.
fn sources() -> Vec<(String, String)> {
    let root = env!("CARGO_MANIFEST_DIR");
    let mut folders = vec![format!("{root}/src"), format!("{root}/migrations")];
    let mut files = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.to_str().unwrap().to_owned();
            if path.is_dir() {
                folders.push(name);
            } else {
                files.push((name, std::fs::read_to_string(path).unwrap()));
            }
        }
    }
    assert!(files.len() > 20, "the sources were not found");
    files
}

/// Red by: a release that considers the decision only (`wake_seq <> $4` taken out).
// Requirement: Q-3
#[tokio::test]
async fn a_wake_up_during_a_step_is_never_lost() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let far = test.store.now().await.unwrap().after(Duration::from_hours(1));
        for (index, wake) in
            [Wake::OnChange, Wake::Never, Wake::At(far), Wake::Now].into_iter().enumerate()
        {
            let item = WorkItem::Resource(world.declare(&format!("r{index}")).await.id());
            let leased = world.claim(item).await;
            assert!(test.store.wake(item).await.unwrap());
            test.store.release(release(item, leased.claim, wake)).await.unwrap();
            let again = world.claim(item).await;
            test.store.release(release(item, again.claim, Wake::OnChange)).await.unwrap();
            assert_eq!(test.store.entry(item).await.unwrap().unwrap().due, None, "{wake:?}");
        }
        let item = WorkItem::Resource(world.declare("in-trouble").await.id());
        let leased = world.claim(item).await;
        test.store.wake(item).await.unwrap();
        let trouble = Trouble::Rejected { what: "it".to_owned() };
        test.store.postpone(item, leased.claim, trouble, None).await.unwrap();
        world.claim(item).await;
    })
    .await;
}

/// Red by: a commit that releases the lease and ignores wake-ups.
// Requirement: Q-3
#[tokio::test]
async fn a_wake_up_during_a_step_survives_its_commit() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let leased = world.claim(item).await;
        test.store.wake(item).await.unwrap();
        let mut step = write(record(&leased), |it| it.phase = Phase::Provisioning, None);
        step.release = Some(release(item, leased.claim, Wake::OnChange));
        test.store.commit(step).await.unwrap();
        let again = world.claim(item).await;
        assert_eq!(record(&again).state.phase(), Phase::Provisioning);
        assert_eq!(again.claim.attempt, 1, "a finished step starts the count again");
    })
    .await;
}

/// Red by: attempts that are counted when a step ends.
// Requirement: Q-4
#[tokio::test]
async fn an_item_that_kills_its_worker_is_counted_and_backs_off() {
    let pace = Pace {
        lease: Duration::ZERO,
        base: Duration::from_hours(1_000),
        max: Duration::from_hours(10_000),
    };
    on_both_with(Settings { pace, ..Settings::default() }, async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let first = world.claim(item).await;
        assert_eq!(first.claim.attempt, 1);
        let entry = test.store.entry(item).await.unwrap().unwrap();
        assert_eq!(entry.attempts, 1, "although the lease was not released");
        let due = entry.due.unwrap();
        assert!(due > first.now, "its lease is over and it is not due");
        assert!(test.store.claim_due(10).await.unwrap().leased.iter().all(|it| it.item != item));
        test.store.wake(item).await.unwrap();
        let second = world.claim(item).await;
        assert_eq!(second.claim.attempt, 2);
        assert!(first.claim.fence < second.claim.fence);
        let late = release(item, first.claim, Wake::Never);
        let before = test.store.entry(item).await.unwrap();
        test.store.release(late).await.unwrap();
        assert_eq!(test.store.entry(item).await.unwrap(), before, "its fence is too old");
    })
    .await;
}

/// Red by: a claim that does not lock what it selects.
// Requirement: Q-6
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_item_is_claimed_twice_under_a_live_lease() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for index in 0..40 {
            world.declare(&format!("r{index}")).await;
        }
        let drivers: Vec<_> = (0..8)
            .map(|_| {
                let store = Arc::clone(&test.store);
                tokio::spawn(async move {
                    let mut mine = vec![];
                    for _ in 0..20 {
                        let batch = store.claim_due(3).await.unwrap();
                        mine.extend(batch.leased.into_iter().map(|it| it.item));
                    }
                    mine
                })
            })
            .collect();
        let mut all = vec![];
        for driver in drivers {
            all.extend(driver.await.unwrap());
        }
        all.sort();
        let count = all.len();
        all.dedup();
        assert_eq!((all.len(), count), (41, 41), "40 resources and their ProviderConfig");
    })
    .await;
}

/// Red by: a selection of due items that ignores their leases.
// Requirement: Q-6
#[tokio::test]
async fn items_woken_under_their_lease_hide_no_other_item() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for name in ["a", "b"] {
            world.declare(name).await;
        }
        let leased = test.store.claim_due(3).await.unwrap().leased;
        assert_eq!(leased.len(), 3, "two resources and their ProviderConfig");
        for it in &leased {
            test.store.wake(it.item).await.unwrap();
        }
        let last = WorkItem::Resource(world.declare("c").await.id());
        let batch = test.store.claim_due(1).await.unwrap();
        assert_eq!(batch.leased.iter().map(|it| it.item).collect::<Vec<_>>(), [last]);
    })
    .await;
}

/// One turn of the comparison with the kernel's rules.
struct Twin {
    store: Arc<Store>,
    world: World,
    item: WorkItem,
    pace: Pace,
    claim: Option<Claim>,
}

impl Twin {
    async fn entry(&self) -> Entry {
        self.store.entry(self.item).await.unwrap().unwrap()
    }

    /// Does the same to the row and, at both ends of the time it took, to the rules.
    async fn turn(&mut self, number: u64) {
        let before = self.entry().await;
        let begun = self.store.now().await.unwrap();
        let act = self.act(number).await;
        let ended = self.store.now().await.unwrap();
        let after = self.entry().await;
        let apply = |jitter, now| {
            let mut entry = before.clone();
            act(&mut entry, jitter, now);
            entry
        };
        let (low, high) = (apply(Jitter(0), begun), apply(Jitter(u32::MAX), ended));
        let numbers = |it: &Entry| (it.fence, it.attempts, it.wake_seq, it.parked);
        if numbers(&low) != numbers(&high) {
            // It became due while this was done: either is right.
            let either = [numbers(&low), numbers(&high)].contains(&numbers(&after));
            assert!(either, "turn {number}: {before:?} became {after:?}");
            return;
        }
        assert_eq!(numbers(&after), numbers(&low), "turn {number}: {before:?}");
        let times = |it: &Entry| [it.due, it.lease_until, it.unreturned_until];
        for ((low, found), high) in times(&low).into_iter().zip(times(&after)).zip(times(&high)) {
            let within = low <= found && found <= high && low.is_some() == found.is_some();
            assert!(within, "turn {number}: {before:?} became {after:?}");
        }
    }

    async fn act(&mut self, number: u64) -> Box<dyn Fn(&mut Entry, Jitter, Timestamp)> {
        let (pace, item) = (self.pace, self.item);
        match (number % 7, self.claim) {
            (0 | 1, _) | (2 | 3, None) => {
                let batch = self.store.claim_due(64).await.unwrap();
                let leased = batch.leased.into_iter().find(|it| it.item == item);
                self.claim = leased.map(|it| it.claim).or(self.claim);
                Box::new(move |entry, jitter, now| {
                    let _ = entry.claim(&pace, jitter, now);
                })
            }
            (2, Some(claim)) => {
                let far = self.store.now().await.unwrap().after(Duration::from_secs(9));
                let wakes = [Wake::Now, Wake::OnChange, Wake::Never, Wake::At(far)];
                let wake = wakes[usize::try_from(number / 7 % 4).unwrap()];
                self.store.release(release(item, claim, wake)).await.unwrap();
                Box::new(move |entry, _, now| entry.release(&claim, wake, now))
            }
            (3, Some(claim)) => {
                let what = "it".to_owned();
                let troubles = [
                    Trouble::Conflict,
                    Trouble::unavailable(what.clone()),
                    Trouble::Rejected { what: what.clone() },
                    Trouble::Corrupt { what },
                ];
                let trouble = troubles[usize::try_from(number / 7 % 4).unwrap()].clone();
                self.store.postpone(item, claim, trouble.clone(), None).await.unwrap();
                Box::new(move |entry, jitter, now| {
                    entry.postpone(&claim, &trouble, &pace, (jitter, now));
                })
            }
            (4, _) => {
                let WorkItem::Resource(id) = item else { panic!("{item}") };
                self.world.store.command(id, Command::Retry, None).await.unwrap();
                Box::new(|entry, _, now| entry.unpark(now))
            }
            (_, _) => {
                self.store.wake(item).await.unwrap();
                Box::new(|entry, _, now| entry.wake(now))
            }
        }
    }
}

/// Red by: any statement of the queue that differs from the kernel's rules.
// Requirement: Q-5
#[tokio::test]
async fn the_statements_of_the_queue_match_the_kernels_rules() {
    for lease in [Duration::ZERO, Duration::from_secs(30)] {
        let pace = Pace { lease, base: Duration::from_micros(10), max: Duration::from_micros(99) };
        on_both_with(Settings { pace, ..Settings::default() }, async |test: TestStore| {
            let world = World::new(&test.store).await;
            let item = WorkItem::Resource(world.declare("web").await.id());
            let store = Arc::clone(&test.store);
            let mut twin = Twin { store, world, item, pace, claim: None };
            let mut number: u64 = 12_345;
            for _ in 0..150 {
                number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                twin.turn(number >> 33).await;
            }
        })
        .await;
    }
}

/// Red by: a start that waits for the lease of a dead process, or loses that it was held.
// Requirement: W-6
#[tokio::test]
async fn a_reopened_file_has_no_leases_of_a_dead_process() {
    let test_database = TestDatabase::sqlite();
    Store::migrate(&test_database.place, Direction::Up).await.unwrap();
    let store = Arc::new(Store::open(&test_database.place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    let leased = world.claim(WorkItem::Resource(world.declare("web").await.id())).await;
    let held = store.entry(leased.item).await.unwrap().unwrap();
    assert!(held.is_leased(store.now().await.unwrap()));
    store.close().await;
    drop((world, store));
    let again = Store::open(&test_database.place, Settings::default()).await.unwrap();
    let now = again.now().await.unwrap();
    let ended = again.entry(leased.item).await.unwrap().unwrap();
    let at = ended.lease_until.unwrap();
    assert!(at <= now && !ended.is_leased(now));
    let mut expected = held;
    expected.end_lease(at);
    assert_eq!(ended, expected, "as the kernel's rule requires");
}
