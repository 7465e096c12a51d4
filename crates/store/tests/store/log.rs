//! The event log: nothing is skipped, nothing comes twice, what is forgotten is said.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use usher_domain::broker::event::EventType;
use usher_domain::object::id::ResourceId;
use usher_kernel::Version;
use usher_store::{Cursor, Error, Order, Place, Store, Told};
use uuid::Uuid;

use crate::bed::{Bed, on_both, told};
use crate::declare::World;

/// Writes an event past the store, in whatever transaction the connection is in.
async fn insert_event(conn: &mut PgConnection) -> Uuid {
    let id = Uuid::now_v7();
    let sql = "INSERT INTO events (epoch, id, resource, project, version, type, occurred_at, data)
        VALUES (1, $1, $1, $1, 1, 'broker.ProvisionedResourceReady', now(), '{}')";
    sqlx::query(sql).bind(id).execute(conn).await.unwrap();
    id
}

async fn read(store: &Store, after: Cursor, count: usize) -> (Vec<Uuid>, Cursor) {
    let told = told(store, after, count).await;
    let cursor = told.last().map_or(after, |it| it.cursor);
    (told.iter().map(|it| *it.id.as_uuid()).collect(), cursor)
}

async fn connect(bed: &Bed) -> Option<PgConnection> {
    match &bed.ground.place {
        Place::Postgres(url) => Some(PgConnection::connect(url).await.unwrap()),
        Place::Sqlite(_) => None,
    }
}

/// Red by: a reader without the horizon (`xid < pg_snapshot_xmin(...)` taken out).
#[tokio::test]
async fn an_event_waits_until_nobody_can_come_before_it() {
    on_both(async |bed: Bed| {
        let Some(mut slow) = connect(&bed).await else { return };
        let mut fast = connect(&bed).await.unwrap();
        let mut late = slow.begin().await.unwrap();
        let first = insert_event(&mut late).await;
        let second = insert_event(&mut fast).await;
        let (seen, cursor) = read(&bed.store, Cursor::START, 0).await;
        assert!(seen.is_empty(), "the first one is not committed yet");
        late.commit().await.unwrap();
        assert_eq!(read(&bed.store, cursor, 2).await.0, [first, second]);
    })
    .await;
}

/// Red by: a cursor of `seq` alone, with or without the horizon.
#[tokio::test]
async fn an_event_with_a_smaller_number_and_a_later_transaction_is_not_lost() {
    on_both(async |bed: Bed| {
        let (Some(mut one), Some(mut two)) = (connect(&bed).await, connect(&bed).await) else {
            return;
        };
        let mut elder = one.begin().await.unwrap();
        sqlx::query("SELECT pg_current_xact_id()").execute(&mut *elder).await.unwrap();
        let mut younger = two.begin().await.unwrap();
        let small = insert_event(&mut younger).await;
        let large = insert_event(&mut elder).await;
        elder.commit().await.unwrap();
        let (seen, cursor) = read(&bed.store, Cursor::START, 1).await;
        assert_eq!(seen, [large], "numbered second, committed first");
        younger.commit().await.unwrap();
        assert_eq!(read(&bed.store, cursor, 1).await.0, [small]);
    })
    .await;
}

/// How many events the storm tells: one each for a declaration and its deletion.
const TOLD: usize = 16 * 4 * 2 + 1;

/// Red by: either of the above, if the storm happens to meet it.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sixteen_writers_and_four_readers_lose_nothing() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        world.declare("first").await;
        let done = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = (0..4)
            .map(|_| tokio::spawn(follow(Arc::clone(&bed.store), Arc::clone(&done), TOLD)))
            .collect();
        let writers: Vec<_> = (0..16)
            .map(|writer| {
                let world = world.clone();
                tokio::spawn(async move {
                    for turn in 0..4 {
                        let id = world.declare(&format!("w{writer}-{turn}")).await.id();
                        world.store.order(id, Order::Deprovision, None).await.unwrap();
                    }
                })
            })
            .collect();
        for writer in writers {
            writer.await.unwrap();
        }
        done.store(true, Ordering::SeqCst);
        for reader in readers {
            let told = reader.await.unwrap();
            assert_eq!(told.len(), TOLD);
            let mut lives: BTreeMap<ResourceId, Vec<(Version, EventType)>> = BTreeMap::new();
            for it in &told {
                lives.entry(it.resource).or_default().push((it.version, it.event_type));
            }
            for (life, told) in lives {
                assert!(told.is_sorted_by(|a, b| a.0 < b.0), "{life}: {told:?}");
                assert_eq!(told[0].1, EventType::Requested);
            }
        }
    })
    .await;
}

/// Reads until the writers are done and nothing is left.
async fn follow(store: Arc<Store>, done: Arc<AtomicBool>, count: usize) -> Vec<Told> {
    let mut cursor = Cursor::START;
    let mut all = vec![];
    // Other tests may delay the last ones, so there are a few more looks.
    let mut looks = 2_000;
    loop {
        let last = done.load(Ordering::SeqCst);
        let told = store.events(cursor, 7).await.unwrap();
        if last && told.is_empty() {
            looks -= 1;
            if all.len() >= count || looks == 0 {
                return all;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        cursor = told.last().map_or(cursor, |it| it.cursor);
        all.extend(told);
        tokio::task::yield_now().await;
    }
}

/// Red by: rows that are deleted without moving the floor.
#[tokio::test]
async fn a_reader_whose_place_was_forgotten_is_told() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        for name in ["a", "b", "c"] {
            world.declare(name).await;
        }
        let told = told(&bed.store, Cursor::START, 3).await;
        let (first, second) = (told[0].cursor, told[1].cursor);
        let long_ago = told[0].occurred_at;
        assert_eq!(bed.store.forget_events(long_ago, 10).await.unwrap(), 0, "none is older");
        let now = bed.store.now().await.unwrap().after(Duration::from_secs(1));
        assert_eq!(bed.store.forget_events(now, 2).await.unwrap(), 2);
        let refused = bed.store.events(first, 10).await.unwrap_err();
        let (after, floor) = (first, second);
        assert!(
            matches!(refused, Error::Forgotten { after: a, floor: f } if (a, f) == (after, floor))
        );
        let rest = bed.store.events(second, 10).await.unwrap();
        assert_eq!(rest, told[2..], "whoever read that far misses nothing");
        assert_eq!(bed.store.events(Cursor::START, 10).await.unwrap(), told[2..]);
    })
    .await;
}

/// Red by: a payload that forgets who or what, or tells a secret.
#[tokio::test]
async fn an_event_says_who_what_when_and_with_which_version() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let resource = world.declare("web").await;
        bed.store.order(resource.id(), Order::Deprovision, None).await.unwrap();
        let again = bed.store.order(resource.id(), Order::Deprovision, None).await.unwrap();
        assert!(again.deletion_requested_at().is_some());
        let told = told(&bed.store, Cursor::START, 2).await;
        let types: Vec<_> = told.iter().map(|it| (it.event_type, it.version)).collect();
        let expected = [(EventType::Requested, Version(1)), (EventType::Deleting, Version(2))];
        assert_eq!(types, expected, "asking again tells nothing");
        for it in told {
            assert_eq!((it.resource, it.project), (resource.id(), world.project));
            assert!(it.occurred_at >= resource.fields().created_at);
            assert_eq!(it.data["name"], "web");
            assert_eq!(it.data["xr_name"], resource.pinned().xr_name);
        }
    })
    .await;
}
