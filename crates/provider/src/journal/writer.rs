//! The writing thread.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use usher_failpoint::Failpoint;

use super::{Config, Entries, Message, Progress, as_u64, frame, sync_folder};
use crate::state::Entry;

/// The size at which a group is closed.
const GROUP_BYTES_MAX: usize = 4 << 20;
/// How often the thread checks whether a snapshot is finished.
const SNAPSHOT_POLL: Duration = Duration::from_millis(20);
/// Entries per group of a snapshot.
const SNAPSHOT_GROUP: usize = 512;

/// The file and nonce of snapshots.
#[derive(Clone, Debug)]
pub(super) struct SnapshotTarget {
    pub(super) path: PathBuf,
    pub(super) nonce: u64,
}

/// The state of the thread.
#[derive(Debug)]
pub(super) struct Writer {
    file: File,
    length: u64,
    groups: u64,
    snapshot: SnapshotTarget,
    config: Config,
    /// The length at which the next snapshot is due.
    due: u64,
    snapshotting: Snapshotting,
    durable: u64,
    /// Since when the file holds a bootstrap blob.
    blob_since: Option<Instant>,
}

/// The progress of a snapshot.
#[derive(Debug)]
enum Snapshotting {
    /// No snapshot is in progress.
    None,
    /// `snapshot_due` was called.
    Requested,
    /// A thread writes it; these groups were appended since.
    Writing(JoinHandle<io::Result<StagedSnapshot>>, Vec<Vec<Entry>>),
}

/// A snapshot before its rename.
#[derive(Debug)]
struct StagedSnapshot {
    file: File,
    path: PathBuf,
    length: u64,
    groups: u64,
    has_blobs: bool,
}

impl Writer {
    pub(super) fn new(
        file: File,
        length: u64,
        groups: u64,
        snapshot: SnapshotTarget,
        config: Config,
    ) -> Self {
        let due = length.saturating_mul(3).max(length + config.snapshot_after_bytes);
        let groups = groups.max(1);
        let (snapshotting, durable, blob_since) = (Snapshotting::None, 0, None);
        Self { file, length, groups, snapshot, config, due, snapshotting, durable, blob_since }
    }

    /// Records that the file holds a bootstrap blob.
    pub(super) fn note_blobs(&mut self, has_blobs: bool) {
        if has_blobs && self.blob_since.is_none() {
            self.blob_since = Some(Instant::now());
        }
    }

    /// When the next snapshot is due because of blobs.
    fn forget_at(&self) -> Option<Instant> {
        self.blob_since?.checked_add(self.config.forget_blobs_after?)
    }

    /// Writes groups until every sender is dropped.
    pub(super) fn run(
        mut self,
        messages: &Receiver<Message>,
        progress_sender: &watch::Sender<Progress>,
        snapshot_due: &impl Fn(),
    ) {
        while let Some(group) = self.next_group(messages) {
            let done = self.write(&group).and_then(|()| self.adopt_snapshot());
            match done {
                Ok(()) => _ = progress_sender.send_replace(Progress::Durable(self.durable)),
                Err(why) => {
                    tracing::error!(%why, "failed to write the journal");
                    progress_sender.send_replace(Progress::Failed(self.durable));
                    return;
                }
            }
            let is_due =
                self.length >= self.due || self.forget_at().is_some_and(|at| at <= Instant::now());
            if is_due && matches!(self.snapshotting, Snapshotting::None) {
                self.snapshotting = Snapshotting::Requested;
                snapshot_due();
            }
        }
    }

    /// Waits for entries and takes all queued ones; `None` at the end.
    fn next_group(&mut self, messages: &Receiver<Message>) -> Option<Vec<(u64, Entry)>> {
        let wait = match &self.snapshotting {
            Snapshotting::None => {
                self.forget_at().map(|at| at.saturating_duration_since(Instant::now()))
            }
            Snapshotting::Requested => None,
            Snapshotting::Writing(thread, _) if thread.is_finished() => return Some(Vec::new()),
            Snapshotting::Writing(..) => Some(SNAPSHOT_POLL),
        };
        let first = match wait {
            None => messages.recv().ok()?,
            Some(wait) => match messages.recv_timeout(wait) {
                Ok(message) => message,
                Err(RecvTimeoutError::Timeout) => return Some(Vec::new()),
                Err(RecvTimeoutError::Disconnected) => return None,
            },
        };
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = Ok(first);
        loop {
            match next {
                Ok(Message::Entry(number, entry)) => {
                    bytes += prost::Message::encoded_len(entry.as_ref());
                    group.push((number, *entry));
                }
                // The snapshot already holds the entries before it. Writing the rest of the group
                // to it again, in the same order, is harmless.
                Ok(Message::Snapshot(entries)) => self.begin_snapshot(entries),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => return Some(group),
            }
            if bytes >= GROUP_BYTES_MAX {
                return Some(group);
            }
            next = messages.try_recv();
        }
    }

    fn begin_snapshot(&mut self, entries: Entries) {
        let snapshot = self.snapshot.clone();
        let thread = std::thread::Builder::new().name("snapshot".to_owned());
        let spawned = thread.spawn(move || {
            let staged = write_snapshot(&snapshot, entries);
            Failpoint::SnapshotStaged.pass();
            staged
        });
        self.snapshotting = if let Ok(thread) = spawned {
            Snapshotting::Writing(thread, Vec::new())
        } else {
            // Retried after the same interval.
            self.blob_since = self.blob_since.map(|_| Instant::now());
            Snapshotting::None
        };
    }

    fn write(&mut self, group: &[(u64, Entry)]) -> io::Result<()> {
        let Some((last, _)) = group.last() else { return Ok(()) };
        let bytes = frame::group(self.groups, group.iter().map(|(_, entry)| entry));
        Failpoint::BeforeAppend.pass();
        self.file.write_all(&bytes)?;
        Failpoint::BeforeSync.pass();
        self.file.sync_data()?;
        Failpoint::AfterSync.pass();
        self.groups += 1;
        self.length += as_u64(bytes.len());
        self.durable = *last;
        self.note_blobs(group.iter().any(|(_, entry)| entry.has_blob()));
        if let Snapshotting::Writing(_, since) = &mut self.snapshotting {
            since.push(group.iter().map(|(_, entry)| entry.clone()).collect());
        }
        Ok(())
    }

    /// Switches to the snapshot once it is written. A failed one is dropped: the current file
    /// still holds everything.
    fn adopt_snapshot(&mut self) -> io::Result<()> {
        let finished =
            matches!(&self.snapshotting, Snapshotting::Writing(thread, _) if thread.is_finished());
        if !finished {
            return Ok(());
        }
        let Snapshotting::Writing(thread, since) =
            std::mem::replace(&mut self.snapshotting, Snapshotting::None)
        else {
            return Ok(());
        };
        let staged =
            thread.join().unwrap_or_else(|_| Err(io::Error::other("the snapshot thread panicked")));
        let adopted = staged.and_then(|mut staged| {
            for group in &since {
                let bytes = frame::group(staged.groups, group.iter());
                staged.file.write_all(&bytes)?;
                staged.groups += 1;
                staged.length += as_u64(bytes.len());
                staged.has_blobs |= group.iter().any(Entry::has_blob);
            }
            staged.file.sync_all()?;
            Ok(staged)
        });
        let staged = match adopted {
            Ok(staged) => staged,
            Err(why) => {
                tracing::warn!(%why, "failed to take a snapshot of the journal");
                self.due = self.length + self.config.snapshot_after_bytes;
                // Retried after the same interval.
                self.blob_since = self.blob_since.map(|_| Instant::now());
                return Ok(());
            }
        };
        fs::rename(&staged.path, &self.snapshot.path)?;
        Failpoint::SnapshotNamed.pass();
        sync_folder(&self.snapshot.path)?;
        (self.file, self.length, self.groups) = (staged.file, staged.length, staged.groups);
        self.blob_since = None;
        self.note_blobs(staged.has_blobs);
        let after = self.config.snapshot_after_bytes;
        self.due = self.length.saturating_mul(3).max(self.length + after);
        Ok(())
    }
}

fn write_snapshot(snapshot: &SnapshotTarget, mut entries: Entries) -> io::Result<StagedSnapshot> {
    let mut path = snapshot.path.as_os_str().to_owned();
    path.push(".new");
    let path = PathBuf::from(path);
    let mut open = OpenOptions::new();
    let mut file = open.write(true).create(true).truncate(true).mode(0o600).open(&path)?;
    let head = frame::head(snapshot.nonce);
    file.write_all(&head)?;
    let (mut length, mut groups, mut has_blobs) = (as_u64(head.len()), 1, false);
    loop {
        let some: Vec<Entry> = entries.by_ref().take(SNAPSHOT_GROUP).collect();
        if some.is_empty() {
            break;
        }
        let bytes = frame::group(groups, some.iter());
        file.write_all(&bytes)?;
        length += as_u64(bytes.len());
        groups += 1;
        has_blobs |= some.iter().any(Entry::has_blob);
    }
    file.sync_all()?;
    Ok(StagedSnapshot { file, path, length, groups, has_blobs })
}
