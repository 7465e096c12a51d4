//! The contract of every store, run on both databases as on the one in memory.

use std::sync::Arc;

use usher_sim::contract::store::PROMISES;
use usher_store::migrate::Direction;
use usher_store::{Settings, Store};

use crate::declare::World;
use crate::real::Real;
use crate::test_store::TestDatabase;

fn on(ids: impl AsyncFn() -> Option<TestDatabase>) {
    let builder = || tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut tried = 0;
    for (name, promise) in PROMISES {
        let runtime = Arc::new(builder().unwrap());
        let real = runtime.block_on(async {
            let database = ids().await?;
            Store::migrate(&database.place, Direction::Up).await.unwrap();
            let store = Store::open(&database.place, Settings::default()).await.unwrap();
            let store = Arc::new(store);
            let world = World::new(&store).await;
            let ids = usher_sim::contract::port::TestIds {
                installation: store.installation().id,
                project: world.project,
                blueprint_version: world.blueprint_version,
                credential: world.credential,
            };
            let (runtime, database) = (Arc::clone(&runtime), Arc::new(database));
            Some(Real { runtime, store, ids, database, faults: None })
        });
        let Some(mut real) = real else { return };
        eprintln!("{name}");
        promise(&mut real);
        runtime.block_on(real.store.close());
        tried += 1;
    }
    assert_eq!(tried, PROMISES.len());
}

/// Red by: a violation of the contract; the broken stores of the simulation show each.
// Requirement: W-5, Q-26
#[test]
fn sqlite_keeps_the_promises_of_every_store() {
    on(async || Some(TestDatabase::sqlite()));
}

/// Red by: as above.
// Requirement: W-5, Q-26
#[test]
fn postgresql_keeps_the_promises_of_every_store() {
    on(TestDatabase::postgres);
}
