//! Group commit: writes that wait together share a commit, and one failure fails no other write.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection as _, PgConnection};
use tokio::task::JoinSet;
use usher_domain::broker::accept;
use usher_domain::broker::event::Event;
use usher_domain::broker::phase::Phase;
use usher_store::{Acceptance, Cursor, Error, Place, ResourceWrite, Settings};

use crate::declare::{World, write};
use crate::test_store::{TestStore, on_both, on_both_with, read_events};

/// More than all workers can take at once.
const MANY: usize = 40;

async fn acceptance(world: &World, name: &str) -> Acceptance {
    let command = world.command(name);
    let snapshot = world.store.snapshot(&command, None).await.unwrap();
    let accepted =
        accept::provision(&command, &snapshot.views, &world.minted(), snapshot.now).unwrap();
    Acceptance { accepted, audit: None, key: None }
}

/// One uncommitted step for each of `count` new resources.
async fn steps(world: &World, count: usize) -> Vec<ResourceWrite> {
    let mut steps = vec![];
    for turn in 0..count {
        let id = world.declare(&format!("r{turn}")).await.id();
        let read = world.store.resource(id).await.unwrap();
        steps.push(write(&read, |it| it.phase = Phase::Ready, Some(Event::Ready)));
    }
    steps
}

async fn commit_together(test: &TestStore, steps: Vec<ResourceWrite>) -> Vec<Result<(), Error>> {
    let mut tasks = JoinSet::new();
    for (index, step) in steps.into_iter().enumerate() {
        let store = Arc::clone(&test.store);
        tasks.spawn(async move { (index, store.commit(step).await) });
    }
    let mut answers = tasks.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Red by: users that are counted once for a group, or a group that omits a member.
#[tokio::test]
async fn declarations_that_come_together_are_all_there_and_all_counted() {
    on_both(async |test: TestStore| {
        let worlds = [World::new(&test.store).await, World::new(&test.store).await];
        let mut firsts = vec![];
        for world in &worlds {
            firsts.push(world.declare("first").await);
        }
        let mut tasks = JoinSet::new();
        for turn in 0..MANY {
            let acceptance = acceptance(&worlds[turn % 2], &format!("r{turn}")).await;
            let store = Arc::clone(&test.store);
            tasks.spawn(async move { store.accept(acceptance).await });
        }
        for accepted in tasks.join_all().await {
            accepted.unwrap();
        }
        for first in firsts {
            let config = first.pinned().provider_config;
            let record = test.store.provider_config(config).await.unwrap();
            assert_eq!(usize::try_from(record.state.users).unwrap(), 1 + MANY / 2);
        }
        assert_eq!(read_events(&test.store, Cursor::START, MANY + 2).await.len(), MANY + 2);
        let due = "SELECT COUNT(*) FROM queue WHERE kind = 'resource' AND due IS NOT NULL";
        assert_eq!(test.database.number(due).await, i64::try_from(MANY + 2).unwrap());
    })
    .await;
}

/// Red by: a group whose failure fails every member, or that writes its members without the loser.
#[tokio::test]
async fn of_declarations_with_one_name_one_is_accepted_and_no_neighbour_pays() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        world.declare("first").await;
        let mut ready = vec![];
        for turn in 0..MANY {
            let is_same = turn % 4 == 0;
            let name = if is_same { "same".to_owned() } else { format!("r{turn}") };
            ready.push((is_same, acceptance(&world, &name).await));
        }
        let mut tasks = JoinSet::new();
        for (is_same, acceptance) in ready {
            let store = Arc::clone(&test.store);
            tasks.spawn(async move { (is_same, store.accept(acceptance).await) });
        }
        let mut same = 0;
        for (is_same, accepted) in tasks.join_all().await {
            match accepted {
                Ok(()) => same += usize::from(is_same),
                Err(Error::ViewsMoved { what: "name" }) if is_same => {}
                Err(error) => panic!("{error}"),
            }
        }
        assert_eq!(same, 1);
        let rows = i64::try_from(1 + MANY - MANY / 4 + 1).unwrap();
        assert_eq!(test.database.number("SELECT COUNT(*) FROM resources").await, rows);
        assert_eq!(test.database.number("SELECT COUNT(*) FROM records").await, rows + 1);
        assert_eq!(test.database.number("SELECT COUNT(*) FROM events").await, rows);
        let users = "SELECT CAST(users AS bigint) FROM provider_configs";
        assert_eq!(test.database.number(users).await, rows);
    })
    .await;
}

/// Red by: a group that drops a write that lost, or that fails with it.
#[tokio::test]
async fn of_commits_that_come_together_those_that_lost_are_refused_and_no_other() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let steps = steps(&world, MANY).await;
        for step in steps.iter().step_by(5) {
            test.store.commit(step.clone()).await.unwrap();
        }
        for (index, answer) in commit_together(&test, steps).await.into_iter().enumerate() {
            match answer {
                Ok(()) => assert!(index % 5 != 0, "it had lost"),
                Err(Error::Conflict) => assert!(index % 5 == 0, "it was the first"),
                Err(error) => panic!("{error}"),
            }
        }
        let ready = "SELECT COUNT(*) FROM resources WHERE phase = 'Ready'";
        assert_eq!(test.database.number(ready).await, i64::try_from(MANY).unwrap());
        assert_eq!(read_events(&test.store, Cursor::START, 2 * MANY).await.len(), 2 * MANY);
    })
    .await;
}

/// Red by: a worker, or a group, that waits as long as one of its members does.
#[tokio::test]
async fn commits_of_other_resources_are_done_while_locked_ones_wait() {
    let timeout = Duration::from_mins(2);
    let settings =
        Settings { lock_timeout: timeout, statement_timeout: timeout, ..Settings::default() };
    on_both_with(settings, async |test: TestStore| {
        let Place::Postgres(url) = &test.database.place else { return };
        let world = World::new(&test.store).await;
        let mut steps = steps(&world, MANY).await;
        let free = steps.split_off(MANY / 4);
        let mut conn = PgConnection::connect(url).await.unwrap();
        let mut open = conn.begin().await.unwrap();
        for held in &steps {
            let sql = "SELECT 1 FROM records WHERE id = $1 FOR UPDATE";
            let id = held.next.id();
            sqlx::query(sql).bind(id.as_uuid()).execute(&mut *open).await.unwrap();
        }
        let mut waiting = JoinSet::new();
        for step in steps {
            let store = Arc::clone(&test.store);
            waiting.spawn(async move { store.commit(step).await });
        }
        for answer in commit_together(&test, free).await {
            answer.unwrap();
        }
        assert!(waiting.try_join_next().is_none(), "their rows are held");
        open.rollback().await.unwrap();
        for answer in waiting.join_all().await {
            answer.unwrap();
        }
    })
    .await;
}
