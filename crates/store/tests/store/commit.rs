//! Commits: versions, side writes, and what is not written.

use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use usher_domain::broker::event::{Event, EventType};
use usher_domain::broker::facts::GenerationState;
use usher_domain::broker::phase::Phase;
use usher_domain::tokens::Lifetime;
use usher_kernel::{Generation, NameState, Row, Trouble, Uid, Version, Wake};
use usher_store::{Command, Cursor, Error, Place, Release, Settings, Store, WorkItem};

use crate::declare::{World, ending, record, server_key, write};
use crate::test_store::{TestStore, of_resource, on_both, on_both_with, read_events};

/// Red by: a commit that does not compare the version.
// Requirement: Q-8
#[tokio::test]
async fn a_commit_holds_only_if_its_version_does() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let read = test.store.resource(id).await.unwrap();
        let step = write(&read, |it| it.phase = Phase::Provisioning, None);
        test.store.commit(step.clone()).await.unwrap();
        let late = test.store.commit(step).await.unwrap_err();
        assert!(matches!(late, Error::Conflict), "{late}");
        let now = test.store.resource(id).await.unwrap();
        assert_eq!((now.version, now.state.phase()), (Version(2), Phase::Provisioning));
    })
    .await;
}

/// Red by: anything of a commit that is written outside its transaction.
// Requirement: Q-8
#[tokio::test]
async fn a_commit_that_fails_writes_nothing_of_it() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let read = test.store.resource(id).await.unwrap();
        let mut step = write(&read, |it| it.phase = Phase::Ready, Some(Event::Ready));
        let leased = world.claim(WorkItem::Resource(id)).await;
        // The database refuses the last statement of a commit.
        test.database.execute(refusal(test.database.is_postgres())).await;
        let (item, claim, wake) = (leased.item, leased.claim, Wake::Never);
        step.release = Some(Release { item, claim, wake, reason: "NoSuchReason" });
        step.rows = vec![Row { state: NameState::Seen, ..read.name_ledger.rows()[0].clone() }];
        test.store.commit(step).await.unwrap_err();
        assert_eq!(test.store.resource(id).await.unwrap(), read);
        assert_eq!(read_events(&test.store, Cursor::START, 1).await.len(), 1);
        assert!(test.store.entry(item).await.unwrap().unwrap().lease_until.is_some());
    })
    .await;
}

/// Lets the database refuse a queue entry with an unknown reason.
const fn refusal(is_postgres: bool) -> &'static str {
    if is_postgres {
        "ALTER TABLE queue ADD CHECK (reason <> 'NoSuchReason')"
    } else {
        "CREATE TRIGGER refusal BEFORE UPDATE ON queue WHEN NEW.reason = 'NoSuchReason'
            BEGIN SELECT RAISE(ABORT, 'refused'); END"
    }
}

/// Red by: identity rows that are added instead of written over, or lose their order.
// Requirement: Q-8
#[tokio::test]
async fn a_name_ledger_is_read_back_as_it_was_written() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let read = test.store.resource(id).await.unwrap();
        assert_eq!(
            read.name_ledger.rows(),
            read.state.intended("usher", read.state.fields().created_at)
        );
        let mut seen = read.name_ledger.rows()[1].clone();
        seen.state = NameState::Seen;
        seen.uid = Some(Uid::new("u-1"));
        seen.evidence.answer = "present and \"ours\"".to_owned();
        let mut composed = read.name_ledger.rows()[0].clone();
        composed.name.kind = "Bucket".to_owned();
        let mut again = seen.clone();
        again.incarnation = 2;
        let rows = vec![composed, seen, again];
        let mut step = write(&read, |_| (), None);
        step.rows.clone_from(&rows);
        test.store.commit(step).await.unwrap();
        let after = test.store.resource(id).await.unwrap();
        assert_eq!(after.name_ledger, read.name_ledger.with(&rows));
        assert_eq!((after.version, &after.state), (Version(2), &read.state));
    })
    .await;
}

/// Red by: a state that is written although it is as it was.
// Requirement: Q-8
#[tokio::test]
async fn a_state_that_did_not_change_is_not_written() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let count = if test.database.is_postgres() {
            "CREATE TABLE written (n int); INSERT INTO written VALUES (0);
            CREATE FUNCTION count_write() RETURNS trigger LANGUAGE plpgsql
                AS $$ BEGIN UPDATE written SET n = n + 1; RETURN NEW; END $$;
            CREATE TRIGGER count_write AFTER UPDATE ON resources
                FOR EACH ROW EXECUTE FUNCTION count_write()"
        } else {
            "CREATE TABLE written (n int); INSERT INTO written VALUES (0);
            CREATE TRIGGER count_write AFTER UPDATE ON resources
                BEGIN UPDATE written SET n = n + 1; END"
        };
        test.database.execute(count).await;
        let leased = world.claim(item).await;
        let mut step = write(record(&leased), |_| (), None);
        step.rows =
            vec![Row { state: NameState::Seen, ..record(&leased).name_ledger.rows()[0].clone() }];
        let (claim, wake, reason) = (leased.claim, Wake::Now, "RecordingAnchor");
        step.release = Some(Release { item, claim, wake, reason });
        test.store.commit(step).await.unwrap();
        let leased = world.claim(item).await;
        test.store.wake(item).await.unwrap();
        let (claim, wake, reason) = (leased.claim, Wake::OnChange, "AsDeclared");
        test.store.release(Release { item, claim, wake, reason }).await.unwrap();
        let written = "SELECT CAST(n AS bigint) FROM written";
        assert_eq!(test.database.number(written).await, 0, "claims and requeues write no state");
        let read = record(&world.claim(item).await).clone();
        let step = write(&read, |it| it.phase = Phase::Provisioning, None);
        test.store.commit(step).await.unwrap();
        assert_eq!(test.database.number(written).await, 1);
    })
    .await;
}

/// Red by: a lock that two commits of different items share.
// Requirement: Q-2
#[tokio::test]
async fn a_commit_held_open_on_one_resource_blocks_no_other() {
    let lock_timeout = Duration::from_secs(5);
    on_both_with(Settings { lock_timeout, ..Settings::default() }, async |test: TestStore| {
        let Place::Postgres(url) = &test.database.place else { return };
        let world = World::new(&test.store).await;
        let (held, free) = (world.declare("held").await.id(), world.declare("free").await.id());
        let mut conn = PgConnection::connect(url).await.unwrap();
        let mut open = conn.begin().await.unwrap();
        for sql in [
            "UPDATE records SET version = version + 1 WHERE id = $1",
            "UPDATE resources SET phase = 'Ready' WHERE id = $1",
            "UPDATE names SET state = 'seen' WHERE record = $1",
            "UPDATE queue SET lease_until = NULL WHERE record = $1",
            "INSERT INTO events (epoch, id, resource, project, version, type, occurred_at, data)
                VALUES (1, $1, $1, $1, 2, 'broker.ProvisionedResourceReady', now(), '{}')",
        ] {
            sqlx::query(sql).bind(held.as_uuid()).execute(&mut *open).await.unwrap();
        }
        let read = test.store.resource(free).await.unwrap();
        let step = write(&read, |it| it.phase = Phase::Ready, Some(Event::Ready));
        test.store.commit(step).await.unwrap();
        test.store.command(free, Command::Deprovision, None).await.unwrap();
        world.claim(WorkItem::Resource(free)).await;
        world.declare("another").await;
        let read = test.store.resource(held).await.unwrap();
        let step = write(&read, |it| it.phase = Phase::Provisioning, None);
        let waited = test.store.commit(step).await.unwrap_err();
        assert!(matches!(waited, Error::Database { .. }), "its own row is held: {waited}");
        open.rollback().await.unwrap();
    })
    .await;
}

async fn users(test: &TestStore, id: usher_domain::object::id::ProviderConfigId) -> (u32, Version) {
    let record = test.store.provider_config(id).await.unwrap();
    (record.state.users, record.version)
}

/// Red by: a side write that is omitted, or done twice.
// Requirement
#[tokio::test]
async fn an_end_releases_what_it_held_and_begins_a_tombstone() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let first = world.declare("web").await;
        let config = first.pinned().provider_config;
        assert_eq!(users(&test, config).await, (1, Version(1)));
        let second = world.declare("other").await;
        assert_eq!(second.pinned().provider_config, config, "one row, counted");
        assert_eq!(users(&test, config).await, (2, Version(2)));
        let tenancy = first.fields().tenancy;
        let held = test.store.tenancy(tenancy).await.unwrap().unwrap();
        assert_eq!((held.project, held.released_at), (world.project, None));

        let read = test.store.resource(first.id()).await.unwrap();
        test.store.commit(ending(&read)).await.unwrap();
        assert_eq!(users(&test, config).await, (1, Version(3)), "one user less");
        assert!(test.store.tenancy(tenancy).await.unwrap().unwrap().released_at.is_some());
        let tombstone = WorkItem::Tombstone(first.id());
        assert!(test.store.entry(tombstone).await.unwrap().is_some());
        let occupancy = test.store.occupancy(world.project).await.unwrap();
        assert_eq!((occupancy.rows, occupancy.tombstones), (1, 1));
        let events = read_events(&test.store, Cursor::START, 3).await;
        let last = events.last().unwrap();
        assert_eq!(
            (of_resource(last).2, &last.data["outcome"]),
            (EventType::Deleted, &"removed".into())
        );

        let again = world.declare("web").await;
        assert_ne!(again.id(), first.id(), "the name is free again");
        assert_eq!(test.store.wake_labels(vec![*first.id().as_uuid()]).await.unwrap(), 1);
        let leased = world.claim(tombstone).await;
        let (id, claim) = (first.id(), leased.claim);
        let day = Duration::from_hours(24);
        assert!(
            !test.store.expire_tombstone(id, claim, day).await.unwrap(),
            "it is kept for a day"
        );
        assert!(test.store.expire_tombstone(id, claim, Duration::ZERO).await.unwrap());
        assert_eq!(test.store.occupancy(world.project).await.unwrap().tombstones, 0);
        assert!(test.store.resource(id).await.is_ok(), "its receipt stays");
    })
    .await;
}

/// Red by: a ProviderConfig that is woken for every added or removed user, or not when it must be.
// Requirement: P-14
#[tokio::test]
async fn only_the_first_user_and_the_last_wake_their_provider_config() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let first = world.declare("web").await;
        let config = first.pinned().provider_config;
        let wakes = async || {
            let entry = test.store.entry(WorkItem::ProviderConfig(config)).await.unwrap();
            entry.unwrap().wake_seq
        };
        let end = async |id| {
            let read = test.store.resource(id).await.unwrap();
            test.store.commit(ending(&read)).await.unwrap();
        };
        let second = world.declare("other").await;
        assert_eq!((users(&test, config).await.0, wakes().await), (2, 0), "it has users already");
        end(first.id()).await;
        assert_eq!((users(&test, config).await.0, wakes().await), (1, 0), "it still has one");
        end(second.id()).await;
        assert_eq!((users(&test, config).await.0, wakes().await), (0, 1), "it may be deleted");
        world.declare("again").await;
        assert_eq!((users(&test, config).await.0, wakes().await), (1, 2), "it has a user again");
    })
    .await;
}

/// Red by: a token whose lifetime starts with its issue, or again with every step.
#[tokio::test]
async fn a_substrate_that_is_ready_starts_the_lifetime_of_its_token() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        let lifetime = Lifetime::default();
        test.store.issue(server_key(), id, Generation::FIRST, lifetime).await.unwrap();
        assert_eq!(test.store.tokens(id).await.unwrap()[0].first_ready_at, None);
        let read = test.store.resource(id).await.unwrap();
        let at = read.state.fields().created_at.after(Duration::from_secs(5));
        let ready = |it: &mut usher_domain::broker::aggregate::Fields| {
            it.phase = Phase::Enrolling;
            it.generation_state = GenerationState::Live;
            it.substrate_ready_at = Some(at);
        };
        test.store.commit(write(&read, ready, None)).await.unwrap();
        assert_eq!(test.store.tokens(id).await.unwrap()[0].first_ready_at, Some(at));
    })
    .await;
}

/// Red by: a text that only one of the databases can keep; its item would never make progress.
// Requirement: Q-18
#[tokio::test]
async fn a_message_of_another_system_is_kept_whatever_it_contains() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        let leased = world.claim(item).await;
        let message = "quota\0 \u{1f4a5} 'exceeded' \\u0000".to_owned();
        let event = Some(Event::Failed { message: message.clone() });
        let step = write(record(&leased), |it| it.phase = Phase::Failed, event);
        test.store.commit(step).await.unwrap();
        let events = read_events(&test.store, Cursor::START, 2).await;
        assert_eq!(events[1].data["message"], message.replace('\0', "\u{fffd}"));
        let trouble = Trouble::Rejected { what: message };
        test.store.postpone(item, leased.claim, trouble, None).await.unwrap();
        assert_eq!(test.store.entry(item).await.unwrap().unwrap().lease_until, None);
    })
    .await;
}

/// Red by: a group that fails with one of its members.
// Requirement: Q-16
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_write_that_fails_takes_none_of_its_group_along() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let mut writes = vec![];
        for index in 0..20 {
            let id = world.declare(&format!("r{index}")).await.id();
            let read = test.store.resource(id).await.unwrap();
            let mut step = write(&read, |it| it.phase = Phase::Provisioning, None);
            if index % 2 == 1 {
                step.version = Version(9);
            }
            writes.push((index, step));
        }
        let tasks: Vec<_> = writes
            .into_iter()
            .map(|(index, step)| {
                let store = std::sync::Arc::clone(&test.store);
                tokio::spawn(async move { (index, store.commit(step).await) })
            })
            .collect();
        for task in tasks {
            let (index, outcome) = task.await.unwrap();
            assert_eq!(outcome.is_ok(), index % 2 == 0, "{index}: {outcome:?}");
        }
    })
    .await;
}

/// Red by: a store that still writes after it was closed, or keeps its file open.
#[tokio::test]
async fn a_closed_store_refuses_writes_and_frees_its_file() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let item = WorkItem::Resource(world.declare("web").await.id());
        test.store.close().await;
        assert!(test.store.wake(item).await.is_err());
        let again = Store::open(&test.database.place, Settings::default()).await.unwrap();
        assert!(again.wake(item).await.unwrap());
        assert_eq!(again.installation().id, test.store.installation().id);
    })
    .await;
}
