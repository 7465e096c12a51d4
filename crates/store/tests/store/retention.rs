//! Retention: only old events that every sink has received are deleted, in batches.

use std::time::Duration;

use usher_domain::sinks::Parked;
use usher_kernel::Wake;
use usher_store::{
    Beginning, Cursor, Error, Release, Retention, RoundEnd, Settlement, Swept, WorkItem,
};

use crate::declare::{World, ending};
use crate::sink::Receiver;
use crate::test_store::{TestStore, on_both, read_events};

/// Keeps nothing that may go, two rows at a time.
const NOTHING: Retention =
    Retention { events: Duration::ZERO, batch: 2, rest: Duration::from_mins(1) };

/// Red by: a sweep that considers only one of age and sinks, or takes all in one batch.
// Requirement: Y-12
#[tokio::test]
async fn events_are_deleted_when_old_and_delivered_to_every_sink() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for turn in 0..5 {
            world.declare(&format!("r{turn}")).await;
        }
        let all = read_events(&test.store, Cursor::START, 5).await;
        let kept = test.store.sweep(Retention::default()).await.unwrap();
        assert_eq!(kept, Swept::default(), "nothing is old");
        let receiver = Receiver::new().await;
        let (slow, quick) = (receiver.sink("slow", None), receiver.sink("quick", None));
        test.store.create_sink(slow.clone(), Beginning::Oldest).await.unwrap();
        test.store.create_sink(quick, Beginning::Now).await.unwrap();
        let held = test.store.sweep(NOTHING).await.unwrap();
        assert_eq!((held.events, held.held_by.as_deref()), (0, Some("slow")));
        let lease = test.store.lease_sink(slow.name.clone(), Duration::from_secs(9)).await.unwrap();
        let (lease, cursor) = (lease.unwrap(), all[2].cursor);
        let end = RoundEnd::Park { why: Parked::Gone, trouble: "it answered 410".to_owned() };
        assert!(test.store.settle_sink(Settlement { lease, cursor, end }).await.unwrap());
        let swept = test.store.sweep(NOTHING).await.unwrap();
        assert_eq!((swept.events, swept.more), (2, true));
        assert_eq!(swept.next(&NOTHING), Duration::ZERO);
        let swept = test.store.sweep(NOTHING).await.unwrap();
        assert_eq!((swept.events, swept.held_by.as_deref()), (1, Some("slow")));
        assert_eq!(swept.next(&NOTHING), NOTHING.rest);
        assert_eq!(test.store.events(cursor, 9).await.unwrap(), all[3..], "the sink reads on");
        let refused = test.store.events(all[1].cursor, 9).await.unwrap_err();
        assert!(matches!(refused, Error::Forgotten { floor, .. } if floor == cursor), "{refused}");
        let refused = test.store.resume_sink(slow.name.clone(), Some(all[0].cursor)).await;
        assert!(matches!(refused, Err(Error::Forgotten { .. })));
        test.store.delete_sink(slow.name).await.unwrap();
        assert_eq!(test.store.sweep(NOTHING).await.unwrap().events, 2);
        assert_eq!(test.store.log_end().await.unwrap(), all[4].cursor, "the place stays");
    })
    .await;
}

/// Red by: a query for old tombstones that a database refuses, or that takes young ones.
// Requirement: T-19
#[tokio::test]
async fn old_tombstones_are_woken_oldest_first() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let mut items = vec![];
        for name in ["old", "young"] {
            let id = world.declare(name).await.id();
            let record = test.store.resource(id).await.unwrap();
            test.store.commit(ending(&record)).await.unwrap();
            let item = WorkItem::Tombstone(id);
            let claim = world.claim(item).await.claim;
            let release = Release { item, claim, wake: Wake::OnChange, reason: "Gone" };
            test.store.release(release).await.unwrap();
            items.push(item);
        }
        let are_due = async || {
            let mut due = vec![];
            for item in &items {
                due.push(test.store.entry(*item).await.unwrap().unwrap().due.is_some());
            }
            due
        };
        let hour = Duration::from_hours(1);
        assert_eq!(test.store.wake_tombstones(hour, 9).await.unwrap(), 0);
        assert_eq!(are_due().await, [false, false]);
        assert_eq!(test.store.wake_tombstones(Duration::ZERO, 1).await.unwrap(), 1);
        assert_eq!(are_due().await, [true, false]);
        assert_eq!(test.store.wake_tombstones(Duration::ZERO, 9).await.unwrap(), 2);
        assert_eq!(are_due().await, [true, true]);
    })
    .await;
}

/// Red by: a floor that a late run sets back.
// Requirement: Y-13
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_floor_never_goes_back() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for turn in 0..40 {
            world.declare(&format!("r{turn}")).await;
        }
        let all = read_events(&test.store, Cursor::START, 40).await;
        let later = test.store.now().await.unwrap().after(Duration::from_secs(1));
        let sweepers: Vec<_> = (1..=8)
            .map(|batch| {
                let store = std::sync::Arc::clone(&test.store);
                tokio::spawn(async move {
                    for _ in 0..10 {
                        store.forget_events(later, batch).await.unwrap();
                    }
                })
            })
            .collect();
        for sweeper in sweepers {
            sweeper.await.unwrap();
        }
        let last = all[39].cursor;
        assert_eq!(test.store.log_end().await.unwrap(), last, "all of them are gone");
        let refused = test.store.events(all[38].cursor, 9).await.unwrap_err();
        assert!(matches!(refused, Error::Forgotten { floor, .. } if floor == last), "{refused}");
    })
    .await;
}

/// Red by: a follower that is not woken, skips events, or polls all the time.
// Requirement: Y-11
#[tokio::test]
async fn a_follower_of_the_log_is_woken_by_a_new_event() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let mut follower = test.store.follow(Cursor::START);
        let waiting = tokio::time::timeout(Duration::from_millis(50), follower.next(9)).await;
        assert!(waiting.is_err(), "there is nothing");
        let (events, resource) = tokio::join!(follower.next(9), Box::pin(world.declare("a")));
        assert_eq!(events.unwrap()[0].about.resource(), Some(resource.id()));
        world.declare("b").await;
        assert_eq!(follower.next(9).await.unwrap()[0].data["name"], "b");
        assert_eq!(follower.cursor(), test.store.log_end().await.unwrap());
    })
    .await;
}
