use serde_json::json;

use super::*;

fn write(key: &str, expect: Expect, value: Option<Value>) -> Write {
    Write {
        table: Arc::from("things"),
        key: Arc::from(key),
        expect,
        value,
        preconditions: Vec::new(),
    }
}

fn thing(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

// Requirement: AK-3
#[tokio::test]
async fn a_pending_removal_counts_for_the_next_write() {
    let folder = tempfile::tempdir().expect("a folder");
    let durability = FileDurability::open(&folder.path().join("f")).expect("a file");
    let store = Store::open(Box::new(durability)).expect("a store");
    let made = store.write(write("a", Expect::Absent, Some(thing("a")))).await.expect("made");
    let first = made.expect("an entry").revision;
    let (removed, again) = tokio::join!(
        store.write(write("a", Expect::Revision(first), None)),
        store.write(write("a", Expect::Revision(first), Some(thing("a")))),
    );
    assert!(removed.is_ok());
    assert_eq!(again.map(|_| ()), Err(WriteError::Changed(first + 1)));
}

// Requirement: AK-2
#[tokio::test]
async fn after_a_restart_revisions_continue_and_watches_resume() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    let open = || Store::open(Box::new(FileDurability::open(&path).expect("a file")));
    let store = open().expect("a store");
    let mut last = 0;
    for name in ["a", "b"] {
        let made = store.write(write(name, Expect::Absent, Some(thing(name)))).await.expect("made");
        last = made.expect("an entry").revision;
    }
    let removed = store.write(write("b", Expect::Revision(last), None)).await.expect("removed");
    let removed = removed.expect("an entry").revision;
    store.close().await;
    let late = store.write(write("late", Expect::Absent, Some(thing("late")))).await;
    assert_eq!(late.map(|_| ()), Err(WriteError::Failed));
    let store = open().expect("a store");
    assert_eq!(store.head(), removed);
    let table: Arc<str> = Arc::from("things");
    let mut cursor = store.cursor(&table, last).expect("not too old");
    let given = cursor.next(10).await.expect("changes");
    assert_eq!(given.iter().map(|change| change.revision).collect::<Vec<_>>(), [removed]);
    let made = store.write(write("c", Expect::Absent, Some(thing("c")))).await.expect("made");
    assert_eq!(made.expect("an entry").revision, removed + 1);
}

// Requirement: AK-4
#[tokio::test]
async fn an_older_revision_can_be_listed_until_compaction() {
    let store = Store::in_memory();
    let made = store.write(write("n/a", Expect::Absent, Some(thing("a")))).await.expect("made");
    let first = made.expect("an entry").revision;
    store.write(write("n/b", Expect::Absent, Some(thing("b")))).await.expect("made");
    store.write(write("n/a", Expect::Revision(first), None)).await.expect("removed");
    let names =
        |listing: Listing| listing.objects.keys().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(names(store.list_at("things", "n/", first).expect("known")), ["n/a"]);
    assert_eq!(names(store.list("things", "n/")), ["n/b"]);
    store.forget_history();
    let head = store.head();
    let lost = store.list_at("things", "n/", first).err();
    assert_eq!(lost, Some(TooOld { asked: first, oldest: head }));
}

/// Blocks commits until it is released.
struct BlockedDurability {
    entered: std::sync::mpsc::Sender<()>,
    released: std::sync::mpsc::Receiver<()>,
}

impl Durability for BlockedDurability {
    fn load(&mut self) -> Result<Loaded, DurabilityError> {
        Ok(Loaded::default())
    }

    fn commit(&mut self, _batch: &[Record]) -> Result<(), DurabilityError> {
        self.entered.send(()).expect("a listener");
        self.released.recv().expect("to be let");
        Ok(())
    }

    fn compact(&mut self, _revision: u64) -> Result<(), DurabilityError> {
        Ok(())
    }
}

// Requirement: AK-17
#[tokio::test]
async fn a_late_batch_does_not_clear_a_failure() {
    let (entered, enters) = std::sync::mpsc::channel();
    let (opener, released) = std::sync::mpsc::channel();
    let store = Store::open(Box::new(BlockedDurability { entered, released })).expect("a store");
    let mut first = Box::pin(store.write(write("a", Expect::Absent, Some(thing("a")))));
    tokio::select! {
        biased;
        done = &mut first => panic!("nothing is kept yet: {done:?}"),
        () = std::future::ready(()) => {}
    }
    enters.recv().expect("the durability at work");
    let durability = store.writer.close();
    let late = store.write(write("b", Expect::Absent, Some(thing("b")))).await;
    assert_eq!(late.map(|_| ()), Err(WriteError::Failed));
    opener.send(()).expect("a durability");
    durability.expect("a thread").join().expect("its end");
    let progress = *store.shared.progress.borrow();
    assert_eq!(progress, Progress { published: FIRST + 1, failed: true });
}

// Requirement: AK-20
#[test]
fn the_file_is_readable_by_its_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    drop(FileDurability::open(&path).expect("a file"));
    let mode = std::fs::metadata(&path).expect("a file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[tokio::test]
async fn a_table_can_be_read_at_a_revision_and_followed() {
    let store = Store::in_memory();
    let mut heads = Vec::new();
    for name in ["a", "b", "c"] {
        store.write(write(name, Expect::Absent, Some(thing(name)))).await.expect("made");
        heads.push(store.head());
    }
    let table: Arc<str> = Arc::from("things");
    let (listing, mut cursor) = store.list_at_and_follow(&table, heads[0]).expect("known");
    assert_eq!(listing.objects.keys().map(AsRef::as_ref).collect::<Vec<_>>(), ["a"]);
    let given = [heads[0], heads[1], heads[1], heads[2]].map(|head| {
        let ready = cursor.ready_until(head, 10).expect("known");
        ready.iter().map(|change| change.revision).collect::<Vec<_>>()
    });
    assert_eq!(given, [vec![], vec![heads[1]], vec![], vec![heads[2]]]);
    store.forget_history();
    let lost = store.list_at_and_follow(&table, heads[0]).map(|_| ());
    assert_eq!(lost, Err(TooOld { asked: heads[0], oldest: heads[2] }));
}

/// A change of the table of things.
fn record(revision: u64, key: &str, (old, new): (Option<&str>, Option<&str>)) -> Record {
    let image = |text: &str| bytes::Bytes::from(text.to_owned());
    Record {
        revision,
        table: Arc::from("things"),
        key: Arc::from(key),
        old: old.map(image),
        new: new.map(image),
    }
}

// Requirement: AK-31
#[test]
fn compacted_changes_stay_in_the_objects() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    let mut durability = FileDurability::open(&path).expect("a file");
    assert_eq!(durability.load().expect("nothing"), Loaded::default());
    let changes = [
        record(3, "a", (None, Some("a3"))),
        record(4, "b", (None, Some("b4"))),
        record(5, "a", (Some("a3"), Some("a5"))),
        record(6, "b", (Some("b4"), None)),
        record(7, "c", (None, Some("c7"))),
        record(8, "a", (Some("a5"), None)),
    ];
    for batch in changes.chunks(2) {
        durability.commit(batch).expect("kept");
    }
    let kept = |key: &str, value: &'static str| StoredObject {
        table: Arc::from("things"),
        key: Arc::from(key),
        value: bytes::Bytes::from(value),
    };
    for floor in [0, 3, 5, 6, 8] {
        if floor > 0 {
            durability.compact(floor).expect("compacted");
        }
        let log = changes.iter().filter(|change| change.revision > floor).cloned().collect();
        let wanted = Loaded { head: 8, floor, objects: vec![kept("c", "c7")], log };
        assert_eq!(durability.load().expect("all"), wanted, "{floor}");
    }
    durability.commit(&[record(9, "c", (Some("c7"), Some("c9")))]).expect("kept");
    drop(durability);
    let mut durability = FileDurability::open(&path).expect("a file");
    let log = vec![record(9, "c", (Some("c7"), Some("c9")))];
    let wanted = Loaded { head: 9, floor: 8, objects: vec![kept("c", "c9")], log };
    assert_eq!(durability.load().expect("all"), wanted);
}

// Requirement: AK-31
#[tokio::test]
async fn a_compacted_revision_is_too_old_after_a_restart() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    let open = || FileDurability::open(&path).expect("a file");
    let store = Store::open(Box::new(open())).expect("a store");
    let mut given = Vec::new();
    for name in ["a", "b", "c"] {
        let made = store.write(write(name, Expect::Absent, Some(thing(name)))).await.expect("made");
        given.push(made.expect("an entry").revision);
    }
    store.close().await;
    let mut durability = open();
    durability.compact(given[1]).expect("compacted");
    let store = Store::open(Box::new(durability)).expect("a store");
    assert_eq!(store.list("things", "").objects.len(), 3);
    let table: Arc<str> = Arc::from("things");
    let late = store.cursor(&table, given[0]).err();
    assert_eq!(late, Some(TooOld { asked: given[0], oldest: given[1] }));
    let mut cursor = store.cursor(&table, given[1]).expect("known");
    assert_eq!(cursor.next(10).await.expect("changes")[0].revision, given[2]);
}

/// Fails or panics on commit or compaction.
struct FailingDurability {
    breaks: fn() -> Result<(), DurabilityError>,
    compacts: bool,
}

impl Durability for FailingDurability {
    fn load(&mut self) -> Result<Loaded, DurabilityError> {
        // Enough changes that the next commit compacts.
        let log = (1..20_000).map(|it| record(it, "k", (None, None))).collect();
        Ok(Loaded { head: 20_000, log, ..Loaded::default() })
    }

    fn commit(&mut self, _batch: &[Record]) -> Result<(), DurabilityError> {
        if self.compacts { Ok(()) } else { (self.breaks)() }
    }

    fn compact(&mut self, _revision: u64) -> Result<(), DurabilityError> {
        (self.breaks)()
    }
}

/// Red by: a write that waits for a dead writer thread, or readiness that hides it.
// Requirement: AK-17
#[tokio::test]
async fn a_failed_or_panicked_writer_fails_writes_and_readiness() {
    let fails = || Err(DurabilityError::new("write", "the disk is full"));
    let panics = || panic!("a durability that panics on purpose");
    let breaks: [fn() -> Result<(), DurabilityError>; 2] = [fails, panics];
    for (breaks, compacts) in [(breaks[0], false), (breaks[1], false), (breaks[0], true)] {
        let store = Store::open(Box::new(FailingDurability { breaks, compacts })).expect("a store");
        let first = store.write(write("a", Expect::Absent, Some(thing("a")))).await;
        assert_eq!(first.is_ok(), compacts, "what was kept is answered");
        store.shared.progress.subscribe().wait_for(|it| it.failed).await.expect("a failure");
        assert!(store.has_failed());
        let later = store.write(write("b", Expect::Absent, Some(thing("b")))).await;
        assert_eq!(later.map(|_| ()), Err(WriteError::Failed));
        let there = store.list("things", "").objects.len();
        assert_eq!(there, usize::from(compacts), "what was not kept is not shown");
    }
}

/// Red by: a start that is killed early and leaves a file that cannot be opened.
// Requirement: AK-33
#[test]
fn an_uninitialized_file_is_initialized_and_a_foreign_one_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    std::fs::write(&path, vec![0; 1 << 20]).expect("a file");
    let mut durability = FileDurability::open(&path).expect("a file");
    assert_eq!(durability.load().expect("nothing"), Loaded::default());
    assert!(FileDurability::open(&path).is_err(), "it is in use");
    drop(durability);
    let other = folder.path().join("g");
    std::fs::write(&other, "something else").expect("a file");
    assert!(FileDurability::open(&other).is_err());
    assert_eq!(std::fs::read(&other).expect("a file"), b"something else");
}

/// Red by: a compaction that is durable without its objects, or a log that is cut before them.
// Requirement: AK-32
#[test]
fn a_crash_around_a_compaction_loses_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, copied] = ["f", "g"].map(|it| folder.path().join(it));
    let mut durability = FileDurability::open(&path).expect("a file");
    let after_crash = || {
        std::fs::copy(&path, &copied).expect("a copy");
        let found = FileDurability::open(&copied).expect("a file").load().expect("all");
        (found.head, found.objects.len())
    };
    for revision in 2..40 {
        let key = format!("k{revision}");
        durability.commit(&[record(revision, &key, (None, Some("v")))]).expect("kept");
        let all = (revision, usize::try_from(revision - 1).expect("a count"));
        assert_eq!(after_crash(), all);
        if revision % 5 == 0 {
            durability.compact(revision - 2).expect("compacted");
            assert_eq!(after_crash(), all);
        }
    }
}
