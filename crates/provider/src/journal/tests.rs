//! Torn, corrupt and locked files, and failing disks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use tempfile::TempDir;
use usher_wire::fleet::Machine;

use super::*;
use crate::state::{Mark, Pending, Record};

const CONFIG: Config = Config { snapshot_after_bytes: 1 << 30, forget_blobs_after: None };

fn entry(number: u64) -> Entry {
    let machine = Some(Machine { id: format!("m{number}"), ..Machine::default() });
    let record = Some(Record { machine, revision: number, ..Record::default() });
    Entry { head: number, next_operation: number, record, mark: None }
}

fn place() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state");
    (folder, path)
}

fn open(path: &Path) -> Result<(Journal, ProviderState), Error> {
    Journal::open(path, 9, CONFIG, || ())
}

async fn written(path: &Path, groups: std::ops::RangeInclusive<u64>) {
    let (journal, _) = open(path).unwrap();
    for (number, entry) in groups.clone().map(entry).enumerate() {
        let number = as_u64(number) + 1;
        journal.submit(number, entry);
        journal.wait_durable(number).await.unwrap();
    }
}

// Requirement: PM-9
#[tokio::test]
async fn durable_entries_are_read_again() {
    let (_folder, path) = place();
    written(&path, 1..=3).await;
    let (journal, state) = open(&path).unwrap();
    assert_eq!((state.len(), state.nonce()), (3, 9));
    drop(journal);
    written(&path, 4..=5).await;
    assert_eq!(open(&path).unwrap().1.len(), 5);
}

// Requirement: PM-9
#[tokio::test]
async fn a_torn_tail_is_truncated_at_any_length() {
    let (folder, path) = place();
    written(&path, 1..=2).await;
    let two = fs::read(&path).unwrap();
    written(&path, 3..=3).await;
    let three = fs::read(&path).unwrap();
    for length in two.len()..three.len() {
        let torn = folder.path().join(format!("torn-{length}"));
        fs::write(&torn, &three[..length]).unwrap();
        let (journal, state) = open(&torn).unwrap();
        assert_eq!(state.len(), 2);
        drop(journal);
        assert_eq!(fs::read(&torn).unwrap(), two);
    }
    // Unwritten blocks are zeros.
    let zeros = folder.path().join("zeros");
    fs::write(&zeros, [&three[..two.len() + 30], &[0; 5000]].concat()).unwrap();
    assert_eq!(open(&zeros).unwrap().1.len(), 2);
}

// Requirement: PM-9
#[tokio::test]
async fn corruption_before_the_end_is_an_error() {
    let (_folder, path) = place();
    written(&path, 1..=3).await;
    let whole = fs::read(&path).unwrap();
    let last = frame::group(3, [entry(3)].iter()).len();
    for at in (0..whole.len() - last).step_by(3) {
        let mut damaged = whole.clone();
        damaged[at] ^= 0x10;
        fs::write(&path, &damaged).unwrap();
        let refused = open(&path).unwrap_err();
        assert!(matches!(refused, Error::Corrupt { .. }), "byte {at}: {refused:?}");
        assert_eq!(fs::read(&path).unwrap(), damaged, "the file is unchanged");
    }
}

#[test]
fn a_second_open_is_refused() {
    let (_folder, path) = place();
    let _first = open(&path).unwrap();
    assert!(matches!(open(&path), Err(Error::Locked { .. })));
}

// Requirement: PM-9
#[tokio::test]
async fn entries_are_not_durable_after_a_failed_write() {
    // A disk that is always full.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
    let (progress_sender, progress) = watch::channel(Progress::Durable(0));
    let (queue, messages) = mpsc::channel();
    let snapshot = SnapshotTarget { path: "/dev/null/none".into(), nonce: 9 };
    let writer = Writer::new(full, 0, 1, snapshot, CONFIG);
    let thread = std::thread::spawn(move || writer.run(&messages, &progress_sender, &|| ()));
    let journal = Journal { queue: Some(queue), progress, thread: Some(thread), _lock: None };
    journal.submit(1, entry(1));
    assert!(matches!(journal.wait_durable(1).await, Err(Error::WriteFailed)));
    journal.write_failed().await;
    journal.submit(2, entry(2));
    assert!(matches!(journal.wait_durable(2).await, Err(Error::WriteFailed)));
}

// Requirement: PM-9
#[tokio::test]
async fn a_snapshot_replaces_a_long_journal() {
    let (_folder, path) = place();
    let due = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&due);
    let config = Config { snapshot_after_bytes: 2_000, ..CONFIG };
    let snapshot_due = move || _ = count.fetch_add(1, Ordering::SeqCst);
    let (journal, mut state) = Journal::open(&path, 9, config, snapshot_due).unwrap();
    let (mut number, mut answered) = (0, 0);
    let (mut length, mut replaced) = (0, false);
    // Always the same machine: the state stays small while the journal grows.
    while !replaced {
        number += 1;
        assert!(number < 1_000_000, "it was not replaced: {length} bytes, {answered} snapshots");
        let machine = Some(Machine { id: "m".to_owned(), ..Machine::default() });
        let record = Some(Record { machine, revision: number, ..Record::default() });
        let mark = Mark { shard: "s".to_owned(), machine: "m".to_owned(), ..Mark::default() };
        let entry = Entry { head: number, next_operation: 1, record, mark: Some(mark) };
        state.apply(entry.clone());
        journal.submit(number, entry);
        journal.wait_durable(number).await.unwrap();
        let before = std::mem::replace(&mut length, fs::metadata(&path).unwrap().len());
        replaced = length < before;
        if due.load(Ordering::SeqCst) > answered {
            answered += 1;
            journal.submit_snapshot(Box::new(state.entries()));
        }
    }
    drop(journal);
    let (_, read) = open(&path).unwrap();
    let text = |state: &ProviderState| {
        let mut lines: Vec<_> = state.entries().map(|it| format!("{it:?}")).collect();
        lines.sort();
        lines
    };
    assert_eq!(text(&read), text(&state));
}

/// Red by: a token that stays in the file until enough bytes were appended.
// Requirement: F-80
#[tokio::test]
async fn blobs_of_ended_operations_are_dropped_soon() {
    let (_folder, path) = place();
    let (due, mut dues) = tokio::sync::mpsc::unbounded_channel();
    let forget_blobs_after = Some(std::time::Duration::from_millis(1));
    let config = Config { forget_blobs_after, ..CONFIG };
    let snapshot_due = move || _ = due.send(());
    let (journal, mut state) = Journal::open(&path, 9, config, snapshot_due).unwrap();
    let of = |revision, pending| {
        let machine = Some(Machine { id: "m".to_owned(), ..Machine::default() });
        let record = Some(Record { machine, pending, revision, ..Record::default() });
        Entry { head: revision, next_operation: 1, record, mark: None }
    };
    let pending = Pending { blob: "canary".into(), ..Pending::default() };
    let holds = || String::from_utf8_lossy(&fs::read(&path).unwrap()).contains("canary");
    for (number, pending) in [(1, Some(pending)), (2, None)] {
        state.apply(of(number, pending.clone()));
        journal.submit(number, of(number, pending));
        journal.wait_durable(number).await.unwrap();
    }
    assert!(holds(), "it is needed until the operation ends");
    while holds() {
        dues.recv().await.unwrap();
        journal.submit_snapshot(Box::new(state.entries()));
        // A snapshot is adopted between two groups, or while the queue is empty.
        while holds() && dues.is_empty() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
    drop(journal);
    let (_, read) = open(&path).unwrap();
    assert_eq!(read.get("m"), state.get("m"));
}

proptest! {
    #[test]
    fn a_random_tail_is_never_decoded(bytes: Vec<u8>, groups in 0_u64..4) {
        let mut file = frame::head(5);
        for number in 1..=groups {
            file.extend(frame::group(number, [entry(number)].iter()));
        }
        let whole = file.len();
        file.extend(&bytes);
        let read = frame::read(&file).unwrap();
        prop_assert_eq!(read.complete, whole);
        prop_assert_eq!(as_u64(read.entries.len()), groups);
    }
}
