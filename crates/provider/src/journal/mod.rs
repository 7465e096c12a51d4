//! The provider state on disk: entries appended in groups, and now and then a snapshot.
//!
//! ```text
//!   submit ──▶ queue ──▶ [ write, sync ] ──▶ durable     one thread, one group at a time
//!                              │
//!               the log grew: the state is written to a second file while groups continue,
//!               then the groups since, then that file is renamed over the first
//! ```
//!
//! **Invariants**
//! - Every entry reported as durable is read again after a crash.
//! - A group is one frame: it is read completely or not at all, and only the last can be torn.
//! - A frame with a wrong checksum that is not the last is corruption: the journal is not opened.
//! - After a failed write no entry is reported as durable: the content of the disk is unknown
//!   until it is read again.
//! - The cost of a mutation does not depend on the number of machines.

mod crc32c;
mod frame;
mod writer;

pub use frame::Corruption;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

use crate::state::{Entry, ProviderState};
use writer::{SnapshotTarget, Writer};

/// The progress of the writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Every entry up to this number is durable.
    Durable(u64),
    /// A write failed; the entries up to this number are durable.
    Failed(u64),
}

/// Why a journal cannot be opened or written.
#[derive(Debug, Error)]
pub enum Error {
    /// The disk failed.
    #[error("failed to access \"{}\"", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
    /// Another process holds its lock.
    #[error("\"{}\" is locked by another process", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// The file is corrupt.
    #[error("failed to read \"{}\"", path.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: Corruption,
    },
    /// A write failed, now or before.
    #[error("failed to write the journal")]
    WriteFailed,
}

/// The journal of a provider state.
#[derive(Debug)]
pub struct Journal {
    queue: Option<mpsc::Sender<Message>>,
    progress: watch::Receiver<Progress>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Held while the journal is open.
    _lock: Option<File>,
}

/// A state as the entries that rebuild it.
pub type Entries = Box<dyn Iterator<Item = Entry> + Send>;

/// A message to the writing thread.
enum Message {
    /// Write this entry with this number.
    Entry(u64, Box<Entry>),
    /// The state with every entry submitted before.
    Snapshot(Entries),
}

/// When snapshots are taken.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A snapshot is due after this many bytes were appended since the last one, and at least
    /// twice its size.
    pub snapshot_after_bytes: u64,
    /// A snapshot is due this long after a bootstrap blob was appended, to drop the blobs of ended
    /// operations; `None` never.
    pub forget_blobs_after: Option<Duration>,
}

impl Journal {
    /// A journal that writes nothing.
    pub fn none() -> Self {
        let (_, progress) = watch::channel(Progress::Durable(u64::MAX));
        Self { queue: None, progress, thread: None, _lock: None }
    }

    /// Opens the journal at a path, and the state that it holds; a new one gets `nonce`.
    ///
    /// The writing thread calls `snapshot_due`, which may call [`Journal::submit_snapshot`].
    pub fn open(
        path: &Path,
        nonce: u64,
        config: Config,
        snapshot_due: impl Fn() + Send + 'static,
    ) -> Result<(Self, ProviderState), Error> {
        let disk = |source| Error::Disk { path: path.to_owned(), source };
        let lock = lock(path)?;
        let mut open = OpenOptions::new();
        let open = open.read(true).append(true).create(true).mode(0o600);
        let mut file = open.open(path).map_err(disk)?;
        let bytes = fs::read(path).map_err(disk)?;
        let read = frame::read(&bytes)
            .map_err(|source| Error::Corrupt { path: path.to_owned(), source })?;
        let mut state = ProviderState::new(read.nonce.unwrap_or(nonce));
        if read.complete < bytes.len() {
            tracing::warn!(
                bytes = bytes.len() - read.complete,
                "torn group removed from the end of the journal"
            );
            file.set_len(as_u64(read.complete)).and_then(|()| file.sync_all()).map_err(disk)?;
        }
        if read.nonce.is_none() {
            file.write_all(&frame::head(nonce)).map_err(disk)?;
            file.sync_all().and_then(|()| sync_folder(path)).map_err(disk)?;
        }
        let has_blobs = read.entries.iter().any(Entry::has_blob);
        for entry in read.entries {
            state.apply(entry);
        }
        let length = file.metadata().map_err(disk)?.len();
        let (progress_sender, progress) = watch::channel(Progress::Durable(0));
        let (queue, messages) = mpsc::channel();
        let snapshot = SnapshotTarget { path: path.to_owned(), nonce: state.nonce() };
        let mut writer = Writer::new(file, length, read.groups, snapshot, config);
        writer.note_blobs(has_blobs);
        let thread = std::thread::Builder::new().name("journal".to_owned());
        let thread = thread
            .spawn(move || writer.run(&messages, &progress_sender, &snapshot_due))
            .map_err(disk)?;
        let journal =
            Self { queue: Some(queue), progress, thread: Some(thread), _lock: Some(lock) };
        Ok((journal, state))
    }

    /// Queues an entry. Numbers rise in the order of the calls.
    pub fn submit(&self, number: u64, entry: Entry) {
        if let Some(queue) = &self.queue {
            // A thread that ended has reported its failure.
            let _ = queue.send(Message::Entry(number, Box::new(entry)));
        }
    }

    /// Submits the current state as the next snapshot.
    pub fn submit_snapshot(&self, entries: Entries) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(Message::Snapshot(entries));
        }
    }

    /// Waits until every entry up to a number is durable.
    pub async fn wait_durable(&self, number: u64) -> Result<(), Error> {
        let mut progress = self.progress.clone();
        let seen = progress.wait_for(|it| match it {
            Progress::Durable(durable) => *durable >= number,
            Progress::Failed(_) => true,
        });
        match seen.await.as_deref() {
            Ok(Progress::Durable(_)) => Ok(()),
            Ok(Progress::Failed(durable)) if *durable >= number => Ok(()),
            Ok(Progress::Failed(_)) => Err(Error::WriteFailed),
            // The thread has ended; its last report holds.
            Err(_) => match *self.progress.borrow() {
                Progress::Durable(durable) if durable >= number => Ok(()),
                Progress::Durable(_) | Progress::Failed(_) => Err(Error::WriteFailed),
            },
        }
    }

    /// Waits until a write fails.
    pub async fn write_failed(&self) {
        if self.queue.is_none() {
            return std::future::pending().await;
        }
        let mut progress = self.progress.clone();
        // A closed channel means the thread has ended: that is a failure, too.
        let _ = progress.wait_for(|it| matches!(it, Progress::Failed(_))).await;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue = None;
        // The thread itself may drop the last reference, inside `snapshot_due`.
        let elsewhere =
            |it: &std::thread::JoinHandle<()>| it.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(elsewhere) {
            let _ = thread.join();
        }
    }
}

/// Locks a file beside the journal: the journal itself is replaced by snapshots.
fn lock(path: &Path) -> Result<File, Error> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".lock");
    let beside = PathBuf::from(beside);
    let disk = |source| Error::Disk { path: beside.clone(), source };
    let mut open = OpenOptions::new();
    let file = open.write(true).create(true).truncate(false).mode(0o600).open(&beside);
    let file = file.map_err(disk)?;
    match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(Error::Locked { path: path.to_owned() }),
        Err(why) => Err(disk(why.into())),
    }
}

/// Makes a rename or creation in the folder of `path` durable.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
