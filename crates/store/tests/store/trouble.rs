//! Bad rows, bad files, bad servers: a typed error names the cause, and nothing else is affected.

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use tokio::task::JoinHandle;
use usher_domain::broker::snapshot::TokenState;
use usher_kernel::Trouble;
use usher_store::migrate::Direction;
use usher_store::{Command, Cursor, Error, Place, Settings, Store, WorkItem};

use crate::declare::{World, marked};
use crate::enrolment::issue;
use crate::test_store::{Folder, TestDatabase, TestStore, of_resource, on_both, read_events};
use crate::variable;

/// Red by: a row that fails the whole claim, or is claimed again and again.
// Requirement: Q-12
#[tokio::test]
async fn a_row_that_breaks_its_own_rules_is_parked_and_blocks_no_other() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let bends = [
            ("xr_name = 'foreign'", "xr_name"),
            ("composite = '{\"group\": 7}'", "composite"),
            ("parameters = '[]'", "parameters"),
            ("api_url = 'gopher://x'", "api_url"),
            ("namespace = ' '", "namespace"),
            ("generation = 9000000000", "generation"),
        ];
        let mut bad = vec![];
        for (index, (bend, field)) in bends.into_iter().enumerate() {
            let id = world.declare(&format!("bad-{index}")).await.id();
            let sql = format!("UPDATE resources SET {bend} WHERE id = {}", test.database.id(id));
            test.database.execute(&sql).await;
            bad.push((WorkItem::Resource(id), format!("its {field} breaks the rules"), field));
        }
        let good = world.declare("good").await.id();
        let batch = test.store.claim_due(64).await.unwrap();
        assert!(batch.leased.iter().any(|it| it.item == WorkItem::Resource(good)), "it is leased");
        assert_eq!(batch.parked.len(), bad.len());
        for (item, what, field) in bad {
            let (_, reason) = batch.parked.iter().find(|(it, _)| *it == item).unwrap();
            assert!(reason.contains(&item.id().to_string()) && reason.contains(&what), "{reason}");
            let entry = test.store.entry(item).await.unwrap().unwrap();
            assert!(entry.parked && entry.due.is_none() && entry.lease_until.is_none());
            test.store.wake(item).await.unwrap();
            let WorkItem::Resource(id) = item else { panic!("{item}") };
            let error = test.store.resource(id).await.unwrap_err();
            assert!(matches!(&error, Error::Corrupt { field: it, .. } if it == field), "{error}");
            assert!(matches!(error.trouble(), Trouble::Corrupt { .. }));
            let refused = test.store.command(id, Command::Deprovision, None).await;
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "nothing is decided on it");
        }
        let again = test.store.claim_due(64).await.unwrap();
        assert!(again.leased.is_empty() && again.parked.is_empty(), "a wake-up is no repair");
    })
    .await;
}

/// Red by: a repaired row that stays parked.
// Requirement: Q-12
#[tokio::test]
async fn a_repaired_row_is_unparked_by_command() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let resource = world.declare("web").await;
        let id = test.database.id(resource.id());
        test.database.execute(&format!("UPDATE resources SET world = ' ' WHERE id = {id}")).await;
        assert_eq!(test.store.claim_due(9).await.unwrap().parked.len(), 1);
        test.database
            .execute(&format!("UPDATE resources SET world = 'local' WHERE id = {id}"))
            .await;
        test.store.command(resource.id(), Command::Retry, None).await.unwrap();
        world.claim(WorkItem::Resource(resource.id())).await;
    })
    .await;
}

/// Red by: a token that must be readable to be revoked, or to be seen as revoked.
// Requirement: Q-12
#[tokio::test]
async fn an_unreadable_token_is_revoked_and_does_not_stop_teardown() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let id = world.declare("web").await.id();
        issue(&test.store, id).await.unwrap();
        test.database.execute("UPDATE tokens SET lifetime_us = 1").await;
        let context = async || {
            let state = test.store.resource(id).await.unwrap().state;
            test.store.resource_context(&state).await
        };
        let unread = context().await.unwrap_err();
        assert!(matches!(unread, Error::Corrupt { .. }), "its expiry is unknown: {unread}");
        test.store.command(id, Command::Deprovision, None).await.unwrap();
        let revoked = "SELECT count(*) FROM tokens WHERE revoked_at IS NOT NULL";
        assert_eq!(test.database.number(revoked).await, 1);
        let states: Vec<_> = context().await.unwrap().tokens.iter().map(|it| it.state).collect();
        assert_eq!(states, [TokenState::Revoked]);
    })
    .await;
}

/// Red by: a listing that one unreadable row fails, or ends.
// Requirement: Q-12
#[tokio::test]
async fn an_unreadable_token_hides_no_other_in_the_list() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        for name in ["a", "b", "c"] {
            issue(&test.store, world.declare(name).await.id()).await.unwrap();
        }
        let ids = async |count| {
            let listed = test.store.list_tokens(None, None, count).await.unwrap();
            listed.into_iter().map(|(it, _)| it.id).collect::<Vec<_>>()
        };
        let all = ids(9).await;
        assert_eq!(all.len(), 3);
        let first = test.database.id(all[0]);
        test.database
            .execute(&format!("UPDATE tokens SET lifetime_us = 1 WHERE id = {first}"))
            .await;
        assert_eq!(ids(9).await, all[1..]);
        assert_eq!(ids(1).await, all[1..2], "a full page");
    })
    .await;
}

/// Red by: files of the database that other users of the machine can read.
// Requirement: Q-14
#[tokio::test]
async fn only_its_owner_reads_the_files_of_a_database() {
    let test_database = TestDatabase::sqlite();
    let Place::Sqlite(path) = &test_database.place else { panic!("not a file") };
    let folder = path.parent().unwrap();
    let modes = || {
        let files = std::fs::read_dir(folder).unwrap().map(Result::unwrap);
        let mode = |it: &std::fs::DirEntry| it.metadata().unwrap().permissions().mode() & 0o777;
        let name = |it: &std::fs::DirEntry| it.file_name().into_string().unwrap();
        files.map(|it| (name(&it), mode(&it))).collect::<BTreeMap<_, _>>()
    };
    let all = ["usher.db", "usher.db-shm", "usher.db-wal", "usher.db.lock"];
    let private: BTreeMap<_, _> = all.iter().map(|it| ((*it).to_owned(), 0o600)).collect();
    Store::migrate(&test_database.place, Direction::Up).await.unwrap();
    let store = Store::open(&test_database.place, Settings::default()).await.unwrap();
    assert_eq!(modes(), private);
    store.close().await;
    // As an earlier version left them.
    for name in ["usher.db", "usher.db-wal", "usher.db.lock"] {
        let file = std::fs::OpenOptions::new().append(true).create(true).open(folder.join(name));
        file.unwrap().set_permissions(Permissions::from_mode(0o644)).unwrap();
    }
    let _store = Store::open(&test_database.place, Settings::default()).await.unwrap();
    assert_eq!(modes(), private, "healed");
}

/// Red by: two processes that write one file.
// Requirement: Q-14
#[tokio::test]
async fn a_file_is_open_in_one_process_only() {
    let test_database = TestDatabase::sqlite();
    Store::migrate(&test_database.place, Direction::Up).await.unwrap();
    let first = Store::open(&test_database.place, Settings::default()).await.unwrap();
    for refused in [
        Store::open(&test_database.place, Settings::default()).await.map(|_| ()).unwrap_err(),
        Store::migrate(&test_database.place, Direction::Stay).await.map(|_| ()).unwrap_err(),
    ] {
        let Error::InUse { file } = &refused else { panic!("{refused}") };
        assert!(file.ends_with("usher.db.lock"), "{file}");
    }
    first.close().await;
    Store::open(&test_database.place, Settings::default()).await.unwrap();
}

/// Red by: a missing or foreign file that is taken for an empty store.
// Requirement: Q-14
#[tokio::test]
async fn a_file_that_is_not_there_or_no_database_is_refused() {
    let test_database = TestDatabase::sqlite();
    let Place::Sqlite(path) = &test_database.place else { return };
    assert!(Store::open(&test_database.place, Settings::default()).await.is_err());
    assert!(!path.exists(), "opening makes nothing");
    std::fs::write(path, "this is no database, it is a text").unwrap();
    let refused = Store::open(&test_database.place, Settings::default()).await.unwrap_err();
    assert!(matches!(refused, Error::Database { .. }), "{refused}");
    let nowhere = Place::Sqlite("/nowhere/at/all/usher.db".into());
    let refused = Store::open(&nowhere, Settings::default()).await.unwrap_err();
    assert!(matches!(refused, Error::File { .. }), "{refused}");
}

/// Red by: a store that needs a restart after its server had one.
// Requirement: Q-15
#[tokio::test]
async fn a_server_that_is_killed_and_started_again_is_survived() {
    let Some(server) = usher_pgtest::Server::start(&[]) else { return };
    server.execute("CREATE DATABASE usher").await;
    let place = Place::Postgres(server.url("usher"));
    Store::migrate(&place, Direction::Up).await.unwrap();
    let store = Arc::new(Store::open(&place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    let item = WorkItem::Resource(world.declare("web").await.id());
    server.stop();
    while store.now().await.is_ok() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let down = store.wake(item).await.unwrap_err();
    assert!(matches!(down.trouble(), Trouble::Unavailable { .. }), "{down}");
    server.resume();
    drop(server.connect().await);
    assert!(store.wake(item).await.unwrap(), "the first write after it succeeds");
    world.claim(item).await;
}

/// Red by: a session without its limits.
// Requirement: Q-15
#[tokio::test]
async fn every_session_has_its_limits() {
    let Some(test_database) = TestDatabase::empty_postgres().await else { return };
    Store::migrate(&test_database.place, Direction::Up).await.unwrap();
    let minute = Duration::from_mins(1);
    let settings = Settings {
        statement_timeout: minute,
        lock_timeout: Duration::from_millis(700),
        idle_timeout: minute * 2,
        ..Settings::default()
    };
    let store = Store::open(&test_database.place, settings).await.unwrap();
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'usher'
        AND datname = current_database()";
    assert!(test_database.number(sql).await >= 1, "it is found by its name");
    // A lock that another session holds for ever fails a write after the configured timeout.
    let world = World::new(&Arc::new(store)).await;
    let id = world.declare("web").await.id();
    let Place::Postgres(url) = &test_database.place else { return };
    let mut conn = <sqlx::PgConnection as sqlx::Connection>::connect(url).await.unwrap();
    sqlx::raw_sql("BEGIN; LOCK TABLE records").execute(&mut conn).await.unwrap();
    let ended = world.store.command(id, Command::Deprovision, None).await.unwrap_err();
    let Error::Database { source, .. } = &ended else { panic!("{ended}") };
    let code = source.as_database_error().and_then(sqlx::error::DatabaseError::code).unwrap();
    assert_eq!(code, "55P03", "lock_not_available");
    assert!(matches!(ended.trouble(), Trouble::Unavailable { .. }));
}

/// Red by: a bad row of another table than the resources' that fails the claim, or is not named.
// Requirement: Q-12
#[tokio::test]
async fn bad_rows_of_other_tables_are_parked_by_name() {
    on_both(async |test: TestStore| {
        let world = World::new(&test.store).await;
        let bad = world.declare("bad").await;
        let good = world.declare("good").await;
        let id = test.database.id(bad.id());
        let config = bad.pinned().provider_config;
        let config_id = test.database.id(config);
        test.database
            .execute(&format!(
                "UPDATE names SET generation = 9000000000 WHERE record = {id};
                UPDATE provider_configs SET path = '' WHERE id = {config_id}"
            ))
            .await;
        let batch = test.store.claim_due(64).await.unwrap();
        let leased: Vec<WorkItem> = batch.leased.iter().map(|it| it.item).collect();
        assert_eq!(leased, [WorkItem::Resource(good.id())], "everything else continues");
        for (item, row) in [
            (WorkItem::Resource(bad.id()), "its name ledger breaks the rules"),
            (WorkItem::ProviderConfig(config), "its coordinates breaks the rules"),
        ] {
            let found = batch.parked.iter().find(|it| it.0 == item);
            let (_, reason) = found.unwrap_or_else(|| panic!("{item} is not parked"));
            assert!(reason.contains(&item.id().to_string()) && reason.contains(row), "{reason}");
        }
    })
    .await;
}

/// Red by: a database that is read-only or full, reported as any other error.
// Requirement: Q-23
#[tokio::test]
async fn a_full_or_read_only_server_has_its_own_error() {
    let Some(test_database) = TestDatabase::postgres().await else { return };
    let store = Arc::new(Store::open(&test_database.place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    let item = WorkItem::Resource(world.declare("web").await.id());
    test_database
        .execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$
                BEGIN RAISE EXCEPTION 'no space left' USING ERRCODE = '53100'; END $$;
            CREATE TRIGGER full_disk BEFORE UPDATE ON queue
                FOR EACH ROW EXECUTE FUNCTION full_disk()",
        )
        .await;
    let full = store.wake(item).await.unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert!(matches!(full.trouble(), Trouble::Unavailable { .. }));
    test_database.execute("DROP TRIGGER full_disk ON queue").await;
    assert!(store.wake(item).await.unwrap(), "it continues when there is room");
    let sql = "DO $$ BEGIN EXECUTE format(
        'ALTER DATABASE %I SET default_transaction_read_only = on', current_database()); END $$";
    test_database.execute(sql).await;
    store.close().await;
    // Opening settles whose the database is, which is a write.
    let refused = Store::open(&test_database.place, Settings::default()).await.unwrap_err();
    assert!(matches!(refused, Error::ReadOnly { .. }), "{refused}");
}

/// Red by: a commit that was acknowledged and is lost with the server, or trouble that is
/// reported as something else.
// Requirement: Q-22
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_survives_a_killed_server() {
    let Some(server) = usher_pgtest::Server::start(&[]) else { return };
    server.execute("CREATE DATABASE usher").await;
    let place = Place::Postgres(server.url("usher"));
    Store::migrate(&place, Direction::Up).await.unwrap();
    let store = Arc::new(Store::open(&place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    let over = Arc::new(AtomicBool::new(false));
    let (mut writers, mut troubles) = (vec![], vec![]);
    for number in 0..4 {
        let resource = world.declare(&format!("web-{number}")).await;
        let (store, over) = (Arc::clone(&store), Arc::clone(&over));
        let count = Arc::new(AtomicU32::new(0));
        troubles.push(Arc::clone(&count));
        writers.push(tokio::spawn(async move {
            let mut acknowledged = 1;
            while !over.load(Ordering::Relaxed) {
                let Ok(record) = store.resource(resource.id()).await else {
                    count.fetch_add(1, Ordering::Relaxed);
                    continue;
                };
                assert!(record.version.0 >= acknowledged, "it was acknowledged");
                match store.commit(marked(&record)).await {
                    Ok(()) => acknowledged = record.version.next().0,
                    Err(error) => {
                        assert!(matches!(error.trouble(), Trouble::Unavailable { .. }), "{error}");
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
            (resource.id(), acknowledged)
        }));
    }
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(200)).await;
        server.stop();
        // Every task notices that the server is gone.
        for count in &troubles {
            let before = count.load(Ordering::Relaxed);
            while count.load(Ordering::Relaxed) == before {
                assert!(
                    !writers.iter().any(JoinHandle::is_finished),
                    "a writer found something wrong"
                );
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
        server.resume();
        drop(server.connect().await);
    }
    over.store(true, Ordering::Relaxed);
    let mut ends = vec![];
    for writer in writers {
        ends.push(writer.await.unwrap());
    }
    // Connections that broke while idle are detected by the next caller that takes them.
    for _ in 0..Settings::default().connections_max {
        let _ = store.resource(ends[0].0).await;
    }
    for (id, acknowledged) in ends {
        let record = store.resource(id).await.unwrap();
        assert!(record.version.0 >= acknowledged, "{id}: {acknowledged}, {record:?}");
        let ready = read_events(&store, Cursor::START, 1).await;
        let mine = ready.iter().filter(|it| of_resource(it).0 == id).map(|it| it.version.0);
        let expected = (1..=record.version.0).filter(|it| *it == 1 || it.is_multiple_of(2));
        let (mine, expected): (Vec<u64>, Vec<u64>) = (mine.collect(), expected.collect());
        assert!(expected.starts_with(&mine), "{mine:?}");
    }
}

/// Runs one of the tests below as its own process, on a small tmpfs. `None` if this user may not
/// mount one.
fn on_a_small_disk(test: &str) -> Option<String> {
    let folder = Folder::new();
    let script = r#"mount -t tmpfs -o size=2m tmpfs "$1" && exec "$2" "$3" --exact --nocapture"#;
    let output = std::process::Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", script, "sh"])
        .arg(&folder.0)
        .arg(std::env::current_exe().unwrap())
        .arg(test)
        .env("USHER_SMALL_DISK", &folder.0)
        .output();
    let output = output.ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.contains("1 passed") {
        return Some(said);
    }
    assert!(!said.contains("running 1 test"), "{said}\n{complaint}");
    let skipped = format!("SKIPPED: cannot make a small disk: {complaint}");
    let _ = std::io::Write::write_all(&mut std::io::stderr(), skipped.as_bytes());
    None
}

/// Red by: a full disk that is reported as any other error, or that breaks the store for good.
// Requirement: Q-23
#[test]
fn a_full_disk_has_its_own_error_and_is_survived() {
    on_a_small_disk("trouble::fill_a_small_disk");
}

/// Not a test of its own: it needs a small disk.
#[tokio::test]
async fn fill_a_small_disk() {
    let Some(folder) = variable("USHER_SMALL_DISK") else { return };
    let folder = std::path::PathBuf::from(folder);
    let place = Place::Sqlite(folder.join("usher.db"));
    Store::migrate(&place, Direction::Up).await.unwrap();
    let store = Arc::new(Store::open(&place, Settings::default()).await.unwrap());
    let world = World::new(&store).await;
    let ballast = folder.join("ballast");
    std::fs::write(&ballast, vec![0; 200_000]).unwrap();
    let (mut made, mut full) = (vec![], None);
    for number in 0..10_000 {
        match world.try_declare(&format!("web-{number}")).await {
            Ok(resource) => made.push(resource.id()),
            Err(error) => {
                full = Some(error);
                break;
            }
        }
    }
    let full = full.unwrap();
    assert!(matches!(full, Error::Full { .. }), "{full:?}");
    assert!(matches!(full.trouble(), Trouble::Unavailable { .. }));
    for id in &made {
        assert!(store.resource(*id).await.is_ok(), "what was acknowledged can be read");
    }
    std::fs::remove_file(ballast).unwrap();
    let item = WorkItem::Resource(world.declare("room").await.id());
    assert!(store.wake(item).await.unwrap(), "it continues when there is room");
}

/// Red by: a read-only file that is reported as any other error.
// Requirement: Q-23
#[test]
fn a_read_only_place_has_its_own_error() {
    on_a_small_disk("trouble::open_a_read_only_file");
}

/// Not a test of its own: it needs a disk that it may make read-only.
#[tokio::test]
async fn open_a_read_only_file() {
    let Some(folder) = variable("USHER_SMALL_DISK") else { return };
    let place = Place::Sqlite(std::path::Path::new(&folder).join("usher.db"));
    Store::migrate(&place, Direction::Up).await.unwrap();
    Store::open(&place, Settings::default()).await.unwrap().close().await;
    let remounted =
        std::process::Command::new("mount").args(["-o", "remount,ro", &folder]).status().unwrap();
    assert!(remounted.success());
    let refused = Store::open(&place, Settings::default()).await.unwrap_err();
    let Error::File { file, source } = &refused else { panic!("{refused:?}") };
    assert!(file.ends_with("usher.db.lock"), "{file}");
    assert_eq!(source.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    assert!(matches!(refused.trouble(), Trouble::Unavailable { .. }));
}
