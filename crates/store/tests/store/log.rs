//! The event log: no event is skipped or returned twice, and a deleted cursor is an error.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use sqlx::{Connection as _, PgConnection};
use usher_domain::broker::event::EventType;
use usher_domain::object::id::ResourceId;
use usher_kernel::Version;
use usher_store::{Command, Cursor, Error, LoggedEvent, Place, Store};
use uuid::Uuid;

use crate::asked;
use crate::declare::{World, marked};
use crate::test_store::{TestStore, of_resource, on_both, read_events};

/// Writes an event past the store, in whatever transaction the connection is in.
async fn insert_event(conn: &mut PgConnection) -> Uuid {
    let id = Uuid::now_v7();
    let sql = "INSERT INTO events (epoch, id, resource, project, version, type, occurred_at, data)
        VALUES (1, $1, $1, $1, 1, 'broker.ProvisionedResourceReady', now(), '{}')";
    sqlx::query(sql).bind(id).execute(conn).await.unwrap();
    id
}

async fn read(store: &Store, after: Cursor, count: usize) -> (Vec<Uuid>, Cursor) {
    let events = read_events(store, after, count).await;
    let cursor = events.last().map_or(after, |it| it.cursor);
    (events.iter().map(|it| *it.id.as_uuid()).collect(), cursor)
}

async fn connect(test: &TestStore) -> Option<PgConnection> {
    match &test.database.place {
        Place::Postgres(url) => Some(PgConnection::connect(url).await.unwrap()),
        Place::Sqlite(_) => None,
    }
}

/// Red by: a reader without the horizon (`xid < pg_snapshot_xmin(...)` taken out).
// Requirement: Q-1
#[tokio::test]
async fn an_event_waits_until_no_transaction_can_come_before_it() {
    on_both(async |test: TestStore| {
        let Some(mut slow) = connect(&test).await else { return };
        let mut fast = connect(&test).await.unwrap();
        let mut late = slow.begin().await.unwrap();
        let first = insert_event(&mut late).await;
        let second = insert_event(&mut fast).await;
        let (seen, cursor) = read(&test.store, Cursor::START, 0).await;
        assert!(seen.is_empty(), "the first one is not committed yet");
        late.commit().await.unwrap();
        assert_eq!(read(&test.store, cursor, 2).await.0, [first, second]);
    })
    .await;
}

/// Red by: a cursor of `seq` alone, with or without the horizon.
// Requirement: V-10, Q-1
#[tokio::test]
async fn an_event_with_a_smaller_number_and_a_later_transaction_is_not_lost() {
    on_both(async |test: TestStore| {
        let (Some(mut one), Some(mut two)) = (connect(&test).await, connect(&test).await) else {
            return;
        };
        let mut elder = one.begin().await.unwrap();
        sqlx::query("SELECT pg_current_xact_id()").execute(&mut *elder).await.unwrap();
        let mut younger = two.begin().await.unwrap();
        let small = insert_event(&mut younger).await;
        let large = insert_event(&mut elder).await;
        elder.commit().await.unwrap();
        let (seen, cursor) = read(&test.store, Cursor::START, 1).await;
        assert_eq!(seen, [large], "numbered second, committed first");
        younger.commit().await.unwrap();
        assert_eq!(read(&test.store, cursor, 1).await.0, [small]);
    })
    .await;
}

/// Red by: an order of the numbers' texts, in which a number with one more digit comes first.
// Requirement: Q-1
#[tokio::test]
async fn transactions_are_read_in_the_order_of_their_numbers() {
    on_both(async |test: TestStore| {
        let Some(mut conn) = connect(&test).await else { return };
        let mut written = vec![];
        for xid in ["9", "10", "99", "100"] {
            let id = Uuid::now_v7();
            let sql = "INSERT INTO events
                (epoch, xid, id, resource, project, version, type, occurred_at, data)
                VALUES (1, $2::text::xid8, $1, $1, $1, 1, 'broker.ProvisionedResourceReady',
                    now(), '{}')";
            sqlx::query(sql).bind(id).bind(xid).execute(&mut conn).await.unwrap();
            written.push(id);
        }
        let (mut seen, mut cursor) = (vec![], Cursor::START);
        for _ in 0..written.len() {
            let events = test.store.events(cursor, 1).await.unwrap();
            cursor = events.last().map_or(cursor, |it| it.cursor);
            seen.extend(events.iter().map(|it| *it.id.as_uuid()));
        }
        assert_eq!(seen, written);
    })
    .await;
}

/// How long the load phase of the tests lasts, in seconds, unless it is set otherwise.
const STORM: u64 = 2;

/// One writer: it declares, commits transitions, and requests deletion, until the time is over.
/// What was acknowledged is returned.
async fn write(world: World, number: usize, until: Instant) -> Vec<(ResourceId, Version)> {
    let mut acknowledged = vec![];
    let mut turn = 0;
    while Instant::now() < until {
        let id = world.declare(&format!("w{number}-{turn}")).await.id();
        acknowledged.push((id, Version(1)));
        let mut record = world.store.resource(id).await.unwrap();
        for _ in 0..6 {
            world.store.commit(marked(&record)).await.unwrap();
            record = world.store.resource(id).await.unwrap();
            if record.version.0.is_multiple_of(2) {
                acknowledged.push((id, record.version));
            }
        }
        world.store.command(id, Command::Deprovision, None).await.unwrap();
        acknowledged.push((id, record.version.next()));
        turn += 1;
    }
    acknowledged
}

/// Red by: either of the above, if the load happens to hit it.
// Requirement: Q-1
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_and_four_readers_lose_nothing() {
    let faults = Duration::from_secs(asked("USHER_STORM_SECONDS", STORM));
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        world.declare("first").await;
        let (done, until) = (Arc::new(AtomicUsize::new(0)), Instant::now() + faults);
        let readers: Vec<_> = (0..4)
            .map(|_| tokio::spawn(follow(Arc::clone(&test.store), Arc::clone(&done))))
            .collect();
        let writers: Vec<_> =
            (0..16).map(|it| tokio::spawn(write(world.clone(), it, until))).collect();
        let mut acknowledged = BTreeSet::new();
        for writer in writers {
            acknowledged.extend(writer.await.unwrap());
        }
        let written = acknowledged.len() + 1;
        done.store(written, Ordering::SeqCst);
        for reader in readers {
            let events = reader.await.unwrap();
            assert_eq!(events.len(), written, "every event is read once");
            let ids: BTreeSet<_> = events.iter().map(|it| it.id).collect();
            assert_eq!(ids.len(), written, "and no other one twice");
            let mut items: BTreeMap<ResourceId, Vec<Version>> = BTreeMap::new();
            for it in &events {
                items.entry(of_resource(it).0).or_default().push(it.version);
            }
            for (id, versions) in &items {
                assert!(versions.is_sorted(), "{id}: {versions:?}");
            }
            let missing = acknowledged.iter().find(|(id, version)| {
                items.get(id).is_none_or(|versions| !versions.contains(version))
            });
            assert_eq!(missing, None, "it was acknowledged");
        }
        eprintln!("16 writers, 4 readers, {faults:?}: {written} events, each read once by each");
    })
    .await;
}

/// Reads until the writers are done and so many were read.
async fn follow(store: Arc<Store>, done: Arc<AtomicUsize>) -> Vec<LoggedEvent> {
    let mut cursor = Cursor::START;
    let mut all = vec![];
    // Other tests may delay the last ones, so there are a few more reads.
    let mut polls = 24_000;
    loop {
        let written = done.load(Ordering::SeqCst);
        let events = store.events(cursor, 7).await.unwrap();
        if written > 0 && events.is_empty() {
            polls -= 1;
            if all.len() >= written || polls == 0 {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cursor = events.last().map_or(cursor, |it| it.cursor);
        all.extend(events);
        tokio::task::yield_now().await;
    }
}

/// Red by: rows that are deleted without moving the floor.
// Requirement: Q-9
#[tokio::test]
async fn a_reader_behind_the_floor_gets_an_error() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for name in ["a", "b", "c"] {
            world.declare(name).await;
        }
        let events = read_events(&test.store, Cursor::START, 3).await;
        let (first, second) = (events[0].cursor, events[1].cursor);
        let long_ago = events[0].occurred_at;
        assert_eq!(test.store.forget_events(long_ago, 10).await.unwrap(), 0, "none is older");
        let now = test.store.now().await.unwrap().after(Duration::from_secs(1));
        assert_eq!(test.store.forget_events(now, 2).await.unwrap(), 2);
        let refused = test.store.events(first, 10).await.unwrap_err();
        let (after, floor) = (first, second);
        assert!(
            matches!(refused, Error::Forgotten { after: a, floor: f } if (a, f) == (after, floor))
        );
        let rest = test.store.events(second, 10).await.unwrap();
        assert_eq!(rest, events[2..], "a reader at that cursor misses nothing");
        assert_eq!(test.store.events(Cursor::START, 10).await.unwrap(), events[2..]);
    })
    .await;
}

/// Red by: a payload without its subject or object, or with a secret.
// Requirement: V-9
#[tokio::test]
async fn an_event_holds_its_subject_type_time_and_version() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let resource = world.declare("web").await;
        test.store.command(resource.id(), Command::Deprovision, None).await.unwrap();
        let (again, _) =
            test.store.command(resource.id(), Command::Deprovision, None).await.unwrap();
        assert!(again.deletion_requested_at().is_some());
        let events = read_events(&test.store, Cursor::START, 2).await;
        let types: Vec<_> = events.iter().map(|it| (of_resource(it).2, it.version)).collect();
        let expected = [(EventType::Requested, Version(1)), (EventType::Deleting, Version(2))];
        assert_eq!(types, expected, "a repeated command emits no event");
        for it in events {
            let (about, project, _) = of_resource(&it);
            assert_eq!((about, project), (resource.id(), world.project));
            assert!(it.occurred_at >= resource.fields().created_at);
            assert_eq!(it.data["name"], "web");
            assert_eq!(it.data["xr_name"], resource.pinned().xr_name);
        }
    })
    .await;
}
