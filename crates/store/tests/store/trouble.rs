//! Bad rows, bad files, bad servers: a typed error that names the cause, and everything else goes
//! on.

use std::sync::Arc;
use std::time::Duration;

use usher_kernel::Trouble;
use usher_store::migrate::Way;
use usher_store::{Error, Life, Order, Place, Settings, Store};

use crate::bed::{Bed, Ground, on_both};
use crate::declare::World;

/// Red by: a row that fails the whole claim, or is claimed again and again.
#[tokio::test]
async fn a_row_that_breaks_its_own_rules_is_parked_and_stops_nobody_else() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let bends = [
            ("xr_name = 'somebody-elses'", "xr_name"),
            ("composite = '{\"group\": 7}'", "composite"),
            ("parameters = '[]'", "parameters"),
            ("api_url = 'gopher://x'", "api_url"),
            ("namespace = ' '", "namespace"),
            ("generation = 9000000000", "generation"),
        ];
        let mut bad = vec![];
        for (index, (bend, field)) in bends.into_iter().enumerate() {
            let id = world.declare(&format!("bad-{index}")).await.id();
            let sql = format!("UPDATE resources SET {bend} WHERE id = {}", bed.ground.id(id));
            bed.ground.execute(&sql).await;
            bad.push((Life::Resource(id), format!("its {field} breaks the rules"), field));
        }
        let good = world.declare("good").await.id();
        let batch = bed.store.claim_due(64).await.unwrap();
        assert!(batch.leased.iter().any(|it| it.life == Life::Resource(good)), "it goes on");
        assert_eq!(batch.parked.len(), bad.len());
        for (life, what, field) in bad {
            let (_, told) = batch.parked.iter().find(|(it, _)| *it == life).unwrap();
            assert!(told.contains(&life.id().to_string()) && told.contains(&what), "{told}");
            let entry = bed.store.entry(life).await.unwrap().unwrap();
            assert!(entry.parked && entry.due.is_none() && entry.lease_until.is_none());
            bed.store.wake(life).await.unwrap();
            let Life::Resource(id) = life else { panic!("{life}") };
            let error = bed.store.resource(id).await.unwrap_err();
            assert!(matches!(&error, Error::Corrupt { field: it, .. } if it == field), "{error}");
            assert!(matches!(error.trouble(), Trouble::Corrupt { .. }));
            let refused = bed.store.order(id, Order::Deprovision, None).await;
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "nothing is decided on it");
        }
        let again = bed.store.claim_due(64).await.unwrap();
        assert!(again.leased.is_empty() && again.parked.is_empty(), "a wake-up is no repair");
    })
    .await;
}

/// Red by: a repaired row that stays parked.
#[tokio::test]
async fn a_row_that_was_mended_goes_on_by_command() {
    on_both(async |bed: Bed| {
        let world = World::new(&bed.store).await;
        let resource = world.declare("web").await;
        let id = bed.ground.id(resource.id());
        bed.ground.execute(&format!("UPDATE resources SET world = ' ' WHERE id = {id}")).await;
        assert_eq!(bed.store.claim_due(9).await.unwrap().parked.len(), 1);
        bed.ground.execute(&format!("UPDATE resources SET world = 'local' WHERE id = {id}")).await;
        bed.store.order(resource.id(), Order::Retry, None).await.unwrap();
        world.claim(Life::Resource(resource.id())).await;
    })
    .await;
}

/// Red by: two processes that write one file.
#[tokio::test]
async fn a_file_is_open_in_one_process_only() {
    let ground = Ground::sqlite();
    Store::migrate(&ground.place, Way::Up).await.unwrap();
    let first = Store::open(&ground.place, Settings::default()).await.unwrap();
    for refused in [
        Store::open(&ground.place, Settings::default()).await.map(|_| ()).unwrap_err(),
        Store::migrate(&ground.place, Way::Stay).await.map(|_| ()).unwrap_err(),
    ] {
        let Error::InUse { file } = &refused else { panic!("{refused}") };
        assert!(file.ends_with("usher.db.lock"), "{file}");
    }
    first.close().await;
    Store::open(&ground.place, Settings::default()).await.unwrap();
}

/// Red by: a missing or foreign file that is taken for an empty store.
#[tokio::test]
async fn a_file_that_is_not_there_or_no_database_is_refused() {
    let ground = Ground::sqlite();
    let Place::Sqlite(path) = &ground.place else { return };
    assert!(Store::open(&ground.place, Settings::default()).await.is_err());
    assert!(!path.exists(), "opening makes nothing");
    std::fs::write(path, "this is no database, it is a text").unwrap();
    let refused = Store::open(&ground.place, Settings::default()).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    let nowhere = Place::Sqlite("/nowhere/at/all/usher.db".into());
    let refused = Store::open(&nowhere, Settings::default()).await.unwrap_err();
    assert!(matches!(refused, Error::File { .. }), "{refused}");
}

/// Red by: a store that needs a restart after its server had one.
#[tokio::test]
async fn a_server_that_is_killed_and_started_again_is_survived() {
    let Some(server) = usher_pgtest::Server::start(&[]) else { return };
    server.execute("CREATE DATABASE usher").await;
    let place = Place::Postgres(server.url("usher"));
    Store::migrate(&place, Way::Up).await.unwrap();
    let settings = Settings { connect_timeout: Duration::from_millis(300), ..Settings::default() };
    let store = Arc::new(Store::open(&place, settings).await.unwrap());
    let world = World::new(&store).await;
    let life = Life::Resource(world.declare("web").await.id());
    server.stop();
    while store.now().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let down = store.wake(life).await.unwrap_err();
    assert!(matches!(down.trouble(), Trouble::Unavailable { .. }), "{down}");
    server.resume();
    drop(server.connect().await);
    assert!(store.wake(life).await.unwrap(), "the first write after it finds a way");
    world.claim(life).await;
}

/// Red by: a session without its limits.
#[tokio::test]
async fn every_session_has_its_limits() {
    let Some(ground) = Ground::empty_postgres().await else { return };
    Store::migrate(&ground.place, Way::Up).await.unwrap();
    let second = Duration::from_secs(1);
    let settings = Settings {
        statement_timeout: second,
        lock_timeout: Duration::from_millis(700),
        idle_timeout: second * 2,
        ..Settings::default()
    };
    let store = Store::open(&ground.place, settings).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'usher'
        AND datname = current_database()";
    assert!(ground.number(sql).await >= 1, "it is found by its name");
    // A lock that somebody holds for ever ends a write after the time that was set.
    let world = World::new(&Arc::new(store)).await;
    let id = world.declare("web").await.id();
    let Place::Postgres(url) = &ground.place else { return };
    let mut conn = <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE lives").execute(&mut conn).await.unwrap();
    let ended = world.store.order(id, Order::Deprovision, None).await.unwrap_err();
    let Error::Database { source, .. } = &ended else { panic!("{ended}") };
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap();
    assert_eq!(code, "55P03", "lock_not_available");
    assert!(matches!(ended.trouble(), Trouble::Unavailable { .. }));
}
