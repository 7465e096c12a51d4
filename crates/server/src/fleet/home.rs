//! The local provider: hosts of this machine, served by this process over gRPC.
//!
//! Servers that share a data directory share its hosts: one of them holds the lock and serves, the
//! others call it through its socket, and one of them takes over when it ends.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd as _;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use tokio::net::UnixListener;
use tokio::sync::watch;
use tokio::time::sleep;
use usher_provider::journal;
use usher_provider::kit::{Kit, Options, StartError, Timeouts};
use usher_provider::server::serve;
use usher_provider::service::Service;
use usher_wire::fleet::incoming_here;
use uuid::Uuid;

use crate::config::Local;
use crate::error::ServerError;
use crate::worker::stopped;
use usher_hosts::supervisor::{ignore_missing, private_folder};
use usher_hosts::{Hosts, Settings};
use usher_wire::chain;

/// Name of the provider.
pub const NAME: &str = "local";
/// The socket; only the owner of the folder can connect.
const SOCKET: &str = "socket";
/// The lock that the serving process holds.
const LOCK: &str = "lock";
/// The longest path of a socket.
const PATH_MAX: usize = 100;
/// A snapshot is taken after this many bytes of journal.
const SNAPSHOT_AFTER_BYTES: u64 = 16 << 20;
/// How often a waiting process tries to take the lock.
const TAKE_OVER_AFTER: Duration = Duration::from_secs(1);

/// The folder of the hosts of this machine.
#[derive(Debug)]
pub struct HostsFolder {
    root: PathBuf,
    local: Local,
    /// Keeps the descriptor open that the socket path may go through.
    folder: File,
}

/// A provider that listens and is not served yet.
pub struct Home {
    kit: Kit<Hosts>,
    listener: UnixListener,
}

impl HostsFolder {
    /// Opens the folder `root`; creates it if it does not exist.
    pub fn open(root: PathBuf, local: Local) -> Result<Self, ServerError> {
        private_folder().recursive(true).create(&root).map_err(|why| unusable(&why))?;
        let folder = File::open(&root).map_err(|why| unusable(&why))?;
        Ok(Self { root, local, folder })
    }

    /// The address of the serving process, for calls of this process.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket().display())
    }

    /// The path of the socket, shortened if the path of the folder is too long.
    fn socket(&self) -> PathBuf {
        let path = self.root.join(SOCKET);
        if path.as_os_str().len() <= PATH_MAX {
            return path;
        }
        PathBuf::from(format!("/proc/self/fd/{}", self.folder.as_raw_fd())).join(SOCKET)
    }

    /// Locks and opens the hosts; `None` if another server holds the lock.
    pub async fn take(&self) -> Result<Option<Home>, ServerError> {
        let mut open = File::options();
        let lock = open.write(true).create(true).truncate(false).open(self.root.join(LOCK));
        let lock = lock.map_err(|why| unusable(&why))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(why) => return Err(unusable(&why.into())),
        }
        let program = std::env::current_exe()
            .map_err(|why| ServerError::unavailable(format!("cannot find this program: {why}")))?;
        let slots = usize::try_from(self.local.machines).unwrap_or(usize::MAX);
        let root = self.root.clone();
        let settings = Settings { root, provider: NAME.to_owned(), slots, program };
        // An operation may outlive its caller: the lock is held until the last one has ended.
        let hosts = Hosts::open(settings).map_err(|why| unusable(&why))?.under(lock);
        let options = Options {
            state: Some(self.root.join("state")),
            nonce: Uuid::new_v4().as_u64_pair().1,
            timeouts: Timeouts::default(),
            poll_interval: Some(self.local.look_interval.0),
            snapshot_after_bytes: SNAPSHOT_AFTER_BYTES,
            forget_blobs_after: Some(self.local.forget_tokens.0),
        };
        let kit = match Kit::start(hosts, options).await {
            Ok(kit) => kit,
            // The previous holder has released the lock and not yet the journal.
            Err(StartError::Journal(journal::Error::Locked { .. })) => return Ok(None),
            Err(why) => return Err(ServerError::unavailable(chain(&why))),
        };
        // The process that bound it has ended: this process holds the lock.
        let socket = self.socket();
        ignore_missing(fs::remove_file(&socket)).map_err(|why| unusable(&why))?;
        let listener = UnixListener::bind(&socket).map_err(|why| unusable(&why))?;
        Ok(Some(Home { kit, listener }))
    }

    /// Serves, or waits for the lock, until the server stops; the nodes keep running. Returns an
    /// error after a failed write: only a restart shows what is on the disk.
    pub async fn keep(
        self,
        first: Option<Home>,
        mut stop: watch::Receiver<bool>,
    ) -> Result<(), ServerError> {
        let mut home = first;
        loop {
            if let Some(home) = home {
                return self.serve(home, stop).await;
            }
            tokio::select! {
                () = stopped(&mut stop) => return Ok(()),
                () = sleep(TAKE_OVER_AFTER) => {}
            }
            home = self.take().await?;
        }
    }

    async fn serve(&self, home: Home, mut stop: watch::Receiver<bool>) -> Result<(), ServerError> {
        let Home { kit, listener } = home;
        let stopping = async move { stopped(&mut stop).await };
        let served = tokio::select! {
            served = serve(incoming_here(listener), Service::new(kit.clone()), stopping) => served,
            () = kit.write_failed() => {
                return Err(ServerError::unavailable(
                    "failed to write the state of the local provider: repair the disk below \
                     `fleet` in the data directory and start again; the nodes keep running",
                ));
            }
        };
        // The next start removes it if this fails.
        let _ = fs::remove_file(self.socket());
        served.map_err(|why| {
            let why = chain(&why);
            ServerError::unavailable(format!("failed to serve the local provider: {why}"))
        })
    }
}

fn unusable(why: &io::Error) -> ServerError {
    ServerError::unavailable(format!("failed to access the hosts of this machine: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOOKS: u32 = 6_000;

    fn hosts_folder(dir: &tempfile::TempDir) -> HostsFolder {
        HostsFolder::open(dir.path().join("fleet"), Local::default())
            .unwrap_or_else(|_| panic!("open"))
    }

    async fn take(hosts_folder: &HostsFolder) -> Option<Home> {
        let taken = hosts_folder.take().await;
        taken.unwrap_or_else(|_| panic!("a held lock is an error"))
    }

    /// Takes the hosts when the lock is free. A process that another test forks inherits the open
    /// files of this one until it executes its program.
    async fn take_soon(hosts_folder: &HostsFolder) -> Home {
        for _ in 0..LOOKS {
            if let Some(home) = take(hosts_folder).await {
                return home;
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("the hosts stay locked");
    }

    /// Red by: a lock that is released with the server although operations still run.
    #[tokio::test]
    async fn the_hosts_stay_locked_while_an_operation_runs_on_them() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (hosts_folder(&dir), hosts_folder(&dir));
        let home = take(&one).await.unwrap();
        let at_work = home.kit.clone();
        drop(home);
        assert!(take(&other).await.is_none());
        drop(at_work);
        drop(take_soon(&other).await);
    }

    /// Red by: a server that fails because its predecessor has not released everything yet.
    #[tokio::test]
    async fn the_hosts_are_not_taken_while_their_journal_is_locked() {
        let dir = tempfile::tempdir().unwrap();
        let hosts_folder = hosts_folder(&dir);
        let held = File::create(dir.path().join("fleet").join("state.lock")).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        assert!(take(&hosts_folder).await.is_none());
        drop(held);
        drop(take_soon(&hosts_folder).await);
    }
}
