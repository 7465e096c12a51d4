//! The provider state on disk: entries appended in groups, and now and then a snapshot.
//!
//! ```text
//!   submit ──▶ queue ──▶ [ write, sync ] ──▶ safe        one thread, one group at a time
//!                              │
//!               the log grew: the state is written to a second file while groups go on,
//!               then the groups since, then that file is renamed over the first
//! ```
//!
//! **Invariants**
//! - What was reported as safe is found again after a crash.
//! - A group is one frame: it is found whole or not at all, and only the last can be torn.
//! - A frame that does not fit its sum and is not the last is damage, and nothing is opened then.
//! - After a write failed nothing is reported as safe any more: what the disk holds is not known
//!   until it is read again.
//! - What one mutation costs does not depend on how many machines there are.

mod crc32c;
mod frame;
mod writer;

pub use frame::Damage;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use std::time::Duration;

use thiserror::Error;
use tokio::sync::watch;

use crate::point::Pass;
use crate::state::{Entry, ProviderState};
use writer::{SnapshotTarget, Writer};

/// How far the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// Everything up to this number is safe.
    Durable(u64),
    /// A write failed after this number.
    Failed(u64),
}

/// Why a journal cannot be used.
#[derive(Debug, Error)]
pub enum Error {
    /// The disk failed.
    #[error("cannot use \"{}\"", path.display())]
    Disk {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: io::Error,
    },
    /// Another process has it.
    #[error("cannot use \"{}\": another process does", path.display())]
    Locked {
        /// The file.
        path: PathBuf,
    },
    /// It was damaged.
    #[error("cannot read \"{}\"", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// How.
        #[source]
        source: Damage,
    },
    /// A write failed, now or before.
    #[error("cannot write the journal")]
    WriteFailed,
}

/// The journal of a provider state.
#[derive(Debug)]
pub struct Journal {
    queue: Option<mpsc::Sender<Message>>,
    progress: watch::Receiver<Progress>,
    thread: Option<std::thread::JoinHandle<()>>,
    /// Held while the file is ours.
    _lock: Option<File>,
}

/// A state as the entries that rebuild it.
pub type Entries = Box<dyn Iterator<Item = Entry> + Send>;

/// What the writing thread is progress_sender.
enum Message {
    /// Write this; its number.
    Entry(u64, Box<Entry>),
    /// The state with every entry submitted before.
    Snapshot(Entries),
}

/// How a journal is kept.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// A snapshot is taken when so many bytes were appended since the last one, and at least twice
    /// as many as it has.
    pub snapshot_after_bytes: u64,
    /// A snapshot is taken so long after a bootstrap blob was appended: it lacks those that are not
    /// needed any more. Never, if nothing.
    pub forget_blobs_after: Option<Duration>,
}

impl Journal {
    /// A journal that keeps nothing.
    pub fn none() -> Self {
        let (_, progress) = watch::channel(Progress::Durable(u64::MAX));
        Self { queue: None, progress, thread: None, _lock: None }
    }

    /// Opens the journal at a path, and the state that it holds; a new one gets `nonce`.
    ///
    /// `snapshot_due` is called by the writing thread when a snapshot is due; it answers with
    /// [`Journal::submit_snapshot`] or not at all.
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
            .map_err(|source| Error::Damaged { path: path.to_owned(), source })?;
        let mut state = ProviderState::new(read.nonce.unwrap_or(nonce));
        if read.whole < bytes.len() {
            tracing::warn!(bytes = bytes.len() - read.whole, "the journal ended in half a group");
            file.set_len(as_u64(read.whole)).and_then(|()| file.sync_all()).map_err(disk)?;
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

    /// Hands an entry to the disk. Numbers rise in the order of the calls.
    pub fn submit(&self, number: u64, entry: Entry) {
        if let Some(queue) = &self.queue {
            // A thread that ended has said that it is broken.
            let _ = queue.send(Message::Entry(number, Box::new(entry)));
        }
    }

    /// Submits the current state as the next snapshot.
    pub fn submit_snapshot(&self, entries: Entries) {
        if let Some(queue) = &self.queue {
            let _ = queue.send(Message::Snapshot(entries));
        }
    }

    /// Returns when everything up to a number is safe.
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
            // Nobody tells any more; that is fine if everything was progress_sender.
            Err(_) => match *self.progress.borrow() {
                Progress::Durable(durable) if durable >= number => Ok(()),
                Progress::Durable(_) | Progress::Failed(_) => Err(Error::WriteFailed),
            },
        }
    }

    /// Returns when a write failed.
    pub async fn write_failed(&self) {
        if self.queue.is_none() {
            return std::future::pending().await;
        }
        let mut progress = self.progress.clone();
        // Whoever tells no more has ended, and that is no better.
        let _ = progress.wait_for(|it| matches!(it, Progress::Failed(_))).await;
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.queue = None;
        // The thread itself may hold the last of it, while it asks for a snapshot.
        let elsewhere =
            |it: &std::thread::JoinHandle<()>| it.thread().id() != std::thread::current().id();
        if let Some(thread) = self.thread.take().filter(elsewhere) {
            let _ = thread.join();
        }
    }
}

/// Takes the lock beside the file: the file itself is replaced by snapshots.
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

/// Makes a name in a folder as safe as what it names.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    File::open(folder.unwrap_or_else(|| Path::new(".")))?.sync_all()
}

fn as_u64(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
