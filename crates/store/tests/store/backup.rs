//! Backups that are made under load, and the state of a store after a restore.
//!
//! The commands are those of the page on backups.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use usher_domain::object::id::InstallationId;
use usher_store::migrate::Direction;
use usher_store::{
    Beginning, Command, Cursor, LoggedEvent, Moved, Place, Provenance, Settings, Store, WorkItem,
};

use crate::declare::World;
use crate::sink::Receiver;
use crate::test_store::{Folder, TestDatabase, on_both_databases, read_events};

/// What is set in every restored database before it is opened.
const MARK: &str = "UPDATE installation SET database_identifier = 'restored'";

/// Copies a database under load, and restores the copy elsewhere.
async fn copy(from: &TestDatabase, folder: &Folder) -> Option<TestDatabase> {
    match &from.place {
        Place::Sqlite(_) => {
            let file = folder.0.join("backup.db");
            from.execute(&format!("VACUUM INTO '{}'", file.display())).await;
            let to = TestDatabase::sqlite();
            let Place::Sqlite(path) = &to.place else { return None };
            std::fs::copy(&file, path).unwrap();
            Some(to)
        }
        Place::Postgres(url) => {
            let (dump, restore) =
                (usher_pgtest::program("pg_dump")?, usher_pgtest::program("pg_restore")?);
            let file = folder.0.join("backup.dump");
            let file = file.to_str().unwrap();
            run(&dump, &["--format=custom", "--file", file, "--dbname", url]).await;
            let to = TestDatabase::empty_postgres().await?;
            let Place::Postgres(target) = &to.place else { return None };
            let words = ["--exit-on-error", "--no-owner", "--dbname", target, file];
            run(&restore, &words).await;
            Some(to)
        }
    }
}

async fn run(program: &Path, words: &[&str]) {
    let mut command = std::process::Command::new(program);
    command.args(words);
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.success(), "{}: {said}", program.display());
}

/// Writers that declare and delete until they are stopped.
struct Writers {
    stop: Arc<AtomicBool>,
    written: Arc<AtomicUsize>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Writers {
    fn start(world: &World) -> Self {
        let (stop, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let tasks = (0..4)
            .map(|writer| {
                let (world, stop) = (world.clone(), Arc::clone(&stop));
                let written = Arc::clone(&written);
                tokio::spawn(async move {
                    for turn in 0.. {
                        if stop.load(Ordering::SeqCst) {
                            return;
                        }
                        let id = world.declare(&format!("w{writer}-{turn}")).await.id();
                        world.store.command(id, Command::Deprovision, None).await.unwrap();
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        Self { stop, written, tasks }
    }

    /// Waits until so many more were written.
    async fn more(&self, count: usize) -> usize {
        let goal = self.written.load(Ordering::SeqCst) + count;
        while self.written.load(Ordering::SeqCst) < goal {
            tokio::time::sleep(std::time::Duration::from_millis(2)).await;
        }
        self.written.load(Ordering::SeqCst)
    }

    async fn stop(self) {
        self.stop.store(true, Ordering::SeqCst);
        for task in self.tasks {
            task.await.unwrap();
        }
    }
}

/// Reads the whole log of a store without writers.
async fn whole(store: &Store) -> Vec<LoggedEvent> {
    let (mut all, mut after) = (vec![], Cursor::START);
    for _ in 0..2_000 {
        let batch = store.events(after, 1_000).await.unwrap();
        after = batch.last().map_or(after, |it| it.cursor);
        all.extend(batch);
        if !store.is_held_back(after).await.unwrap() {
            return all;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("an open transaction holds the log back");
}

async fn open(place: &Place, moved: Moved) -> Arc<Store> {
    let settings = Settings { moved, ..Settings::default() };
    Arc::new(Store::open(place, settings).await.unwrap())
}

/// Red by: a copy that tears a transaction, an epoch that does not grow, a queue entry that is
/// lost.
// Requirement: Y-17
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_backup_under_load_is_complete_and_usable_after_its_restore() {
    on_both_databases(async |test_database: TestDatabase| {
        Store::migrate(&test_database.place, Direction::Up).await.unwrap();
        let store = open(&test_database.place, Moved::NewInstallation).await;
        let first = store.installation().id;
        let world = World::new(&store).await;
        let sink = Receiver::new().await.sink("hook", None);
        store.create_sink(sink, Beginning::Oldest).await.unwrap();
        let writers = Writers::start(&world);
        let sure = writers.more(20).await;
        let folder = Folder::new();
        let Some(copied) = copy(&test_database, &folder).await else { return writers.stop().await };
        writers.more(20).await;
        writers.stop().await;
        let lost = whole(&store).await;
        store.close().await;
        let restored = open(&copied.place, Moved::SameInstallation).await;
        let installation = restored.installation();
        assert_eq!(installation.id, first);
        assert_eq!(installation.provenance, Provenance::Moved { before: first });
        whole_and_consistent(&copied, &restored, sure, &lost).await;
        goes_on(&World { store: Arc::clone(&restored), ..world }, &lost).await;
        restored.close().await;
    })
    .await;
}

/// Everything that was acknowledged before the backup began exists, with its event and entry.
async fn whole_and_consistent(
    test_database: &TestDatabase,
    store: &Store,
    sure: usize,
    seen: &[LoggedEvent],
) {
    let items = test_database.number("SELECT COUNT(*) FROM resources").await;
    assert!(items >= i64::try_from(sure).unwrap(), "{items} of {sure}");
    for sql in [
        "SELECT COUNT(*) FROM events WHERE type = 'broker.ProvisionedResourceRequested'",
        "SELECT COUNT(*) FROM queue WHERE kind = 'resource'",
        "SELECT COUNT(*) FROM records WHERE kind = 'resource'",
        "SELECT users FROM provider_configs",
    ] {
        assert_eq!(test_database.number(sql).await, items, "{sql}");
    }
    let asked = "SELECT COUNT(*) FROM resources WHERE deletion_requested_at IS NOT NULL";
    let emitted = "SELECT COUNT(*) FROM events WHERE type = 'broker.ProvisionedResourceDeleting'";
    assert_eq!(test_database.number(asked).await, test_database.number(emitted).await);
    if let Place::Sqlite(_) = test_database.place {
        assert_eq!(test_database.number("SELECT COUNT(*) FROM pragma_foreign_key_check").await, 0);
        let sound = "SELECT COUNT(*) FROM pragma_integrity_check WHERE integrity_check = 'ok'";
        assert_eq!(test_database.number(sound).await, 1);
    }
    let kept = whole(store).await;
    assert!(kept.len() < seen.len(), "the restore went back in time");
    let ids: Vec<_> = kept.iter().map(|it| it.id).collect();
    let known: Vec<_> = seen.iter().map(|it| it.id).filter(|it| ids.contains(it)).collect();
    assert_eq!(ids, known, "only events that were read before, in the same order");
}

/// New events come after all old ones, also for a reader that had read events which are lost now;
/// no id is given out twice.
async fn goes_on(world: &World, seen: &[LoggedEvent]) {
    let last = seen.last().unwrap().cursor;
    let resource = world.declare("after-the-restore").await;
    let new = read_events(&world.store, last, 1).await;
    assert_eq!(new.len(), 1);
    assert_eq!(new[0].about.resource(), Some(resource.id()));
    assert!(new[0].cursor > last && seen.iter().all(|it| it.id != new[0].id));
    world.claim(WorkItem::Resource(resource.id())).await;
    let sinks = world.store.sinks().await.unwrap();
    assert_eq!(sinks[0].parked, None, "the same installation keeps delivering to its sinks");
}

/// Red by: a restore in place that takes itself for the original.
// Requirement: Y-18
#[tokio::test]
async fn a_restore_in_place_is_noticed_by_its_mark() {
    on_both_databases(async |test_database: TestDatabase| {
        Store::migrate(&test_database.place, Direction::Up).await.unwrap();
        let store = open(&test_database.place, Moved::NewInstallation).await;
        let (first, world) = (store.installation().id, World::new(&store).await);
        world.declare("kept").await;
        read_events(&store, Cursor::START, 1).await;
        let folder = Folder::new();
        let Some(copied) = copy(&test_database, &folder).await else { return };
        world.declare("lost").await;
        let lost = read_events(&store, Cursor::START, 2).await;
        store.close().await;
        // In place: the file is restored under its old name, beside its old lock.
        let places = (&test_database.place, &copied.place);
        let place = if let (Place::Sqlite(to), Place::Sqlite(from)) = places {
            for end in ["-wal", "-shm"] {
                let _ = std::fs::remove_file(format!("{}{end}", to.display()));
            }
            std::fs::copy(from, to).unwrap();
            test_database.execute(MARK).await;
            &test_database.place
        } else {
            copied.execute(MARK).await;
            &copied.place
        };
        let store = open(place, Moved::SameInstallation).await;
        assert_eq!(store.installation().provenance, Provenance::Moved { before: first });
        let world = World { store: Arc::clone(&store), ..world };
        goes_on_without_sinks(&world, &lost).await;
        store.close().await;
    })
    .await;
}

async fn goes_on_without_sinks(world: &World, seen: &[LoggedEvent]) {
    let resource = world.declare("after").await;
    let new = read_events(&world.store, seen.last().unwrap().cursor, 1).await;
    assert_eq!(new[0].about.resource(), Some(resource.id()));
}

/// Red by: a promotion that makes another installation, or one that keeps the epoch.
// Requirement: Y-18
#[tokio::test]
async fn a_server_on_another_timeline_is_the_same_installation_in_a_new_epoch() {
    let Some(test_database) = TestDatabase::postgres().await else { return };
    let settle = async || -> (InstallationId, Provenance, i64) {
        let store = open(&test_database.place, Moved::NewInstallation).await;
        let it = store.installation();
        store.close().await;
        (it.id, it.provenance, test_database.number("SELECT epoch FROM installation").await)
    };
    let (first, new, epoch) = settle().await;
    assert_eq!((new, epoch), (Provenance::New, 1));
    assert_eq!(settle().await, (first, Provenance::Known, 1));
    test_database.execute("UPDATE installation SET timeline = '00000000'").await;
    assert_eq!(settle().await, (first, Provenance::Recovered, 2));
    assert_eq!(settle().await, (first, Provenance::Known, 2));
    test_database.execute("UPDATE installation SET timeline = NULL").await;
    assert_eq!(settle().await, (first, Provenance::Known, 2), "an older program did not record it");
}
